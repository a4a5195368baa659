"""The communications of all ranks brought together: which is which, what is cut, one order for all ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from hta_graph.export.chakra.simulator.dependency_order import topological_order
from hta_graph.export.chakra.workload.channels import GroupChannel
from hta_graph.export.chakra.workload.communications import KnownCommunication
from hta_graph.job.matching.clocks.clock_evidence import Attendance
from hta_graph.job.matching.clocks.rank_clocks import JobClocks, compared_clocks
from hta_graph.job.matching.matched_ranks import MatchedChannel, match_ranks
from hta_graph.job.matching.rank_members import ALL, UNKNOWN, Recording
from hta_graph.job.matching.rank_record import Label, Meeting, RankRecord
from hta_graph.model import Ints
from hta_graph.shown import some_of

__all__ = ["Agreement", "RecordedRank", "agree"]

KnownPlace = tuple[int, int]
"""A rank, and the place of a communication among its known ones."""


@dataclass(frozen=True)
class RecordedRank:
    """One rank's communications in the order in which they were launched, and when each ran (ns, the rank's clock).

    ``begin`` is when the rank's recording began.
    """

    rank: int
    begin: int
    known: Sequence[KnownCommunication]
    start: Ints
    end: Ints

    @cached_property
    def record(self) -> RankRecord[GroupChannel]:
        """What it did with whom."""
        return RankRecord(self.rank, [item.label(self.rank) for item in self.known], self.start, self.end)

    @property
    def unmatched(self) -> RankRecord[GroupChannel]:
        """The same, where what the job's matcher brought together already is compared with nobody."""
        labels = zip(self.known, self.record.labels, strict=True)
        return replace(self.record, labels=[label if item.meeting < 0 else Label(None) for item, label in labels])

    @property
    def attendance(self) -> Attendance:
        """What its collectives tell about its clock; in a broadcast not all wait for all."""
        needed = [UNKNOWN if item.kind == "BROADCAST" or item.others else ALL for item in self.known]
        return Attendance(self.start, self.end, np.array(needed, np.int64), np.zeros(len(needed), np.bool_))


