"""The rows of a path in the format of traces: slices of classes and runs, and arrows to what they belong to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice
from typing import Any

import numpy as np
import orjson

from hta_graph.arrays import distinct, first_of_runs
from hta_graph.export.perfetto.class_colours import CLASS_CNAME, CLASS_TITLE
from hta_graph.export.perfetto.path_arrows import is_visible
from hta_graph.model import BoundBy, EdgeKind, Ints, edge_kinds
from hta_graph.paths.critical_path import CriticalPath
from hta_graph.text.formatting import microseconds

__all__ = ["OverlayTarget", "PathArrows", "PathEvents"]

NAME_LIMIT = 60
PROCESS_NAME = "Critical path"
TRACK_PREFIX = "Path of "
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
    """The runs of a path with an arrow to or from their event, and those after which it goes on at another rank."""

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
        columns, runs = self.path.run_columns(), self.path.runs
        visible = is_visible(runs.start, runs.end, self.canvas.base_ns).tolist()
        varying = (columns[key].tolist() for key in ("start_ns", "end_ns", "event_index", "segments"))
        repeated = zip(*(columns[key].tolist() for key in _REPEATED), strict=True)
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
        rank = graph.parts[part].rank if len(graph.parts) > 1 else graph.rank
        return TRACK_PREFIX + _shortened_name(self.path.window.label) + ("" if rank is None else f", rank {rank}")

    def _arrow_records(self, run: int) -> Iterator[str]:
        """Yield an arrow between a run and its event, from the earlier start to the later one.

        At its start a slice is the topmost one of its track; a record inside it would bind to a child that is over.
        """
        event = int(self.path.runs.event[run])
        own = int(self.path.runs.start[run]), self.places[self.part_of_run[run]]
        ends = [own, (int(self.path.graph.event_table.start[event]), self.canvas.place_of(event))]
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
}
"""The columns of which many runs share the same values, and what a viewer calls them."""


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
    """Tell whether nobody works; a launching call does until it returns, though its edge is that of the launch."""
    calls = known["edge"] == EdgeKind.LAUNCH.label and known["bound_by"] == BoundBy.CPU_BOUND.label
    return known["edge"] in LAG_KINDS and not calls


def _json_text(value: Record) -> str:
    return orjson.dumps(value).decode()


def _shortened_name(name: str) -> str:
    return name if len(name) <= NAME_LIMIT else name[: NAME_LIMIT - 1] + "…"
