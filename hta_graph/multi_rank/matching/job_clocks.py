"""The clocks of all ranks of a job in one time, and how well each is known.

Clocks of one host agree, unless a collective of its ranks contradicts that. The others are compared two by two
(:mod:`pair_clocks`), along the surest pairs from the lowest rank, and then moved within what all bounds together
leave. Let a clock be known but for a rest: that one rank waited for another bounds the difference of two rests from
one side, so a chain of such bounds bounds a rest against the lowest rank's, and the tightest chain is a shortest path.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np

from hta_graph.base.arrays import distinct, first_of_runs
from hta_graph.model import Floats, Ints
from hta_graph.multi_rank.matching.communications import Match, RankCommunications, RankRecording
from hta_graph.multi_rank.matching.pair_clocks import (
    SAME_CLOCK,
    UNKNOWN_ERROR,
    ArrivalsAndEnds,
    ClockEvidence,
    ClockLine,
    PairClock,
    PairMatches,
    arrivals_and_ends,
    clock_evidence,
    convert_times,
    offset_bounds,
    pair_clocks,
)

if TYPE_CHECKING:
    import pandas as pd


UNBOUNDED = float("inf")


def tighten_clocks(evidence: ClockEvidence, clocks: Mapping[int, tuple[ClockLine, int]]) -> dict[int, tuple[int, int]]:
    """Return by how much more each clock is ahead, and its error (ns): the middle of its bounds where they are tighter.

    The middles of such bounds satisfy all of them. Nothing moves where the bounds contradict each other.
    """
    ranks = sorted(clocks)
    source, target, most = _bounds_as_links(evidence, [clocks[rank][0] for rank in ranks], np.array(ranks, np.int64))
    high, low = _shortest_paths(source, target, most, len(ranks)), -_shortest_paths(target, source, most, len(ranks))
    if (low > high).any():
        return {rank: (0, error) for rank, (_, error) in clocks.items()}
    return {rank: _tightened(float(low[at]), float(high[at]), clocks[rank][1]) for at, rank in enumerate(ranks)}


def _tightened(low: float, high: float, error: int) -> tuple[int, int]:
    if (high - low) / 2 < error:
        return round((high + low) / 2), round((high - low) / 2)
    rest = round(min(max(0.0, low), high))
    return rest, min(error + abs(rest), UNKNOWN_ERROR)


def _bounds_as_links(evidence: ClockEvidence, lines: Sequence[ClockLine], ranks: Ints) -> tuple[Ints, Ints, Floats]:
    """List the bounds: the target's rest is at most so much (ns) more than the source's."""
    one, other = np.searchsorted(ranks, evidence.one), np.searchsorted(ranks, evidence.other)
    low, high = offset_bounds(replace(evidence, matches=_matches_in_job_time(evidence, lines, one, other)))
    source, target, most = np.append(one, other), np.append(other, one), np.append(high, -low)
    bounded = most < UNBOUNDED
    return source[bounded], target[bounded], most[bounded]


def _matches_in_job_time(evidence: ClockEvidence, lines: Sequence[ClockLine], one: Ints, other: Ints) -> PairMatches:
    matches, pair = evidence.matches, evidence.pair
    arrival, end = (convert_times(lines, one[pair], times) for times in (matches.arrival, matches.end))
    other_arrival, other_end = (
        convert_times(lines, other[pair], times) for times in (matches.other_arrival, matches.other_end)
    )
    return replace(matches, arrival=arrival, end=end, other_arrival=other_arrival, other_end=other_end)


def _shortest_paths(source: Ints, target: Ints, length: Floats, count: int) -> Floats:
    """Return the length of the shortest path from the first one to each; −∞ everywhere where a circle is negative."""
    reach = np.full(count, UNBOUNDED)
    reach[:1] = 0.0
    order = np.argsort(target, kind="stable")
    source, target, length = source[order], target[order], length[order]
    first = np.flatnonzero(first_of_runs(target))
    for _ in range(count if len(first) else 0):
        further = reach.copy()
        reached = np.minimum.reduceat(reach[source] + length, first)
        further[target[first]] = np.minimum(reach[target[first]], reached)
        if np.array_equal(further, reach):
            return reach
        reach = further
    return reach if not len(first) else np.full(count, -UNBOUNDED)


RankPair = tuple[int, int]
PARTS_PER_MILLION = 1e6

ON_ONE_HOST_NS = 50_000
"""How far GPU clocks of one host may differ at most where nothing contradicts that they agree: of the recordings that
are known those of one host in which clocks contradict each other are up to 44 µs apart."""


@dataclass(frozen=True)
class RankClock:
    """How far a rank's CPU clock is ahead of that of ``reference``, the lowest rank that it can be compared with.

    ``gpu_ahead`` is what its GPU's clock is ahead of that in the file (times of its graph are all the host's);
    ``error`` how well it is known (ns; 0: they are one clock); ``match_count`` how many collectives and messages it is
    estimated from.
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
        return not self.line.drift

    def to_job(self, times: Ints) -> Ints:
        """Return the rank's own times (ns) in the job's."""
        return self.line.to_other(times)


@dataclass(frozen=True)
class JobClocks:
    """The clocks of a job's ranks; ``impossible`` are the matches that fit no clocks: they are wrongly matched."""

    by_rank: dict[int, RankClock] = field(default_factory=dict)
    impossible: tuple[int, ...] = ()

    def to_job(self, rank: int, times: Ints) -> Ints:
        """Return a rank's own times (ns) in the job's."""
        return self.by_rank[rank].to_job(times)

    def error_between(self, one: int, other: int) -> int:
        """Return how far times of two ranks may be wrong against each other (ns)."""
        return 0 if one == other else self.by_rank[one].error + self.by_rank[other].error

    @property
    def are_equal(self) -> bool:
        """Whether all times are compared as recorded."""
        return all(clock.line.ahead == 0 == clock.line.drift for clock in self.by_rank.values())

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
    recordings: Mapping[int, RankRecording],
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


def _at_recording_middle(clock: RankClock, recording: RankRecording) -> RankClock:
    """Give a clock at the middle of its rank's trace."""
    line = ClockLine(clock.line.ahead_at(recording.middle), clock.line.drift, recording.middle)
    return replace(clock, line=line, host=recording.host, gpu_ahead=recording.gpu_ahead)
