"""Linked traces: how host nodes find their operators, where GPU work goes, and who waits for whom."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest

import hta_graph as hg
from analyses.cli.commands.chakra import LINK
from analyses.cli.main import main
from analyses.cli.path_args import check_paths
from hta_graph import DependencyGraph
from hta_graph.base.errors import HtaGraphError, OutputError, TraceError
from hta_graph.chakra.host_matching import match_host_trace
from hta_graph.chakra.host_trace import LAYOUTS, read_host_trace
from hta_graph.chakra.linked_trace import (
    EventDependencies,
    LinkedTrace,
    NodeDependencies,
    NodePlacement,
    _NodeIds,
    link_traces,
    linked_json,
)
from hta_graph.export.sync_dependencies import SyncDependencies
from tests.simulator import Dialect, random_program, simulate, to_bytes, write
from tests.simulator.programs import Family
from tests.support.deep_tests import deep
from tests.support.host_builder import HostBuilder, host_of
from tests.support.shared_traces import SHARED
from tests.support.trace_builder import TraceBuilder

pytestmark = pytest.mark.sampled(2)

Document = dict[str, Any]
Node = dict[str, Any]

COPIED = ("inputs", "outputs", "attrs")
"""What a GPU node has of the operator that launched it."""


def linked(trace: TraceBuilder | DependencyGraph, host: HostBuilder, tmp_path: Path, **options: Any) -> LinkedTrace:
    graph = trace.graph(tmp_path) if isinstance(trace, TraceBuilder) else trace
    return link_traces(graph, read_host_trace(host.write(tmp_path / "host.json")), **options)


def document(found: LinkedTrace) -> Document:
    result: Document = json.loads(b"".join(linked_json(found)))
    return result


def nodes_by_name(found: LinkedTrace) -> dict[str, Node]:
    return {node["name"]: node for node in document(found)["nodes"]}


def attribute(node: Node, name: str) -> Any:
    return next(item["value"] for item in node["attrs"] if item["name"] == name)


def is_gpu(node: Node) -> bool:
    return "cat" in node


def assert_sound(found: Document, gpu_ahead_us: float = 0) -> None:
    """Check ids, order, and that nothing waits for itself, for what is absent, later, or waits for it.

    Times are the file's: a GPU's are ahead of the host's by as much as its clock is.
    """
    nodes = found["nodes"]
    by_id = {node["id"]: node for node in nodes}
    assert [node["id"] for node in nodes] == list(range(nodes[0]["id"], nodes[0]["id"] + len(nodes)))
    order = networkx.DiGraph()
    last_of: dict[int, int] = {}
    for before, node in zip([None, *nodes], nodes, strict=False):
        assert node["ctrl_deps"] in by_id
        if node["ctrl_deps"] != node["id"]:
            order.add_edge(node["ctrl_deps"], node["id"])
        if is_gpu(node):
            assert before is not None
            assert node["ctrl_deps"] in (before["id"], before["ctrl_deps"] if is_gpu(before) else None)
            assert [node[key] for key in COPIED] == [by_id[node["ctrl_deps"]][key] for key in COPIED]
        else:
            thread = attribute(node, "tid")
            if thread in last_of:
                order.add_edge(last_of[thread], node["id"])
            last_of[thread] = node["id"]
        for source in _sources(node):
            assert source != node["id"]
            host_times = [one["ts"] - gpu_ahead_us * is_gpu(one) for one in (by_id[source], node)]
            assert host_times == sorted(host_times)
            order.add_edge(source, node["id"])
        for source in [*node.get("sync_dep", []), *node.get("gpu_sync_dep", [])]:
            assert is_gpu(by_id[source])
        assert node.get("blocked_dur", 0) <= node.get("exclusive_dur", 0) <= node.get("inclusive_dur", 0)
    assert networkx.is_directed_acyclic_graph(order)


def _sources(node: Node) -> list[int]:
    thread = node.get("inter_thread_dep")
    return [*node.get("sync_dep", []), *node.get("gpu_sync_dep", []), *([] if thread is None else [thread])]


def training(schema: str = "1.1.0-chakra.0.0.4") -> tuple[TraceBuilder, HostBuilder]:
    """An operator with a kernel and one with a copy that it waits for, inside an annotation; then another operator."""
    trace = TraceBuilder(distributedInfo={"rank": 3})
    trace.annotation("## step ##", 0, 100)
    trace.op("aten::mm", 10, 30, **{"Record function id": 12})
    trace.launch("gemm", (12, 15), (20, 50), 1)
    trace.op("aten::item", 40, 80, **{"Record function id": 13})
    trace.call("cudaMemcpyAsync", 42, 44, 2)
    trace.copy("Memcpy DtoH (Device -> Pinned)", 51, 53, 2, bytes=8)
    trace.call("cudaStreamSynchronize", 45, 60, 3)
    trace.sync_row("Stream Sync", 46, 53, 3, stream=7)
    trace.op("aten::add", 85, 90, **{"Record function id": 14})
    host = HostBuilder(schema)
    step = host.op("## step ##", rf=9)
    host.op("aten::mm", parent=step, rf=12)
    host.op("aten::item", parent=step, rf=13)
    host.op("aten::add", parent=step, rf=14)
    return trace, host


def test_the_fields_of_a_linked_trace(tmp_path: Path) -> None:
    trace, host = training()
    found = document(linked(trace, host, tmp_path))
    assert_sound(found)
    names = [node["name"] for node in found["nodes"]]
    assert names[2:] == [
        "## step ##", "aten::mm", "gemm", "aten::item", "Memcpy DtoH (Device -> Pinned)", "aten::add",
    ]  # fmt: skip
    assert {key: found[key] for key in ("schema", "pid", "time", "start_ts", "finish_ts", "rank")} == {
        "schema": "1.1.0-chakra.0.0.4", "pid": 100, "time": "2024-08-19 11:25:30", "start_ts": 7, "finish_ts": 9,
        "rank": 3,
    }  # fmt: skip
    process, thread, step, product, kernel, item, copy, add = found["nodes"]
    assert [node["ctrl_deps"] for node in found["nodes"]] == [0, 0, 1, 2, 3, 2, 5, 2]
    for root in (process, thread):
        assert not {"ts", "inclusive_dur", "exclusive_dur", "inter_thread_dep", "cat"} & set(root)
    assert "ts" not in step  # its rf_id is not in the device trace
    assert (product["ts"], product["inclusive_dur"], product["exclusive_dur"]) == (10, 20, 20)
    assert (product["inter_thread_dep"], "sync_dep" in product) == (None, False)
    assert {key: kernel[key] for key in ("cat", "ph", "stream", "ts", "inclusive_dur", "exclusive_dur")} == {
        "cat": "kernel", "ph": "X", "stream": 7, "ts": 20, "inclusive_dur": 30, "exclusive_dur": 30,
    }  # fmt: skip
    assert kernel["attrs"] == product["attrs"]
    assert kernel["args"] == {"stream": 7, "correlation": 1, "device": 0, "context": 1}
    assert (copy["cat"], copy["args"]["bytes"]) == ("gpu_memcpy", 8)
    assert add["sync_dep"] == [copy["id"]]
    assert (item["blocked_dur"], "blocked_dur" in add) == (8, False)


def test_own_time_leaves_out_the_nodes_inside(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("outer", 0, 100)
    trace.op("unknown to the host", 10, 50)
    trace.op("inner", 20, 40)
    trace.op("inner", 60, 70)
    host = HostBuilder()
    outer = host.op("outer")
    host.op("inner", parent=outer)
    host.op("inner", parent=outer)
    found = document(linked(trace, host, tmp_path))["nodes"]
    assert [node.get("exclusive_dur") for node in found[2:]] == [70, 20, 10]


def test_an_inner_node_that_outlives_the_outer_one_takes_only_what_they_share(tmp_path: Path) -> None:
    trace, host = TraceBuilder(), HostBuilder()
    trace.op("outer", 0, 50)
    trace.op("inner", 40, 70)
    host.op("inner", parent=host.op("outer"))
    found = document(linked(trace, host, tmp_path))["nodes"]
    assert [node.get("exclusive_dur") for node in found[2:]] == [40, 30]


def test_flat_nodes_are_written_as_the_first_version_that_the_converter_accepts(tmp_path: Path) -> None:
    trace, host = training()[0], HostBuilder("1.0.1")
    tensor = ([5, 6, 0, 112, 4, "cuda:0"], [112], "Tensor(float)")
    for name, rf in (("aten::mm", 12), ("aten::item", 13), ("aten::add", 14)):
        host.op(name, rf=rf, inputs=(tensor,), op_schema="schema of " + name)
    found = document(linked(trace, host, tmp_path))
    assert found["schema"] == "1.0.2-chakra.0.0.4"
    assert_sound(found)
    product = found["nodes"][2]
    assert product["inputs"] == {"values": [tensor[0]], "shapes": [tensor[1]], "types": [tensor[2]]}
    assert product["outputs"] == {"values": [], "shapes": [], "types": []}
    assert {item["name"]: (item["type"], item["value"]) for item in product["attrs"]} == {
        "rf_id": ("uint64", 12), "fw_parent": ("uint64", 0), "seq_id": ("int64", -1), "scope": ("uint64", 0),
        "tid": ("uint64", 1), "fw_tid": ("uint64", 0), "op_schema": ("string", "schema of aten::mm"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ("1.0.2-chakra.0.0.4", "1.0.2-chakra.0.0.4"),
        ("1.0.4-chakra.0.0.4", "1.1.0-chakra.0.0.4"),
        ("1.1.1-chakra.0.0.4", "1.1.1-chakra.0.0.4"),
    ],
)
def test_other_versions_are_kept_where_the_converter_accepts_them(schema: str, written: str, tmp_path: Path) -> None:
    trace, host = training(schema)
    assert document(linked(trace, host, tmp_path))["schema"] == written


def test_attributes_that_every_node_must_have_are_filled_in(tmp_path: Path) -> None:
    trace, host = training()
    for node in host.nodes:
        node["attrs"] = [item for item in node["attrs"] if item["name"] in ("rf_id", "tid")]
    for node in document(linked(trace, host, tmp_path))["nodes"]:
        assert attribute(node, "seq_id") == -1
        assert attribute(node, "op_schema") == ""
        assert len({item["name"] for item in node["attrs"]}) == len(node["attrs"]) == 7


# how nodes and operators find each other


def test_record_function_ids_decide_where_there_are_some(tmp_path: Path) -> None:
    trace, host = TraceBuilder(), HostBuilder()
    for at, rf in enumerate([31, 32, 33]):
        trace.op("aten::add", 10 * at, 10 * at + 5, **{"Record function id": rf, "External id": rf})
    for rf in (33, 31, 32):
        host.op("aten::add", rf=rf)
    matching = linked(trace, host, tmp_path).matching
    assert matching.event[2:].tolist() == [2, 0, 1]
    assert (matching.method, matching.share) == ("record function id", 1)
    assert matching.node.tolist() == [3, 4, 2]


def test_record_function_ids_of_zero_say_nothing(tmp_path: Path) -> None:
    trace, host = TraceBuilder(), HostBuilder()
    for at, name in enumerate(["aten::a", "aten::b"]):
        trace.op(name, 10 * at, 10 * at + 5, **{"Record function id": 0})
        host.op(name, rf=0)
    assert linked(trace, host, tmp_path).matching.method == "name and order on each thread"


@pytest.mark.parametrize("offset", [-3, 0, 2, 5_000])
def test_an_offset_between_older_ids(offset: int, tmp_path: Path) -> None:
    trace, host = TraceBuilder(), HostBuilder()
    rng = np.random.default_rng(7)
    for at, rf in enumerate((10 + rng.permutation(200)).tolist()):
        trace.op(f"aten::op{rf % 7}", 10 * at, 10 * at + 5, **{"External id": rf + offset})
    for rf in range(10, 210):
        host.op(f"aten::op{rf % 7}", rf=rf)
    found = linked(trace, host, tmp_path)
    assert found.matching.method == f"External id = rf_id + {offset}"
    external = found.graph.trace.events.external_id[found.matching.event[2:]]
    assert (external - offset).tolist() == list(range(10, 210))


def test_names_must_be_equal(tmp_path: Path) -> None:
    trace, host = TraceBuilder(), HostBuilder()
    for at in range(4):
        trace.op(f"aten::op{at}", 10 * at, 10 * at + 5, **{"Record function id": at + 1})
        host.op("aten::another" if at == 2 else f"aten::op{at}", rf=at + 1)
    matching = linked(trace, host, tmp_path).matching
    assert matching.event[2:].tolist() == [0, 1, -1, 3]
    assert matching.share == 0.75


def test_names_in_order_on_each_thread_whatever_its_number(tmp_path: Path) -> None:
    trace, host = TraceBuilder(), HostBuilder()
    for at in range(30):
        trace.op(f"main{at % 3}", 10 * at, 10 * at + 5, tid=901)
        trace.op(f"other{at % 4}", 10 * at + 1, 10 * at + 6, tid=900)
    trace.op("before the observer", -20, -10, tid=900)
    expected = []
    for at in range(30):
        host.op(f"other{at % 4}", tid=1)
        host.op(f"main{at % 3}", tid=2)
        expected += [2 + 2 * at, 1 + 2 * at]
    matching = linked(trace, host, tmp_path).matching
    operators = matching.event[matching.event >= 0].tolist()
    assert operators == expected
    assert matching.method == "name and order on each thread"


def test_threads_that_do_the_same_are_paired_one_to_one(tmp_path: Path) -> None:
    trace, host = TraceBuilder(), HostBuilder()
    for at in range(6):
        for thread in (1, 2):
            trace.op("aten::add", 10 * at, 10 * at + 5, tid=thread)
            host.op("aten::add", tid=thread)
    event = linked(trace, host, tmp_path).matching.event
    assert sorted(event[event >= 0].tolist()) == list(range(12))


def test_a_node_that_the_profiler_lost_shifts_nothing(tmp_path: Path) -> None:
    trace, host = TraceBuilder(), HostBuilder()
    for at in range(100):
        if at != 37:
            trace.op("aten::add", 10 * at, 10 * at + 5)
            trace.op("aten::mul", 10 * at + 5, 10 * at + 9)
        host.op("aten::add")
        if at == 60:
            host.op("aten::mul")
        host.op("aten::mul")
    found = linked(trace, host, tmp_path)
    names = [found.graph.trace.name_of(event) for event in found.matching.event.tolist() if event >= 0]
    assert names == [found.host.name_of(row) for row in np.flatnonzero(found.matching.event >= 0).tolist()]
    assert np.count_nonzero(found.matching.event >= 0) == 198
    assert (np.diff(found.matching.event[found.matching.event >= 0]) > 0).all()


def test_of_two_operators_at_one_instant_the_smaller_id_began_first(tmp_path: Path) -> None:
    """Whole microseconds: a short operator and a longer one after it start together."""
    trace, host = TraceBuilder(), HostBuilder()
    for at in range(5):
        trace.op("long", 10 * at, 10 * at + 5, **{"External id": 100 * at + 41})
        trace.op("short", 10 * at, 10 * at, **{"External id": 100 * at + 17})
        host.op("short")
        host.op("long")
    found = linked(trace, host, tmp_path)
    assert found.matching.share == 1


def test_ids_are_believed_where_order_would_pair_other_steps(tmp_path: Path) -> None:
    """A loop, recorded from another iteration on: names agree from the start, ids tell how little is in both."""
    trace, host = TraceBuilder(), HostBuilder()
    names = [f"aten::op{at % 9}{'x' * (at % 71 == 0)}" for at in range(300)]
    for at in range(200):
        trace.op(names[at], 10 * at, 10 * at + 5, **{"Record function id": at + 1})
    for at in range(80, 280):
        host.op(names[at], rf=at + 1)
    assert np.count_nonzero(linked(trace, host, tmp_path).matching.event >= 0) == 120
    host = HostBuilder()
    for at in range(140, 300):
        host.op(names[at], rf=at + 1)
    with pytest.raises(TraceError, match=r"only 37\.5% of its operators"):
        linked(trace, host, tmp_path)


@pytest.mark.parametrize(("shared", "refused"), [(4, True), (5, False)])
def test_under_half_is_an_error(shared: int, *, refused: bool, tmp_path: Path) -> None:
    trace, host = TraceBuilder(), HostBuilder()
    for at in range(10):
        trace.op(f"aten::op{at}", 10 * at, 10 * at + 5)
        host.op(f"aten::op{at}" if at < shared else f"aten::other{at}")
    if not refused:
        assert linked(trace, host, tmp_path).matching.share == 0.5
        return
    with pytest.raises(TraceError, match=r"only 40\.0% of its operators are in .*trace\.json \(by name and order"):
        linked(trace, host, tmp_path)


def test_the_share_is_said_in_words(tmp_path: Path) -> None:
    trace, host = training()
    assert str(linked(trace, host, tmp_path).matching) == "3 host operators (75.0%) matched by record function id"


# what traces of different runs say


def test_traces_of_two_processes(tmp_path: Path) -> None:
    trace, host = training()
    host.pid = 4711
    with pytest.raises(TraceError, match=r"host\.json: is of process 4711, .*trace\.json of process 100; pass the tr"):
        linked(trace, host, tmp_path)
    assert linked(trace, host, tmp_path, any_process=True).matching.share == 0.75


def test_ranks_must_agree(tmp_path: Path) -> None:
    trace, host = training()
    with pytest.raises(TraceError, match=r"trace\.json: belongs to rank 3, not 1; pass the traces of rank 1"):
        linked(trace, host, tmp_path, rank=1)
    assert linked(trace, host, tmp_path, rank=3).rank == linked(trace, host, tmp_path).rank == 3


def test_process_groups_tell_another_rank(tmp_path: Path) -> None:
    trace, host = training()
    groups = [{"pg_name": "0", "ranks": []}, {"pg_name": "7", "ranks": [1, 2]}]
    host.op("## process_group:init ##", inputs=((json.dumps(groups), [], "String"),))
    with pytest.raises(TraceError, match="lists only process groups of other ranks, not of 3"):
        linked(trace, host, tmp_path)
    trace.header["distributedInfo"]["rank"] = 2
    assert linked(trace, host, tmp_path).rank == 2


def test_without_operators_there_is_nothing_to_link(tmp_path: Path) -> None:
    trace, _ = training()
    with pytest.raises(TraceError, match="holds no operators"):
        linked(trace, HostBuilder(), tmp_path)
    kernels = TraceBuilder()
    kernels.kernel("k", 0, 1, 1)
    with pytest.raises(TraceError, match=r"only 0\.0% of its operators"):
        linked(kernels, training()[1], tmp_path)


# where GPU work goes


def test_work_goes_to_the_innermost_operator_that_has_a_node(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.annotation("## loss ##", 0, 100)
    trace.op("aten::sum", 10, 60)
    trace.op("unknown to the host", 20, 50)
    trace.launch("inner", (22, 24), (30, 40), 1)
    trace.launch("outer", (70, 74), (80, 90), 2)
    trace.launch("nobody's", (110, 114), (120, 130), 3)
    trace.kernel("launched earlier", 5, 9, 99)
    host = HostBuilder()
    loss = host.op("## loss ##")
    host.op("aten::sum", parent=loss)
    found = linked(trace, host, tmp_path)
    node = nodes_by_name(found)
    assert node["inner"]["ctrl_deps"] == node["aten::sum"]["id"]
    assert node["outer"]["ctrl_deps"] == node["## loss ##"]["id"]
    assert "nobody's" not in node
    assert "launched earlier" not in node
    assert found.unplaced == 2


def test_graph_launches_sets_and_hip_calls_launch_by_correlation(tmp_path: Path) -> None:
    trace, host = TraceBuilder(), HostBuilder()
    for at, (call, count) in enumerate([("cudaGraphLaunch", 5), ("hipLaunchKernel", 1), ("anything_v7000", 2)]):
        trace.op(f"op{at}", 100 * at, 100 * at + 50)
        trace.call(call, 100 * at + 10, 100 * at + 20, at + 1)
        for kernel in range(count):
            start = 100 * at + 30 + 5 * kernel
            trace.kernel(f"k{at}.{kernel}", start, start + 4, at + 1, stream=7 + kernel)
        host.op(f"op{at}")
    trace.op("aten::zero_", 300, 350)
    trace.call("cudaMemsetAsync", 310, 320, 9)
    trace._gpu("gpu_memset", "Memset (Device)", 330, 340, 7, 0, correlation=9, bytes=64)
    host.op("aten::zero_")
    found = linked(trace, host, tmp_path)
    assert_sound(document(found))
    parents = defaultdict(list)
    for node in document(found)["nodes"]:
        if is_gpu(node):
            parents[node["ctrl_deps"]].append(node["name"])
    node = nodes_by_name(found)
    assert parents[node["op0"]["id"]] == [f"k0.{number}" for number in range(5)]
    assert parents[node["op2"]["id"]] == ["k2.0", "k2.1"]
    assert parents[node["aten::zero_"]["id"]] == ["Memset (Device)"]
    assert node["Memset (Device)"]["cat"] == "gpu_memset"
    assert (len(found.activity), found.unplaced) == (9, 0)


def test_collectives_keep_their_fields(tmp_path: Path) -> None:
    trace, host = TraceBuilder(), HostBuilder()
    trace.op("record_param_comms", 0, 50)
    trace.call("cudaLaunchKernelExC", 10, 20, 1)
    fields = {
        "Collective name": "allreduce", "In msg nelems": 6144, "dtype": "Float", "Group size": 2,
        "Process Group Name": 13, "Process Group Ranks": "[0, 1]", "Seq": 0, "bytes": None,
    }  # fmt: skip
    trace.kernel("ncclDevKernel_AllReduce", 30, 40, 1, stream=22, **fields)
    host.op("record_param_comms")
    kernel = nodes_by_name(linked(trace, host, tmp_path))["ncclDevKernel_AllReduce"]
    assert kernel["pg_name"] == "13"
    assert {key: kernel["args"][key] for key in fields if key != "bytes"} | {"bytes": None} == fields
    assert "bytes" not in kernel["args"]


# who waits for whom


def test_the_target_is_the_next_operator_that_has_a_node(tmp_path: Path) -> None:
    trace, host = training()
    trace.op("unknown to the host", 82, 84)
    trace.op("of another thread", 82, 84, tid=2)
    host.op("of another thread", tid=2)
    node = nodes_by_name(linked(trace, host, tmp_path))
    assert [name for name, found in node.items() if "sync_dep" in found] == ["aten::add"]


def test_an_operator_may_wait_for_its_own_earlier_part(tmp_path: Path) -> None:
    """A copy and the wait for it in one operator: what follows inside it waits, not the operator itself."""
    trace, host = TraceBuilder(), HostBuilder()
    trace.op("aten::nonzero", 0, 100)
    trace.call("cudaMemcpyAsync", 10, 12, 1)
    trace.copy("Memcpy DtoH (Device -> Pinned)", 14, 30, 1)
    trace.call("cudaStreamSynchronize", 15, 33, 2)
    trace.op("aten::resize_", 40, 50)
    outer = host.op("aten::nonzero")
    host.op("aten::resize_", parent=outer)
    found = linked(trace, host, tmp_path)
    assert_sound(document(found))
    node = nodes_by_name(found)
    assert node["aten::resize_"]["sync_dep"] == [node["Memcpy DtoH (Device -> Pinned)"]["id"]]
    assert "sync_dep" not in node["aten::nonzero"]


def test_waits_at_the_end_have_no_target(tmp_path: Path) -> None:
    trace, host = TraceBuilder(), HostBuilder()
    trace.op("aten::mm", 0, 30)
    trace.launch("gemm", (10, 12), (20, 60), 1)
    trace.call("cudaDeviceSynchronize", 40, 65, 2)
    host.op("aten::mm")
    found = linked(trace, host, tmp_path)
    assert (len(found.sync), found.waits_without_node) == (0, 1)


def test_an_operator_that_returns_at_the_instant_of_its_wait_does_not_wait_again(tmp_path: Path) -> None:
    trace, host = TraceBuilder(), HostBuilder()
    trace.op("aten::mm", 0, 5)
    trace.launch("gemm", (1, 2), (3, 8), 1)
    trace.op("aten::sync", 10, 10)
    trace.call("cudaDeviceSynchronize", 10, 10, 2)
    trace.op("aten::add", 11, 12)
    for name in ("aten::mm", "aten::sync", "aten::add"):
        host.op(name)
    node = nodes_by_name(linked(trace, host, tmp_path))
    assert [name for name, found in node.items() if "sync_dep" in found] == ["aten::add"]


def autograd(tmp_path: Path, *, gap: int = 0) -> LinkedTrace:
    trace, host = TraceBuilder(), HostBuilder()
    trace.op("aten::mul", 0, 20, **{"Sequence number": 5})
    trace.op("inside", 5, 10)
    trace.annotation("## backward ##", 30 + gap, 200 + gap)
    engine = {"Sequence number": 5, "Fwd thread id": 1}
    trace.op("autograd::engine::evaluate_function: MulBackward0", 50 + gap, 140 + gap, tid=2, **engine)
    trace.op("MulBackward0", 60 + gap, 130 + gap, tid=2, **engine)
    trace.op("aten::step", 210 + gap, 220 + gap)
    trace.op("of a thread without autograd", 300 + 10_000, 310 + 10_000, tid=3)
    mul = host.op("aten::mul", seq_id=5)
    host.op("inside", parent=mul)
    host.op("## backward ##")
    evaluate = host.op("autograd::engine::evaluate_function: MulBackward0", tid=2, seq_id=5, fw_tid=1)
    host.op("MulBackward0", parent=evaluate, tid=2, seq_id=5, fw_tid=1)
    host.op("aten::step")
    host.op("of a thread without autograd", tid=3)
    return linked(trace, host, tmp_path)


def test_threads_wait_by_sequence_numbers_and_hand_offs(tmp_path: Path) -> None:
    found = autograd(tmp_path)
    assert_sound(document(found))
    node = nodes_by_name(found)
    waits = {name: item["inter_thread_dep"] for name, item in node.items() if item.get("inter_thread_dep") is not None}
    assert waits == {
        "MulBackward0": node["aten::mul"]["id"],
        "autograd::engine::evaluate_function: MulBackward0": node["inside"]["id"],
        "aten::step": node["MulBackward0"]["id"],
    }


def test_of_several_threads_waits_the_latest_counts(tmp_path: Path) -> None:
    trace, host = TraceBuilder(), HostBuilder()
    trace.op("aten::mul", 0, 20, **{"Sequence number": 5})
    trace.op("aten::sum", 21, 24)
    trace.op("MulBackward0", 60, 130, tid=2, **{"Sequence number": 5, "Fwd thread id": 1})
    trace.op("aten::step", 210, 220)
    for name, tid in (("aten::mul", 1), ("aten::sum", 1), ("MulBackward0", 2), ("aten::step", 1)):
        host.op(name, tid=tid)
    node = nodes_by_name(linked(trace, host, tmp_path))
    assert node["MulBackward0"]["inter_thread_dep"] == node["aten::sum"]["id"]


def test_threads_do_not_wait_because_of_gaps_in_time(tmp_path: Path) -> None:
    near, far = (nodes_by_name(autograd(tmp_path, gap=gap)) for gap in (0, 5_000))
    assert [node.get("inter_thread_dep") for node in near.values()] == [
        node.get("inter_thread_dep") for node in far.values()
    ]
    assert far["of a thread without autograd"]["inter_thread_dep"] is None


def test_waiting_for_autograd_is_blocked_time(tmp_path: Path) -> None:
    node = nodes_by_name(autograd(tmp_path))
    assert (node["## backward ##"]["exclusive_dur"], node["## backward ##"]["blocked_dur"]) == (170, 90)
    assert [name for name, item in node.items() if "blocked_dur" in item] == ["## backward ##"]


def test_nobody_is_blocked_for_longer_than_its_own_time(tmp_path: Path) -> None:
    trace, host = TraceBuilder(), HostBuilder()
    trace.op("aten::sum", 0, 20)
    trace.annotation("## backward ##", 30, 60)
    trace.op("MulBackward0", 50, 140, tid=2)
    trace.op("aten::step", 210, 220)
    for name, tid in (("aten::sum", 1), ("## backward ##", 1), ("MulBackward0", 2), ("aten::step", 1)):
        host.op(name, tid=tid)
    node = nodes_by_name(linked(trace, host, tmp_path))
    assert (node["## backward ##"]["exclusive_dur"], node["## backward ##"]["blocked_dur"]) == (30, 30)


def test_a_graph_waits_for_the_stream_that_it_is_launched_on(tmp_path: Path) -> None:
    trace, host = TraceBuilder(), HostBuilder()
    trace.op("aten::mm", 0, 50)
    trace.launch("before", (2, 4), (10, 30), 1)
    trace.call("cudaGraphLaunch", 5, 8, 2)
    trace.kernel("same stream", 31, 40, 2)
    trace.kernel("other stream", 32, 45, 2, stream=9)
    trace.launch("after", (10, 12), (46, 60), 3)
    host.op("aten::mm")
    found = linked(trace, host, tmp_path)
    assert_sound(document(found))
    node = nodes_by_name(found)
    assert node["other stream"]["gpu_sync_dep"] == [node["before"]["id"]]
    assert node["after"]["gpu_sync_dep"] == [node["other stream"]["id"]]


def test_streams_wait_for_events(tmp_path: Path) -> None:
    trace, host = TraceBuilder(), HostBuilder()
    trace.op("aten::mm", 0, 50)
    trace.launch("producer", (2, 4), (10, 100), 1)
    trace.call("cudaEventRecord", 5, 6, 2)
    trace.call("cudaStreamWaitEvent", 7, 8, 3)
    trace.sync_row("Stream Wait Event", 7, 8, 3, stream=20, wait_on_stream=7, record=2)
    trace.launch("consumer", (9, 12), (101, 120), 4, stream=20)
    host.op("aten::mm")
    found = linked(trace, host, tmp_path)
    assert_sound(document(found))
    node = nodes_by_name(found)
    assert node["consumer"]["gpu_sync_dep"] == [node["producer"]["id"]]
    assert "gpu_sync_dep" not in node["producer"]


def test_no_node_that_others_wait_for_has_the_id_zero(tmp_path: Path) -> None:
    """Chakra's converter takes a dependency on node 0 for none; a cut host trace has an operator first."""
    found = autograd(tmp_path)
    host = HostBuilder()
    kept = json.loads((tmp_path / "host.json").read_text())
    kept["nodes"] = [node for node in kept["nodes"] if node["id"] > 2]
    path = tmp_path / "cut.json"
    path.write_text(json.dumps(kept))
    cut = document(link_traces(found.graph, read_host_trace(path)))
    assert cut["nodes"][0]["name"] == "aten::mul"
    assert [node["id"] for node in cut["nodes"]] == list(range(1, 1 + len(cut["nodes"])))
    assert all(source > 0 for node in cut["nodes"] for source in _sources(node))
    assert document(found)["nodes"][0]["id"] == 0
    assert host.document()["nodes"][0]["id"] == 1


