"""Packets of a Perfetto trace → slices with begin and end, and the activities of GPUs, with their arguments.

Sources: protos/perfetto/trace of Perfetto, and of PyTorch torch/csrc/profiler/cuspy/cuspy_pftrace.cpp.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, groupby, pairwise
from typing import Any

from hta_graph.base.protobuf import DecodeError, read_varint
from hta_graph.trace.pftrace.schema import TracePacket

PACKET_TAG = 0x0A
"""Field 1 of a trace, with a length: a packet."""
LONGEST_PACKET = 1 << 28
STATE_CLEARED = 1
"""Of a packet's flags: what was interned before means nothing any more."""
BEGIN, END = 1, 2
"""Types of track events; instants and counters are no slices."""
LENGTH_BYTES = 10
"""Of the longest length."""


class CutError(Exception):
    """The packets cannot be read from a byte on."""

    def __init__(self, byte: int, *, is_end: bool) -> None:
        super().__init__(byte)
        self.message = f"the Perfetto data is {'truncated' if is_end else 'corrupt'} at byte {byte:,}"


def packets(pieces: Iterable[bytes]) -> Iterator[tuple[int, Any]]:
    """Yield the packets of a trace that comes in pieces, each with the byte at which the next one begins.

    Raises:
        CutError: the data ends within a packet, or is none.
    """
    # Packets may be long, and pieces short: what is held grows in place.
    held, begin = bytearray(), 0
    for piece in pieces:
        held += piece
        at = 0
        while (found := _packet_in(held, at, begin)) is not None:
            first, past = found
            try:
                packet = TracePacket.FromString(bytes(held[first:past]))
            except DecodeError:
                raise CutError(begin + at, is_end=False) from None
            at = past
            yield begin + at, packet
        del held[:at]
        begin += at
    if held:
        raise CutError(begin, is_end=True)


def _packet_in(held: bytearray, at: int, begin: int) -> tuple[int, int] | None:
    """Return where the content of the packet at a place begins and ends; None where more is needed."""
    if at >= len(held):
        return None
    found = read_varint(held, at + 1, LENGTH_BYTES)
    may_be_one = found is not None or len(held) <= at + LENGTH_BYTES
    size, first = found or (0, 0)
    if held[at] != PACKET_TAG or not may_be_one or size > LONGEST_PACKET:
        raise CutError(begin + at, is_end=False)
    return (first, first + size) if found and first + size <= len(held) else None


@dataclass
class Slice:
    """A slice of a track, or what a GPU did (``waits`` and ``number``: of its event, and of those it waited for)."""

    name: str
    category: str
    track: int
    start: int
    end: int | None
    args: dict[str, Any]
    number: int = 0
    waits: tuple[int, ...] = ()


Event = tuple[int, int, Slice | None]
"""Track, time and slice (None: an end) of a begin or end."""


