"""One set in one profile: what was recorded, what became of it, and how ASTRA-sim ran it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import hta_graph as hg
from hta_graph.base.errors import HtaGraphError
from hta_graph.chakra.astra_sim_executor import EtProgram
from hta_graph.chakra.convert import convert
from hta_graph.chakra.convert_options import ConvertOptions
from hta_graph.chakra.et_files import attributes, read_folder
from hta_graph.chakra.log_statistics import RankStatistics
from hta_graph.chakra.rank_workload import RankInput
from hta_graph.chakra.scale import scale_workload
from hta_graph.chakra.schema import NODE_TYPES
from hta_graph.chakra.simulate import SimulatedRank, simulate
from hta_graph.model import EventKind, Ints
from hta_graph.paths.gpu_activity import WorkType, activities
from hta_graph.paths.intervals import Intervals, union
from tests.support.astra_sim import BACK_ENDS, BANDWIDTH_GBPS, Settings, programs_in, run_astra_sim, with_second_rank

__all__ = [
    "CASES",
    "LARGEST_WORLD",
    "Case",
    "MeasuredSet",
    "RecordedTimes",
    "RunOfCase",
    "convert_somehow",
    "measured",
    "relative",
]

MISSING, UNKNOWN = ("error", "copy", "as-recorded", "as-compute"), ("error", "as-recorded", "as-compute")
"""Concessions to what was not recorded, the smaller ones first."""

LARGEST_WORLD = 8
"""More copies of one rank say nothing new and outgrow the log."""


@dataclass(frozen=True)
class Case:
    """A question to the simulator: the network's bandwidth and the GPU's durations, beside those of the set."""

    label: str
    network: float = 1.0
    gpu: Fraction = Fraction(1)
    replay_only: bool = False

    def settings(self, back_end: str) -> Settings:
        """Return how to ask it."""
        return Settings(back_end, bandwidth=BANDWIDTH_GBPS * self.network, replay_only=self.replay_only)


CASES = (
    Case("replay", replay_only=True),
    *(Case(f"net ×{factor:g}", network=factor) for factor in (0.25, 0.5, 1, 2, 4)),
    Case("GPU ×0.5", gpu=Fraction(1, 2)),
    Case("GPU ×2", gpu=Fraction(2)),
)


@dataclass(frozen=True)
class RecordedTimes:
    """What a rank's trace says of its GPU (ns): any work but communication, communication, both at once."""

    gpu_ns: int
    communication_ns: int
    overlap_ns: int

    @property
    def exposed_ns(self) -> int:
        """Communication that nothing hides."""
        return self.communication_ns - self.overlap_ns

    @classmethod
    def of(cls, kernels: Intervals, copies: Intervals, talk: Intervals) -> RecordedTimes:
        """Measure as ``overlap`` does: copies are work of the GPU and hide no communication."""
        gpu = union(np.concatenate([kernels.start, copies.start]), np.concatenate([kernels.end, copies.end]))
        return cls(gpu.total, talk.total, talk.total - talk.subtract(kernels).total)

    @classmethod
    def of_trace(cls, graph: hg.DependencyGraph) -> RecordedTimes:
        """Measure all that a trace holds."""
        work = activities(graph)
        return cls.of(*map(work.busy, (WorkType.COMPUTATION, WorkType.MEMORY, WorkType.COMMUNICATION)))


@dataclass(frozen=True)
class RunOfCase:
    """How a case ran on a back end: each rank, and the simulator's words if it did not end well."""

    ranks: list[RankStatistics]
    notes: list[str]
    words: str = ""
    is_lost: bool = False

    @property
    def end_ns(self) -> int | None:
        """When the last rank ended; ``None`` if one never did."""
        ends = [rank.end_ns for rank in self.ranks]
        return max((end for end in ends if end is not None), default=None) if None not in ends else None


@dataclass
class MeasuredSet:
    """All that the tables tell of a set in a profile; ``refusal`` says why there is nothing to tell."""

    name: str
    profile: str
    asked: str = ""
    refusal: str = ""
    is_alone: bool = False
    notes: list[str] = field(default_factory=list)
    nodes: dict[int, int] = field(default_factory=dict)
    written: dict[int, WrittenTimes] = field(default_factory=dict)
    simulated: list[SimulatedRank] = field(default_factory=list)
    recorded: dict[int, RecordedTimes] = field(default_factory=dict)
    runs: dict[tuple[str, str], RunOfCase] = field(default_factory=dict)


def measured(
    name: str, ranks: Mapping[int, hg.DependencyGraph], profile: str, scratch: Path, cases: Sequence[Case] = CASES
) -> MeasuredSet:
    """Convert a set, and let ASTRA-sim run it in all cases on both back ends."""
    found = MeasuredSet(name, profile)
    work = scratch / f"{name.replace('/', '_')}.{profile}"
    try:
        found.asked, found.notes = convert_somehow(ranks, profile, work)
        found.simulated = simulate(read_folder(work)).ranks
    except HtaGraphError as error:
        found.refusal = str(error)
        return found
    found.is_alone = len(found.simulated) == 1
    with_second_rank(work)
    programs = programs_in(work)
    found.nodes = {npu: len(program) for npu, program in programs.items()}
    # Of copies of a rank the first one is compared with its trace.
    first = {rank.rank: rank.npu for rank in reversed(found.simulated) if rank.rank in ranks}
    own = {npu: ranks[rank] for rank, npu in sorted(first.items(), key=lambda item: item[1]) if rank is not None}
    found.written = {npu: WrittenTimes.of(own[npu], programs[npu]) for npu in own}
    found.recorded = {npu: RecordedTimes.of_trace(graph) for npu, graph in own.items()}
    for factor in dict.fromkeys(case.gpu for case in cases):
        _run_cases(found, _scaled_folder(work, factor), [case for case in cases if case.gpu == factor], programs)
    return found


