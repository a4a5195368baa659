"""Which captured launch each kernel of a graph's replay stands for: by position, by queues, or by the fewest edits.

A replay runs what was captured, in that order on one stream; rows of either side may be lost. Measured on four public
pairs: 27 of 31 replays are equal by position, 4 lack one row; of 15 wrong pairs each needs edits of over 20%.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hta_graph.attribution.graph_kernels import COUNTS, EDITS, POSITION, QUEUES, UNCHECKED
from hta_graph.attribution.sequence_alignment import longest_common_subsequence
from hta_graph.base.arrays import rows_by_value, stable_order
from hta_graph.model import Ids, Ints

MOST_EDITS = 0.05
"""The share of a sequence that may be lost, added or moved; beyond it another graph is replayed."""
BEAM = 24
"""How many ways to take from the queues of several streams are followed at once."""
MOST_PASSED = 2
"""How many rows without a launch may stand in a row of one queue."""


@dataclass(frozen=True)
class ReplayAlignment:
    """For each kernel of a replay the place of its launch in the capture (-1: none), how, and with how many edits."""

    place: Ints
    rule: str
    edits: int = 0


def align_replay(captured: Ints, replayed: Ints, streams: Ids | Ints) -> ReplayAlignment | None:
    """Align the kernels of a replay with the launches of a capture.

    Args:
        captured: codes of the names of what was launched, in order; -1 where a launch names no kernel.
        replayed: codes of the names of what ran, in order of time.
        streams: the stream of each of these.

    Returns:
        the alignment; ``None`` where too much differs.

    >>> found = align_replay(np.array([1, 2, 3] * 20), np.array([1, 2, 3] * 19 + [1, 2]), np.zeros(59, np.int64))
    >>> found and (found.rule, found.edits, int(found.place[-1]))
    ('edits', 1, 58)
    >>> align_replay(np.array([1, 2, 3]), np.array([3, 2, 4]), np.zeros(3, np.int64)) is None
    True
    """
    if not len(captured) or not len(replayed):
        return None
    if (captured < 0).any():
        is_same = len(captured) == len(replayed) and not ((captured >= 0) & (captured != replayed)).any()
        return ReplayAlignment(np.arange(len(replayed)), UNCHECKED) if is_same else None
    if np.array_equal(captured, replayed):
        return ReplayAlignment(np.arange(len(replayed)), POSITION)
    limit = int(MOST_EDITS * max(len(captured), len(replayed)))
    most = int(max(captured.max(), replayed.max())) + 1
    common = np.minimum(np.bincount(captured, minlength=most), np.bincount(replayed, minlength=most)).sum()
    if max(len(captured), len(replayed)) - common > limit:
        return None  # what only one side has is an edit, wherever it stands
    if len(np.unique(streams)) > 1:
        return _by_queues(captured, replayed, streams, limit) or _by_edits(captured, replayed, limit)
    # Both sides may have lost one of a name: the fewest edits find which, equal counts would shift all in between.
    return _by_edits(captured, replayed, limit) or _by_counts(captured, replayed)


def _by_counts(captured: Ints, replayed: Ints) -> ReplayAlignment | None:
    """Match the n-th kernel of a name with the n-th launch of it, where there are as many of each."""
    left, right = stable_order(captured), stable_order(replayed)
    if not np.array_equal(captured[left], replayed[right]):
        return None
    place = np.empty(len(replayed), np.int64)
    place[right] = left
    return ReplayAlignment(place, COUNTS, int(np.count_nonzero(captured != replayed)))


def _by_edits(captured: Ints, replayed: Ints, limit: int) -> ReplayAlignment | None:
    """Match by the fewest insertions and deletions; two neighbors that changed places are one edit."""
    found = longest_common_subsequence(captured, replayed, 2 * limit)
    if found is None:
        return None
    place = np.full(len(replayed), -1, np.int64)
    place[found[1]] = found[0]
    edits = len(captured) + len(replayed) - 2 * len(found[0])
    edits -= _match_swapped(captured, replayed, place)
    return ReplayAlignment(place, EDITS, edits) if edits <= limit else None


def _match_swapped(captured: Ints, replayed: Ints, place: Ints) -> int:
    """Match what stands on the other side of its neighbor, in place; return how many are matched so.

    The match found leaves out one of two that changed places:  captured a b, replayed b a  leaves a on either side.
    """
    taken = np.zeros(len(captured) + 2, np.bool_)
    taken[place[place >= 0]] = True
    count = 0
    for at in np.flatnonzero(place < 0).tolist():
        before = int(place[at - 1]) if at else -1
        after = int(place[at + 1]) if at + 1 < len(place) else -1
        # Right of its neighbor where it was left of it, or the other way round.
        for launch in (before - 1 if before > 0 else -1, after + 1 if after >= 0 else -1):
            if 0 <= launch < len(captured) and not taken[launch] and captured[launch] == replayed[at]:
                place[at], taken[launch] = launch, True
                count += 1
                break
    return count


@dataclass(frozen=True)
class _Way:
    """One way to take from the queues: edits, kernels taken out of turn; the last match, and the way before it."""

    edits: int = 0
    out_of_turn: int = 0
    match: tuple[int, int] | None = None
    before: _Way | None = None

    @property
    def cost(self) -> tuple[int, int]:
        return self.edits, self.out_of_turn


def _by_queues(captured: Ints, replayed: Ints, streams: Ids | Ints, limit: int) -> ReplayAlignment | None:
    """Take each launch from the head of one stream's queue, with the fewest edits.

    Each stream keeps the order of its launches, and kernels of different streams may start in any order. Every launch
    is the head of some queue, or has no row (an edit), or rows before it have no launch (an edit each). Of ways with
    equally many edits the one that takes the most kernels in the order of their starts is right.
    """
    queues = [rows.tolist() for rows in rows_by_value(streams).values()]
    codes = replayed.tolist()
    ways = {(0,) * len(queues): _Way()}
    for launch, code in enumerate(captured.tolist()):
        following: dict[tuple[int, ...], _Way] = {}
        for taken, way in ways.items():
            _keep_better(following, taken, replace(way, edits=way.edits + 1))
            heads = [queue[at] if at < len(queue) else len(codes) for at, queue in zip(taken, queues, strict=True)]
            first = min(heads)
            for number, (at, queue) in enumerate(zip(taken, queues, strict=True)):
                ahead = [codes[row] for row in queue[at : at + 1 + MOST_PASSED]]
                if code not in ahead:
                    continue
                passed = ahead.index(code)
                turns = way.out_of_turn + (heads[number] != first)
                match = (launch, queue[at + passed])
                after = (*taken[:number], at + passed + 1, *taken[number + 1 :])
                _keep_better(following, after, _Way(way.edits + passed, turns, match, way))
        best = sorted(following.items(), key=lambda one: one[1].cost)[:BEAM]
        ways = {taken: way for taken, way in best if way.edits <= limit}
        if not ways:
            return None
    place = np.full(len(codes), -1, np.int64)
    left = {taken: len(codes) - sum(taken) for taken in ways}
    taken, way = min(ways.items(), key=lambda one: (one[1].edits + left[one[0]], one[1].out_of_turn))
    edits = way.edits + left[taken]
    last: _Way | None = way
    while last is not None and last.match is not None:
        place[last.match[1]] = last.match[0]
        last = last.before
    return ReplayAlignment(place, QUEUES, edits) if edits <= limit else None


def _keep_better(ways: dict[tuple[int, ...], _Way], taken: tuple[int, ...], way: _Way) -> None:
    if taken not in ways or way.cost < ways[taken].cost:
        ways[taken] = way
