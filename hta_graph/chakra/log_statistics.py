"""ASTRA-sim's log of a run with ``"trace-enabled": 1``: read, and added up per rank.

When each node was issued and called back; from that how long each rank computed and communicated, with delays and CPU
work apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hta_graph.base.errors import TraceError
from hta_graph.base.storage.location import Location, resolve_location
from hta_graph.chakra.astra_sim_executor import COMMUNICATION_TYPES, COMPUTATION, COPY_NAME_PREFIXES, DELAY, EtProgram
from hta_graph.model import Bools, Ints
from hta_graph.paths.intervals import Intervals, union
from hta_graph.trace.memory_limit import TextLimit

NodeNumbers = np.ndarray[Any, np.dtype[np.uint64]]

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
    node: NodeNumbers
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
        raise TraceError(path, "logs no simulated nodes", 'run ASTRA-sim with "trace-enabled": 1 in its system')
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
            raise TraceError(path, f"{missing} is missing, but {numbered[max(numbered)].name} is there", "run it again")
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


LOST_ENTRIES_NOTE = (
    "the log has lost its oldest entries (ASTRA-sim keeps 11 files of 10 MB); only the end times of ranks are known"
)
CPU_UNKNOWN_NOTE = (
    "the log does not show which nodes are CPU work, but the workload does; without it, only communication and delays "
    "are known"
)
ASSUMED_GPU_NOTE = (
    "no two nodes computed at once, as in workloads of the profile gpu, so all count as GPU work; the workload "
    "itself would show it"
)


@dataclass(frozen=True)
class RankStatistics:
    """One rank of a run; times in ns, ``None`` where they are not known.

    Attributes:
        npu: its number in the simulation.
        rank: its own number, from the workload (``None`` if unknown).
        end_ns: when it ended.
        nodes: how many nodes its file has.
        issued: how many nodes began.
        called_back: how many ended.
        unanswered: how many began and did not end.
        gpu_ns: how long any compute node ran that is neither a delay nor work of the CPU: kernels, copies and sets.
        memory_ns: how long copies and sets ran.
        communication_ns: how long any communication ran, waiting for other ranks included.
        overlap_ns: how long both communication and a kernel ran; copies hide nothing, as in ``overlap``.
        exposed_communication_ns: how long communication ran and no kernel did.
        idle_ns: how long neither communication nor the GPU's work ran.
        cpu_ns: how long any operator of the CPU ran.
        delay_ns: how long any delay ran.
    """

    npu: int
    rank: int | None
    end_ns: int | None
    nodes: int | None
    issued: int
    called_back: int
    unanswered: int
    gpu_ns: int | None = None
    memory_ns: int | None = None
    communication_ns: int | None = None
    overlap_ns: int | None = None
    exposed_communication_ns: int | None = None
    idle_ns: int | None = None
    cpu_ns: int | None = None
    delay_ns: int | None = None

    @property
    def is_complete(self) -> bool:
        """Whether all its nodes began and ended, and it noticed that it was done."""
        return self.end_ns is not None and self.nodes == self.issued == self.called_back

    @property
    def may_be_complete(self) -> bool:
        """Whether nothing that a log without its beginning holds speaks against that."""
        return self.end_ns is not None and self.unanswered == 0


@dataclass(frozen=True)
class LogStatistics:
    """A log's nodes by rank; ``notes`` list what it lacks. ``is_lost``: its beginning is gone."""

    ranks: list[RankStatistics]
    notes: list[str]
    is_lost: bool = False


def log_statistics(log: SimulatorLog, programs: Mapping[int, EtProgram] | None = None) -> LogStatistics:
    """Add up what ran when, rank by rank.

    Without copies GPU time, exposed communication and idle time tile a rank's time to its end, to the nanosecond.

    Args:
        log: the log of one run.
        programs: what each rank ran. Without it the compute nodes of the CPU are unknown; but where none
            of them ran at once they are of one slot, the GPU's.

    Raises:
        TraceError: the log is of several runs, or of another workload.
    """
    here = {*np.unique(log.events.rank).tolist(), *log.finished}
    if programs and (strangers := sorted(here - set(programs))):
        cause = f"does not belong to {_workload_folder(programs)}, which has no rank {strangers[0]}"
        raise TraceError(log.path, cause, "name the workload that was run")
    known = programs or {}
    runs = [_RankRun(log, rank, known.get(rank)) for rank in sorted(here | set(known))]
    is_lost = any(run.lost_entries for run in runs)
    on_one_slot = all(run.computes_on_one_slot for run in runs)
    unsure = ASSUMED_GPU_NOTE if on_one_slot else CPU_UNKNOWN_NOTE
    notes = [
        note for condition, note in ((is_lost, LOST_ENTRIES_NOTE), (not programs and not is_lost, unsure)) if condition
    ]
    for run in runs:
        notes += run.unfinished_lines(is_lost=is_lost)
    found = [run.statistics(is_lost=is_lost, on_one_slot=on_one_slot) for run in runs]
    return LogStatistics(found, notes, is_lost)


def statistics_document(found: LogStatistics) -> dict[str, Any]:
    """Return the result as a document of schema ``hta-graph/chakra-statistics/1``; times in ns."""
    ranks = [asdict(rank) for rank in found.ranks]
    return {"schema": "hta-graph/chakra-statistics/1", "ranks": ranks, "notes": found.notes}


