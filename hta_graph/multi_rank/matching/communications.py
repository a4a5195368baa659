"""A rank's communications: the columns that matching reads, what was recorded of each, and the process groups.

Nothing here knows whether a kernel or Gloo ran them, or how they are matched.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import Any, Generic, Protocol, TypeGuard, TypeVar

import numpy as np

from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Bools, Ids, Ints

IndicesByRank = Mapping[int, Sequence[int]]
"""Per rank the places of a channel's communications in its record."""

Match = Mapping[int, int]
"""One communication between ranks: rank → its place in that rank's record."""


class Channel(Protocol):
    """Where communications follow each other: all ranks do the same ones in the same order."""

    @property
    def members(self) -> Collection[int]:
        """The ranks that take part, given or not."""


ChannelT = TypeVar("ChannelT", bound=Channel)


@dataclass(frozen=True)
class Label(Generic[ChannelT]):
    """What is known of one communication.

    ``channel`` is None where it is compared with none; ``content`` is what must be the same on all ranks, and
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


def is_rank(value: object) -> TypeGuard[int]:
    """Return whether a value can be a rank, as files say it."""
    return isinstance(value, int) and 0 <= value < 1 << 31


def listed_ranks(value: object) -> list[int]:
    """Read a list of ranks, which may be text; one that is cut short ("[0, 1, ...]") counts as none.

    >>> listed_ranks("[0, 1]"), listed_ranks([2, 3]), listed_ranks("[0, 1, ...]")
    ([0, 1], [2, 3], [])
    """
    if isinstance(value, str) and re.fullmatch(r"\[\d{1,10}(, ?\d{1,10})*\]", value):
        value = [int(rank) for rank in value[1:-1].split(",")]
    return value if isinstance(value, list) and all(map(is_rank, value)) else []


ALL_RANKS, NO_RANK, UNKNOWN_RANK = -1, -2, -3
"""Whom a member of a collective waits for, where it is not one rank."""

MESSAGE_KINDS = ("send", "recv", "send_recv")
"""Operations that concern two ranks; of the last kind is a kernel that does not say which it is."""
BATCH = "batch_isend_irecv"
"""What both sides of an exchange do: one kernel sends to a rank and receives from it."""
COLLECTIVE_ARGUMENTS = ("Collective name", "Process Group Name", "Process Group Ranks", "Seq", "Comms Id", "Group size")
COLUMNS = ("row", "call", "arrival", "busy", "start", "end", "needed", "on_gpu")
SIZE_ARGUMENTS = ("In msg nelems", "Out msg nelems", "dtype")
SPLITS = ("In split size", "Out split size")
"""How an all-to-all divides what it sends and receives, as text."""
EXCHANGED = "exchanged elements"
"""Of an all-to-all with recorded parts: how many elements cross the rank's links; no argument of the file."""
GROUP_DESCRIPTION = "Process Group Description"
"""What a group is for, such as "tp", as the header says next to the group's name."""
WORKER, ROOT = "Worker", "Root"
"""Of a collective on the CPU whose group is open: the number of its worker among the rank's, and its recorded root."""


@dataclass(frozen=True)
class RankRecording:
    """Where and when a rank was recorded: its host's name if the trace says it, the first and the last time (ns).

    ``gpu_ahead`` is how far its GPU's clock is ahead of its host's (ns) in the file; times here are all the host's.
    ``groups`` are the rank's process groups as text, and what each is for, where it is open which of them its
    collectives on the CPU are of.
    """

    host: str | None = None
    begin: int = 0
    end: int = 0
    gpu_ahead: int = 0
    groups: tuple[str, ...] = ()
    group_descriptions: tuple[str | None, ...] = ()

    @property
    def middle(self) -> int:
        """The middle of the recording (ns)."""
        return (self.begin + self.end) // 2


