"""Traces that have very much of one thing: steps, streams, threads, waits, names, rows at one time, files.

Each is written row by row, so that a trace of ten million events takes no memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["FOLDERS", "SHAPES", "Shape", "write_folder", "write_shape"]

PIECE = 20_000
"""How many things' rows are written at once."""

START_US = 1_000_000
CPU = '{"ph":"X","cat":"%s","name":"%s","pid":1,"tid":%d,"ts":%d,"dur":%d,"args":{"External id":%d}}'
CALL = '{"ph":"X","cat":"cuda_runtime","name":"%s","pid":1,"tid":%d,"ts":%d,"dur":%d,"args":{"correlation":%d}}'
KERNEL = (
    '{"ph":"X","cat":"kernel","name":"%s","pid":0,"tid":%d,"ts":%d,"dur":%d,"args":{"device":0,"context":1,'
    '"stream":%d,"correlation":%d}}'
)
RECORD = (
    '{"ph":"X","cat":"cuda_sync","name":"%s","pid":0,"tid":%d,"ts":%d,"dur":%d,"args":{"device":0,"context":1,'
    '"stream":%d,"correlation":%d,"cuda_sync_kind":"%s"%s}}'
)
FLOW = '{"ph":"%s","id":%d,"pid":%d,"tid":%d,"ts":%d,"cat":"%s","name":"%s"%s}'
METADATA = '{"ph":"M","name":"%s","pid":%d,"tid":%d,"ts":0,"args":{"%s":%s}}'
MEMORY = (
    '{"ph":"i","cat":"cpu_instant_event","name":"[memory]","s":"t","pid":1,"tid":1,"ts":%d,"args":'
    '{"Total Allocated":%d,"Total Reserved":%d,"Bytes":%d,"Addr":%d,"Device Id":0,"Device Type":1}}'
)
COLLECTIVE = (
    '{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum_f32_RING_LL","pid":0,"tid":20,"ts":%d,"dur":%d,'
    '"args":{"device":0,"context":1,"stream":20,"correlation":%d,"Collective name":"allreduce","In msg nelems":1024,'
    '"Out msg nelems":1024,"Group size":%d,"dtype":"Float",'
    '"Process Group Name":"0","Process Group Ranks":"%s","Seq":%d}}'
)

Rows = Callable[[range, int], Iterator[str]]
"""The rows of the things of a range, of so many in all."""


@dataclass(frozen=True)
class Shape:
    """A trace that has very many of one thing: how many, which rows they are, and how its commands are asked."""

    name: str
    of: str
    size: int
    rows: Rows


def _launched(at: int, thread: int, start: int, kernel: str, stream: int, op: str = "aten::mm") -> Iterator[str]:
    """An operator that launches a kernel: 4 µs on the CPU, 3 on the GPU."""
    yield CPU % ("cpu_op", op, thread, start, 4, at + 1)
    yield CALL % ("cudaLaunchKernel", thread, start + 1, 2, at + 1)
    yield KERNEL % (kernel, stream, start + 3, 3, stream, at + 1)


def _plain(things: range, _: int) -> Iterator[str]:
    for at in things:
        start = START_US + 10 * at
        if at % 1_000 == 0:
            yield CPU % ("user_annotation", f"ProfilerStep#{at // 1_000}", 1, start, 9_999, 0)
        if at % 10 == 0:
            yield CPU % ("user_annotation", f"block {at // 10 % 20}", 1, start, 99, 0)
        yield from _launched(at, 1, start, f"gemm_{at % 40}", 7 + at % 2, f"aten::op_{at % 30}")


def _steps(things: range, _: int) -> Iterator[str]:
    for at in things:
        yield CPU % ("user_annotation", f"ProfilerStep#{at}", 1, START_US + 10 * at, 9, 0)
        yield from _launched(at, 1, START_US + 10 * at, "gemm", 7)


def _streams(things: range, _: int) -> Iterator[str]:
    for at in things:
        yield from _launched(at, 1, START_US + 10 * at, "gemm", 7 + at)


def _threads(things: range, _: int) -> Iterator[str]:
    for at in things:
        yield METADATA % ("thread_name", 1, 1 + at, "name", f'"thread {at}"')
        yield from _launched(at, 1 + at, START_US + 10 * at, "gemm", 7)


