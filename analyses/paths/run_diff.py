"""diff: what changed between two runs: on the critical path, by call path, in the order of kernels, by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analyses.answer import Answer
from analyses.display.charts import COLOUR, empty_figure, new_figure
from analyses.display.terminal import clipped, duration_text
from analyses.display.window_text import default_lines, rows_after_lines
from analyses.scope import Scope
from analyses.tables import Table
from hta_graph.algorithms.sequences.alignment import align
from hta_graph.algorithms.time.critical_path import CriticalPath
from hta_graph.algorithms.time.step_table import StepRow
from hta_graph.algorithms.who.call_paths import CallPaths
from hta_graph.model import EventKind, Ids, Ints, kind_mask
from hta_graph.shown import signed_milliseconds
from hta_graph.trace.vocabulary import STEP_NAME

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = [
    "TABLES",
    "answer",
    "call_path_diff",
    "figure",
    "kernel_changes",
    "name_diff",
    "path_class_diff",
    "path_event_diff",
]

SIDES = ("control", "test")
CPU_ROWS = (EventKind.CPU_OP, EventKind.RUNTIME, EventKind.ANNOTATION, EventKind.PYTHON_FUNCTION, EventKind.OVERHEAD)
NAMES_SHOWN = 4
"""How many kernels of a changed run are named."""


def path_class_diff(control: CriticalPath, test: CriticalPath) -> pd.DataFrame:
    """Compare the classes of two critical paths.

    Returns:
        bound_by, control_ns, test_ns, diff_ns, largest change first; the differences sum to that of the windows.
    """
    frame = pd.DataFrame({"bound_by": list(control.by_bound_ns)})
    frame["control_ns"] = list(control.by_bound_ns.values())
    frame["test_ns"] = list(test.by_bound_ns.values())
    return _largest_change_first(frame)


def path_event_diff(control: CriticalPath, test: CriticalPath) -> pd.DataFrame:
    """Compare what the paths ran through.

    Returns:
        name, bound_by, control_calls, test_calls, control_ns, test_ns, diff_ns; largest change first.
    """
    sides = []
    for path in (control, test):
        totals = pd.DataFrame(path.event_totals())
        totals["name"] = totals["name"].fillna("(nothing recorded)").map(_without_step_number)
        parts = totals.rename(columns={"time_ns": "ns"}).groupby(["name", "bound_by"], as_index=False)
        sides.append(parts[["calls", "ns"]].sum())
    return _both_sides_of(sides, ["name", "bound_by"], ["calls", "ns"])


def call_path_diff(control: Scope, test: Scope) -> pd.DataFrame:
    """Compare GPU time by the operators and annotations that launched it.

    Returns:
        call_path (outermost first; empty where nothing was open), control_count, test_count, control_ns, test_ns,
        diff_ns; largest change first.
    """
    # One table of paths for both sides: equal paths then have equal numbers.
    paths = CallPaths()
    sides = [_times_by_path(paths, scope) for scope in (control, test)]
    frame = _both_sides_of(sides, ["path"], ["count", "ns"])
    frame.insert(0, "call_path", pd.Series([paths.label(path) for path in frame["path"]], dtype=object))
    return frame.drop(columns="path")


def _times_by_path(paths: CallPaths, scope: Scope) -> pd.DataFrame:
    """Count and add up a scope's activities by call path."""
    path = paths.around(scope.graph, scope.work.call)
    frame = pd.DataFrame({"path": path, "ns": scope.work.end - scope.work.start})
    return frame.groupby("path")["ns"].agg(count="size", ns="sum").reset_index()


@dataclass(frozen=True)
class EnqueuedWork:
    """GPU activities in the order in which they were enqueued: canonical row, length, call path, name."""

    row: Ids
    length: Ints
    path: Ids
    name: Ids

    @classmethod
    def of(cls, scope: Scope, paths: CallPaths) -> EnqueuedWork:
        """Order a stretch's work by when it was enqueued."""
        events, work = scope.graph.event_table, scope.work
        # The order of launches is the program's; that of starts differs from run to run where streams race.
        enqueued = np.where(work.call >= 0, events.start[work.call], work.start)
        order = np.lexsort((work.row, enqueued))
        work = work.take(order)
        path = paths.around(scope.graph, work.call)
        return cls(work.row, work.end - work.start, path, events.name[work.row])