@dataclass(frozen=True)
class RankCommunications:
    """A rank's communications in order of time (ns), and what the trace says about each (None: nothing).

    ``row`` did the work: a kernel, or a worker's row on the CPU; ``call`` asked for it (-1: not in the file).
    ``arrival`` is when the rank came, from which on it waits: a kernel's start, or the call on the CPU. Of messages
    there the thread may do other things so long (``busy``) before it waits; the other rank needs only the call.
    ``needed`` is whom it waits for: a rank, or :data:`ALL_RANKS`, :data:`NO_RANK`, :data:`UNKNOWN_RANK`. ``on_gpu``
    marks the rows whose times are the GPU's. ``group`` is the process group's name and ranks as text; a kernel without
    arguments is of the group that all others on its stream are of. All times are as recorded.
    """

    row: Ids
    call: Ids
    arrival: Ints
    busy: Ints
    start: Ints
    end: Ints
    needed: Ints
    on_gpu: Bools
    name: list[str]
    group: list[str | None]
    arguments: dict[str, list[Any]]
    recording: RankRecording = RankRecording()

    def __len__(self) -> int:
        return len(self.row)

    def group_at(self, place: int) -> tuple[str | None, int]:
        """Return what the group of a communication is for, if the trace describes it, and its size (0: unknown)."""
        size = self.arguments["Group size"][place]
        listed = size if isinstance(size, int) else len(listed_ranks(self.arguments["Process Group Ranks"][place]))
        return self.arguments[GROUP_DESCRIPTION][place], listed

    @classmethod
    def empty(cls) -> RankCommunications:
        """Return those of a rank that did nothing with others."""
        rows, times = np.zeros(0, np.int32), np.zeros(0, np.int64)
        return cls(rows, rows, times, times, times, times, times, np.zeros(0, np.bool_), [], [], cls.no_arguments(0))

    @staticmethod
    def no_arguments(count: int) -> dict[str, list[Any]]:
        """Return the recorded arguments of communications of which nothing was recorded."""
        keys = (*COLLECTIVE_ARGUMENTS, *SIZE_ARGUMENTS, GROUP_DESCRIPTION, EXCHANGED, WORKER, ROOT)
        return {key: [None] * count for key in keys}

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
        """Return these and others of the same rank, in order of their start; what goes before another one stays so."""
        both = replace(
            self,
            **{name: np.concatenate((getattr(self, name), getattr(other, name))) for name in COLUMNS},  # type: ignore[arg-type]
            name=self.name + other.name,
            group=self.group + other.group,
            arguments={key: values + other.arguments[key] for key, values in self.arguments.items()},
        )
        # None may stand behind a later one of its own list that began before it.
        begins = [np.minimum.accumulate(own.start[::-1])[::-1] for own in (self, other)]
        return both.take(np.argsort(np.concatenate(begins), kind="stable"))

    @property
    def is_message(self) -> list[bool]:
        """Mark sends and receives, which concern two ranks."""
        return [text in MESSAGE_KINDS for text in self.arguments["Collective name"]]


THREADS_PER_GROUP = 2
"""How many threads Gloo gives each group."""
UNSET_DESCRIPTIONS = ("", "undefined")
"""What PyTorch writes where a group has no description."""


@dataclass(frozen=True)
class ProcessGroup:
    """A process group: its name and its ranks."""

    name: str
    ranks: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name} {list(self.ranks)}"


def gloo_process_groups(distributed: Mapping[str, Any]) -> list[ProcessGroup]:
    """Read the groups that Gloo serves from the header, in the order in which they were made."""
    listed = distributed.get("pg_config")
    groups = []
    for own in listed if isinstance(listed, list) else []:
        if (
            isinstance(own, dict)
            and "gloo" in str(own.get("backend_config", "gloo"))
            and isinstance(own.get("ranks"), list)
        ):
            ranks = [rank for rank in own["ranks"] if isinstance(rank, int)]
            groups.append(ProcessGroup(str(own.get("pg_name", "")), tuple(ranks)))
    if groups:
        return groups
    world = distributed.get("world_size")
    return [ProcessGroup("0", tuple(range(world)))] if isinstance(world, int) and 0 < world < 1 << 20 else []


