"""Which communication of one rank is which of another one: recordings begin and end at different ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.export.chakra.workload.channels import Channel, CollectiveError, Recorded
from hta_graph.export.chakra.workload.communications import Communication
from hta_graph.model import Ints

__all__ = ["CommonRange", "common_range"]

CLOSE_NS = 200_000
"""The ends of one collective on several ranks are at most about so far apart (188 µs on 8 H100)."""

SHIFTS_TRIED = 4_096

Places = Mapping[int, Sequence[int]]
"""Per rank the places of a channel's communications."""

Look = Callable[[Communication], tuple[object, ...]]


@dataclass(frozen=True)
class CommonRange:
    """What every member recorded: for each communication its place on each rank; and what is cut on each rank."""

    instances: list[dict[int, int]]
    cut: dict[int, list[int]]

    def note(self, channel: Channel, places: Places) -> str:
        """Tell what is cut; "" if nothing is."""
        counts = {rank: len(cut) for rank, cut in self.cut.items() if cut}
        if not counts:
            return ""
        listed = ", ".join(
            f"{count} of {len(places[rank])} on rank {rank}" for rank, count in list(counts.items())[:16]
        )
        return f"{channel}: what not every rank recorded is cut at the ends: {listed}"


def common_range(channel: Channel, places: Places, recorded: Mapping[int, Recorded]) -> CommonRange:
    """Find what every member of a channel recorded.

    Raises:
        CollectiveError: nothing; or within that range they differ in type or bytes (of an all-to-all the bytes may).
    """
    first_rank = min(places)
    one = recorded[first_rank], places[first_rank]
    shift = {rank: _shift(channel, *one, recorded[rank], places[rank]) for rank in places}
    first, last = max(shift.values()), min(shift[rank] + len(places[rank]) for rank in places)
    if first >= last:
        raise CollectiveError(f"{channel}: its ranks recorded nothing in common; give traces of one recording")
    return CommonRange(
        [{rank: places[rank][at - shift[rank]] for rank in places} for at in range(first, last)],
        {rank: [*listed[: first - shift[rank]], *listed[last - shift[rank] :]] for rank, listed in places.items()},
    )


def _shift(channel: Channel, one: Recorded, ours: Sequence[int], other: Recorded, theirs: Sequence[int]) -> int:
    """Return how many places later than the first rank's recording the other one's begins.

    That is where recorded numbers, types and bytes agree, else types and bytes; of several shifts the one at which the
    ends keep the same distance best, then the one with most in common.

    Raises:
        CollectiveError: there is no such shift.
    """
    left, right = [one.known[at] for at in ours], [other.known[at] for at in theirs]
    is_numbered = channel.is_collective and all(item.sequence >= 0 for item in (*left, *right))
    ends = one.end[list(ours)], other.end[list(theirs)]
    for look in (_numbered_look, _look) if is_numbered else (_look,):
        if found := _agreeing(*_codes(look, left, right), *ends):
            return min(found)[-1]
    _refuse(channel, (one.rank, left), (other.rank, right))
    return 0


def _look(item: Communication) -> tuple[object, ...]:
    """Return what must be the same on all ranks."""
    if item.kind in ("SEND", "RECV"):
        return "message", item.size
    return item.kind, 0 if item.kind == "ALL_TO_ALL" else item.size


def _numbered_look(item: Communication) -> tuple[object, ...]:
    return (*_look(item), item.sequence)


def _codes(look: Look, left: list[Communication], right: list[Communication]) -> tuple[Ints, Ints]:
    looks = [look(item) for item in (*left, *right)]
    code = {found: at for at, found in enumerate(dict.fromkeys(looks))}
    codes = np.array([code[found] for found in looks], np.int64)
    return codes[: len(left)], codes[len(left) :]


def _agreeing(a: Ints, b: Ints, ends_a: Ints, ends_b: Ints) -> list[tuple[int, int, int, int]]:
    """List the shifts at which all partners agree: (how the distance of ends varies, −partners, |shift|, shift)."""
    found = []
    for shift in _shifts(len(a), len(b)):
        left, right = _partners(len(a), len(b), shift)
        if np.array_equal(a[left], b[right]):
            apart = ends_b[right] - ends_a[left]
            varies = int(np.median(np.abs(apart - np.median(apart))))
            found.append((max(varies, CLOSE_NS), left.start - left.stop, abs(shift), shift))
            if shift == 0 and len(a) == len(b) and varies <= CLOSE_NS:
                break
    return found


def _shifts(left: int, right: int) -> list[int]:
    """List the shifts at which at least half of the shorter list has a partner, small ones first."""
    least = (min(left, right) + 1) // 2
    return sorted(range(least - right, left - least + 1), key=abs)[:SHIFTS_TRIED]


def _partners(left: int, right: int, shift: int) -> tuple[slice, slice]:
    first, last = max(0, shift), min(left, shift + right)
    return slice(first, last), slice(first - shift, last - shift)


def _refuse(channel: Channel, one: tuple[int, list[Communication]], other: tuple[int, list[Communication]]) -> None:
    """Tell where two ranks first differ, at the shift at which most agrees.

    Raises:
        CollectiveError: always.
    """
    (rank, left), (other_rank, right) = one, other
    a, b = _codes(_look, left, right)

    def agreement(shift: int) -> int:
        ours, theirs = _partners(len(a), len(b), shift)
        return int(np.count_nonzero(a[ours] == b[theirs]))

    ours, theirs = _partners(len(a), len(b), max(_shifts(len(a), len(b)), key=agreement))
    at = int(np.flatnonzero(a[ours] != b[theirs])[0])
    i, j = ours.start + at, theirs.start + at
    raise CollectiveError(
        f"{channel}: the ranks disagree: number {i} of rank {rank} is {left[i]}, number {j} of rank {other_rank} is "
        f"{right[j]}; give traces of one recording"
    )
