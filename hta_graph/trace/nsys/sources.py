"""Which tables of an export are read, and how a row of each becomes a row of a trace.

Times are nanoseconds since the session's start. A process is the upper part of a ``globalPid`` or ``globalTid``
(hardware and virtual machine, process), a thread its lower 24 bits. Source: Nsight Systems' documentation of the
exported schema, and the comments in the schema itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any

import numpy as np

from hta_graph.model import Bools, Ints
from hta_graph.trace.nsys.database import Database, integer_column
from hta_graph.trace.profiler_names import (
    AUTOGRAD_OPERATOR,
    COLLECTIVE_OPERATOR,
    DEVICE_SYNC_CALL,
    EVENT_SYNC_CALL,
    NON_BLOCKING_QUERY,
    STREAM_SYNC_CALL,
    STREAM_WAIT_CALL,
)

NO_TIME = -(1 << 63)
LATEST = 1 << 61
"""Later times are none: they would not fit 64 bits once a base time is added."""
THREAD_BITS = 24
NO_ID = (1 << 32) - 1
CUPTI = "CUPTI_ACTIVITY_KIND_"

THREADS = "THREADS"
"""Stands in a query for the numbers of the threads that have CUDA calls or ranges: only these can be on a path."""
OF_THREADS = f'CAST("globalTid" AS INTEGER) IN ({THREADS})'

Numbers = dict[str, Ints]
Texts = dict[str, list[Any]]


@dataclass(frozen=True)
class SourceRows:
    """Rows of one table: columns of numbers (-1 where absent), the rows' names, and texts by column."""

    source: Source
    numbers: Numbers
    names: list[str]
    texts: Texts = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, column: str) -> Ints:
        found = self.numbers.get(column)
        return np.full(len(self), -1, np.int64) if found is None else found

    def take(self, kept: Bools) -> SourceRows:
        """Select rows."""
        if kept.all():
            return self
        numbers, texts = take_rows(self.numbers, self.texts, kept)
        return replace(self, numbers=numbers, names=list(compress(self.names, kept.tolist())), texts=texts)


def take_rows(numbers: Numbers, texts: Texts, kept: Bools) -> tuple[Numbers, Texts]:
    """Select rows."""
    rows = kept.tolist()
    taken = {name: column[kept] for name, column in numbers.items()}
    return taken, {name: list(compress(column, rows)) for name, column in texts.items()}


def _as_recorded(_: Numbers) -> None:
    """Leave rows as they are."""


Name = Callable[[Database, Numbers, Texts], list[str]]
"""Returns the names of rows from their numbers and texts; what else a name says becomes more numbers."""


