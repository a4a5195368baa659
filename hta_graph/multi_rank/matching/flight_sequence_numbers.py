"""Numbers of the flight recorder given to what a trace shows: as if the profiler had recorded them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Ints
from hta_graph.multi_rank.matching.flight_recorder import FlightRecord, read_flight
from hta_graph.multi_rank.matching.rank_members import RankMembers
from hta_graph.multi_rank.matching.read_members import read_members
from hta_graph.multi_rank.matching.sequence_alignment import aligned
from hta_graph.multi_rank.matching.weighed_pairs import Happened
from hta_graph.storage.location import Location

__all__ = ["numbered_by_flight", "with_flight"]

SAME_ROWS = {"reducescatter": "allreduce"}
"""What a row may be called by another name: Gloo's reduce-scatter is an all-reduce."""


def numbered_by_flight(
    graphs: Mapping[int, DependencyGraph], dumps: Sequence[Location]
) -> tuple[dict[int, DependencyGraph], bool]:
    """Give what ranks did together the numbers of the flight recorder's dumps; tell whether all ranks have one.

    Raises:
        TraceError: a dump is none, or its name tells no rank.
    """
    records = read_flight(dumps)
    numbered = with_flight({rank: read_members(graph) for rank, graph in graphs.items()}, graphs, records)
    found = {rank: graph.with_attached(numbered[rank]) for rank, graph in graphs.items()}
    return found, graphs.keys() <= records.keys()


def with_flight(
    members: Mapping[int, RankMembers], graphs: Mapping[int, DependencyGraph], records: Mapping[int, FlightRecord]
) -> dict[int, RankMembers]:
    """Give members that have no number that of the dump, group by group.

    A group's entries and members are laid beside each other with gaps, by kind, size and the time of the call, which
    both have of one clock. Only if every given rank has a dump: numbers that some lack match nothing.
    """
    if not members.keys() <= records.keys():
        return dict(members)
    return {rank: _with_numbers(own, graphs[rank], records[rank]) for rank, own in members.items()}


def _with_numbers(own: RankMembers, graph: DependencyGraph, record: FlightRecord) -> RankMembers:
    numbers: list[Any] = list(own.arguments["Seq"])
    called = np.where(own.call >= 0, graph.event_table.start[own.call], own.arrival)
    for name in dict.fromkeys(record.group):
        places = [
            at
            for at, (group, number, is_message) in enumerate(
                zip(own.arguments["Process Group Name"], numbers, own.is_message, strict=True)
            )
            if number is None and not is_message and group == name
        ]
        if places:
            _number_group(own, called, np.array(places, np.int64), record, name, numbers)
    return replace(own, arguments=own.arguments | {"Seq": numbers})


def _number_group(
    own: RankMembers, called: Ints, places: Ints, record: FlightRecord, name: str, numbers: list[Any]
) -> None:
    entries = np.flatnonzero(record.of_group(name))
    listed = sorted(places.tolist(), key=lambda at: called[at])
    kinds = [_plain_name(own.arguments["Collective name"][at]) for at in listed]
    sizes = [own.arguments["In msg nelems"][at] for at in listed]
    code = {kind: at for at, kind in enumerate(sorted({*kinds, *(_plain_name(record.kind[at]) for at in entries)}))}
    dumped = Happened.of(
        what=[code[_plain_name(record.kind[at])] for at in entries],
        elements=record.elements[entries],
        start=record.time[entries],
        end=record.time[entries],
        kind=-1,
        number=-1,
        waits=False,
    )
    shown = Happened.of(
        what=[code[kind] for kind in kinds],
        elements=[size if isinstance(size, int) else -1 for size in sizes],
        start=called[listed],
        end=called[listed],
        kind=-1,
        number=-1,
        waits=False,
    )
    found, _ = aligned(dumped, shown)
    for entry, at in zip(found.left.tolist(), found.right.tolist(), strict=True):
        numbers[listed[at]] = int(record.sequence[entries[entry]])


def _plain_name(name: object) -> str:
    """Return a name without underscores, as rows are called.

    >>> _plain_name("_reduce_scatter_base"), _plain_name("all_gather")
    ('allreduce', 'allgather')
    """
    text = str(name or "").lower().replace("_", "").removesuffix("base").removesuffix("coalesced")
    return SAME_ROWS.get(text, text)
