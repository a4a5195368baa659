"""A trace with counter tracks behind its own rows, for Perfetto and other viewers of Chrome's format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from hta_graph.export.perfetto.append_events import read_original, write_trace
from hta_graph.model import Floats, Ints
from hta_graph.storage.location import Location
from hta_graph.storage.output_paths import check_output
from hta_graph.text.formatting import microseconds
from hta_graph.trace.table import Trace

__all__ = ["CounterTrack", "write_counters"]


@dataclass(frozen=True)
class CounterTrack:
    """A number over time: from each time (ns) on it has the value.

    Attributes:
        name: the track's name.
        argument: what the number is called.
        id: tells tracks of one name apart; none if there is one. It is written as text: Perfetto takes tracks whose
            ids are numbers for one.
        process: the id of the process that the track stands in; a GPU is the process with its number.
        time: when the number changes.
        value: its values.
    """

    name: str
    argument: str
    id: int | None
    process: int
    time: Ints
    value: Ints | Floats

    def rows(self, base_ns: int) -> Iterator[str]:
        """Yield one row per change, timed from a trace's base time."""
        fields: dict[str, Any] = {"ph": "C", "pid": self.process, "name": self.name}
        if self.id is not None:
            fields["id"] = str(self.id)
        head = orjson.dumps(fields).decode()[:-1]
        argument = orjson.dumps(self.argument).decode()
        for time, value in zip((self.time - base_ns).tolist(), self.value.tolist(), strict=True):
            yield f'{head},"ts":{microseconds(time)},"args":{{{argument}:{value!r}}}}}'


def write_counters(trace: Trace, tracks: Sequence[CounterTrack], target: str | Location) -> int:
    """Write a trace with counter tracks and return how many points they have; gzip if the name ends in ``.gz``.

    What the trace holds stays as it is, byte for byte.

    Raises:
        TraceError: the trace's file is gone or has changed.
        OutputError: the file cannot be written or is the trace itself.
    """
    check_output(target, [trace.path])
    original = read_original(trace)
    content = original.with_rows(row for track in tracks for row in track.rows(original.base_ns))
    write_trace(target, content)
    return sum(len(track.time) for track in tracks)