@dataclass(frozen=True)
class Source:
    """One table.

    Attributes:
        table: its name.
        category: that of Kineto's rows.
        name: how its rows are called.
        columns: which column (or which of several, ``a|b``) is which number.
        details: those that only arguments need.
        texts: which expressions are texts.
        where: which rows count.
        rows: a query that makes rows of the table's, by default these themselves; its columns are those asked for.
        needs: the tables and columns without which there is nothing to read.
        shape: what is made of the numbers of rows that follow each other.
    """

    table: str
    category: str
    name: Name
    columns: Mapping[str, str]
    details: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    where: str = ""
    rows: str = ""
    needs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    shape: Callable[[Numbers], None] = _as_recorded

    def chunks(
        self, database: Database, threads: Callable[[], Iterable[int]], *, detailed: bool
    ) -> Iterator[tuple[Numbers, Texts]]:
        """Yield the numbers and texts of the table's rows, if it is there, in the order in which they are stored.

        Args:
            database: the export.
            threads: returns those whose calls of the system, states and samples are read.
            detailed: whether what only arguments need is read, too.

        Raises:
            TraceError: the file is damaged.
        """
        if not self._is_in(database):
            return
        known = self._known(database)
        columns = {**self.columns, **(self.details if detailed else {})}
        numbers = {name: integer_column(known, of, -1) for name, of in columns.items()}
        numbers |= {side: integer_column(known, side, NO_TIME) for side in ("start", "end")}
        texts = {name: of for name, of in self.texts.items() if _columns_of(of) <= set(known)}
        listed = ", ".join([*numbers.values(), *texts.values()])
        for rows in database.chunks(f"SELECT {listed} FROM {self._rows(known, threads)}"):  # noqa: S608
            found = list(zip(*rows, strict=True))
            arrays = {name: np.array(found[at], np.int64) for at, name in enumerate(numbers)}
            for side in ("start", "end"):
                arrays[side] = np.where(np.abs(arrays[side]) > LATEST, NO_TIME, arrays[side])
            self.shape(arrays)
            yield arrays, {name: list(found[len(numbers) + at]) for at, name in enumerate(texts)}

    def count(self, database: Database, threads: Callable[[], Iterable[int]]) -> dict[int, int]:
        """Return how many rows each process has; -1 stands for those that name none.

        Raises:
            TraceError: the file is damaged.
        """
        if not self._is_in(database):
            return {}
        known = self._known(database)
        process = integer_column(known, self.columns["thread" if "thread" in self.columns else "process"], -1)
        query = f"SELECT {process} >> {THREAD_BITS}, COUNT(*) FROM {self._rows(known, threads)} GROUP BY 1"  # noqa: S608
        return dict(database.rows(query))

    def _is_in(self, database: Database) -> bool:
        return all(database.has(table, *needed) for table, needed in {self.table: ("start",), **self.needs}.items())

    def _known(self, database: Database) -> Collection[str]:
        """Return the columns that rows may have."""
        columns = {**self.columns, **self.details}
        return {"start", "end", *columns.values()} if self.rows else database.tables[self.table]

    def _rows(self, known: Collection[str], threads: Callable[[], Iterable[int]]) -> str:
        """Return where the rows come from, as SQL."""
        where = f"WHERE {self.where}" if self.where and _columns_of(self.where) <= set(known) else ""
        # An index would give the rows another order.
        of = f"({self.rows})" if self.rows else f'"{self.table}" NOT INDEXED'
        found = f"{of} {where}"
        return found.replace(THREADS, ", ".join(map(str, threads()))) if THREADS in found else found

    def batch(self, database: Database, numbers: Numbers, texts: Texts) -> SourceRows:
        """Name rows.

        Raises:
            TraceError: the file is damaged.
        """
        return SourceRows(self, numbers, self.name(database, numbers, texts), texts)


def _columns_of(expression: str) -> set[str]:
    """Return the columns that an expression names in quotation marks."""
    return set(re.findall(r'"(\w+)"', expression))


# -- names ------------------------------------------------------------------------------------------------------------

VERSION = re.compile(r"(_pts[zd]|_ptds)|_v\d{4,6}(?=$|_pt)")
"""What Nsight adds to the names of calls: the version of the call, and which default stream it means."""


def call_name(text: str) -> str:
    """Return a call's name as Kineto has it.

    >>> call_name("cudaLaunchKernel_ptsz_v7000"), call_name("cudaStreamGetCaptureInfo_v2_v11030")
    ('cudaLaunchKernel', 'cudaStreamGetCaptureInfo_v2')
    """
    return VERSION.sub("", text)


def _by_id(of: Callable[[str], str] = str, unnamed: str = "") -> Name:
    def names(database: Database, numbers: Numbers, _: Texts) -> list[str]:
        ids = numbers["name"].tolist()
        texts = database.texts(ids)
        known = {at: of(texts.get(at) or unnamed) for at in set(ids)}
        return [known[at] for at in ids]

    return names


def _fixed(text: str) -> Name:
    return lambda _, numbers, __: [text] * len(numbers["start"])


def _graph_names(_: Database, numbers: Numbers, __: Texts) -> list[str]:
    return [f"CUDA graph {number}" if number >= 0 else "CUDA graph" for number in numbers["graph"].tolist()]


