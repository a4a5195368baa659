"""A rule of one's own: its edges keep their label everywhere, and lead paths as built-in ones do."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import hta_graph as hg
from hta_graph.base.errors import QueryError, TraceError, UsageError
from hta_graph.base.text.json_text import to_json
from hta_graph.dependencies.context import RuleContext
from hta_graph.export.graph_json import graph_document
from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.validate import all_edges_valid
from hta_graph.model import EdgeKind, EdgeRule
from hta_graph.store.entry_file import entry_pieces, read_entry
from hta_graph.store.save import NAME
from tests.support.trace_builder import TraceBuilder


def copy_turn(context: RuleContext) -> EdgeTable:
    """Link each copy to the next one."""
    events = context.trace.events
    copies = np.flatnonzero(events.kind == hg.EventKind.MEMCPY)
    copies = copies[np.argsort(events.start[copies], kind="stable")]
    return context.custom_edges("copy_turn", copies[:-1], copies[1:])


def two_copies(folder: Path) -> hg.Trace:
    trace = TraceBuilder()
    trace.op("aten::copy_", 0, 30)
    for stream, call, copy in ((7, (2, 5), (10, 60)), (20, (6, 9), (61, 90))):
        trace.call("cudaMemcpyAsync", *call, stream)
        trace.copy("Memcpy HtoD (Pinned -> Device)", *copy, stream, stream=stream)
    trace.call("cudaDeviceSynchronize", 32, 94, 99)
    trace.op("aten::mm", 95, 99)
    return hg.read_trace(trace.write(folder / "trace.json"))


@pytest.fixture
def graph(tmp_path: Path) -> hg.DependencyGraph:
    return hg.build_graph(two_copies(tmp_path), [*hg.DEFAULT_RULES, copy_turn])


def test_its_edges_are_selected_by_label_or_kind(graph: hg.DependencyGraph) -> None:
    own = graph.edges[graph.edges["rule"] == "copy_turn"]
    assert own["kind"].tolist() == ["custom_gpu_to_gpu"]
    assert own["evidence"].tolist() == ["inferred"]
    for named in ("copy_turn", "custom_gpu_to_gpu", hg.EdgeKind.CUSTOM_GPU_TO_GPU):
        assert len(graph.edges_of(named)) == 1
    assert len(graph.predecessors(int(own["target_index"].iloc[0]), "copy_turn")) == 1
    assert all_edges_valid(graph.edge_table, graph.trace)
    assert graph.edge_counts()["custom_gpu_to_gpu"] == {"recorded": 0, "inferred": 1}


def test_the_path_takes_it_and_classifies_its_lag(graph: hg.DependencyGraph, tmp_path: Path) -> None:
    segments = hg.critical_path(graph, hg.whole()).segments
    lag = segments[segments["edge"] == "custom_gpu_to_gpu"]
    assert lag["bound_by"].tolist() == ["gpu_kernel_kernel_overhead"]
    assert lag["duration_ns"].tolist() == [1_000]
    plain = hg.critical_path(hg.build_graph(graph.trace), hg.whole())
    assert plain.by_bound_ns["gpu_memory_bound"] < hg.critical_path(graph, hg.whole()).by_bound_ns["gpu_memory_bound"]


def test_it_survives_saving_json_and_subgraphs(graph: hg.DependencyGraph, tmp_path: Path) -> None:
    hg.save_graph(graph, tmp_path / "saved")
    loaded = hg.load_graph(tmp_path / "saved")
    assert loaded.edges.equals(graph.edges)
    assert len(loaded.edges_of("copy_turn")) == 1
    rules = [edge["rule"] for edge in json.loads(b"".join(to_json(graph_document(graph))))["edges"]]
    assert rules.count("copy_turn") == 1
    assert "copy_turn" in set(graph.filter(kind="memcpy").edges["rule"])
    job = hg.build_job([graph])
    assert "copy_turn" in set(job.edges["rule"])
    hg.save_graph(job, tmp_path / "job")
    assert hg.load_graph(tmp_path / "job").edges.equals(job.edges)


def test_a_graph_without_custom_rules_is_saved_as_before(tmp_path: Path) -> None:
    graph = hg.build_graph(two_copies(tmp_path))
    hg.write_parquet(graph, tmp_path / "saved")
    assert "custom_rules" not in json.loads((tmp_path / "saved" / "graph.json").read_text())
    assert "rule" not in json.loads(b"".join(to_json(graph_document(graph))))["edges"][0]


def test_a_saved_label_that_is_taken_is_refused(graph: hg.DependencyGraph, tmp_path: Path) -> None:
    hg.save_graph(graph, tmp_path / "saved")
    entry = read_entry(NAME, (tmp_path / "saved").read_bytes())
    (code,) = entry.record["graph"]["rules"].values()
    entry.record["graph"]["rules"] = {"launch": code}
    (tmp_path / "forged").write_bytes(b"".join(map(bytes, entry_pieces(NAME, entry))))
    with pytest.raises(TraceError, match="cannot be named 'launch'"):
        hg.load_graph(tmp_path / "forged")


def test_pictures_draw_it_in_its_colour(graph: hg.DependencyGraph) -> None:
    svg = hg.render(hg.critical_path(graph, hg.whole()))
    assert svg is not None


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("sides", "kind"),
    [
        (("aten::copy_", "aten::mm"), "custom_cpu_to_cpu"),
        (("aten::copy_", "Memcpy HtoD (Pinned -> Device)"), "custom_cpu_to_gpu"),
        (("Memcpy HtoD (Pinned -> Device)", "aten::mm"), "custom_gpu_to_cpu"),
    ],
)
def test_the_kind_follows_from_what_an_edge_joins(tmp_path: Path, sides: tuple[str, str], kind: str) -> None:
    def rule(context: RuleContext) -> EdgeTable:
        names = np.array(context.trace.names)[context.trace.events.name]
        source, target = (np.flatnonzero(names == side)[-1:] for side in sides)
        return context.custom_edges("made_up", source, target, from_end=sides[1] != sides[1] or "mm" in sides[1])

    graph = hg.build_graph(two_copies(tmp_path), [*hg.DEFAULT_RULES, rule])
    assert graph.edges[graph.edges["rule"] == "made_up"]["kind"].tolist() == [kind]
    assert sum(hg.critical_path(graph, hg.whole()).by_bound_ns.values()) > 0


def test_what_no_rule_can_give_is_refused(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.annotation("note", 0, 10)
    trace.op("aten::mm", 0, 9)
    read = hg.read_trace(trace.write(tmp_path / "trace.json"))

    def build(label: str, source: list[int], target: list[int]) -> None:
        def rule(context: RuleContext) -> EdgeTable:
            return context.custom_edges(label, np.array(source), np.array(target))

        hg.build_graph(read, [*hg.DEFAULT_RULES, rule])

    note = int(np.flatnonzero(read.events.kind == hg.EventKind.ANNOTATION)[0])
    for label, source, target, said in (
        ("launch", [0], [1], "cannot be named 'launch'"),
        ("", [0], [1], "cannot be named ''"),
        ("one", [0, 1], [1], "as many sources as targets"),
        ("one", [1 - note], [7], "rows of trace.events are 0 to 1"),
        ("one", [note], [1 - note], "of kind annotation, which edges cannot join"),
    ):
        with pytest.raises(UsageError, match=re.escape(said)):
            build(label, source, target)


def test_labels_have_codes_of_their_own(graph: hg.DependencyGraph) -> None:
    assert max(EdgeRule) < int(graph.edge_table.rule.max())
    with pytest.raises(QueryError, match="did you mean copy_turn"):
        graph.edges_of("copy_turns")
    assert len(EdgeKind) < 127