def _stream_waits(things: range, _: int) -> Iterator[str]:
    for at in things:
        start, first = START_US + 20 * at, 5 * at
        yield from _launched(first, 1, start, "gemm", 7)
        yield CALL % ("cudaEventRecord", 1, start + 5, 1, first + 2)
        yield CALL % ("cudaStreamWaitEvent", 1, start + 7, 1, first + 3)
        further = (
            f',"wait_on_stream":7,"wait_on_cuda_event_record_corr_id":{first + 2},"wait_on_cuda_event_id":{at + 1}'
        )
        yield RECORD % ("Stream Wait Event", 8, start + 7, 1, 8, first + 3, "Stream Wait Event", further)
        yield from _launched(first + 3, 1, start + 9, "add", 8)


def _host_waits(things: range, _: int) -> Iterator[str]:
    calls = (
        ("cudaEventSynchronize", "Event Sync"),
        ("cudaStreamSynchronize", "Stream Sync"),
        ("cudaDeviceSynchronize", "Context Sync"),
    )
    for at in things:
        start, first, (call, kind) = START_US + 20 * at, 5 * at, calls[at % 3]
        yield from _launched(first, 1, start, "gemm", 7)
        yield CALL % ("cudaEventRecord", 1, start + 5, 1, first + 2)
        yield CALL % (call, 1, start + 7, 2, first + 3)
        further = f',"wait_on_stream":7,"wait_on_cuda_event_record_corr_id":{first + 2}' if at % 3 == 0 else ""
        yield RECORD % (kind, 7, start + 7, 1, 7 if at % 3 else -1, first + 3, kind, further)


def _waits_not_recorded(things: range, _: int) -> Iterator[str]:
    for at in things:
        start, first = START_US + 20 * at, 5 * at
        yield from _launched(first, 1, start, "gemm", 7 + at % 4)
        yield CALL % ("cudaEventRecord", 1, start + 5, 1, first + 2)
        yield CALL % (("cudaStreamWaitEvent", "cudaEventSynchronize")[at % 2], 1, start + 7, 2, first + 3)


def _piled_waits(things: range, total: int) -> Iterator[str]:
    if things.start == 0:
        yield from _launched(0, 1, START_US, "gemm", 7)
        yield from _launched(3 * total + 1, 1, START_US + 10 * total + 20, "add", 9)
    for at in things:
        start, record, stream = START_US + 10 * (at + 1), 3 * at + 2, 7 + at % 2
        yield CALL % ("cudaEventRecord", 1, start, 1, record)
        yield CALL % ("cudaStreamWaitEvent", 1, start + 2, 1, record + 1)
        further = f',"wait_on_stream":{stream},"wait_on_cuda_event_record_corr_id":{record}'
        waiting = stream + 1
        yield RECORD % ("Stream Wait Event", waiting, start + 2, 1, waiting, record + 1, "Stream Wait Event", further)


def _graph_launch(things: range, total: int) -> Iterator[str]:
    if things.start == 0:
        yield CPU % ("cpu_op", "replay", 1, START_US, 10, 1)
        yield CALL % ("cudaGraphLaunch", 1, START_US + 1, 8, 1)
        yield CALL % ("cudaDeviceSynchronize", 1, START_US + 20, 10 * total, 2)
    for at in things:
        yield KERNEL % (f"gemm_{at % 50}", 7 + at % 4, START_US + 10 + 10 * at, 9, 7 + at % 4, 1)