WAY = {1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD", 9: "HtoH", 10: "PtoP",
       11: "HtoD", 12: "DtoH", 13: "DtoD"}  # fmt: skip
MEMORY = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed", 5: "Device Static", 6: "Managed Static",
          7: "Unknown"}  # fmt: skip
"""Numbers of Nsight's own, which its tables ``ENUM_…`` explain; CUPTI's kinds of memory are one higher."""


def _copy_name(way: int, source: int, target: int) -> str:
    if way > 10:  # migrations of managed memory
        return f"Memcpy {WAY.get(way, 'DtoD')} (Managed -> Managed)"
    return f"Memcpy {WAY.get(way, 'Unknown')} ({MEMORY.get(source, 'Unknown')} -> {MEMORY.get(target, 'Unknown')})"


def _copy_names(_: Database, numbers: Numbers, __: Texts) -> list[str]:
    keys = list(zip(*(numbers[key].tolist() for key in ("way", "source", "target")), strict=True))
    known = {key: _copy_name(*key) for key in set(keys)}
    return [known[key] for key in keys]


def _set_names(_: Database, numbers: Numbers, __: Texts) -> list[str]:
    return [f"Memset ({MEMORY.get(kind, 'Unknown')})" for kind in numbers["memory"].tolist()]


# -- synchronization --------------------------------------------------------------------------------------------------

SYNC_TYPE = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}
SYNC_CALL = (
    (NON_BLOCKING_QUERY, "Event Sync"), (EVENT_SYNC_CALL, "Event Sync"), (STREAM_WAIT_CALL, "Stream Wait Event"),
    (STREAM_SYNC_CALL, "Stream Sync"), (DEVICE_SYNC_CALL, "Context Sync"),
)  # fmt: skip
"""What the record of a call is called; numbers of types differ between versions, and calls do not."""


def sync_name(call: str, kind: int) -> str:
    """Return what Kineto calls a record of synchronization: by its call, else by its number.

    >>> sync_name("cudaStreamSynchronize", 2), sync_name("", 4)
    ('Stream Sync', 'Context Sync')
    """
    return next((name for pattern, name in SYNC_CALL if call and pattern.match(call)), SYNC_TYPE.get(kind, "Unknown"))


# -- ranges -----------------------------------------------------------------------------------------------------------

APPENDED = re.compile(r", (?:seq = (\d{1,18})(?:, op_id = (\d{1,18}))?|op_id = (\d{1,18})|(?=sizes = \[))")
"""What PyTorch's ``emit_nvtx`` appends to an operator's name; source: getNvtxStr in torch/csrc/profiler/util.cpp."""
SIZES = ", sizes = ["


NOT_RUNNING = "not running"
THREAD_STATE = {2: "waiting", 3: "waiting for a device", 4: "stopped", 7: "waiting"}


def _state_names(_: Database, numbers: Numbers, __: Texts) -> list[str]:
    """Say why a thread did not run."""
    known = {at: f"{NOT_RUNNING} ({THREAD_STATE.get(at, 'another thread had the core')})" for at in range(-1, 16)}
    return [known.get(state, NOT_RUNNING) for state in numbers["state"].tolist()]


LONGEST_SAMPLE = 2
"""A sample stands for the time up to the next one of its thread, at most this many times the usual one."""


def _end_samples(numbers: Numbers) -> None:
    """End each sample where the next one of its thread begins."""
    followed = (numbers["end"] != NO_TIME) & (numbers["start"] != NO_TIME)
    length = numbers["end"] - numbers["start"]
    usual = int(np.median(length[followed])) if followed.any() else 0
    longest = numbers["start"] + LONGEST_SAMPLE * usual
    numbers["end"] = np.where(followed, np.minimum(numbers["end"], longest), numbers["start"] + usual)
    numbers["end"][numbers["start"] == NO_TIME] = NO_TIME


