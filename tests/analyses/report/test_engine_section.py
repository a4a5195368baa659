"""The report's section on an inference engine's steps: it says what ``serving`` says, and draws every step."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

import hta_graph as hg
from analyses.cli.main import main
from analyses.declare.scope import whole
from analyses.questions.serving import PARTS, answer, time_parts
from analyses.report.engine_section import BOTTOM, MOST_BARS, TOP, EngineSection, engine_sections, steps_figure
from analyses.report.page_tables import Section, SectionTable
from analyses.report.timeline import timeline_page
from tests.simulator.serving import ServingFault, ServingShape, serve
from tests.support.html_tables import page_sections, page_tables
from tests.support.samples import ONE_RANK, SAMPLES


def sections_of(*paths: Path) -> list[Section]:
    """Make the section of some ranks, with the first one in detail."""
    graphs = {rank: hg.build_graph(hg.read_trace(path)) for rank, path in enumerate(paths)}
    return engine_sections(graphs, 0, timeline_page(hg.critical_path(graphs[0])))


def table_of(section: Section, title: str) -> SectionTable:
    (found,) = (table for table in section.tables if table.title.startswith(title))
    return found


def test_the_section_says_what_serving_says() -> None:
    path = SAMPLES / "serving.json.gz"
    (section,) = sections_of(path)
    assert isinstance(section, EngineSection)
    found = answer([whole(0, hg.build_graph(hg.read_trace(path)))])
    assert section.notes[0] == f"{found.conclusion[0]}."
    phases, steps = table_of(section, "Engine phases"), table_of(section, "Engine steps one by one")
    assert phases.frame["phase"].tolist() == ["decode", "mixed", "prefill"]
    assert len(phases.bars) == 3
    assert len(table_of(section, "Step gaps").frame) == len(found.tables["step_gaps"])
    assert len(steps.frame) == len(steps.bars) == len(steps.links) == 17
    # This timeline holds the chosen step alone.
    assert [at for at, link in enumerate(steps.links) if link] == [14]
    assert section.figure is not None
    assert section.figure.bars[14].text.startswith("decode step 14: GPU compute and copies ")
    assert list(steps.legend) == [shape.text for shape in section.figure.shapes]


def test_training_has_no_such_section() -> None:
    assert not sections_of(ONE_RANK)


def test_of_two_ranks_the_steps_of_the_one_in_detail_are_listed(tmp_path: Path) -> None:
    served = serve(ServingShape("vllm", 2, 2, 3, ServingFault("scheduler", 800_000, rank=0)))
    (section,) = sections_of(*served.record(tmp_path).paths)
    assert set(table_of(section, "Engine phases").frame["rank"]) == {0, 1}
    assert table_of(section, "Engine steps one by one").frame["rank"].tolist() == [0] * len(served.steps)
    assert "on rank 0" in section.notes[0]


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--step", "3"), ("--rank", "1"), ("--summaries", "always")])
def test_pages_of_any_window_and_size_have_it(tmp_path: Path, options: tuple[str, ...]) -> None:
    served = serve(ServingShape("vllm", 2, 3, 3, ServingFault("scheduler", 800_000, rank=0)))
    served.record(tmp_path / "job")
    page = tmp_path / "r.html"
    assert main(["report", str(tmp_path / "job"), *options, "-o", str(page)]) == 0
    tables = page_tables(page_sections(page)["Engine steps"])
    (steps,) = (rows for title, rows in tables.items() if title.startswith("Engine steps one by one"))
    assert len(steps) == 1 + len(served.steps)


@pytest.mark.slow
def test_the_headline_of_a_page_names_the_phase(tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    assert main(["report", str(SAMPLES / "serving.json.gz"), "-o", str(page)]) == 0
    assert "<h1>13 decode steps of batch 1 to 6: bound by " in page.read_text()
    assert "<dt>median iteration</dt>" in page.read_text()
    assert page.read_text().count('<rect class="pointed"') == 17


@pytest.mark.parametrize("count", [1, 7, MOST_BARS, 2 * MOST_BARS + 1])
def test_bars_are_as_high_as_iterations_are_long(count: int) -> None:
    frame = pd.DataFrame({
        "step": range(count), "phase": "decode", "iteration_ns": [1_000_000 + 1_000 * at for at in range(count)],
        "exposed_communication_ns": 100_000, "idle_before_ns": 200_000, "idle_inside_ns": 0,
    })  # fmt: skip
    figure = steps_figure(frame)
    per_bar = -(-count // MOST_BARS)
    assert len(figure.bars) == -(-count // per_bar) <= MOST_BARS
    assert [shape.text for shape in figure.shapes] == [*PARTS.values()][:3]
    assert bool(figure.note) == (per_bar > 1)
    # The longest bar fills the picture; the parts of all add up to its height.
    tops = [float(top) for shape in figure.shapes for top in re.findall(r"V([\d.]+)", shape.outline)]
    assert min(tops) == pytest.approx(TOP, abs=0.01)
    lengths = frame["iteration_ns"].groupby([at // per_bar for at in range(count)]).mean()
    idle_tops = [float(top) for top in re.findall(r"V([\d.]+)", figure.shapes[-1].outline)]
    heights = (BOTTOM - pd.Series(idle_tops)) / (BOTTOM - TOP)
    assert heights.tolist() == pytest.approx((lengths / lengths.max()).tolist(), abs=1e-3)
    assert sum(part.sum() for part in time_parts(frame).values()) == frame["iteration_ns"].sum()
