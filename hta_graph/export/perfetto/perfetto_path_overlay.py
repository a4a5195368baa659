"""A trace, or the traces of a job, with the critical path on top, for Perfetto and other viewers of Chrome's format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import msgspec
import numpy as np
import orjson

from hta_graph.export.perfetto.append_events import (
    FIRST_FREE_PROCESS,
    OriginalRow,
    OriginalTrace,
    integer_ids,
    read_original,
    unused_numbers,
    write_trace,
)
from hta_graph.export.perfetto.path_arrows import runs_before_crossings, runs_with_arrows
from hta_graph.export.perfetto.path_overlay import OverlayTarget, PathArrows, PathEvents, Record
from hta_graph.export.perfetto.rewrite_rows import SharedIds, rewrite_rows
from hta_graph.graph.job_graph import JobGraph
from hta_graph.paths.critical_path import CriticalPath
from hta_graph.storage.location import Location
from hta_graph.storage.output_paths import check_output

__all__ = ["PERFETTO_URL", "ARROW_LIMIT", "OverlayCounts", "overlay_bytes", "write_overlay"]

ARROW_LIMIT = 500
"""Most arrows of one overlay to events, and most from rank to rank; of more the largest are drawn."""
PERFETTO_URL = (
    "https://ui.perfetto.dev/#!/?startupCommands="
    "%5B%7B%22id%22%3A%22dev.perfetto.PinTracksByRegex%22%2C%22args%22%3A%5B%22%5EPath%20of%20%22%5D%7D%5D"
)
"""Where to open an overlay: processes open folded there, and this address pins the path's tracks above them."""


@dataclass(frozen=True)
class OverlayCounts:
    """What an overlay shows: segments of the path as so many runs, arrows, and how many the limit left out."""

    segments: int
    runs: int
    arrows: int
    arrows_left_out: int


def overlay_bytes(path: CriticalPath, *, arrows: int = ARROW_LIMIT) -> bytes:
    """Return the path's trace as JSON with the path's rows behind its own, which stay as they are.

    Of a job the rows of all ranks stand in one text, in job time, and each rank's processes and arrows have numbers
    that no other rank has; the path has a track for each rank that it runs on, and arrows from one to the other.

    A process of its own, on top, has one track: slices of a class, called and so coloured by it, and in each the runs
    of segments that it consists of, called by what the time belongs to. Arrows join runs to the events that own them
    where the path changes lanes and at runs of at least 1 % of the window.

    Args:
        path: the critical path; its trace's file is read again.
        arrows: draw at most so many arrows, those at the longest runs.

    Raises:
        TraceError: the file is gone or has changed.
    """
    return b"".join(_start_overlay(path, arrows)[0])


def write_overlay(path: CriticalPath, target: str | Location, *, arrows: int = ARROW_LIMIT) -> OverlayCounts:
    """Write :func:`overlay_bytes` to a file; gzip if its name ends in ``.gz``.

    Raises:
        TraceError: a trace's file is gone or has changed.
        OutputError: the file cannot be written or is a trace itself.
    """
    check_output(target, [part.graph.path for part in path.graph.parts])
    content, counts = _start_overlay(path, arrows)
    write_trace(target, content)
    return counts


def _start_overlay(path: CriticalPath, limit: int) -> tuple[Iterator[bytes], OverlayCounts]:
    graph = path.graph
    lowest = graph.parts[0].graph.trace if len(graph.parts) > 1 else graph.trace
    original = read_original(lowest)
    wanted, crossings = runs_with_arrows(path, original.base_ns), runs_before_crossings(path, original.base_ns)
    arrows = PathArrows(wanted[: max(limit, 0)], crossings[: max(limit, 0)])
    if isinstance(graph, JobGraph) and len(graph.parts) > 1:
        content = _job_chunks(path, graph, original, arrows)
    else:
        content = original.with_rows(PathEvents(path, _target_of_rank(path, original), arrows).lines())
    size = len(arrows.to_events) + len(arrows.crossings)
    return content, OverlayCounts(len(path.pieces), len(path.runs), size, len(wanted) + len(crossings) - size)


def _target_of_rank(path: CriticalPath, original: OriginalTrace) -> OverlayTarget:
    """Return where the path's rows are drawn in the trace of one rank, whose rows stay as they are."""
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


def _job_chunks(path: CriticalPath, job: JobGraph, first: OriginalTrace, arrows: PathArrows) -> Iterator[bytes]:
    """Yield the rows of all ranks in job time, rank by rank, and behind them the path's."""
    numbers, places = SharedIds(), dict[int, Record]()
    events = np.unique(path.runs.event[arrows.to_events])
    yield first.text[: first.first + 1]
    between = b""
    for part in job.parts:
        # One rank's text at a time is in memory, beside the first one's, which frames all.
        original = first if part.place == 0 else read_original(part.graph.trace)
        alone = job.graph(part.rank)
        moved = rewrite_rows(original, alone, part.graph, part.place, part.rank, first.base_ns, numbers)
        inside = original.text[original.first + 1 : original.end].strip()
        yield between if inside else b""
        yield from moved.text(original.first + 1, original.end)
        between = b",\n" if inside or between else b""
        for record in moved.added:
            yield between + orjson.dumps(record)
            between = b",\n"
        own = events[job.rank_index_of(events) == part.place]
        rows = zip(own.tolist(), job.event_table.index[own].tolist(), strict=True)
        places.update((row, moved.place_of(index)) for row, index in rows)
    canvas = OverlayTarget(
        first.base_ns, numbers.process(FIRST_FREE_PROCESS), -1, iter(numbers.arrow, None), places.__getitem__
    )  # fmt: skip
    yield between + ",\n".join(PathEvents(path, canvas, arrows).lines()).encode()
    yield b"\n" + first.text[first.end :]


def _sort_indices(rows: list[OriginalRow]) -> Iterator[int]:
    for row in rows:
        if row.ph == "M":
            arguments = msgspec.json.decode(row.args)
            index = arguments.get("sort_index") if isinstance(arguments, dict) else None
            if isinstance(index, int):
                yield index
