"""Bounds of many clocks at once: what every two leave open, and what follows through others.

Let a clock be known but for a rest. That somebody waited for another bounds the difference of two rests from one side,
so a chain of such bounds bounds a rest against the lowest rank's: the tightest chain is a shortest path.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hta_graph.job.matching.clocks.clock_evidence import MeetingsOfTwo
from hta_graph.job.matching.clocks.clock_lines import ClockLine
from hta_graph.job.matching.clocks.pair_clocks import UNKNOWN_ERROR, gap_of_bounds
from hta_graph.model import Floats, Ints

__all__ = ["moved_within_bounds"]

NONE = float("inf")


def moved_within_bounds(
    met: Mapping[tuple[int, int], MeetingsOfTwo], clocks: Mapping[int, tuple[ClockLine, int]]
) -> dict[int, tuple[int, int]]:
    """Return by how much more each clock is ahead, and its error (ns): the middle of its bounds where they are tighter.

    The middles of such bounds satisfy all of them. Nothing moves where the bounds contradict each other.
    """
    ranks = sorted(clocks)
    number = {rank: at for at, rank in enumerate(ranks)}
    source, target, most = _chain_links(met, clocks, number)
    high, low = _shortest(source, target, most, len(ranks)), -_shortest(target, source, most, len(ranks))
    if (low > high).any():
        return {rank: (0, error) for rank, (_, error) in clocks.items()}
    return {rank: _moved(float(low[at]), float(high[at]), clocks[rank][1]) for rank, at in number.items()}


def _moved(low: float, high: float, error: int) -> tuple[int, int]:
    if (high - low) / 2 < error:
        return round((high + low) / 2), round((high - low) / 2)
    rest = round(min(max(0.0, low), high))
    return rest, min(error + abs(rest), UNKNOWN_ERROR)


def _chain_links(
    met: Mapping[tuple[int, int], MeetingsOfTwo], clocks: Mapping[int, tuple[ClockLine, int]], number: Mapping[int, int]
) -> tuple[Ints, Ints, Floats]:
    """List the bounds: the target's rest is at most so much (ns) more than the source's."""
    links: list[tuple[int, int, float]] = []
    for (one, other), found in met.items():
        low, high = gap_of_bounds(_in_job_time(found, clocks[one][0], clocks[other][0]))
        links += [(number[one], number[other], high), (number[other], number[one], -low)]
    source, target, most = np.array([link for link in links if link[2] < NONE], np.float64).reshape(-1, 3).T
    return source.astype(np.int64), target.astype(np.int64), most


def _in_job_time(met: MeetingsOfTwo, one: ClockLine, other: ClockLine) -> MeetingsOfTwo:
    return MeetingsOfTwo(
        met.meeting,
        one.to_other(met.came),
        one.to_other(met.left),
        met.waits,
        other.to_other(met.other_came),
        other.to_other(met.other_left),
        met.other_waits,
    )


def _shortest(source: Ints, target: Ints, length: Floats, count: int) -> Floats:
    """Return the length of the shortest path from the first one to each; −∞ everywhere where a circle is negative."""
    reach = np.full(count, NONE)
    reach[:1] = 0.0
    for _ in range(count):
        further = reach.copy()
        np.minimum.at(further, target, reach[source] + length)
        if np.array_equal(further, reach):
            return reach
        reach = further
    return np.full(count, -NONE)