def group_descriptions(distributed: Mapping[str, Any], names: Sequence[Any]) -> list[str | None]:
    """Return what the header says that each group is for, by the groups' names; None where it says nothing.

    >>> group_descriptions({"pg_config": [{"pg_name": "3", "pg_desc": "tp"}]}, ["3", 3, "4", None])
    ['tp', 'tp', None, None]
    """
    listed = distributed.get("pg_config")
    entries = [entry for entry in (listed if isinstance(listed, list) else []) if isinstance(entry, dict)]
    told = {str(entry.get("pg_name")): entry.get("pg_desc") for entry in entries}
    known = {name: text for name, text in told.items() if isinstance(text, str) and text not in UNSET_DESCRIPTIONS}
    return [None if name is None else known.get(str(name)) for name in names]


def workers_in_order(graph: DependencyGraph, rows: Ids) -> list[tuple[int, int]]:
    """Return the threads that did some rows, as number and lane, in the order in which they were made."""
    lanes = np.unique(graph.event_table.lane[rows]).tolist()
    return sorted((_thread_number(graph.lanes.labels[lane]), lane) for lane in lanes)


def groups_by_worker_lane(
    threads: Sequence[tuple[int, int]], groups: Sequence[ProcessGroup]
) -> dict[int, ProcessGroup]:
    """Return the group that each worker's lane serves; nothing where some group may have left no row.

    Workers are made in pairs, in the order of the groups. That shows whose they are only if each group has one among
    them: with enough threads for all groups.
    """
    if len(groups) == 1:
        return {lane: groups[0] for _, lane in threads}
    pairs = [threads[at : at + THREADS_PER_GROUP] for at in range(0, len(threads), THREADS_PER_GROUP)]
    if len(pairs) != len(groups):
        return {}
    if len(threads) != THREADS_PER_GROUP * len(groups):
        # One worker left no row; those of one group follow each other without a gap.
        pairs = _split_at_gaps(threads)
    if len(pairs) != len(groups):
        return {}
    return {lane: group for pair, group in zip(pairs, groups, strict=True) for _, lane in pair}


def _split_at_gaps(threads: Sequence[tuple[int, int]]) -> list[Sequence[tuple[int, int]]]:
    """Divide threads where their numbers have a gap, or a group has its workers."""
    pairs: list[Sequence[tuple[int, int]]] = [threads[:1]]
    for before, thread in pairwise(threads):
        if thread[0] == before[0] + 1 and len(pairs[-1]) < THREADS_PER_GROUP:
            pairs[-1] = [*pairs[-1], thread]
        else:
            pairs.append([thread])
    return pairs


def _thread_number(label: str) -> int:
    found = re.search(r"\d{1,18}$", label)
    return int(found[0]) if found else -1


def count_elements(dims: Any) -> int:
    """Add up the elements of the tensors of one row, or of a call's first list of tensors (-1: not recorded).

    >>> count_elements([[128, 384]]), count_elements([[[4, 2], [3]], [], []]), count_elements(None), count_elements([])
    (49152, 11, -1, -1)
    """
    shapes = dims if isinstance(dims, list) else []
    if shapes and isinstance(shapes[0], list) and shapes[0] and isinstance(shapes[0][0], list):
        shapes = shapes[0]
    sizes = [prod(shape) for shape in shapes if _is_shape(shape)]
    total = sum(sizes)
    return total if sizes and total < 1 << 62 else -1


MOST_DIMENSIONS = 64
"""PyTorch's own limit in most operators (``dim_bitset_size``); the product of very many numbers is slow."""


def _is_shape(shape: Any) -> bool:
    return (
        isinstance(shape, list)
        and 0 < len(shape) <= MOST_DIMENSIONS
        and all(isinstance(size, int) and 0 <= size < 1 << 40 for size in shape)
    )


def integer_argument(inputs: Any, place: int | None) -> int | None:
    """Read a number from a call's recorded arguments."""
    if place is None or not isinstance(inputs, list) or place >= len(inputs):
        return None
    text = str(inputs[place])
    return int(text) if re.fullmatch(r"\d{1,9}", text) else None
