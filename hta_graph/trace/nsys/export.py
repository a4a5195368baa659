"""One export: whose processes are ranks, on which clock it counts, and its rows, table by table.

Several processes with GPU work are several ranks. A process is a rank by the environment in which Nsight was started
(``RANK`` and the like), if it is the only one; else ranks follow the devices' order.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from hta_graph.base.arrays import find_sorted, take_or
from hta_graph.base.errors import NotATraceError
from hta_graph.base.progress import advance_stage
from hta_graph.model import Ids, Ints
from hta_graph.trace.nsys.database import Database
from hta_graph.trace.nsys.nccl import collective_arguments
from hta_graph.trace.nsys.sources import (
    CALLS,
    COPIES,
    EVENTS,
    GPU_TABLES,
    GRAPHS,
    KERNELS,
    LIBRARY_TABLES,
    MARK,
    NO_ID,
    NO_TIME,
    RANGES,
    SOURCES,
    SYNCS,
    THREAD_BITS,
    UNNAMED,
    Source,
    SourceRows,
    call_name,
    is_operator,
    sync_name,
    take_rows,
)

PROCESS_MASK = (1 << 24) - 1
THREAD_MASK = (1 << THREAD_BITS) - 1
UTC_NS = 10**17
"""Larger times count from 1970, as ``nsys export --ts-normalize`` writes them, and not from the session's start."""
RANK_KEYS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID")
SIZE_KEYS = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_NTASKS")
NODE_KEYS = ("NODE_RANK", "GROUP_RANK", "SLURM_NODEID")
ASSIGNMENT = re.compile(r'([A-Z0-9_]{1,40})="?(\d{1,7})"?$')
EXPECTED = {KERNELS: "kernels", CALLS: "CUDA calls"}
OF_HOST = {"OSRT_API": "OS runtime calls", "SCHED_EVENTS": "thread states", "COMPOSITE_EVENTS": "CPU samples"}
PROCESS_UNKNOWN = "its rows belong to no process and are left out"
LINKING: Mapping[str, tuple[tuple[str, str], ...]] = {
    KERNELS: (("globalPid", PROCESS_UNKNOWN), ("correlationId", "the call that launched a kernel is unknown")),
    COPIES: (("globalPid", PROCESS_UNKNOWN),),
    CALLS: (("globalTid", PROCESS_UNKNOWN), ("correlationId", "the kernels that a call launched are unknown")),
    RANGES: (("globalTid", PROCESS_UNKNOWN),),
}
"""Columns without which rows of a table are not linked, and what follows."""
WITHOUT_NAMES = "have no name in the export (StringIds): communication among them counts as computation; export again"
WITHOUT_ROWS = "record with nsys profile --trace=cuda,nvtx, then nsys export --type sqlite"


@dataclass(frozen=True)
class RankProcess:
    """A process with its number in the file, its rank (None: nothing says it), and the devices that it used."""

    key: int
    rank: int | None
    devices: tuple[int, ...]

    @property
    def pid(self) -> int:
        """The number that the operating system gave it."""
        return self.key & PROCESS_MASK

    def thread(self, number: int | str) -> tuple[int, int | str]:
        """Return a thread of it: the process and the thread."""
        return self.pid, number


