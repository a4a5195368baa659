"""Sequence numbers of the flight recorder for a trace's communications, as if the profiler had recorded them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hta_graph.base.storage.location import Location
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Ints
from hta_graph.multi_rank.matching.align_rank_sequences import CommunicationSequence, align_sequences
from hta_graph.multi_rank.matching.communications import WORKER, RankCommunications
from hta_graph.multi_rank.matching.flight_recorder import FlightRecord, read_flight_dumps
from hta_graph.multi_rank.matching.read_communications import read_communications
from hta_graph.multi_rank.matching.worker_groups import name_groups

NOT_USED = "flight recorder dumps are not used, because some ranks have none"
KIND_ALIASES = {"reducescatter": "allreduce"}
"""What a row may be called by another name: Gloo's reduce-scatter is an all-reduce."""


def with_assigned_sequence_numbers(
    graphs: Mapping[int, DependencyGraph], dumps: Sequence[Location]
) -> tuple[dict[int, DependencyGraph], bool]:
    """Number collectives and messages by the flight recorder's dumps; return whether all ranks have one.

    Raises:
        TraceError: a file is not a dump, or its name has no rank.
    """
    records = read_flight_dumps(dumps)
    numbered = with_sequence_numbers(
        {rank: read_communications(graph) for rank, graph in graphs.items()}, graphs, records
    )
    found = {rank: graph.with_attached(numbered[rank]) for rank, graph in graphs.items()}
    return found, graphs.keys() <= records.keys()


def with_sequence_numbers(
    members: Mapping[int, RankCommunications],
    graphs: Mapping[int, DependencyGraph],
    records: Mapping[int, FlightRecord],
) -> dict[int, RankCommunications]:
    """Give members that have no number that of the dump, group by group.

    A group's entries and members are aligned with gaps, by kind, size and the time of the call, which
    both have of one clock. Only if every given rank has a dump: numbers that some lack match nothing.
    """
    if not members.keys() <= records.keys():
        return dict(members)
    return {rank: _number_rank(own, graphs[rank], records[rank]) for rank, own in members.items()}


ENTERED_WITHIN_NS = 1_000_000
"""How long after the end of its row a call may still be entered in the dump, of one clock."""

CLEAR_VOTE = 0.9
"""What share of a worker's calls must be of one group in the dump."""


def _with_recorded_groups(own: RankCommunications, graph: DependencyGraph, record: FlightRecord) -> RankCommunications:
    """Name the groups of workers that the trace leaves open: those of the entries that were made in their calls."""
    names = {group.rpartition("[")[0].strip(): group for group in own.recording.groups}
    order = np.argsort(record.time, kind="stable")
    made = record.time[order]
    votes: dict[int, Counter[str]] = defaultdict(Counter)
    for at, worker in enumerate(own.arguments[WORKER]):
        call = int(own.call[at])
        if worker is None or call < 0:
            continue
        first, last = np.searchsorted(made, graph.event_table.start[call]), graph.event_table.end[call]
        kind = _normalized_kind(own.arguments["Collective name"][at])
        for entry in order[first : first + 1].tolist():
            if record.time[entry] <= last + ENTERED_WITHIN_NS and _normalized_kind(record.kind[entry]) == kind:
                votes[worker][record.group[entry]] += 1
    groups: dict[tuple[int, ...], str] = {}
    for worker, found in votes.items():
        name, count = found.most_common(1)[0]
        if name in names and count >= CLEAR_VOTE * found.total():
            groups[(worker,)] = names[name]
    return name_groups(graph.rank, own, groups)


def _number_rank(own: RankCommunications, graph: DependencyGraph, record: FlightRecord) -> RankCommunications:
    own = _with_recorded_groups(own, graph, record)
    numbers: list[Any] = list(own.arguments["Seq"])
    called = np.where(own.call >= 0, graph.event_table.start[own.call], own.arrival)
    places: dict[str, list[int]] = {name: [] for name in record.group}
    rows = zip(own.arguments["Process Group Name"], numbers, own.is_message, strict=True)
    for at, (group, number, is_message) in enumerate(rows):
        if number is None and not is_message and isinstance(group, str) and group in places:
            places[group].append(at)
    for name, listed in places.items():
        if listed:
            _number_group(own, called, np.array(listed, np.int64), record, name, numbers)
    return replace(own, arguments=own.arguments | {"Seq": numbers})


def _number_group(
    own: RankCommunications, called: Ints, places: Ints, record: FlightRecord, name: str, numbers: list[Any]
) -> None:
    entries = np.flatnonzero(record.of_group(name))
    listed = sorted(places.tolist(), key=lambda at: called[at])
    kinds = [_normalized_kind(own.arguments["Collective name"][at]) for at in listed]
    sizes = [own.arguments["In msg nelems"][at] for at in listed]
    code = {
        kind: at for at, kind in enumerate(sorted({*kinds, *(_normalized_kind(record.kind[at]) for at in entries)}))
    }
    dumped = CommunicationSequence.of(
        what=[code[_normalized_kind(record.kind[at])] for at in entries],
        elements=record.elements[entries],
        start=record.time[entries],
        end=record.time[entries],
        kind=-1,
        number=-1,
        waits=False,
    )
    shown = CommunicationSequence.of(
        what=[code[kind] for kind in kinds],
        elements=[size if isinstance(size, int) else -1 for size in sizes],
        start=called[listed],
        end=called[listed],
        kind=-1,
        number=-1,
        waits=False,
    )
    found, _ = align_sequences(dumped, shown)
    for entry, at in zip(found.left.tolist(), found.right.tolist(), strict=True):
        numbers[listed[at]] = int(record.sequence[entries[entry]])


def _normalized_kind(name: object) -> str:
    """Return a name without underscores, as rows are called.

    >>> _normalized_kind("_reduce_scatter_base"), _normalized_kind("all_gather")
    ('allreduce', 'allgather')
    """
    text = str(name or "").lower().replace("_", "").removesuffix("base").removesuffix("coalesced")
    return KIND_ALIASES.get(text, text)
