"""Sequences of GPU activities under the rows that launched them, and which of them are the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.base.arrays import first_of_runs, last_at_most, pair_key
from hta_graph.model import Ids, Ints
from hta_graph.trace.table import EventTable


@dataclass(frozen=True)
class SequencePatterns:
    """Groups of adjacent members, and the pattern of each: its head and the codes of its members.

    Group i is ``members[first[i] : first[i + 1]]`` under ``owner[i]``; ``pattern[i]`` numbers its pattern by first
    appearance, and ``example[p]`` is the first group with pattern p.
    """

    owner: Ids
    first: Ints
    members: Ids
    pattern: Ids
    example: Ints

    def group(self, number: int) -> Ids:
        """Return the members of a group."""
        return self.members[self.first[number] : self.first[number + 1]]

    def counts(self) -> Ints:
        """Return how many groups have each pattern."""
        return self.per_pattern(np.ones(len(self.owner), np.int64))

    def per_pattern(self, values: Ints) -> Ints:
        """Sum values of groups over the groups of each pattern."""
        sums = np.zeros(len(self.example), np.int64)
        np.add.at(sums, self.pattern, values)
        return sums

    def per_group(self, values: Ints) -> Ints:
        """Sum values of members over the members of each group."""
        sums: Ints = np.add.reduceat(values, self.first[:-1]) if len(values) else np.empty(0, np.int64)
        return sums


def outermost_roots(events: EventTable, roots: Ids | Ints, calls: Ids) -> Ids:
    """Return for each call the root on its thread in which it starts, if that is in no other root; -1 where none is.

    Args:
        events: the events.
        roots: the rows that count, ascending.
        calls: the calls; -1 has no root.
    """
    own = _outermost(events, roots)
    found, known = np.full(len(calls), -1, np.int32), np.flatnonzero(calls >= 0)
    time, lane = events.start[calls[known]], events.lane[calls[known]]
    first, past = (np.searchsorted(events.lane[own], lane, side=side) for side in ("left", "right"))
    at = last_at_most(events.start[own], first, past, time)
    inside = at >= first
    root = own[at[inside]]
    found[known[inside]] = np.where(time[inside] < events.end[root], root, -1)
    return found


def _outermost(events: EventTable, roots: Ids | Ints) -> Ids | Ints:
    """Return the roots that lie in no other one of their thread, thread by thread."""
    own = roots[np.argsort(events.lane[roots], kind="stable")]
    lane, start = events.lane[own], events.start[own]
    # One running maximum for all threads: the thread stands above the end, which is a rank to leave it room.
    ends, rank = np.unique(events.end[own], return_inverse=True)
    latest = ends[np.maximum.accumulate(pair_key(lane, rank)) & 0xFFFF_FFFF] if len(own) else start
    # A root that starts before all earlier ones have ended lies in one of them.
    alone = first_of_runs(lane)
    alone[1:] |= start[1:] >= latest[:-1]
    return own[alone]


def sequence_patterns(owner: Ids, members: Ids, name: Ids, least: int = 1) -> SequencePatterns:
    """Find which owners have the same name and members of the same names in the same order.

    Args:
        owner: the owner of each member; members of one owner stand together, in the order that matters.
        members: the rows.
        name: the name code of every row of the trace.
        least: leave out owners with fewer members.

    >>> found = sequence_patterns(np.array([3, 3, 4, 5, 5]), np.arange(5), np.array([7, 8, 7, 7, 8, 7]))
    >>> found.pattern.tolist(), found.example.tolist(), found.first.tolist()
    ([0, 1, 0], [0, 1], [0, 2, 3, 5])
    """
    begins = np.flatnonzero(first_of_runs(owner))
    size = np.diff(begins, append=len(owner))
    kept = np.repeat(size >= least, size)
    owner, members, size = owner[kept], members[kept], size[size >= least]
    first = np.concatenate([[0], np.cumsum(size)])
    heads = owner[first[:-1]]
    pattern, example = _number_patterns(name[heads], first, name[members])
    return SequencePatterns(heads, first, members, pattern, example)


def _number_patterns(head: Ids, first: Ints, codes: Ids) -> tuple[Ids, Ints]:
    """Number equal sequences; comparing their bytes needs no object per member."""
    text, width = codes.astype(np.int32).tobytes(), 4
    known: dict[tuple[int, bytes], int] = {}
    bounds = (first * width).tolist()
    numbers = [
        known.setdefault((own, text[begin:end]), len(known))
        for own, begin, end in zip(head.tolist(), bounds[:-1], bounds[1:], strict=True)
    ]
    pattern = np.array(numbers, np.int32)
    return pattern, np.unique(pattern, return_index=True)[1]
