"""A trace, or the traces of a job, with the critical path on top, for Perfetto and other viewers of Chrome's format.

A slice is a class of the path or a run of segments, and arrows join runs to the events that own them. Viewers choose
colours for themselves: Perfetto's UI draws a slice in the colour that a hash of its name gives, digits left out, and
knows no other way for JSON traces (google/perfetto#208, #620, #624); chrome://tracing takes the names of its own
palette from ``cname``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice
from typing import Any

import msgspec
import numpy as np
import orjson

from hta_graph.attribution.replayed_names import operator_columns
from hta_graph.base.arrays import distinct, first_of_runs, take_or
from hta_graph.base.storage.location import Location
from hta_graph.base.storage.output_paths import check_output
from hta_graph.base.text.formatting import microseconds
from hta_graph.export.perfetto.append_events import (
    FIRST_FREE_PROCESS,
    OriginalRow,
    OriginalTrace,
    integer_ids,
    read_original,
    rounded_by_viewer,
    unused_numbers,
    write_trace,
)
from hta_graph.export.perfetto.rewrite_rows import SharedIds, rewrite_rows, rewrite_times
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Bools, BoundBy, EdgeKind, Ids, Ints, edge_kinds
from hta_graph.paths.critical_path import CriticalPath
from hta_graph.trace.table import FileTimes

CLASS_TITLE: Mapping[str, str] = {
    # Among the wordings that say the same these have hashes that are ten colours which one can tell apart.
    BoundBy.CPU_BOUND.label: "CPU in operators and calls (cpu_bound)",
    BoundBy.DATA_LOADING.label: "loading data (data_loading)",
    BoundBy.GPU_COMPUTE_BOUND.label: "computing in kernels (gpu_compute_bound)",
    BoundBy.GPU_COMMUNICATION_BOUND.label: "exchanging data (gpu_communication_bound)",
    BoundBy.GPU_MEMORY_BOUND.label: "copies or sets (gpu_memory_bound)",
    BoundBy.GPU_KERNEL_KERNEL_OVERHEAD.label: "between two kernels (gpu_kernel_kernel_overhead)",
    BoundBy.GPU_KERNEL_LAUNCH_OVERHEAD.label: "waiting for launch of kernels (gpu_kernel_launch_overhead)",
    BoundBy.CPU_GAP.label: "CPU outside of operators (cpu_gap)",
    BoundBy.SYNC_OVERHEAD.label: "returning from the call (sync_overhead)",
    BoundBy.UNEXPLAINED.label: "nothing is known (unexplained)",
}
"""The name of a slice of each class: what it means, which shows first where little room is, and the class."""

CLASS_CNAME: Mapping[str, str] = {
    BoundBy.CPU_BOUND.label: "rail_response",
    BoundBy.DATA_LOADING.label: "detailed_memory_dump",
    BoundBy.GPU_COMPUTE_BOUND.label: "rail_load",
    BoundBy.GPU_COMMUNICATION_BOUND.label: "thread_state_iowait",
    BoundBy.GPU_MEMORY_BOUND.label: "bad",
    BoundBy.GPU_KERNEL_KERNEL_OVERHEAD.label: "background_memory_dump",
    BoundBy.GPU_KERNEL_LAUNCH_OVERHEAD.label: "thread_state_runnable",
    BoundBy.CPU_GAP.label: "generic_work",
    BoundBy.SYNC_OVERHEAD.label: "thread_state_uninterruptible",
    BoundBy.UNEXPLAINED.label: "terrible",
}
"""The colour of each class in chrome://tracing, by its name there: blue, purple, green, orange, ..., red."""


LONG_RUN_SHARE = 0.01
"""A run of at least this share of the window gets an arrow even where the path stays on its lane."""