def crossed(tmp_path: Path) -> LinkedTrace:
    """Two threads; on the first the host trace has the operators in the other order than the device trace."""
    trace, host = TraceBuilder(), HostBuilder()
    trace.op("late", 50, 60, **{"Record function id": 1, "Sequence number": 2, "Fwd thread id": 2})
    trace.op("early", 0, 10, **{"Record function id": 2, "Sequence number": 1})
    trace.op("other", 20, 30, tid=2, **{"Record function id": 3, "Sequence number": 1, "Fwd thread id": 1})
    trace.op("another", 31, 40, tid=2, **{"Record function id": 4, "Sequence number": 2})
    host.op("late", rf=1)
    host.op("early", rf=2)
    host.op("other", rf=3, tid=2)
    host.op("another", rf=4, tid=2)
    return linked(trace, host, tmp_path)


def test_waits_that_close_a_cycle_with_the_order_of_the_host_trace_are_left_out(tmp_path: Path) -> None:
    found = crossed(tmp_path)
    assert_sound(document(found))
    node = nodes_by_name(found)
    assert pairs(found.thread) == {(node["another"]["id"], node["late"]["id"])}
    assert found.waits_back_in_time == 1


def test_of_two_nodes_at_one_instant_the_later_one_may_wait(tmp_path: Path) -> None:
    trace, host = TraceBuilder(), HostBuilder()
    trace.op("one", 10, 10)
    trace.op("two", 10, 20, tid=2)
    host.op("one")
    host.op("two", tid=2)
    found = linked(trace, host, tmp_path)
    numbers = _NodeIds(NodePlacement(found.graph, found.matching), found.host, found.matching)
    ends = found.matching.event[[2, 4]]
    both = EventDependencies(np.concatenate([ends, ends]), np.concatenate([ends[::-1], ends]))
    assert pairs(numbers.dependencies(both)) == {(2, 4)}
    assert numbers.back_in_time == 3


