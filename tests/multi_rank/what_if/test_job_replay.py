"""A job whose ranks are asked one by one predicts what the job of whole graphs predicts: to the nanosecond."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import hta_graph as hg
from hta_graph.base.errors import QueryError
from hta_graph.paths.windows import WindowQuery, median_step
from hta_graph.what_if.changes import Change
from hta_graph.what_if.opportunities import opportunity_rows
from hta_graph.what_if.predict import WindowReplay, summary_replay
from hta_graph.what_if.replay import replay, replay_graph
from hta_graph.what_if.scenarios import COMPARES_RANKS, SCENARIOS
from hta_graph.what_if.sensitivity import next_on_path
from tests.support.deep_tests import cases, some_of
from tests.support.random_jobs import random_ranks
from tests.support.shared_traces import SHARED
from tests.support.summary_job import ALL_KINDS, SUMMARY_KINDS, answer_or_error, recorded_ranks, summary_job

REAL = ("nanogpt_ddp_8xh100", "dlrm_8xv100", "megatron_tp2_v100")
NAMED = {
    name: hg.scenario(name)
    for name, known in SCENARIOS.items()
    if known.argument is None and name not in COMPARES_RANKS
}


def said_by_whole(job: hg.JobGraph, changes: Sequence[Change], window: WindowQuery) -> dict[str, Any]:
    found = replay(job, changes, window)
    base = found.draft.base
    following = next_on_path(found.path_before, found.path_after, found.draft.factor != 1.0) if changes else None
    return {**said_of(found), "next": following, "window": base.window.label}


def said_by_ranks(elsewhere: WindowReplay, changes: Sequence[Change]) -> dict[str, Any]:
    found = elsewhere.predict(changes)
    return {**said_of(found), "next": found.next, "window": found.window.label}


def said_of(found: Any) -> dict[str, Any]:
    return {
        "lengths": (found.measured_ns, found.identity_ns, found.predicted_ns, found.saved_ns),
        "shares": (found.frozen_share, found.inferred_share),
        "classes": [dict(path.by_bound_ns) for path in (found.path_before, found.path_after)],
        "ranks": [dict(path.by_rank_ns) for path in (found.path_before, found.path_after)],
        "names": [
            sorted(zip(*(column.tolist() for column in path.by_name().values()), strict=True), key=str)
            for path in (found.path_before, found.path_after)
        ],
    }


def assert_same(graphs: list[hg.DependencyGraph], *, most_windows: int = 3) -> None:
    whole, few = (answer_or_error(join, graphs) for join in (hg.build_job, summary_job))
    if isinstance(whole, str):
        assert few == whole
        return
    elsewhere = summary_replay(few)
    assert elsewhere is not None
    windows = [median_step(), hg.whole(), *(hg.step(item.number) for item in whole.steps()[:1])]
    for window in windows[:most_windows]:
        resolved = answer_or_error(window, few)
        if isinstance(resolved, str):
            assert resolved == answer_or_error(window, whole)
            continue
        asked = elsewhere(resolved, window.asked)
        listed = [vars(one) for one in opportunity_rows(replay_graph(whole, window))]
        named = {name: answer_or_error(said_by_whole, whole, [change], window) for name, change in NAMED.items()}
        saved = {name: said["lengths"][-1] for name, said in named.items() if isinstance(said, dict)}
        outlook = asked.opportunities(NAMED)
        assert [vars(one) for one in outlook.opportunities] == listed
        assert outlook.saved == saved
        kernels = [one["name"] for one in listed if one["kind"] == "kernel"][:1]
        for name, change in NAMED.items():
            assert answer_or_error(said_by_ranks, asked, [change]) == named[name]
        for changes in [
            *([hg.scale(f"kernel:{name}", 0.25), hg.remove("operator:aten::add")] for name in kernels),
            [hg.scale("rank:0", 0.5), hg.scale("class:cpu_bound", 2.0)],
            [hg.scale("kernel:nothing_has_this_name", 0.5)],
            [hg.scenario("rank_like_others", "1")],
            [hg.scenario("rank_like_others", "0"), hg.scale("rank:1", 0.5)] if window is windows[0] else [],
        ]:
            other = answer_or_error(said_by_ranks, asked, changes)
            said = answer_or_error(said_by_whole, whole, changes, window)
            assert other == said


def random_graphs(folder: Path, seed: int) -> list[hg.DependencyGraph]:
    paths = [trace.write(folder / f"rank{at}.json") for at, trace in enumerate(random_ranks(seed))]
    return list(hg.read_graphs(paths, communications=True))


def assert_same_of_equals(graphs: list[hg.DependencyGraph], *texts: str) -> None:
    """Let ranks that do nothing any more come at the same time: of many longest paths one is meant."""
    whole, few = hg.build_job(graphs), summary_job(graphs)
    elsewhere = summary_replay(few)
    assert elsewhere is not None
    asked = elsewhere(hg.whole()(few), hg.whole().asked)
    for text in texts:
        changes = [hg.scale(what, 0.0) for what in text.split()]
        assert said_by_ranks(asked, changes) == said_by_whole(whole, changes, hg.whole())


def test_a_rank_that_is_asked_alone_is_joined_with_its_job(tmp_path: Path) -> None:
    """It has waiting of its own and the ranks' shares of the path, as in the job of whole graphs."""
    graphs, window = random_graphs(tmp_path, 51), median_step()
    whole, few = hg.build_job(graphs), summary_job(graphs)
    elsewhere = summary_replay(few)
    assert elsewhere is not None
    found = elsewhere(window(few), window.asked).opportunities({}).opportunities
    assert list(found) == opportunity_rows(replay_graph(whole, window))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("seed", "text"), [(50, "class:cpu_bound"), (92, "class:cpu_bound")], ids=["met", "end"])
