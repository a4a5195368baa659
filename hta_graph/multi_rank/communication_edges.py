"""Members of different ranks that met, as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.arrays import Columns
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Bools, Codes, Ids, Ints, Rule
from hta_graph.multi_rank.host_work import HostCommunications, arrival_points
from hta_graph.multi_rank.matching.collectives import Collectives
from hta_graph.multi_rank.matching.match_ranks import ORDER
from hta_graph.multi_rank.matching.rank_members import ALL_RANKS, MESSAGE_KINDS, RankCommunications

__all__ = ["MatchedCommunications", "matched_communications"]


@dataclass(frozen=True, eq=False)
class MatchedCommunications(Columns):
    """Members that met others, collectives in order of number: whose row, when it began and ended (job time, ns).

    ``part`` is the place of its rank, ``row`` its row in that rank's graph. The rank came with the start, or the end
    (``arrived_at_end``), of the row ``came``: its own, but for messages on the CPU, whose row begins late in their call;
    ``arrival`` is when that was.
    ``waits``: for others; ``is_needed``: others wait for it. ``rule`` is how they were found to belong together.
    """

    number: Ints
    part: Ids
    row: Ids
    came: Ids
    arrived_at_end: Bools
    arrival: Ints
    start: Ints
    end: Ints
    waits: Bools
    is_needed: Bools
    is_message: Bools
    sends: Bools
    rule: Codes


def matched_communications(
    found: Collectives,
    ranks: Mapping[int, RankCommunications],
    graphs: Sequence[DependencyGraph],
    host: Sequence[HostCommunications],
) -> MatchedCommunications:
    """Describe matched members, given each rank's communications, graph in job time, and work on the CPU."""
    part, row, came, start, end, needed = (np.zeros(len(found.rank), np.int64) for _ in range(6))
    at_end, is_message, sends = (np.zeros(len(found.rank), np.bool_) for _ in range(3))
    for number, (rank, own) in enumerate(ranks.items()):
        at = found.of_rank(rank)
        place, events = found.place[at], graphs[number].event_table
        part[at], row[at], needed[at] = number, own.row[place], own.needed[place]
        start[at], end[at] = events.start[row[at]], events.end[row[at]]
        came[at], at_end[at] = _arrival_events(row[at], graphs[number], host[number])
        says = [own.arguments["Collective name"][one] for one in place.tolist()]
        is_message[at], sends[at] = [one in MESSAGE_KINDS for one in says], [one == "send" for one in says]
    return MatchedCommunications.of(
        number=found.number,
        part=part,
        row=row,
        came=came,
        arrived_at_end=at_end,
        arrival=found.arrival,
        start=start,
        end=end,
        waits=(needed == ALL_RANKS) | (needed >= 0),
        is_needed=found.is_needed,
        is_message=is_message,
        sends=sends,
        rule=np.where(found.by[found.number] == ORDER, Rule.ALIGNED_SEQUENCES, Rule.RECORDED),
    )


def _arrival_events(rows: Ints, graph: DependencyGraph, work: HostCommunications) -> tuple[Ints, Bools]:
    """Return with which event, and whether with its end, the rank came to what each row did: its own, if no message."""
    messages = _message_calls(graph, work)
    came = [messages.get(row, (row, False)) for row in rows.tolist()]
    event, at_end = np.array(came, np.int64).reshape(-1, 2).T
    return event, at_end.astype(np.bool_)


def _message_calls(graph: DependencyGraph, work: HostCommunications) -> dict[int, tuple[int, bool]]:
    """Return with which event, and whether with its end, the rank came to each message."""
    messages = work.take(work.is_message & (work.call >= 0))
    if not len(messages):
        return {}
    event, at_end = arrival_points(graph, messages)
    return dict(zip(messages.row.tolist(), zip(event.tolist(), at_end.tolist(), strict=True), strict=True))
