"""Communication kernels of several ranks: which belong together, who came last, how long the others waited."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hta_graph.algorithms.work.activities import WorkType, activities
from hta_graph.graph import DependencyGraph
from hta_graph.model import Bools, Ids, Ints
from hta_graph.trace.details import read_details

__all__ = ["MATCHED_BY", "SLACK_NS", "Collectives", "Communication", "communication", "match_collectives"]

SLACK_NS = 1_000_000
"""How far the clocks of ranks may differ unnoticed: kernels of one collective overlap but for that."""

MATCHED_BY = ("comms id", "sequence number", "order from the end")
"""How kernels were found to belong together, the surest way first."""

POINT_TO_POINT = ("send", "recv")
RECORDED = ("Collective name", "Process Group Name", "Process Group Ranks", "Seq", "Comms Id", "Group size")
SIZES = ("In msg nelems", "Out msg nelems", "dtype")

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Communication:
    """A rank's communication kernels in order of time (ns), and what the trace says about each (None: nothing).

    ``group`` is the process group's name and ranks as text; a kernel without arguments is of the group that all others
    on its stream are of.
    """

    row: Ids
    start: Ints
    end: Ints
    name: list[str]
    group: list[str | None]
    said: dict[str, list[Any]]

    def __len__(self) -> int:
        return len(self.row)

    @property
    def is_point_to_point(self) -> list[bool]:
        """Mark sends and receives, which are no collectives."""
        return [text in POINT_TO_POINT for text in self.said["Collective name"]]


def communication(graph: DependencyGraph) -> Communication:
    """Return a rank's communication kernels with the arguments recorded on them, else on the launching operator.

    Raises:
        TraceError: the file, which is read once more where there are such arguments, is gone or has changed.
    """
    work = activities(graph)
    work = work.take(work.type == WorkType.COMMUNICATION)
    events = graph.event_table
    said = _said(graph, work.row, work.call)
    names = [graph.names[code] for code in events.name[work.row].tolist()]
    return Communication(work.row, work.start, work.end, names, _groups(said, events.lane[work.row]), said)


def _said(graph: DependencyGraph, rows: Ids, calls: Ids) -> dict[str, list[Any]]:
    keys = (*RECORDED, *SIZES)
    collective = graph.event_table.collective
    if not collective.any():
        return {key: [None] * len(rows) for key in keys}
    around = graph.operator_around
    source = np.where(collective[rows], rows, -1)
    operator = np.where((source < 0) & (calls >= 0), around[calls], -1)
    while (climbs := (operator >= 0) & ~collective[operator]).any():
        operator[climbs] = around[operator[climbs]]
    source = np.where(operator >= 0, operator, source)
    known = source >= 0
    details = read_details(graph.trace, keys, source[known])
    found: dict[str, list[Any]] = {}
    for key in keys:
        column = np.full(len(rows), None, object)
        column[known] = details[key]
        found[key] = column.tolist()
    return found


def _groups(said: Mapping[str, list[Any]], lanes: Ids) -> list[str | None]:
    own = [
        None if name is None and ranks is None else f"{name or ''} {ranks or ''}".strip()
        for name, ranks in zip(said["Process Group Name"], said["Process Group Ranks"], strict=True)
    ]
    on_lane: dict[int, set[str]] = defaultdict(set)
    for group, lane in zip(own, lanes.tolist(), strict=True):
        if group is not None:
            on_lane[lane].add(group)
    only = {lane: next(iter(groups)) for lane, groups in on_lane.items() if len(groups) == 1}
    return [only.get(lane) if group is None else group for group, lane in zip(own, lanes.tolist(), strict=True)]


@dataclass(frozen=True)
class Collectives:
    """Kernels of several ranks that belong together: one entry per kernel, collectives in order of time.

    ``place`` is the kernel's place in its rank's :class:`Communication`; ``start`` and ``end`` (ns) are corrected where
    the ranks' clocks differ by more than :data:`SLACK_NS`. ``wait`` is the part of the kernel before the last rank came
    (ns); the rest is transfer.
    """

    number: Ints
    rank: Ints
    place: Ints
    start: Ints
    end: Ints
    wait: Ints
    by: Ints
    """How each collective was found: a place in :data:`MATCHED_BY`."""
    offsets: dict[int, int]
    """By how much (ns) clocks were set back, per rank."""
    apart: int
    """Collectives that were left out because their kernels do not overlap in time."""

    def __len__(self) -> int:
        return len(self.by)

    @property
    def first(self) -> Ints:
        """Where each collective begins among the kernels."""
        return np.searchsorted(self.number, np.arange(len(self)))

    @property
    def last(self) -> Ints:
        """The kernel that started last, per collective; of several that of the lowest rank."""
        return np.lexsort((self.rank, -self.start, self.number))[self.first]

    def take(self, chosen: Bools) -> Collectives:
        """Select collectives."""
        kept = chosen[self.number]
        return replace(
            self,
            number=(np.cumsum(chosen) - 1)[self.number[kept]],
            rank=self.rank[kept],
            place=self.place[kept],
            start=self.start[kept],
            end=self.end[kept],
            wait=self.wait[kept],
            by=self.by[chosen],
        )


def match_collectives(ranks: Mapping[int, Communication]) -> Collectives:
    """Match the communication kernels of ranks.

    Kernels belong together by their recorded communication id, else by group and sequence number, else by group, name
    and place, counted from the end: recordings begin at different times. What was matched by order has to overlap in
    time. Where clocks differ is seen, and corrected, by the ends of what was matched by a number.
    """
    found = _complete(_keyed(ranks), ranks)
    offsets = _offsets([members for key, members in found if key[0] < len(MATCHED_BY) - 1], ranks)
    together = [
        (key, members) for key, members in found if key[0] < len(MATCHED_BY) - 1 or _overlap(members, ranks, offsets)
    ]
    return _columns(together, ranks, offsets, apart=len(found) - len(together))


Members = dict[int, int]
"""Rank → place of its kernel."""


def _keyed(ranks: Mapping[int, Communication]) -> dict[Key, Members]:
    found: dict[Key, Members] = defaultdict(dict)
    for rank, own in ranks.items():
        for place, key in enumerate(_keys(own)):
            if key is not None:
                found[key][rank] = place
    return found


def _keys(own: Communication) -> list[Key | None]:
    """Name each kernel so that the ranks' kernels of one collective have one name; the first part says by what."""
    bases: list[Key | None] = [
        None if alone else _base(*texts)
        for alone, *texts in zip(
            own.is_point_to_point, own.said["Comms Id"], own.said["Seq"], own.group, own.name, strict=True
        )
    ]
    ordered = len(MATCHED_BY) - 1
    totals = Counter(base for base in bases if base and base[0] == ordered)
    seen: Counter[Key] = Counter()
    keys: list[Key | None] = []
    for base in bases:
        if base is not None:
            seen[base] += 1
        keys.append(base and (*base, seen[base] - totals[base]))
    return keys


