"""The difference of two jobs: the injected delay, chance, other ranks; identities of what is told of each step."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hta_graph as hg
from analyses.compare.diff import job_diff, run_diff
from analyses.compare.diff.job_diff import JobComparison
from analyses.compare.diff.job_side import STEPS_LISTED, listed_steps, side_of_job
from analyses.compare.diff.sides import median_index
from analyses.declare.answer import Answer, answer_lines
from analyses.display.text_layout import TextTable
from tests.simulator.large import read_truth
from tests.support.deep_tests import deep
from tests.support.job_pairs import DELAY_NS, compared_jobs, job_of_steps

MESH_3D: dict[str, Any] = {"mesh": "3d", "collectives": 40, "rows": 450}
KINDS: dict[str, dict[str, Any]] = {
    "control": {"seed": 1},
    "again": {"seed": 2},
    "gpu": {"seed": 3, "delay_ns": DELAY_NS},
    "host": {"seed": 4, "delay_ns": DELAY_NS, "delay_on": "host"},
    "control_3d": {"seed": 1, **MESH_3D},
    "again_3d": {"seed": 2, **MESH_3D},
    "gpu_3d": {"seed": 3, **MESH_3D, "delay_ns": DELAY_NS},
    "larger": {"seed": 6, "ranks": 16},
}
Job = Callable[[str], Path]


@pytest.fixture(scope="module")
def job_of(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """Write each job once."""
    written: dict[str, Path] = {}

    def job(name: str) -> Path:
        if name not in written:
            written[name] = job_of_steps(tmp_path_factory.mktemp("jobs") / name, **KINDS[name])
        return written[name]

    return job


def files(folder: Path, *without: int) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name not in {f"rank_{rank}.json.gz" for rank in without})


def answer_of(found: JobComparison) -> Answer:
    beside = job_diff.common_rank(found.control, found.test)
    graphs = (hg.build_graph(hg.read_trace(side.files[beside])) for side in (found.control, found.test))
    return job_diff.answer_of_jobs(found, run_diff.between_runs(*graphs))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("control", "test"), [("control", "gpu"), deep("control", "host"), deep("control_3d", "gpu_3d")]
)
def test_the_delayed_rank_and_the_size_of_the_delay_are_named(job_of: Job, control: str, test: str) -> None:
    found = compared_jobs(files(job_of(control)), files(job_of(test)))
    answer, injected = answer_of(found), read_truth(job_of(test))["injected"]
    name = injected["kernel" if injected["on"] == "gpu" else "operator"]
    assert found.beyond_noise
    # Of a host's delay its GPU makes up for a little.
    assert found.test.median_ns - found.control.median_ns == pytest.approx(DELAY_NS, rel=0.1)
    first = answer.tables["job_causes"].iloc[0]
    assert (first["rank"], first["name"]) == (injected["rank"], name)
    assert first["diff_ns"] == pytest.approx(7 * DELAY_NS, rel=0.15)
    assert answer.tables["job_names"].iloc[0]["name"] == name
    assert answer.tables["job_ranks"].iloc[0]["rank"] == injected["rank"]
    host = f"node{injected['rank'] // 4}"
    said = "\n".join(answer.opening)
    assert re.match(r"\d+\.\d% slower per iteration: ", said)
    assert f"\nLargest change on the critical path: {name}, +" in said
    assert f"\nThe critical path is longer on rank {injected['rank']} (host {host}): +" in said
    assert f"\nRank {injected['rank']} (host {host}) now delays the others: it causes " in said
    assert answer.tables["job_hosts"].iloc[0][["host", "control_host", "ranks"]].tolist() == [host, host, 4]


@pytest.mark.slow
def test_who_is_waited_for_no_longer_is_said_too(job_of: Job) -> None:
    said = "\n".join(answer_of(compared_jobs(files(job_of("gpu")), files(job_of("control")))).opening)
    rank = read_truth(job_of("gpu"))["injected"]["rank"]
    assert f"\nThe critical path is shorter on rank {rank} " in said
    assert f"\nRank {rank} " in said
    assert " delays the others less: " in said


@pytest.mark.slow
@pytest.mark.parametrize(("control", "test"), [("control", "again"), deep("control_3d", "again_3d")])
def test_another_run_of_the_same_job_is_no_slower(job_of: Job, control: str, test: str) -> None:
    found = compared_jobs(files(job_of(control)), files(job_of(test)))
    said = answer_of(found).opening
    assert not found.beyond_noise
    assert len(said) == 2, "the verdict, and what it could have seen"
    assert said[0].startswith("No difference in iteration time beyond noise: ")
    assert said[1].startswith("A difference below ")
    assert found.noise_share < 0.05


@pytest.mark.slow
def test_few_steps_do_not_take_waiting_for_noise(job_of: Job) -> None:
    """On a rank that is not late the same collective takes long once and short once."""
    found = compared_jobs(files(job_of("control_3d")), files(job_of("gpu_3d")), window=hg.step(2))
    assert found.repeats is not None
    assert found.repeats.units > 0
    assert (found.beyond_noise, found.noise_share < 0.1) == (True, True)
    said = "\n".join(answer_of(found).opening)
    assert "the noise is estimated from 4 and 4 steps around it and " in said
    assert " repetitions of kernels and operators on rank 0.\n" in said


@pytest.mark.slow
def test_of_ranks_that_one_job_lacks_nothing_is_concluded(job_of: Job) -> None:
    late = read_truth(job_of("gpu"))["injected"]["rank"]
    found = compared_jobs(files(job_of("gpu"), late), files(job_of("control")))
    answer = answer_of(found)
    assert answer.opening[1:3] == [
        f"Also different: ranks 7 of 8 → 8, including {late}.",
        "Before: 1 of 8 ranks is missing; waiting for it has no recorded cause.",
    ]
    assert ", but with different ranks recorded: " in answer.opening[0]
    assert answer.keys["job"]["caveats"] == ["with different ranks recorded"]
    for name in ("job_ranks", "job_causes"):
        assert late not in set(answer.tables[name]["rank"])
    assert not [line for line in answer.opening if f"rank {late}" in line]
    assert len(answer.tables["job_ranks"]) == 7


@pytest.mark.slow
def test_a_job_of_another_size_is_another_job(job_of: Job) -> None:
    answer = answer_of(compared_jobs(files(job_of("control")), files(job_of("larger"))))
    assert answer.opening[1].startswith("Also different: ranks 8 → 16; process groups 1 × shard of 8, ")
    assert answer.keys["job"]["caveats"] == ["with 16 ranks instead of 8"]
    assert len(answer.tables["job_ranks"]) == 8


@pytest.mark.slow
def test_jobs_without_steps_are_whole_traces(job_of: Job) -> None:
    found = compared_jobs(files(job_of("control")), files(job_of("gpu")), window=hg.whole())
    said = "\n".join(answer_of(found).opening)
    assert said.startswith("The whole trace is ")
    assert "The lengths compare speed only if both traces contain the same amount of work." in said
    assert " per step" not in said


@pytest.mark.slow
def test_all_waiting_of_the_steps_is_charged_and_belongs_to_a_group(job_of: Job) -> None:
    job = hg.read_job(files(job_of("gpu_3d")))
    rows, members = side_of_job(job).rows, job.members
    last = members.is_last & (members.number >= 0)
    ends = {members.number[at]: members.arrival[at] for at in np.flatnonzero(last).tolist()}
    for at, number in enumerate(range(1, 5)):
        window = hg.critical_path(job, hg.step(number)).window
        inside = [window.start_ns < ends.get(one, 0) <= window.end_ns for one in members.number.tolist()]
        waited = members.wait[np.array(inside)].sum()
        assert waited > 0
        for frame, column in ((rows.causes, "ns"), (rows.groups, "ns"), (rows.ranks, "caused_ns")):
            assert frame.loc[frame["window"] == at, column].sum() == waited
        assert rows.ranks.loc[rows.ranks["window"] == at, "ns"].sum() == window.end_ns - window.start_ns
    assert set(rows.groups["kind"]) == {"tp", "dp", "pp", "default_pg"}
    assert set(rows.groups.loc[rows.groups["kind"] == "pp", "ranks"]) == {2}


def test_of_very_many_steps_those_that_are_told_stand_for_all() -> None:
    lengths = np.random.default_rng(0).permutation(1_001) + 1_000
    told = listed_steps(lengths)
    assert len(told) <= STEPS_LISTED
    assert median_index(lengths) in told
    assert np.median(lengths[told]) == pytest.approx(np.median(lengths), rel=0.01)
    # A quarter of them is as far from the median as a quarter of all.
    assert np.subtract(*np.quantile(lengths[told], [0.75, 0.25])) == pytest.approx(500, rel=0.1)
    assert listed_steps(lengths[:STEPS_LISTED]).tolist() == list(range(STEPS_LISTED))


@pytest.mark.slow
def test_a_terminal_gets_the_job_alone_ten_rows_each(job_of: Job) -> None:
    answer = answer_of(compared_jobs(files(job_of("control")), files(job_of("gpu"))))
    assert len(answer.tables["job_causes"]) > 10
    tables = [line for line in answer_lines(answer) if isinstance(line, TextTable)]
    assert len(tables) == len(job_diff.TABLES)
    assert max(len(table.rows) for table in tables) == 10
    assert {"critical_path_by_class", "kernels_in_order"} <= answer.series.keys()
    assert list(answer.tables) == list(job_diff.TABLES)
    for name, table in job_diff.TABLES.items():
        assert list(answer.tables[name]) == list(table)


@pytest.mark.slow
def test_what_the_noise_of_few_steps_hides_is_said_first() -> None:
    """Four steps of which one is 150 ms late, against four of which three are 120 ms late."""
    recorded = Path(__file__).parents[3] / "multi_rank" / "recorded"
    folders = [sorted((recorded / name).glob("rank*.json.gz")) for name in ("pairs_once", "levels_since")]
    found = compared_jobs(*folders)
    answer = answer_of(found)
    assert not found.beyond_noise
    assert answer.opening[0].startswith("In the job after, rank 2 delays the others by ")
    assert answer.opening[1].startswith("Cannot tell a change of 761.0% with 4 and 4 steps, 5 would do: ")
    assert [line.startswith("A difference below ") for line in answer.opening].count(True) == 1
    assert answer.opening[-1].startswith("In the job before, rank 1 delays the others by ")
    classes = set(answer.on_screen["job_classes"]["bound_by"])
    assert ("communication" in classes, "GPU communication" in classes) == (True, False)


def test_the_steps_since_a_place_keep_their_rows(job_of: Job) -> None:
    side = side_of_job(hg.read_job(files(job_of("control"))))
    rest = side.since(1)
    assert (rest.lengths_ns.tolist(), rest.numbers.tolist()) == (
        side.lengths_ns[1:].tolist(),
        side.numbers[1:].tolist(),
    )
    assert rest.rows.classes.groupby("window")["ns"].sum().tolist() == rest.lengths_ns.tolist()
    assert [step["step"] for step in rest.steps if step["compared"]] == rest.numbers.tolist()
