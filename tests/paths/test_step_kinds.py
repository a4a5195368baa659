"""Kinds of steps of one run: a step is an outlier among those that do the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import hta_graph as hg
from hta_graph.paths.step_table import kinds_in_run, kinds_of_unlike_length, step_rows
from tests.support.command_line import run_command
from tests.support.gloo_builder import MAIN, GlooRank
from tests.support.noisy_runs import noisy_run
from tests.support.step_programs import SCRIPTS
from tests.support.trace_builder import TraceBuilder


def steps_of(
    folder: Path, lengths: Sequence[float], large: Sequence[int] = (), rank: int | None = None
) -> hg.DependencyGraph:
    """Record steps of an operator each (µs); some do it inside an annotation that the others lack."""
    trace = TraceBuilder() if rank is None else GlooRank(rank, [0, 1])
    at = 0.0
    for number, length in enumerate(lengths, 1):
        trace.annotation(f"ProfilerStep#{number}", at, at + length + 20, tid=MAIN)
        if number in large:
            trace.annotation("large", at + 1, at + length + 2, tid=MAIN)
        trace.op("aten::mm", at + 2, at + 1 + length, tid=MAIN)
        if isinstance(trace, GlooRank):
            trace.called("all_reduce", at + 3 + length, at + 5 + length)
            trace.worked("all_reduce", at + 6 + length, at + 12 + length)
        at += length + 20
    return hg.build_graph(trace.write(folder / f"rank{rank or 0}.json"))


def test_steps_that_alternate_are_no_outliers(tmp_path: Path) -> None:
    graph = steps_of(tmp_path, [40, 80] * 4, range(2, 9, 2))
    assert [kind.name for kind in kinds_in_run(graph).values()] == ["without large", "with large"] * 4
    assert [row.outlier for row in step_rows(graph)] == [None] * 8
    # The first step warms up, and counts for nothing.
    assert kinds_of_unlike_length(graph) == [("without large", 3, 60_000), ("with large", 4, 100_000)]


def test_an_outlier_differs_from_the_steps_of_its_kind(tmp_path: Path) -> None:
    """A short step that takes as long as a large one is an outlier, though not longer than the median of all."""
    lengths = [40, 80, 40, 80, 90, 80, 40, 80, 40, 300]
    outliers = [row.outlier for row in step_rows(steps_of(tmp_path, lengths, range(2, 11, 2)))]
    assert outliers == [*[None] * 4, "aten::mm 0.089 ms", *[None] * 4, "aten::mm 0.299 ms"]


def test_what_one_step_alone_does_makes_it_an_outlier(tmp_path: Path) -> None:
    rows = step_rows(steps_of(tmp_path, [40, 40, 40, 400, 40], [4]))
    assert [row.outlier for row in rows] == [None, None, None, "aten::mm 0.399 ms", None]


def test_steps_of_one_kind_of_unlike_lengths_are_outliers(tmp_path: Path) -> None:
    """Where steps do the same, lengths that alternate are what has to be explained."""
    graph = steps_of(tmp_path, [80, 40] * 4)
    assert kinds_of_unlike_length(graph) == []
    assert any(row.outlier for row in step_rows(graph))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("script", ["alternating", "accumulating", "saving", "host"])
def test_simulated_programs_of_two_kinds_have_no_outliers(tmp_path: Path, script: str) -> None:
    graph = noisy_run(tmp_path, 1, steps=13, script=SCRIPTS[script])
    assert [row.outlier for row in step_rows(graph)[1:]] == [None] * 12


def test_steps_of_a_job_have_the_kinds_of_its_ranks(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for rank in range(2):
        steps_of(tmp_path, [40, 80] * 3, range(2, 7, 2), rank)
    job = hg.read_job(tmp_path)
    assert [row.outlier for row in step_rows(job)] == [None] * 6
    out = run_command(capsys, "critical-path", tmp_path)[1]
    assert "\nSteps of 2 kinds, by median iteration: 2 without large (0.060 ms), 3 with large (0.100 ms). " in out