def _base(comms_id: Any, sequence: Any, group: str | None, name: str) -> Key:
    if comms_id is not None:
        return 0, comms_id
    if sequence is not None and group is not None:
        return 1, group, sequence
    return 2, group, name


def _complete(keyed: Mapping[Key, Members], ranks: Mapping[int, Communication]) -> list[tuple[Key, Members]]:
    """Keep what every loaded rank of its group takes part in, of at least two."""
    groups = {rank: set(own.group) for rank, own in ranks.items()}
    expected = {group: _expected(group, groups) for group in set().union(*groups.values())}
    return [
        (key, members)
        for key, members in keyed.items()
        if len(members) > 1 and members.keys() >= expected[_group(members, ranks)]
    ]


def _group(members: Members, ranks: Mapping[int, Communication]) -> str | None:
    rank, place = next(iter(members.items()))
    return ranks[rank].group[place]


def _expected(group: str | None, groups: Mapping[int, set[str | None]]) -> set[int]:
    """Return the loaded ranks of a group, by its list of ranks; where it says nothing, those that know the group."""
    listed = re.search(r"\[([\d, ]+)\]$", group or "")
    if listed:
        return {int(number) for number in listed[1].split(",")} & groups.keys()
    return {rank for rank, known in groups.items() if group in known}


def _offsets(matched: Iterable[Members], ranks: Mapping[int, Communication]) -> dict[int, int]:
    """Return how far each rank's clock is ahead of the first's; none if all agree within the slack.

    The kernels of a collective end together, within microseconds.
    """
    ahead: dict[tuple[int, int], list[int]] = defaultdict(list)
    for members in matched:
        first = min(members)
        for rank in members.keys() - {first}:
            ahead[first, rank].append(int(ranks[rank].end[members[rank]] - ranks[first].end[members[first]]))
    offsets = dict.fromkeys(ranks, 0)
    reached: set[int] = set()
    for first in sorted(ranks):
        _spread(first, ahead, offsets, reached)
    return offsets if any(abs(offset) > SLACK_NS for offset in offsets.values()) else dict.fromkeys(ranks, 0)


def _spread(first: int, ahead: Mapping[tuple[int, int], list[int]], offsets: dict[int, int], reached: set[int]) -> None:
    """Carry a rank's offset to the ranks that share collectives with it, and on from there."""
    waiting = [] if first in reached else [first]
    while waiting:
        rank = waiting.pop()
        reached.add(rank)
        for (one, other), differences in ahead.items():
            for here, there, sign in ((one, other, 1), (other, one, -1)):
                if here == rank and there not in reached:
                    offsets[there] = offsets[rank] + sign * int(np.median(differences))
                    reached.add(there)
                    waiting.append(there)


def _overlap(members: Members, ranks: Mapping[int, Communication], offsets: Mapping[int, int]) -> bool:
    starts = [int(ranks[rank].start[place]) - offsets[rank] for rank, place in members.items()]
    ends = [int(ranks[rank].end[place]) - offsets[rank] for rank, place in members.items()]
    return max(starts) <= min(ends) + SLACK_NS


def _columns(
    found: list[tuple[Key, Members]], ranks: Mapping[int, Communication], offsets: dict[int, int], *, apart: int
) -> Collectives:
    listed = [
        (at, rank, place, int(ranks[rank].start[place]) - offsets[rank], int(ranks[rank].end[place]) - offsets[rank])
        for at, (_, members) in enumerate(found)
        for rank, place in members.items()
    ]
    number, rank, place, start, end = np.array(listed, np.int64).reshape(-1, 5).T
    last = np.full(len(found), np.iinfo(np.int64).min)
    np.maximum.at(last, number, start)
    wait = np.clip(last[number] - start, 0, end - start)
    order = np.argsort(last, kind="stable")
    in_time = np.argsort(order)[number]
    at = np.lexsort((rank, in_time))
    by = np.array([key[0] for key, _ in found], np.int64)[order]
    moved = {rank: offset for rank, offset in offsets.items() if offset}
    return Collectives(in_time[at], rank[at], place[at], start[at], end[at], wait[at], by, moved, apart)
