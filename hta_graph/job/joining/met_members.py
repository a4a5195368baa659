"""Members of different ranks that met, as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.columns import Columns
from hta_graph.graph import DependencyGraph
from hta_graph.job.joining.host_work import HostWork, arrival_points
from hta_graph.job.matching.collective_times import Collectives
from hta_graph.job.matching.meeting_channels import ORDER
from hta_graph.job.matching.rank_members import ALL, MESSAGES, RankMembers
from hta_graph.model import Bools, Codes, Ids, Ints, Rule

__all__ = ["MetMembers", "met_members"]


@dataclass(frozen=True, eq=False)
class MetMembers(Columns):
    """Members that met others, collectives in order of number: whose row, when it began and ended (job time, ns).

    ``part`` is the place of its rank, ``row`` its row in that rank's graph. The rank came with the start, or the end
    (``came_at_end``), of the row ``came``: its own, but for messages on the CPU, whose row begins late in their call;
    ``arrival`` is when that was.
    ``waits``: for others; ``is_needed``: others wait for it. ``rule`` is how they were found to belong together.
    """

    number: Ints
    part: Ids
    row: Ids
    came: Ids
    came_at_end: Bools
    arrival: Ints
    start: Ints
    end: Ints
    waits: Bools
    is_needed: Bools
    is_message: Bools
    sends: Bools
    rule: Codes


def met_members(
    found: Collectives,
    ranks: Mapping[int, RankMembers],
    graphs: Sequence[DependencyGraph],
    host: Sequence[HostWork],
) -> MetMembers:
    """Describe matched members, given each rank's communications, graph in job time, and work on the CPU."""
    place_of = {rank: part for part, rank in enumerate(ranks)}
    own = list(ranks.values())
    messages = [_calls_of_messages(graph, work) for graph, work in zip(graphs, host, strict=True)]
    rows = []
    for rank, place in zip(found.rank.tolist(), found.place.tolist(), strict=True):
        part = place_of[rank]
        row = int(own[part].row[place])
        came, at_end = messages[part].get(row, (row, False))
        events = graphs[part].event_table
        needed, says = int(own[part].needed[place]), own[part].said["Collective name"][place]
        rows.append((
            part, row, came, at_end, int(events.start[row]), int(events.end[row]), needed == ALL or needed >= 0,
            says in MESSAGES, says == "send",
        ))  # fmt: skip
    columns = np.array(rows, np.int64).reshape(-1, 9).T
    names = ("part", "row", "came", "came_at_end", "start", "end", "waits", "is_message", "sends")
    return MetMembers.of(
        number=found.number,
        arrival=found.arrival,
        is_needed=found.is_needed,
        rule=np.where(found.by[found.number] == ORDER, Rule.ALIGNED_SEQUENCES, Rule.RECORDED),
        **dict(zip(names, columns, strict=True)),
    )


def _calls_of_messages(graph: DependencyGraph, work: HostWork) -> dict[int, tuple[int, bool]]:
    """Return with which event, and whether with its end, the rank came to each message."""
    messages = work.take(work.is_message & (work.call >= 0))
    event, at_end = arrival_points(graph, messages)
    return dict(zip(messages.row.tolist(), zip(event.tolist(), at_end.tolist(), strict=True), strict=True))