def _workload_folder(programs: Mapping[int, EtProgram]) -> Location:
    return next(iter(programs.values())).file.path.parent


class _RankRun:
    """The nodes of one simulated rank, from issue to callback; of its file, places by ascending id."""

    def __init__(self, log: SimulatorLog, rank: int, program: EtProgram | None) -> None:
        self.rank, self.end, self._program = rank, log.finished.get(rank), program
        own = log.events.take(log.events.rank == rank)
        self._issues = _sorted_by_node(log.path, own.take(own.is_issue))
        self._callbacks = _sorted_by_node(log.path, own.take(~own.is_issue))
        self._check_workload(log.path)
        _, began, ended = np.intersect1d(
            self._issues.node, self._callbacks.node, assume_unique=True, return_indices=True
        )
        self._completed, self._ended = self._issues.take(began), self._callbacks.tick[ended]

    @property
    def lost_entries(self) -> bool:
        """Whether the log lacks some of the rank's beginning: a rank issues its first node at once."""
        without_issue = len(self._callbacks.node) > len(self._completed.node)
        return without_issue or (len(self._issues.node) > 0 and int(self._issues.tick.min()) > 0)

    @cached_property
    def _never_ended(self) -> NodeNumbers:
        """The nodes that began and never ended."""
        return np.setdiff1d(self._issues.node, self._callbacks.node, assume_unique=True)

    def unfinished_lines(self, *, is_lost: bool) -> Iterator[str]:
        """List what the rank did not run."""
        if self.end is None:
            yield f"npu {self.rank} never ended"
        if len(self._never_ended):
            first = self._never_ended[0]
            yield f"npu {self.rank}: nodes that never ended: {len(self._never_ended):,}, such as node {first}"
        if self._program and not is_lost:
            absent = np.setdiff1d(self._program.ids, self._issues.node)
            if len(absent):
                yield f"npu {self.rank}: nodes that never started: {len(absent):,}, such as node {absent[0]}"

    @property
    def computes_on_one_slot(self) -> bool:
        """Whether no two nodes computed at once, but for delays."""
        own = self._computes & ~self._completed.is_delay
        return int((self._ended - self._completed.tick)[own].sum()) == self._intervals(own).total

    def statistics(self, *, is_lost: bool, on_one_slot: bool) -> RankStatistics:
        """Count, and add up times where they are known."""
        nodes = len(self._program) if self._program else None
        began, ended = len(self._issues.node), len(self._callbacks.node)
        counts = self.rank, self._recorded_rank(), self.end, nodes, began, ended, len(self._never_ended)
        if is_lost:
            return RankStatistics(*counts)
        communication = self._intervals(np.isin(self._completed.kind, COMMUNICATION_TYPES))
        is_delay, on_cpu = self._completed.is_delay, np.zeros(len(self._completed.node), np.bool_)
        if self._program:
            place = np.searchsorted(self._program.ids, self._completed.node)
            # The workload knows which nodes are events; in the log a kernel may look like a delay.
            is_delay = np.array(self._program.is_delay, np.bool_)[place]
            on_cpu = np.array(self._program.on_cpu, np.bool_)[place]
        delays = self._intervals(self._computes & is_delay).total
        if not self._program and not on_one_slot:
            return RankStatistics(*counts, communication_ns=communication.total, delay_ns=delays)
        on_gpu = self._computes & ~is_delay & ~on_cpu
        gpu, kernels = self._intervals(on_gpu), self._intervals(on_gpu & ~self._completed.is_copy)
        exposed = communication.subtract(kernels).total
        return RankStatistics(
            *counts,
            gpu_ns=gpu.total,
            memory_ns=self._intervals(on_gpu & self._completed.is_copy).total,
            communication_ns=communication.total,
            overlap_ns=communication.total - exposed,
            exposed_communication_ns=exposed,
            idle_ns=None if self.end is None else self.end - gpu.total - communication.subtract(gpu).total,
            cpu_ns=self._intervals(self._computes & ~is_delay & on_cpu).total if self._program else None,
            delay_ns=delays,
        )

    def _recorded_rank(self) -> int | None:
        """Return which rank of the job it is."""
        rank = self._program.file.metadata.get("rank") if self._program else None
        return rank if isinstance(rank, int) else None

    @property
    def _computes(self) -> Bools:
        found: Bools = self._completed.kind == COMPUTATION
        return found

    def _intervals(self, rows: Bools) -> Intervals:
        return union(self._completed.tick[rows], self._ended[rows])

    def _check_workload(self, path: Location) -> None:
        if not self._program:
            return
        types = np.array(self._program.types, np.int64)
        for events in (self._issues, self._callbacks):
            known = np.isin(events.node, self._program.ids)
            known[known] = types[np.searchsorted(self._program.ids, events.node[known])] == events.kind[known]
            if not known.all():
                cause = f"does not belong to {self._program.file.path}, in which rank {self.rank} has no such node"
                raise TraceError(path, f"{cause} {events.node[~known][0]}", "name the workload that was run")


def _sorted_by_node(path: Location, events: LogEvents) -> LogEvents:
    order = np.argsort(events.node, kind="stable")
    events = events.take(order)
    again = events.node[1:] == events.node[:-1]
    if again.any():
        what = f"node {events.node[1:][again][0]} of rank {events.rank[0]}"
        remedy = "empty the logging folder before each run, because ASTRA-sim appends to an earlier log"
        raise TraceError(path, f"holds more than one run: {what} appears twice", remedy)
    return events
