"""What the matcher looks at: one rank's communications, when they ran, and what makes them follow each other."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from hta_graph.model import Ints

__all__ = ["Channel", "ChannelT", "Label", "Match", "IndicesByRank", "RankRecord", "listed_ranks"]

IndicesByRank = Mapping[int, Sequence[int]]
"""Per rank the places of a channel's communications in its record."""

Match = Mapping[int, int]
"""One communication of several ranks: rank → its place in that rank's record."""


class Channel(Protocol):
    """Where communications follow each other: all ranks do the same ones in the same order."""

    @property
    def members(self) -> Collection[int]:
        """The ranks that take part, given or not."""


ChannelT = TypeVar("ChannelT", bound=Channel)


@dataclass(frozen=True)
class Label(Generic[ChannelT]):
    """What is known of one communication.

    ``channel`` is None where it is compared with nobody; ``content`` is what must be the same on all ranks, and
    ``number`` the recorded one within its group (-1: none). ``text`` is for people. ``size``, ``kind`` and, but for
    simulators, ``number`` must be the same where both know them (-1, "": not known). ``waits``: it does not end before
    the others came.
    """

    channel: ChannelT | None
    content: tuple[object, ...] = ()
    number: int = -1
    text: str = ""
    size: int = -1
    waits: bool = True
    kind: str = ""


@dataclass(frozen=True)
class RankRecord(Generic[ChannelT]):
    """One rank's communications in their order, when it came to each and when each ended (ns, the rank's clock)."""

    rank: int
    labels: Sequence[Label[ChannelT]]
    start: Ints
    end: Ints

    def places(self) -> dict[ChannelT, list[int]]:
        """Return the places of each channel's communications."""
        found: dict[ChannelT, list[int]] = defaultdict(list)
        for place, label in enumerate(self.labels):
            if label.channel is not None:
                found[label.channel].append(place)
        return found


def listed_ranks(value: object) -> list[int]:
    """Read a list of ranks, which may be text; one that is cut short ("[0, 1, ...]") counts as none.

    >>> listed_ranks("[0, 1]"), listed_ranks([2, 3]), listed_ranks("[0, 1, ...]")
    ([0, 1], [2, 3], [])
    """
    if isinstance(value, list):
        return value if all(isinstance(rank, int) and rank >= 0 for rank in value) else []
    text = value if isinstance(value, str) else ""
    return [int(rank) for rank in text[1:-1].split(",")] if re.fullmatch(r"\[\d+(, ?\d+)*\]", text) else []
