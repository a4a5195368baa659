"""The external oracle: ByteDance's results for its public job, and made jobs against the same rules written plainly."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st

import hta_graph as hg
from tests.straggler_oracle import StragglerAnswers, main
from tests.support.deep_tests import deep, for_all
from tests.support.generated_pipeline_job import PipelineShape, generated_pipeline_job, random_shape_of_job
from tests.support.pipeline_job import StragglerJob, job_of_frame, read_straggler_job
from tests.support.shared_traces import SHARED
from tests.support.straggler_reference import reference_answers

ORACLE = SHARED / "oracle_whatif"
JOBS = [path.stem.removeprefix("trace-") for path in sorted(ORACLE.glob("trace-*.parquet"))]
META = "trial_name: made\ndsp_size: 1\n"

SHAPES = {
    "plain": PipelineShape(),
    "alone": PipelineShape(pp=1, dp=1),
    "alone with its collectives": PipelineShape(pp=2, dp=1, vpp=2, lonely=True),
    "alone with overlapped gradients": PipelineShape(pp=2, dp=1, overlapped=True, lonely=True),
    "one stage": PipelineShape(pp=1, dp=3),
    "one data-parallel rank": PipelineShape(pp=3, dp=1),
    "sharded over several": PipelineShape(pp=2, dp=1, dsp=2),
    "chunks": PipelineShape(pp=3, vpp=2),
    "chunks of one stage": PipelineShape(pp=1, vpp=3),
    "a missing first receive": PipelineShape(pp=2, vpp=2, first_receive_missing=True),
    "receives of nothing": PipelineShape(pp=3, late_receives=True),
    "sends of nothing": PipelineShape(pp=3, early_sends=True),
    "overlapped gradients": PipelineShape(pp=3, vpp=2, overlapped=True),
    "all forward first": PipelineShape(pp=2, microbatches=4, warm_up=False),
    "faults of clocks": PipelineShape(pp=3, microbatches=4, steps=3, faults=True),
    "nothing to gain": PipelineShape(spread=0.0),
    "many workers": PipelineShape(pp=4, dp=10, microbatches=1, steps=1),
}


def numbers_of(answers: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, float | None]]:
    """Yield every number with its name; a map that is not there is one None."""
    for name, value in answers.items():
        if isinstance(value, Mapping):
            yield from numbers_of(value, f"{above}{name}/")
        else:
            yield f"{above}{name}", value


def differences(mine: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the numbers that differ by more than 1e-5 · max(1, |value|)."""
    found, wanted = dict(numbers_of(mine)), dict(numbers_of(other))
    pairs = {name: (found.get(name), wanted.get(name)) for name in {**found, **wanted}}
    return {
        name: (a, b)
        for name, (a, b) in pairs.items()
        if not (a is b or (a is not None and b is not None and abs(a - b) <= 1e-5 * max(1, abs(b))))
    }


def answers_of(frame: pd.DataFrame, dsp: int) -> dict[str, Any]:
    return StragglerAnswers.of(job_of_frame(frame, dsp, Path("made"))).report()


# -- the public job ----------------------------------------------------------------------------------------------------


def published(name: str) -> dict[str, Any]:
    """Return what the original's own code says of a job, under our names."""
    result, last, worst = (json.loads((ORACLE / f"{part}-{name}.json").read_text()) for part in ("result", "ms", "mw"))
    steps = {step: np.mean([*result[step].values()]) for step in ("step_t_base", "step_t_nodelay", "step_t_noblk")}
    return {
        "step_measured": steps["step_t_base"],
        "step_no_delay": steps["step_t_nodelay"],
        "step_ideal": steps["step_t_noblk"],
        "launch_slowdown": result["launch_slowdown"],
        "S": result["blocking_slowdown"],
        "S_by_type": result["blocking_decompose_by_optype"],
        "S_by_stage": result["blocking_decompose_by_stage"],
        "S_by_dp": result["blocking_decompose_by_dp_rank"],
        "M_W": {"removed": worst["rem"], "added": worst["add"]},
        "M_S": {"removed": last["rem"], "added": last["add"]},
    }


@pytest.mark.shared
@pytest.mark.parametrize("name", JOBS or ["absent"])
def test_the_published_results_come_out(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(ORACLE / f"trace-{name}.parquet"), str(ORACLE / f"meta-{name}.yaml")]) == 0
    assert differences(json.loads(capsys.readouterr().out), published(name)) == {}


@pytest.mark.shared
@pytest.mark.parametrize("name", JOBS or ["absent"])
def test_with_launch_delays_the_recorded_step_comes_back(name: str) -> None:
    job = read_straggler_job(ORACLE / f"trace-{name}.parquet", ORACLE / f"meta-{name}.yaml")
    assert (recorded_step(job, delays=True) == recorded_step(job, delays=False)).all()


def recorded_step(job: StragglerJob, *, delays: bool) -> np.ndarray[Any, Any]:
    """Return the times of the first step's operations: as recorded, or in replay with real values and launch delays."""
    job = replace(job, start=np.rint(job.start), end=np.rint(job.end))
    replay = StragglerAnswers.of(job).replay
    graph, edges = replay.graph, replay.graph.edge_table
    times = graph.timeline.times
    if delays:
        every = np.ones(job.start.shape, np.bool_)
        weights = replay.weights(every)[0].astype(np.int64)
        # What an operation waits for lets it go; its launch delay is on each of these edges.
        latest = np.full(len(times), np.iinfo(np.int64).min)
        np.maximum.at(latest, edges.target, times[edges.source])
        starts = (edges.target & 1 == 0) & (graph.event_table.name[edges.target >> 1] != graph.names.index("meeting"))
        weights[starts] += (times - latest)[edges.target[starts]]
        times = hg.replay(graph, hg.weigh(np.arange(len(edges)), weights), hg.whole()).times
    operations = graph.event_table.index < job.dp * len(job.operations)
    return times.reshape(-1, 2)[operations]


