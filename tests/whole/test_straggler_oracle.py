"""The external oracle: ByteDance's published results for its public job, from this package's replay."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import hta_graph as hg
from tests.straggler_oracle import StragglerAnswers, main
from tests.support.pipeline_job import StragglerJob
from tests.support.published_what_if import ORACLE, numbers_of, public_job, published

JOBS = [path.stem.removeprefix("trace-") for path in sorted(ORACLE.glob("trace-*.parquet"))]

pytestmark = [pytest.mark.shared, pytest.mark.parametrize("name", JOBS or ["absent"])]


def differences(mine: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the numbers that differ by more than 1e-5 · max(1, |value|)."""
    found, wanted = dict(numbers_of(mine)), dict(numbers_of(other))
    pairs = {name: (found.get(name), wanted.get(name)) for name in {**found, **wanted}}
    return {
        name: (a, b)
        for name, (a, b) in pairs.items()
        if not (a is b or (a is not None and b is not None and abs(a - b) <= 1e-5 * max(1, abs(b))))
    }


def test_the_published_results_come_out(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    main([str(ORACLE / f"trace-{name}.parquet"), str(ORACLE / f"meta-{name}.yaml")])
    assert differences(json.loads(capsys.readouterr().out), published(name)) == {}


def test_with_launch_delays_the_recorded_step_comes_back(name: str) -> None:
    job = public_job(name)
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


def test_the_replay_of_many_scenarios_is_that_of_each(name: str) -> None:
    job = public_job(name)
    replay = StragglerAnswers.of(job).replay
    real = np.zeros(job.start.shape, np.bool_)
    real[:, ::2] = True
    lengths = []
    for weights in np.rint(replay.weights(real)).astype(np.int64):
        times = hg.replay(replay.graph, hg.weigh(np.arange(len(weights)), weights), hg.whole()).times.reshape(-1, 2)
        own = times[replay.graph.event_table.index < job.dp * len(job.operations)]
        lengths.append(own.max() - own[:, 0].min())
    assert math.isclose(replay.steps([real]).whole[0], np.mean(lengths), rel_tol=1e-6)