@dataclass
class Contents:
    """What the packets of a file hold; ``strays`` are ends of slices without a begin: track and time."""

    slices: list[Slice] = field(default_factory=list)
    stages: list[Slice] = field(default_factory=list)
    threads: dict[int, tuple[int, int, str]] = field(default_factory=dict)
    processes: dict[int, tuple[int, str]] = field(default_factory=dict)
    strays: list[tuple[int, int]] = field(default_factory=list)
    text_size: int = 0
    """How long (characters) the interned texts are, as often as they are used."""
    _events: list[Event] = field(default_factory=list)
    """Each begin and end, in the order of the file."""
    _interned: dict[int, _Interned] = field(default_factory=dict)

    def add(self, packet: Any) -> None:
        """Take in what a packet holds."""
        sequence = packet.trusted_packet_sequence_id
        if packet.sequence_flags & STATE_CLEARED or sequence not in self._interned:
            self._interned[sequence] = _Interned()
        texts = self._interned[sequence]
        if packet.HasField("interned_data"):
            texts.learn(packet.interned_data)
        texts.used = 0
        if packet.HasField("track_descriptor"):
            self._add_track(packet.track_descriptor)
        if packet.HasField("track_event"):
            self._add_event(packet.timestamp, packet.track_event, texts)
        if packet.HasField("gpu_render_stage_event"):
            self.stages.append(_stage(packet.timestamp, packet.gpu_render_stage_event, texts))
        self.text_size += texts.used

    def _add_track(self, found: Any) -> None:
        if found.HasField("thread"):
            thread = found.thread
            self.threads[found.uuid] = thread.pid, thread.tid, _text(thread.thread_name)
        elif found.HasField("process"):
            self.processes[found.uuid] = found.process.pid, _text(found.process.process_name)

    def _add_event(self, time: int, event: Any, texts: _Interned) -> None:
        if event.type == END:
            self._events.append((event.track_uuid, time, None))
        elif event.type == BEGIN:
            numbered = (texts.of(texts.categories, number) for number in event.category_iids)
            categories = chain(map(_text, event.categories), numbered)
            name = _text(event.name) or texts.of(texts.names, event.name_iid)
            args = {texts.name_of(item): texts.value_of(item) for item in event.debug_annotations}
            found = Slice(name, next(filter(None, categories), ""), event.track_uuid, time, None, args)
            self._events.append((event.track_uuid, time, found))
            self.slices.append(found)

    def pair(self) -> None:
        """Give slices their ends.

        Packets in order of time: the end is that of the slice of its track that began last and is still open.
        PyTorch's encoder writes all begins of a table and then all ends, row by row; where a slice begins as another
        one ends, time alone would take the wrong one.
        """
        events = self._events
        if any(later[1] < earlier[1] for earlier, later in pairwise(events)):
            runs = [list(run) for _, run in groupby(events, key=lambda event: event[2] is None)]
            events = [event for run in _without_tables(runs) for event in run]
            events.sort(key=lambda event: event[1])
        stacks: dict[int, list[Slice]] = defaultdict(list)
        for track, time, found in events:
            if found is not None:
                stacks[track].append(found)
            elif stacks[track]:
                stacks[track].pop().end = time
            else:
                self.strays.append((track, time))
        self._events = []


def _without_tables(runs: list[list[Event]]) -> Iterator[list[Event]]:
    """Pair runs of begins with runs of ends that have the same tracks in the same order; yield the other runs."""
    at = 0
    while at < len(runs):
        begins, ends = runs[at], runs[at + 1] if at + 1 < len(runs) else []
        if begins[0][2] is None or not _is_table(begins, ends):
            yield begins
            at += 1
            continue
        for (_, _, found), (_, time, _) in zip(begins, ends, strict=True):
            if found is not None:
                found.end = time
        at += 2


def _is_table(begins: list[Event], ends: list[Event]) -> bool:
    return len(begins) == len(ends) and all(
        first[0] == last[0] and first[1] <= last[1] for first, last in zip(begins, ends, strict=True)
    )


class _Interned:
    """The texts of a sequence of packets, by their numbers."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.categories: dict[int, str] = {}
        self.keys: dict[int, str] = {}
        self.values: dict[int, str] = {}
        self.stages: dict[int, str] = {}
        self.used = 0

    def of(self, known: dict[int, str], number: int) -> str:
        """Return a text by its number; nothing where it is not known."""
        text = known.get(number, "")
        self.used += len(text)
        return text

    def learn(self, found: Any) -> None:
        """Take in the texts of a packet."""
        for texts, known in (
            (found.event_names, self.names), (found.event_categories, self.categories),
            (found.debug_annotation_names, self.keys), (found.debug_annotation_string_values, self.values),
            (found.gpu_specifications, self.stages),
        ):  # fmt: skip
            known.update((item.iid, _text(item.text)) for item in texts)

    def name_of(self, item: Any) -> str:
        """Return the key of an argument."""
        return _text(item.name) or self.of(self.keys, item.name_iid)

    def value_of(self, item: Any) -> Any:
        """Return the value of an argument as JSON has it; messages nest at most a hundred deep."""
        kind = item.WhichOneof("value")
        if kind is None:
            if item.dict_entries:
                return {self.name_of(entry): self.value_of(entry) for entry in item.dict_entries}
            return [self.value_of(entry) for entry in item.array_values]
        value = getattr(item, kind)
        if kind == "string_value_iid":
            return self.of(self.values, value)
        return _text(value) if kind == "string_value" else value


def _stage(time: int, event: Any, texts: _Interned) -> Slice:
    args: dict[str, Any] = {_text(item.name): _text(item.value) for item in event.extra_data}
    stage = texts.of(texts.stages, event.stage_iid)
    name = _text(event.name) or texts.of(texts.names, event.name_iid) or stage
    return Slice(
        name, stage, event.gpu_id, time, time + event.duration, args, event.event_id, tuple(event.event_wait_ids)
    )


def _text(value: bytes) -> str:
    return value.decode("utf-8", errors="replace")
