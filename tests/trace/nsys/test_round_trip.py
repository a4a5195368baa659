"""The events of a Kineto trace in Nsight Systems' tables give the graph that they gave, from the other profiler's file.

The exports are made by ``tests/support/kineto_as_nsys.py``.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import analyses
import hta_graph as hg
from tests.support.command_line import run_command, two_steps
from tests.support.compare_traces import differences_but_places
from tests.support.full_export import full_export as full_program
from tests.support.kineto_as_nsys import as_recorded_by_nsys, can_be_exported, path_of, write_as_nsys
from tests.support.kineto_output import rewritten
from tests.support.made_nsys import NsysBuilder
from tests.support.shared_traces import shared_traces
from tests.support.trace_builder import TraceBuilder

SAMPLE = Path(analyses.__file__).parent / "sample" / "sample_trace.json.gz"


def program(**header: object) -> TraceBuilder:
    """Steps, backward operators, copies to the host, waits of streams and of the host, two threads, two streams."""
    trace = two_steps()
    trace.header = header
    trace.op("aten::mm", 122, 128, **{"Sequence number": 4, "External id": 91, "Input Dims": [[2, 3], []]})
    trace.launch("gemm<float>(float*, int)", (123, 125), (126, 190), 41)
    trace.call("cudaEventRecord", 128, 129, 42)
    trace.call("cudaStreamWaitEvent", 130, 131, 43)
    trace.sync_row("Stream Wait Event", 130, 131, 43, stream=8, wait_on_stream=7, record=42)
    ids = {"Sequence number": 4, "Fwd thread id": 1, "External id": 93}
    trace.op("autograd::engine::evaluate_function: MmBackward0", 131, 150, tid=2, **ids)
    trace.launch("backward", (133, 135), (192, 240), 44, stream=8, tid=2)
    trace.call("cudaMemcpyAsync", 136, 140, 45, tid=2)
    trace.copy("Memcpy DtoH (Device -> Pinned)", 241, 243, 45, stream=8, bytes=4096)
    trace.call("cuLaunchKernelEx", 141, 142, 46, tid=2)
    trace.kernel("triton_poi_fused_0", 244, 250, 46, stream=8, grid=[1, 2, 3], block=[32, 1, 1])
    trace.call("cudaStreamSynchronize", 151, 255, 47)
    trace.sync_row("Stream Sync", 151, 252, 47, stream=8)
    trace.op("aten::item", 257, 260, **{"External id": 92})
    return trace


def trace_of(tmp_path: Path, **header: object) -> hg.Trace:
    return hg.read_trace(program(**header).write(tmp_path / "trace.json"))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("schema", ["3.25", "3.11", "2.7"])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_program_has_one_path_whichever_profiler_recorded_it(tmp_path: Path, schema: str, reverse: bool) -> None:
    base = {"baseTimeNanoseconds": 1_719_853_884_000_000_000}
    trace = trace_of(tmp_path, distributedInfo={"rank": 1, "world_size": 2}, **base)
    found = hg.read_trace(write_as_nsys(trace, tmp_path / "trace.sqlite", schema=schema, reverse=reverse))
    assert (found.rank, found.world_size) == (1, 2)
    one, other = hg.build_graph(as_recorded_by_nsys(trace)), hg.build_graph(found)
    assert path_of(one) == path_of(other)
    assert one.edge_counts() == other.edge_counts()


def test_times_without_a_date_stay_as_they_are(tmp_path: Path) -> None:
    trace = trace_of(tmp_path)
    found = hg.read_trace(write_as_nsys(trace, tmp_path / "trace.sqlite"))
    assert int(found.events.start.min()) == int(trace.events.start.min())


def test_the_sample_has_one_path_whichever_profiler_recorded_it(tmp_path: Path) -> None:
    trace = hg.read_trace(SAMPLE)
    found = hg.read_trace(write_as_nsys(trace, tmp_path / "trace.sqlite"))
    assert path_of(hg.build_graph(as_recorded_by_nsys(trace))) == path_of(hg.build_graph(found))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("schema", ["3.25", "3.11", "2.7"])
def test_an_export_written_as_kineto_is_an_equal_graph(tmp_path: Path, schema: str) -> None:
    recorded = write_as_nsys(trace_of(tmp_path), tmp_path / "trace.sqlite", schema=schema)
    all_tables = full_program(schema=schema).write(tmp_path / "all.sqlite")
    for path in (recorded, all_tables):
        graph = hg.build_graph(hg.read_trace(path))
        again = rewritten(graph, tmp_path)
        assert not list(differences_but_places(graph, again))
        assert again.trace.settings["recorder"] == graph.trace.settings["recorder"]


def two_processes() -> NsysBuilder:
    """Two ranks that exchange twice; the second one is late to the first exchange."""
    made = NsysBuilder()
    for rank in range(2):
        made.use(pid=144 + rank, device=rank, context=rank + 1)
        made.process()
        made.thread("pt_main_thread")
        for at in range(2):
            start, late = 1_000 + 1_000_000 * at, 300_000 * (rank == 1 and at == 0)
            made.op("aten::mm", start, start + 20_000, op_id=2 * at + 1, seq=at)
            made.launch("gemm", (start + 1_000, start + 5_000), (start + 10_000, start + 50_000 + late), 2 * at + 1)
            made.nccl("ncclAllReduce", start + 21_000, start + 24_000, "reduce", 9, 4096, 0)
            end = start + 500_000
            made.launch(
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                (start + 22_000, start + 23_000), (start + 60_000 + late, end), 2 * at + 2,
            )  # fmt: skip
    return made


def test_each_process_of_an_export_is_a_kineto_trace_of_its_own(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path, folder = two_processes().write(tmp_path / "job.sqlite"), tmp_path / "ranks"
    folder.mkdir()
    assert run_command(capsys, "graph", path, "--kineto", folder)[0] == 0
    assert hg.critical_path(hg.read_job(folder)).by_rank_ns == hg.critical_path(hg.read_job(path)).by_rank_ns
    graphs = list(hg.read_graphs([path]))
    for graph in graphs:
        again = hg.build_graph(hg.read_trace(folder / f"rank_{graph.rank}.json.gz"))
        assert not list(differences_but_places(graph, again))
    rows = json.loads(gzip.decompress((folder / "rank_1.json.gz").read_bytes()))["traceEvents"]
    names = {(row["pid"], row["args"]["name"]) for row in rows if row["name"] == "thread_name"}
    assert names == {(145, "pt_main_thread")}


CUDA_TRACES = [path for path in shared_traces() if not path.parent.name.startswith(("mtia", "vllm", "ascend", "cpu"))]


@pytest.mark.slow
@pytest.mark.parametrize("path", CUDA_TRACES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_real_program_has_one_path_whichever_profiler_recorded_it(tmp_path: Path, path: Path) -> None:
    trace = hg.read_trace(path)
    if not can_be_exported(trace):
        pytest.skip("it has no rows of CUPTI")
    found = hg.build_graph(hg.read_trace(write_as_nsys(trace, tmp_path / "trace.sqlite")))
    assert path_of(hg.build_graph(as_recorded_by_nsys(trace))) == path_of(found)
    assert not list(differences_but_places(found, rewritten(found, tmp_path)))
