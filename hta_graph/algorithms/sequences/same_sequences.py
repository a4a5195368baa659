"""Sequences of GPU activities under the rows that launched them, and which of them are the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.columns import first_of_runs
from hta_graph.model import Ids, Ints
from hta_graph.trace.table import EventTable

__all__ = ["Sequences", "outermost_around", "same_sequences"]


@dataclass(frozen=True)
class Sequences:
    """Groups of members that stand together, and the pattern of each: its head and the codes of its members.

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


def outermost_around(events: EventTable, roots: Ids | Ints, calls: Ids) -> Ids:
    """Return for each call the root on its thread in which it starts, if that is in no other root; -1 where none is.

    Args:
        events: the events.
        roots: the rows that count, ascending.
        calls: the calls; -1 has no root.
    """
    found = np.full(len(calls), -1, np.int32)
    known = np.flatnonzero(calls >= 0)
    for lane in np.unique(events.lane[roots]).tolist():
        own = roots[events.lane[roots] == lane]
        # A root that starts before all earlier ones have ended lies in one of them.
        own = own[events.start[own] >= np.append(np.iinfo(np.int64).min, np.maximum.accumulate(events.end[own])[:-1])]
        here = known[events.lane[calls[known]] == lane]
        time = events.start[calls[here]]
        root = own[np.searchsorted(events.start[own], time, side="right") - 1]
        found[here] = np.where((time >= events.start[root]) & (time < events.end[root]), root, -1)
    return found


def same_sequences(owner: Ids, members: Ids, name: Ids, least: int = 1) -> Sequences:
    """Find which owners have the same name and members of the same names in the same order.

    Args:
        owner: the owner of each member; members of one owner stand together, in the order that matters.
        members: the rows.
        name: the name code of every row of the trace.
        least: leave out owners with fewer members.

    >>> found = same_sequences(np.array([3, 3, 4, 5, 5]), np.arange(5), np.array([7, 8, 7, 7, 8, 7]))
    >>> found.pattern.tolist(), found.example.tolist(), found.first.tolist()
    ([0, 1, 0], [0, 1], [0, 2, 3, 5])
    """
    begins = np.flatnonzero(first_of_runs(owner))
    size = np.diff(begins, append=len(owner))
    kept = np.repeat(size >= least, size)
    owner, members, size = owner[kept], members[kept], size[size >= least]
    first = np.concatenate([[0], np.cumsum(size)])
    heads = owner[first[:-1]]
    pattern, example = _number_equal(name[heads], first, name[members])
    return Sequences(heads, first, members, pattern, example)


def _number_equal(head: Ids, first: Ints, codes: Ids) -> tuple[Ids, Ints]:
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
