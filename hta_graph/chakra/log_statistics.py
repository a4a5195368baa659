"""How long each rank computed and communicated in a run of ASTRA-sim, by its log: delays and CPU work apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hta_graph.chakra.et_program import COMMUNICATION_TYPES, COMPUTATION, EtProgram
from hta_graph.chakra.simulator_log import LogEvents, NodeIds, SimulatorLog
from hta_graph.errors import TraceError
from hta_graph.model import Bools
from hta_graph.paths.intervals import Intervals, union
from hta_graph.storage.location import Location

__all__ = ["LogStatistics", "RankStatistics", "log_statistics", "statistics_document"]

LOST_ENTRIES_NOTE = (
    "the log has lost its oldest entries (ASTRA-sim keeps 11 files of 10 MB); "
    "what ran when is not known, only when ranks ended"
)
CPU_UNKNOWN_NOTE = (
    "the log does not say which nodes are work of the CPU, the workload does; without it only communication and delays "
    "are known"
)
ASSUMED_GPU_NOTE = (
    "no two nodes computed at once, as in workloads of the profile gpu: all are taken for the GPU's; the workload "
    "would tell for certain"
)


@dataclass(frozen=True)
class RankStatistics:
    """One rank of a run; times in ns, ``None`` where they are not known.

    Attributes:
        npu: its number in the simulation.
        rank: its own number, as the workload says (``None``: nobody says).
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
    """What a log says of each rank; ``notes`` tell what it does not. ``is_lost``: its beginning is gone."""

    ranks: list[RankStatistics]
    notes: list[str]
    is_lost: bool = False


def log_statistics(log: SimulatorLog, programs: Mapping[int, EtProgram] | None = None) -> LogStatistics:
    """Add up what ran when, rank by rank.

    Without copies GPU time, exposed communication and idle time tile a rank's time to its end, to the nanosecond.

    Args:
        log: the log of one run.
        programs: what each rank ran. Without it nobody knows which compute nodes are work of the CPU; but where none
            of them ran at once they are of one slot, the GPU's.

    Raises:
        TraceError: the log is of several runs, or of another workload.
    """
    here = {*np.unique(log.events.rank).tolist(), *log.finished}
    if programs and (strangers := sorted(here - set(programs))):
        cause = f"is not of {_workload_folder(programs)}, which has no rank {strangers[0]}"
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
    def _never_ended(self) -> NodeIds:
        """The nodes that began and never ended."""
        return np.setdiff1d(self._issues.node, self._callbacks.node, assume_unique=True)

    def unfinished_lines(self, *, is_lost: bool) -> Iterator[str]:
        """Tell what the rank did not do."""
        if self.end is None:
            yield f"npu {self.rank} never ended"
        if len(self._never_ended):
            first = self._never_ended[0]
            yield f"npu {self.rank}: nodes that never ended: {len(self._never_ended):,}, such as node {first}"
        if self._program and not is_lost:
            absent = np.setdiff1d(self._program.ids, self._issues.node)
            if len(absent):
                yield f"npu {self.rank}: nodes that never began: {len(absent):,}, such as node {absent[0]}"

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
                cause = f"is not of {self._program.file.path}, in which rank {self.rank} has no such node"
                raise TraceError(path, f"{cause} {events.node[~known][0]}", "name the workload that was run")


def _sorted_by_node(path: Location, events: LogEvents) -> LogEvents:
    order = np.argsort(events.node, kind="stable")
    events = events.take(order)
    again = events.node[1:] == events.node[:-1]
    if again.any():
        what = f"node {events.node[1:][again][0]} of rank {events.rank[0]}"
        remedy = "empty the logging folder before each run, since ASTRA-sim goes on with an earlier log"
        raise TraceError(path, f"holds more than one run: {what} is there twice", remedy)
    return events