def _nested_annotations(things: range, _: int) -> Iterator[str]:
    for at in things:
        depth, start = at % 100, START_US + 300 * (at // 100)
        yield CPU % ("user_annotation", f"level {depth}", 1, start + depth, 250 - 2 * depth, 0)
        if depth == 99:
            yield from _launched(at, 1, start + 110, "gemm", 7)


def _one_nest(things: range, total: int) -> Iterator[str]:
    for at in things:
        name = f"train.py({at % 900}): call_{at % 300}"
        yield CPU % ("python_function", name, 1, START_US + at, 2 * (total - at) + 10, 0)
    if things.stop == total:
        yield from _launched(0, 1, START_US + total + 2, "gemm", 7)


def _names(things: range, _: int) -> Iterator[str]:
    for at in things:
        yield from _launched(at, 1, START_US + 10 * at, f"kernel_{at}<float, {at}>", 7, f"custom::op_{at}")


def _metadata(things: range, total: int) -> Iterator[str]:
    for at in things:
        yield METADATA % ("process_name", 10 + at, 0, "name", f'"process {at}"')
        yield METADATA % ("process_labels", 10 + at, 0, "labels", '"CPU"')
        yield METADATA % ("process_sort_index", 10 + at, 0, "sort_index", at)
        yield METADATA % ("thread_name", 1, 10 + at, "name", f'"thread {at}"')
        yield METADATA % ("thread_sort_index", 1, 10 + at, "sort_index", at)
    if things.stop == total:
        yield from _launched(0, 1, START_US, "gemm", 7)


def _flows(things: range, total: int) -> Iterator[str]:
    if things.start == 0:
        yield from _launched(0, 1, START_US, "gemm", 7)
        yield CPU % ("cpu_op", "AddBackward0", 2, START_US + 20, 10 * total, 2)
    for at in things:
        yield FLOW % ("s", 1, 1, 1, START_US + 1, "ac2g", "ac2g", "")
        yield FLOW % ("f", 1, 0, 7, START_US + 3, "ac2g", "ac2g", ',"bp":"e"')
        yield FLOW % ("s", 2 + at, 1, 1, START_US, "fwdbwd", "fwdbwd", "")
        yield FLOW % ("f", 2 + at, 1, 2, START_US + 20, "fwdbwd", "fwdbwd", ',"bp":"e"')


def _one_correlation(things: range, total: int) -> Iterator[str]:
    if things.start == 0:
        yield CPU % ("cpu_op", "aten::mm", 1, START_US, 4, 1)
    for at in things:
        yield CALL % ("cudaLaunchKernel", 1, START_US + 10 * at, 2, 1)
        yield KERNEL % ("gemm", 7, START_US + 10 * at + 3, 3, 7, 1)


def _ties(things: range, _: int) -> Iterator[str]:
    for at in things:
        duration = at % 2
        yield CPU % ("cpu_op", f"aten::op_{at % 5}", 1, START_US, duration, at + 1)
        yield CALL % ("cudaLaunchKernel", 1, START_US, duration, at + 1)
        yield KERNEL % ("gemm", 7, START_US, duration, 7, at + 1)


def _crossing(things: range, _: int) -> Iterator[str]:
    for at in things:
        yield CPU % ("cpu_op", "aten::mm", 1, START_US + 10 * at, 1_005, at + 1)
        yield CALL % ("cudaLaunchKernel", 1, START_US + 10 * at + 1, 1_005, at + 1)
        yield KERNEL % ("gemm", 7, START_US + 10 * at + 3, 1_007, 7, at + 1)


def _all_crossing(things: range, total: int) -> Iterator[str]:
    for at in things:
        yield CPU % ("cpu_op", "aten::mm", 1, START_US + 2 * at, 2 * total, at + 1)
        yield KERNEL % ("gemm", 7, START_US + 2 * at + 1, 2 * total, 7, at + 1)


def _allocations(things: range, _: int) -> Iterator[str]:
    for at in things:
        size = 512 if at % 2 == 0 else -512
        yield CPU % ("cpu_op", "aten::empty", 1, START_US + 4 * at, 3, at + 1)
        yield MEMORY % (START_US + 4 * at + 1, 4096 + (512 if at % 2 == 0 else 0), 1 << 20, size, 4096 + at // 2 * 512)
    if things.start == 0:
        yield from _launched(0, 1, START_US, "gemm", 7)


def _copies(things: range, _: int) -> Iterator[str]:
    copy = (
        '{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Pinned -> Device)","pid":0,"tid":9,"ts":%d,"dur":3,"args":'
        '{"device":0,"context":1,"stream":9,"correlation":%d,"bytes":4096,"memory bandwidth (GB/s)":1.3}}'
    )
    for at in things:
        yield CALL % ("cudaMemcpyAsync", 1, START_US + 10 * at, 2, at + 1)
        yield copy % (START_US + 10 * at + 3, at + 1)


def _queued(things: range, total: int) -> Iterator[str]:
    for at in things:
        yield CALL % ("cudaLaunchKernel", 1, START_US + 3 * at, 2, at + 1)
        yield KERNEL % ("gemm", 7, START_US + 3 * total + 3 * at, 3, 7, at + 1)


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("plain", "operators of a usual step", 40_000, _plain),
        Shape("steps", "profiler steps", 10_000, _steps),
        Shape("asked_steps", "profiler steps, asked about one by one", 600, _steps),
        Shape("streams", "streams of a GPU", 4_000, _streams),
        Shape("threads", "threads", 10_000, _threads),
        Shape("stream_waits", "waits of streams, recorded", 10_000, _stream_waits),
        Shape("host_waits", "waits of the host, recorded", 10_000, _host_waits),
        Shape("waits_not_recorded", "waits without a record", 10_000, _waits_not_recorded),
        Shape("piled_waits", "waits without work behind them", 10_000, _piled_waits),
        Shape("graph_launch", "kernels of one graph launch", 50_000, _graph_launch),
        Shape("nested_annotations", "annotations, a hundred deep", 50_000, _nested_annotations),
        Shape("one_nest", "Python frames in one another", 50_000, _one_nest),
        Shape("names", "names of operators and kernels", 10_000, _names),
        Shape("metadata", "processes and threads that are named", 20_000, _metadata),
        Shape("flows", "arrows from one event", 20_000, _flows),
        Shape("one_correlation", "launches of one correlation id", 10_000, _one_correlation),
        Shape("ties", "operators at one time", 20_000, _ties),
        Shape("crossing", "rows that cross a hundred others", 10_000, _crossing),
        Shape("all_crossing", "rows that all cross", 10_000, _all_crossing),
        Shape("allocations", "allocations", 20_000, _allocations),
        Shape("copies", "copies", 20_000, _copies),
        Shape("queued", "launches before the first kernel ends", 20_000, _queued),
    )
}
"""The traces of one file."""


