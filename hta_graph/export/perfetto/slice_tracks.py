"""A trace with a process of marks behind its own rows, for Perfetto and other viewers of Chrome's format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from hta_graph.export.perfetto.append_events import (
    FIRST_FREE_PROCESS,
    OriginalTrace,
    integer_ids,
    read_original,
    rounded_by_viewer,
    unused_numbers,
    write_trace,
)
from hta_graph.model import Ints
from hta_graph.storage.location import Location
from hta_graph.storage.output_paths import check_output
from hta_graph.text.formatting import microseconds
from hta_graph.trace.table import Trace

__all__ = ["SliceTrack", "write_slices"]


@dataclass(frozen=True)
class SliceTrack:
    """Slices on a track of their own, in order of time (ns): a text and arguments for each.

    One that would reach into the next is drawn up to that.
    """

    name: str
    start: Ints
    end: Ints
    texts: Sequence[str]
    arguments: Sequence[dict[str, Any]]


def write_slices(trace: Trace, process: str, tracks: Sequence[SliceTrack], target: str | Location) -> int:
    """Write a trace with a process of tracks and return how many slices it has; gzip if the name ends in ``.gz``.

    What the trace holds stays as it is, byte for byte.

    Raises:
        TraceError: the trace's file is gone or has changed.
        OutputError: the file cannot be written or is the trace itself.
    """
    check_output(target, [trace.path])
    original = read_original(trace)
    content = original.with_rows(orjson.dumps(row).decode() for row in _track_rows(original, process, tracks))
    write_trace(target, content)
    return sum(len(track.start) for track in tracks)


def _track_rows(original: OriginalTrace, process: str, tracks: Sequence[SliceTrack]) -> Iterator[dict[str, Any]]:
    pid = next(unused_numbers(integer_ids(row.pid for row in original.rows), FIRST_FREE_PROCESS))
    if tracks:
        yield {"ph": "M", "pid": pid, "tid": 0, "name": "process_name", "args": {"name": process}}
    for tid, track in enumerate(tracks, start=1):
        place = {"pid": pid, "tid": tid}
        yield {"ph": "M", **place, "name": "thread_name", "args": {"name": track.name}}
        yield {"ph": "M", **place, "name": "thread_sort_index", "args": {"sort_index": tid}}
        yield from _slice_rows(place, track, original.base_ns)


def _slice_rows(place: dict[str, Any], track: SliceTrack, base_ns: int) -> Iterator[dict[str, Any]]:
    """Yield a begin and an end per slice, so that they stay apart however a viewer rounds, or an instant."""
    start, end = track.start - base_ns, track.end - base_ns
    # Slices of one track may not overlap; a viewer would drop the later one.
    end[:-1] = np.minimum(end[:-1], start[1:])
    visible = (rounded_by_viewer(start) < rounded_by_viewer(end)).tolist()
    times = zip(start.tolist(), end.tolist(), visible, strict=True)
    for (begins, ends, is_visible), text, arguments in zip(times, track.texts, track.arguments, strict=True):
        phase = {"ph": "B"} if is_visible else {"ph": "i", "s": "t"}
        yield {**phase, **place, "ts": _time_fragment(begins), "name": text, "args": arguments}
        if is_visible:
            yield {"ph": "E", **place, "ts": _time_fragment(ends)}


def _time_fragment(time_ns: int) -> orjson.Fragment:
    return orjson.Fragment(microseconds(time_ns))
