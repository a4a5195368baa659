"""Savings on a page: the section of a rank and of a job, its picture, and when there is none."""

from __future__ import annotations

import re
from html import unescape
from itertools import pairwise
from pathlib import Path

import pytest

import hta_graph as hg
from analyses.cli.main import main
from analyses.questions.what_if.text import NOT_LISTED
from analyses.report import opportunities
from analyses.report.gain_curves import OpportunityCurve
from analyses.report.opportunities import BOTTOM, RIGHT, ROOM, TOP, GainSection, gain_figure, gain_sections, gains_of
from analyses.report.page_tables import Section
from analyses.report.report import page
from hta_graph.base.colours import BOUND_COLOUR
from hta_graph.base.errors import QueryError
from hta_graph.what_if.opportunities import Opportunity
from hta_graph.what_if.sensitivity import Curve
from tests.support.command_line import run_command
from tests.support.deep_tests import deep
from tests.support.page_summary import page_summary
from tests.support.samples import SAMPLES
from tests.support.shared_traces import SHARED
from tests.support.trace_builder import TraceBuilder
from tests.support.two_rank_job import one_rank


def sections_of(path: hg.CriticalPath) -> list[Section]:
    """Return the section on what a path could save."""
    return gain_sections(path, *gains_of(path))


@pytest.fixture(scope="module")
def of_job() -> GainSection:
    (section,) = sections_of(hg.critical_path(hg.read_job(SAMPLES / "four_ranks"), hg.step(2)))
    assert isinstance(section, GainSection)
    return section