def _sample_names(database: Database, numbers: Numbers, _: Texts) -> list[str]:
    """Name samples by their innermost function."""
    ids = list(zip(numbers["name"].tolist(), numbers["module"].tolist(), strict=True))
    texts = database.texts(number for pair in set(ids) for number in pair)
    known = {pair: f"{texts.get(pair[0], 'unknown')} ({texts.get(pair[1], 'unknown')})" for pair in set(ids)}
    return [known[pair] for pair in ids]


def _range_names(database: Database, numbers: Numbers, texts: Texts) -> list[str]:
    """Return the texts of ranges without what PyTorch appends; that becomes numbers."""
    ids = numbers["name"].tolist()
    registered = database.texts(ids)
    own = texts["text"] if "text" in texts else [None] * len(ids)
    names, found = [], []
    for text, at in zip(own, ids, strict=True):
        whole = registered.get(at, "") if text is None else str(text)
        match = APPENDED.search(whole)
        if match is None:
            names.append(whole)
            found.append((-1, -1, 0))
        else:
            names.append(whole[: match.start()])
            number = int(match[2] or match[3] or -1)
            found.append((int(match[1] or -1), number, SIZES in whole))
    columns = np.array(found, np.int64).reshape(-1, 3)
    numbers.update({name: columns[:, at] for at, name in enumerate(("sequence", "operator", "has inputs"))})
    return names


OPERATOR_NAME = re.compile(r"(?!FSDP::)[A-Za-z_]\w*(?:::[\w.]+)+$")
"""Names of operators have a namespace and no spaces; PyTorch's own annotations of FSDP have one too."""


def is_operator(name: str, *, has_sequence: bool, has_inputs: bool) -> bool:
    """Return whether a range of ``emit_nvtx`` is an operator: annotations of programs are written in the same way.

    Only operators and autograd functions have sequence numbers, and only they have inputs.

    >>> [is_operator(name, has_sequence=False, has_inputs=False) for name in ("aten::add", "forward", "FSDP::forward")]
    [True, False, False]
    """
    named = OPERATOR_NAME.match(name) or AUTOGRAD_OPERATOR.match(name) or COLLECTIVE_OPERATOR.match(name)
    return has_sequence or has_inputs or named is not None


PUSH_POP, START_END, MARK = (59, 70), (60, 71), (34, 65)
RANGE_TYPES = ", ".join(map(str, (*PUSH_POP, *START_END, *MARK)))

ON_STREAM = {
    "process": "globalPid", "device": "deviceId", "context": "contextId", "stream": "streamId",
    "correlation": "correlationId",
}  # fmt: skip
OF_GRAPH = {"graph": "graphId", "graph node": "graphNodeId"}
ON_THREAD = {"thread": "globalTid", "name": "nameId|textId"}
LIBRARY_TABLES = (
    "CUDNN_EVENTS", "CUBLAS_EVENTS", "NCCL_EVENTS", "MPI_P2P_EVENTS", "MPI_COLLECTIVES_EVENTS", "MPI_START_WAIT_EVENTS",
    "MPI_OTHER_EVENTS", "UCP_EVENTS", "SHMEM_EVENTS", "OPENMP_EVENT_KIND_REGION",
)  # fmt: skip
"""Calls of libraries: of each a name, a thread, a start and an end."""

