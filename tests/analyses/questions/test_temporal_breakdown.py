"""The temporal breakdown: an identity on every trace, right on made ones, equal to the exact recomputations."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import hta_graph as hg
from analyses.declare.scope import in_window, per_step, whole
from analyses.hta.breakdowns import hta_temporal_breakdown
from analyses.hta.frame import hta_scopes
from analyses.questions.temporal_breakdown import answer, figure, temporal_breakdown
from hta_graph.paths.windows import between
from tests.simulator import Dialect, random_program, simulate, to_bytes, write
from tests.support.deep_tests import deep
from tests.support.shared_traces import SHARED, graph_of_file
from tests.support.trace_builder import TraceBuilder

PARTS = ["compute_ns", "exposed_communication_ns", "exposed_memory_ns", "idle_ns"]


def test_what_runs_alone_counts_as_exposed(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("gemm", (0, 1), (10, 20), 1)
    trace.launch("ncclDevKernel_AllReduce", (1, 2), (15, 30), 2, stream=8)
    trace.call("cudaMemcpyAsync", 2, 3, 3)
    trace.copy("Memcpy HtoD (Pinned -> Device)", 28, 33, 3, stream=9)
    trace.launch("gemm", (4, 5), (40, 41), 4)
    frame = temporal_breakdown([whole(0, trace.graph(tmp_path))])
    assert frame[["window_ns", *PARTS]].to_numpy().tolist() == [[31_000, 11_000, 10_000, 3_000, 7_000]]


def test_a_window_cuts_what_runs_across_its_ends(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("gemm", (0, 1), (10, 20), 1)
    scope = in_window(0, trace.graph(tmp_path), between(15_000, 25_000))
    assert temporal_breakdown([scope])[["window_ns", *PARTS]].to_numpy().tolist() == [[10_000, 5_000, 0, 0, 5_000]]


def test_a_title_says_that_the_whole_trace_is_that_of_the_gpu(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("gemm", (0, 1), (10, 20), 1)
    graph = trace.graph(tmp_path)
    found = answer([whole(0, graph)])
    assert found.title_of("temporal_breakdown") == "temporal breakdown (first to last GPU activity)"
    window = answer([in_window(0, graph, between(0, 25_000))])
    assert window.title_of("temporal_breakdown") == "temporal breakdown"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", [*range(5), *map(deep, range(5, 20))])
def test_the_parts_sum_to_the_window_on_simulated_programs(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(to_bytes(write(simulate(random_program(seed, "pytorch", 40)), Dialect()).document))
    graph = hg.build_graph(hg.read_trace(path))
    frame = temporal_breakdown([whole(0, graph)])
    assert (frame[PARTS].sum(axis=1) == frame["window_ns"]).all()
    assert (frame[PARTS] >= 0).all(axis=None)


def test_no_gpu_work_is_a_sentence_and_a_picture_without_bars(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("aten::add", 0, 5)
    found = answer([whole(0, trace.graph(tmp_path))])
    assert found.main["window_ns"].tolist() == [0]
    assert "no GPU activity" in found.notes[0]
    assert not figure(found).data
    assert hta_temporal_breakdown([whole(0, trace.graph(tmp_path))]).empty


@pytest.mark.shared
@pytest.mark.slow
def test_every_step_and_trace_is_an_identity(real_traces: list[Path]) -> None:
    for path in real_traces:
        graph = graph_of_file(path)
        scopes = [whole(0, graph), *(per_step(0, graph) if graph.trace.steps() else [])]
        frame = temporal_breakdown(scopes)
        assert (frame[PARTS].sum(axis=1) == frame["window_ns"]).all(), path
        assert (frame[PARTS] >= 0).all(axis=None), path


@pytest.mark.shared
@pytest.mark.parametrize("scope", ["all", "documented_window"])
@pytest.mark.parametrize("name", ["nanogpt_ddp_8xh100", "dlrm_8xv100", "nccl_args_a100", "sync_alexnet_a100"])
def test_the_exact_recomputation_is_met(name: str, scope: str) -> None:
    golden = json.loads((SHARED / "golden" / name / "independent.json").read_text())["ranks"]
    graphs = {trace.rank or 0: hg.build_graph(trace) for trace in hg.read_traces(SHARED / "traces" / name)}
    scopes = [whole(rank, graph) for rank, graph in graphs.items()] if scope == "all" else hta_scopes(graphs)
    for row in temporal_breakdown(scopes).itertuples():
        exact = golden[str(row.rank)]["scopes"].get(scope) or golden[str(row.rank)]["scopes"]["hta_window"]
        expected = exact["temporal"]
        assert row.idle_ns == expected["idle_time_ns"]
        assert row.compute_ns == expected["compute_time_ns"]
        assert row.exposed_communication_ns + row.exposed_memory_ns == expected["non_compute_time_ns"]
        assert row.window_ns == expected["kernel_time_ns"]


def test_shares_are_of_the_window(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("gemm", (0, 1), (10, 20), 1)
    trace.launch("gemm", (1, 2), (30, 50), 2)
    frame = temporal_breakdown([whole(3, trace.graph(tmp_path))])
    assert np.isclose(frame.loc[0, "compute_share"], 0.75)
    assert hta_temporal_breakdown([whole(3, trace.graph(tmp_path))]).to_dict("records") == [
        {
            "rank": 3,
            "idle_time(us)": 10.0,
            "compute_time(us)": 30.0,
            "non_compute_time(us)": 0.0,
            "kernel_time(us)": 40.0,
            "idle_time_pctg": 25.0,
            "compute_time_pctg": 75.0,
            "non_compute_time_pctg": 0.0,
        }
    ]


def test_it_concludes_how_much_the_gpu_computes_and_what_it_mostly_does_instead(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("gemm", (0, 1), (10, 40), 1)
    trace.launch("gemm", (2, 3), (60, 110), 2)
    loose, busy = trace.graph(tmp_path), TraceBuilder()
    busy.launch("gemm", (0, 1), (10, 20), 1)
    full = hg.build_graph(hg.read_trace(busy.write(tmp_path / "busy.json")))
    idle = "of the time; 20% is idle time (see idle-time)"
    assert answer([whole(0, loose)]).conclusion == [f"the GPU computes 80% {idle}"]
    assert answer([whole(0, full)]).conclusion == ["the GPU computes 100% of the time"]
    of_three = answer([whole(0, full), whole(1, full), whole(2, loose)]).conclusion
    assert of_three == [f"the GPU computes 80% {idle.replace('time;', 'time on rank 2 (median of 3 ranks: 100%);')}"]


def test_of_a_gpu_that_did_nothing_nothing_is_concluded(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 5)
    assert answer([whole(0, trace.graph(tmp_path))]).conclusion == []
    assert answer([]).conclusion == []
