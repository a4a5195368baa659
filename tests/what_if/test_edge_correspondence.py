"""Which edges are compared: those between events at the same place of steps, whatever else a step does."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import hta_graph as hg
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import EdgeKind
from hta_graph.what_if.rank_normalization import edge_correspondence, median_weights
from tests.support.gloo_builder import MAIN, WORKER, GlooRank
from tests.support.trace_builder import TraceBuilder


def places_of_starts(graph: DependencyGraph, name: str) -> list[tuple[int, int]]:
    """Return the place and the step of every edge that leads to the start of an event of a name, in order of time."""
    known, edges = edge_correspondence(graph), graph.edge_table
    found = [
        (int(known.place[row]), int(known.step[row]))
        for row in np.argsort(graph.timeline.times[edges.target], kind="stable").tolist()
        if not edges.target[row] & 1 and graph.name_of(int(edges.target[row]) // 2) == name
    ]
    return [(place, step) for place, step in found if place >= 0]


def steps_of_products(folder: Path, *further: tuple[float, float]) -> DependencyGraph:
    """Build two steps of two layers that multiply; the second step multiplies elsewhere besides."""
    trace = TraceBuilder()
    for number, start in ((1, 0), (2, 100)):
        trace.annotation(f"ProfilerStep#{number}", start, start + 90)
        for layer in (10, 40):
            trace.op("aten::linear", start + layer, start + layer + 20)
            trace.op("aten::mm", start + layer + 5, start + layer + 10 + number)
    for begin, end in further:
        trace.op("aten::mm", begin, end)
    return hg.build_graph(hg.read_trace(trace.write(folder / "trace.json")))


def test_the_second_of_two_is_compared_with_the_second_of_two(tmp_path: Path) -> None:
    first, second, *other = places_of_starts(steps_of_products(tmp_path), "aten::mm")
    assert [place for place, _ in other] == [first[0], second[0]]
    assert [step for _, step in (first, second, *other)] == [1, 1, 2, 2]
    assert first[0] != second[0]


def test_one_more_elsewhere_changes_no_place(tmp_path: Path) -> None:
    found = places_of_starts(steps_of_products(tmp_path, (170, 180)), "aten::mm")
    assert [place for place, _ in found[2:4]] == [place for place, _ in found[:2]]
    assert found[4][0] not in {place for place, _ in found[:4]}


def test_one_more_at_the_same_place_is_not_compared(tmp_path: Path) -> None:
    found = places_of_starts(steps_of_products(tmp_path, (152, 154)), "aten::mm")
    assert {place for place, step in found if step == 1}.isdisjoint(place for place, step in found if step == 2)


def test_the_worker_that_is_free_does_not_matter(tmp_path: Path) -> None:
    """The same all-reduces of two steps, done by the group's other worker in the second one."""
    paths = []
    for rank in (0, 1):
        trace = GlooRank(rank, [0, 1])
        for number, start, tids in ((1, 0, (WORKER, WORKER + 1)), (2, 100, (WORKER + 1, WORKER))):
            trace.annotation(f"ProfilerStep#{number}", start, start + 90, tid=MAIN)
            for begin, tid in zip((10, 50), tids, strict=True):
                trace.called("all_reduce", start + begin, start + begin + 2)
                trace.worked("all_reduce", start + begin + 3, start + begin + 12 + number, tid=tid)
                trace.op("aten::add", start + begin + 20, start + begin + 25, tid=MAIN)
        paths.append(trace.write(tmp_path / f"rank{rank}.json"))
    job = hg.read_job(paths)
    known = edge_correspondence(job)
    handed = np.flatnonzero(job.edge_table.kind == EdgeKind.THREAD_HANDOFF)
    found = list(zip(known.place[handed].tolist(), known.step[handed].tolist(), strict=True))
    assert len(found) == 8
    assert {place for place, step in found if step == 1} == {place for place, step in found if step == 2}


def test_a_median_is_that_of_the_place(tmp_path: Path) -> None:
    graph = steps_of_products(tmp_path)
    edges = graph.edge_table
    ends = [
        row for row in range(len(edges))
        if edges.target[row] & 1 and graph.name_of(int(edges.target[row]) // 2) == "aten::mm"
    ]  # fmt: skip
    median = median_weights(graph, np.ones(len(edges), np.bool_))
    assert sorted({int(median[row]) for row in ends}) == [6_000]
