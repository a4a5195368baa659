"""What one more step, stream, thread or file costs: counted in calls, which no busy machine changes."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analyses.cli.main import main
from analyses.compare.diff import run_diff
from hta_graph.graph.dependency_graph import DependencyGraph
from tests.benchmarks.scaling_traces import FOLDERS, SHAPES, write_folder, write_shape
from tests.support.deep_tests import deep

FEWEST, FEW, MANY = 10, 70, 150
"""How many steps, streams, threads or files: a first run imports what is needed, the others are compared."""


def calls_of(work: Callable[[], Any]) -> int:
    """Count the calls of functions, Python's and C's, while something is done."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def calls_at(size: int, name: str, argv: list[str], folder: Path) -> int:
    if name in FOLDERS:
        trace = write_folder(name, size, folder / f"{name}_{size}")
    else:
        trace = write_shape(SHAPES[name], size, folder / f"{name}_{size}.json")
    return calls_of(lambda: main([part.replace("OUT", str(folder)) if part != "T" else str(trace) for part in argv]))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "argv", "most"),
    [
        ("steps", ["critical-path", "T", "--json", "OUT/path.json"], 1_000),  # 370
        ("streams", ["info", "T"], 120),  # 50
        deep("threads", ["idle-time", "T", "--json", "OUT/idle.json"], 250),  # 100
        deep("steps", ["report", "T", "-o", "OUT/report.html"], 1_500),  # 440
        deep("small_ranks", ["info", "T"], 20_000),  # 11,000, all read in this process
    ],
)
def test_one_more_costs_few_calls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, argv: list[str], most: int
) -> None:
    """A loop over all others for each one would be many times as many, and so would a loop over lanes or steps."""
    _, few, many = (calls_at(size, name, argv, tmp_path) for size in (FEWEST, FEW, MANY))
    assert capsys.readouterr().err.count("Traceback") == 0
    assert (many - few) / (MANY - FEW) <= most


def test_the_steps_of_a_run_are_not_looked_through_for_each_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten thousand steps took half a minute to compare; a loop in one expression is one call."""
    looks = Counter[str]()

    def counted(name: str, known: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda of: looks.update([name]) or known(of)

    monkeypatch.setattr(run_diff, "_compared_steps", counted("compared", run_diff._compared_steps))
    monkeypatch.setattr(DependencyGraph, "steps", counted("steps", DependencyGraph.steps))
    trace = write_shape(SHAPES["steps"], FEW, tmp_path / "steps.json")
    main(["diff", str(trace), str(trace), "--json", str(tmp_path / "diff.json")])
    assert "Traceback" not in capsys.readouterr().err
    assert 0 < looks["compared"] <= 4
    assert 0 < looks["steps"] < FEW
