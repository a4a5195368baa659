"""What the job's matcher brings together: communication on CPUs, and what no simulator can compute.

That is written as recorded: ranks wait for each other, and then the time passes that the transfer took.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hta_graph.chakra.channels import Group
from hta_graph.chakra.communications import Communication, WorkloadCommunications
from hta_graph.model import Ints
from hta_graph.multi_rank.matching.collectives import Collectives, match_collectives
from hta_graph.multi_rank.matching.job_clocks import JobClocks
from hta_graph.multi_rank.matching.rank_members import ALL_RANKS, NO_RANK, RankCommunications

__all__ = ["MatchedCommunications", "matched_communications"]

RENDEZVOUS_KIND, RENDEZVOUS_BYTES = "ALL_GATHER", 64
"""What ranks do to wait for each other: of all that ASTRA-sim runs it costs least; of fewer than 4 bytes it hangs."""


@dataclass(frozen=True)
class MatchedCommunications:
    """Per rank its communications, matched where order alone does not tell, and how many of them are as recorded.

    ``unmatched`` are the events (canonical rows) that have no partner, of which something is unknown or on the CPU.
    """

    known: dict[int, list[Communication]]
    recorded: dict[int, int]
    unmatched: dict[int, set[int]]
    clocks: JobClocks


def matched_communications(
    found: Mapping[int, WorkloadCommunications], members: Mapping[int, RankCommunications], *, as_recorded: bool
) -> MatchedCommunications:
    """Match what is unknown and what ran on CPUs with all other communications, as analyses do.

    On the CPU ends scatter too much for order and contents alone. Where one rank does not know what it did, it is as
    recorded on all that did it. So are broadcasts: ASTRA-sim takes their recorded time, but nobody waits for the root.

    Args:
        found: what is known of each rank's communications.
        members: the same as the job's matcher looks at them.
        as_recorded: whether to keep what is unknown.
    """
    matched = match_collectives(members)
    known = {rank: {item.event: item for item in own.known} for rank, own in found.items()}
    unknown = {rank: {row for row, _ in own.unknown} for rank, own in found.items()}
    on_cpu = {rank: set(own.row[~own.on_gpu].tolist()) for rank, own in members.items()}
    matched_items: dict[int, dict[int, Communication]] = {rank: {} for rank in found}
    for number in range(len(matched)):
        match = _MatchedGroup.of(number, matched, members, known)
        if as_recorded and match.needs_recorded_time(unknown):
            items = match.as_recorded()
        elif match.any_event_in(on_cpu) and match.is_complete(found):
            items = match.as_known()
        else:
            continue
        for rank, item in zip(match.ranks, items, strict=True):
            matched_items[rank][item.event] = item
    return MatchedCommunications(
        {
            rank: [item for row, item in own.items() if row not in on_cpu[rank] and row not in matched_items[rank]]
            + [*matched_items[rank].values()]
            for rank, own in known.items()
        },
        {rank: sum(item.is_recorded for item in own.values()) for rank, own in matched_items.items()},
        {rank: (unknown[rank] | (known[rank].keys() & on_cpu[rank])) - matched_items[rank].keys() for rank in found},
        matched.clocks,
    )


@dataclass(frozen=True)
class _MatchedGroup:
    """What several ranks did together: per member its rank, event, what is known of it, whom it waits for, its times.

    ``start`` and ``end`` of the work are in the job's time (ns).
    """

    number: int
    ranks: list[int]
    rows: list[int]
    items: list[Communication | None]
    needed: list[int]
    start: Ints
    end: Ints
    on_gpu: bool
    is_message: bool

    @classmethod
    def of(
        cls,
        number: int,
        matched: Collectives,
        members: Mapping[int, RankCommunications],
        known: Mapping[int, Mapping[int, Communication]],
    ) -> _MatchedGroup:
        end = matched.first[number + 1] if number + 1 < len(matched) else len(matched.number)
        at = slice(matched.first[number], end)
        ranks, places = matched.rank[at].tolist(), matched.place[at].tolist()
        own = list(zip([members[rank] for rank in ranks], places, strict=True))
        rows = [int(member.row[place]) for member, place in own]
        is_message = own[0][0].is_message[places[0]]
        needed = [int(member.needed[place]) for member, place in own]
        if is_message:
            # A sender waits for nobody.
            receives = [member.arguments["Collective name"][place] == "recv" for member, place in own]
            needed = [one if waits else NO_RANK for one, waits in zip(needed, receives, strict=True)]
        items = [known[rank].get(row) for rank, row in zip(ranks, rows, strict=True)]
        on_gpu = all(bool(member.on_gpu[place]) for member, place in own)
        # A message is on its way from the call on.
        start = (matched.arrival if is_message else matched.start)[at]
        return cls(number, ranks, rows, items, needed, start, matched.end[at], on_gpu, is_message)

    def any_event_in(self, rows: Mapping[int, Collection[int]]) -> bool:
        """Tell whether any member's event is one of these."""
        return any(row in rows[rank] for rank, row in zip(self.ranks, self.rows, strict=True))

    def needs_recorded_time(self, unknown: Mapping[int, Collection[int]]) -> bool:
        """Tell whether a simulator could not compute it, and all members take part in the workload."""
        members = list(zip(self.ranks, self.rows, self.items, strict=True))
        needs = self.any_event_in(unknown) or any(item is not None and item.kind == "BROADCAST" for item in self.items)
        return needs and all(item is not None or row in unknown[rank] for rank, row, item in members)

    def is_complete(self, given: Collection[int]) -> bool:
        """Tell whether all members know what they did, and none that is given is missing."""
        items = [item for item in self.items if item is not None]
        if len(items) < len(self.items) or len({item.group.ranks for item in items}) > 1:
            return False
        ranks = {items[0].peer, *self.ranks} if self.is_message else items[0].group.ranks
        return set(ranks) & set(given) <= set(self.ranks)

    def as_known(self) -> list[Communication]:
        """Return what is known of it, with how long the transfer took each member."""
        transfers = self._transfers()
        if self.is_message:
            # A message is one transfer, from when it was sent to when it was received.
            receives = [one != NO_RANK for one in self.needed]
            transfers = np.full(2, max(int(self.end[receives].max() - self.start[np.invert(receives)].min()), 0))
        items = [item for item in self.items if item is not None]
        return [
            replace(item, match=self.number, transfer=ns) for item, ns in zip(items, transfers.tolist(), strict=True)
        ]

    def as_recorded(self) -> list[Communication]:
        """Return it as the simulator only replays it."""
        group = Group("", tuple(sorted(self.ranks)))
        roles = _send_receive_roles(self.ranks, self.needed)
        transfers = self._transfers()
        if self.on_gpu and not roles:
            # The kernel of the rank that came last waited for nobody, whatever the clocks say.
            transfers = np.full(len(transfers), (self.end - self.start).min())
        return [
            Communication(
                row,
                kind,
                RENDEZVOUS_BYTES,
                group,
                match=self.number,
                transfer=ns,
                is_recorded=True,
                peers=peers,
                on_cpu=not self.on_gpu,
            )
            for row, ns, (kind, peers) in zip(
                self.rows,
                transfers.tolist(),
                [roles.get(rank, (RENDEZVOUS_KIND, ())) for rank in self.ranks],
                strict=True,
            )
        ]

    def _transfers(self) -> Ints:
        """Return how long each member's work took once those were there for whom it waits (ns)."""
        start = dict(zip(self.ranks, self.start.tolist(), strict=True))
        last = int(self.start.max())
        came = [start.get(one, last) if one != NO_RANK else 0 for one in self.needed]
        transfers: Ints = np.clip(self.end - np.array(came), 0, self.end - self.start)
        if self.is_message and not self.on_gpu:
            # The row of a send on the CPU goes on until somebody asks whether it arrived.
            transfers[[one == NO_RANK for one in self.needed]] = 0
        return transfers


