"""What the job's matcher brings together: communication on CPUs, and what no simulator can compute.

That is written as recorded: ranks wait for each other, and then the time passes that the transfer took.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hta_graph.export.chakra.workload.channels import Group
from hta_graph.export.chakra.workload.communications import KnownCommunication, RankCommunications
from hta_graph.job.matching.clocks.rank_clocks import JobClocks
from hta_graph.job.matching.collective_times import Collectives, match_collectives
from hta_graph.job.matching.rank_members import ALL, NOBODY, RankMembers
from hta_graph.model import Ints

__all__ = ["MetCommunications", "met_communications"]

MEETING, MEETING_BYTES = "ALL_GATHER", 64
"""What ranks do to wait for each other: of all that ASTRA-sim runs it costs least; of fewer than 4 bytes it hangs."""


@dataclass(frozen=True)
class MetCommunications:
    """Per rank its communications, matched where order alone does not tell, and how many of them are as recorded.

    ``unmatched`` are the events (canonical rows) that have no partner, of which something is unknown or on the CPU.
    """

    known: dict[int, list[KnownCommunication]]
    recorded: dict[int, int]
    unmatched: dict[int, set[int]]
    clocks: JobClocks


def met_communications(
    found: Mapping[int, RankCommunications], members: Mapping[int, RankMembers], *, as_recorded: bool
) -> MetCommunications:
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
    met: dict[int, dict[int, KnownCommunication]] = {rank: {} for rank in found}
    for number, at in _meetings(matched):
        ranks, places = matched.rank[at].tolist(), matched.place[at].tolist()
        rows = [(rank, int(members[rank].row[place])) for rank, place in zip(ranks, places, strict=True)]
        items = [known[rank].get(row) for rank, row in rows]
        is_unknown = any(
            row in unknown[rank] or _is_broadcast(item) for (rank, row), item in zip(rows, items, strict=True)
        )
        if (
            is_unknown
            and as_recorded
            and all(item or row in unknown[rank] for (rank, row), item in zip(rows, items, strict=True))
        ):
            for item, (rank, row) in zip(_as_recorded(number, at, matched, members), rows, strict=True):
                met[rank][row] = item
        elif any(row in on_cpu[rank] for rank, row in rows) and _is_whole(items, ranks, found):
            for one, (rank, row) in zip(items, rows, strict=True):
                if one:
                    met[rank][row] = replace(one, meeting=number)
    return MetCommunications(
        {
            rank: [item for row, item in own.items() if row not in on_cpu[rank] and row not in met[rank]]
            + [*met[rank].values()]
            for rank, own in known.items()
        },
        {rank: sum(item.is_recorded for item in own.values()) for rank, own in met.items()},
        {rank: (unknown[rank] | (known[rank].keys() & on_cpu[rank])) - met[rank].keys() for rank in found},
        matched.clocks,
    )


def _meetings(matched: Collectives) -> Iterator[tuple[int, Ints]]:
    """Yield the number of each meeting of several ranks, and its members' places."""
    for number, at in enumerate(np.split(np.arange(len(matched.number)), matched.first[1:])):
        if len(at) > 1:
            yield number, at


def _is_broadcast(item: KnownCommunication | None) -> bool:
    return item is not None and item.kind == "BROADCAST"


def _is_whole(items: Sequence[KnownCommunication | None], ranks: Sequence[int], given: Collection[int]) -> bool:
    """Tell whether all members know the same of what they did, and none that is given is missing."""
    first = items[0]
    if first is None or any(item is None or item.group.ranks != first.group.ranks for item in items):
        return False
    return first.partners & set(given) <= set(ranks)


def _as_recorded(
    number: int, at: Ints, matched: Collectives, members: Mapping[int, RankMembers]
) -> Iterator[KnownCommunication]:
    """Describe the members of one meeting, in their order."""
    ranks, places = matched.rank[at].tolist(), matched.place[at].tolist()
    own = [(members[rank], place) for rank, place in zip(ranks, places, strict=True)]
    group = Group("", tuple(sorted(ranks)))
    needed = [int(member.needed[place]) for member, place in own]
    lasted = np.array([member.end[place] - member.start[place] for member, place in own])
    is_message = own[0][0].is_message[own[0][1]]
    if is_message:
        needed = [other if _receives(*one) else NOBODY for other, one in zip(needed, own, strict=True)]
    ways = _ways_to_wait(ranks, needed)
    # Where all wait for all, the one that came last tells how long it took, whatever the clocks say.
    transfer = np.minimum(lasted, matched.transfer[at]) if ways else np.full(len(at), lasted.min())
    for rank, (member, place), ns in zip(ranks, own, transfer.tolist(), strict=True):
        kind, others = ways.get(rank, (MEETING, ()))
        yield KnownCommunication(
            int(member.row[place]), kind, MEETING_BYTES, group, meeting=number, transfer=ns, others=others
        )


def _receives(member: RankMembers, place: int) -> bool:
    return bool(member.said["Collective name"][place] == "recv")


def _ways_to_wait(ranks: Sequence[int], needed: Sequence[int]) -> dict[int, tuple[str, tuple[int, ...]]]:
    """Return who sends to whom, and who receives from whom, where not all wait for all; else nothing.

    >>> _ways_to_wait([0, 1, 2], [0, 0, 0])
    {0: ('SEND', (1, 2)), 1: ('RECV', (0,)), 2: ('RECV', (0,))}
    >>> _ways_to_wait([0, 1, 2], [NOBODY, NOBODY, ALL])
    {0: ('SEND', (2,)), 1: ('SEND', (2,)), 2: ('RECV', (0, 1))}
    >>> _ways_to_wait([0, 1], [ALL, ALL])
    {}
    """
    awaited = {one for one in needed if one >= 0}
    roots = awaited or {rank for rank, one in zip(ranks, needed, strict=True) if one == ALL}
    if len(roots) != 1 or not roots <= set(ranks) or (not awaited and needed.count(NOBODY) < len(ranks) - 1):
        return {}
    (root,) = roots
    leaves = tuple(rank for rank in ranks if rank != root)
    one, other = ("SEND", "RECV") if awaited else ("RECV", "SEND")
    return {rank: (one, leaves) if rank == root else (other, (root,)) for rank in ranks}
