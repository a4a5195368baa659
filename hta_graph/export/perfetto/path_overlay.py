"""A trace with its critical path on top, for Perfetto and other viewers of Chrome's format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import orjson

from hta_graph.algorithms.time.critical_path import CriticalPath
from hta_graph.columns import first_of_runs
from hta_graph.export.files import check_output, write_file
from hta_graph.export.perfetto.appended import (
    FIRST_PROCESS,
    Original,
    OriginalRow,
    free_numbers,
    gzipped,
    integers_in,
    microseconds,
    read_original,
)
from hta_graph.export.perfetto.class_colours import PALETTE_NAME, TITLE
from hta_graph.export.perfetto.path_arrows import is_visible, runs_with_arrows
from hta_graph.model import BoundBy, EdgeKind, Ints, edge_kinds

__all__ = ["ADDRESS", "ARROW_LIMIT", "OverlayCounts", "overlay_bytes", "write_overlay"]

ARROW_LIMIT = 500
"""Most arrows of one overlay; where more are wanted, those at the longest runs are drawn."""
NAME_LIMIT = 60
PROCESS = "Critical path"
TRACK = "Path of "
CATEGORY = "critical_path"
ADDRESS = (
    "https://ui.perfetto.dev/#!/?startupCommands="
    "%5B%7B%22id%22%3A%22dev.perfetto.PinTracksByRegex%22%2C%22args%22%3A%5B%22%5EPath%20of%20%22%5D%7D%5D"
)
"""Where to open an overlay: processes open folded there, and this address pins the path's track above them."""
LAGS = [kind.label for kind in edge_kinds(lambda meaning: meaning.lag is not None)]
"""Edges on which time is a lag, so that a slice is called by the edge too."""
NOBODY = "(nothing recorded)"

Record = dict[str, Any]


@dataclass(frozen=True)
class OverlayCounts:
    """What an overlay shows: segments of the path as so many runs, arrows, and how many the limit left out."""

    segments: int
    runs: int
    arrows: int
    arrows_left_out: int


def overlay_bytes(path: CriticalPath, *, arrows: int = ARROW_LIMIT) -> bytes:
    """Return the path's trace as JSON with the path's rows behind its own, which stay as they are.

    A process of its own, on top, has one track: slices of a class, called and so coloured by it, and in each the runs
    of segments that it consists of, called by what the time belongs to. Arrows join runs to the events that own them
    where the path changes lanes and at runs of at least 1 % of the window.

    Args:
        path: the critical path; its trace's file is read again.
        arrows: draw at most so many arrows, those at the longest runs.

    Raises:
        TraceError: the file is gone or has changed.
    """
    original, writer, _ = _start_overlay(path, arrows)
    return b"".join(original.with_rows(writer.lines()))


def write_overlay(path: CriticalPath, target: str | Path, *, arrows: int = ARROW_LIMIT) -> OverlayCounts:
    """Write :func:`overlay_bytes` to a file; gzip if its name ends in ``.gz``.

    Raises:
        TraceError: the trace's file is gone or has changed.
        OutputError: the file cannot be written or is the trace itself.
    """
    check_output(target, [path.graph.trace.path])
    original, writer, counts = _start_overlay(path, arrows)
    content = original.with_rows(writer.lines())
    write_file(target, gzipped(content) if str(target).endswith(".gz") else content)
    return counts


def _start_overlay(path: CriticalPath, limit: int) -> tuple[Original, _PathWriter, OverlayCounts]:
    original = read_original(path.graph.trace)
    wanted = runs_with_arrows(path, original.base_ns)
    writer = _PathWriter(path, original, wanted[: max(limit, 0)])
    drawn = len(writer.arrow_ids)
    return original, writer, OverlayCounts(len(path.pieces), len(path.runs), drawn, len(wanted) - drawn)


# -- the rows of the overlay ------------------------------------------------------------------------------------------


