"""A trace file's rows as text: GPU rows are moved in time and rows left out, and no other byte is read or changed."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path

import msgspec

import hta_graph as hg
from hta_graph.trace.decompress import read_bytes

GPU_CATEGORIES = frozenset({
    "kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "Kernel", "Memcpy", "Memset",
})  # fmt: skip
SYNC_CATEGORIES = frozenset({"cuda_sync", "synchronization"})
FLOW_PHASES = frozenset("stf")
NUMBERED = rb'("(?:correlation|External id|id)"\s*:\s*)(\d+)'
FAR = 1_000_000_000
"""Added to the ids of a second trace, so that they are none of the first."""
NUMBER = rb'"%s"\s*:\s*("?)([-+0-9.eE]+)'


class _Place(msgspec.Struct):
    pid: msgspec.Raw = msgspec.Raw(b"")
    tid: msgspec.Raw = msgspec.Raw(b"")
    ph: str = ""
    cat: str | None = ""

    @property
    def lane(self) -> tuple[bytes, bytes]:
        return bytes(self.pid), bytes(self.tid)


class _Device(msgspec.Struct):
    device: int | str | None = None


class _OnDevice(msgspec.Struct):
    args: _Device | None = None


@dataclass(frozen=True)
class RawTrace:
    """The rows of a file, in its order; without a header the file is a bare array."""

    header: Mapping[str, msgspec.Raw] | None
    rows: tuple[bytes, ...]

    @classmethod
    def of_file(cls, path: Path) -> RawTrace:
        """Read a file of strict JSON, compressed or not."""
        return cls.of_bytes(bytes(read_bytes(path).data))

    @classmethod
    def of_bytes(cls, text: bytes) -> RawTrace:
        """Split a file's text into rows."""
        header = None
        rows = msgspec.Raw(text)
        if not text.lstrip().startswith(b"["):
            header = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
            if "traceEvents" not in header:
                raise ValueError("no traceEvents")
            rows = header["traceEvents"]
        return cls(header, tuple(map(bytes, msgspec.json.decode(rows, type=list[msgspec.Raw]))))

    def to_bytes(self) -> bytes:
        """Return the file's text."""
        rows = b"[" + b",\n".join(self.rows) + b"]"
        if self.header is None:
            return rows
        fields = {**{key: bytes(value) for key, value in self.header.items()}, "traceEvents": rows}
        return b"{" + b",\n".join(msgspec.json.encode(key) + b": " + value for key, value in fields.items()) + b"}"

    def graph(self) -> hg.DependencyGraph:
        """Build the graph as a user would."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json"
            path.write_bytes(self.to_bytes())
            return hg.build_graph(hg.read_trace(path))

    @cached_property
    def _places(self) -> list[_Place]:
        decoder = msgspec.json.Decoder(_Place)
        return [decoder.decode(row) for row in self.rows]

    @cached_property
    def gpu_rows(self) -> list[int]:
        """The positions of rows whose times the GPU's clock stamped, and of arrows' ends in their lanes."""
        stamped = [at for at, place in enumerate(self._places) if place.ph == "X" and place.cat in GPU_CATEGORIES]
        lanes = {self._places[at].lane for at in stamped}
        arrows = (at for at, place in enumerate(self._places) if place.ph in FLOW_PHASES and place.lane in lanes)
        return [*stamped, *arrows]

    @cached_property
    def device_of_row(self) -> dict[int, int | str | None]:
        """The device of each GPU row; arrows have that of their lane."""
        decoder = msgspec.json.Decoder(_OnDevice)
        of_lane: dict[tuple[bytes, bytes], int | str | None] = {}
        found: dict[int, int | str | None] = {}
        for at in self.gpu_rows:
            lane = self._places[at].lane
            args = decoder.decode(self.rows[at]).args
            if args is not None and args.device is not None:
                of_lane[lane] = args.device
            found[at] = of_lane.get(lane)
        return found

    def moved(self, ns: int, device: int | None = None) -> RawTrace:
        """Add to the times of all GPU rows, or of those of one device; no digit of a fraction is lost.

        >>> trace = RawTrace.of_bytes(b'[{"ph":"X","cat":"kernel","ts": 1712867402348256.123,"dur":2}]')
        >>> trace.moved(-1_500).rows
        (b'{"ph":"X","cat":"kernel","ts": 1712867402348254.623,"dur":2}',)
        """
        if ns == 0:
            return self
        chosen = self.gpu_rows if device is None else [at for at in self.gpu_rows if self.device_of_row[at] == device]
        return self.changed({at: lambda row: plus(row, "ts", ns) for at in chosen})

    def changed(self, changes: Mapping[int, Callable[[bytes], bytes]]) -> RawTrace:
        """Return the file with some rows changed, by their positions."""
        rows = list(self.rows)
        for at, change in changes.items():
            rows[at] = change(rows[at])
        return RawTrace(self.header, tuple(rows))

    def without_sync_rows(self) -> tuple[RawTrace, list[int]]:
        """Return the file without its synchronization records, and the former position of each row."""
        kept = list(self._kept(SYNC_CATEGORIES))
        return RawTrace(self.header, tuple(self.rows[at] for at in kept)), kept

    def _kept(self, hidden: Collection[str]) -> Iterator[int]:
        return (at for at, place in enumerate(self._places) if place.cat not in hidden)

    def together_with(self, other: RawTrace, *, device: int) -> RawTrace:
        """Return a file of both traces' rows as of one process; the other's GPU rows are those of another device."""
        pid = next(place.pid for place in self._places if place.cat == "cpu_op")
        on_gpu = {other._places[at].lane for at in other.gpu_rows}

        def renamed(row: bytes, place: _Place) -> bytes:
            row = re.sub(NUMBERED, lambda found: found[1] + b"%d" % (int(found[2]) + FAR), row)
            if place.lane not in on_gpu:
                row = re.sub(rb'("pid"\s*:\s*)\d+', rb"\g<1>" + bytes(pid), row, count=1)
                return re.sub(rb'("tid"\s*:\s*)(\d+)', lambda found: found[1] + b"%d" % (int(found[2]) + FAR), row)
            return re.sub(rb'("(?:pid|device)"\s*:\s*)\d+', rb"\g<1>%d" % device, row)

        rows = (renamed(row, place) for row, place in zip(other.rows, other._places, strict=True))
        return RawTrace(self.header, (*self.rows, *rows))


def plus(row: bytes, field: str, ns: int) -> bytes:
    r"""Add to a time of a row, which may be a number or its text; whole microseconds stay whole where they can.

    >>> plus(b'{"name": "a \\"ts\\": 7", "ts": "12.5"}', "ts", 250), plus(b'{"ts": 7, "dur": 3}', "dur", 1_000)
    (b'{"name": "a \\"ts\\": 7", "ts": "12.750"}', b'{"ts": 7, "dur": 4}')
    """
    found = re.search(NUMBER % field.encode(), row)
    if found is None:
        raise ValueError(f"no {field} in {row!r}")
    micros = Decimal(found[2].decode()) + (Decimal(ns // 1_000) if ns % 1_000 == 0 else Decimal(ns).scaleb(-3))
    return row[: found.start(2)] + format(micros, "f").encode() + row[found.end(2) :]
