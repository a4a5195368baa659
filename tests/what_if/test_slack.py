"""Slack is what can be added without any change of the window's end, and not a nanosecond more."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import analyses
import hta_graph as hg
from hta_graph import DependencyGraph
from hta_graph.base.errors import UsageError
from hta_graph.paths.windows import WindowQuery
from hta_graph.what_if.modified_window import ModifiedWindow
from hta_graph.what_if.replay import replay_graph
from hta_graph.what_if.slack import edge_slack
from tests.support.trace_builder import TraceBuilder

SAMPLES = Path(analyses.__file__).parent / "sample"


@pytest.fixture(scope="module")
def sample() -> DependencyGraph:
    return hg.build_graph(hg.read_trace(SAMPLES / "sample_trace.json.gz"))


def check_edges(graph: DependencyGraph, window: WindowQuery | None, rng: random.Random) -> None:
    """Make some edges longer by their slack, and by a nanosecond more."""
    base = replay_graph(graph, window, with_previous=False)
    spare = edge_slack(base)[: len(base.edges.row)]
    for edge in rng.sample(range(len(spare)), min(6, len(spare))):
        if spare[edge] >= 0:
            for more in (0, 1):
                draft = ModifiedWindow(base)
                draft.extra[edge] += spare[edge] + more
                times = base.paths.values(draft.weight, base.times)
                assert base.end_of(times, draft.tails) == base.window.end_ns + more
        else:
            draft = ModifiedWindow(base)
            draft.extra[edge] += 10**12
            assert base.end_of(base.paths.values(draft.weight, base.times), draft.tails) == base.window.end_ns


@pytest.mark.sampled(3)
@pytest.mark.parametrize("window", [None, hg.whole(), hg.step(2, cpu_window=True), hg.step(3, gpu_window=True)])
def test_an_edge_may_be_longer_by_its_slack(sample: DependencyGraph, window: WindowQuery | None) -> None:
    check_edges(sample, window, random.Random(3))


def test_ranks_of_a_job_have_slack_too() -> None:
    check_edges(hg.read_job(SAMPLES / "four_ranks"), None, random.Random(5))


def test_the_critical_path_has_none(sample: DependencyGraph) -> None:
    path = hg.critical_path(sample)
    frame = hg.slack(sample).set_index("event_index")
    kernels = path.segments[path.segments.edge == "execution"].event_index
    assert (frame.loc[kernels, "slack_ns"] == 0).all()
    assert (frame.slack_ns >= 0).all()
    assert frame.slack_ns.is_monotonic_increasing


def test_work_nobody_waits_for_in_the_window_is_not_listed(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.annotation("ProfilerStep#1", 0, 50)
    trace.op("aten::mm", 5, 45)
    trace.op("poll", 10, 40, tid=9)
    frame = hg.slack(trace.graph(tmp_path), hg.step(1))
    assert frame.name.tolist() == ["aten::mm"]


def test_near_critical_work_is_found_per_rank() -> None:
    job = hg.read_job(SAMPLES / "four_ranks")
    none, all_of_it = hg.near_critical(job, share=0), hg.near_critical(job, share=1)
    path = hg.critical_path(job)
    assert none.by_rank.near_ns.sum() >= path.length_ns
    assert (all_of_it.by_rank.near_ns >= none.by_rank.near_ns).all()
    assert set(all_of_it.by_rank["rank"]) == {part.rank for part in job.rank_graphs}
    assert (all_of_it.alternatives.slack_ns > 0).all()
    with pytest.raises(UsageError, match="is not a share of the window"):
        hg.near_critical(job, share=2)