def write_shape(shape: Shape, size: int, path: Path) -> Path:
    """Write the trace of so many things."""
    with path.open("w", encoding="utf-8") as file:
        file.write('{"schemaVersion":1,"deviceProperties":[{"id":0,"name":"GPU"}],"traceEvents":[\n')
        for first in range(0, size, PIECE):
            rows = shape.rows(range(first, min(first + PIECE, size)), size)
            file.write((",\n" if first else "") + ",\n".join(rows))
        file.write("\n]}\n")
    return path


Texts = Callable[[int, int], str]
"""The text of a file of a folder, of so many in all."""


def _rank_text(at: int, total: int, *, header: bool = True, collectives: int = 4) -> str:
    """A rank that meets all others a few times."""
    ranks = "[" + ", ".join(map(str, range(total))) + "]"
    rows = [CPU % ("user_annotation", "ProfilerStep#1", 1, START_US, 100 * collectives, 0)]
    for number in range(collectives):
        start = START_US + 100 * number + at % 13
        rows += _launched(2 * number, 1, start, "gemm", 7)
        rows.append(CALL % ("cudaLaunchKernelExC", 1, start + 5, 2, 2 * number + 2))
        last = START_US + 100 * number + 40
        rows.append(COLLECTIVE % (start + 8, last - start - 8, 2 * number + 2, total, ranks, number))
    told = {"distributedInfo": {"backend": "nccl", "rank": at, "world_size": total}} if header else {}
    return json.dumps({"schemaVersion": 1, **told})[:-1] + ', "traceEvents": [\n' + ",\n".join(rows) + "\n]}\n"


def _rank_of_few(at: int, total: int) -> str:
    """A rank that tells a small group only, so that the text of a file does not grow with how many there are."""
    return _rank_text(at % 8, 8).replace('"rank": ' + str(at % 8), '"rank": ' + str(at), 1)


def _nameless_text(at: int, total: int) -> str:
    return _rank_text(at % 8, 8, header=False)


def _half_broken(at: int, total: int) -> str:
    broken = (
        '{"traceEvents": []}',  # a trace without rows
        '{"kind": "settings"}',  # no trace
        "[1, 2, 3]",
        '{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "cpu_op", "na',
        "",
        "plain text",
    )
    return _rank_of_few(at, total) if at % 2 == 0 else broken[at // 2 % len(broken)]


def _no_trace(at: int, _: int) -> str:
    return ('{"kind": "settings"}', "[1, 2, 3]", "plain text", "")[at % 4]


FOLDERS: dict[str, tuple[int, Texts]] = {
    "ranks": (60, _rank_text),
    "small_ranks": (80, _rank_of_few),
    "nameless_files": (80, _nameless_text),
    "half_broken_files": (80, _half_broken),
    "no_traces": (1_000, _no_trace),
}
"""The folders of very many files: how many, and what is in each."""


def write_folder(name: str, size: int, folder: Path) -> Path:
    """Write a folder of so many files."""
    folder.mkdir()
    text_of = FOLDERS[name][1]
    for at in range(size):
        (folder / f"file_{at:05}.json").write_text(text_of(at, size), encoding="utf-8")
    return folder