def test_of_equally_long_paths_the_same_one_is_told(tmp_path: Path, seed: int, text: str) -> None:
    assert_same_of_equals(random_graphs(tmp_path, seed), text)


@pytest.mark.slow
def test_of_many_equally_long_paths_the_same_one_is_told(tmp_path: Path) -> None:
    for seed in range(cases(400)):
        (folder := tmp_path / str(seed)).mkdir()
        assert_same_of_equals(
            random_graphs(folder, seed), "class:cpu_bound", "rank:0", "rank:1", "rank:0 rank:1", "operator:aten::.*"
        )


@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "backend", "damage"), SUMMARY_KINDS)
def test_a_job_of_skeletons_predicts_the_same(tmp_path: Path, scenario: str, backend: str, damage: str) -> None:
    assert_same(recorded_ranks(tmp_path, scenario, backend, damage, 1), most_windows=1)


@pytest.mark.slow
def test_a_step_that_nobody_named_may_end_on_the_cpu(tmp_path: Path) -> None:
    graphs = recorded_ranks(tmp_path, "ddp", "nccl", "none", 0)
    whole, few, window = hg.build_job(graphs), summary_job(graphs), median_step(cpu_window=True)
    elsewhere = summary_replay(few)
    assert elsewhere is not None
    found = elsewhere(window(few), window.asked).opportunities({}).opportunities
    assert list(found) == opportunity_rows(replay_graph(whole, window))


@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "backend", "damage"), some_of(ALL_KINDS))
def test_jobs_of_all_kinds_predict_the_same(tmp_path: Path, scenario: str, backend: str, damage: str) -> None:
    for seed in range(cases(4)):
        (folder := tmp_path / str(seed)).mkdir()
        assert_same(recorded_ranks(folder, scenario, backend, damage, seed))


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("job", some_of([*REAL[::-1], *sorted(path.name for path in (SHARED / "gloo").glob("*_*r_*"))]))
def test_real_jobs_predict_the_same(job: str) -> None:
    folder = SHARED / ("traces" if job in REAL else "gloo") / job
    assert_same(list(hg.read_graphs(folder, communications=True)), most_windows=1)


@pytest.mark.slow
def test_in_python_predictions_are_asked_for_and_times_of_all_points_refused(tmp_path: Path) -> None:
    graphs = recorded_ranks(tmp_path, "ddp", "nccl", "none", 2)
    whole, few = hg.build_job(graphs), summary_job(graphs)
    change, window = hg.scale("class:cpu_bound", 0.5), hg.whole()
    assert said_of(hg.predict(few, change, window)) == said_of(hg.predict(whole, change, window))
    assert hg.predict(few).measured_ns == hg.predict(whole).identity_ns
    too_long = hg.scale("class:cpu_bound", 1e20)
    refused = [answer_or_error(hg.predict, job, too_long, window) for job in (few, whole)]
    assert refused[0] == refused[1]
    assert "would last more than a year longer" in refused[0]
    for question in (
        hg.replay,
        hg.slack,
        hg.opportunities,
        hg.near_critical,
        lambda job: hg.sensitivity(job, "rank:0"),
    ):
        with pytest.raises(QueryError, match="needs all events of all ranks; read fewer ranks, or pass"):
            question(few)


@pytest.mark.slow
def test_changes_that_change_nothing_are_told_apart_from_those_without_slack(tmp_path: Path) -> None:
    graphs = recorded_ranks(tmp_path, "ddp", "nccl", "none", 2)
    whole, few = hg.build_job(graphs), summary_job(graphs)
    for change in (hg.scale("class:cpu_bound", 1.0), hg.scale("rank:1", 0.999), hg.scale("rank:0", 1.5)):
        said = [
            (own.is_unchanged, own.saved_ns) for own in (hg.predict(job, change, hg.whole()) for job in (whole, few))
        ]
        assert said[0] == said[1]
    assert hg.predict(few, hg.scale("class:cpu_bound", 1.0), hg.whole()).is_unchanged