def runs_with_arrows(path: CriticalPath, base_ns: int) -> Ints:
    """Return the runs that deserve an arrow and whose event a viewer draws, the longest first."""
    runs, events = path.runs, path.graph.event_table
    if not len(runs) or not len(events):
        return np.empty(0, np.int64)
    lane = take_or(events.lane, runs.event)
    # An arrow tells where the path comes from: needed where it changes lanes, helpful where it stays long.
    deserving = first_of_runs(lane) | (runs.length >= LONG_RUN_SHARE * path.length_ns)
    wanted = np.flatnonzero((lane >= 0) & deserving & is_visible(runs.start, runs.end, base_ns))
    drawn_on = _viewer_lanes(path.graph)
    lanes = np.unique(drawn_on[runs.event[wanted]])
    wanted = wanted[_is_nested(_drawn_times(path.graph), drawn_on, base_ns, lanes)[runs.event[wanted]]]
    return wanted[np.argsort(-runs.length[wanted], kind="stable")]


def runs_before_crossings(path: CriticalPath, base_ns: int) -> Ints:
    """Return the runs after which the path continues on another rank, if a viewer draws both; the longest first."""
    runs = path.runs
    visible = is_visible(runs.start, runs.end, base_ns)
    crossing = np.flatnonzero((runs.part[1:] != runs.part[:-1]) & visible[1:] & visible[:-1])
    return crossing[np.argsort(-runs.length[crossing], kind="stable")]


def _drawn_times(graph: DependencyGraph) -> FileTimes:
    """Return when the events' rows are drawn: at the times of their file, with multiple ranks in job time."""
    return (graph if graph.is_job else graph.graph(graph.rank_graphs[0].rank)).trace.file_times


def _viewer_lanes(graph: DependencyGraph) -> Ids:
    """Return the lane on which each event is drawn: what a thread does with other ranks lies among its other rows."""
    lanes = [part.graph.event_table.lane + part.first_lane for part in graph.rank_graphs]
    missing = len(graph.event_table) - sum(map(len, lanes))
    return np.concatenate([*lanes, np.full(missing, -1)]).astype(np.int32)


def _is_nested(drawn_at: FileTimes, drawn_on: Ids, base_ns: int, lanes: Ids) -> Bools:
    """Mark the events on some lanes that nest; a viewer drops or moves a slice that outlives the one it starts in."""
    start = rounded_by_viewer(drawn_at.start - base_ns)
    end = start + (drawn_at.end - drawn_at.start)
    drawn = np.zeros(len(drawn_at), np.bool_)
    for lane in lanes.tolist():
        rows = np.flatnonzero(drawn_on == lane)
        rows = rows[np.lexsort((-end[rows], start[rows]))]
        drawn[rows] = list(_ends_inside(start[rows].tolist(), end[rows].tolist()))
    return drawn


def _ends_inside(starts: list[int], ends: list[int]) -> Iterator[bool]:
    """Say of slices in order of time whether each ends before the one that it starts in.

    >>> list(_ends_inside([0, 1, 2, 9], [10, 5, 7, 10]))
    [True, True, False, True]
    """
    open_ends: list[int] = []
    for start, end in zip(starts, ends, strict=True):
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
        nests = not open_ends or end <= open_ends[-1]
        if nests:
            open_ends.append(end)
        yield nests


def is_visible(start: Ints, end: Ints, base_ns: int) -> Bools:
    """Mark the slices that keep a length in a viewer's clock."""
    return np.asarray(rounded_by_viewer(start - base_ns) < rounded_by_viewer(end - base_ns))


NAME_LIMIT = 60
PROCESS_NAME = "Critical path"
TRACK_PREFIX = "Path of "
HOST_TIME = " (host time)"
"""What a track's name ends with where rows of the file are by another clock: slices and rows are apart by as much."""
CATEGORY = "critical_path"
LAG_KINDS = [kind.label for kind in edge_kinds(lambda meaning: meaning.lag is not None)]
"""Edges on which time is a lag, so that a slice is called by the edge too."""
NOTHING_RECORDED = "(nothing recorded)"

Record = dict[str, Any]


@dataclass(frozen=True)
class OverlayTarget:
    """What a path is drawn into: from when times count, what is free there, and where it draws the events' rows."""

    base_ns: int
    process: int
    sort_index: int
    arrows: Iterator[int]
    place_of: Callable[[int], Record]


