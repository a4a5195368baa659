"""Write a run as a Kineto file of a given dialect."""

import json
import random
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from tests.simulator.dialect import BASE_NS, Dialect, Number
from tests.simulator.run import ACTIVITIES, Constraint, EventKind, Run, SimEvent, SyncRow, constraints_without

Row = dict[str, Any]
CATEGORIES: dict[EventKind, str] = {
    "cpu_op": "cpu_op",
    "annotation": "user_annotation",
    "python_function": "python_function",
    "runtime": "cuda_runtime",
    "kernel": "kernel",
    "memcpy": "gpu_memcpy",
    "memset": "gpu_memset",
    "graph_host_node": "graph_host_node",
    "gpu_annotation": "gpu_user_annotation",
}
# Real old files call annotations "Operator" too; here they keep their name, else they would turn into operators.
OLD_CATEGORIES: dict[EventKind, str] = {
    **CATEGORIES,
    "cpu_op": "Operator",
    "runtime": "Runtime",
    "kernel": "Kernel",
    "memcpy": "Memcpy",
    "memset": "Memset",
}
HIP_CALLS = {
    "cudaMemcpy": "hipMemcpyWithStream",
    "cudaLaunchKernelExC": "hipExtModuleLaunchKernel",
    "cudaHostAlloc": "hipHostMalloc",
}
API_NUMBERS = {
    "cudaMalloc": 20,
    "cudaMemcpy": 31,
    "cudaMemcpyAsync": 41,
    "cudaMemsetAsync": 51,
    "cudaStreamSynchronize": 131,
    "cudaEventRecord": 135,
    "cudaEventSynchronize": 137,
    "cudaEventQuery": 138,
    "cudaStreamWaitEvent": 147,
    "cudaDeviceSynchronize": 165,
    "cudaLaunchKernel": 211,
    "cudaGraphLaunch": 311,
    "cudaLaunchKernelExC": 430,
}
NO_STREAM = (-1, 4_294_967_295)
VIRTUAL_TID = 1_000_000
FIRST_NODE_ARROW = 1 << 40
NO_WORK = 1_000
"""Added to the number of a device or stream: one on which nothing runs."""


@dataclass(frozen=True)
class Written:
    """A file's content; `index_of` leads from uids to positions in `traceEvents`.

    `constraints` are the run's among the events that the file holds.
    """

    document: dict[str, Any]
    index_of: dict[int, int]
    constraints: list[Constraint]


def write(run: Run, dialect: Dialect, lost: Collection[int] = ()) -> Written:
    """Write a run in a dialect, without the rows that a recording lost (uids)."""
    rows = list(_Writer(run, dialect, frozenset(lost)).rows())
    if dialect.shuffle_seed is not None:
        random.Random(dialect.shuffle_seed).shuffle(rows)
    index_of = {uid: index for index, (uid, _) in enumerate(rows) if uid is not None}
    document = _header(dialect)
    document["traceEvents"] = [row for _, row in rows]
    document["traceName"] = "trace.json"
    missing = () if dialect.record_rows else [event.uid for event in run.events if event.uid not in index_of]
    return Written(document, index_of, constraints_without(run, missing) if missing else run.constraints)


def to_bytes(document: dict[str, Any]) -> bytes:
    """Return a document as JSON text in which exact numbers keep all their digits."""
    text = json.dumps(document)
    return re.sub(r'"\\u0001([\d.]+)"', r"\1", text).encode()


def _header(dialect: Dialect) -> dict[str, Any]:
    device = {"id": 0, "name": "Simulated", "totalGlobalMem": 85_000_000_000, "numSms": 108}
    header: dict[str, Any] = {
        "schemaVersion": 1,
        "deviceProperties": [device],
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1},
    }
    if dialect.time == "us_float_base":
        header |= {"displayTimeUnit": "ms", "baseTimeNanoseconds": BASE_NS}
    return header