def test_a_wait_of_what_started_earlier_is_left_out(tmp_path: Path) -> None:
    """No clock fits all of the file, and the host trace has another operator before the one that waits."""
    trace, host = TraceBuilder(), HostBuilder()
    trace.op("launching", 0, 5, **{"Record function id": 1})
    trace.launch("kernel", (1, 2), (20, 25), 7)
    trace.agree(200)
    trace.call("cudaStreamSynchronize", 6, 8, 8)
    trace.sync_row("Stream Sync", 6, 8, 8, stream=7)
    trace.op("waiting", 10, 20, **{"Record function id": 3})
    trace.op("later", 100, 110, **{"Record function id": 2})
    for rf, name in enumerate(("launching", "later", "waiting"), start=1):
        host.op(name, rf=rf)
    found = linked(trace, host, tmp_path)
    assert_sound(document(found))
    assert (len(found.sync), found.waits_back_in_time) == (0, 1)


def test_nodes_without_their_parent_go_to_their_thread(tmp_path: Path) -> None:
    trace, host = training()
    host.nodes = [node for node in host.nodes if node["name"] != "## step ##"]
    found = document(linked(trace, host, tmp_path))
    assert_sound(found)
    assert {node["ctrl_deps"] for node in found["nodes"] if node["name"].startswith("aten::")} == {1}


