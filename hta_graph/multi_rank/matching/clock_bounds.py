"""Bounds of many clocks at once: what every two leave open, and what follows through others.

Let a clock be known but for a rest. That somebody waited for another bounds the difference of two rests from one side,
so a chain of such bounds bounds a rest against the lowest rank's: the tightest chain is a shortest path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from hta_graph.arrays import first_of_runs
from hta_graph.model import Floats, Ints
from hta_graph.multi_rank.matching.clock_evidence import ClockEvidence, PairMatches
from hta_graph.multi_rank.matching.clock_lines import ClockLine, convert_times
from hta_graph.multi_rank.matching.pair_clocks import UNKNOWN_ERROR, offset_bounds

__all__ = ["tighten_clocks"]

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
