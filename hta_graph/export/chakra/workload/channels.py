"""Where communications of several ranks follow each other: the n-th of one rank is the n-th of the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hta_graph.errors import HtaGraphError
from hta_graph.export.chakra.workload.communications import Communication, Group
from hta_graph.model import Ints

__all__ = ["Channel", "CollectiveError", "Recorded", "missing_ranks"]


class CollectiveError(HtaGraphError):
    """The ranks' communications do not fit together."""


@dataclass(frozen=True)
class Channel:
    """A group's collectives; or, with ``source`` and ``target``, the messages between two of its ranks."""

    group: Group
    source: int = -1
    target: int = -1

    @property
    def is_collective(self) -> bool:
        """Whether all ranks of the group take part."""
        return self.source < 0

    @property
    def members(self) -> tuple[int, ...]:
        """The ranks that take part."""
        return self.group.ranks if self.is_collective else (self.source, self.target)

    def __str__(self) -> str:
        return str(self.group) if self.is_collective else f"messages {self.source} → {self.target} in {self.group}"


@dataclass(frozen=True)
class Recorded:
    """One rank's communications in the order in which they were launched, and when each ran (ns, the rank's clock).

    ``begin`` is when the rank's recording began.
    """

    rank: int
    begin: int
    known: Sequence[Communication]
    start: Ints
    end: Ints

    def channels(self) -> dict[Channel, list[int]]:
        """Return the places in ``known`` of each channel's communications."""
        found: dict[Channel, list[int]] = defaultdict(list)
        for at, item in enumerate(self.known):
            ends = {"SEND": (self.rank, item.peer), "RECV": (item.peer, self.rank)}.get(item.kind, (-1, -1))
            found[Channel(item.group, *ends)].append(at)
        return found


def missing_ranks(ranks: Iterable[Recorded]) -> dict[int, Channel]:
    """Return the ranks that take part in what is recorded and are not given themselves; and in which channel."""
    given = list(ranks)
    present = {item.rank for item in given}
    channels = [channel for item in given for channel in item.channels()]
    return {rank: channel for channel in channels[::-1] for rank in channel.members if rank not in present}