def test_a_parent_that_comes_later_is_none(tmp_path: Path) -> None:
    trace, host = training()
    next(node for node in host.nodes if node["name"] == "aten::mm")["ctrl_deps"] = 6
    assert_sound(document(linked(trace, host, tmp_path)))


# times


def test_fractions_of_microseconds_are_kept(tmp_path: Path) -> None:
    trace, host = TraceBuilder(baseTimeNanoseconds=1_719_853_884_000_000_000), HostBuilder()
    trace.op("aten::add", 4212936054935.31, 4212936054936.559)
    host.op("aten::add")
    found = document(linked(trace, host, tmp_path))
    assert found["baseTimeNanoseconds"] == 1_719_853_884_000_000_000
    node = found["nodes"][-1]
    assert (node["ts"], node["inclusive_dur"]) == (4212936054935.31, 1.249)


def test_epoch_microseconds_with_decimals_are_written_exactly(tmp_path: Path) -> None:
    trace, host = TraceBuilder(), HostBuilder()
    trace.op("aten::add", 0, 5)
    host.op("aten::add")
    path = trace.write(tmp_path / "a.json")
    text = path.read_text().replace('"ts": 0', '"ts": 1712195495519689.127').replace('"dur": 5', '"dur": 5.003')
    path.write_text(text)
    graph = hg.build_graph(hg.read_trace(path))
    written = b"".join(linked_json(linked(graph, host, tmp_path)))
    assert b'"ts":1712195495519689.127' in written
    assert b'"inclusive_dur":5.003' in written