KERNELS, GRAPHS, COPIES, SETS = CUPTI + "KERNEL", CUPTI + "GRAPH_TRACE", CUPTI + "MEMCPY", CUPTI + "MEMSET"
CALLS, SYNCS, RANGES, EVENTS = CUPTI + "RUNTIME", CUPTI + "SYNCHRONIZATION", "NVTX_EVENTS", CUPTI + "CUDA_EVENT"
CALLCHAINS = "SAMPLING_CALLCHAINS"
NEXT = 'LEAD(start) OVER (PARTITION BY globalTid ORDER BY start) AS "end"'
SCHEDULED = f"SELECT globalTid, start, isSchedIn, threadState, {NEXT} FROM SCHED_EVENTS WHERE {OF_THREADS}"  # noqa: S608
NOT_SCHEDULED = f'SELECT * FROM ({SCHEDULED}) WHERE isSchedIn = 0 AND "end" > start'  # noqa: S608
SAMPLES = (
    f"SELECT globalTid, start, symbol, module, {NEXT} FROM COMPOSITE_EVENTS JOIN {CALLCHAINS} USING (id) "  # noqa: S608
    f"WHERE stackDepth = 0 AND {OF_THREADS}"
)
UNNAMED = {KERNELS: "unnamed kernel", CALLS: "unnamed CUDA call"}
"""What rows are called whose names are not in the file: when they ran is known, and what launched them."""
GPU_TABLES = (KERNELS, GRAPHS, COPIES, SETS)

SOURCES: tuple[Source, ...] = (
    Source(
        KERNELS, "kernel", _by_id(unnamed=UNNAMED[KERNELS]),
        {**ON_STREAM, "name": "demangledName|shortName|mangledName"},
        {**OF_GRAPH, **{key: key for key in ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")},
         "registers per thread": "registersPerThread", "shared memory": "staticSharedMemory",
         "dynamic shared memory": "dynamicSharedMemory"},
    ),
    Source(GRAPHS, "kernel", _graph_names, {**ON_STREAM, "graph": "graphId"}),
    Source(
        COPIES, "gpu_memcpy", _copy_names,
        {**ON_STREAM, "way": "copyKind", "source": "srcKind", "target": "dstKind", "bytes": "bytes"}, OF_GRAPH,
    ),
    Source(SETS, "gpu_memset", _set_names, {**ON_STREAM, "memory": "memKind", "bytes": "bytes"}, OF_GRAPH),
    Source(
        CALLS, "cuda_runtime", _by_id(call_name, UNNAMED[CALLS]), {**ON_THREAD, "correlation": "correlationId"},
        {"result": "returnValue"},
    ),
    Source(
        SYNCS, "cuda_sync", _fixed("Event Sync"),
        {**ON_STREAM, "kind": "syncType|deprecatedSyncType", "event": "eventId", "event sync": "eventSyncId"},
    ),
    Source(
        RANGES, "user_annotation", _range_names,
        {"thread": "globalTid", "name": "textId", "type": "eventType", "domain": "domainId"},
        texts={"text": '"text"'},
        where=f'"eventType" IN ({RANGE_TYPES})',
    ),
    *(Source(table, "user_annotation", _by_id(), ON_THREAD) for table in LIBRARY_TABLES),
    Source("OSRT_API", "os_call", _by_id(), ON_THREAD, where=OF_THREADS),
    Source(
        "SCHED_EVENTS", "os_call", _state_names, {"thread": "globalTid", "state": "threadState"},
        rows=NOT_SCHEDULED,
        needs={"SCHED_EVENTS": ("start", "globalTid", "isSchedIn", "threadState")},
    ),
    Source(
        "COMPOSITE_EVENTS", "python_function", _sample_names,
        {"thread": "globalTid", "name": "symbol", "module": "module"},
        rows=SAMPLES,
        needs={"COMPOSITE_EVENTS": ("id", "start", "globalTid"), CALLCHAINS: ("id", "symbol", "module", "stackDepth")},
        shape=_end_samples,
    ),
    Source("PROFILER_OVERHEAD", "overhead", _by_id(), ON_THREAD),
    Source(CUPTI + "OVERHEAD", "overhead", _by_id(), ON_THREAD),
    Source(
        "CUDA_UM_GPU_PAGE_FAULT_EVENTS", "overhead", _fixed("GPU page faults"),
        {"process": "globalPid", "device": "deviceId", "bytes": "numberOfPageFaults"},
    ),
)  # fmt: skip
"""In the order of the rows of a trace."""
