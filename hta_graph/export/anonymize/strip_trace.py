"""strip: a trace as others may see it, written whole, with the same graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import orjson

from hta_graph.export.anonymize.allowlist import ArgumentAllowlist
from hta_graph.export.anonymize.anonymize_trace import ALL_ARGUMENTS, AnonymizedRows
from hta_graph.export.anonymize.keep_options import KEEP_OPTIONS
from hta_graph.export.anonymize.kept_header import allowed_header
from hta_graph.export.anonymize.pseudonyms import Pseudonyms
from hta_graph.export.anonymize.renumbered import IdMap
from hta_graph.storage.atomic_write import write_file
from hta_graph.storage.compress import compressed_for
from hta_graph.storage.location import Location
from hta_graph.storage.output_paths import check_output
from hta_graph.trace.reader import RowReader
from hta_graph.trace.source import read_bytes
from hta_graph.trace.table import Trace

__all__ = ["TraceAnonymizer"]

DAY_NS = 86_400 * 10**9
"""Where stripped times begin: late enough that other ranks' clocks may be behind."""


@dataclass
class TraceAnonymizer:
    """Strips the ranks of one job, the lowest first: all get the same pseudonyms and the same origin of time.

    Args:
        keep: what stays besides what everybody knows; keys of ``KEEP_OPTIONS``.
        keep_times: whether the date stays.

    ``names`` are the pseudonyms, ``dropped`` the arguments that went by key, ``emptied`` the rows that went by phase,
    ``events`` how many rows stayed events.
    """

    keep: Collection[str] = ()
    keep_times: bool = False
    dropped: Counter[str] = field(default_factory=Counter)
    emptied: Counter[str] = field(default_factory=Counter)
    events: int = 0
    _origin_ns: int | None = None

    def __post_init__(self) -> None:
        self.names = Pseudonyms(category for key in self.keep for category in KEEP_OPTIONS[key])

    def write(self, trace: Trace, target: str | Location) -> None:
        """Write a rank's trace without what its owner would not give away; packed as the target's name says.

        Raises:
            TraceError: the trace's file is gone or has changed.
            OutputError: the file cannot be written or is the trace itself.
            MissingExtraError: it is to be packed as zstd, and that package is not installed.
        """
        check_output(target, [trace.path])
        write_file(target, compressed_for(target, self.text(trace)))

    def text(self, trace: Trace) -> Iterator[bytes]:
        """Yield the stripped trace as JSON, in pieces.

        Raises:
            TraceError: the trace's file is gone or has changed.
        """
        if self._origin_ns is None:
            first = int(trace.events.start.min()) if len(trace.events) else 0
            self._origin_ns = first // 1000 * 1000 - DAY_NS
        has_shapes = "shapes" in self.keep
        numbers = IdMap(trace.lanes, self.names)
        arguments = ArgumentAllowlist(self.names, numbers, shapes=has_shapes)
        rows = AnonymizedRows(trace, self.names, numbers, arguments, self._origin_ns, self.emptied)
        reader = RowReader(trace.path, read_bytes(trace.path), ALL_ARGUMENTS, salvage=trace.salvaged is not None)
        yield b'{"traceEvents":['
        between = b""
        for part in reader:
            if part.rows:
                yield between + rows.text_of(part)
                between = b",\n"
        rows.check_complete()
        header = allowed_header(reader.facts.header, self.names, shapes=has_shapes)
        if self.keep_times:
            header["baseTimeNanoseconds"] = self._origin_ns
        yield b"\n]" + (b"," + orjson.dumps(header)[1:-1] if header else b"") + b"}\n"
        self.events += len(trace.events)
        self.dropped += arguments.dropped
