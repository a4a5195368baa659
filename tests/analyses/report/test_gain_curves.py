"""Savings: which opportunities are distinct, the conclusion about the first, ticks and corners of curves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import hta_graph as hg
from analyses.report.gain_curves import (
    OpportunityCurve,
    OpportunityCurves,
    conclusion_without_curves,
    corner_text,
    find_gains,
    gain_curves,
    saved_ticks,
)
from hta_graph.paths.windows import resolved_window
from hta_graph.what_if.opportunities import Opportunity, opportunity_rows
from hta_graph.what_if.predict import JobOpportunities, JobPrediction, RankPathTotals
from hta_graph.what_if.replay import replay_graph
from hta_graph.what_if.sensitivity import Curve
from tests.support.rank_builder import RankBuilder
from tests.support.samples import SAMPLES
from tests.support.trace_builder import TraceBuilder


@pytest.fixture(scope="module")
def sample_gains() -> OpportunityCurves:
    graph = hg.build_graph(hg.read_trace(SAMPLES / "sample_trace.json.gz"))
    return find_gains(graph, hg.step(2)(graph))


@pytest.fixture(scope="module")
def job_gains() -> OpportunityCurves:
    job = hg.read_job(SAMPLES / "four_ranks")
    return find_gains(job, hg.step(2)(job))


def saying(kind: str, name: str, *corners: tuple[float, int, int, str | None], graph: hg.DependencyGraph) -> str:
    """Return what is said of one opportunity of a window of 1 ms."""
    curve = Curve(f"{kind}:{name}", 1_000_000, corners)
    one = Opportunity(kind, name, corners[0][2], round(1e6 - curve.at(0.5)), 1_000_000 - corners[-1][1], None)
    window = hg.whole()(graph)
    return OpportunityCurves(graph, window, pd.DataFrame(), [OpportunityCurve(one, (), curve)]).conclusion


@pytest.fixture
def graph(tmp_path: Path) -> hg.DependencyGraph:
    built = TraceBuilder()
    built.launch("gemm", (0, 2), (3, 1000), 1)
    return built.graph(tmp_path)


@pytest.mark.slow
def test_a_conclusion_names_what_a_person_can_change(
    sample_gains: OpportunityCurves, job_gains: OpportunityCurves
) -> None:
    assert sample_gains.conclusion == (
        "Largest operator at 2x: aten::mm saves 220.0 µs (19%); removing it saves 440.0 µs (38%)."
    )
    assert job_gains.conclusion == (
        "Largest operator at 2x: aten::mm saves 220.0 µs (16%); removing it saves 341.0 µs (25%). "
        "Below 45% of its time, further speedup saves less; next bottleneck: AllReduce_Sum_f32_RING_LL on rank 2."
    )


def test_without_curves_a_conclusion_tells_what_comes_next(job_gains: OpportunityCurves) -> None:
    listed = opportunity_rows(replay_graph(job_gains.graph, resolved_window(job_gains.window)))
    window, length = job_gains.window, job_gains.window.end_ns - job_gains.window.start_ns
    nothing = RankPathTotals((), ())
    as_is = JobPrediction(
        job_gains.graph, window, (), length, length, length, 0.0, 0.0, 0.0, nothing, nothing, is_unchanged=True
    )
    assert conclusion_without_curves(JobOpportunities(as_is, listed, {})) == (
        "Largest operator at 2x: aten::mm saves 220.0 µs (16%); removing it saves 341.0 µs (25%); "
        "next bottleneck: AllReduce_Sum_f32_RING_LL on rank 2."
    )
    assert conclusion_without_curves(JobOpportunities(as_is, [], {})) == ""


OF_RANK_2 = (
    "Largest rank at 2x: the work of rank 2 saves 200.0 µs (20%); removing it saves 200.0 µs (20%). "
    "Below 80% of its time, further speedup saves nothing; next bottleneck: gemm on rank 3."
)
OF_A_CLASS = (
    "Largest class at 2x: CPU work saves 230.0 µs (23%); removing it saves 280.0 µs (28%). "
    "Below 80% of its time, further speedup saves less; next bottleneck: gemm on rank 3."
)


@pytest.mark.parametrize(
    ("kind", "name", "slope", "said"), [("rank", "2", 0, OF_RANK_2), ("class", "cpu_bound", 100_000, OF_A_CLASS)]
)
def test_a_conclusion_tells_where_it_stops_paying(
    kind: str, name: str, slope: int, said: str, graph: hg.DependencyGraph
) -> None:
    low = 800_000 - round(0.8 * slope)
    corners = ((1.0, 1_000_000, 1_000_000, None), (0.8, 800_000, slope, "rank 3: gemm"), (0.0, low, 0, None))
    assert saying(kind, name, *corners, graph=graph) == said


def test_a_conclusion_is_about_a_class_only_where_that_is_a_thing_to_change(sample_gains: OpportunityCurves) -> None:
    by_what = {gain.chosen.what: gain for gain in sample_gains.drawn}
    computes, multiplies = by_what["class:gpu_compute_bound"], by_what["operator:aten::mm"]
    loads = OpportunityCurve(Opportunity("class", "data_loading", 600_000, 300_000, 600_000, None), (), computes.curve)
    first = [replace(sample_gains, drawn=drawn).conclusion for drawn in ([computes, multiplies], [loads, multiplies])]
    assert first[0].startswith("Largest operator at 2x: aten::mm")
    assert first[1].startswith("Largest class at 2x: data loading")


def test_a_corner_that_hardly_bends_or_comes_last_is_not_told(graph: hg.DependencyGraph) -> None:
    corners = (
        (1.0, 1_000_000, 500_000, None),
        (0.9, 950_000, 480_000, "a"),
        (0.01, 522_800, 0, "b"),
        (0.0, 522_800, 0, None),
    )
    assert saying("kernel", "gemm", *corners, graph=graph).endswith("removing it saves 477.2 µs (48%).")


def test_one_gain_under_several_names_is_drawn_once_by_what_can_be_changed(sample_gains: OpportunityCurves) -> None:
    drawn = {gain.chosen.what: [other.what for other in gain.alike] for gain in sample_gains.drawn}
    assert drawn["operator:aten::mm"] == ["kernel:ampere_sgemm_64x32_tn"]
    assert drawn["operator:aten::addmm"] == ["module:nn.Module: Linear_0", "kernel:ampere_sgemm_128x64_nn"]
    assert len(drawn) == 5
    pairs = {(gain.chosen.saved_half_ns, gain.chosen.saved_free_ns) for gain in sample_gains.drawn}
    assert len(pairs) == 5


def test_curves_are_those_of_the_table(job_gains: OpportunityCurves) -> None:
    for gain in job_gains.drawn:
        assert gain.curve.measured_ns - gain.curve.at(0.5) == pytest.approx(
            gain.chosen.saved_half_ns, abs=0.005 * 1_357_700
        )
        assert gain.curve.measured_ns - gain.curve.corners[-1][1] == gain.chosen.saved_free_ns


def test_a_curve_with_fewer_corners_lies_no_lower_than_was_allowed(job_gains: OpportunityCurves) -> None:
    what, asked = "class:gpu_compute_bound", resolved_window(job_gains.window)
    exact = hg.sensitivity(job_gains.graph, what, asked)
    coarse = hg.sensitivity(job_gains.graph, what, asked, within_ns=20_000)
    assert len(coarse.corners) < len(exact.corners)
    # Corners are whole nanoseconds.
    assert all(-1 <= exact.at(tenth / 10) - coarse.at(tenth / 10) <= 20_000 for tenth in range(11))


def test_ticks_go_from_what_was_measured_to_below_all_curves() -> None:
    curve = Curve("kernel:gemm", 42_000_000, ((1.0, 42_000_000, 9_000_000, None), (0.0, 33_000_000, 0, None)))
    ticks = saved_ticks([curve])
    assert [(tick.length, tick.saved) for tick in ticks] == [
        ("42.00 ms", ""), ("39.90 ms", "−5%"), ("37.80 ms", "−10%"), ("35.70 ms", "−15%"), ("33.60 ms", "−20%"),
        ("31.50 ms", "−25%"),
    ]  # fmt: skip
    assert ticks[-1].length_ns <= 33_000_000


@pytest.mark.sampled(3)
@pytest.mark.parametrize("saved", [0.0001, 0.004, 0.3, 0.999, 1.0])
def test_there_are_always_ticks_for_all_that_is_saved(saved: float) -> None:
    end = round(1e7 * (1 - saved))
    ticks = saved_ticks([Curve("x", 10_000_000, ((1.0, 10_000_000, 1, None), (0.0, end, 0, None)))])
    assert 2 <= len(ticks) <= 6
    assert ticks[-1].length_ns <= end


def test_a_corner_says_where_it_is_and_what_comes() -> None:
    curve = Curve("x", 1_000_000, ((1.0, 1_000_000, 500_000, None), (0.5, 750_000, 0, "rank 1: void add<1>(int)")))
    assert corner_text(curve, curve.corners[1]) == (
        "at 50% of its time: 750.0 µs, saves 250.0 µs (25%); next bottleneck: add on rank 1"
    )
    assert corner_text(curve, curve.corners[0]).startswith("at 100% of its time: 1.00 ms, saves 0.00 µs (0%)")


def test_a_figure_has_a_line_for_each_curve(job_gains: OpportunityCurves) -> None:
    pytest.importorskip("plotly")
    figure = gain_curves(*(gain.curve for gain in job_gains.drawn))
    line = next(line for line in figure.data if line.name == "operator:aten::mm")
    assert list(line.x) == [1.0, 0.45, 0.0]
    assert list(line.y) == [1.3577, 1.1157, 1.0167]
    assert "next bottleneck: AllReduce_Sum_f32_RING_LL on rank 2" in line.customdata[1]
    assert figure.layout.xaxis.range[0] > figure.layout.xaxis.range[1]


def test_a_figure_of_nothing_says_so() -> None:
    pytest.importorskip("plotly")
    assert "nothing on the path" in gain_curves().layout.annotations[0].text


def test_what_may_be_waiting_leads_only_where_nothing_else_is_there(tmp_path: Path) -> None:
    """Of one rank alone an all-reduce may be waiting for the others: half of its time is nobody's to save."""
    trace = RankBuilder(0, 2)
    trace.launch("gemm", (0, 5), (8, 48), 1, stream=24)
    trace.collective(6, (50, 150), 2)
    graph = trace.graph(tmp_path)
    found = find_gains(graph, hg.whole()(graph))
    assert found.drawn[0].chosen.may_be_waiting
    assert "gemm" in found.conclusion
