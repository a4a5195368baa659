"""What a reader makes of a file: columns of rows in the order of the file, before they are numbered and sorted."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hta_graph.model import EventKind, Ids

FileColumns = dict[str, Any]


@dataclass(frozen=True)
class Bracket:
    """A begin or end row of a foreign writer."""

    index: int
    is_begin: bool
    thread: Any
    time: int


@dataclass(frozen=True)
class Arrow:
    """The start or end of an arrow: from a forward operator to its backward one, or between nodes of a graph."""

    is_start: bool
    id: Any
    thread: Any
    time: int


class Numbering(dict[Any, int]):
    """Gives each new key the next number."""

    def __missing__(self, key: Any) -> int:
        self[key] = number = len(self)
        return number

    def codes(self, values: Iterable[Any]) -> Ids:
        """Number values.

        >>> Numbering().codes("abca").tolist()
        [0, 1, 2, 0]
        """
        return np.fromiter(map(self.__getitem__, values), np.int32, len(values) if isinstance(values, list) else -1)


ABSENT: Mapping[str, np.generic] = {
    "index": np.int32(-1), "start": np.int64(-(2**63)), "end": np.int64(-(2**63)), "is_begin": np.False_,
    "kind": np.int8(EventKind.OTHER), "name": np.int32(-1), "thread": np.int32(-1), "stream": np.int32(-1),
    "correlation": np.int32(-1), "external_id": np.int32(-1), "old_external_id": np.int32(-1),
    "sequence": np.int32(-1), "wait_on_stream": np.int32(-1), "record_correlation": np.int32(-1),
    "forward_thread": np.int32(-1), "collective": np.False_, "exchanges": np.False_,
    "bytes": np.int32(-1), "bandwidth": np.float64(np.nan),
}  # fmt: skip
"""The columns of rows, and what stands in them where there is nothing: only parts that have something keep them."""


def join_column(parts: list[np.ndarray[Any, Any] | None], lengths: Sequence[int], name: str) -> np.ndarray[Any, Any]:
    """Return one column of all rows: a single value where no part has one; the parts are let go."""
    absent, count = ABSENT[name], sum(lengths)
    types = {part.dtype for part in parts if part is not None}
    if not types:
        return np.broadcast_to(absent, count)
    found = np.full(count, absent, np.result_type(*types))
    first = 0
    for at, length in enumerate(lengths):
        if (part := parts[at]) is not None:
            found[first : first + length] = part
        parts[at] = None
        first += length
    return found


@dataclasses.dataclass
class Collected:
    """Columns of all rows that may be events, in file order; times in ns without the base time, ``INVALID`` where bad.

    ``name``, ``thread`` and ``stream`` are numbers into the numberings; of the last two one is -1. The key of a stream
    has its process id as its fourth part; where arrows may lead there, the thread as printed is the fifth.
    """

    columns: FileColumns
    names: Numbering = dataclasses.field(default_factory=Numbering)
    threads: Numbering = dataclasses.field(default_factory=Numbering)
    streams: Numbering = dataclasses.field(default_factory=Numbering)
    brackets: list[Bracket] = dataclasses.field(default_factory=list)
    arrows: list[Arrow] = dataclasses.field(default_factory=list)
    node_arrows: list[Arrow] = dataclasses.field(default_factory=list)
    old_launches: list[Any] = dataclasses.field(default_factory=list)
    counts: Counter[str] = dataclasses.field(default_factory=Counter)


@dataclass(frozen=True)
class Recorded:
    """One rank of a file that is no Kineto trace: its columns, its header as Kineto's have it, and its rank.

    ``notes`` are what a reader of its answers must know, one line each; ``ranks_by`` says how ranks are numbered,
    ``salvaged`` how much of a damaged file was recovered.
    """

    collected: Collected
    header: dict[str, Any]
    rank: int | None
    notes: tuple[str, ...] = ()
    ranks_by: str = ""
    salvaged: str | None = None
