"""Linked traces that somebody else wrote, or damaged: read, or refused in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hta_graph.base.errors import TraceError
from hta_graph.chakra.host_trace import read_host_trace
from hta_graph.chakra.linked_trace import link_traces, linked_json
from hta_graph.chakra.linked_trace_reader import read_linked
from tests.support.host_builder import HostBuilder, host_of
from tests.support.trace_builder import TraceBuilder

Node = dict[str, Any]


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    trace = TraceBuilder(distributedInfo={"rank": 0})
    trace.op("aten::mm", 0, 10)
    trace.launch("gemm", (2, 4), (5, 50), 1)
    graph = trace.graph(tmp_path)
    host = read_host_trace(host_of(graph).write(tmp_path / "host.json"))
    (tmp_path / "linked.json").write_bytes(b"".join(linked_json(link_traces(graph, host))))
    return tmp_path / "linked.json"


def edited(path: Path, change: Callable[[Node], Any]) -> None:
    document = json.loads(path.read_text())
    change(next(node for node in document["nodes"] if node["name"] == "aten::mm"))
    path.write_text(json.dumps(document))


def test_a_linked_trace_is_read(linked: Path) -> None:
    assert set(read_linked(linked).trace.names) >= {"aten::mm", "gemm"}


def test_bytes_that_are_no_text_are_refused(linked: Path) -> None:
    linked.write_bytes(linked.read_bytes().replace(b"aten::mm", b"aten\xef:mm"))
    with pytest.raises(TraceError, match=r"linked\.json: is not JSON: .*; link the traces again"):
        read_linked(linked)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("change", [
    lambda node: node.update(ts=None, inclusive_dur="x"),
    lambda node: node.update(inclusive_dur=None),
    lambda node: node.update(attrs=7),
    lambda node: node.update(id=[1]),
])  # fmt: skip
def test_fields_of_other_types_are_refused(linked: Path, change: Callable[[Node], Any]) -> None:
    edited(linked, change)
    with pytest.raises(TraceError, match=r"linked\.json: "):
        read_linked(linked)


def test_process_groups_that_nest_too_deeply_are_none(tmp_path: Path) -> None:
    host = HostBuilder()
    host.op("## process_group:init ##", inputs=(["[" * 20_000 + "]" * 20_000, [], "String"],))
    assert read_host_trace(host.write(tmp_path / "host.json")).process_groups() == []
