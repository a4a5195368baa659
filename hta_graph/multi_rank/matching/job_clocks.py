"""How far the ranks' clocks are apart, by what they did together, and how well that is known: one time for a job.

Clocks of one host agree, unless something that its ranks did together contradicts that. The others are compared two by
two (:mod:`pair_clocks`), along the surest ways from the lowest rank, and then moved within what all bounds together
leave: rank 0 may bind rank 1, and that one rank 2.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np

from hta_graph.arrays import distinct
from hta_graph.model import Bools, Ints
from hta_graph.multi_rank.matching.clock_bounds import tighten_clocks
from hta_graph.multi_rank.matching.clock_evidence import (
    ArrivalsAndEnds,
    ClockEvidence,
    arrivals_and_ends,
    clock_evidence,
)
from hta_graph.multi_rank.matching.clock_lines import SAME_CLOCK, ClockLine
from hta_graph.multi_rank.matching.pair_clocks import UNKNOWN_ERROR, PairClock, pair_clocks
from hta_graph.multi_rank.matching.rank_members import RankCommunications, Recording
from hta_graph.multi_rank.matching.rank_record import Match

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["JobClocks", "RankClock", "clocks_from_arrivals", "job_clocks"]

RankPair = tuple[int, int]
PARTS_PER_MILLION = 1e6

ON_ONE_HOST_NS = 50_000
"""How far GPU clocks of one host may differ at most where nothing contradicts that they agree: of the recordings that
are known those of one host in which clocks contradict each other are up to 44 µs apart."""


@dataclass(frozen=True)
class RankClock:
    """How far a rank's CPU clock is ahead of that of ``reference``, the lowest rank that it can be compared with.

    ``gpu_ahead`` is what its GPU rows are ahead of that; ``error`` how well it is known (ns; 0: they are one clock);
    ``match_count`` how many collectives and messages tell it.
    """

    line: ClockLine = SAME_CLOCK
    error: int = 0
    match_count: int = 0
    reference: int = 0
    host: str | None = None
    gpu_ahead: int = 0

    @property
    def is_constant_offset(self) -> bool:
        """Whether all times of the rank are ahead of the job's by one number."""
        return not self.line.drift and not self.gpu_ahead

    def to_job(self, times: Ints, *, on_gpu: Bools | bool = False) -> Ints:
        """Return the rank's own times (ns) in the job's."""
        return self.line.to_other(times - np.where(on_gpu, self.gpu_ahead, 0))


@dataclass(frozen=True)
class JobClocks:
    """The clocks of a job's ranks; ``impossible`` are the matches that fit no clocks: they are wrongly matched."""

    by_rank: dict[int, RankClock] = field(default_factory=dict)
    impossible: tuple[int, ...] = ()

    def to_job(self, rank: int, times: Ints, *, on_gpu: Bools | bool = False) -> Ints:
        """Return a rank's own times (ns) in the job's; those of its GPU rows, or those that a mask names."""
        return self.by_rank[rank].to_job(times, on_gpu=on_gpu)

    def error_between(self, one: int, other: int) -> int:
        """Return how far times of two ranks may be wrong against each other (ns)."""
        return 0 if one == other else self.by_rank[one].error + self.by_rank[other].error

    @property
    def are_equal(self) -> bool:
        """Whether all times are compared as recorded."""
        return all(clock.line.ahead == 0 == clock.line.drift == clock.gpu_ahead for clock in self.by_rank.values())

    def rows(self) -> list[dict[str, Any]]:
        """List rank, host, offset_ns (at the middle of its recording), gpu_offset_ns, drift_ppm, error_ns, collectives.

        Job time = own − offset − drift · (own − middle); times of GPU rows less their own offset too.
        """
        return [
            {
                "rank": rank,
                "host": clock.host,
                "offset_ns": clock.line.ahead,
                "gpu_offset_ns": clock.gpu_ahead,
                "drift_ppm": round(clock.line.drift * PARTS_PER_MILLION, 3),
                "error_ns": None if clock.error == UNKNOWN_ERROR else clock.error,
                "collectives": clock.match_count,
            }
            for rank, clock in sorted(self.by_rank.items())
        ]

    def frame(self) -> pd.DataFrame:
        """Return the table ``clocks``: see :meth:`rows`."""
        import pandas as pd

        return pd.DataFrame(self.rows())


def job_clocks(matches: Sequence[Match], members: Mapping[int, RankCommunications]) -> JobClocks:
    """Estimate the clocks of a job's ranks from their matches."""
    attended = {rank: arrivals_and_ends(own) for rank, own in members.items()}
    on_cpu = {rank for rank, own in members.items() if not own.on_gpu.any()}
    return clocks_from_arrivals(matches, attended, {rank: own.recording for rank, own in members.items()}, on_cpu)


