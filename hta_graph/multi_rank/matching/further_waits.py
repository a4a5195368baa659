"""Who waits on CPUs for those that take from it: Gloo's sends end when their receivers have come.

A gather's leaf waits for the root, a scatter's root for each leaf. A broadcast goes down a binomial tree: each waits
for those above it and for those to whom it hands on, not for those next to it.

    root 0    |wwwwwwwwww|==|       0 ──▶ 1 ──▶ 3      rank 2 comes late: the root waits for it,
    rank 1    |==|                  └───▶ 2            ranks 1 and 3 do not
    rank 2               |==|
    rank 3    |==|

Source: ``waitSend`` in gloo/broadcast.cc, gather.cc and scatter.cc; measured with 4 ranks, 256 B and 1 MiB.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from hta_graph.base.arrays import Columns, find_sorted, pair_key, rows_by_value, take_or
from hta_graph.model import Bools, Ids, Ints
from hta_graph.multi_rank.matching.communications import ALL_RANKS, RankCommunications, listed_ranks
from hta_graph.multi_rank.matching.job_clocks import JobClocks
from hta_graph.multi_rank.matching.match_checks import MatchedMembers, clock_errors

ROOTED_KINDS = ("broadcast", "gather", "scatter")
BROADCAST, GATHER, SCATTER = range(3)


@dataclass(frozen=True, eq=False)
class FurtherWaits(Columns):
    """Members of collectives (by number and rank) that also wait for another rank, which takes from them."""

    number: Ints
    rank: Ints
    awaited: Ints

    def of_collectives(self, chosen: Bools) -> FurtherWaits:
        """Keep those of some collectives, which are numbered anew."""
        kept = self.take(chosen[self.number])
        return replace(kept, number=(np.cumsum(chosen) - 1)[kept.number])

    def places(self, number: Ints, rank: Ints) -> tuple[Ints, Ints]:
        """Return the places of who waits and of whom it waits for among members, in order of number and rank."""
        key = pair_key(number, rank)
        waiter, awaited = (find_sorted(pair_key(self.number, one), key) for one in (self.rank, self.awaited))
        return waiter, awaited


def further_waits(members: MatchedMembers, ranks: Mapping[int, RankCommunications], clocks: JobClocks) -> FurtherWaits:
    """Return for whom members wait besides those that they need, given members in order of number and rank.

    A member that ended before the other one's work began handed over to a buffer, and did not wait.
    """
    kind, group = _kinds_and_groups(members, ranks)
    pairs = FurtherWaits.join([_between_root_and_leaves(members, kind), *_along_trees(members, kind, group)])
    waiter, awaited = pairs.places(members.number, members.rank)
    error = clock_errors(members, clocks)
    given = np.flatnonzero((waiter >= 0) & (awaited >= 0))
    waiter, awaited = waiter[given], awaited[given]
    waits = members.end[waiter] + error[waiter] + error[awaited] >= members.start[awaited]
    return pairs.take(given[waits])


def _kinds_and_groups(members: MatchedMembers, ranks: Mapping[int, RankCommunications]) -> tuple[Ints, list[str]]:
    """Return which rooted collective on CPUs each member is of (-1: none), and of those the ranks of its group."""
    kind, group = np.full(len(members), -1, np.int64), [""] * len(members)
    for rank, mine in rows_by_value(members.rank).items():
        own, place = ranks[rank], members.place[mine]
        says = own.arguments["Collective name"]
        code = [ROOTED_KINDS.index(says[at]) if says[at] in ROOTED_KINDS else -1 for at in place.tolist()]
        kind[mine] = np.where(own.on_gpu[place], -1, code)
        for at in np.flatnonzero(kind[mine] >= 0).tolist():
            group[mine[at]] = str(own.arguments["Process Group Ranks"][place[at]])
    return kind, group


def _between_root_and_leaves(members: MatchedMembers, kind: Ints) -> FurtherWaits:
    """Let a gather's leaves wait for the root, which alone waits for all, and a scatter's root for its leaves."""
    root_of = np.full(int(members.number.max(initial=-1)) + 1, -1)
    takes_all = (kind == GATHER) & (members.awaited_rank == ALL_RANKS)
    root_of[members.number[takes_all]] = members.rank[takes_all]
    root = np.where(kind == GATHER, root_of[members.number], members.awaited_rank)
    leaf = np.flatnonzero(np.isin(kind, (GATHER, SCATTER)) & (root >= 0) & (root != members.rank))
    takes = kind[leaf] == SCATTER
    rank, root = members.rank[leaf], root[leaf]
    return FurtherWaits(members.number[leaf], np.where(takes, root, rank), np.where(takes, rank, root))


def _along_trees(members: MatchedMembers, kind: Ints, group: list[str]) -> list[FurtherWaits]:
    """Let each member of a broadcast wait for those to whom it hands on, and for those above it but the root.

    That all wait for the root is known as for every broadcast.
    """
    found, rows = [], np.flatnonzero((kind == BROADCAST) & (members.awaited_rank >= 0))
    texts = [group[row] for row in rows.tolist()]
    number_of = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    of_group = rows_by_value(np.array([number_of[text] for text in texts], np.int64))
    for text, at in number_of.items():
        listed, own = np.array(listed_ranks(text), np.int64), rows[of_group[at]]
        place, root = _places_in(listed, members.rank[own]), _places_in(listed, members.awaited_rank[own])
        known = (place >= 0) & (root >= 0)
        own, root = own[known], root[known]
        behind = (place[known] - root) % max(len(listed), 1)
        number, rank = members.number[own], members.rank[own]
        above, is_parent = behind, True
        while (above > 0).any():
            above = np.where(above > 0, tree_parents(above.clip(min=1)), -1)
            awaited = take_or(listed, np.where(above >= 0, (above + root) % len(listed), -1))
            if is_parent:
                found.append(FurtherWaits(number, awaited, rank).take(above >= 0))
            found.append(FurtherWaits(number, rank, awaited).take(above > 0))
            is_parent = False
    return found


def _places_in(listed: Ints, ranks: Ints) -> Ints:
    """Return the place of each rank in a group; -1 where it is not of it."""
    order = np.argsort(listed)
    found: Ints = take_or(order, find_sorted(ranks, listed[order]))
    return found


def tree_parents(place: Ints | Ids) -> Ints:
    """Return who hands on to each member of a broadcast but the root, all by their places behind the root.

    The highest bit of a place says in which round what the root gives comes there; who has the others' number has it
    by then.

    >>> tree_parents(np.arange(1, 8)).tolist()
    [0, 0, 1, 0, 1, 2, 3]
    """
    highest = np.frexp(place)[1].astype(np.int64) - 1
    parents: Ints = place ^ (np.int64(1) << highest)
    return parents