# whole traces


@pytest.mark.sampled(6)
@pytest.mark.parametrize("family", ["pytorch", "arbitrary"])
@pytest.mark.parametrize("seed", [*range(4), *map(deep, range(4, 8))])
def test_simulated_programs_link_soundly(seed: int, family: Family, tmp_path: Path) -> None:
    dialect = Dialect(
        sync_rows="resolved" if seed % 2 else "none",
        time="us_int" if seed % 3 == 0 else "us_float_base",
        vendor="rocm" if seed % 4 == 0 else "cuda",
    )
    graph = simulated(seed, family, dialect, tmp_path)
    found = linked_with_itself(graph, tmp_path)
    assert_sound(document(found))
    assert found.matching.share == 1
    if family == "pytorch":
        assert found.waits_back_in_time == 0
    if not found.waits_back_in_time:
        assert_waits_of_sync_deps(found)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("error", [-60_000, 60_000])
@pytest.mark.parametrize("seed", [0, 1, 3])
def test_clocks_that_disagree_leave_no_wait_back_in_time(seed: int, error: int, tmp_path: Path) -> None:
    graph = simulated(seed, "pytorch", Dialect(clock_error_ns=error), tmp_path)
    found = linked_with_itself(graph, tmp_path)
    offset_ns, *others = {piece["offset_ns"] for clock in graph.gpu_clock for piece in clock["pieces"]}
    assert not others
    assert_sound(document(found), offset_ns / 1_000)
    assert len(found.sync) + found.waits_back_in_time > 0