def a_gain(name: str, free_ns: int) -> OpportunityCurve:
    """Return something of a window of 1 ms, all of whose time counts."""
    curve = Curve(f"kernel:{name}", 1_000_000, ((1.0, 1_000_000, free_ns, None), (0.0, 1_000_000 - free_ns, 0, None)))
    return OpportunityCurve(
        Opportunity("kernel", name, free_ns, free_ns // 2, free_ns, None), (), curve, "gpu_compute_bound"
    )


def test_it_opens_with_the_conclusion_and_lists_what_it_rests_on(of_job: GainSection) -> None:
    assert of_job.notes[0].startswith("Largest operator at 2x: aten::mm saves 220.0 µs (16%)")
    assert "No part of the path is fixed" in of_job.assumed[1]
    opportunities, ranks = of_job.tables[:2]
    assert list(opportunities.frame) == [
        "kind", "name", "on_path_ns", "saved_at_2x_speed_ns", "saved_if_removed_ns", "next",
    ]  # fmt: skip
    assert len(opportunities.bars) == len(opportunities.frame)
    assert dict(zip(ranks.frame["rank"], ranks.frame["near_critical_ns"], strict=True))[2] == 1_357_700
    assert ranks.frame["near_critical_ns"].max() == 1_357_700


def test_a_row_and_its_line_have_the_colour_of_their_class(of_job: GainSection) -> None:
    assert of_job.figure
    table = of_job.tables[0]
    colour = dict(zip(table.frame["name"], table.colours, strict=True))
    lines = {line.name: line.colour for line in of_job.figure.lines}
    assert colour["aten::mm"] == colour["ampere_sgemm_64x32_tn"] == lines["aten::mm"]
    assert lines["aten::mm"] == colour["GPU compute"] == BOUND_COLOUR["gpu_compute_bound"]
    assert colour["rank 2"] == lines["rank 2"]
    assert len({(line.colour, line.dash) for line in of_job.figure.lines}) == len(lines)
    assert colour["c10d::allreduce_"] == ""


def test_the_parts_of_a_bar_are_what_is_saved(of_job: GainSection) -> None:
    (row,) = of_job.tables[0].frame.query("name == 'aten::mm'").index
    assert [part.text for part in of_job.tables[0].bars[row].parts] == [
        "saved at 2x speed 0.220 ms, 16.2%", "more if removed 0.121 ms, 8.9%",
    ]  # fmt: skip


def test_the_corners_of_a_line_stand_where_the_curve_says(of_job: GainSection) -> None:
    assert of_job.figure
    line = next(line for line in of_job.figure.lines if line.name == "aten::mm")
    points = [tuple(map(float, point.split(","))) for point in line.points.split()]
    left, right = of_job.figure.left, of_job.figure.right
    assert [x for x, _ in points] == [left, pytest.approx(left + 0.55 * (right - left)), right]
    lowest = 1_357_700 * 0.4
    assert points[1][1] == pytest.approx(TOP + 242_000 / (1_357_700 - lowest) * (BOTTOM - TOP), abs=0.1)
    assert "at 45% of its time" in line.corners[0].text
    assert "AllReduce_Sum_f32_RING_LL on rank 2" in line.corners[0].text


@pytest.mark.parametrize("saved", [(10, 11, 12, 13, 14), (800_000, 799_000, 798_000), (500_000, 1), (300_000,)])
def test_labels_keep_apart_and_inside_the_picture(saved: tuple[int, ...]) -> None:
    figure = gain_figure([a_gain(f"kernel_{ns}", ns) for ns in saved])
    labels = sorted(line.label for line in figure.lines)
    assert all(lower - upper >= ROOM for upper, lower in pairwise(labels))
    assert all(TOP <= label <= BOTTOM for label in labels)
    assert sorted(figure.lines, key=lambda line: line.end) == sorted(figure.lines, key=lambda line: line.label)
    assert all(line.points.endswith(f"{RIGHT},{line.end:g}") for line in figure.lines)


def test_long_names_are_cut_in_the_middle_and_whole_where_the_pointer_is() -> None:
    name = "nvjet_tst_" + 30 * "x" + "_the_end_of_it"
    (line,) = gain_figure([a_gain(name, 1000)]).lines
    assert line.name.startswith("nvjet")
    assert line.name.endswith("of_it")
    assert len(line.name) == 40
    assert line.whole == f"kernel {name}"


def test_the_page_holds_the_picture_and_no_markup_of_names(of_job: GainSection) -> None:
    odd = '"><script>alert(1)</script>'
    section = GainSection(
        "s", odd, [], figure=gain_figure([a_gain(odd, 1000)]), template="gain_part.html", assumed=[odd]
    )
    text = page(page_summary(), [section]).decode()
    assert text.count("<polyline") == 2
    assert "<script>alert" not in text
    assert page(page_summary(), [of_job]).decode().count("<circle") == sum(
        len(line.corners) for line in of_job.figure.lines
    )  # type: ignore[union-attr]


@pytest.mark.slow
def test_one_rank_has_no_table_of_ranks(tmp_path: Path) -> None:
    assert main(["report", str(SAMPLES / "sample_trace.json.gz"), "-o", str(tmp_path / "r.html")]) == 0
    text = unescape((tmp_path / "r.html").read_text())
    section = text.split(">Savings</h2>")[1].split("</section>")[0]
    assert "Largest operator at 2x: aten::mm saves 220.0 µs (21%)" in section
    assert "18% of the path is fixed in every scenario" in section
    assert "by rank" not in section
    assert re.search(r"<title>[^<]*kernel ampere_sgemm_64x32_tn would save the same</title>", section)


def test_names_of_kernels_are_whole_where_the_pointer_is(tmp_path: Path) -> None:
    built = TraceBuilder()
    name = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"
    built.launch(name, (0, 2), (3, 1000), 1)
    (section,) = sections_of(hg.critical_path(built.graph(tmp_path), hg.whole()))
    cells = [row.cells[0] for row in section.shown()[0].rows]
    assert {cell.text: cell.whole for cell in cells}["vectorized_elementwise [CUDAFunctor_add]"] == name


def test_where_nothing_would_be_gained_nothing_is_said(tmp_path: Path) -> None:
    built = TraceBuilder()
    built.launch("gemm", (0, 2), (3, 1000), 1)
    graph = built.graph(tmp_path)
    kernel = graph.filter(name="gemm").events.iloc[0]
    path = hg.critical_path(graph, hg.between(kernel.start_ns + 1000, kernel.end_ns - 1000))
    assert path.by_bound_ns["gpu_compute_bound"] == path.length_ns
    assert sections_of(path) == []


@pytest.mark.parametrize("kept", ["never", deep("always")])
def test_where_work_was_not_recorded_no_savings_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kept: str
) -> None:
    for rank in range(2):
        trace = one_rank(rank)
        if rank:
            trace.call("cudaLaunchKernel", 150, 152, 8)
            trace.launch("gemm", (176, 178), (188, 195), 10)
        trace.write(tmp_path / f"rank{rank}.json")
    assert main(["report", str(tmp_path), "--summaries", kept, "-o", str(tmp_path / "page.html")]) == 0
    text = unescape((tmp_path / "page.html").read_text())
    assert "Savings are unknown: launched work is not recorded for up to 19% of the window." in text
    assert "Estimated savings" not in text
    assert run_command(capsys, "what-if", tmp_path, "--summaries", kept)[1].splitlines()[-1].startswith(NOT_LISTED)


def test_a_window_that_cannot_be_replayed_is_said_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise QueryError("the dependencies form a cycle")

    monkeypatch.setattr(opportunities, "find_gains", refuse)
    path = hg.critical_path(hg.build_graph(hg.read_trace(SAMPLES / "sample_trace.json.gz")))
    (section,) = sections_of(path)
    assert section.notes == ["The dependencies form a cycle."]
    assert not section.tables


@pytest.mark.shared
@pytest.mark.slow
def test_a_real_job_is_told_what_its_slow_rank_costs() -> None:
    path = hg.critical_path(hg.read_job(SHARED / "traces" / "nanogpt_ddp_8xh100"))
    (section,) = sections_of(path)
    assert "rank 1" in section.notes[0]
    assert section.notes[1] == "Near-critical work (slack below 1% of the window) is on rank 1 only."
