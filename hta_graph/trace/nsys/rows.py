"""An export → rows as Kineto writes them, with arguments: what Perfetto opens, and where arguments are looked up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, TypeVar

import msgspec

from hta_graph.base.storage.location import Location
from hta_graph.model import Ids
from hta_graph.trace.nsys.columns import thread_name, thread_numbers
from hta_graph.trace.nsys.database import Database
from hta_graph.trace.nsys.export import THREAD_MASK, Export
from hta_graph.trace.nsys.sources import CALLS, KERNELS, NO_TIME, RANGES, START_END, SYNCS, THREAD_BITS, SourceRows

JsonRow = dict[str, Any]
AnyRow = TypeVar("AnyRow")
PIECE_ROWS = 1 << 12


def _times(batch: SourceRows) -> Iterator[JsonRow]:
    """Yield the times of rows in µs, as JSON has them; nothing where there is none."""
    for start, end in zip(batch["start"].tolist(), batch["end"].tolist(), strict=True):
        if start == NO_TIME or end == NO_TIME:
            yield {}
        else:
            yield {"ts": start / 1000, "dur": (end - start) / 1000}


def _stream_args(batch: SourceRows) -> Iterator[JsonRow]:
    names = ("device", "context", "stream", "correlation")
    columns = [batch[name].tolist() for name in names]
    extra = {name: batch[name].tolist() for name in ("bytes", "graph", "graph node", *GPU_DETAILS)}
    length = (batch["end"] - batch["start"]).tolist()
    for at, found in enumerate(zip(*columns, strict=True)):
        args = {name: value for name, value in zip(names, found, strict=True) if name != "correlation" or value > 0}
        args |= {ARG_OF.get(name, name): values[at] for name, values in extra.items() if values[at] >= 0}
        if "bytes" in args and length[at] > 0:
            args["memory bandwidth (GB/s)"] = args["bytes"] / length[at]
        yield args


GPU_DETAILS = ("registers per thread", "shared memory", "dynamic shared memory")
ARG_OF = {"graph": "graph id", "graph node": "graph node id"}


def _kernel_args(batch: SourceRows) -> Iterator[JsonRow]:
    grids = [list(zip(*(batch[f"{kind}{axis}"].tolist() for axis in "XYZ"), strict=True)) for kind in ("grid", "block")]
    known = batch.texts.get("arguments") or [None] * len(batch)
    for args, grid, block, collective in zip(_stream_args(batch), *grids, known, strict=True):
        shape = {"grid": list(grid), "block": list(block)} if min(*grid, *block) >= 0 else {}
        yield {**args, **shape, **(collective or {})}


def _sync_args(batch: SourceRows) -> Iterator[JsonRow]:
    columns = (batch["event"].tolist(), batch["record stream"].tolist(), batch["record"].tolist())
    for args, name, event, stream, record in zip(_stream_args(batch), batch.names, *columns, strict=True):
        found = {"wait_on_stream": stream, "wait_on_cuda_event_record_corr_id": record, "wait_on_cuda_event_id": event}
        yield {**args, "cuda_sync_kind": name, **{key: value for key, value in found.items() if value >= 0}}


def _call_args(batch: SourceRows) -> Iterator[JsonRow]:
    for correlation, result in zip(batch["correlation"].tolist(), batch["result"].tolist(), strict=True):
        yield {key: value for key, value in (("correlation", correlation), ("result", result)) if value > 0}


def _range_args(batch: SourceRows) -> Iterator[JsonRow]:
    columns = [batch[name].tolist() for name in ("is operator", "sequence", "operator", "domain", "type")]
    texts = batch.texts.get("text") or [None] * len(batch)
    for text, is_operator, sequence, number, domain, kind in zip(texts, *columns, strict=True):
        args = {}
        if is_operator:
            args = {key: value for key, value in (("External id", number), ("Sequence number", sequence)) if value >= 0}
            if sizes := input_sizes(text):
                args["Input Dims"] = sizes
        elif domain > 0:
            args["domain"] = domain
        yield {**args, "range": "start/end"} if kind in START_END else args


def input_sizes(text: object) -> list[Any] | None:
    """Return the sizes of inputs that PyTorch appends to a range's text.

    >>> input_sizes("aten::mm, op_id = 3, sizes = [[2, 3], [], [[4], [5]]]"), input_sizes("aten::mm")
    ([[2, 3], [], [[4], [5]]], None)
    """
    _, mark, rest = str(text or "").partition(", sizes = ")
    try:
        found = msgspec.json.decode(rest.partition(", input_op_ids = ")[0]) if mark else None
    except msgspec.DecodeError:
        return None
    return found if isinstance(found, list) else None


ARGUMENTS: dict[str, Callable[[SourceRows], Iterator[JsonRow]]] = {
    KERNELS: _kernel_args, SYNCS: _sync_args, CALLS: _call_args, RANGES: _range_args,
}  # fmt: skip


def _no_args(batch: SourceRows) -> Iterator[JsonRow]:
    return ({} for _ in batch.names)


def _categories(batch: SourceRows) -> list[str]:
    if batch.source.table == RANGES:
        return [
            "cpu_op" if is_operator else batch.source.category for is_operator in (batch["is operator"] > 0).tolist()
        ]
    if batch.source.table == CALLS:
        return ["cuda_driver" if name[2:3].isupper() else batch.source.category for name in batch.names]
    return [batch.source.category] * len(batch)


class _Writer:
    """Makes rows of batches; in an export with multiple ranks each process is named with its rank."""

    def __init__(self, export: Export) -> None:
        several = len(export.processes) > 1
        self._suffix = {process.key: f" (rank {process.rank})" if several else "" for process in export.processes}
        self._export = export

    def _pid(self, process: int, number: int) -> int | str:
        suffix = self._suffix[process]
        return f"{number}{suffix}" if suffix else number

    def rows(self, batch: SourceRows) -> Iterator[JsonRow]:
        """Yield the rows of a batch."""
        on_stream = "stream" in batch.numbers
        arguments = ARGUMENTS.get(batch.source.table, _stream_args if on_stream else _no_args)(batch)
        if on_stream:
            places = zip(batch["device"].tolist(), batch["stream"].tolist(), strict=True)
        else:
            places = zip(
                (batch["process"] & THREAD_MASK).tolist(), map(thread_name, thread_numbers(batch).tolist()), strict=True
            )
        processes = batch["process"].tolist()
        parts = zip(_categories(batch), batch.names, processes, places, _times(batch), arguments, strict=True)
        for kind, name, process, (pid, tid), times, args in parts:
            place = {"pid": self._pid(process, pid), "tid": tid}
            yield {"ph": "X", "cat": kind, "name": name, **place, **times, "args": args}

    def metadata(self) -> Iterator[JsonRow]:
        """Yield what processes and threads are called."""
        for process in self._export.processes:
            whose = f"rank {process.rank}: " if self._suffix[process.key] else ""
            names = [(process.pid, f"process {process.pid}"), *((at, f"GPU {at}") for at in process.devices)]
            for number, name in names:
                place = {"pid": self._pid(process.key, number), "tid": 0}
                yield {"ph": "M", "name": "process_name", **place, "args": {"name": f"{whose}{name}"}}
        for thread, name in self._export.thread_names():
            key = thread >> THREAD_BITS
            if key in self._suffix and name:
                place = {"pid": self._pid(key, key & THREAD_MASK), "tid": thread & THREAD_MASK}
                yield {"ph": "M", "name": "thread_name", **place, "args": {"name": name}}


def read_rows(
    path: Location, wanted: Ids, make: Callable[[JsonRow], AnyRow], *, salvage: bool = False
) -> tuple[dict[int, AnyRow], dict[str, Any]]:
    """Return what is made of the rows at some places (ascending) of an export, and its header.

    Raises:
        TraceError: the file is damaged.
    """
    with Database(path, salvage=salvage) as database:
        export = Export(database)
        writer = _Writer(export)
        found: dict[int, AnyRow] = {}
        for batch in export.batches(rows=wanted, detailed=True) if len(wanted) else ():
            found.update(zip(batch["index"].tolist(), map(make, writer.rows(batch)), strict=True))
            if batch["index"][-1] == wanted[-1]:
                break
        return found, export.header()


def kineto_text(path: Location) -> Iterator[bytes]:
    """Yield an export as the text of a Kineto trace, in pieces: with multiple ranks as tools that merge ranks write it.

    Raises:
        TraceError: the file is damaged.
    """
    with Database(path) as database:
        export = Export(database)
        writer = _Writer(export)
        header = msgspec.json.encode(export.header())
        yield header[:-1] + b',"traceEvents":['
        separator = b""
        for rows in chain(map(writer.rows, export.batches(detailed=True)), [writer.metadata()]):
            while piece := [row for _, row in zip(range(PIECE_ROWS), rows, strict=False)]:
                yield separator + msgspec.json.encode(piece)[1:-1]
                separator = b",\n"
        yield b"]}\n"