# -- made jobs ---------------------------------------------------------------------------------------------------------


QUICK = ("plain", "alone")


@pytest.mark.parametrize("name", [*QUICK, *(deep(name) for name in SHAPES if name not in QUICK)])
def test_every_rule_is_that_of_the_description(name: str) -> None:
    shape = SHAPES[name]
    frame = generated_pipeline_job(shape, 5)
    assert differences(answers_of(frame, shape.dsp), reference_answers(frame, shape.dsp)) == {}


@for_all(st.integers(0, 100_000), examples=200)
def test_random_jobs_are_answered_as_the_description_says(seed: int) -> None:
    shape = random_shape_of_job(seed)
    frame = generated_pipeline_job(shape, seed)
    assert differences(answers_of(frame, shape.dsp), reference_answers(frame, shape.dsp)) == {}


def test_nobody_asks_why_where_little_is_lost() -> None:
    answers = answers_of(generated_pipeline_job(SHAPES["nothing to gain"], 5), 1)
    assert answers["S"] < 1.03
    assert [answers[name] for name in ("S_by_type", "S_by_stage", "S_by_dp", "M_W")] == [None] * 4
    assert answers["M_S"] is not None


def test_three_percent_of_the_workers_are_the_worst() -> None:
    job = job_of_frame(generated_pipeline_job(SHAPES["many workers"], 5), 1, Path("made"))
    answers = StragglerAnswers.of(job)
    worst = answers.worst_workers()
    assert worst is not None
    assert len(np.unique(job.rank[worst])) == 2, "3% of 40 are more than one"


def test_of_equally_bad_workers_those_of_smaller_rank_are_the_worst() -> None:
    answers = StragglerAnswers.of(job_of_frame(generated_pipeline_job(SHAPES["plain"], 5), 1, Path("made")))
    vars(answers).update(by_dp={"0": 1.5, "1": 1.5}, by_stage={"0": 1.2, "1": 1.2})
    worst = answers.worst_workers()
    assert worst is not None
    assert np.unique(answers.job.rank[worst]).tolist() == [0]


def test_the_replay_of_many_scenarios_is_that_of_each() -> None:
    job = job_of_frame(generated_pipeline_job(SHAPES["faults of clocks"], 5), 1, Path("made"))
    replay = StragglerAnswers.of(job).replay
    real = np.zeros(job.start.shape, np.bool_)
    real[:, ::2] = True
    lengths = []
    for weights in np.rint(replay.weights(real)).astype(np.int64):
        times = hg.replay(replay.graph, hg.weigh(np.arange(len(weights)), weights), hg.whole()).times.reshape(-1, 2)
        own = times[replay.graph.event_table.index < job.dp * len(job.operations)]
        lengths.append(own.max() - own[:, 0].min())
    assert math.isclose(replay.steps([real]).whole[0], np.mean(lengths), rel_tol=1e-6)


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    trace, meta = tmp_path / "trace.parquet", tmp_path / "meta.yaml"
    generated_pipeline_job(SHAPES["plain"], 5).to_parquet(trace)
    meta.write_text(META)
    return trace, meta


def said(trace: Path, meta: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the one line that is said of bad input."""
    assert main([str(trace), str(meta)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


BAD_TABLES = [
    (lambda frame: frame.drop(columns="gmc"), "has no column 'gmc'"),
    (lambda frame: frame[:0], "has no rows"),
    (lambda frame: frame.assign(duration=np.nan), "has rows without a number"),
    (lambda frame: frame.assign(start_ts=np.inf), "has rows without a number"),
    (lambda frame: frame.assign(start_ts="soon"), "has rows without a number"),
    (lambda frame: frame.assign(duration=-1.0), "has rows with a number below 0"),
    (lambda frame: frame.assign(optype="forward"), "has operations of an unknown type: forward"),
    (lambda frame: frame[1:], "not every step and dp_rank has the same operations"),
    (lambda frame: frame[frame.dp_rank == 1], "not every step and dp_rank has the same operations"),
    (
        lambda frame: frame[(frame.optype != "forward-recv") | (frame.seq_id > 0)],
        "forward-send, but 2 receives in stage 1",
    ),
]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("change", "says"), BAD_TABLES)
def test_a_bad_table_is_one_line(files: Any, capsys: pytest.CaptureFixture[str], change: Any, says: str) -> None:
    trace, meta = files
    change(pd.read_parquet(trace)).to_parquet(trace)
    assert says in said(trace, meta, capsys)


def test_a_bad_file_is_one_line(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    trace, meta = files
    assert "absent: there is no such file" in said(trace.with_name("absent"), meta, capsys)
    assert "cannot be read" in said(trace, trace, capsys)
    assert "is not a Parquet table" in said(meta, meta, capsys)
    meta.write_text("dp_size: 2\n")
    assert "has no line dsp_size: N" in said(trace, meta, capsys)


def test_a_cycle_is_one_line(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    trace, meta = files
    frame = pd.read_parquet(trace)
    # By their times the second one comes first, by their numbers the first one.
    second = (frame.optype == "grads-reduce-scatter") & (frame.seq_id == 1)
    frame.loc[second, "start_ts"] -= 0.1
    frame.to_parquet(trace)
    assert "the edge is on a cycle" in said(trace, meta, capsys)


def test_a_missing_argument_is_a_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([])
    assert caught.value.code == 2
    assert "usage" in capsys.readouterr().err
