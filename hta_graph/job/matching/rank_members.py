"""A rank's communications, whatever ran them: when it came, when the work ran, whom it waits for, what was recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hta_graph.model import Ids, Ints

__all__ = ["ALL", "MESSAGES", "NOBODY", "RECORDED", "SIZES", "UNKNOWN", "RankMembers"]

ALL, NOBODY, UNKNOWN = -1, -2, -3
"""Whom a member of a collective waits for, where it is not one rank."""

MESSAGES = ("send", "recv")
RECORDED = ("Collective name", "Process Group Name", "Process Group Ranks", "Seq", "Comms Id", "Group size")
SIZES = ("In msg nelems", "Out msg nelems", "dtype")


@dataclass(frozen=True)
class RankMembers:
    """A rank's communications in order of time (ns), and what the trace says about each (None: nothing).

    ``row`` did the work: a kernel, or a worker's row on the CPU; ``call`` asked for it (-1: not in the file).
    ``arrival`` is when the rank came, from which on it waits: a kernel's start, or the call on the CPU. ``needed`` is
    whom it waits for: a rank, or :data:`ALL`, :data:`NOBODY`, :data:`UNKNOWN`. ``group`` is the process group's name
    and ranks as text; a kernel without arguments is of the group that all others on its stream are of.
    """

    row: Ids
    call: Ids
    arrival: Ints
    start: Ints
    end: Ints
    needed: Ints
    name: list[str]
    group: list[str | None]
    said: dict[str, list[Any]]

    def __len__(self) -> int:
        return len(self.row)

    @classmethod
    def none(cls) -> RankMembers:
        """Return those of a rank that did nothing with others."""
        rows, times = np.zeros(0, np.int32), np.zeros(0, np.int64)
        return cls(rows, rows, times, times, times, times, [], [], cls.nothing_said(0))

    @staticmethod
    def nothing_said(count: int) -> dict[str, list[Any]]:
        """Return the recorded arguments of communications of which nothing was recorded."""
        return {key: [None] * count for key in (*RECORDED, *SIZES)}

    def beside(self, other: RankMembers) -> RankMembers:
        """Return these and others of the same rank, in order of their start."""
        order = np.argsort(np.concatenate((self.start, other.start)), kind="stable")

        def sorted_list(own: list[Any], others: list[Any]) -> list[Any]:
            both = [*own, *others]
            return [both[at] for at in order.tolist()]

        return RankMembers(
            np.concatenate((self.row, other.row))[order],
            np.concatenate((self.call, other.call))[order],
            np.concatenate((self.arrival, other.arrival))[order],
            np.concatenate((self.start, other.start))[order],
            np.concatenate((self.end, other.end))[order],
            np.concatenate((self.needed, other.needed))[order],
            sorted_list(self.name, other.name),
            sorted_list(self.group, other.group),
            {key: sorted_list(self.said[key], other.said[key]) for key in self.said},
        )

    @property
    def is_message(self) -> list[bool]:
        """Mark sends and receives, which concern two ranks."""
        return [text in MESSAGES for text in self.said["Collective name"]]