def kernel_changes(control: Scope, test: Scope) -> pd.DataFrame:
    """Align what both runs enqueued, by call path and kernel name in order, and tell where they part.

    Returns:
        change (``added``, ``removed``, ``replaced``: other kernels at one place; ``slower``, ``faster``: the same
        kernel), call_path, kernels (the first names; control ⇒ test where they differ), times (how often), control_ns,
        test_ns, diff_ns, control_index, test_index (the first event of each side, null where there is none).
    """
    paths = CallPaths()
    left, right = EnqueuedWork.of(control, paths), EnqueuedWork.of(test, paths)
    matched = align(*_common_codes(left, right, control, test))
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
    return _largest_change_first(frame.assign(**indices))


def _common_codes(left: EnqueuedWork, right: EnqueuedWork, control: Scope, test: Scope) -> tuple[Ints, Ints]:
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
    """List the stretches between matched kernels: what one side has and the other has not."""
    # Between one matched pair and the next lies what only one side has, or what one has in place of the other's:
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
    """Describe one stretch between matched kernels."""
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


def name_diff(control: Sequence[Scope], test: Sequence[Scope], *, gpu: bool = True, cpu: bool = True) -> pd.DataFrame:
    """Compare counts and total durations by name, over one or several steps of a side, as HTA does.

    CPU rows belong to a step if they start in it, GPU activities if it launched them. HTA assigns rows to steps by the
    steps' GPU annotations too and counts operators that carry a stream as GPU work; that is not repeated.

    Returns:
        name, control_count, test_count, control_ns, test_ns, diff_ns; largest change first.
    """
    sides = []
    for scopes in (control, test):
        parts = pd.concat([_times_by_name(scope, gpu=gpu, cpu=cpu) for scope in scopes])
        sides.append(parts.groupby("name", as_index=False).sum())
    return _both_sides_of(sides, ["name"], ["count", "ns"])


def _times_by_name(scope: Scope, *, gpu: bool, cpu: bool) -> pd.DataFrame:
    """Count and add up a scope's rows by name."""
    events, names = scope.graph.event_table, scope.graph.names
    on_cpu = np.flatnonzero(kind_mask(events.kind, CPU_ROWS))
    rows = np.concatenate([on_cpu[scope.holds(on_cpu)] if cpu else on_cpu[:0], scope.work.row if gpu else on_cpu[:0]])
    frame = pd.DataFrame({"name": events.name[rows], "ns": events.end[rows] - events.start[rows]})
    found = frame.groupby("name")["ns"].agg(count="size", ns="sum").reset_index()
    found["name"] = np.array(names or ("",), object)[found["name"]]
    return found


def _both_sides_of(sides: list[pd.DataFrame], keys: list[str], values: list[str]) -> pd.DataFrame:
    """Join both sides; what one lacks counts zero."""
    # What only one side has is a change too.
    frame = sides[0].merge(sides[1], on=keys, how="outer", suffixes=("_control", "_test"))
    for value in values:
        for side in SIDES:
            frame[f"{side}_{value}"] = frame.pop(f"{value}_{side}").fillna(0).astype(np.int64)
    return _largest_change_first(frame)


def _largest_change_first(frame: pd.DataFrame) -> pd.DataFrame:
    """Add the difference behind the times and sort by its size."""
    at = list(frame.columns).index("test_ns") + 1
    frame.insert(at, "diff_ns", frame["test_ns"] - frame["control_ns"])
    # By the size of the change, whichever way it went.
    order = (-frame["diff_ns"].abs()).argsort(kind="stable")
    return frame.iloc[order].reset_index(drop=True)


def answer(
    control: Scope,
    test: Scope,
    paths: tuple[CriticalPath, CriticalPath],
    steps: Sequence[Sequence[StepRow]] = ((), ()),
) -> Answer:
    """Return what changed between two runs, first on their critical paths, then in all GPU work.

    Args:
        control: the stretch to compare with.
        test: the stretch that changed.
        paths: the critical paths of both.
        steps: the steps beside a window that nobody named, of both sides.

    Returns:
        The tables ``critical_path_by_class``, ``critical_path_by_name``, ``gpu_time_by_call_path``,
        ``kernels_in_order``, ``by_name`` and, where there are any, ``steps``; ``diff_ns`` is the test less the control.
    """
    events = path_event_diff(*paths)
    by_call, changes, names = call_path_diff(control, test), kernel_changes(control, test), name_diff([control], [test])
    tables = {
        "critical_path_by_class": path_class_diff(*paths),
        "critical_path_by_name": _changed_rows(events),
        "gpu_time_by_call_path": _changed_rows(by_call),
        "kernels_in_order": changes,
        "by_name": _changed_rows(names[names["name"].map(_without_step_number) == names["name"]]),
    }
    missing = [scope.missing() for scope in (control, test) if scope.missing()]
    if any(map(len, steps)):
        tables["steps"] = _step_table(steps)
    about = []
    for side, path, beside in zip(SIDES, paths, steps, strict=True):
        lines = [*default_lines(path.window, path.graph, beside)[:1], *rows_after_lines(path.window)]
        about += [f"{side}: {line}." for line in lines]
    return Answer(tables, [*missing, *_change_lines(paths, events), *about])