def convert_somehow(ranks: Mapping[int, hg.DependencyGraph], profile: str, work: Path) -> tuple[str, list[str]]:
    """Convert with the fewest concessions; return which, and the notes.

    Raises:
        HtaGraphError: no concession helps.
    """
    refusal = HtaGraphError(f"more than {LARGEST_WORLD} ranks, and most of them copies")
    for missing, unknown in product(MISSING, UNKNOWN):
        options = ConvertOptions(profile=profile, missing=missing, unknown=unknown, force=True)
        asked = {"--missing-ranks": missing, "--unknown-collectives": unknown}
        try:
            done = convert([RankInput(*item) for item in ranks.items()], work, options)
        except HtaGraphError as error:
            refusal = error
            continue
        if len(done.ranks) <= max(LARGEST_WORLD, len(ranks)):
            return " ".join(f"{key} {value}" for key, value in asked.items() if value != "error"), done.notes
    raise refusal


@dataclass(frozen=True)
class WrittenTimes:
    """A file beside its trace (ns).

    How far a GPU node's duration is at most from its row's, by how much longer nodes are one by one that ran side by
    side (on the GPU, on the CPU), and what was recorded of the rows that have nodes.
    """

    largest_difference_ns: int
    side_by_side_ns: tuple[int, int]
    recorded: RecordedTimes

    @classmethod
    def of(cls, graph: hg.DependencyGraph, program: EtProgram) -> WrittenTimes:
        """Compare node by node."""
        events = graph.event_table
        place = dict(zip(events.index.tolist(), range(len(events)), strict=True))
        on_gpu: dict[int, list[Any]] = defaultdict(list)
        computes, on_cpu = set(), []
        for node, known in _nodes_of_rows(program):
            row = place[known["event_index"]]
            span = known["start_nanos"], known["duration_nanos"], 1000 * node.duration_micros
            if graph.is_gpu[row]:
                on_gpu[row].append(span)
                computes |= {row} if node.type == NODE_TYPES["COMP_NODE"] else set()
            elif known["is_cpu_op"]:
                on_cpu.append((span[0], span[2]))
        worst = [_difference(int(events.end[row] - events.start[row]), spans) for row, spans in on_gpu.items()]
        start, length = _rows_of(graph, computes)
        copies = {row for row in computes if events.kind[row] != EventKind.KERNEL}
        parts = [_rows_of(graph, rows) for rows in (computes - copies, copies, on_gpu.keys() - computes)]
        beside = _side_by_side(start, length), _side_by_side(*_columns(on_cpu))
        return cls(max(worst, default=0), beside, RecordedTimes.of(*(union(one[0], one.sum(axis=0)) for one in parts)))


def _rows_of(graph: hg.DependencyGraph, rows: Collection[int]) -> Ints:
    events, chosen = graph.event_table, np.array(sorted(rows), np.int64)
    return np.stack([events.start[chosen], events.end[chosen] - events.start[chosen]])


def _columns(pairs: Sequence[tuple[int, int]]) -> Ints:
    return np.array(pairs, np.int64).reshape(-1, 2).T


def _side_by_side(start: Ints, length: Ints) -> int:
    return int(length.sum()) - union(start, start + length).total


def _nodes_of_rows(program: EtProgram) -> Iterator[tuple[Any, dict[str, Any]]]:
    for node in program.file.nodes():
        known = {name: value for name, _, value in attributes(node)}
        if "event_index" in known:
            yield node, known


def _difference(recorded_ns: int, spans: Sequence[tuple[int, int, int]]) -> int:
    """Return how far the nodes of a row are from it at most; one as recorded is two, its meeting and its transfer."""
    whole = max(start + length for start, length, _ in spans) - min(start for start, _, _ in spans)
    return max(abs(whole - recorded_ns), *(abs(rounded - length) for _, length, rounded in spans))


def _scaled_folder(work: Path, factor: Fraction) -> Path:
    if factor == 1:
        return work
    target = work.with_name(f"{work.name}.{float(factor):g}")
    scale_workload(read_folder(work), target, factor, Fraction(1), force=True)
    return target


def _run_cases(found: MeasuredSet, work: Path, cases: Sequence[Case], programs: Mapping[int, EtProgram]) -> None:
    for case, back_end in product(cases, BACK_ENDS):
        run = run_astra_sim(work, work.with_name("log"), case.settings(back_end))
        try:
            told = run.statistics(programs)
        except HtaGraphError as error:
            found.runs[back_end, case.label] = RunOfCase([], [], run.words or str(error))
            continue
        found.runs[back_end, case.label] = RunOfCase(told.ranks, told.notes, run.words, told.is_lost)


def relative(value: float | None, reference: float | None) -> float:
    """Return how far a value is from another one; NaN where either is missing."""
    return value / reference - 1 if value is not None and reference else float(np.nan)
