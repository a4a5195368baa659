"""Where two runs spend their time: on the critical path, by call path, by name; medians over their windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

import numpy as np
import pandas as pd

from analyses.compare.diff.comparable_names import STEPS, comparable_name, without_compiler_numbers
from analyses.compare.diff.length_comparison import Comparison
from analyses.compare.diff.merge_tables import SIDES, SideRows, merge_medians, merge_sums
from analyses.compare.diff.sides import Side
from analyses.declare.columns import Table, integer, ns, text
from analyses.declare.scope import Scope
from hta_graph.attribution.call_paths import CallPaths
from hta_graph.base.arrays import distinct, expand_ranges, take_or
from hta_graph.graph.conversion import labels, texts_of_codes
from hta_graph.model import BoundBy, EventKind, Ints, kind_mask
from hta_graph.paths.critical_path import CriticalPath
from hta_graph.paths.segments import SegmentTable

CPU_ROWS = (EventKind.CPU_OP, EventKind.RUNTIME, EventKind.ANNOTATION, EventKind.PYTHON_FUNCTION, EventKind.OVERHEAD)
TIMES = Table("control_ns", "test_ns", "diff_ns")
CHANGES = Table(TIMES, "noise_ns")
COUNTS = Table(
    integer("control_count", "Number of occurrences in the control."),
    integer("test_count", "Number of occurrences in the test."),
)
CLASSES = Table("bound_by", CHANGES)
PATH_EVENTS = Table("name", "bound_by", "control_calls", "test_calls", CHANGES)
CALL_PATHS = Table("call_path", COUNTS, CHANGES)
NAMES = Table("name", COUNTS, CHANGES)
NAMES_AS_HTA = Table("name", COUNTS, TIMES)
STEP_ROWS = Table(
    *(text("side", "Run.", values=SIDES), integer("step", "Number of the profiler step.")),
    ns("iteration_ns", "Time from the end of the previous step's work to the end of this step's work"),
    ns("latency_ns", "Time from the start of the step to the end of its work"),
    *("bound_by", text("outlier", "What an unusual step contains; otherwise empty.")),
)


@CLASSES.returned
def path_class_diff(found: Comparison[Side]) -> pd.DataFrame:
    """Compare the classes of critical paths, the largest difference first.

    Times of a single window sum to its length.
    """
    return _medians(found, lambda side: class_times(side.paths), ["bound_by"], ["ns"])


def class_times(paths: Sequence[CriticalPath]) -> pd.DataFrame:
    """Return the time of each class on paths: window (the path's place), bound_by, ns."""
    times = [(at, bound, ns) for at, path in enumerate(paths) for bound, ns in path.by_bound_ns.items()]
    return pd.DataFrame(times, columns=["window", "bound_by", "ns"])


@PATH_EVENTS.returned
def path_event_diff(found: Comparison[Side], shared: Mapping[str, str] | None = None) -> pd.DataFrame:
    """Compare the events on the paths, those of one shared name together."""
    keys = ["name", "bound_by"]
    return changed_rows(
        _medians(
            found, lambda side: with_shared_names(event_times(side.paths), shared or {}, keys), keys, ["calls", "ns"]
        )
    )


def with_shared_names(rows: pd.DataFrame, shared: Mapping[str, str], keys: list[str]) -> pd.DataFrame:
    """Add up the rows of a window whose names share one."""
    if not shared:
        return rows
    named = rows.assign(name=[shared.get(name, name) for name in rows["name"]])
    return named.groupby(["window", *keys], sort=False).sum().reset_index()


def event_times(paths: Sequence[CriticalPath]) -> pd.DataFrame:
    """Return the events on paths of one graph: window (the path's place), name, bound_by, calls, ns."""
    graph, pieces = paths[0].graph, SegmentTable.join([path.segment_table for path in paths])
    name = take_or(graph.event_table.name, pieces.event)
    codes, place = np.unique(name, return_inverse=True)
    names = texts_of_codes(graph.names, codes, "(nothing recorded)")
    # All steps get one name: their lengths are compared as windows.
    known = {text: at for at, text in enumerate(dict.fromkeys(map(comparable_name, names)))}
    keys = ["window", "name", "bound_by"]
    frame = pd.DataFrame(
        {
            "window": _window_numbers([len(path.segment_table) for path in paths]),
            "name": np.array([known[comparable_name(text)] for text in names], np.int64)[place.reshape(-1)],
            "bound_by": pieces.bound,
            "event": pieces.event,
            "ns": pieces.length,
        }
    )
    # An event may own several pieces of a class; it is one call.
    calls = frame.drop_duplicates([*keys, "event"]).groupby(keys).size()
    found = frame.groupby(keys)["ns"].sum().to_frame().assign(calls=calls).reset_index()
    return found.assign(name=np.array([*known, ""], object)[found["name"]], bound_by=labels(BoundBy, found["bound_by"]))


@CALL_PATHS.returned
def call_path_diff(found: Comparison[Side]) -> pd.DataFrame:
    """Compare GPU time by the operators and annotations that launched it."""
    # One table of paths for both sides: equal paths then have equal numbers.
    paths = CallPaths()
    return changed_rows(_medians(found, lambda side: _times_by_path(paths, side), ["call_path"], ["count", "ns"]))


def _times_by_path(paths: CallPaths, side: Side) -> pd.DataFrame:
    """Count and add up the activities of each scope by call path."""
    work = [scope.work for scope in side.scopes]
    row, call, start, end = (
        np.concatenate([getattr(of, name) for of in work]) for name in ("row", "call", "start", "end")
    )
    path = paths.around_activities(side.graph, row, call)
    frame = pd.DataFrame({"window": _window_numbers(list(map(len, work))), "path": path, "ns": end - start})
    found = frame.groupby(["window", "path"])["ns"].agg(count="size", ns="sum").reset_index()
    known = {path: without_compiler_numbers(paths.label(path)) for path in distinct(found["path"].to_numpy()).tolist()}
    found["call_path"] = found.pop("path").map(known).astype(object)
    return found.groupby(["window", "call_path"], as_index=False).sum()


def _window_numbers(counts: Sequence[int]) -> Ints:
    """Number the rows of windows, given how many each has."""
    return np.repeat(np.arange(len(counts)), counts)


@NAMES.returned
def time_by_name_diff(found: Comparison[Side]) -> pd.DataFrame:
    """Compare counts and durations by name; steps are left out, whose lengths are compared as such."""
    frame = _medians(found, _times_bycomparable_name, ["name"], ["count", "ns"])
    return changed_rows(frame[frame["name"] != STEPS])


def _times_bycomparable_name(side: Side) -> pd.DataFrame:
    """Count and add up the events of each scope by name, without what differs between runs of one program."""
    found = _times_by_name(side.scopes)
    known = {name: comparable_name(name) for name in found["name"].unique()}
    return found.assign(name=found["name"].map(known)).groupby(["window", "name"], as_index=False).sum()


@NAMES_AS_HTA.returned
def name_diff(control: Sequence[Scope], test: Sequence[Scope], *, gpu: bool = True, cpu: bool = True) -> pd.DataFrame:
    """Compare counts and total durations by name, over one or several steps of a side, as HTA: largest change first.

    CPU events belong to a step if they start in it, GPU activities if it launched them. Unlike HTA, GPU annotations of
    steps assign nothing, and operators that carry a stream number are not GPU work.
    """
    sides = []
    for scopes in (control, test):
        parts = [_times_by_name(list(of), gpu=gpu, cpu=cpu) for _, of in groupby(scopes, lambda scope: id(scope.graph))]
        sides.append(pd.concat(parts).drop(columns="window").groupby("name", as_index=False).sum())
    return merge_sums(sides, ["name"], ["count", "ns"])


def _times_by_name(scopes: Sequence[Scope], *, gpu: bool = True, cpu: bool = True) -> pd.DataFrame:
    """Count and add up the events of each of a graph's scopes by name."""
    graph = scopes[0].graph
    events = graph.event_table
    window, row = _cpu_rows(scopes) if cpu else np.empty((2, 0), np.int64)
    if gpu:
        window = np.append(window, _window_numbers([len(scope.work) for scope in scopes]))
        row = np.concatenate([row, *(scope.work.row for scope in scopes)])
    frame = pd.DataFrame({"window": window, "name": events.name[row], "ns": events.end[row] - events.start[row]})
    found = frame.groupby(["window", "name"])["ns"].agg(count="size", ns="sum").reset_index()
    return found.assign(name=np.array(graph.names or ("",), object)[found["name"]])


def _cpu_rows(scopes: Sequence[Scope]) -> tuple[Ints, Ints]:
    """Return the CPU events that start in each of a graph's scopes: the scope's place, the row."""
    events = scopes[0].graph.event_table
    on_cpu = np.flatnonzero(kind_mask(events.kind, CPU_ROWS))
    on_cpu = on_cpu[np.argsort(events.start[on_cpu], kind="stable")]
    times = [(scope.cpu_start_ns, scope.cpu_end_ns) for scope in scopes]
    first, last = np.searchsorted(events.start[on_cpu], np.array(times).T)
    window, place = expand_ranges(first, np.maximum(last - first, 0))
    return window, on_cpu[place]


@STEP_ROWS.returned
def step_table(found: Comparison[Side]) -> pd.DataFrame:
    """List the steps of both sides."""
    rows = [
        (side, row.step, row.iteration_ns, row.latency_ns, row.bound_by, row.outlier or "")
        for side, of in zip(SIDES, (found.control, found.test), strict=True)
        for row in of.steps
    ]
    return pd.DataFrame(rows, columns=[*STEP_ROWS])


def _medians(
    found: Comparison[Side], rows_of: Callable[[Side], pd.DataFrame], keys: list[str], values: list[str]
) -> pd.DataFrame:
    """Make one table of the rows of all windows."""
    kinds = found.kinds.by_side if found.kinds.are_several else (None, None)
    sides = [
        SideRows(len(side.paths), rows_of(side), kind)
        for side, kind in zip((found.control, found.test), kinds, strict=True)
    ]
    return merge_medians(sides, keys, values, found.row_noise_share)


def with_labels(tables: Mapping[str, pd.DataFrame], labels: Mapping[str, str]) -> dict[str, pd.DataFrame]:
    """Return the tables with classes as screens name them."""
    key = "bound_by"
    return {name: of.assign(**{key: of[key].map(labels)}) for name, of in tables.items() if key in of and len(of)}


def changed_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Leave out rows without a change."""
    return frame[frame["diff_ns"] != 0].reset_index(drop=True)