def simulated(seed: int, family: Family, dialect: Dialect, tmp_path: Path) -> DependencyGraph:
    path = tmp_path / "trace.json"
    path.write_bytes(to_bytes(write(simulate(random_program(seed, family, 400)), dialect).document))
    return hg.build_graph(hg.read_trace(path))


def linked_with_itself(graph: DependencyGraph, tmp_path: Path) -> LinkedTrace:
    """Link a trace with a host trace of the same operators."""
    return linked(graph, host_of(graph), tmp_path, any_process=True)


def assert_waits_of_sync_deps(found: LinkedTrace) -> None:
    """Every dependency of ``sync-deps`` whose two ends have a node is there, and no other."""
    number = np.full(len(found.graph.trace.events) + 1, -1)
    matched = found.matching.event >= 0
    number[found.matching.event[matched]] = found.host_id[matched]
    number[found.activity] = found.activity_id
    waits = SyncDependencies(found.graph).to_cpu
    expected = set(zip(number[waits.source].tolist(), number[waits.target].tolist(), strict=True))
    assert pairs(found.sync) == {pair for pair in expected if min(pair) >= 0}


def pairs(found: NodeDependencies) -> set[tuple[int, int]]:
    return set(zip(found.source.tolist(), found.target.tolist(), strict=True))


