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

    ``part`` is the place of its rank, ``row`` its row in that rank's graph. It begins with the start, or the end
    (``begins_at_end``), of the row ``begin``: with its own start, but for messages on the CPU, which are on their way
    before their row begins. ``waits``: for others; ``is_needed``: others wait for it. ``rule`` is how they were found
    to belong together.
    """

    number: Ints
    part: Ids
    row: Ids
    begin: Ids
    begins_at_end: Bools
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
    own, begins = list(ranks.values()), [_begins(graph, work) for graph, work in zip(graphs, host, strict=True)]
    rows = []
    for rank, place in zip(found.rank.tolist(), found.place.tolist(), strict=True):
        part = place_of[rank]
        row = int(own[part].row[place])
        begin, at_end = begins[part].get(row, (row, False))
        events = graphs[part].event_table
        start = int(events.end[begin] if at_end else events.start[begin])
        needed, says = int(own[part].needed[place]), own[part].said["Collective name"][place]
        rows.append((
            part, row, begin, at_end, start, int(events.end[row]), needed == ALL or needed >= 0, says in MESSAGES,
            says == "send",
        ))  # fmt: skip
    columns = np.array(rows, np.int64).reshape(-1, 9).T
    names = ("part", "row", "begin", "begins_at_end", "start", "end", "waits", "is_message", "sends")
    return MetMembers.of(
        number=found.number,
        is_needed=found.is_needed,
        rule=np.where(found.by[found.number] == ORDER, Rule.ALIGNED_SEQUENCES, Rule.RECORDED),
        **dict(zip(names, columns, strict=True)),
    )


def _begins(graph: DependencyGraph, work: HostWork) -> dict[int, tuple[int, bool]]:
    """Return with which event, and whether with its end, the rank came to each message."""
    messages = work.take(work.is_message & (work.call >= 0))
    event, at_end = arrival_points(graph, messages)
    return dict(zip(messages.row.tolist(), zip(event.tolist(), at_end.tolist(), strict=True), strict=True))
