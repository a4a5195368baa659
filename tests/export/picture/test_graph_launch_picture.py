"""The picture around a graph launch: its nodes in a frame of their own, forks and joins, recorded edges solid."""

from __future__ import annotations

import re
from pathlib import Path

from hta_graph.export.picture.render import around_picture
from tests.support.cuspy_rows import NodeBuilder, forked_graph

LINK = re.compile(r'^\s*b(\d+) -> b(\d+) \[.*?label="?(\w+).*style=(\w+)', re.MULTILINE)
BOX = re.compile(r"^\s*b(\d+) \[.*?<B>(.*?)</B>", re.MULTILINE)


def drawn(trace: NodeBuilder, tmp_path: Path, launch: int, *, limit: int = 30) -> tuple[str, set[tuple[str, ...]]]:
    source = around_picture(trace.graph(tmp_path), launch, 1, limit=limit).source
    name = dict(BOX.findall(source))
    return source, {(name[a], name[b], kind, style) for a, b, kind, style in LINK.findall(source) if kind != "invis"}


def test_forks_and_joins_show_between_the_nodes(tmp_path: Path) -> None:
    source, links = drawn(forked_graph(replays=1), tmp_path, 0)
    inside = [link for link in links if link[2] == "graph_order"]
    assert sorted(inside) == [
        ("A", "C", "graph_order", "solid"), ("B", "D", "graph_order", "solid"), ("C", "D", "graph_order", "solid"),
    ]  # fmt: skip
    assert {link[1] for link in links if link[2] == "launch"} == {"A", "B"}
    frame = source[source.index("subgraph cluster_graph0 {") :]
    assert "nodes of the graph (4)" in frame
    assert [frame.count(f"<B>{label}</B>") for label in ("stream 0:1:7", "stream 0:1:20")] == [1, 1]
    assert source[: source.index("subgraph cluster_graph0 {")].count("<B>stream") == 0


def test_what_is_inferred_around_the_nodes_is_dashed(tmp_path: Path) -> None:
    trace = forked_graph(replays=1)
    trace.launch("after", (1_490, 1_495), (1_500, 1_510), 9, stream=7)
    source = around_picture(trace.graph(tmp_path), 0, 2).source
    assert {style for *_, kind, style in LINK.findall(source) if kind == "device_sync"} == {"dashed"}


def test_chains_of_many_nodes_share_boxes_between_forks_and_joins(tmp_path: Path) -> None:
    trace = NodeBuilder()
    trace.call("cudaGraphLaunch", 0, 20, 1)
    before = [trace.node("first", 30, 35, 1)]
    for at in range(10):
        before = [trace.node("ahead", 40 + 10 * at, 45 + 10 * at, 1, before)]
    side, main = (trace.node(name, 150, 200, 1, before, stream=at) for name, at in (("side", 20), ("main", 7)))
    before = [trace.node("join", 210, 220, 1, [side, main])]
    for at in range(10):
        before = [trace.node("behind", 230 + 10 * at, 235 + 10 * at, 1, before)]
    source, links = drawn(trace, tmp_path, 0)
    assert "nodes of the graph (24)" in source
    assert len([link for link in links if link[2] == "graph_order"]) == 4
    assert len(BOX.findall(source)) == 1 + 4


def test_other_events_have_no_frame(tmp_path: Path) -> None:
    assert "cluster_graph" not in drawn(forked_graph(replays=1), tmp_path, 1)[0]
