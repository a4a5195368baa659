"""A rank's rows in its job: other times, processes and arrows of their own; all else byte for byte as it was.

own         {"ph": "X", "pid": 0, "tid": 7, "ts": 12.5, "name": "gemm", …}
rewritten   {"ph": "X", "pid": 9, "tid": 7, "ts": 37.5, "name": "gemm", …}   spliced: the text of pid, ts, id, dur, args
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import orjson

from hta_graph.base.text.formatting import microseconds
from hta_graph.export.perfetto.append_events import CHUNK_BYTES, OriginalTrace, buffer_address
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Ids, Ints
from hta_graph.trace.timestamps import INVALID, nanoseconds

MAX_PROCESSES_PER_RANK = 1000
"""Ranks' processes are sorted rank by rank: processes that each rank has room for."""

ABSENT = msgspec.Raw(b"")
Splice = tuple[msgspec.Raw, str]
Record = dict[str, Any]


class _RewrittenRow(msgspec.Struct, gc=False):
    ph: Any = None
    name: Any = None
    pid: msgspec.Raw = ABSENT
    tid: msgspec.Raw = ABSENT
    ts: msgspec.Raw = ABSENT
    dur: msgspec.Raw = ABSENT
    id: msgspec.Raw = ABSENT
    args: msgspec.Raw = ABSENT


_ROW_DECODER = msgspec.json.Decoder(list[_RewrittenRow | str | float | bool | list[msgspec.Raw] | None])


class SharedIds:
    """The numbers that ranks may not share: of processes, which keep theirs where it is free, and of arrows."""

    def __init__(self) -> None:
        self.processes: set[int] = set()
        self._arrows = 0

    def process(self, wanted: Any) -> int:
        """Take a number for a process: the wanted one, if it is one and free."""
        number = wanted if isinstance(wanted, int) and not isinstance(wanted, bool) else 1
        while number in self.processes:
            number = max(number + 1, 1)
        self.processes.add(number)
        return number

    def arrow(self) -> int:
        """Take a number for an arrow."""
        self._arrows += 1
        return self._arrows


@dataclass(frozen=True)
class RewrittenRows:
    """A rank's rows, moved: what is spliced into the text, what is added, and where each row is drawn."""

    original: OriginalTrace
    splices: list[Splice]
    added: list[Record]
    rows: list[Any]
    process_of: dict[bytes, int]

    def place_of(self, index: int) -> Record:
        """Return the process and thread on which a viewer draws a row."""
        row = self.rows[index]
        place = {"pid": self.process_of.get(bytes(row.pid)), "tid": _decode_value(row.tid)}
        return {key: value for key, value in place.items() if value is not None}

    def text(self, start: int, end: int) -> Iterator[bytes]:
        """Yield the text from one place to another with what is spliced in, in pieces."""
        text, base = self.original.text, buffer_address(self.original.text)
        places = np.array([buffer_address(memoryview(raw)) - base for raw, _ in self.splices], np.int64)
        pieces, at, size = [], start, 0
        for number in np.argsort(places, kind="stable").tolist():
            raw, new = self.splices[number]
            place = int(places[number])
            pieces += [text[at:place], new.encode()]
            size += place - at
            at = place + len(memoryview(raw))
            if size >= CHUNK_BYTES:
                yield b"".join(pieces)
                pieces, size = [], 0
        yield b"".join([*pieces, text[at:end]])


def rewrite_rows(
    original: OriginalTrace, alone: DependencyGraph, moved: DependencyGraph, place: int, rank: int, base_ns: int,
    numbers: SharedIds,
) -> RewrittenRows:  # fmt: skip
    """Move a rank's rows to the times of its job, to processes and arrows that no other rank has.

    Args:
        original: its text.
        alone: its graph with its own times.
        moved: the same in job time.
        place: its place among the ranks.
        rank: its number.
        base_ns: from when the job's text counts times.
        numbers: what other ranks have taken.
    """
    array = memoryview(original.text)[original.first : original.end + 1]
    rows = [row if isinstance(row, _RewrittenRow) else _RewrittenRow() for row in _ROW_DECODER.decode(array)]
    process_of = _process_ids(rows, numbers)
    splices = [(row.pid, str(process_of[bytes(row.pid)])) for row in rows if _has_new_process_id(row, process_of)]
    splices += _arrow_splices(rows, numbers)
    splices += _time_splices(rows, original.base_ns, alone, moved, base_ns)
    named, added = _process_splices(rows, process_of, place, rank)
    return RewrittenRows(original, splices + named, added, rows, process_of)


def rewrite_times(original: OriginalTrace, ranks: Sequence[tuple[DependencyGraph, DependencyGraph]]) -> RewrittenRows:
    """Move the rows of a file of merged ranks to the times of their job; processes and arrows stay as they are.

    Args:
        original: its text.
        ranks: of each rank its graph with its own times, and the same in job time.
    """
    array = memoryview(original.text)[original.first : original.end + 1]
    rows = [row if isinstance(row, _RewrittenRow) else _RewrittenRow() for row in _ROW_DECODER.decode(array)]
    pids = [bytes(row.pid) for row in rows]
    process_of = {text: _decode_value(msgspec.Raw(text)) for text in set(pids)}
    splices: list[Splice] = []
    for alone, moved in ranks:
        recording = alone.trace.recording
        own = [
            row if recording and recording.owns(at, process_of[pid]) else _RewrittenRow()
            for at, (row, pid) in enumerate(zip(rows, pids, strict=True))
        ]
        splices += _time_splices(own, original.base_ns, alone, moved, original.base_ns)
    return RewrittenRows(original, splices, [], rows, {})