class _PathWriter:
    """Makes the rows of one path.

    A slice is a begin and an end row, so that slices tile however a viewer rounds; one that it would round to nothing
    is an instant, since viewers sort ends before begins.

        class     |    gpu_compute_bound    | gpu_kernel_kernel_overhead |  ...
        run       |   gemm    |    relu     |  stream_order: softmax     |  ...
    """

    def __init__(self, path: CriticalPath, original: Original, with_arrow: Ints) -> None:
        self.path = path
        self.original = original
        free = free_numbers(integers_in(row.pid for row in original.rows), FIRST_PROCESS)
        pid = next(free)
        # A thread with its process's number would be marked as the main one.
        self.place = {"pid": pid, "tid": pid + 1}
        ids = free_numbers(integers_in(row.id for row in original.rows if row.id is not None), 1)
        self.arrow_ids = dict(zip(with_arrow.tolist(), ids, strict=False))

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
        begins = np.flatnonzero(first_of_runs(runs.bound))
        following = np.append(begins[1:], len(runs))
        start, end = runs.start[begins], runs.end[following - 1]
        columns = (
            is_visible(start, end, self.original.base_ns),
            start,
            end,
            runs.bound[begins],
            following - begins,
            np.add.reduceat(runs.segments, begins) if len(runs) else begins,
        )
        for is_drawn, start_ns, end_ns, bound, count, segments in zip(*(c.tolist() for c in columns), strict=True):
            rest = f'{described(bound)}{end_ns - start_ns},"segments":{segments}}}}}'
            opening = f'{{"ph":"B",{self._place_text},"ts":{self._printed_time(start_ns)},{rest}'
            yield ([opening], [self._end_of_slice(end_ns)], count) if is_drawn else ([], [], count)

    def _end_of_slice(self, end_ns: int) -> str:
        return f'{{"ph":"E",{self._place_text},"ts":{self._printed_time(end_ns)}}}'

    def _run_texts(self) -> Iterator[Iterator[str]]:
        """Yield the rows of each run."""
        # A path of a million segments repeats a few thousand descriptions; each is encoded once.
        described = cache(_shared_description)
        columns, runs = self.path.run_columns(), self.path.runs
        visible = is_visible(runs.start, runs.end, self.original.base_ns).tolist()
        varying = (columns[key].tolist() for key in ("start_ns", "end_ns", "event_index", "segments"))
        repeated = zip(*(columns[key].tolist() for key in _REPEATED), strict=True)
        for run, (is_drawn, values, rest) in enumerate(zip(visible, zip(*varying, strict=True), repeated, strict=True)):
            yield self._one_run(run, values, described(*rest), is_drawn=is_drawn)

    def _one_run(
        self, run: int, values: tuple[int, int, int | None, int], described: str, *, is_drawn: bool
    ) -> Iterator[str]:
        """Yield the begin of a run's slice, its arrow and its end, or an instant."""
        start_ns, end_ns, index, segments = values
        event = "" if index is None else f',"event_index":{index}'
        merged = f',"merged":"{segments:,} segments"' if segments > 1 else ""
        phase = '"B"' if is_drawn else '"i","s":"t"'
        rest = f"{described}{end_ns - start_ns}{event}{merged}}}}}"
        yield f'{{"ph":{phase},{self._place_text},"ts":{self._printed_time(start_ns)},{rest}'
        if run in self.arrow_ids:
            yield from self._arrow_records(run)
        if is_drawn:
            yield self._end_of_slice(end_ns)

    def _track_names(self) -> Iterator[str]:
        window, rank = self.path.window, self.path.graph.rank
        name = TRACK + _shortened_name(window.label) + ("" if rank is None else f", rank {rank}")
        # Above everything that the trace has sorted to the top.
        first = min(chain([0], _sort_indices(self.original.rows))) - 1
        for key, value in (
            ("process_name", {"name": PROCESS}),
            ("process_sort_index", {"sort_index": first}),
            ("thread_name", {"name": name}),
            ("thread_sort_index", {"sort_index": self.place["tid"]}),
        ):
            ts = orjson.Fragment(self._printed_time(window.start_ns))
            yield _json_text({"ph": "M", **self.place, "ts": ts, "name": key, "args": value})

    def _arrow_records(self, run: int) -> Iterator[str]:
        """Yield an arrow between a run and its event, from the earlier start to the later one.

        At its start a slice is the topmost one of its track; a record inside it would bind to a child that is over.
        """
        events, event = self.path.graph.event_table, self.path.runs.event[run]
        row = self.original.rows[events.index[event]]
        place = {key: value for key, value in (("pid", row.pid), ("tid", row.tid)) if value is not None}
        ends = [(int(self.path.runs.start[run]), self.place), (int(events.start[event]), place)]
        phases: list[Record] = [{"ph": "s"}, {"ph": "f", "bp": "e"}]
        arrow = {"id": self.arrow_ids[run], "cat": CATEGORY, "name": CATEGORY}
        for phase, (time_ns, where) in zip(phases, sorted(ends, key=lambda end: end[0]), strict=True):
            yield _json_text(phase | arrow | where | {"ts": orjson.Fragment(self._printed_time(time_ns))})

    @cached_property
    def _place_text(self) -> str:
        return _json_text(self.place)[1:-1]

    def _printed_time(self, time_ns: int) -> str:
        return microseconds(time_ns - self.original.base_ns)


_REPEATED = {
    "bound_by": "bound_by",
    "reason": "reason",
    "name": "event",
    "inside": "inside",
    "edge": "edge",
    "evidence": "evidence",
    "lane": "lane",
    "carried_over": "carried_over",
}
"""The columns of which many runs share the same values, and what a viewer calls them."""


def _class_description(bound: int) -> str:
    """Return the text of what slices of a class share, up to the place of the length."""
    key = BoundBy(bound).label
    look = {"cat": CATEGORY, "name": TITLE[key], "cname": PALETTE_NAME[key]}
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
    return ": ".join(text for text in (why, known["event"]) if text) or NOBODY


def _is_lag(known: Record) -> bool:
    """Tell whether nobody works; a launching call does until it returns, though its edge is that of the launch."""
    calls = known["edge"] == EdgeKind.LAUNCH.label and known["bound_by"] == BoundBy.CPU_BOUND.label
    return known["edge"] in LAGS and not calls


def _json_text(value: Record) -> str:
    return orjson.dumps(value).decode()


def _shortened_name(name: str) -> str:
    return name if len(name) <= NAME_LIMIT else name[: NAME_LIMIT - 1] + "…"


def _sort_indices(rows: list[OriginalRow]) -> Iterator[int]:
    for row in rows:
        if row.ph == "M":
            arguments = msgspec.json.decode(row.args)
            index = arguments.get("sort_index") if isinstance(arguments, dict) else None
            if isinstance(index, int):
                yield index
