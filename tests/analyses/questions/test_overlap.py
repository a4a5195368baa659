"""Overlap: shares, and per kernel what is hidden and exposed; the exposures add up to the temporal breakdown's."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

import hta_graph as hg
from analyses.declare.scope import in_window, per_step, whole
from analyses.hta.breakdowns import hta_overlap
from analyses.hta.frame import hta_scopes
from analyses.questions.overlap import (
    answer,
    comm_comp_overlap,
    communication_kernels,
    exposed_collectives,
    exposed_copies,
    figure,
)
from analyses.questions.temporal_breakdown import temporal_breakdown
from hta_graph.base.errors import TraceError
from hta_graph.paths.windows import between
from tests.simulator import Dialect, random_program, simulate, to_bytes, write
from tests.support.deep_tests import deep
from tests.support.shared_traces import SHARED, graph_of_file
from tests.support.trace_builder import TraceBuilder
from tests.support.two_rank_job import small_job

GOLDEN = ["ddp_v100", "dlrm_8xv100", "execution_trace_sample", "nanogpt_ab_current", "nanogpt_ab_hook"]
GOLDEN += ["nanogpt_ddp_8xh100", "nccl_args_a100", "ns_resolution_v100", "owlv2_pystack_h100", "sync_alexnet_a100"]


def build(tmp_path: Path) -> hg.DependencyGraph:
    """A gemm from 0 to 10, all-reduces from 5 to 20 and from 15 to 30, a copy from 25 to 40."""
    trace = TraceBuilder()
    trace.launch("gemm", (0, 1), (0, 10), 1)
    trace.call("cudaLaunchKernel", 1, 2, 2)
    recorded = {
        "Collective name": "allreduce",
        "Process Group Name": "0",
        "dtype": "Float",
        "In msg nelems": 8,
        "Seq": 3,
    }
    trace.kernel("ncclDevKernel_AllReduce", 5, 20, 2, stream=8, **recorded)
    trace.call("cudaLaunchKernel", 2, 3, 3)
    trace.kernel("ncclDevKernel_AllReduce", 15, 30, 3, stream=9)
    trace.call("cudaMemcpyAsync", 3, 4, 4)
    trace.copy("Memcpy HtoD (Pinned -> Device)", 25, 40, 4, stream=10)
    return trace.graph(tmp_path)


def test_shares_are_of_communication_and_exposures_those_of_the_temporal_breakdown(tmp_path: Path) -> None:
    row = comm_comp_overlap([whole(3, build(tmp_path))]).iloc[0]
    assert row["rank"] == 3
    assert row["communication_ns"] == 25_000
    assert row["overlapped_communication_ns"] == 5_000
    assert row["overlapped_share"] == pytest.approx(0.2)
    assert row["exposed_communication_ns"] == 20_000
    assert row[["memory_ns", "overlapped_memory_ns", "exposed_memory_ns"]].tolist() == [15_000, 5_000, 10_000]


def test_arguments_on_the_operator_around_the_launch_are_the_kernels(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("record_param_comms", 0, 5, **{"Collective name": "allgather", "dtype": "Half", "In msg nelems": 16})
    trace.launch("ncclDevKernel_AllGather", (1, 2), (5, 20), 1)
    trace.launch("ncclDevKernel_AllGather", (7, 8), (20, 30), 2)
    frame = communication_kernels([whole(0, trace.graph(tmp_path))]).sort_values("start_ns")
    assert frame["collective"].tolist() == ["allgather", None]
    assert frame["dtype"].tolist() == ["Half", None]
    assert frame["in_elements"].fillna(-1).tolist() == [16, -1]


def test_time_exposed_by_two_kernels_belongs_to_the_one_that_started_first(tmp_path: Path) -> None:
    frame = communication_kernels([whole(0, build(tmp_path))])
    columns = ["event_index", "duration_ns", "overlapped_ns", "exposed_ns", "shared_ns"]
    assert frame[columns].to_numpy().tolist() == [[3, 15_000, 5_000, 10_000, 0], [5, 15_000, 0, 10_000, 5_000]]
    recorded = ["collective", "group", "dtype", "in_elements", "sequence"]
    assert frame.loc[0, recorded].tolist() == ["allreduce", "0", "Float", 8, 3]
    assert frame.loc[1, ["collective", "in_elements"]].isna().all()


def test_collectives_add_up_alike_kernels(tmp_path: Path) -> None:
    frame = exposed_collectives(communication_kernels([whole(0, build(tmp_path))]))
    assert frame["collective"].fillna("-").tolist() == ["allreduce", "-"]
    assert frame["count"].tolist() == [1, 1]
    assert frame["exposed_share"].tolist() == [0.5, 0.5]


def test_copies_are_hidden_by_computation_and_by_communication(tmp_path: Path) -> None:
    frame = exposed_copies([whole(0, build(tmp_path))])
    assert frame[["count", "duration_ns", "overlapped_ns", "exposed_ns"]].to_numpy().tolist() == [
        [1, 15_000, 5_000, 10_000]
    ]


def test_a_window_cuts_the_kernels_at_its_ends(tmp_path: Path) -> None:
    scope = in_window(0, build(tmp_path), between(8_000, 18_000))
    frame = communication_kernels([scope])
    assert frame["duration_ns"].tolist() == [10_000, 3_000]
    assert frame["exposed_ns"].tolist() == [8_000, 0]


def test_without_communication_there_is_no_share_and_a_sentence_says_so(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("gemm", (0, 1), (0, 10), 1)
    scope = whole(0, trace.graph(tmp_path))
    found = answer([scope])
    assert math.isnan(found.main.loc[0, "overlapped_share"])
    (note,) = found.notes
    assert note == (
        "rank 0: no communication kernels in the whole trace, so the overlapped share is undefined; "
        "for a distributed job, record a step that communicates"
    )
    assert found.series["communication_kernels"].empty
    assert found.tables["collectives"].columns.tolist()[:6] == [
        "rank",
        "scope",
        "collective",
        "group",
        "dtype",
        "kernel",
    ]
    assert hta_overlap([scope])["comp_comm_overlap_pctg"].isna().all()
    assert not figure(found).data


def test_no_gpu_work_is_a_sentence(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("aten::add", 0, 5)
    scope = whole(0, trace.graph(tmp_path))
    assert "no GPU activity" in answer([scope]).notes[0]
    assert answer([]).main.empty
    assert hta_overlap([]).columns.tolist() == ["rank", "comp_comm_overlap_pctg"]


def test_htas_frame(tmp_path: Path) -> None:
    frame = hta_overlap([whole(3, build(tmp_path))])
    assert frame.to_dict("records") == [{"rank": 3, "comp_comm_overlap_pctg": 20.0}]
    assert len(figure(answer([whole(3, build(tmp_path))])).data) == 4


def test_a_file_that_is_gone_is_an_error_of_one_line(tmp_path: Path) -> None:
    graph = build(tmp_path)
    graph.trace.path.unlink()
    with pytest.raises(TraceError):
        communication_kernels([whole(0, graph)])
    assert comm_comp_overlap([whole(0, graph)]).loc[0, "communication_ns"] == 25_000


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", [*range(5), *map(deep, range(5, 15))])
def test_exposures_add_up_on_simulated_programs(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(to_bytes(write(simulate(random_program(seed, "pytorch", 40)), Dialect()).document))
    check_identities(hg.build_graph(hg.read_trace(path)))


def check_identities(graph: hg.DependencyGraph) -> None:
    scopes = [whole(0, graph), *(per_step(0, graph) if graph.trace.steps() else [])]
    exact = temporal_breakdown(scopes).set_index("scope")
    overlap = comm_comp_overlap(scopes).set_index("scope")
    kernels, copies = communication_kernels(scopes), exposed_copies(scopes)
    for frame, part in (
        (kernels, "communication"),
        (exposed_collectives(kernels), "communication"),
        (copies, "memory"),
    ):
        exposed = frame.groupby("scope")["exposed_ns"].sum().reindex(exact.index, fill_value=0)
        assert (exposed == exact[f"exposed_{part}_ns"]).all()
        assert (exposed == overlap[f"exposed_{part}_ns"]).all()
        assert (frame["overlapped_ns"] + frame["exposed_ns"] + frame["shared_ns"] == frame["duration_ns"]).all()
        whole_part = overlap[f"overlapped_{part}_ns"] + overlap[f"exposed_{part}_ns"]
        assert (whole_part == overlap[f"{part}_ns"]).all()


@pytest.mark.shared
@pytest.mark.slow
def test_every_step_and_trace_is_an_identity(real_traces: list[Path]) -> None:
    for path in real_traces:
        check_identities(graph_of_file(path))


@cache
def graphs_of(name: str) -> dict[int, hg.DependencyGraph]:
    return {trace.rank or 0: hg.build_graph(trace) for trace in hg.read_traces(SHARED / "traces" / name)}


@pytest.mark.shared
@pytest.mark.parametrize("name", GOLDEN)
def test_the_exact_recomputation_is_met(name: str) -> None:
    golden = json.loads((SHARED / "golden" / name / "independent.json").read_text())["ranks"]
    every = {"all": [whole(rank, graph) for rank, graph in graphs_of(name).items()]}
    every["documented_window"] = hta_scopes(graphs_of(name))
    for scope, scopes in every.items():
        for row in comm_comp_overlap(scopes).itertuples():
            exact = golden[str(row.rank)]["scopes"][scope]
            ours = (row.communication_ns, row.memory_ns, row.overlapped_communication_ns)
            assert ours == (exact["comm_ns"], exact["mem_ns"], exact["overlap_ns"])


@pytest.mark.shared
@pytest.mark.parametrize("name", ["ddp_v100", "dlrm_8xv100", "execution_trace_sample", "sync_alexnet_a100"])
def test_htas_answer_is_met_where_it_is_right(name: str) -> None:
    golden = json.loads((SHARED / "golden" / name / "get_comm_comp_overlap.json").read_text())["result"]
    expected = pd.DataFrame(golden["rows"], columns=golden["columns"]).astype({"comp_comm_overlap_pctg": float})
    pd.testing.assert_frame_equal(hta_overlap(hta_scopes(graphs_of(name))), expected)


# -- several ranks -----------------------------------------------------------------------------------------------------


def test_exposed_communication_of_several_ranks_is_waiting_or_transfer(tmp_path: Path) -> None:
    scopes = [whole(graph.rank or 0, graph) for graph in hg.read_graphs(small_job(tmp_path))]
    found = comm_comp_overlap(scopes)
    # Rank 0 waits from 48 to 58, beside a kernel until 50; rank 1 from 112 to 120.
    assert found["exposed_waiting_ns"].tolist() == [8_000, 8_000]
    assert found["exposed_transfer_ns"].tolist() == [20_000, 20_000]
    assert (found["exposed_waiting_ns"] + found["exposed_transfer_ns"]).tolist() == [28_000, 28_000]


def test_one_rank_cannot_tell_waiting_from_transfer(tmp_path: Path) -> None:
    found = comm_comp_overlap([whole(0, build(tmp_path))])
    assert found[["exposed_waiting_ns", "exposed_transfer_ns"]].isna().all(axis=None)


def test_it_concludes_how_much_communication_is_exposed_and_in_what(tmp_path: Path) -> None:
    # All-reduces from 5 to 30, a gemm from 0 to 10.
    found = answer([whole(0, build(tmp_path))])
    exposed = (
        "exposed communication takes 50% of the time: 20.0 µs of 25.0 µs of communication; of the exposed time, 50% is "
        "in allreduce"
    )
    assert found.conclusion == [f"whole trace, 40.0 µs: {exposed}"]
    silent = TraceBuilder()
    silent.launch("gemm", (0, 1), (10, 20), 1)
    assert answer([whole(0, silent.graph(tmp_path))]).conclusion == [
        "first to last GPU activity, 10.0 µs of the 20.0 µs trace: no communication and no copies"
    ]
