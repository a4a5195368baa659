"""The communications of all ranks brought together: which is which, what is cut, one order for all ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from hta_graph.export.chakra.workload.channels import Channel, CollectiveError, Recorded
from hta_graph.export.chakra.workload.common_range import common_range
from hta_graph.export.chakra.workload.issue_order import topological_order

__all__ = ["Agreement", "agree"]

Place = tuple[int, int]
"""A rank, and the place of a communication among its known ones."""

Instance = dict[int, int]
"""One communication of several ranks: rank → place."""


@dataclass
class Agreement:
    """What the ranks have in common.

    ``number`` is a communication's number in its channel, ``size`` its bytes, ``duration`` its shortest recorded one
    (ns): that of the rank that came last, which waited for nobody. ``cut`` are each rank's places of communications
    that not all recorded. ``order`` are each rank's places of collectives in the one order in which all ranks issue
    theirs. ``clock`` is what to subtract from a rank's times: then they count from the beginning of the first
    recording, and ranks that did something together can be compared. ``notes`` are for the user.
    """

    number: dict[Place, int] = field(default_factory=dict)
    size: dict[Place, int] = field(default_factory=dict)
    duration: dict[Place, int] = field(default_factory=dict)
    cut: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    order: dict[int, list[int]] = field(default_factory=dict)
    clock: dict[int, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def agree(ranks: Sequence[Recorded]) -> Agreement:
    """Bring the communications of all ranks together.

    Raises:
        CollectiveError: the ranks disagree; the message names the ranks, which one, and what both are.
    """
    recorded = {item.rank: item for item in ranks}
    found = Agreement()
    together: list[Instance] = []
    for channel, places in _by_channel(ranks).items():
        common = common_range(channel, places, recorded)
        for rank, cut in common.cut.items():
            found.cut[rank] += cut
        if note := common.note(channel, places):
            found.notes.append(note)
        _settle(common.instances, recorded, found)
        if channel.is_collective:
            together += common.instances
    found.clock = _clocks(recorded, together)
    found.order = _orders(recorded, together, found)
    return found


def _by_channel(ranks: Sequence[Recorded]) -> dict[Channel, dict[int, list[int]]]:
    """Return for each channel the places of its communications on each given member.

    Raises:
        CollectiveError: a member has none.
    """
    given = {item.rank for item in ranks}
    found: dict[Channel, dict[int, list[int]]] = defaultdict(dict)
    for item in ranks:
        for channel, places in item.channels().items():
            found[channel][item.rank] = places
    for channel, members in found.items():
        other, places = next(iter(members.items()))
        for rank in channel.members:
            if rank in given and rank not in members:
                raise CollectiveError(
                    f"{channel}: rank {rank} recorded nothing, rank {other} {len(places)} communications; "
                    "give traces of one recording"
                )
    return found


def _settle(instances: Sequence[Instance], recorded: Mapping[int, Recorded], found: Agreement) -> None:
    """Give each communication its number, the most bytes and the shortest duration that any rank recorded."""
    uneven = 0
    for number, instance in enumerate(instances):
        sizes = {recorded[rank].known[at].size for rank, at in instance.items()}
        duration = min(int(recorded[rank].end[at] - recorded[rank].start[at]) for rank, at in instance.items())
        uneven += len(sizes) > 1
        for place in instance.items():
            found.number[place], found.size[place], found.duration[place] = number, max(sizes), duration
    if uneven:
        found.notes.append(f"{uneven} all-to-alls with different bytes on different ranks get the most of them")


def _clocks(recorded: Mapping[int, Recorded], together: Sequence[Instance]) -> dict[int, int]:
    """Compare clocks by the ends of what ranks did together; of ranks that share nothing, all begin together."""
    apart: dict[tuple[int, int], list[int]] = defaultdict(list)
    for instance in together:
        first, *others = sorted(instance)
        for rank in others:
            apart[first, rank].append(_end(recorded, rank, instance) - _end(recorded, first, instance))
    neighbours: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for (first, rank), differences in apart.items():
        difference = int(np.median(differences))
        neighbours[first].append((rank, difference))
        neighbours[rank].append((first, -difference))
    clock: dict[int, int] = {}
    for first in sorted(recorded):
        if first not in clock:
            offsets = _offsets(first, neighbours)
            begin = min(recorded[rank].begin - offset for rank, offset in offsets.items())
            clock |= {rank: offset + begin for rank, offset in offsets.items()}
    return clock


def _offsets(first: int, neighbours: Mapping[int, list[tuple[int, int]]]) -> dict[int, int]:
    """Return by how much the clocks of all ranks that can be compared with the first one are ahead of it."""
    offsets: dict[int, int] = {}
    waiting = [(first, 0)]
    while waiting:
        rank, offset = waiting.pop()
        if rank not in offsets:
            offsets[rank] = offset
            waiting += [(other, offset + difference) for other, difference in neighbours.get(rank, [])]
    return offsets


def _end(recorded: Mapping[int, Recorded], rank: int, instance: Instance) -> int:
    return int(recorded[rank].end[instance[rank]])


def _orders(recorded: Mapping[int, Recorded], together: Sequence[Instance], found: Agreement) -> dict[int, list[int]]:
    """Put all ranks' collectives into one order: as launched where the ranks agree on that, else as they met."""
    met = [max(int(recorded[rank].start[at]) - found.clock[rank] for rank, at in one.items()) for one in together]
    by_meeting = sorted(range(len(together)), key=lambda at: met[at])
    listed: dict[int, list[tuple[int, int]]] = {rank: [] for rank in recorded}
    for place, at in enumerate(by_meeting):
        for rank, own in together[at].items():
            listed[rank].append((own, place))
    steps = [(a[1], b[1]) for items in listed.values() for a, b in pairwise(sorted(items))]
    source, target = np.array(steps, np.int64).reshape(-1, 2).T
    order = topological_order(source, target, len(together))
    if len(order) < len(together):
        found.notes.append("ranks launch collectives of several groups in different orders; all issue them as they met")
        order = np.arange(len(together))
    rank_of = {place: at for at, place in enumerate(order.tolist())}
    return {rank: [own for own, place in sorted(items, key=lambda i: rank_of[i[1]])] for rank, items in listed.items()}