def _step_table(sides: Sequence[Sequence[StepRow]]) -> pd.DataFrame:
    """List the steps of both sides.

    Returns:
        side (``control``, ``test``), step, iteration_ns (from the end of earlier work to that of its own), latency_ns
        (from its start), bound_by, outlier (what an unusual step contains, else empty).
    """
    rows = [
        (side, row.step, row.iteration_ns, row.latency_ns, row.bound_by, row.outlier or "")
        for side, steps in zip(SIDES, sides, strict=True)
        for row in steps
    ]
    return pd.DataFrame(rows, columns=["side", "step", "iteration_ns", "latency_ns", "bound_by", "outlier"])


def _without_step_number(name: str) -> str:
    """Let the steps of both sides be one thing: their lengths are compared as windows."""
    return "ProfilerStep" if STEP_NAME.fullmatch(name) else name


def _changed_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Leave out what takes as long on both sides."""
    return frame[frame["diff_ns"] != 0].reset_index(drop=True)


def _change_lines(paths: tuple[CriticalPath, CriticalPath], events: pd.DataFrame) -> list[str]:
    """Say how much longer one path is, and what made it so."""
    control, test = paths
    change = test.length_ns - control.length_ns
    share = f" ({change / control.length_ns:+.1%})".replace("%", " %") if control.length_ns else ""
    grown = "as long" if not change else f"{duration_text(abs(change))}{share} {'longer' if change > 0 else 'shorter'}"
    said = [f"{test.window.label} of the test is {grown}{' as' if not change else ' than'} the control's."]
    parts = path_class_diff(control, test)
    moved = parts[parts["diff_ns"] != 0].head(3)
    if len(moved):
        pairs = zip(moved["diff_ns"].tolist(), moved["bound_by"], strict=True)
        listed = ", ".join(f"{signed_milliseconds(ns)} ms {bound}" for ns, bound in pairs)
        said.append(f"On its critical path: {listed}.")
    first = events["diff_ns"].tolist()[:1]
    if any(first):
        top, change_there = clipped(str(events.loc[0, "name"]), 60), signed_milliseconds(first[0])
        said.append(f"The largest single change there: {top}, {change_there} ms.")
    return said


def figure(found: Answer) -> Figure:
    """Draw what the critical path gained and lost, class by class."""
    frame = found.tables["critical_path_by_class"]
    frame = frame[frame["diff_ns"] != 0]
    if frame.empty:
        return empty_figure("What changed on the critical path", "nothing changed")
    made = new_figure(title="What changed on the critical path", x="test − control, ms")
    made.add_bar(
        orientation="h",
        y=frame["bound_by"].iloc[::-1],
        x=frame["diff_ns"].iloc[::-1] / 1e6,
        marker_color=[COLOUR["unexplained" if ns > 0 else "compute"] for ns in frame["diff_ns"].iloc[::-1]],
        hovertemplate="%{y}: %{x:+,.3f} ms",
    )
    return made


COUNTED = ["control_count", "test_count", "control_ns", "test_ns", "diff_ns"]
TABLES = {
    "critical_path_by_class": Table(path_class_diff, ["bound_by", "control_ns", "test_ns", "diff_ns"]),
    "critical_path_by_name": Table(
        path_event_diff, ["name", "bound_by", "control_calls", "test_calls", "control_ns", "test_ns", "diff_ns"]
    ),
    "gpu_time_by_call_path": Table(call_path_diff, ["call_path", *COUNTED]),
    "kernels_in_order": Table(
        kernel_changes,
        ["change", "call_path", "kernels", "times", "control_ns", "test_ns", "diff_ns", "control_index", "test_index"],
    ),
    "by_name": Table(name_diff, ["name", *COUNTED]),
    "steps": Table(_step_table, ["side", "step", "iteration_ns", "latency_ns", "bound_by", "outlier"]),
}