def clocks_from_arrivals(
    matches: Sequence[Match],
    attended: Mapping[int, ArrivalsAndEnds],
    recordings: Mapping[int, Recording],
    on_cpu: Set[int] = frozenset(),
) -> JobClocks:
    """Estimate clocks from arrivals and ends; of those that ran on the CPU of a named host one is exact."""
    evidence = clock_evidence(matches, attended)
    clocks_of_two, fits = pair_clocks(evidence)
    pairs = dict(zip(evidence.ranks, clocks_of_two, strict=True))
    hosts = {rank: recording.host for rank, recording in recordings.items()}
    settled = _equal_on_one_host(pairs, hosts, on_cpu)
    clocks = _clocks_from_lowest_rank(settled, sorted(attended))
    if not any(_is_same_clock(pair) for pair in settled.values()):
        clocks = _tighten_all(clocks, evidence.only(fits))
    return JobClocks(
        {rank: _at_recording_middle(clock, recordings[rank]) for rank, clock in clocks.items()},
        tuple(distinct(evidence.matches.number[~fits]).tolist()),
    )


def _equal_on_one_host(
    pairs: Mapping[RankPair, PairClock], hosts: Mapping[int, str | None], on_cpu: Set[int]
) -> dict[RankPair, PairClock]:
    """Let clocks of one host agree where no two of its ranks contradict that."""
    contradicted = {
        hosts[one] for (one, other), pair in pairs.items() if hosts[one] == hosts[other] and not pair.allows_zero
    }
    settled = dict(pairs)
    for (one, other), pair in pairs.items():
        if hosts[one] == hosts[other] and hosts[one] not in contradicted:
            # One host has one clock for its CPUs; those of its GPUs are as near as the ends show.
            is_one_clock = hosts[one] is not None and {one, other} <= on_cpu
            settled[one, other] = replace(
                pair, line=SAME_CLOCK, error=0 if is_one_clock else min(pair.error, ON_ONE_HOST_NS)
            )
    return settled


def _is_same_clock(pair: PairClock) -> bool:
    return pair.line == SAME_CLOCK


def _clocks_from_lowest_rank(pairs: Mapping[RankPair, PairClock], ranks: Sequence[int]) -> dict[int, RankClock]:
    """Carry the lowest rank's clock to all that can be compared with it; then that of the lowest one that is left."""
    ways: dict[int, dict[int, PairClock]] = defaultdict(dict)
    for (one, other), pair in pairs.items():
        ways[one][other] = pair
        ways[other][one] = replace(pair, line=pair.line.reversed())
    clocks: dict[int, RankClock] = {}
    for lowest in ranks:
        if lowest not in clocks:
            _follow_most_certain_pairs(lowest, ways, clocks)
    return clocks


def _follow_most_certain_pairs(
    lowest: int, ways: Mapping[int, Mapping[int, PairClock]], clocks: dict[int, RankClock]
) -> None:
    """Carry a rank's clock to all that it can be compared with, along the surest ways."""
    clocks[lowest] = RankClock(reference=lowest)
    # The new rank that is known best from here: Dijkstra's way, with errors as lengths. Ties: the lowest ranks.
    found: list[tuple[int, int, int]] = []
    newest: int | None = lowest
    while newest is not None:
        for rank, pair in ways.get(newest, {}).items():
            if rank not in clocks:
                heappush(found, (min(clocks[newest].error + pair.error, UNKNOWN_ERROR), newest, rank))
        newest = _next_most_certain(found, ways, clocks)


def _next_most_certain(
    found: list[tuple[int, int, int]], ways: Mapping[int, Mapping[int, PairClock]], clocks: dict[int, RankClock]
) -> int | None:
    """Add the clock of the rank that is known best of those found (error, from, to) and return it; None: none left."""
    while found:
        total, own, rank = heappop(found)
        if rank not in clocks:
            pair, known = ways[own][rank], clocks[own]
            if pair.line == SAME_CLOCK == known.line:
                total = min(total, ON_ONE_HOST_NS)
            clocks[rank] = RankClock(pair.line.then(known.line), total, pair.match_count, known.reference)
            return rank
    return None


def _tighten_all(clocks: Mapping[int, RankClock], evidence: ClockEvidence) -> dict[int, RankClock]:
    """Move clocks within the bounds that all ranks together set."""
    moved = tighten_clocks(evidence, {rank: (clock.line, clock.error) for rank, clock in clocks.items()})
    return {
        rank: replace(clock, line=replace(clock.line, ahead=clock.line.ahead + moved[rank][0]), error=moved[rank][1])
        for rank, clock in clocks.items()
    }


def _at_recording_middle(clock: RankClock, recording: Recording) -> RankClock:
    """Tell a clock by the middle of its own recording."""
    line = ClockLine(clock.line.ahead_at(recording.middle), clock.line.drift, recording.middle)
    return replace(clock, line=line, host=recording.host, gpu_ahead=recording.gpu_ahead)
