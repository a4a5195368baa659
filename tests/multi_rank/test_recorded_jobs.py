"""Jobs that were recorded with a fault of known size: every command names its rank, its steps and its size."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

import pytest

import hta_graph as hg
from analyses.cli.main import main
from hta_graph.multi_rank.job_verdict import JobVerdict, job_verdict
from tests.support.command_line import run_command

RECORDED = Path(__file__).parent / "recorded"
WARM_UP = 2
"""So many steps come before the recorded ones."""
SIZE = 0.15
"""How far the stated delay may be from the injected one."""


def injected(folder: Path) -> dict[int, float]:
    """Return how long (ms) the late rank was delayed in each recorded step."""
    ranks = json.loads((folder / "truth.json").read_text(encoding="utf-8"))["ranks"]
    found: dict[int, float] = {}
    for one in (one for rank in ranks for one in rank["inj"]):
        found[one["step"]] = found.get(one["step"], 0.0) + one["ms"]
    return found


def verdict_of(folder: Path) -> JobVerdict:
    return job_verdict(hg.read_job(folder))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "rank", "pattern"),
    [
        ("pairs_once", 1, "once"),
        ("levels_since", 2, "since"),
        ("experts_every", 0, "every_step"),
        ("stages_every", 1, "every_step"),
    ],
)
def test_the_verdict_names_the_rank_the_steps_and_the_size(name: str, rank: int, pattern: str) -> None:
    truth, found = injected(RECORDED / name), verdict_of(RECORDED / name)
    assert (found.rank, found.pattern) == (rank, pattern)
    assert set(found.steps) <= truth.keys()
    assert found.median_caused_ns / 1e6 == pytest.approx(median(truth[step] for step in found.steps), rel=SIZE)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["pairs_once", "levels_since"])
def test_no_collective_of_the_group_that_is_never_called_is_invented(name: str) -> None:
    job = hg.read_job(RECORDED / name)
    members = job.members.take(job.members.number >= 0)
    ranks: dict[int, set[int]] = {}
    for number, part in zip(members.number.tolist(), members.part.tolist(), strict=True):
        ranks.setdefault(number, set()).add(job.rank_graphs[part].rank)
    inner, outer = [{0, 1}, {2, 3}], [{0, 2}, {1, 3}]
    assert all(found in [*inner, *outer] for found in ranks.values())
    assert not job.diagnostics["collectives_group_unknown"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["pairs_once", "experts_every"])
def test_all_commands_give_one_verdict(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for command in ("stragglers", "critical-path", "report"):
        out = tmp_path / f"{command}.json"
        assert main([command, str(RECORDED / name), "--json", str(out)]) == 0
        said.append(json.loads(out.read_text(encoding="utf-8"))["job_verdict"])
    capsys.readouterr()
    assert said[0] == said[1] == said[2]


@pytest.mark.slow
def test_details_of_another_step_than_the_delayed_one_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    """The step of median length is shown: a fault that happens once is in another one."""
    out = run_command(capsys, "critical-path", RECORDED / "pairs_once")[1]
    assert "\nThe details below are of step 6; use --step 4 for a step that rank 1 delays.\n" in out
    assert "The details below" not in run_command(capsys, "critical-path", RECORDED / "pairs_once", "--step", 4)[1]