def _send_receive_roles(ranks: Sequence[int], needed: Sequence[int]) -> dict[int, tuple[str, tuple[int, ...]]]:
    """Return who sends to whom, and who receives from whom, where not all wait for all; else nothing.

    >>> _send_receive_roles([0, 1, 2], [0, 0, 0])
    {0: ('SEND', (1, 2)), 1: ('RECV', (0,)), 2: ('RECV', (0,))}
    >>> _send_receive_roles([0, 1, 2], [NOBODY, NOBODY, ALL])
    {0: ('SEND', (2,)), 1: ('SEND', (2,)), 2: ('RECV', (0, 1))}
    >>> _send_receive_roles([0, 1], [ALL, ALL])
    {}
    """
    awaited = {one for one in needed if one >= 0}
    roots = awaited or {rank for rank, one in zip(ranks, needed, strict=True) if one == ALL_RANKS}
    if len(roots) != 1 or not roots <= set(ranks) or (not awaited and needed.count(NO_RANK) < len(ranks) - 1):
        return {}
    (root,) = roots
    leaves = tuple(rank for rank in ranks if rank != root)
    one, other = ("SEND", "RECV") if awaited else ("RECV", "SEND")
    return {rank: (one, leaves) if rank == root else (other, (root,)) for rank in ranks}
