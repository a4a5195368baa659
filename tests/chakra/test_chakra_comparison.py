"""The comparison with the public tool chain: what it measures, and the host traces that it makes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.benchmarks.chakra_tools_comparison import Pair, linked_figures, run, sync_deps
from tests.benchmarks.generated_host_trace import pair
from tests.support.trace_builder import TraceBuilder


def made(tmp_path: Path) -> Pair:
    trace = TraceBuilder()
    trace.op("outer", 0, 20)
    trace.op("inner", 1, 6)
    trace.launch("k", (2, 5), (7, 30), 1)
    trace.call("cudaStreamSynchronize", 8, 33, 2)
    trace.op("after", 40, 50)
    trace.op("elsewhere", 3, 4, tid=2)
    host, device = tmp_path / "host.json", tmp_path / "device.json"
    pair(trace.write(tmp_path / "kineto.json"), host, device)
    return Pair("made", 0, host, device)


def test_a_made_host_trace_nests_the_operators_and_links_by_record_function(tmp_path: Path) -> None:
    item = made(tmp_path)
    nodes = {node["id"]: node for node in json.loads(item.host.read_bytes())["nodes"]}
    parents = {node["name"]: nodes[node["ctrl_deps"]]["name"] for node in nodes.values()}
    thread = "[pytorch|profiler|execution_trace|thread]"
    assert (parents["inner"], parents["outer"], parents["after"], parents["elsewhere"]) == ("outer", *[thread] * 3)
    rows = json.loads(item.device.read_bytes())["traceEvents"]
    record_functions = {
        node["name"]: attribute["value"]
        for node in nodes.values()
        for attribute in node["attrs"]
        if attribute["name"] == "rf_id" and attribute["value"]
    }
    assert record_functions == {
        row["name"]: row["args"]["Record function id"] for row in rows if row["cat"] == "cpu_op"
    }
    assert [row["name"] for row in rows if row["cat"] == "user_annotation"] == ["ProfilerStep#1"]


@pytest.mark.slow
def test_dependencies_are_counted_and_backward_ones_among_them(tmp_path: Path) -> None:
    done, figures = sync_deps(made(tmp_path))
    assert (done.error, figures) == ("", ["-", "1", "0", "0"])
    nodes = [
        {"id": 0, "name": "op", "ts": 5, "sync_dep": [1, 2, 9]},
        {"id": 1, "name": "early", "cat": "kernel", "ts": 1},
        {"id": 2, "name": "late", "cat": "kernel", "ts": 6},
        {"id": 3, "name": "op without a time", "sync_dep": [1]},
    ]
    path = tmp_path / "linked.json"
    path.write_text(json.dumps({"nodes": nodes}), encoding="utf-8")
    assert linked_figures(path) == ["2", "3", "1"]


def test_a_process_is_measured_and_its_error_is_the_last_line(tmp_path: Path) -> None:
    code = "import time; data = bytearray(60_000_000); time.sleep(0.1); print('fine')"
    good = run([sys.executable, "-IS", "-c", code], tmp_path)
    bad = run([sys.executable, "-IS", "-c", "print('first'); raise SystemExit('last')"], tmp_path)
    assert 0.1 < good.seconds < 10
    assert 60 < good.megabytes < 120
    assert (good.error, bad.error) == ("", "last")
    assert bad.megabytes < 40
