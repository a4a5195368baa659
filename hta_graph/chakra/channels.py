"""Groups of ranks and the channels in which they communicate, as simulators tell them apart."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Group", "GroupChannel", "single_rank_group"]


@dataclass(frozen=True)
class Group:
    """Ranks that communicate, and the name of their process group ("" where none is recorded)."""

    name: str
    ranks: tuple[int, ...]

    def __str__(self) -> str:
        ranks = self.ranks
        listed = ", ".join(map(str, ranks)) if len(ranks) <= 8 else f"{ranks[0]}, {ranks[1]}, … {ranks[-1]}"
        # Names can be of any length, and stand before the reason why something is refused.
        return f"group {self.name[:60]} [{listed}]" if self.name else f"the group [{listed}]"


def single_rank_group(rank: int) -> Group:
    """Return the group in which a rank waits for nobody."""
    return Group("", (rank,))


@dataclass(frozen=True)
class GroupChannel:
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
