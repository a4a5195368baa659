"""What two runs enqueued, aligned in order: kernels added, removed, replaced, slower or faster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analyses.diff.merge_tables import SIDES, largest_change_first
from analyses.scope import Scope
from hta_graph.alignment.sequence_alignment import align
from hta_graph.attribution.call_paths import CallPaths
from hta_graph.model import Ids, Ints

NAMES_SHOWN = 4
"""How many kernels of a changed run are named."""


@dataclass(frozen=True)
class EnqueuedWork:
    """GPU activities in the order in which they were enqueued: canonical row, length, call path, name."""

    row: Ids
    length: Ints
    path: Ids
    name: Ids

    @classmethod
    def of(cls, scope: Scope, paths: CallPaths) -> EnqueuedWork:
        """Order a window's work by when it was enqueued."""
        events, work = scope.graph.event_table, scope.work
        # The order of launches is the program's; that of starts differs from run to run where streams race.
        enqueued = np.where(work.call >= 0, events.start[work.call], work.start)
        order = np.lexsort((work.row, enqueued))
        work = work.take(order)
        path = paths.around(scope.graph, work.call)
        return cls(work.row, work.end - work.start, path, events.name[work.row])


def kernel_changes(control: Scope, test: Scope) -> pd.DataFrame:
    """Align what both runs enqueued, by call path and kernel name in order, and list the differences.

    Returns:
        change (``added``, ``removed``, ``replaced``: other kernels at one place; ``slower``, ``faster``: the same
        kernel), call_path, kernels (the first names; control ⇒ test where they differ), times (how often), control_ns,
        test_ns, diff_ns, control_index, test_index (the first event of each side, null where there is none).
    """
    paths = CallPaths()
    left, right = EnqueuedWork.of(control, paths), EnqueuedWork.of(test, paths)
    matched = align(*common_codes(left, right, control, test))
    rows = _same_kernels(left, right, matched, control, test)
    rows += _changed_runs(left, right, matched, control, test)
    keys = ["change", "path", "kernels"]
    columns = [*keys, "times", "control_ns", "test_ns", "control_index", "test_index"]
    frame = pd.DataFrame(rows, columns=columns)
    sums = {"times": "sum", "control_ns": "sum", "test_ns": "sum", "control_index": "first", "test_index": "first"}
    frame = frame.groupby(keys, sort=False).agg(sums).reset_index()
    frame.insert(1, "call_path", pd.Series([paths.label(path) for path in frame.pop("path")], dtype=object))
    for side in SIDES:
        frame[f"{side}_index"] = frame[f"{side}_index"].astype("Int64")
    indices = {name: frame.pop(name) for name in ("control_index", "test_index")}
    return largest_change_first(frame.assign(**indices))


def common_codes(left: EnqueuedWork, right: EnqueuedWork, control: Scope, test: Scope) -> tuple[Ints, Ints]:
    """Number (call path, kernel name) alike on both sides."""
    number: dict[str, int] = {}
    sides = []
    for sequence, scope in ((left, control), (right, test)):
        names = scope.graph.names
        code = np.zeros(len(names) + 1, np.int64)
        for name in np.unique(sequence.name).tolist():
            code[name] = number.setdefault(names[name], len(number))
        sides.append(sequence.path.astype(np.int64) << 32 | code[sequence.name])  # both fit 32 bits: one number a pair
    return sides[0], sides[1]


def _same_kernels(
    left: EnqueuedWork, right: EnqueuedWork, matched: tuple[Ints, Ints], control: Scope, test: Scope
) -> list[tuple[Any, ...]]:
    """Sum the matched kernels by call path and name."""
    a, b = matched
    frame = pd.DataFrame({"path": left.path[a], "name": left.name[a], "a": left.length[a], "b": right.length[b]})
    frame["left"], frame["right"] = left.row[a], right.row[b]
    found = frame.groupby(["path", "name"]).agg(
        times=("a", "size"), a=("a", "sum"), b=("b", "sum"), left=("left", "first"), right=("right", "first")
    )
    rows = []
    for (path, name), times, was, now, one, other in found.itertuples():
        if was != now:
            kernel = control.graph.names[name]
            index = _event_number(control, one), _event_number(test, other)
            rows.append(("slower" if now > was else "faster", path, kernel, times, was, now, *index))
    return rows


def _changed_runs(
    left: EnqueuedWork, right: EnqueuedWork, matched: tuple[Ints, Ints], control: Scope, test: Scope
) -> list[tuple[Any, ...]]:
    """List the runs of unmatched kernels between matched ones."""
    # Between one matched pair and the next is what only one side has, or what one has in place of the other's:
    # control   A  B  x  C        x is replaced by y, z is added
    # test      A  B  y  C  z
    a = np.concatenate([[-1], matched[0], [len(left.row)]])
    b = np.concatenate([[-1], matched[1], [len(right.row)]])
    rows = []
    for at in np.flatnonzero((np.diff(a) > 1) | (np.diff(b) > 1)).tolist():
        mine, theirs = slice(int(a[at]) + 1, int(a[at + 1])), slice(int(b[at]) + 1, int(b[at + 1]))
        rows.append(_changed_run(left, right, mine, theirs, control, test))
    return rows


def _changed_run(
    left: EnqueuedWork, right: EnqueuedWork, mine: slice, theirs: slice, control: Scope, test: Scope
) -> tuple[Any, ...]:
    """Describe one run of unmatched kernels."""
    was, now = left.row[mine], right.row[theirs]
    change = "replaced" if len(was) and len(now) else "removed" if len(was) else "added"
    path = int(left.path[mine][0]) if len(was) else int(right.path[theirs][0])
    return (
        change,
        path,
        " ⇒ ".join(filter(None, (_first_kernels(control, was), _first_kernels(test, now)))),
        1,
        int(left.length[mine].sum()),
        int(right.length[theirs].sum()),
        _event_number(control, int(was[0])) if len(was) else None,
        _event_number(test, int(now[0])) if len(now) else None,
    )


def _first_kernels(scope: Scope, rows: Ids) -> str:
    """Name the first kernels of a run."""
    names = [scope.graph.name_of(row) for row in rows[:NAMES_SHOWN].tolist()]
    return " → ".join(names) + (f" → {len(rows) - NAMES_SHOWN} more" if len(rows) > NAMES_SHOWN else "")


def _event_number(scope: Scope, row: int) -> int:
    """Return the place of an event in its file."""
    return int(scope.graph.event_table.index[row])