@dataclass
class Agreement:
    """What the ranks have in common.

    ``number`` is a communication's number in its channel, ``size`` its bytes, ``duration`` its shortest recorded one
    (ns): that of the rank that came last, which waited for nobody. ``alone`` is how long a collective was the only one
    of its rank (ns). ``cut`` are each rank's places of communications
    that not all recorded. ``order`` are each rank's places of collectives in the one order in which all ranks issue
    theirs. ``clock`` is what to subtract from a rank's times: then they count from the beginning of the first
    recording, and ranks that did something together can be compared. ``notes`` are for the user.
    """

    number: dict[KnownPlace, int] = field(default_factory=dict)
    size: dict[KnownPlace, int] = field(default_factory=dict)
    duration: dict[KnownPlace, int] = field(default_factory=dict)
    alone: dict[KnownPlace, int] = field(default_factory=dict)
    cut: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    order: dict[int, list[int]] = field(default_factory=dict)
    clock: dict[int, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def agree(ranks: Sequence[RecordedRank], clocks: JobClocks | None = None) -> Agreement:
    """Bring the communications of all ranks together.

    Args:
        ranks: what each rank did.
        clocks: how far the ranks' clocks are apart, where the job's matcher found it; else their collectives tell.

    Raises:
        CollectiveError: the ranks disagree; the message names the ranks, which one, and what both are.
    """
    recorded = {item.rank: item for item in ranks}
    agreed = Agreement()
    collectives: list[Meeting] = []
    for matched in match_ranks([item.unmatched for item in ranks], strict=True):
        for rank, cut in matched.unmatched.items():
            agreed.cut[rank] += cut
        agreed.notes += _cut_notes(matched)
        _settle_sizes(enumerate(matched.matches), recorded, agreed)
        if matched.channel.is_collective:
            collectives += matched.matches
    met = _already_met(ranks)
    _settle_sizes(met.items(), recorded, agreed)
    collectives += [meeting for meeting in met.values() if all(map(_in_common_order, _items_of(meeting, recorded)))]
    agreed.clock = _common_clock(recorded, clocks or _compared_clocks(recorded, collectives))
    agreed.order = _one_order(recorded, collectives, agreed)
    _settle_transfers(collectives, recorded, agreed)
    return agreed


def _already_met(ranks: Sequence[RecordedRank]) -> dict[int, Meeting]:
    """Return what the job's matcher brought together, by number."""
    met: dict[int, dict[int, int]] = defaultdict(dict)
    for own in ranks:
        for at, item in enumerate(own.known):
            if item.meeting >= 0:
                met[item.meeting][own.rank] = at
    return dict(met)


def _items_of(meeting: Meeting, recorded: Mapping[int, RecordedRank]) -> list[KnownCommunication]:
    return [recorded[rank].known[at] for rank, at in meeting.items()]


def _in_common_order(item: KnownCommunication) -> bool:
    """Tell whether a simulated rank waits in it until all others have come."""
    return item.peer < 0 and not item.others


def _compared_clocks(recorded: Mapping[int, RecordedRank], collectives: Sequence[Meeting]) -> JobClocks:
    attended = {rank: own.attendance for rank, own in recorded.items()}
    return compared_clocks(collectives, attended, dict.fromkeys(recorded, Recording()))


def _common_clock(recorded: Mapping[int, RecordedRank], compared: JobClocks) -> dict[int, int]:
    """Return what to subtract from each rank's times so that they count from the beginning of the first recording."""
    clocks = compared.by_rank
    begin: dict[int, int] = {}
    for rank, clock in clocks.items():
        own = recorded[rank].begin - clock.line.ahead
        begin[clock.reference] = min(begin.get(clock.reference, own), own)
    # Ranks that share nothing with others are taken to have begun recording at the same time as those.
    return {rank: clock.line.ahead + begin[clock.reference] for rank, clock in clocks.items()}


def _cut_notes(matched: MatchedChannel[GroupChannel]) -> list[str]:
    counts = {rank: len(cut) for rank, cut in matched.unmatched.items() if cut}
    if not counts:
        return []
    listed = some_of([f"{count} of {len(matched.recorded[rank])} on rank {rank}" for rank, count in counts.items()])
    return [f"{matched.channel}: what not every rank recorded waits for nobody: {listed}"]


def _settle_sizes(
    together: Iterable[tuple[int, Meeting]], recorded: Mapping[int, RecordedRank], agreed: Agreement
) -> None:
    """Give each communication its number, the most bytes and the shortest duration that any rank recorded."""
    uneven = 0
    for number, meeting in together:
        items = _items_of(meeting, recorded)
        sizes = {item.size for item in items}
        duration = min(int(recorded[rank].end[at] - recorded[rank].start[at]) for rank, at in meeting.items())
        uneven += len(sizes) > 1
        for item, place in zip(items, meeting.items(), strict=True):
            agreed.number[place], agreed.size[place] = number, max(sizes)
            agreed.duration[place] = item.transfer if item.meeting >= 0 else duration
    if uneven:
        agreed.notes.append(f"{uneven} all-to-alls with different bytes on different ranks get the most of them")


def _settle_transfers(collectives: Sequence[Meeting], recorded: Mapping[int, RecordedRank], agreed: Agreement) -> None:
    """Take from each collective the time in which the one before it in the common order still ran.

    A rank of a simulator does one after the other:

        first     |=======|
        second        |=======|         takes the time from the end of the first one

    On CPUs members leave at different times, so each has its own time from when the last one could begin.
    """
    begin: dict[KnownPlace, int] = {}
    for rank, order in agreed.order.items():
        end, places = recorded[rank].end[order], [(rank, at) for at in order]
        before = np.maximum.accumulate(np.append(np.iinfo(np.int64).min, end))[:-1]
        could_begin = np.maximum(recorded[rank].start[order], np.minimum(before, end))
        begin |= dict(zip(places, could_begin.tolist(), strict=True))
        agreed.alone |= dict(zip(places, (end - could_begin).tolist(), strict=True))
    for meeting in collectives:
        least = min(agreed.alone[place] for place in meeting.items())
        last = max(begin[place] - agreed.clock[place[0]] for place in meeting.items())
        for item, place in zip(_items_of(meeting, recorded), meeting.items(), strict=True):
            left = begin[place] + agreed.alone[place] - agreed.clock[place[0]]
            agreed.duration[place] = max(left - last, 0) if item.on_cpu else min(agreed.duration[place], least)


def _one_order(
    recorded: Mapping[int, RecordedRank], together: Sequence[Meeting], agreed: Agreement
) -> dict[int, list[int]]:
    """Put all ranks' collectives into one order: as launched where the ranks agree on that, else as they met.

    A rank of a simulator does one collective at a time, so two orders of two groups would stand still for ever:

        rank 0    group 1, group 2        rank 0 waits in group 1 for rank 1,
        rank 1    group 2, group 1        which waits in group 2 for rank 0

    Those of the CPU go in the order in which they ended, as far as no rank did them one after the other: of what
    Gloo's workers do at once the first to end is not held up by others.
    """
    # Sorted by their meeting, a collective's place breaks ties between groups that no rank puts in order.
    met, done = (
        [
            max(int(getattr(recorded[rank], side)[at]) - agreed.clock[rank] for rank, at in one.items())
            for one in together
        ]
        for side in ("start", "end")
    )
    on_cpu = [any(item.on_cpu for item in _items_of(one, recorded)) for one in together]
    by_meeting = sorted(range(len(together)), key=lambda at: done[at] if on_cpu[at] else met[at])
    listed: dict[int, list[tuple[int, int]]] = {rank: [] for rank in recorded}
    for place, at in enumerate(by_meeting):
        for rank, own in together[at].items():
            listed[rank].append((own, place))
    steps = [step for rank, items in listed.items() for step in _known_steps(recorded[rank], sorted(items))]
    source, target = np.array(steps, np.int64).reshape(-1, 2).T
    order = topological_order(source, target, len(together))
    if len(order) < len(together):
        agreed.notes.append(
            "ranks launch collectives of several groups in different orders; all issue them as they met"
        )
        order = np.argsort([met[at] for at in by_meeting], kind="stable")
    rank_of = {place: at for at, place in enumerate(order.tolist())}
    return {rank: [own for own, place in sorted(items, key=lambda i: rank_of[i[1]])] for rank, items in listed.items()}


def _known_steps(recorded: RecordedRank, items: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield what one rank did after what, of its collectives (place in its record, number among all) as launched."""
    if not any(recorded.known[own].on_cpu for own, _ in items):
        yield from ((a[1], b[1]) for a, b in pairwise(items))
        return
    start, end = (column[[own for own, _ in items]] for column in (recorded.start, recorded.end))
    for at, (_, number) in enumerate(items):
        before = end <= start[at]
        # What ended before another one of these began is before it through that one.
        last = before & (end > start[before].max(initial=np.iinfo(np.int64).min))
        yield from ((items[one][1], number) for one in np.flatnonzero(last).tolist())