@dataclass(frozen=True)
class PathArrows:
    """The runs of a path with an arrow to or from their event, and those after which it continues on another rank."""

    to_events: Ints
    crossings: Ints


class PathEvents:
    """Makes the rows of one path, on a track for each rank that it runs on.

    A slice is a begin and an end row, so that slices tile however a viewer rounds; one that it would round to nothing
    is an instant, since viewers sort ends before begins.

        class     |    gpu_compute_bound    | gpu_kernel_kernel_overhead |  ...
        run       |   gemm    |    relu     |  stream_order: softmax     |  ...
    """

    def __init__(self, path: CriticalPath, canvas: OverlayTarget, arrows: PathArrows) -> None:
        self.path = path
        self.canvas = canvas
        self.drawn_at = _drawn_times(path.graph)
        # A thread with its process's number would be marked as the main one.
        first = canvas.process + 1
        self.parts = distinct(path.runs.part).tolist() or [0]
        self.places = {part: {"pid": canvas.process, "tid": first + at} for at, part in enumerate(self.parts)}
        self.place_texts = {part: _json_text(place)[1:-1] for part, place in self.places.items()}
        self.part_of_run = path.runs.part.tolist()
        self.arrow_ids = dict(zip(arrows.to_events.tolist(), canvas.arrows, strict=False))
        self.crossing_ids = dict(zip(arrows.crossings.tolist(), canvas.arrows, strict=False))

    def lines(self) -> Iterator[str]:
        """Yield the process's names and order, then class by class its runs, each with its arrow while it is open."""
        yield from self._track_names()
        texts = self._run_texts()
        for opening, closing, runs in self._class_texts():
            yield from opening
            yield from chain.from_iterable(islice(texts, runs))
            yield from closing

    def _class_texts(self) -> Iterator[tuple[list[str], list[str], int]]:
        """Yield the begin and the end of each slice of a class (none if it is unseen), and how many runs it has."""
        runs, described = self.path.runs, cache(_class_description)
        begins = np.flatnonzero(first_of_runs(runs.bound, runs.part))
        following = np.append(begins[1:], len(runs))
        start, end = runs.start[begins], runs.end[following - 1]
        columns = (
            is_visible(start, end, self.canvas.base_ns),
            start,
            end,
            runs.bound[begins],
            runs.part[begins],
            following - begins,
            np.add.reduceat(runs.segments, begins) if len(runs) else begins,
        )
        for is_drawn, start_ns, end_ns, bound, part, count, segments in zip(
            *(c.tolist() for c in columns), strict=True
        ):
            rest = f'{described(bound)}{end_ns - start_ns},"segments":{segments}}}}}'
            opening = f'{{"ph":"B",{self.place_texts[part]},"ts":{self._printed_time(start_ns)},{rest}'
            yield ([opening], [self._end_of_slice(part, end_ns)], count) if is_drawn else ([], [], count)

    def _end_of_slice(self, part: int, end_ns: int) -> str:
        return f'{{"ph":"E",{self.place_texts[part]},"ts":{self._printed_time(end_ns)}}}'

    def _run_texts(self) -> Iterator[Iterator[str]]:
        """Yield the rows of each run."""
        # A path of a million segments repeats a few thousand descriptions; each is encoded once.
        described = cache(_shared_description)
        runs = self.path.runs
        columns = self.path.run_columns() | operator_columns(self.path.graph, runs.event)
        unknown = np.full(len(runs), None, object)
        visible = is_visible(runs.start, runs.end, self.canvas.base_ns).tolist()
        varying = (columns[key].tolist() for key in ("start_ns", "end_ns", "event_index", "segments"))
        repeated = zip(*(columns.get(key, unknown).tolist() for key in _REPEATED), strict=True)
        for run, (is_drawn, values, rest) in enumerate(zip(visible, zip(*varying, strict=True), repeated, strict=True)):
            yield self._one_run(run, values, described(*rest), is_drawn=is_drawn)

    def _one_run(
        self, run: int, values: tuple[int, int, int | None, int], described: str, *, is_drawn: bool
    ) -> Iterator[str]:
        """Yield the begin of a run's slice, its arrow and its end, or an instant."""
        start_ns, end_ns, index, segments = values
        part = self.part_of_run[run]
        event = "" if index is None else f',"event_index":{index}'
        merged = f',"merged":"{segments:,} segments"' if segments > 1 else ""
        phase = '"B"' if is_drawn else '"i","s":"t"'
        rest = f"{described}{end_ns - start_ns}{event}{merged}}}}}"
        yield f'{{"ph":{phase},{self.place_texts[part]},"ts":{self._printed_time(start_ns)},{rest}'
        if run in self.arrow_ids:
            yield from self._arrow_records(run)
        yield from self._crossing_records(run, start_ns, end_ns)
        if is_drawn:
            yield self._end_of_slice(part, end_ns)

    def _track_names(self) -> Iterator[str]:
        for part in self.parts:
            place = self.places[part]
            of_process = (
                ("process_name", {"name": PROCESS_NAME}),
                ("process_sort_index", {"sort_index": self.canvas.sort_index}),
            )
            for key, value in (
                *(of_process if part == self.parts[0] else ()),
                ("thread_name", {"name": self._track_name(part)}),
                ("thread_sort_index", {"sort_index": place["tid"]}),
            ):
                ts = orjson.Fragment(self._printed_time(self.path.window.start_ns))
                yield _json_text({"ph": "M", **place, "ts": ts, "name": key, "args": value})

    def _track_name(self, part: int) -> str:
        graph = self.path.graph
        rank = graph.rank_graphs[part].rank if graph.is_job else graph.rank
        of_rank = "" if rank is None else f", rank {rank}"
        is_apart = not np.array_equal(self.drawn_at.start, graph.event_table.start)
        return TRACK_PREFIX + _shortened_name(self.path.window.label) + of_rank + HOST_TIME * is_apart

    def _arrow_records(self, run: int) -> Iterator[str]:
        """Yield an arrow between a run and its event, from the earlier start to the later one.

        A run is drawn in host time, its event where the file has it: only there does an arrow bind to the event's row.
        At its start a slice is the topmost one of its track; a record inside it would bind to a child that is over.
        """
        event = int(self.path.runs.event[run])
        own = int(self.path.runs.start[run]), self.places[self.part_of_run[run]]
        ends = [own, (int(self.drawn_at.start[event]), self.canvas.place_of(event))]
        phases: list[Record] = [{"ph": "s"}, {"ph": "f", "bp": "e"}]
        arrow = {"id": self.arrow_ids[run], "cat": CATEGORY, "name": CATEGORY}
        for phase, (time_ns, where) in zip(phases, sorted(ends, key=lambda end: end[0]), strict=True):
            yield _json_text(phase | arrow | where | {"ts": orjson.Fragment(self._printed_time(time_ns))})

    def _crossing_records(self, run: int, start_ns: int, end_ns: int) -> Iterator[str]:
        """Yield the beginning of an arrow to the next run, on another rank's track, or the end of one from there."""
        arrow = {"cat": CATEGORY, "name": CATEGORY, **self.places[self.part_of_run[run]]}
        if run - 1 in self.crossing_ids:
            ts = orjson.Fragment(self._printed_time(start_ns))
            yield _json_text({"ph": "f", "bp": "e", "id": self.crossing_ids[run - 1], **arrow, "ts": ts})
        if run in self.crossing_ids:
            # Just before the run's end, so that the arrow is steep, but inside however a viewer rounds.
            ts = orjson.Fragment(self._printed_time(end_ns - (end_ns - start_ns) // 8 - 1))
            yield _json_text({"ph": "s", "id": self.crossing_ids[run], **arrow, "ts": ts})

    def _printed_time(self, time_ns: int) -> str:
        return microseconds(time_ns - self.canvas.base_ns)


_REPEATED = {
    "bound_by": "bound_by",
    "reason": "reason",
    "name": "event",
    "inside": "inside",
    "edge": "edge",
    "evidence": "evidence",
    "lane": "lane",
    "carried_over": "carried_over",
    "operator": "operator",
    "module": "module",
    "operator_evidence": "operator_evidence",
}
"""The columns of which many runs share the same values, and what a viewer calls them; the last are not always there."""


def _class_description(bound: int) -> str:
    """Return the text of what slices of a class share, up to the place of the length."""
    key = BoundBy(bound).label
    look = {"cat": CATEGORY, "name": CLASS_TITLE[key], "cname": CLASS_CNAME[key]}
    return _json_text({**look, "args": {"bound_by": key, "duration_ns": 0}})[1:].removesuffix("0}}")


def _shared_description(*values: Any) -> str:
    """Return the text of what runs share, up to the place of the length."""
    known: Record = dict(zip(_REPEATED.values(), values, strict=True))
    arguments: Record = {key: value for key, value in known.items() if value is not None}
    arguments["lag_ns" if _is_lag(known) else "duration_ns"] = 0
    return _json_text({"cat": CATEGORY, "name": _title_of_run(known), "args": arguments})[1:].removesuffix("0}}")


def _title_of_run(known: Record) -> str:
    """Return whose time a run is, in full: what has the name of a row has its colour too.

    >>> _title_of_run({"bound_by": "gpu_compute_bound", "event": "gemm", "edge": "execution", "reason": None})
    'gemm'
    >>> _title_of_run({"bound_by": "sync_overhead", "event": "cudaFree", "edge": "device_sync", "reason": None})
    'device_sync: cudaFree'
    >>> _title_of_run({"bound_by": "unexplained", "event": "cudaFree", "edge": "thread_order", "reason": "unknown"})
    'unknown: cudaFree'
    """
    why = known["reason"] or (known["edge"] if _is_lag(known) else None)
    return ": ".join(text for text in (why, known["event"]) if text) or NOTHING_RECORDED


def _is_lag(known: Record) -> bool:
    """Return whether no work is running; a launch call works until it returns, though its edge is a launch edge."""
    calls = known["edge"] == EdgeKind.LAUNCH.label and known["bound_by"] == BoundBy.CPU_BOUND.label
    return known["edge"] in LAG_KINDS and not calls


def _json_text(value: Record) -> str:
    return orjson.dumps(value).decode()


def _shortened_name(name: str) -> str:
    return name if len(name) <= NAME_LIMIT else name[: NAME_LIMIT - 1] + "…"


ARROW_LIMIT = 500
"""Most arrows of one overlay to events, and most from rank to rank; of more the largest are drawn."""
PERFETTO_URL = (
    "https://ui.perfetto.dev/#!/?startupCommands="
    "%5B%7B%22id%22%3A%22dev.perfetto.PinTracksByRegex%22%2C%22args%22%3A%5B%22%5EPath%20of%20%22%5D%7D%5D"
)
"""Where to open an overlay: processes open folded there, and this address pins the path's tracks above them."""


@dataclass(frozen=True)
class OverlayCounts:
    """What an overlay shows: the number of runs of the path, of arrows, and of those above the limit."""

    segments: int
    runs: int
    arrows: int
    arrows_left_out: int


def write_overlay(path: CriticalPath, target: str | Location, *, arrows: int = ARROW_LIMIT) -> OverlayCounts:
    """Write the path's trace as JSON with the path's rows behind its own, which stay as they are; ``.gz`` packs it.

    For a job, one text holds the events of all ranks in job time, and each rank's processes and arrows have their own
    numbers, or those of the file into which the ranks were merged; the path has a track for each rank that it runs on,
    and arrows from one to the other.

    A process of its own, on top, has one track: slices of a class, called and so coloured by it, and in each the runs
    of segments that it consists of, called by what the time belongs to. Up to ``arrows`` arrows join runs to the events
    that own them where the path changes lanes and at runs of at least 1% of the window, the longest first.

    Raises:
        TraceError: a trace's file is gone or has changed.
        OutputError: the file cannot be written or is a trace itself.
    """
    check_output(target, [part.graph.path for part in path.graph.rank_graphs])
    content, counts = _start_overlay(path, arrows)
    write_trace(target, content)
    return counts


def _start_overlay(path: CriticalPath, limit: int) -> tuple[Iterator[bytes], OverlayCounts]:
    graph = path.graph
    original = read_original(graph.rank_graphs[0].graph.trace)
    wanted, crossings = runs_with_arrows(path, original.base_ns), runs_before_crossings(path, original.base_ns)
    arrows = PathArrows(wanted[: max(limit, 0)], crossings[: max(limit, 0)])
    if graph.is_job:
        is_merged = len({part.graph.path for part in graph.rank_graphs}) == 1
        content = (_merged_chunks if is_merged else _job_chunks)(path, graph, original, arrows)
    else:
        content = original.with_rows(PathEvents(path, _target_of_file(path, original), arrows).lines())
    size = len(arrows.to_events) + len(arrows.crossings)
    return content, OverlayCounts(len(path.segment_table), len(path.runs), size, len(wanted) + len(crossings) - size)


def _target_of_file(path: CriticalPath, original: OriginalTrace) -> OverlayTarget:
    """Return where the path's rows are drawn in a file of one rank or of all, whose rows keep their places."""
    index = path.graph.event_table.index

    def place_of(row: int) -> Record:
        found = original.rows[index[row]]
        return {key: value for key, value in (("pid", found.pid), ("tid", found.tid)) if value is not None}

    return OverlayTarget(
        original.base_ns,
        process=next(unused_numbers(integer_ids(row.pid for row in original.rows), FIRST_FREE_PROCESS)),
        # Above everything that the trace has sorted to the top.
        sort_index=min(chain([0], _sort_indices(original.rows))) - 1,
        arrows=unused_numbers(integer_ids(row.id for row in original.rows if row.id is not None), 1),
        place_of=place_of,
    )


def _job_chunks(path: CriticalPath, job: DependencyGraph, first: OriginalTrace, arrows: PathArrows) -> Iterator[bytes]:
    """Yield the rows of all ranks in job time, rank by rank, and behind them the path's."""
    numbers, places = SharedIds(), dict[int, Record]()
    events = np.unique(path.runs.event[arrows.to_events])
    yield first.text[: first.first + 1]
    between = b""
    for part in job.rank_graphs:
        # One rank's text at a time is in memory, beside the first one's, which frames all.
        original = first if part.index == 0 else read_original(part.graph.trace)
        alone = job.graph(part.rank)
        moved = rewrite_rows(original, alone, part.graph, part.index, part.rank, first.base_ns, numbers)
        inside = original.text[original.first + 1 : original.end].strip()
        yield between if inside else b""
        yield from moved.text(original.first + 1, original.end)
        between = b",\n" if inside or between else b""
        for record in moved.added:
            yield between + orjson.dumps(record)
            between = b",\n"
        own = events[job.rank_index_of(events) == part.index]
        rows = zip(own.tolist(), job.event_table.index[own].tolist(), strict=True)
        places.update((row, moved.place_of(index)) for row, index in rows)
    canvas = OverlayTarget(
        first.base_ns, numbers.process(FIRST_FREE_PROCESS), -1, iter(numbers.arrow, None), places.__getitem__
    )  # fmt: skip
    yield between + ",\n".join(PathEvents(path, canvas, arrows).lines()).encode()
    yield b"\n" + first.text[first.end :]


def _merged_chunks(
    path: CriticalPath, job: DependencyGraph, original: OriginalTrace, arrows: PathArrows
) -> Iterator[bytes]:
    """Yield a file of merged ranks, its rows in job time and else as they are, and behind them the path's."""
    ranks = [(job.graph(part.rank), part.graph) for part in job.rank_graphs]
    yield from rewrite_times(original, ranks).text(0, original.end)
    yield b",\n" + ",\n".join(PathEvents(path, _target_of_file(path, original), arrows).lines()).encode()
    yield b"\n" + original.text[original.end :]


def _sort_indices(rows: list[OriginalRow]) -> Iterator[int]:
    for row in rows:
        if row.ph == "M":
            arguments = msgspec.json.decode(row.args)
            index = arguments.get("sort_index") if isinstance(arguments, dict) else None
            if isinstance(index, int):
                yield index
