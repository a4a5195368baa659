"""How far the clocks of ranks are apart, by what they did together: a collective ends on all ranks at one time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from hta_graph.job.matching.rank_record import ChannelT, Meeting, RankRecord

__all__ = ["clock_offsets"]


def clock_offsets(records: Sequence[RankRecord[ChannelT]], meetings: Iterable[Meeting]) -> Iterator[dict[int, int]]:
    """Yield, for each set of ranks that can be compared, how far each one's clock is ahead of its lowest rank's (ns).

    The members of a collective end within microseconds of each other, whenever they began; the median over all that
    two ranks did together leaves out the few that were held up. Ranks that did nothing together are compared through
    others: of 0 and 1, 1 and 2, also 0 and 2.
    """
    end = {record.rank: record.end for record in records}
    # Each rank is compared with the lowest of the meeting: a chain through the others would add up their errors.
    apart: dict[tuple[int, int], list[int]] = defaultdict(list)
    for meeting in meetings:
        first, *others = sorted(meeting)
        for rank in others:
            apart[first, rank].append(int(end[rank][meeting[rank]] - end[first][meeting[first]]))
    neighbours: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for (first, rank), differences in apart.items():
        difference = int(np.median(differences))
        neighbours[first].append((rank, difference))
        neighbours[rank].append((first, -difference))
    compared: set[int] = set()
    for first in sorted(end):
        if first not in compared:
            offsets = _offsets_from(first, neighbours)
            compared |= offsets.keys()
            yield offsets


def _offsets_from(first: int, neighbours: Mapping[int, Sequence[tuple[int, int]]]) -> dict[int, int]:
    """Carry a rank's clock to the ranks that share collectives with it, and on from there."""
    offsets: dict[int, int] = {}
    waiting = [(first, 0)]
    while waiting:
        rank, offset = waiting.pop()
        if rank not in offsets:
            offsets[rank] = offset
            waiting += [(other, offset + difference) for other, difference in neighbours.get(rank, [])]
    return offsets