class Export:
    """What an open database holds of a recording.

    Raises:
        NotATraceError: it has no rows.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.numbered_by = ""
        self.unnamed: Counter[str] = Counter()
        self.processes = self._find_processes()
        if not self.processes:
            raise NotATraceError(database.path, self._why_empty(), WITHOUT_ROWS)

    def _why_empty(self) -> str:
        """Say what the file is, or what is in it instead of CUDA and NVTX."""
        if self.database.has("StringTable"):
            return "is a database of nvprof, whose tables have some of the names but other columns"
        found = [words for table, words in OF_HOST.items() if self._has_rows(table)]
        but = f", only with {' and '.join(found)}" if found else ""
        return f"is an Nsight Systems export without rows of CUDA or NVTX{but}"

    def _has_rows(self, table: str) -> bool:
        return self.database.has(table) and bool(self.database.rows(f'SELECT 1 FROM "{table}" LIMIT 1'))  # noqa: S608

    # -- processes ----------------------------------------------------------------------------------------------------

    @cached_property
    def _contexts(self) -> dict[int, dict[int, int]]:
        """Return the device of each context of each process, by its work: records of synchronization name another."""
        found: dict[int, dict[int, int]] = defaultdict(dict)
        for table in GPU_TABLES:
            for process, context, device in self.database.distinct(table, "globalPid", "contextId", "deviceId"):
                found[process >> THREAD_BITS].setdefault(context, device)
        return found

    def _find_processes(self) -> list[RankProcess]:
        devices = {key: tuple(sorted(set(contexts.values()))) for key, contexts in self._contexts.items() if key >= 0}
        # Who only sets memory, such as a server's front end, is no rank beside those who compute.
        working = {
            row[0] >> THREAD_BITS for table in (KERNELS, GRAPHS) for row in self.database.distinct(table, "globalPid")
        }
        devices = {key: own for key, own in devices.items() if key in working} or devices
        for table in (CALLS, RANGES):
            if not devices:
                threads = self.database.distinct(table, "globalTid")
                devices = {thread >> THREAD_BITS: () for (thread,) in threads if thread >= 0}
        gpus = self._gpu_numbers()
        ordered = sorted(
            devices, key=lambda key: ([gpus.get((key & PROCESS_MASK, at), at) for at in devices[key]], key)
        )
        ranks: list[int | None] = list(self._numbers_of(ordered))
        found = [RankProcess(key, rank, devices[key]) for rank, key in zip(ranks, ordered, strict=True)]
        return sorted(found, key=lambda process: process.rank or 0)

    def _gpu_numbers(self) -> dict[tuple[int, int], int]:
        """Return the GPU behind each device of a process: a process may be shown one alone, which is its device 0."""
        listed = self.database.integers("TARGET_INFO_CUDA_DEVICE", "pid", "cudaId", "gpuId")
        return {(process, device): gpu for process, device, gpu in listed if gpu >= 0}

    def _numbers_of(self, processes: Sequence[int]) -> Iterable[int | None]:
        """Return the ranks of processes: as MPI numbers them, else by the environment, else by their order."""
        listed = self.database.integers("MPI_RANKS", "globalTid", "rank")
        known = {thread >> THREAD_BITS: number for thread, number in listed}
        if len({known.get(key) for key in processes} - {None}) == len(processes):
            self.numbered_by = "MPI"
            return [known[key] for key in processes]
        if len(processes) == 1:
            rank = self._environment(RANK_KEYS)
            self.numbered_by = "" if rank is None else "the environment"
            return [rank]
        node = self._environment(NODE_KEYS)
        self.numbered_by = "" if node is None else "the number of their node and the order of their devices"
        return range((node or 0) * len(processes), ((node or 0) + 1) * len(processes))

    @property
    def ranks_by(self) -> str:
        """How several processes are numbered."""
        listed = ", ".join(str(process.pid) for process in self.processes[:8])
        more = ", …" if len(self.processes) > 8 else ""
        how = self.numbered_by or "the order of their devices"
        return f"{how} (processes {listed}{more})" if len(self.processes) > 1 else ""

    @property
    def is_numbered(self) -> bool:
        """Whether the file says which ranks its processes are."""
        return bool(self.numbered_by)

    def _environment(self, keys: tuple[str, ...]) -> int | None:
        """Return a number of the environment in which Nsight started the program."""
        texts = [text for name, text in self.database.pairs("META_DATA_CAPTURE") if "ENVIRONMENT" in name.upper()]
        for name, text in self.database.pairs("TARGET_INFO_SYSTEM_ENV"):
            texts += text.split(";") if name == "DeviceEnvironment" else []
        known = {match[1]: int(match[2]) for match in map(ASSIGNMENT.match, texts) if match}
        return next((known[key] for key in keys if key in known), None)

    @property
    def world_size(self) -> int | None:
        """How many ranks the job has, as far as is known."""
        known = self._environment(SIZE_KEYS)
        several = len(self.processes) if len(self.processes) > 1 else None
        # A program that starts several processes has an environment of its own.
        return max(known or 0, several) if several else known

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What a reader of an answer must know: what is not in the file."""
        missing = [words for table, words in EXPECTED.items() if not self._has_rows(table)]
        return (
            *((f"the export has no {' and no '.join(missing)}",) if missing else ()),
            *self._unlinked(),
            *self._unnamed(),
            *(f"{table} is not read: the export has another version of this table" for table in self.database.unread),
        )

    def _unlinked(self) -> Iterator[str]:
        """Say which columns are missing, so that rows are left out or stand alone."""
        for table, columns in LINKING.items():
            for column, effect in columns:
                # Where there is one process, rows that name none are its own.
                is_known = effect == PROCESS_UNKNOWN and len(self.processes) == 1
                if self._has_rows(table) and not self.database.has(table, column) and not is_known:
                    yield f"{table} has no {column}: {effect}"

    def _unnamed(self) -> Iterator[str]:
        """Say how many of the rows that were read have no name."""
        found = [f"{count:,} {EXPECTED[table]}" for table, count in self.unnamed.items() if count]
        if found:
            yield f"{' and '.join(found)} {WITHOUT_NAMES}"

    # -- time ---------------------------------------------------------------------------------------------------------

    @cached_property
    def base_ns(self) -> int:
        """When the session started, since 1970; 0 where that is not recorded."""
        found = []
        if self.database.has("TARGET_INFO_SESSION_START_TIME", "utcEpochNs"):
            found = self.database.rows("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME LIMIT 1")
        return found[0][0] if found and isinstance(found[0][0], int) and 0 < found[0][0] < 1 << 62 else 0

    @cached_property
    def _begins_at(self) -> int:
        """The first time of the file's own that the session's start is: 0, or in 1970's time that of the start."""
        for table in (KERNELS, CALLS, RANGES):
            if self.database.has(table, "start"):
                rows = self.database.rows(f'SELECT MIN(CAST("start" AS INTEGER)) FROM "{table}"')  # noqa: S608
                if rows and rows[0][0] is not None:
                    return self.base_ns if rows[0][0] > UTC_NS else 0
        return 0

    @cached_property
    def _last(self) -> int:
        """The last time in the file: a range that is still open ends there."""
        ends = [0]
        for table in (*GPU_TABLES, CALLS, RANGES):
            if self.database.has(table, "end"):
                rows = self.database.rows(f'SELECT MAX(CAST("end" AS INTEGER)) FROM "{table}"')  # noqa: S608
                ends += [end for (end,) in rows]
        return max(end for end in ends if end is not None) - self._begins_at

    # -- what the file says about itself ------------------------------------------------------------------------------

    @cached_property
    def recorder(self) -> str:
        """The program that recorded and its version, and that of the schema."""
        found = dict(self.database.pairs("META_DATA_EXPORT"))
        version = found.get("EXPORT_PRODUCT_VERSION", "")
        schema = found.get("EXPORT_SCHEMA_VERSION", "")
        return f"Nsight Systems {version}".rstrip() + (f" (schema {schema})" if schema else "")

    def header(self, process: RankProcess | None = None) -> dict[str, Any]:
        """Return what Kineto's traces have in addition to their rows, for one rank or for all."""
        several = len(self.processes) > 1
        one = process or (None if several else self.processes[0])
        rank = None if one is None else one.rank
        system = dict(self.database.pairs("TARGET_INFO_SYSTEM_ENV"))
        driver, host = system.get("CudaDriverVersion", ""), system.get("Hostname", "")
        job = {"rank": rank, "world_size": self.world_size}
        found = {
            "recorder": self.recorder,
            "baseTimeNanoseconds": self.base_ns,
            "distributedInfo": {key: value for key, value in job.items() if value is not None},
            "deviceProperties": [{"id": number, "name": name} for number, name in self._devices()],
            "cuda_driver_version": int(driver) if driver.isdecimal() else None,
            "host_name": host or None,
            "process": str(one.pid) if one and several else None,
        }
        return {key: value for key, value in found.items() if value not in (None, [])}

    def _devices(self) -> list[tuple[int, str]]:
        if not self.database.has("TARGET_INFO_GPU", "id", "name"):
            return []
        return self.database.rows("SELECT id, CAST(name AS TEXT) FROM TARGET_INFO_GPU ORDER BY id LIMIT 1024")

    def thread_names(self) -> list[tuple[int, str]]:
        """Return what threads are called, by their global numbers."""
        found = self.database.integers("ThreadNames", "globalTid", "nameId", where='"globalTid" > 0')
        texts = self.database.texts(name for _, name in found)
        return [(thread, texts.get(name, "")) for thread, name in found]

    # -- rows ---------------------------------------------------------------------------------------------------------

    @cached_property
    def _keys(self) -> Ints:
        return np.sort(np.array([process.key for process in self.processes], np.int64))

    def batches(
        self,
        processes: Collection[RankProcess] | None = None,
        rows: Ints | Ids | None = None,
        *,
        detailed: bool = False,
    ) -> Iterator[SourceRows]:
        """Yield the rows of the ranks' processes, always in the same order; times count from the session's start.

        Args:
            processes: those whose rows are wanted; all ranks' by default. Rows are numbered as if all were.
            rows: the numbers (ascending) of those that are wanted; all by default.
            detailed: whether what only arguments need is read, too.

        Raises:
            TraceError: the file is damaged.
        """
        keys, first, done = self._keys, 0, 0
        total = sum(self.database.about(source.table) for source in SOURCES)
        chosen = np.isin(keys, keys if processes is None else [process.key for process in processes])
        for source in SOURCES:
            if rows is not None and not self.database.salvages:
                count = self._count_rows(source)
                if np.searchsorted(rows, first) == np.searchsorted(rows, first + count):
                    first += count
                    continue
            for numbers, texts in source.chunks(self.database, self._host_threads, detailed=detailed):
                process = numbers["thread" if "thread" in numbers else "process"] >> THREAD_BITS
                # Where rows name no process there is one.
                process = np.where((process < 0) & (len(keys) == 1), keys[0], process)
                place = find_sorted(process, keys)
                numbers |= {"process": process, "index": first + np.cumsum(place >= 0) - 1}
                first += int(np.count_nonzero(place >= 0))
                done += len(place)
                advance_stage(min(done, total), total)
                kept = (place >= 0) & chosen[place]
                if rows is not None:
                    kept &= find_sorted(numbers["index"], rows) >= 0
                if kept.any():
                    batch = source.batch(self.database, *take_rows(numbers, texts, kept))
                    if source.table in UNNAMED:
                        self.unnamed[source.table] += batch.names.count(UNNAMED[source.table])
                    yield self._finished(source, batch)

    def _count_rows(self, source: Source) -> int:
        """Return how many rows of a table are the ranks'."""
        counts = source.count(self.database, self._host_threads)
        own = {key for key in counts if key in self._keys or (key < 0 and len(self._keys) == 1)}
        return sum(counts[key] for key in own)

    def _host_threads(self) -> list[int]:
        """Return the threads with CUDA calls or ranges: what others do is on no path, and would fill the memory."""
        found = {
            thread
            for table in (CALLS, RANGES, *LIBRARY_TABLES)
            for (thread,) in self.database.distinct(table, "globalTid")
        }
        of_ranks = {process.key for process in self.processes}
        return sorted(thread for thread in found if thread >> THREAD_BITS in of_ranks)

    def _finished(self, source: Source, batch: SourceRows) -> SourceRows:
        numbers = dict(batch.numbers)
        for side in ("start", "end"):
            numbers[side] = np.where(numbers[side] == NO_TIME, NO_TIME, numbers[side] - self._begins_at)
        if "context" in numbers:
            numbers["device"] = self._devices_of(batch)
        if source.table == RANGES:
            is_open = (numbers["end"] == NO_TIME) & (numbers["start"] != NO_TIME)
            is_mark = np.isin(numbers["type"], MARK)
            numbers["end"] = np.where(is_mark, numbers["start"], np.where(is_open, self._last, numbers["end"]))
            numbers["is operator"] = self._are_operators(batch)
        if source.table == SYNCS:
            return self._with_calls(replace(batch, numbers=numbers))
        if source.table == KERNELS and self._collectives:
            keys = zip(batch["process"].tolist(), batch["correlation"].tolist(), strict=True)
            arguments = [self._collectives.get(key) for key in keys]
            numbers["collective"] = np.array([found is not None for found in arguments], np.int64)
            batch = replace(batch, texts={**batch.texts, "arguments": arguments})
        return replace(batch, numbers=numbers)

    @cached_property
    def _collectives(self) -> dict[tuple[int, int], dict[str, Any]]:
        return collective_arguments(self.database, {process.key: process.rank for process in self.processes})

    def _devices_of(self, batch: SourceRows) -> Ints:
        known = [
            (process, context, device)
            for process, contexts in self._contexts.items()
            for context, device in contexts.items()
        ]
        device = batch["device"].copy()
        for process, context, meant in known:
            device[(batch["process"] == process) & (batch["context"] == context)] = meant
        return device

    @staticmethod
    def _are_operators(batch: SourceRows) -> Ints:
        numbered, inputs = batch["sequence"] >= 0, batch["has inputs"] > 0
        written = numbered | inputs | (batch["operator"] >= 0)
        keys = list(zip(batch.names, numbered.tolist(), inputs.tolist(), written.tolist(), strict=True))
        known = {key: key[3] and is_operator(key[0], has_sequence=key[1], has_inputs=key[2]) for key in set(keys)}
        return np.array([known[key] for key in keys], np.int64)

    # -- synchronization ----------------------------------------------------------------------------------------------

    def _with_calls(self, batch: SourceRows) -> SourceRows:
        """Name records by their calls, and find the call that recorded the event for which each waits."""
        key, name = self._calls_of_syncs
        at = find_sorted(self._pair_key(batch["process"], batch["correlation"]), key)
        texts = self.database.texts(name.tolist())
        calls = [call_name(texts.get(number, "")) for number in take_or(name, at).tolist()]
        known = {pair: sync_name(*pair) for pair in set(zip(calls, batch["kind"].tolist(), strict=True))}
        names = [known[pair] for pair in zip(calls, batch["kind"].tolist(), strict=True)]
        record = self._records_of(batch)
        numbers = {**batch.numbers, "record": take_or(self._records["correlation"], record)}
        numbers["record stream"] = take_or(self._records["stream"], record)
        return replace(batch, numbers=numbers, names=names)

    @cached_property
    def _calls_of_syncs(self) -> tuple[Ints, Ints]:
        """Return the calls with a record: process and correlation as one key, and the number of the call's name."""
        waits = "FALSE"
        if self.database.has(SYNCS, "correlationId") and self.database.has(CALLS, "correlationId", "globalTid"):
            waits = f'"correlationId" IN (SELECT "correlationId" FROM "{SYNCS}")'  # noqa: S608
        process, correlation, name = self.database.columns(CALLS, "globalTid", "correlationId", "nameId", where=waits)
        key, first = np.unique(self._pair_key(process >> THREAD_BITS, correlation), return_index=True)
        return key, name[first]

    @cached_property
    def _records(self) -> dict[str, Ints]:
        """Return the records of events, by process, event and the order of their calls."""
        names = {"process": "globalPid", "correlation": "correlationId", "stream": "streamId", "event": "eventId",
                 "event sync": "eventSyncId"}  # fmt: skip
        known = "TRUE" if self.database.has(EVENTS, "eventId", "correlationId") else "FALSE"
        found = dict(zip(names, self.database.columns(EVENTS, *names.values(), where=known), strict=True))
        found["process"] = found["process"] >> THREAD_BITS
        order = np.lexsort((found["correlation"], found["event"], found["process"]))
        return {name: column[order] for name, column in found.items()}

    def _records_of(self, batch: SourceRows) -> Ints:
        """Return the record that each row waits for (-1: none): by the number of the record, else the event's last."""
        records = self._records
        found = np.full(len(batch), -1, np.int64)
        if not len(records["event"]):
            return found
        usable = (batch["event sync"] > 0) & (batch["event sync"] != NO_ID)
        key, first = np.unique(self._pair_key(records["process"], records["event sync"]), return_index=True)
        by_number = find_sorted(self._pair_key(batch["process"], batch["event sync"]), key)
        found[usable] = take_or(first, by_number)[usable]
        # An event is recorded again and again: the last record before the wait is meant.
        event = self._pair_key(records["process"], records["event"])
        own = self._pair_key(batch["process"], batch["event"])
        low, past = np.searchsorted(event, own, side="left"), np.searchsorted(event, own, side="right")
        for at in np.flatnonzero((found < 0) & (past > low) & (batch["event"] != NO_ID)).tolist():
            earlier = np.searchsorted(records["correlation"][low[at] : past[at]], batch["correlation"][at])
            found[at] = low[at] + earlier - 1 if earlier else -1
        return found

    def _pair_key(self, process: Ints, number: Ints) -> Ints:
        """Return one number for a process and a number of 32 bits in it, in their order."""
        return (find_sorted(process, self._keys) << 32) | (number & NO_ID)
