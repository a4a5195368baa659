"""What two runs enqueued, aligned in order: kernels and collectives added, removed, replaced, moved, slower or faster.

control   A  B  C  D        C is moved: the same kernel at another place, under another operator or on another stream
test      A  C  B  E        D is replaced by E
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analyses.compare.diff.merge_tables import SIDES, largest_change_first
from analyses.declare.columns import Table, integer, ns, text
from analyses.declare.scope import Scope
from hta_graph.attribution.call_paths import CallPaths
from hta_graph.attribution.sequence_alignment import align
from hta_graph.model import EventKind, Ids, Ints
from hta_graph.trace.profiler_names import PROCESS_GROUP_CALL

STREAM_CHANGE = r" \(stream -?\d+ ⇒ -?\d+\)$"
NAMES_SHOWN = 4
"""How many kernels of a changed run are named."""


@dataclass(frozen=True)
class EnqueuedWork:
    """GPU activities in the order in which they were enqueued: canonical row, length, call path, name, stream."""

    row: Ids
    length: Ints
    path: Ids
    name: Ids
    stream: Ids | Ints

    @classmethod
    def of(cls, scope: Scope, paths: CallPaths) -> EnqueuedWork:
        """Order a window's work by when it was enqueued."""
        events, work = scope.graph.event_table, scope.work
        # The order of launches is the program's; that of starts differs from run to run where streams race.
        enqueued = np.where(work.call >= 0, events.start[work.call], work.start)
        order = np.lexsort((work.row, enqueued))
        work = work.take(order)
        path = paths.around_activities(scope.graph, work.row, work.call)
        stream = scope.graph.lanes.stream[work.lane]
        return cls(work.row, work.end - work.start, path, events.name[work.row], stream)

    @classmethod
    def with_host_collectives(cls, scope: Scope, paths: CallPaths) -> EnqueuedWork:
        """Order a window's work; without a GPU the calls of its collectives, in order of time."""
        if len(scope.work):
            return cls.of(scope, paths)
        graph, events = scope.graph, scope.graph.event_table
        calls = np.array([name in PROCESS_GROUP_CALL for name in graph.names] or [False])[events.name]
        rows = np.flatnonzero(calls & (events.kind == EventKind.CPU_OP)).astype(np.int32)
        rows = rows[scope.holds(rows)]
        rows = rows[np.lexsort((rows, events.start[rows]))]
        path = paths.around(graph, rows)
        nowhere = np.full(len(rows), -1, np.int64)
        return cls(rows, events.end[rows] - events.start[rows], path, events.name[rows], nowhere)


KERNEL_CHANGES = Table(
    text("change", "Kind of change.", values=["added", "removed", "replaced", "moved", "slower", "faster"]),
    "call_path",
    text("kernels", "Names of the first kernels; control ⇒ test where they differ."),
    integer("times", "Number of occurrences."),
    *(ns("control_ns", "Time in the control"), ns("test_ns", "Time in the test"), "diff_ns"),
    integer("control_index", "Event index of the first occurrence in the control; null if there is none.", null=True),
    integer("test_index", "Event index of the first occurrence in the test; null if there is none.", null=True),
)


