"""Every example runs, and the notebooks' stored outputs are what they print."""

from __future__ import annotations

import gzip
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
from analyses.cli.main import main
from hta_graph.chakra.log_statistics import RankStatistics, log_statistics, read_log
from tests.simulator import pytorch_idioms
from tests.support.astra_sim import needs_astra_sim, program_path
from tests.support.host_builder import host_of
from tests.support.make_samples import FOLDER, STRAGGLER, TRANSFER_NS, samples
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
@pytest.mark.slow
def test_the_cells_of_a_notebook_show_what_is_stored_in_it(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same without a kernel, in this process, but for figures."""
    pytest.importorskip("plotly")
    monkeypatch.chdir(tmp_path)
    stored = json.loads(path.read_text(encoding="utf-8"))
    with pd.option_context("display.float_format", None, "display.max_colwidth", 50):
        assert shown_words(run_here(stored)) == shown_words(stored)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_as_text(path: Path) -> None:
    assert path.stat().st_size < STORED_BYTES
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    assert outputs
    assert all(output["output_type"] != "error" and output.get("name") != "stderr" for output in outputs)
    assert {kind for output in outputs for kind in output.get("data", ())} <= {"text/plain", "text/html"}


@pytest.mark.slow
def test_the_neighbourhood_is_drawn(tmp_path: Path) -> None:
    said = run_script("draw_the_neighbourhood_of_a_kernel.py", folder=tmp_path)
    assert pytorch_idioms.ALL_REDUCE in said
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
    assert "no problems" in said
    settings = ["network", "remote-memory", "system"]
    workload = ["comm_groups.json", "group_names.json", *(f"trace.{rank}.et" for rank in range(4))]
    assert listed_files(tmp_path) == [f"astra_sim/{name}.json" for name in settings] + [
        f"workload/{name}" for name in workload
    ]
    network = json.loads((tmp_path / "astra_sim" / "network.json").read_text(encoding="utf-8"))
    assert network["npus_count"] == [4]
    for option in re.findall(r"--[a-z-]+-configuration=astra_sim\S+", WALK_THROUGH):
        assert option in said


def test_a_rank_alone_gets_a_second_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rank = str(FOLDER / "four_ranks" / "rank_0.json.gz")
    asked = (rank, "--missing-ranks", "as-compute", "--bandwidth", "12.5", "--replay-only")
    run_here_with("export_for_a_simulator.py", *asked, folder=tmp_path, patch=monkeypatch)
    said = capsys.readouterr().out
    assert "ASTRA-sim needs two: trace.1.et is a copy" in said
    assert (tmp_path / "workload/trace.0.et").read_bytes() == (tmp_path / "workload/trace.1.et").read_bytes()
    network, system = (
        json.loads((tmp_path / "astra_sim" / f"{name}.json").read_text()) for name in ("network", "system")
    )
    assert network == {"topology": ["FullyConnected"], "npus_count": [2], "bandwidth": [12.5], "latency": [500.0]}
    assert system["replay-only"] == 1


def prepare_walk_through(folder: Path) -> None:
    """Give what the walk-through says is there: the script, traces, and a host trace."""
    shutil.copy(EXAMPLES / "export_for_a_simulator.py", folder)
    shutil.copytree(FOLDER / "four_ranks", folder / "traces")
    graph = hg.build_graph(hg.read_trace(folder / "traces" / "rank_0.json.gz"))
    host_of(graph).write(folder / "host_rank_0.json")


@pytest.mark.slow
def test_the_walk_through_runs_without_the_simulator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All commands but those that run ASTRA-sim or read its log."""
    prepare_walk_through(tmp_path)
    monkeypatch.chdir(tmp_path)
    own, asked = 0, []
    for line in (line for block in _shell_blocks(WALK_THROUGH) if "()" not in block for line in block.splitlines()):
        program, *words = shlex.split(line)
        if program == "astra_sim" or words[1:2] == ["statistics"]:
            own += 1
        elif program == "hta-graph":
            assert main(words) == 0, line
            asked.append(words[1])
        elif program == "python":
            run_here_with(words[0], *words[1:], folder=tmp_path, patch=monkeypatch)
        else:
            assert program == "cp"
            shutil.copyfile(*words)
    assert own == 7
    assert asked == ["convert", "link", "convert", "check", "simulate", "scale"]
    assert "no problems" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.shared
def test_the_walk_through_runs_with_the_simulator(tmp_path: Path) -> None:
    needs_astra_sim()
    prepare_walk_through(tmp_path)
    (tmp_path / "hta-graph").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m analyses.cli.main "$@"\n')
    (tmp_path / "hta-graph").chmod(0o755)
    (tmp_path / "python").symlink_to(sys.executable)
    path = os.pathsep.join([str(tmp_path), str(program_path("unaware").parent), os.environ["PATH"]])
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": path}
    script = "set -euo pipefail\n" + "\n".join(_shell_blocks(WALK_THROUGH))
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    ends = {name: [rank.end_ns or 0 for rank in _ranks_of_log(tmp_path / name)] for name in LOGS}
    assert max(ends["log_slow_network"]) > 1.01 * max(ends["log"])
    assert max(ends["log_faster"]) < 0.99 * max(ends["log"])


LOGS = ("log", "log_slow_network", "log_replay", "log_faster")


def _ranks_of_log(folder: Path) -> list[RankStatistics]:
    ranks = log_statistics(read_log(folder)).ranks
    assert len(ranks) == 4
    return ranks


def _shell_blocks(text: str) -> list[str]:
    return re.findall(r"```sh\n(.*?)```", text, re.DOTALL)


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
    # Packed bytes differ between Pythons: 3.13 says otherwise which system packed them.
    kept = {path: gzip.decompress(path.read_bytes()) for path in FOLDER.rglob("*.gz")}
    assert kept == {path: gzip.decompress(packed) for path, packed in made.items()}
    assert sum(map(len, made.values())) < 200_000


def test_the_ranks_of_the_sample_wait_for_the_straggler() -> None:
    graphs = {graph.trace.rank: graph for graph in hg.read_graphs(FOLDER / "four_ranks", jobs=1)}
    kernels = {
        rank: graph.filter(name=pytorch_idioms.ALL_REDUCE[:30]).events.query("kind == 'kernel'")
        for rank, graph in graphs.items()
    }
    ends = {tuple(found["end_ns"]) for found in kernels.values()}
    assert len(ends) == 1
    shortest = {rank: int(found["duration_ns"].min()) for rank, found in kernels.items()}
    assert shortest[STRAGGLER] == TRANSFER_NS
    assert all(shortest[rank] > 2 * TRANSFER_NS for rank in kernels if rank != STRAGGLER)