def test_the_same_files_give_the_same_bytes_whatever_their_order(tmp_path: Path) -> None:
    first = linked_with_itself(simulated(1, "pytorch", Dialect(), tmp_path), tmp_path)
    again = linked_with_itself(simulated(1, "pytorch", Dialect(shuffle_seed=5), tmp_path), tmp_path)
    assert b"".join(linked_json(first)) == b"".join(linked_json(again))


TRACES = SHARED / "traces"

REAL_PAIRS = [
    ("megatron_tp2_v100", 0, "record function id", 1_880, 245, 0, 11, 93, 25),
    ("megatron_tp2_v100", 1, "record function id", 1_880, 245, 0, 11, 93, 25),
    ("dlrm_8xv100", 0, "name and order on each thread", 1_672, 261, 0, 10, 41, 14),
    ("dlrm_8xv100", 1, "name and order on each thread", 1_672, 262, 64, 10, 41, 14),
    ("dlrm_8xv100", 4, "name and order on each thread", 1_672, 273, 0, 10, 41, 15),
    ("dlrm_8xv100", 7, "name and order on each thread", 1_672, 262, 0, 10, 41, 16),
    ("execution_trace_sample", 0, "External id = rf_id + 0", 36, 4, 0, 3, 0, 0),
]
"""Folder, rank, method, matched operators, GPU nodes, unplaced ones, and waits for the GPU, a thread, a stream."""


@pytest.mark.shared
@pytest.mark.parametrize("case", REAL_PAIRS, ids=lambda case: f"{case[0]}-{case[1]}")
def test_real_pairs(case: tuple[Any, ...]) -> None:
    folder, rank, method, matched, *counts = case
    graph = hg.build_graph(hg.read_trace(TRACES / folder / f"kineto_rank{rank}.json.gz"))
    found = link_traces(graph, read_host_trace(TRACES / folder / f"host_et_rank{rank}.json.gz"))
    assert_sound(document(found))
    assert (found.matching.method, np.count_nonzero(found.matching.event >= 0)) == (method, matched)
    assert [len(found.activity), found.unplaced, len(found.sync), len(found.thread), len(found.gpu)] == counts
    assert found.waits_back_in_time == 0
    assert_waits_of_sync_deps(found)


@pytest.mark.shared
@pytest.mark.parametrize("folder", ["megatron_tp2_v100", "dlrm_8xv100"])
def test_order_alone_finds_what_ids_find(folder: str) -> None:
    """What they pair has autograd numbers a constant apart (the engine's own nodes have none in host traces)."""
    graph = hg.build_graph(hg.read_trace(TRACES / folder / "kineto_rank0.json.gz"))
    host = read_host_trace(TRACES / folder / "host_et_rank0.json.gz")
    by_order = match_host_trace(graph, dataclasses.replace(host, rf_id=np.zeros_like(host.rf_id)))
    assert by_order.method == "name and order on each thread"
    known = by_order.event >= 0
    recorded, numbered = graph.trace.events.sequence[by_order.event[known]], host.sequence[known]
    both = (recorded >= 0) & (numbered >= 0)
    assert np.count_nonzero(both) > 300
    assert len(np.unique((recorded - numbered)[both])) == 1
    if folder == "megatron_tp2_v100":
        assert (by_order.event == match_host_trace(graph, host).event).all()


@pytest.mark.slow
@pytest.mark.shared
def test_forward_and_backward_nodes_have_one_sequence_number() -> None:
    graph = hg.build_graph(hg.read_trace(TRACES / "megatron_tp2_v100" / "kineto_rank0.json.gz"))
    host = read_host_trace(TRACES / "megatron_tp2_v100" / "host_et_rank0.json.gz")
    by_id = {node["id"]: node for node in document(link_traces(graph, host))["nodes"]}
    waits = [(by_id[node["inter_thread_dep"]], node) for node in by_id.values() if node.get("inter_thread_dep")]
    paired = [attribute(node, "seq_id") == attribute(source, "seq_id") >= 0 for source, node in waits]
    assert (len(paired), sum(paired)) == (93, 91)