@KERNEL_CHANGES.returned
def kernel_changes(control: Scope, test: Scope) -> pd.DataFrame:
    """Align what both runs enqueued, by call path and kernel name in order, and list the differences.

    Where other kernels are at one place these are ``replaced``; the same kernel at another place or on another stream
    is ``moved``. A call path that differs is shown as before ⇒ after.
    """
    paths = CallPaths()
    left, right = (EnqueuedWork.with_host_collectives(scope, paths) for scope in (control, test))
    matched = align(*common_codes(left, right, control, test))
    moved = _moved(left, right, matched, control, test)
    rows = _moved_kernels(left, right, moved, control, test)
    rows += _same_kernels(left, right, matched, control, test)
    rows += _changed_runs(left, right, matched, moved, control, test)
    keys = ["change", "path", "path_after", "kernels"]
    columns = [*keys, "times", "control_ns", "test_ns", "control_index", "test_index"]
    frame = pd.DataFrame(rows, columns=columns)
    sums = {"times": "sum", "control_ns": "sum", "test_ns": "sum", "control_index": "first", "test_index": "first"}
    frame = frame.groupby(keys, sort=False).agg(sums).reset_index()
    labels = [
        _path_label(paths, one, other) for one, other in zip(frame.pop("path"), frame.pop("path_after"), strict=True)
    ]
    frame.insert(1, "call_path", pd.Series(labels, dtype=object))
    for side in SIDES:
        frame[f"{side}_index"] = frame[f"{side}_index"].astype("Int64")
    indices = {name: frame.pop(name) for name in ("control_index", "test_index")}
    return largest_change_first(frame.assign(**indices))


@dataclass(frozen=True)
class WorkChanges:
    """How many pieces of work of each name moved, are new and are gone, and from where to where the first one moved."""

    moved: Mapping[str, int]
    new: Mapping[str, int]
    gone: Mapping[str, int]
    places: tuple[str, str] = ("", "")

    def __bool__(self) -> bool:
        """Return whether anything changed."""
        return bool(self.moved or self.new or self.gone)


def work_changes(control: Scope, test: Scope, changes: pd.DataFrame) -> tuple[WorkChanges, WorkChanges]:
    """Return what changed among the collectives of two windows, and among their other GPU work.

    Args:
        control: the window to compare with.
        test: the window that changed.
        changes: all changes in order, as :func:`kernel_changes` lists them.
    """
    counts = [_counts_by_name(scope) for scope in (control, test)]
    names = changes["kernels"].str.replace(STREAM_CHANGE, "", regex=True)
    moved = changes.assign(kernels=names)[changes["change"] == "moved"]
    found = []
    for before, after in zip(*counts, strict=True):
        own = moved[moved["kernels"].isin(set(before))]
        places = own["call_path"].iloc[0].partition(" ⇒ ")[::2] if len(own) else ("", "")
        times: Counter[str] = Counter()
        for name, count in zip(own["kernels"], own["times"].tolist(), strict=True):
            times[str(name)] += count
        found.append(WorkChanges(times, after - before, before - after, places))
    return found[0], found[1]


def _counts_by_name(scope: Scope) -> tuple[Counter[str], Counter[str]]:
    """Count a window's communication kernels by name, and its other GPU work; without any the calls of collectives."""
    work = EnqueuedWork.with_host_collectives(scope, CallPaths())
    graph = scope.graph
    tells = graph.event_flags.communicates[work.row] if len(scope.work) else np.ones(len(work.row), np.bool_)
    collectives, others = (Counter(graph.name_of(row) for row in work.row[own].tolist()) for own in (tells, ~tells))
    return collectives, others


def _path_label(paths: CallPaths, before: int, after: int) -> str:
    return paths.label(before) if before == after else f"{paths.label(before)} ⇒ {paths.label(after)}"


def _moved(
    left: EnqueuedWork, right: EnqueuedWork, matched: tuple[Ints, Ints], control: Scope, test: Scope
) -> tuple[Ints, Ints]:
    """Return the places of the same kernels at other places: of one name, the n-th unmatched one with the n-th."""
    alone = [
        np.setdiff1d(np.arange(len(side.row)), places) for side, places in zip((left, right), matched, strict=True)
    ]
    names = [
        pd.Series([scope.graph.name_of(row) for row in side.row[places].tolist()], dtype=object)
        for side, places, scope in zip((left, right), alone, (control, test), strict=True)
    ]
    frames = [
        pd.DataFrame({"name": own, "number": own.groupby(own).cumcount(), "place": places})
        for own, places in zip(names, alone, strict=True)
    ]
    both = frames[0].merge(frames[1], on=["name", "number"], suffixes=("", "_after"))
    return both["place"].to_numpy(np.int64), both["place_after"].to_numpy(np.int64)