class _Writer:
    def __init__(self, run: Run, dialect: Dialect, lost: frozenset[int]) -> None:
        self.run = run
        self.dialect = dialect
        self.lost = lost
        self.old = dialect.external_ids == "old_lowercase"
        self.categories = OLD_CATEGORIES if self.old else CATEGORIES
        calls = (event for event in run.events if event.kind == "runtime" and event.uid not in lost)
        self.calls = {event.correlation: event for event in calls}
        self.end_ns = max((event.end_ns for event in run.events), default=0)
        self.args: dict[EventKind, Callable[[SimEvent], Row]] = {
            "cpu_op": self._op_args,
            "annotation": self._op_args,
            "python_function": self._frame_args,
            "runtime": self._call_args,
            "kernel": self._kernel_args,
            "memcpy": self._copy_args,
            "memset": self._copy_args,
            "graph_host_node": self._place,
            "gpu_annotation": lambda event: {"External id": event.external_id},
        }

    def rows(self) -> Iterator[tuple[int | None, Row]]:
        for row in self._metadata():
            yield None, row
        for event in self.run.events:
            if event.uid not in self.lost and (self.dialect.record_rows or event.name != "cudaEventRecord"):
                yield event.uid, self._event_row(event)
                yield from ((None, row) for row in self._launch_flow(event))
        for row in [*self._sync_rows(), *self._forward_flows(), *self._node_arrows(), *self._marks()]:
            yield None, row

    def _metadata(self) -> Iterator[Row]:
        lanes = sorted({(event.pid, event.tid, event.context is not None) for event in self.run.events})
        for pid, on_gpu in sorted({(pid, on_gpu) for pid, _, on_gpu in lanes}):
            label = f"GPU {pid}" if on_gpu else "CPU"
            yield self._named("process_name", pid, 0, name="python")
            yield self._named("process_labels", pid, 0, labels=label)
            yield self._named("process_sort_index", pid, 0, sort_index=5_000_000 + pid if on_gpu else pid)
        for pid, tid, on_gpu in lanes:
            shown = self._stream(tid) if on_gpu else tid
            name = f"stream {shown} " if on_gpu else f"thread {tid} ({self.run.thread_names[tid]})"
            yield self._named("thread_name", pid, shown, name=name)
            yield self._named("thread_sort_index", pid, shown, sort_index=shown)

    def _named(self, kind: str, pid: int, tid: int, **args: object) -> Row:
        return {"name": kind, "ph": "M", "ts": self._ts(0), "pid": pid, "tid": tid, "args": args}

    def _event_row(self, event: SimEvent) -> Row:
        on_gpu = event.context is not None
        start, end = (self.dialect.absolute_ns(ns, event.device) for ns in (event.start_ns, event.end_ns))
        return {
            "ph": "X",
            "cat": self.categories[event.kind],
            "name": self._name(event),
            "pid": event.pid,
            "tid": self._stream(event.tid) if on_gpu else event.tid,
            "ts": self.dialect.timestamp(start),
            "dur": self.dialect.duration(end - start),
            "args": self.args[event.kind](event) | self._said(event),
        }

    def _said(self, event: SimEvent) -> Row:
        """Return what communicates with whom; a kernel says it only if its operator was recorded."""
        return {} if event.said is None or event.speaker in self.lost else event.said

    def _name(self, event: SimEvent) -> str:
        if self.dialect.vendor == "cuda":
            return event.name
        if event.kind == "runtime":
            return HIP_CALLS.get(event.name, event.name.replace("cuda", "hip", 1))
        return re.sub("Pageable|Pinned", "Host", event.name) if event.kind == "memcpy" else event.name

    def _stream(self, number: int) -> int:
        """Return a stream's number: HIP's default stream is 0, all others keep apart from it."""
        if self.dialect.vendor == "cuda":
            return number
        return 0 if number == 7 else number + 1

    def _op_args(self, event: SimEvent) -> Row:
        args: Row = {"External id": event.external_id, "Record function id": 0}
        if event.sequence is not None:
            args |= {"Sequence number": event.sequence, "Fwd thread id": event.forward_thread}
        return args | {"Ev Idx": event.uid}

    def _frame_args(self, event: SimEvent) -> Row:
        return {"Python parent id": None, "Python id": event.uid + 1, "Ev Idx": event.uid}

    def _call_args(self, event: SimEvent) -> Row:
        args = self._link(event)
        if self.dialect.vendor == "rocm":
            return args | {"cid": 0, "correlation": event.correlation}
        return args | {"cbid": API_NUMBERS.get(event.name, 0), "correlation": event.correlation}

    def _kernel_args(self, event: SimEvent) -> Row:
        geometry = {"registers per thread": 32, "shared memory": 0, "grid": [108, 1, 1], "block": [128, 1, 1]}
        return self._place(event) | geometry

    def _copy_args(self, event: SimEvent) -> Row:
        return self._place(event) | {"bytes": event.end_ns - event.start_ns, "memory bandwidth (GB/s)": 1.0}

    def _place(self, event: SimEvent) -> Row:
        context = {"context": event.context} if self.dialect.vendor == "cuda" else {}
        place = {"device": event.pid, **context, "stream": self._stream(event.tid), "correlation": event.correlation}
        return {**self._link(event), "queued": 0, **place}

    def _link(self, event: SimEvent) -> Row:
        """Return the external id of a call or activity, in one of its three dialects."""
        if self.old:
            return {"external id": event.external_id or 0}
        if self.dialect.external_ids == "correlation":
            return {"External id": event.correlation}
        return {"External id": event.external_id or event.correlation}

    def _launch_flow(self, event: SimEvent) -> Iterator[Row]:
        """Yield the arrow's end at an activity, and its start at the first activity's call."""
        if event.kind not in ACTIVITIES:
            return
        name, category = ("launch", "async") if self.old else ("ac2g", "ac2g")
        call = self.calls.pop(event.correlation, None)
        if call is not None:
            yield self._arrow("s", event.correlation, call, category, name)
        yield self._arrow("f", event.correlation, event, category, name)

    def _forward_flows(self) -> Iterator[Row]:
        for number, flow in enumerate(self.run.flows, 1):
            if self.lost & {flow.forward, flow.backward}:
                continue
            yield self._arrow("s", number, self.run.events[flow.forward], "fwdbwd", "fwdbwd")
            yield self._arrow("f", number, self.run.events[flow.backward], "fwdbwd", "fwdbwd")

    def _node_arrows(self) -> Iterator[Row]:
        """Yield the arrows between the nodes of one graph launch, as PyTorch's Cuspy recorder draws them."""
        for number, (source, target) in enumerate(self._joined_nodes() if self.dialect.node_arrows else ()):
            drawn = FIRST_NODE_ARROW + number
            yield self._arrow("s", drawn, source, "ac2g", "ac2g") | {"ts": self._ts(source.end_ns, source.device)}
            yield self._arrow("f", drawn, target, "ac2g", "ac2g")

    def _joined_nodes(self) -> Iterator[tuple[SimEvent, SimEvent]]:
        for constraint in self.run.constraints:
            source, target = self.run.events[constraint.source], self.run.events[constraint.target]
            is_inside = constraint.kind in ("stream_order", "graph_order") and source.correlation == target.correlation
            if is_inside and not self.lost & {source.uid, target.uid}:
                yield source, target

    def _arrow(self, phase: str, number: int | None, at: SimEvent, category: str, name: str) -> Row:
        on_gpu = at.context is not None
        place = {"pid": at.pid, "tid": self._stream(at.tid) if on_gpu else at.tid}
        arrow = {
            "ph": phase,
            "id": number,
            **place,
            "ts": self._ts(at.start_ns, at.device),
            "cat": category,
            "name": name,
        }
        return arrow | {"bp": "e"} if phase == "f" else arrow

    def _sync_rows(self) -> Iterator[Row]:
        if self.dialect.vendor == "rocm" or self.dialect.sync_rows == "none":
            return
        for row in map(self._as_recorded, self._kept_sync_rows()):
            if row.call in self.lost:
                continue
            call = self.run.events[row.call]
            start, end = (self.dialect.absolute_ns(ns) for ns in (call.start_ns + 1, call.end_ns))
            yield {
                "ph": "X",
                "cat": "synchronization" if self.old else "cuda_sync",
                "name": row.kind,
                "pid": row.device,
                "tid": self._sync_tid(row),
                "ts": self.dialect.timestamp(start),
                "dur": self.dialect.duration(end - start),
                "args": self._sync_args(row, call),
            }

    def _kept_sync_rows(self) -> list[SyncRow]:
        if self.dialect.sync_rows != "half_lost":
            return self.run.sync_rows
        every = enumerate(self.run.sync_rows)
        return [row for number, row in every if row.kind == "Stream Wait Event" or number % 2]

    def _as_recorded(self, row: SyncRow) -> SyncRow:
        """Return a row with the device or the stream that the dialect names instead."""
        if self.dialect.sync_rows == "other_device":
            return row._replace(device=row.device + NO_WORK)
        if self.dialect.sync_rows == "other_stream" and row.kind == "Stream Sync":
            return row._replace(stream=None if row.stream is None else row.stream + NO_WORK)
        if self.dialect.sync_rows == "other_stream" and row.kind == "Event Sync":
            return row._replace(wait_on_stream=None if row.wait_on_stream is None else row.wait_on_stream + NO_WORK)
        return row

    def _sync_tid(self, row: SyncRow) -> int:
        if row.stream is None:
            return -1
        virtual = self.dialect.sync_rows == "virtual_tid" and row.kind == "Stream Sync"
        return row.stream + (VIRTUAL_TID if virtual else 0)

    def _sync_args(self, row: SyncRow, call: SimEvent) -> Row:
        nothing = NO_STREAM[row.call % 2]
        args = self._link(call) | {"cuda_sync_kind": row.kind}
        if row.event is not None:
            known = row.record is not None and self.dialect.sync_rows != "unresolved"
            known = known and row.record not in self.lost
            record = self.run.events[row.record] if row.record is not None and known else None
            args |= {
                "wait_on_stream": row.wait_on_stream if known else nothing,
                "wait_on_cuda_event_record_corr_id": record.correlation if record else nothing,
                "wait_on_cuda_event_id": row.event,
            }
        stream = nothing if row.stream is None else row.stream
        return args | {
            "stream": stream,
            "correlation": call.correlation,
            "device": row.device,
            "context": row.device % NO_WORK + 1,
        }

    def _marks(self) -> Iterator[Row]:
        span = self.dialect.duration(self.dialect.absolute_ns(self.end_ns) - self.dialect.absolute_ns(0))
        place: Row = {"pid": "Spans", "tid": "PyTorch Profiler", "name": "PyTorch Profiler (0)"}
        yield {"ph": "X", "cat": "Trace", "ts": self._ts(0), "dur": span, **place, "args": {"Op count": 0}}
        begin: Row = {"name": "Iteration Start: PyTorch Profiler", "ph": "i", "s": "g", "pid": "Traces"}
        yield begin | {"tid": "Trace PyTorch Profiler", "ts": self._ts(0)}
        end: Row = {"name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": ""}
        yield end | {"ts": self._ts(self.end_ns)}

    def _ts(self, ns: int, device: int | None = None) -> Number:
        return self.dialect.timestamp(self.dialect.absolute_ns(ns, device))
