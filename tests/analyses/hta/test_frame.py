"""The trace frame of HTA's users: its rows, columns, exact times, steps and partners."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import hta_graph as hg
from analyses.declare.scope import per_step, whole
from analyses.hta.frame import NO_STREAM, hta_scopes, hta_trace_frame, hta_trace_frames, name_without_arguments
from tests.support.golden_graphs import NANOSECONDS, WHOLE_MICROSECONDS, graphs
from tests.support.shared_traces import SHARED
from tests.support.trace_builder import PID, TraceBuilder


def build() -> TraceBuilder:
    trace = TraceBuilder()
    trace.kernel("early", 50, 60, 99, stream=0)
    for number in (1, 2):
        start = 100 * number
        trace.row(
            ph="X", cat="user_annotation", name=f"ProfilerStep#{number}", pid=PID, tid=1, ts=start, dur=90,
            args={"External id": number},
        )  # fmt: skip
        trace.op("aten::mm", start + 1, start + 20.5, **{"Input Dims": [[2, 3], []], "External id": 10 + number})
        trace.launch("gemm", (start + 2, start + 4.25), (start + 95, start + 120.125), number, stream=0)
        trace.row(
            ph="X", cat="gpu_user_annotation", name=f"ProfilerStep#{number}", pid=0, tid=0, ts=start + 95, dur=30,
            args={"External id": number},
        )  # fmt: skip
    trace.op("triton_poi_fused_add_0", 230, 240, stream=0)
    trace.row(ph="i", cat="cpu_instant_event", name="[memory]", pid=PID, tid=1, ts=10, args={"Bytes": 5})
    return trace


def test_rows_have_texts_symbols_exact_times_and_what_hta_writes_for_absence(tmp_path: Path) -> None:
    frames, symbols = hta_trace_frames([whole(0, build().graph(tmp_path))])
    frame = frames[0]
    assert frame.index.tolist() == frame["index"].tolist() == list(range(12))
    assert [symbols.get_sym_table()[number] for number in frame["name"]] == frame["s_name"].tolist()
    assert [symbols.get_sym_table()[number] for number in frame["cat"]] == frame["s_cat"].tolist()
    assert symbols.get_sym_id_map()["gemm"] == frame["name"][frame["s_name"] == "gemm"].iloc[0]
    operator = frame.loc[2]
    assert (operator["ts"], operator["dur"], operator["end"]) == (51.0, 19.5, 70.5)
    assert operator["input_dims"] == [[2, 3], []]
    assert (operator["bytes"], operator["input_type"], operator["msg_dtype"]) == (-1, "-1", "")
    assert (frame.loc[4, "end"], frame.loc[4, "external_id"]) == (170.125, -1)


def test_steps_are_those_on_the_cpu_and_activities_have_their_launch_step(tmp_path: Path) -> None:
    frame = hta_trace_frame(whole(0, build().graph(tmp_path)))
    assert frame["iteration"].tolist() == [-1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2]


def test_partners_are_the_call_and_what_it_launched(tmp_path: Path) -> None:
    frame = hta_trace_frame(whole(0, build().graph(tmp_path)))
    assert frame["index_correlation"].tolist() == [-1, -1, -1, 4, 3, -1, -1, -1, 9, 8, -1, -1]


def test_only_what_ran_on_a_stream_has_one(tmp_path: Path) -> None:
    frame = hta_trace_frame(whole(0, build().graph(tmp_path)))
    assert frame["s_name"][frame["stream"] != NO_STREAM].tolist() == ["early", "gemm", "gemm"]


def test_the_window_of_hta_drops_the_last_step_and_work_without_a_launch(tmp_path: Path) -> None:
    graph = build().graph(tmp_path)
    frame = hta_trace_frame(hta_scopes({0: graph})[0])
    assert frame["index"].tolist() == [1, 2, 3, 4, 5]
    assert frame["ts"].iloc[0] == 50.0  # since the trace's begin, not the window's
    assert [len(hta_trace_frame(scope)) for scope in per_step(0, graph)] == [5, 6]


def test_ranks_share_one_origin_and_one_symbol_table(tmp_path: Path) -> None:
    late = TraceBuilder(distributedInfo={"rank": 1})
    late.op("aten::mm", 1_000, 1_001)
    graph = hg.build_graph(hg.read_trace(late.write(tmp_path / "late.json")))
    frames, _ = hta_trace_frames([whole(0, build().graph(tmp_path)), whole(1, graph)])
    assert frames[1]["ts"].tolist() == [950.0]
    assert frames[1]["name"].iloc[0] == frames[0].loc[2, "name"]


def test_a_trace_without_rows_has_the_columns(tmp_path: Path) -> None:
    empty = TraceBuilder()
    empty.row(ph="i", cat="cpu_instant_event", name="[memory]", pid=PID, tid=1, ts=10, args={"Bytes": 5})
    frame = hta_trace_frame(whole(0, empty.graph(tmp_path)))
    assert not len(frame)
    assert list(frame.columns) == list(hta_trace_frame(whole(0, build().graph(tmp_path))).columns)


def test_short_names_have_no_arguments() -> None:
    assert name_without_arguments("void foo::bar<int, baz<4> >(int*, qux(*)(int))") == "foo::bar"


@pytest.mark.sampled(3)
@pytest.mark.shared
@pytest.mark.parametrize("name", WHOLE_MICROSECONDS + NANOSECONDS)
def test_the_rows_of_hta_are_kept(name: str) -> None:
    golden = json.loads((SHARED / "golden" / name / "load.json").read_text())["result"]["value"]
    frames, _ = hta_trace_frames(hta_scopes(graphs(name)))
    for rank, frame in frames.items():
        expected = golden["ranks"][str(rank)]
        counters = {column for column in expected["columns"] if "__" in column}  # of CUPTI: another analysis
        assert set(frame.columns) - set(expected["columns"]) == {"s_cat", "s_name"}
        assert set(expected["columns"]) - counters <= set(frame.columns)
        assert (np.diff(frame["index"]) > 0).all()
        assert (frame["dur"] >= 0).all()
        if name.startswith("nanogpt"):  # HTA takes steps of the GPU for steps, and cuts too late
            assert len(frame) < expected["rows"]
        elif name == "ns_resolution_v100":  # HTA drops two copies of annotations whose activities it keeps
            assert len(frame) == expected["rows"] + 2
        else:
            assert len(frame) == expected["rows"]
            assert sorted(set(frame["iteration"])) == expected["iterations"]


@pytest.mark.shared
@pytest.mark.slow
def test_partners_point_at_each_other() -> None:
    frame = hta_trace_frame(hta_scopes(graphs("nccl_args_a100"))[0])
    device = frame[frame["stream"] >= 0]
    calls = frame.loc[device["index_correlation"]]
    assert (calls["correlation"].to_numpy() == device["correlation"].to_numpy()).all()
    assert (calls["index_correlation"].to_numpy() == device["index"].to_numpy()).all()
