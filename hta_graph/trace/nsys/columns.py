"""An export → the columns of each of its ranks, as a Kineto trace's rows give them."""

from __future__ import annotations

from typing import Any

import numpy as np

from hta_graph.arrays import find_sorted, take_or
from hta_graph.model import Bools, EventKind, Ids, Ints
from hta_graph.progress import begin_stage
from hta_graph.storage.location import Location
from hta_graph.trace.memory_limit import GrowthCheck
from hta_graph.trace.nsys.database import Database
from hta_graph.trace.nsys.export import THREAD_MASK, Export, RankProcess
from hta_graph.trace.nsys.sources import RANGES, SYNCS, Batch
from hta_graph.trace.profiler_names import AUTOGRAD_OPERATOR, CATEGORY
from hta_graph.trace.recorded import Collected, Numbering, Recorded


class _Collector:
    """Collects the columns of one process."""

    def __init__(self, process: RankProcess) -> None:
        self._process = process
        self._parts: list[dict[str, Any]] = []
        self.names, self.threads, self.streams = Numbering(), Numbering(), Numbering()

    def add(self, batch: Batch, index: Ints) -> None:
        """Add the rows of one table."""
        count = len(batch)
        on_stream = "stream" in batch.numbers
        kind = np.full(count, CATEGORY[batch.source.category], np.int8)
        if batch.source.table == RANGES:
            kind[batch["is operator"] > 0] = EventKind.CPU_OP
        is_operator = kind == EventKind.CPU_OP
        nothing = np.full(count, -1, np.int64)
        threads, streams = (np.full(count, -1, np.int32) for _ in range(2))
        if on_stream:
            keys = zip(*(batch[name].tolist() for name in ("device", "context", "stream", "device")), strict=True)
            streams = self.streams.codes(keys)
        else:
            threads = self.threads.codes(map(self._process.thread, thread_ids(batch)))
        moved = batch["bytes"].clip(-1) if on_stream else nothing
        length = batch["end"] - batch["start"]
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = np.where((moved >= 0) & (length > 0), moved / length, np.nan)
        is_sync = batch.source.table == SYNCS
        self._parts.append({
            "index": index.astype(np.int32),
            "start": batch["start"],
            "end": batch["end"],
            "is_begin": np.zeros(count, np.bool_),
            "kind": kind,
            "name": self.names.codes(batch.names),
            "thread": threads,
            "stream": streams,
            "correlation": np.where(batch["correlation"] > 0, batch["correlation"], -1),
            "external_id": np.where(is_operator, batch["operator"], -1),
            "old_external_id": nothing,
            "sequence": np.where(is_operator, batch["sequence"], -1),
            "wait_on_stream": batch["record stream"] if is_sync else nothing,
            "record_correlation": batch["record"] if is_sync else nothing,
            "forward_thread": np.full(count, -1, np.int32),
            "collective": batch["collective"] > 0,
            "bytes": moved,
            "bandwidth": rate,
        })  # fmt: skip

    def finish(self) -> Collected:
        """Return all rows together."""
        names = self._parts[0] if self._parts else {}
        # Each column's parts are let go before the next one's are joined.
        columns = {name: np.concatenate([part.pop(name) for part in self._parts]) for name in list(names)}
        if columns:
            columns["forward_thread"] = self._forward_threads(columns)
        return Collected(columns, self.names, self.threads, self.streams)

    def _forward_threads(self, columns: dict[str, Any]) -> Ids:
        """Give backward operators the thread of the forward operator that has their sequence number.

        Only operators of autograd's engine have the number of another one: it is not written which they are.
        """
        is_autograd = np.array([AUTOGRAD_OPERATOR.match(name) is not None for name in self.names] or [False])
        numbered = np.flatnonzero((columns["kind"] == EventKind.CPU_OP) & (columns["sequence"] >= 0))
        backward: Bools = is_autograd[columns["name"][numbered]]
        found = columns["forward_thread"]
        sequences, first = np.unique(columns["sequence"][numbered[~backward]], return_index=True)
        at = find_sorted(columns["sequence"][numbered[backward]], sequences)
        thread = take_or(columns["thread"][numbered[~backward]][first], at)
        ids = np.array([key[1] if isinstance(key[1], int) else -1 for key in self.threads], np.int64)
        found[numbered[backward]] = take_or(ids, thread).clip(-1, 2**31 - 1)
        filled: Ids = found
        return filled


def thread_ids(batch: Batch) -> list[Any]:
    """Return the thread of each row; what no thread did stands under the device that did it."""
    if "thread" in batch.numbers:
        ids: list[Any] = (batch["thread"] & THREAD_MASK).tolist()
        return ids
    return [f"GPU {device}" for device in batch["device"].tolist()]


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


def read_columns(path: Location, *, salvage: bool = False) -> list[Recorded]:
    """Read an export: the columns of each rank, lowest first; of damaged tables the rows before the damage, if asked.

    Raises:
        TraceError: it is damaged, holds no rows, or more events than there is memory for.
    """
    with Database(path, salvage=salvage) as database:
        export = Export(database)
        keys = np.array([process.key for process in export.processes], np.int64)
        collectors = [_Collector(process) for process in export.processes]
        begin_stage(f"reading {path.name}")
        first, growth = 0, GrowthCheck(path, 0)
        for batch in export.batches():
            growth.check()
            index = np.arange(first, first + len(batch))
            first += len(batch)
            for key, collector in zip(keys.tolist(), collectors, strict=True):
                own = batch["process"] == key
                if own.any():
                    collector.add(batch.take(own), index[own])
        salvaged = database.damage and f"{database.damage}; {first:,} rows recovered"
        return [
            Recorded(
                collector.finish(),
                export.header(process),
                process.rank,
                export.notes,
                export.ranks_by,
                salvaged or None,
            )
            for process, collector in zip(export.processes, collectors, strict=True)
        ]
