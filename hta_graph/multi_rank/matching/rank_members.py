"""A rank's communications, whatever ran them: when it came, when the work ran, whom it waits for, what was recorded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hta_graph.model import Bools, Ids, Ints
from hta_graph.multi_rank.matching.rank_record import listed_ranks

__all__ = [
    "ALL_RANKS",
    "GROUP_DESCRIPTION",
    "MESSAGE_KINDS",
    "NO_RANK",
    "COLLECTIVE_ARGUMENTS",
    "SIZE_ARGUMENTS",
    "UNKNOWN_RANK",
    "RankCommunications",
    "Recording",
]

ALL_RANKS, NO_RANK, UNKNOWN_RANK = -1, -2, -3
"""Whom a member of a collective waits for, where it is not one rank."""

MESSAGE_KINDS = ("send", "recv", "send_recv")
"""Operations that concern two ranks; of the last kind is a kernel that does not say which it is."""
COLLECTIVE_ARGUMENTS = ("Collective name", "Process Group Name", "Process Group Ranks", "Seq", "Comms Id", "Group size")
COLUMNS = ("row", "call", "arrival", "start", "end", "needed", "on_gpu")
SIZE_ARGUMENTS = ("In msg nelems", "Out msg nelems", "dtype")
GROUP_DESCRIPTION = "Process Group Description"
"""What a group is for, such as "tp", as the header says beside the group's name."""


@dataclass(frozen=True)
class Recording:
    """Where and when a rank was recorded: its host's name if the trace says it, the first and the last time (ns).

    ``gpu_ahead`` is how far the clock of its GPU rows is ahead of that of its CPU rows (ns, at most 0), as launches
    show.
    """

    host: str | None = None
    begin: int = 0
    end: int = 0
    gpu_ahead: int = 0

    @property
    def middle(self) -> int:
        """The middle of the recording (ns)."""
        return (self.begin + self.end) // 2


@dataclass(frozen=True)
class RankCommunications:
    """A rank's communications in order of time (ns), and what the trace says about each (None: nothing).

    ``row`` did the work: a kernel, or a worker's row on the CPU; ``call`` asked for it (-1: not in the file).
    ``arrival`` is when the rank came, from which on it waits: a kernel's start, or the call on the CPU. ``needed`` is
    whom it waits for: a rank, or :data:`ALL_RANKS`, :data:`NO_RANK`, :data:`UNKNOWN_RANK`. ``on_gpu`` tells the rows whose times
    are the GPU's. ``group`` is the process group's name and ranks as text; a kernel without arguments is of the group
    that all others on its stream are of. All times are as recorded.
    """

    row: Ids
    call: Ids
    arrival: Ints
    start: Ints
    end: Ints
    needed: Ints
    on_gpu: Bools
    name: list[str]
    group: list[str | None]
    arguments: dict[str, list[Any]]
    recording: Recording = Recording()

    def __len__(self) -> int:
        return len(self.row)

    def group_at(self, place: int) -> tuple[str | None, int]:
        """Return what the group of a communication is for, if the trace describes it, and its size (0: not told)."""
        size = self.arguments["Group size"][place]
        listed = size if isinstance(size, int) else len(listed_ranks(self.arguments["Process Group Ranks"][place]))
        return self.arguments[GROUP_DESCRIPTION][place], listed

    @classmethod
    def empty(cls) -> RankCommunications:
        """Return those of a rank that did nothing with others."""
        rows, times = np.zeros(0, np.int32), np.zeros(0, np.int64)
        return cls(rows, rows, times, times, times, times, np.zeros(0, np.bool_), [], [], cls.no_arguments(0))

    @staticmethod
    def no_arguments(count: int) -> dict[str, list[Any]]:
        """Return the recorded arguments of communications of which nothing was recorded."""
        return {key: [None] * count for key in (*COLLECTIVE_ARGUMENTS, *SIZE_ARGUMENTS, GROUP_DESCRIPTION)}

    def take(self, rows: Ints) -> RankCommunications:
        """Select communications, in this order."""
        listed = rows.tolist()
        return replace(
            self,
            **{name: getattr(self, name)[rows] for name in COLUMNS},
            name=[self.name[at] for at in listed],
            group=[self.group[at] for at in listed],
            arguments={key: [values[at] for at in listed] for key, values in self.arguments.items()},
        )

    def merged_with(self, other: RankCommunications) -> RankCommunications:
        """Return these and others of the same rank, in order of their start."""
        both = replace(
            self,
            **{name: np.concatenate((getattr(self, name), getattr(other, name))) for name in COLUMNS},  # type: ignore[arg-type]
            name=self.name + other.name,
            group=self.group + other.group,
            arguments={key: values + other.arguments[key] for key, values in self.arguments.items()},
        )
        return both.take(np.argsort(both.start, kind="stable"))

    @property
    def is_message(self) -> list[bool]:
        """Mark sends and receives, which concern two ranks."""
        return [text in MESSAGE_KINDS for text in self.arguments["Collective name"]]
