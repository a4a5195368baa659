"""What ASTRA-sim's log holds of a run with ``"trace-enabled": 1``: when each node was issued and called back."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from hta_graph.chakra.simulated import COPY_NAME_PREFIXES, DELAY
from hta_graph.errors import TraceError
from hta_graph.model import Bools, Ints
from hta_graph.storage.location import Location
from hta_graph.storage.named_places import resolve_location
from hta_graph.trace.memory_limit import TextLimit

__all__ = ["LogEvents", "NodeIds", "SimulatorLog", "read_log"]

NodeIds = np.ndarray[Any, np.dtype[np.uint64]]

LOG_NAME = re.compile(r"(?P<stem>.+?)(?:\.(?P<number>[1-9][0-9]{0,3}))?\.log")
DEFAULT_STEM = "log"
PEAK_PER_BYTE = 6
"""What a log and its entries take in memory for each byte."""

_ENTRY = re.compile(
    # A name may hold anything, also commas, line breaks and whole lines of a log: it ends where a type ends the line.
    rb"(issue|callback),sys->id=(\d{1,9}), tick=(\d{1,19}), node->id=(\d{1,20}), node->name=(.*?), "
    rb"node->type=(\d{1,3})\r?\n|sys\[(\d{1,9})\] finished, (\d{1,19}) cycles",
    re.DOTALL,
)
_FINISHED = re.compile(rb"sys\[(\d{1,9})\] finished, (\d{1,19}) cycles")
_LAST = re.compile(rb", node->type=\d{1,3}\r?\n")


@dataclass(frozen=True)
class LogEvents:
    """Issues and callbacks in the order of the log: columns, one entry per line.

    ``tick`` is in ns; ``kind`` the number of the node's type; ``is_delay`` and ``is_copy`` say that its
    name is a delay's, or that of a copy or a set.
    """

    is_issue: Bools
    rank: Ints
    tick: Ints
    node: NodeIds
    kind: Ints
    is_delay: Bools
    is_copy: Bools

    def take(self, rows: Bools | Ints) -> LogEvents:
        """Select entries."""
        return LogEvents(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    @classmethod
    def join(cls, parts: list[LogEvents]) -> LogEvents:
        """Put the entries of several files one after the other."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__dataclass_fields__))


@dataclass(frozen=True)
class SimulatorLog:
    """The log of one run; ``finished`` is when each rank ended (ns)."""

    path: Location
    files: list[Location]
    events: LogEvents
    finished: dict[int, int]


def read_log(path: str | Location) -> SimulatorLog:
    """Read ASTRA-sim's logging folder, or one of its files with those that the log was rotated into.

    Raises:
        TraceError: there is no log, a file of it is missing, or it notes no node.
    """
    path = resolve_location(path)
    files = _log_files(path)
    parts, finished = [], {}
    for file in files:
        events, ends = _read_entries(file)
        parts.append(events)
        finished.update(ends)
    events = LogEvents.join(parts)
    if not len(events.node):
        raise TraceError(path, "notes no node of a simulation", 'run ASTRA-sim with "trace-enabled": 1 in its system')
    return SimulatorLog(path, files, events, finished)


def _log_files(path: Location) -> list[Location]:
    """List the files of a log, the oldest first."""
    stem, folder = DEFAULT_STEM, path
    if not path.is_dir():
        if not path.exists():
            raise TraceError(path, "no such file or folder", "name ASTRA-sim's logging folder")
        match = LOG_NAME.fullmatch(path.name)
        if not match:
            return [path]
        stem, folder = match["stem"], path.parent
    named = {item: LOG_NAME.fullmatch(item.name) for item in folder.glob("*.log")}
    numbered = {int(match["number"] or 0): item for item, match in named.items() if match and match["stem"] == stem}
    if not numbered:
        raise TraceError(path, f"holds no {stem}.log", "name ASTRA-sim's logging folder")
    # The newest entries are in log.log, those before in log.1.log, and so on; only the oldest may be gone.
    for number in range(max(numbered)):
        if number not in numbered:
            missing = f"{stem}.{number}.log" if number else f"{stem}.log"
            raise TraceError(path, f"{missing} is missing, and {numbered[max(numbered)].name} is there", "run it again")
    return [numbered[number] for number in sorted(numbered, reverse=True)]


def _read_entries(path: Location) -> tuple[LogEvents, dict[int, int]]:
    try:
        TextLimit(path, per_byte=PEAK_PER_BYTE).check(path.stat().st_size)
        text = path.read_bytes()
    except OSError as error:
        raise TraceError(path, f"cannot be read: {error.strerror or error}") from None
    # An entry without an end would be searched for through the whole file: behind the last end there is none.
    last = max((match.end() for match in _LAST.finditer(text)), default=0)
    entries = _ENTRY.findall(text, 0, last)
    ends = [entry[6:] for entry in entries if not entry[0]] + _FINISHED.findall(text, last)
    try:
        events = _event_columns([entry for entry in entries if entry[0]])
    except (ValueError, OverflowError):
        raise TraceError(path, "holds a node whose number does not fit 64 bits", "write the workload again") from None
    return events, {int(rank): int(cycles) for rank, cycles in ends}


def _event_columns(entries: list[tuple[bytes, ...]]) -> LogEvents:
    copies = tuple(name.encode() for name in COPY_NAME_PREFIXES)
    event, rank, tick, node, name, kind = list(zip(*entries, strict=True))[:6] if entries else [()] * 6
    return LogEvents(
        np.array([item == b"issue" for item in event], np.bool_),
        np.array(rank, np.bytes_).astype(np.int64),
        np.array(tick, np.bytes_).astype(np.int64),
        np.array(node, np.bytes_).astype(np.uint64),
        np.array(kind, np.bytes_).astype(np.int64),
        np.array([item == DELAY.encode() for item in name], np.bool_),
        np.array([item.startswith(copies) for item in name], np.bool_),
    )
