"""Host execution traces beside device traces: nodes found, columns added, nothing changed in place."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyses.declare.scope import Scope, per_step, whole
from analyses.hta.execution_trace import (
    ET_COLUMNS,
    execution_trace_nodes,
    hta_correlate_execution_trace,
    load_execution_trace,
    with_et_column,
)
from analyses.hta.frame import hta_trace_frame
from hta_graph.base.errors import QueryError, TraceError
from hta_graph.chakra.host_trace import HostTrace
from tests.support.golden_graphs import graphs
from tests.support.host_builder import HostBuilder, host_of
from tests.support.shared_traces import SHARED
from tests.support.trace_builder import TraceBuilder


def build(tmp_path: Path) -> tuple[Scope, HostTrace]:
    trace = TraceBuilder()
    trace.annotation("ProfilerStep#1", 0, 40)
    for at, name in enumerate(("aten::linear", "aten::mm", "aten::add")):
        trace.op(name, 10 * at, 10 * at + 8, **{"External id": 20 + at})
    trace.launch("gemm", (11, 12), (20, 30), 1)
    trace.annotation("ProfilerStep#2", 50, 90)
    trace.op("aten::relu", 60, 65, **{"External id": 30})
    graph = trace.graph(tmp_path)
    return whole(0, graph), load_execution_trace(host_of(graph).write(tmp_path / "host.json"))


def test_operators_have_their_nodes_and_what_these_say(tmp_path: Path) -> None:
    scope, host = build(tmp_path)
    frame = execution_trace_nodes(scope, host)
    assert frame["name"].tolist() == frame["et_node_name"].tolist()
    operators = frame[frame["kind"] == "cpu_op"]
    assert operators["name"].tolist() == ["aten::linear", "aten::mm", "aten::add", "aten::relu"]
    assert host.rf_id[host.row_of(operators["et_node"].to_numpy())].tolist() == [20, 21, 22, 30]
    assert list(frame.columns)[-len(ET_COLUMNS) :] == list(ET_COLUMNS)
    assert (frame.attrs["method"], frame.attrs["share"]) == ("External id = rf_id + 0", pytest.approx(4 / 6))
    second = execution_trace_nodes(per_step(0, scope.graph)[1], host)
    assert second["name"].tolist() == ["aten::relu"]


def test_the_frame_gets_a_column_and_stays_as_it_was(tmp_path: Path) -> None:
    scope, host = build(tmp_path)
    before = hta_trace_frame(scope)
    found = hta_correlate_execution_trace(scope, host, before)
    assert "et_node" not in before
    assert found.loc[before["s_name"] == "aten::mm", "et_node"].notna().all()
    assert found.loc[before["s_name"] == "gemm", "et_node"].isna().all()
    named = with_et_column(found, host, "et_node_name")
    assert "et_node_name" not in found
    assert named["et_node_name"].dropna().tolist() == before["s_name"][found["et_node"].notna()].tolist()


def test_what_cannot_be_added_is_said(tmp_path: Path) -> None:
    scope, host = build(tmp_path)
    frame = hta_trace_frame(scope)
    with pytest.raises(QueryError, match="correlate_execution_trace first"):
        with_et_column(frame, host, "op_schema")
    with pytest.raises(QueryError, match="choose one of op_schema, input_shapes"):
        with_et_column(frame, host, "colour")


def test_a_trace_of_another_process_is_an_error(tmp_path: Path) -> None:
    scope, _ = build(tmp_path)
    other = HostBuilder(pid=4711)
    other.op("aten::mm", rf=21)
    with pytest.raises(TraceError, match="4711"):
        hta_correlate_execution_trace(scope, load_execution_trace(other.write(tmp_path / "other.json")))


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "rank", "method", "nodes"),
    [
        ("execution_trace_sample", 0, "External id = rf_id + 0", 36),
        ("dlrm_8xv100", 0, "name and order on each thread", 1_672),
        ("megatron_tp2_v100", 1, "record function id", 1_880),
    ],
)
def test_real_pairs_agree_in_names(name: str, rank: int, method: str, nodes: int) -> None:
    scope = whole(rank, graphs(name)[rank])
    host = load_execution_trace(SHARED / "traces" / name / f"host_et_rank{rank}.json.gz")
    frame = hta_correlate_execution_trace(scope, host)
    for column in ET_COLUMNS:
        frame = with_et_column(frame, host, column)
    matched = frame[frame["et_node"].notna()]
    assert len(matched) == nodes
    assert matched["et_node"].is_unique
    assert matched["et_node_name"].tolist() == matched["s_name"].tolist()
    assert set(matched["s_cat"]) <= {"cpu_op", "user_annotation"}
    assert execution_trace_nodes(scope, host).attrs["method"] == method
