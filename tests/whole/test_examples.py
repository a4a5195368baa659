"""Every example runs, and the notebooks' stored outputs are what they print."""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import hta_graph as hg
from analyses.command_line.cli import main
from tests.simulator import idioms
from tests.support.make_sample import FOLDER, STRAGGLER, TRANSFER_NS, samples
from tests.support.notebooks import EXAMPLES, run_here, shown, shown_words

ROOT = EXAMPLES.parent
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
NEEDED = ("nbclient", "ipykernel", "plotly")
WALK_THROUGH = (EXAMPLES / "export_for_a_simulator.md").read_text(encoding="utf-8")
STORED_BYTES = 60_000
"""A notebook with more than that holds more than text."""


def run_python(*arguments: str | Path, folder: Path) -> str:
    """Run Python in a folder, with the repository on its path, and return what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_script(name: str, *arguments: str, folder: Path) -> str:
    """Run an example script, warnings as errors."""
    return run_python("-W", "error", EXAMPLES / name, *arguments, folder=folder)


def run_here_with(name: str, *arguments: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Run an example script in this process."""
    patch.chdir(folder)
    patch.setattr(sys, "argv", [name, *arguments])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")


def listed_files(folder: Path) -> list[str]:
    """List a folder's files."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def run_notebooks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run all notebooks side by side."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        pytest.skip(f"notebooks need {', '.join(missing)} (pip install '.[dev]')")
    folder = tmp_path_factory.mktemp("notebooks")
    run_python("-m", "tests.support.notebooks", "--to", folder, folder=ROOT)
    return {path.name: json.loads(path.read_text(encoding="utf-8")) for path in folder.iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_is_stored_in_it(path: Path, run_notebooks: dict[str, Any]) -> None:
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert shown(run_notebooks[path.name]) == shown(stored), (
        "python -m tests.support.notebooks renews the stored outputs"
    )


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_cells_of_a_notebook_show_what_is_stored_in_it(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same without a kernel, in this process, but for figures."""
    pytest.importorskip("plotly")
    monkeypatch.chdir(tmp_path)
    stored = json.loads(path.read_text(encoding="utf-8"))
    with pd.option_context("display.float_format", None, "display.max_colwidth", 50):
        assert shown_words(run_here(stored)) == shown_words(stored)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_as_text(path: Path) -> None:
    assert path.stat().st_size < STORED_BYTES
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    assert outputs
    assert all(output["output_type"] != "error" and output.get("name") != "stderr" for output in outputs)
    assert {kind for output in outputs for kind in output.get("data", ())} <= {"text/plain", "text/html"}


def test_the_neighbourhood_is_drawn(tmp_path: Path) -> None:
    said = run_script("draw_the_neighbourhood_of_a_kernel.py", folder=tmp_path)
    assert idioms.ALL_REDUCE in said
    assert "event_wait inferred" in said
    assert listed_files(tmp_path) == ["neighbourhood.svg" if shutil.which("dot") else "neighbourhood.dot"]


def test_the_neighbourhood_is_of_the_kernel_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = (str(FOLDER / "slower_trace.json.gz"), "--kernel", "largek", "-o", "k.dot")
    run_here_with("draw_the_neighbourhood_of_a_kernel.py", *asked, folder=tmp_path, patch=monkeypatch)
    said = capsys.readouterr().out
    assert said.startswith("k.dot: event 75, sgemm_largek_lds64")
    assert "sgemm_largek_lds64" in (tmp_path / "k.dot").read_text(encoding="utf-8")


def test_a_workload_is_written_with_the_simulators_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_here_with("export_for_a_simulator.py", folder=tmp_path, patch=monkeypatch)
    said = capsys.readouterr().out
    assert "nothing found" in said
    settings = ["network", "remote-memory", "system"]
    workload = ["comm_groups.json", "group_names.json", *(f"trace.{rank}.et" for rank in range(4))]
    assert listed_files(tmp_path) == [f"astra_sim/{name}.json" for name in settings] + [
        f"workload/{name}" for name in workload
    ]
    network = json.loads((tmp_path / "astra_sim" / "network.json").read_text(encoding="utf-8"))
    assert network["npus_count"] == [4]
    for option in re.findall(r"--[a-z-]+-configuration=\S+", WALK_THROUGH):
        assert option in said


def test_the_walk_through_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(FOLDER / "four_ranks", "traces")
    commands = [line for line in _shell_lines(WALK_THROUGH) if line.startswith("hta-graph") and "host" not in line]
    assert [shlex.split(command)[2] for command in commands] == ["convert", "check", "simulate"]
    for command in commands:
        assert main(shlex.split(command)[1:]) == 0
    assert "nothing found" in capsys.readouterr().out


def _shell_lines(text: str) -> list[str]:
    return [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]


@pytest.mark.parametrize("page", sorted(EXAMPLES.glob("*.md")), ids=lambda path: path.stem)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (EXAMPLES / link).exists()] == []


def test_every_example_is_listed() -> None:
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    found = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb", ".md")} - {"README.md"}
    assert {name for name in found if f"]({name})" not in text} == set()


def test_the_samples_are_what_the_simulator_makes() -> None:
    made = samples()
    assert {path: path.read_bytes() for path in FOLDER.rglob("*.gz")} == made
    assert sum(map(len, made.values())) < 200_000


def test_the_ranks_of_the_sample_wait_for_the_straggler() -> None:
    graphs = {graph.trace.rank: graph for graph in hg.read_graphs(FOLDER / "four_ranks", jobs=1)}
    kernels = {
        rank: graph.filter(name=idioms.ALL_REDUCE[:30]).events.query("kind == 'kernel'")
        for rank, graph in graphs.items()
    }
    ends = {tuple(found["end_ns"]) for found in kernels.values()}
    assert len(ends) == 1
    shortest = {rank: int(found["duration_ns"].min()) for rank, found in kernels.items()}
    assert shortest[STRAGGLER] == TRANSFER_NS
    assert all(shortest[rank] > 2 * TRANSFER_NS for rank in kernels if rank != STRAGGLER)