@pytest.mark.shared
@pytest.mark.parametrize(
    "name", ["sync_alexnet_a100", "sync_simple_add", "vllm_hipgraph_mi300x", "nanogpt_ddp_8xh100", "ep_moe_b200_cuda13"]
)
def test_real_traces_with_a_host_trace_of_the_same_operators(name: str, tmp_path: Path) -> None:
    graph = hg.build_graph(hg.read_trace(min((TRACES / name).rglob("*rank0*.json.gz"))))
    found = linked_with_itself(graph, tmp_path)
    assert_sound(document(found))
    assert found.matching.share == 1
    assert found.waits_back_in_time == 0
    assert_waits_of_sync_deps(found)


CHAKRA = os.environ.get("HTA_GRAPH_CHAKRA", "")


@pytest.mark.skipif(not CHAKRA, reason="HTA_GRAPH_CHAKRA does not name the folder with Chakra's chakra_converter")
@pytest.mark.parametrize("schema", LAYOUTS)
def test_chakra_s_own_converter_takes_what_is_written(schema: str, tmp_path: Path) -> None:
    trace, host = training(schema)
    (tmp_path / "linked.json").write_bytes(b"".join(linked_json(linked(trace, host, tmp_path))))
    command = [Path(CHAKRA) / "chakra_converter", "--log-filename", "log", "PyTorch"]
    subprocess.run([*command, "--input", "linked.json", "--output", "linked.et"], cwd=tmp_path, check=True)
    assert b"Memcpy DtoH" in (tmp_path / "linked.et").read_bytes()


# the command


def run(*arguments: str | Path) -> None:
    parser = argparse.ArgumentParser()
    for add in LINK.options:
        add(parser)
    options = parser.parse_args([str(argument) for argument in arguments])
    check_paths(options)
    LINK.run(options)


def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    trace, host = training()
    return host.write(tmp_path / "host.json"), trace.write(tmp_path / "trace.json"), tmp_path / "linked.json"


def test_the_command_takes_the_names_of_chakra_trace_link(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    host, trace, output = files(tmp_path)
    run("--host-trace", host, "--device-trace", trace, "--rank", 3, "--output", output)
    ours = output.read_bytes()
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        f"{output}: rank 3, 3 host operators (75.0%) matched by record function id",
        f"{output}: 2 GPU nodes; dependencies: 1 on synchronized GPU work, 0 between threads, 0 between streams",
    ]
    other = tmp_path / "other.json"
    theirs = ("--chakra-host-trace", "--chakra-device-trace", "--output-file", "--log-level")
    run(theirs[0], host, theirs[1], trace, "--rank", 3, theirs[2], other, theirs[3], "DEBUG")
    assert other.read_bytes() == ours
    assert_sound(json.loads(ours))


def test_the_exit_status_says_whether_there_is_a_linked_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host, trace, output = files(tmp_path)
    arguments = ["chakra", "link", "--host-trace", str(host), "--device-trace", str(trace), "--output", str(output)]
    assert main([*arguments, "--rank", "5"]) == 1
    assert not output.exists()
    error = capsys.readouterr().err
    assert error == f"hta-graph: {trace}: belongs to rank 3, not 5; pass the traces of rank 5\n"
    assert main([*arguments, "--rank", "3"]) == 0
    assert_sound(json.loads(output.read_bytes()))


def test_an_existing_output_is_kept_unless_forced(tmp_path: Path) -> None:
    host, trace, output = files(tmp_path)
    output.write_text("mine")
    arguments = ("--host-trace", host, "--device-trace", trace, "--output", output)
    with pytest.raises(OutputError, match=r"linked\.json: already exists; use --force to replace it"):
        run(*arguments)
    assert output.read_text() == "mine"
    run(*arguments, "--force")
    assert_sound(json.loads(output.read_text()))


@pytest.mark.parametrize("which", [0, 1])
def test_inputs_are_never_overwritten(which: int, tmp_path: Path) -> None:
    host, trace, _ = files(tmp_path)
    before = [path.read_bytes() for path in (host, trace)]
    with pytest.raises(OutputError, match="is an input, and inputs are never overwritten"):
        run("--host-trace", host, "--device-trace", trace, "--output", (host, trace)[which], "--force")
    assert [path.read_bytes() for path in (host, trace)] == before


def test_traces_in_each_other_s_place(tmp_path: Path) -> None:
    host, trace, output = files(tmp_path)
    with pytest.raises(HtaGraphError, match=r"trace\.json: is a device \(Kineto\) trace, not a host execution trace"):
        run("--host-trace", trace, "--device-trace", trace, "--output", output)
    with pytest.raises(HtaGraphError, match=r"host\.json: is a host execution trace without traceEvents"):
        run("--host-trace", host, "--device-trace", host, "--output", output)
    assert not output.exists()


def test_a_device_trace_that_breaks_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    host, trace, output = files(tmp_path)
    trace.write_bytes(trace.read_bytes()[:-40])
    with pytest.raises(HtaGraphError, match=r"is truncated .*; salvage=True recovers them") as raised:
        run("--host-trace", host, "--device-trace", trace, "--output", output)
    assert raised.value.on_command_line.endswith("; --salvage recovers them")
    assert not output.exists()
    run("--host-trace", host, "--device-trace", trace, "--output", output, "--salvage", "--rank", 3)
    assert "complete events recovered" in capsys.readouterr().err
    assert_sound(json.loads(output.read_text()))


def test_what_could_not_be_placed_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, host = training()
    trace.kernel("launched earlier", 1, 9, 99)
    trace.call("cudaDeviceSynchronize", 95, 99, 100)
    paths = host.write(tmp_path / "host.json"), trace.write(tmp_path / "trace.json")
    run("--host-trace", paths[0], "--device-trace", paths[1], "--output", tmp_path / "linked.json")
    lines = capsys.readouterr().err.splitlines()
    assert lines[2].endswith(
        ": 1 GPU activities without a node (launched before the recording, or by no matched operator)"
    )
    assert "dependencies left out because one end has no node" in lines[3]
