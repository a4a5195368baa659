"""An export → the columns of each of its ranks, as a Kineto trace's rows give them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from hta_graph.base.arrays import find_sorted, take_or
from hta_graph.base.progress import begin_stage
from hta_graph.base.storage.location import Location
from hta_graph.model import Bools, EventKind, Floats, Ids, Ints
from hta_graph.trace.memory_limit import ColumnsLimit
from hta_graph.trace.nsys.database import Database
from hta_graph.trace.nsys.export import THREAD_MASK, Export, RankProcess
from hta_graph.trace.nsys.sources import SYNCS, SourceRows
from hta_graph.trace.profiler_names import AUTOGRAD_OPERATOR, CATEGORY
from hta_graph.trace.recorded import ABSENT, Collected, Numbering, Recorded, join_column

Part = dict[str, np.ndarray[Any, Any]]


class _Collector:
    """Collects the columns of one process, each in the smallest type that holds it."""

    def __init__(self, process: RankProcess) -> None:
        self._process = process
        self._parts: list[Part] = []
        self.held = 0
        self.names, self.threads, self.streams = Numbering(), Numbering(), Numbering()

    def add(self, batch: SourceRows) -> None:
        """Add the rows of one table."""
        is_operator = batch["is operator"] > 0
        kind = np.full(len(batch), CATEGORY[batch.source.category], np.int8)
        kind[is_operator] = EventKind.CPU_OP
        part: Part = {
            "index": batch["index"],
            "start": batch["start"],
            "end": batch["end"],
            "kind": kind,
            "name": self.names.codes(batch.names),
            "correlation": np.where(batch["correlation"] > 0, batch["correlation"], -1),
            "external_id": np.where(is_operator, batch["operator"], -1),
            "sequence": np.where(is_operator, batch["sequence"], -1),
            "collective": batch["collective"] > 0,
        }
        if "stream" in batch.numbers:
            keys, place = _distinct_rows(batch["device"], batch["context"], batch["stream"])
            part["stream"] = self.streams.codes((*key, key[0]) for key in keys)[place]
            part["bytes"] = batch["bytes"].clip(-1)
            part["bandwidth"] = _rate(part["bytes"], batch["end"] - batch["start"])
        else:
            keys, place = _distinct_rows(thread_numbers(batch))
            part["thread"] = self.threads.codes(self._process.thread(thread_name(*key)) for key in keys)[place]
        if batch.source.table == SYNCS:
            part |= {"wait_on_stream": batch["record stream"], "record_correlation": batch["record"]}
        part = {name: narrowed for name, column in part.items() if (narrowed := _narrowed(name, column)) is not None}
        self.held += sum(column.nbytes for column in part.values())
        self._parts.append(part)

    def finish(self) -> Collected:
        """Return all rows together."""
        lengths = [len(part["name"]) for part in self._parts]
        # Each column's parts are let go before the next one's are joined.
        columns = {name: join_column([part.pop(name, None) for part in self._parts], lengths, name) for name in ABSENT}
        self._parts = []
        if lengths:
            columns["forward_thread"] = self._forward_threads(columns)
        return Collected(columns, self.names, self.threads, self.streams)

    def _forward_threads(self, columns: dict[str, Any]) -> Ids:
        """Give backward operators the thread of the forward operator that has their sequence number.

        Only operators of autograd's engine have the number of another one: it is not written which they are.
        """
        is_autograd = np.array([AUTOGRAD_OPERATOR.match(name) is not None for name in self.names] or [False])
        numbered = np.flatnonzero((columns["kind"] == EventKind.CPU_OP) & (columns["sequence"] >= 0))
        backward: Bools = is_autograd[columns["name"][numbered]]
        found: Ids = columns["forward_thread"]
        if not backward.any():
            return found
        sequences, first = np.unique(columns["sequence"][numbered[~backward]], return_index=True)
        at = find_sorted(columns["sequence"][numbered[backward]], sequences)
        thread = take_or(columns["thread"][numbered[~backward]][first], at)
        ids = np.array([key[1] if isinstance(key[1], int) else -1 for key in self.threads], np.int64)
        filled: Ids = found.copy()
        filled[numbered[backward]] = take_or(ids, thread).clip(-1, 2**31 - 1)
        return filled


def _rate(moved: Ints, length: Ints) -> Floats:
    """Return the bytes per nanosecond of what moved some."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = np.where((moved >= 0) & (length > 0), moved / length, np.nan)
    return found


def _distinct_rows(*columns: Ints) -> tuple[list[tuple[int, ...]], Ints]:
    """Return the different rows of some columns, and which of them each row is."""
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, at = np.unique(column, return_inverse=True)
        code = code * len(values) + at
    _, first, place = np.unique(code, return_index=True, return_inverse=True)
    return list(zip(*(column[first].tolist() for column in columns), strict=True)), place


def _narrowed(name: str, column: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Return a column in the smallest type that holds it; nothing where all of it is absent."""
    absent = ABSENT[name]
    if column.dtype == np.float64:
        return None if np.isnan(column).all() else column
    if name != "name" and (column == absent).all():
        return None
    if absent.dtype == np.int32 and (column.astype(np.int32) == column).all():
        return column.astype(np.int32)
    return column


def thread_numbers(batch: SourceRows) -> Ints:
    """Return the thread of each row; what no thread did has the device that did it as a negative number."""
    return batch["thread"] & THREAD_MASK if "thread" in batch.numbers else -2 - batch["device"]


def thread_name(number: int) -> int | str:
    """Return what a thread is called, by its number."""
    return number if number >= 0 else f"GPU {-2 - number}"


RankOfProcess = tuple[int | None, int | None, str | None]


def read_ranks(path: Location) -> list[RankOfProcess]:
    """Return the rank and the number of ranks of each process, where the file says them, and which one it is.

    Raises:
        TraceError: the file is damaged, or holds no rows.
    """
    with Database(path) as database:
        export = Export(database)
        several = len(export.processes) > 1
        return [
            (process.rank if export.is_numbered else None, export.world_size, str(process.pid) if several else None)
            for process in export.processes
        ]


def read_columns(
    path: Location, ranks: Collection[int] | None = None, process: str | None = None, *, salvage: bool = False
) -> Iterator[Recorded]:
    """Read an export: yield the columns of each rank, lowest first, or of some ranks, where they are there.

    Args:
        path: the file.
        ranks: those that are wanted.
        process: the one that is wanted, where there are several.
        salvage: of damaged tables read the rows before the damage.

    Raises:
        TraceError: it is damaged, holds no rows, or more events than there is memory for.
    """
    begin_stage(f"reading {path.name}")
    with Database(path, salvage=salvage) as database:
        export = Export(database)
        wanted = [
            found
            for found in export.processes
            if (ranks is None or found.rank in ranks) and process in (None, str(found.pid))
        ]
        collectors = {found.key: _Collector(found) for found in wanted or export.processes}
        limit = ColumnsLimit(path, has_other_ranks=len(collectors) > 1)
        rows = 0
        for batch in export.batches(wanted or None):
            rows = int(batch["index"][-1]) + 1
            for key, collector in collectors.items():
                if len(own := batch.take(batch["process"] == key)):
                    collector.add(own)
            limit.check(sum(collector.held for collector in collectors.values()))
        salvaged = database.damage and f"{database.damage}; {rows:,} rows recovered"
        for found in wanted or export.processes:
            yield Recorded(
                collectors.pop(found.key).finish(),
                export.header(found),
                found.rank,
                export.notes,
                export.ranks_by,
                salvaged or None,
            )