def _process_ids(rows: list[_RewrittenRow], numbers: SharedIds) -> dict[bytes, int]:
    """Number the processes of a rank, by the text of their ids; text and number of one value are one process."""
    found: dict[Any, int] = {}
    numbered = {}
    for text in dict.fromkeys(bytes(row.pid) for row in rows if bytes(row.pid)):
        value = _decode_value(msgspec.Raw(text))
        is_number = isinstance(value, (int, float)) or (isinstance(value, str) and value.isdecimal())
        key = int(value) if is_number else text
        if key not in found:
            found[key] = numbers.process(key)
        numbered[text] = found[key]
    return numbered


def _has_new_process_id(row: _RewrittenRow, process_of: dict[bytes, int]) -> bool:
    text = bytes(row.pid)
    return bool(text) and text != str(process_of[text]).encode()


def _arrow_splices(rows: list[_RewrittenRow], numbers: SharedIds) -> list[Splice]:
    new: dict[bytes, str] = {}
    found = []
    for row in rows:
        if text := bytes(row.id):
            if text not in new:
                new[text] = str(numbers.arrow())
            found.append((row.id, new[text]))
    return found


def _time_splices(
    rows: list[_RewrittenRow], own_base: int, alone: DependencyGraph, moved: DependencyGraph, base_ns: int
) -> list[Splice]:
    if alone is moved and alone.trace.moved_from is None and own_base == base_ns:
        return []
    texts = [bytes(row.ts).decode().strip('"') for row in rows]
    own = nanoseconds(texts)
    known = np.flatnonzero(own != INVALID)
    shift = _shifts(rows, own + own_base, alone, moved) + own_base - base_ns
    times = (own + shift)[known].tolist()
    found = [(rows[at].ts, microseconds(time)) for at, time in zip(known.tolist(), times, strict=True) if shift[at]]
    # Where a clock drifts, lengths change too.
    before, after = alone.trace.file_times, moved.event_table
    longer = np.flatnonzero(after.end - after.start != before.end - before.start)
    lengths = (after.end - after.start)[longer].tolist()
    changed = [(rows[at].dur, microseconds(ns)) for at, ns in zip(after.index[longer].tolist(), lengths, strict=True)]
    return found + [(raw, new) for raw, new in changed if bytes(raw)]


def _shifts(rows: list[_RewrittenRow], own: Ints, alone: DependencyGraph, moved: DependencyGraph) -> Ints:
    """Return by how much each row moves (ns); arrows and the like as the event of their process before them."""
    events = alone.event_table
    shift = moved.event_table.start - alone.trace.file_times.start
    found = np.full(len(rows), int(shift[0]) if len(shift) else 0)
    if len(shift) and (shift != shift[0]).any():
        _, process = np.unique([bytes(row.pid) for row in rows], return_inverse=True)
        found = _shifts_like_events(own, process, events.index, shift)
        found[events.index] = shift
    return found


def _shifts_like_events(own: Ints, process: Ints, index: Ids, shift: Ints) -> Ints:
    found = np.zeros(len(own), np.int64)
    for number in range(int(process.max()) + 1):
        mine, of_process = np.flatnonzero(process == number), process[index] == number
        events = np.flatnonzero(of_process) if of_process.any() else np.arange(len(index))
        order = events[np.argsort(own[index[events]], kind="stable")]
        at = np.searchsorted(own[index[order]], own[mine], side="right") - 1
        found[mine] = shift[order[at.clip(min=0)]]
    return found


def _process_splices(
    rows: list[_RewrittenRow], process_of: dict[bytes, int], place: int, rank: int
) -> tuple[list[Splice], list[Record]]:
    """Name and sort the processes of a rank; return what is spliced in, and rows for those that have none."""
    recorded: dict[str, dict[int, Any]] = {"name": {}, "labels": {}, "sort_index": {}}
    where: list[tuple[_RewrittenRow, str, int]] = []
    for row in rows:
        key = str(row.name).removeprefix("process_") if row.ph == "M" else ""
        arguments = _decode_value(row.args) if key in recorded and bytes(row.pid) else None
        if isinstance(arguments, dict) and key in arguments:
            recorded[key][process_of[bytes(row.pid)]] = arguments[key]
            where.append((row, key, process_of[bytes(row.pid)]))
    own = {process: _decode_value(msgspec.Raw(text)) for text, process in process_of.items()}
    order = sorted(own, key=lambda process: (_sort_number(recorded["sort_index"].get(process)), process))
    new: dict[str, dict[int, Any]] = {
        "name": {process: _process_name(rank, own[process], recorded, process) for process in own},
        "sort_index": {process: place * MAX_PROCESSES_PER_RANK + at for at, process in enumerate(order)},
    }
    spliced = [(row.args, orjson.dumps({key: new[key][process]}).decode()) for row, key, process in where if key in new]
    added = [
        {"ph": "M", "pid": process, "tid": 0, "name": f"process_{key}", "args": {key: values[process]}}
        for key, values in new.items()
        for process in order
        if process not in recorded[key]
    ]
    return spliced, added


def _process_name(rank: int, own: Any, recorded: dict[str, dict[int, Any]], process: int) -> str:
    """Name a process: its rank, what it is called, and which device it is.

    >>> _process_name(3, 0, {"name": {7: "python"}, "labels": {7: "GPU 0"}}, 7)
    'rank 3: python (GPU 0)'
    """
    label = recorded["labels"].get(process)
    return f"rank {rank}: {recorded['name'].get(process, own)}" + (f" ({label})" if label else "")


def _sort_number(value: Any) -> float:
    return value if isinstance(value, (int, float)) else float("inf")


def _decode_value(raw: msgspec.Raw) -> Any:
    return msgspec.json.decode(raw) if bytes(raw) else None