def _moved_kernels(
    left: EnqueuedWork, right: EnqueuedWork, moved: tuple[Ints, Ints], control: Scope, test: Scope
) -> list[tuple[Any, ...]]:
    """List the kernels at other places, each with its operators before and after."""
    return [
        (
            "moved",
            int(left.path[one]),
            int(right.path[other]),
            control.graph.name_of(int(left.row[one])),
            1,
            int(left.length[one]),
            int(right.length[other]),
            _event_number(control, int(left.row[one])),
            _event_number(test, int(right.row[other])),
        )
        for one, other in zip(moved[0].tolist(), moved[1].tolist(), strict=True)
    ]


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
    """Sum the matched kernels by call path, name and the streams where these changed."""
    a, b = matched
    frame = pd.DataFrame({"path": left.path[a], "name": left.name[a], "a": left.length[a], "b": right.length[b]})
    frame["left"], frame["right"] = left.row[a], right.row[b]
    frame["streams"] = _changed_streams(left.stream[a], right.stream[b])
    found = frame.groupby(["path", "name", "streams"]).agg(
        times=("a", "size"), a=("a", "sum"), b=("b", "sum"), left=("left", "first"), right=("right", "first")
    )
    rows = []
    for (path, name, streams), times, was, now, one, other in found.itertuples():
        if was != now or streams:
            kernel = control.graph.names[name] + streams
            index = _event_number(control, one), _event_number(test, other)
            change = "moved" if streams else "slower" if now > was else "faster"
            rows.append((change, path, path, kernel, times, was, now, *index))
    return rows


def _changed_streams(before: Ids | Ints, after: Ids | Ints) -> list[str]:
    """Describe for each matched kernel how its stream changed; empty for the usual counterpart of its stream.

    Numbers of streams differ between runs: the counterpart is the stream to which most kernels of one went.

    >>> _changed_streams(np.array([7, 7, 7, 20]), np.array([9, 9, 20, 20]))
    ['', '', ' (stream 7 ⇒ 20)', '']
    """
    pairs = pd.DataFrame({"before": before, "after": after})
    usual = pairs.groupby("before")["after"].agg(lambda after: after.mode().iloc[0])
    return [
        "" if usual[one] == other else f" (stream {one} ⇒ {other})"
        for one, other in zip(pairs["before"], pairs["after"], strict=True)
    ]


def _changed_runs(
    left: EnqueuedWork,
    right: EnqueuedWork,
    matched: tuple[Ints, Ints],
    moved: tuple[Ints, Ints],
    control: Scope,
    test: Scope,
) -> list[tuple[Any, ...]]:
    """List the runs of kernels between matched ones that have no counterpart."""
    # Between one matched pair and the next is what only one side has, or what one has in place of the other's:
    # control   A  B  x  C        x is replaced by y, z is added
    # test      A  B  y  C  z
    a = np.concatenate([[-1], matched[0], [len(left.row)]])
    b = np.concatenate([[-1], matched[1], [len(right.row)]])
    rows = []
    for at in np.flatnonzero((np.diff(a) > 1) | (np.diff(b) > 1)).tolist():
        mine = np.setdiff1d(np.arange(a[at] + 1, a[at + 1]), moved[0])
        theirs = np.setdiff1d(np.arange(b[at] + 1, b[at + 1]), moved[1])
        if len(mine) or len(theirs):
            rows.append(_changed_run(left, right, mine, theirs, control, test))
    return rows


def _changed_run(
    left: EnqueuedWork, right: EnqueuedWork, mine: Ints, theirs: Ints, control: Scope, test: Scope
) -> tuple[Any, ...]:
    """Describe one run of unmatched kernels."""
    was, now = left.row[mine], right.row[theirs]
    change = "replaced" if len(was) and len(now) else "removed" if len(was) else "added"
    path = int(left.path[mine][0]) if len(was) else int(right.path[theirs][0])
    return (
        change,
        path,
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
