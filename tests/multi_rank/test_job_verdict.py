"""Which rank delays a job: simulated jobs with injected delays, and such without."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import hta_graph as hg
from analyses.source.window_facts import delaying_rank
from hta_graph.multi_rank import rank_delays
from hta_graph.multi_rank.job_verdict import (
    JobVerdict,
    chance_of,
    delays_by_step,
    job_verdict,
    late_recordings,
    missing_ranks,
    wait_causes,
)
from hta_graph.paths.windows import step_lengths
from tests.matching_accuracy import SCENARIOS
from tests.simulator.ranks import (
    Clock,
    Fault,
    JobProgram,
    JobShape,
    Recording,
    ddp,
    experts,
    fsdp,
    meshes,
    parameter_server,
    pipeline,
    record_job,
    simulate_job,
    tensor_parallel,
)
from tests.simulator.ranks.scripts import Backend, Phase
from tests.support.command_line import command_json
from tests.support.deep_tests import deep
from tests.support.gloo_builder import MAIN, GlooRank
from tests.support.rank_builder import RankBuilder
from tests.wait_cause_accuracy import delayed_shape

Kind = Callable[[JobShape], JobProgram]
STEPS, DELAY_NS = 6, 2_000_000
KINDS = (ddp, fsdp, tensor_parallel, pipeline)
BACKENDS: tuple[Backend, ...] = ("nccl", "gloo")


def simulated(
    folder: Path,
    kind: Kind,
    faults: Sequence[Fault] = (),
    *,
    backend: Backend = "nccl",
    recording: Recording | None = None,
    steps: int = STEPS,
    ranks: int = 4,
) -> hg.JobGraph:
    shape = JobShape(ranks=ranks, steps=steps, layers=3, seed=3, backend=backend, faults=faults)
    recorded = record_job(simulate_job(kind(shape)), recording or Recording(), folder)
    return hg.read_job(recorded.paths)


def late(rank: int, *steps: int, ns: int = DELAY_NS) -> list[Fault]:
    return [Fault(rank, step, "forward", ns) for step in steps]


def check(job: hg.JobGraph, found: JobVerdict) -> None:
    """Hold what holds of every verdict."""
    assert 0 <= found.share_of_step <= 1
    assert 0 <= found.share_of_waiting <= 1
    assert found.caused_ns <= found.waiting_ns <= int(wait_causes(job).waits.time.sum())
    delays = delays_by_step(job).found
    assert (delays.delay <= delays.length).all()


@pytest.mark.sampled(7)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("steps", "pattern", "scope"),
    [(range(STEPS), "every_step", "all_steps"), ((3, 4, 5), "since", "all_steps"), ((3,), "once", "step")],
)
def test_the_late_rank_is_named_with_its_steps_and_its_delay(
    tmp_path: Path, kind: Kind, backend: Backend, steps: Sequence[int], pattern: str, scope: str
) -> None:
    job = simulated(tmp_path, kind, late(2, *steps), backend=backend)
    found = job_verdict(job)
    check(job, found)
    assert (found.rank, found.pattern, found.scope) == (2, pattern, scope)
    assert found.steps == tuple(step for step in steps if step > 0)
    assert found.since_step == (3 if pattern == "since" else None)
    assert abs(found.median_caused_ns / DELAY_NS - 1) < 0.15


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_one_long_delay_hides_no_steady_one(tmp_path: Path, kind: Kind, backend: Backend) -> None:
    faults = [*late(2, *range(STEPS)), *late(2, 4, ns=6 * DELAY_NS)]
    found = job_verdict(simulated(tmp_path, kind, faults, backend=backend))
    assert (found.rank, found.firmness, found.pattern) == (2, "firm", "every_step")
    assert abs(found.median_caused_ns / DELAY_NS - 1) < 0.15


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", [ddp, fsdp, tensor_parallel])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_delay_that_grows_is_in_every_step_that_it_lengthens(tmp_path: Path, kind: Kind, backend: Backend) -> None:
    faults = [fault for step in range(8) for fault in late(2, step, ns=(step + 1) * DELAY_NS // 2)]
    found = job_verdict(simulated(tmp_path, kind, faults, backend=backend, steps=8))
    assert (found.rank, found.firmness, found.pattern) == (2, "firm", "every_step")


@pytest.mark.parametrize("kind", [ddp, deep(fsdp), deep(tensor_parallel)])
@pytest.mark.parametrize("backend", [deep("nccl"), "gloo"])
def test_a_rank_whose_every_operation_takes_longer_and_longer_is_late_since_it_began(
    tmp_path: Path, kind: Kind, backend: Backend
) -> None:
    """As under throttling: no operation is most of what a step loses."""
    phases: tuple[Phase, ...] = ("forward", "backward", "optimizer")
    faults = [Fault(1, step, phase, (step - 2) * DELAY_NS // 2) for step in range(3, 9) for phase in phases]
    found = job_verdict(simulated(tmp_path, kind, faults, backend=backend, steps=9))
    assert (found.rank, found.firmness, found.pattern, found.since_step) == (1, "firm", "since", 3)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", [fsdp, tensor_parallel])
def test_what_a_rank_does_at_the_end_of_a_step_delays_that_step(tmp_path: Path, kind: Kind) -> None:
    """The others wait for it in the next one."""
    long_ns = 20 * DELAY_NS
    found = job_verdict(simulated(tmp_path, kind, [Fault(1, 2, "optimizer", long_ns)]))
    assert (found.rank, found.pattern, found.steps) == (1, "once", (2,))
    assert abs(found.median_caused_ns / long_ns - 1) < 0.15


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", [ddp, fsdp, tensor_parallel])
@pytest.mark.parametrize(("steps", "pattern"), [((2, 5), None), (range(STEPS), "every_step"), ((3, 4, 5), "since")])
def test_what_is_done_at_the_end_of_the_last_step_counts_though_nobody_waits_for_it(
    tmp_path: Path, kind: Kind, steps: Sequence[int], pattern: str | None
) -> None:
    """A rank evaluates, or saves a checkpoint: the others wait in the step behind, if one is recorded."""
    faults = [Fault(0, step, "optimizer", 4 * DELAY_NS) for step in steps]
    job = simulated(tmp_path, kind, faults)
    found = job_verdict(job)
    check(job, found)
    assert (found.rank, found.pattern, found.steps) == (0, pattern, tuple(step for step in steps if step > 0))
    assert found.since_step == (3 if pattern == "since" else None)
    assert abs(found.median_caused_ns / (4 * DELAY_NS) - 1) < 0.15


def test_work_of_steps_without_a_collective_counts_in_each_of_them(tmp_path: Path) -> None:
    """Local SGD: ranks work 30 (40) µs in every step, and meet in every third one only, first in step 2."""
    paths = []
    for rank, own in enumerate((30, 40, 30)):
        trace = GlooRank(rank, [0, 1, 2])
        trace.called("all_reduce", -20 + rank, -15)
        trace.worked("all_reduce", -14, -5)
        at = 0.0
        for step in range(15):
            meets = step % 3 == 2
            end = 60.0 * (step + 1) if meets else at + own + 2
            trace.annotation(f"ProfilerStep#{step}", at, end, tid=MAIN)
            trace.op("aten::mul", at + 1, at + own, tid=MAIN)
            if meets:
                trace.called("all_reduce", at + own + 1, at + own + 3)
                trace.worked("all_reduce", at + own + 4, end - 20 + rank)
                trace.op("aten::add", end - 14, end - 1, tid=MAIN)
            at = end
        paths.append(trace.write(tmp_path / f"rank{rank}.json"))
    found = job_verdict(hg.read_job(paths))
    assert (found.rank, found.steps) == (1, tuple(range(3, 15)))
    assert abs(found.median_caused_ns / 10_000 - 1) < 0.15


def usual_length(folder: Path, kind: Kind, faults: Sequence[Fault], backend: Backend) -> float:
    job = simulated(folder, kind, faults, backend=backend)
    return float(np.median([one.iteration_ns for one in step_lengths(job) if one.is_candidate]))


def test_a_rank_that_computes_longer_while_it_waits_is_not_late_as_well(tmp_path: Path) -> None:
    """Rank 1 is 100 µs late. Rank 2 computes for 88 µs next to its all-reduce, for which it came like the others.

    rank 1     [gemm =========================][all-reduce]
    rank 2     [gemm ][all-reduce =====================  ]
                   [other ===================]
    """
    paths = []
    for rank in range(4):
        trace = RankBuilder(rank, 4)
        for step in range(6):
            at, own, corr = 400.0 * step, 120 if rank == 1 else 20, 10 * step
            trace.annotation(f"ProfilerStep#{step}", at, at + 395)
            trace.launch("gemm", (at + 2, at + 5), (at + 10, at + 10 + own), corr + 1)
            trace.collective(at + 6, (at + 11 + own, at + 140), corr + 2)
            if rank == 2:
                trace.launch("other", (at + 12, at + 14), (at + 32, at + 120), corr + 3)
            trace.call("cudaDeviceSynchronize", at + 20, at + 142, corr + 4)
        paths.append(trace.write(tmp_path / f"rank{rank}.json"))
    found = job_verdict(hg.read_job(paths))
    assert (found.rank, found.firmness, found.median_caused_ns, found.late_ranks) == (1, "firm", 100_000, ())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", [ddp, fsdp, tensor_parallel])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("more", [1.0, 1.7, 3.0])
def test_all_late_ranks_are_named_with_what_each_of_them_and_all_save(
    tmp_path: Path, kind: Kind, backend: Backend, more: float
) -> None:
    """What is saved is known from the same jobs without the delays; who is equally late hides who is as late."""
    one, other = late(1, *range(STEPS), ns=round(more * DELAY_NS)), late(3, *range(STEPS))
    found = job_verdict(simulated(tmp_path / "both", kind, [*one, *other], backend=backend))
    both, without_one, without_other, sound = (
        usual_length(tmp_path / str(len(faults)) / str(faults[:1]), kind, faults, backend)
        for faults in ([*one, *other], other, one, [])
    )
    saves = {1: both - without_one, 3: both - without_other}
    assert {late.rank for late in found.late_ranks} == set(found.ranks) == {1, 3}
    assert found.firmness == "firm"
    assert abs(found.late_ranks_save_ns / (both - sound) - 1) < 0.15
    for rank in found.late_ranks:
        assert rank.steps == tuple(range(1, STEPS))
        assert abs(rank.saves_ns - saves[rank.rank]) < 0.15 * DELAY_NS
    assert found.rank == 1 or more == 1
    job = hg.read_job(tmp_path / "both")
    shown = {delaying_rank(hg.critical_path(job, hg.step(step))) for step in range(1, STEPS)}
    assert shown == {1} if more > 1 else shown <= {1, 3}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("kind", [*KINDS, experts])
@pytest.mark.parametrize("backend", BACKENDS)
def test_nobody_is_accused_where_nobody_is_late(tmp_path: Path, kind: Kind, backend: Backend) -> None:
    """Stages of a pipeline wait by schedule, ranks of any job by chance, those of experts for other ranks' tokens."""
    job = simulated(tmp_path, kind, backend=backend)
    found = job_verdict(job)
    check(job, found)
    assert found.rank is None or found.share_of_step < 0.1
    assert found.pattern != "rotating"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("ranks", [3, 4])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_worker_that_a_server_receives_from_first_is_not_late(tmp_path: Path, ranks: int, backend: Backend) -> None:
    """Without it the server waits as long for the next one; a worker that works longer than those is late."""
    none, one = (
        job_verdict(simulated(tmp_path / name, parameter_server, faults, backend=backend, ranks=ranks))
        for name, faults in (("none", []), ("one", late(2, *range(STEPS))))
    )
    assert (none.rank, one.rank, one.pattern) == (None, 2, "every_step")
    assert abs(one.median_caused_ns / DELAY_NS - 1) < 0.15


@pytest.mark.sampled(6)
@pytest.mark.parametrize("slow", [0, 2, 3])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_stage_that_is_always_slow_is_named_in_few_steps(tmp_path: Path, slow: int, backend: Backend) -> None:
    found = job_verdict(simulated(tmp_path, partial(pipeline, slower={slow: 5}), backend=backend, steps=4))
    assert (found.rank, found.firmness, found.reason, found.pattern) == (slow, "hedged", "by_chance", "every_step")
    both = job_verdict(simulated(tmp_path / "two", partial(pipeline, slower={1: 5, 2: 5}), backend=backend, steps=4))
    assert both.rank is None


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_ranks_that_are_late_in_turn_are_named_with_their_steps(tmp_path: Path, kind: Kind, backend: Backend) -> None:
    faults = [Fault(step % 4, step, "forward", DELAY_NS) for step in range(STEPS)]
    job = simulated(tmp_path, kind, faults, backend=backend)
    found = job_verdict(job)
    check(job, found)
    assert (found.rank, found.pattern) == (None, "rotating")
    assert len(found.steps) >= 4
    assert found.ranks == tuple(step % 4 for step in found.steps)


def test_a_recording_that_begins_later_accuses_nobody(tmp_path: Path) -> None:
    """Before ranks have met, nothing says that the one that is seen last was late."""
    job = simulated(tmp_path, ddp, recording=Recording(windows={3: (4_000_000, 1 << 62)}))
    found = job_verdict(job)
    assert found.rank is None
    (late,) = late_recordings(job, found).items()
    assert late[0] == 3
    assert late[1] > 3_000_000
    whole = simulated(tmp_path / "whole", ddp)
    assert late_recordings(whole, job_verdict(whole)) == {}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_job_of_which_one_rank_is_given_names_none(tmp_path: Path, backend: Backend) -> None:
    simulated(tmp_path, fsdp, late(1, *range(STEPS)), backend=backend, ranks=2)
    found = job_verdict(hg.read_job([next(tmp_path.glob("*rank0*"))]))
    assert (found.rank, found.firmness) == (None, "none")


def test_ranks_without_a_trace_are_known_by_the_size_of_the_job(tmp_path: Path) -> None:
    paths = record_job(simulate_job(ddp(JobShape(ranks=4, steps=2))), Recording(), tmp_path).paths
    assert missing_ranks(hg.read_job(paths)) == ()
    assert missing_ranks(hg.read_job([paths[0], paths[3]])) == (1, 2)


def test_where_most_waiting_has_no_cause_that_is_said_and_who_comes_last(tmp_path: Path) -> None:
    """Before the first collective that ranks share nothing shows what they did, and in which order they began."""
    late_ns = 20 * DELAY_NS
    job = simulated(tmp_path, tensor_parallel, late(2, 0, ns=late_ns), backend="gloo")
    found = job_verdict(job, hg.step(0)(job))
    check(job, found)
    assert (found.rank, found.reason, found.ranks, found.share_of_waiting) == (None, "no_cause_known", (2,), 0)


def test_below_the_error_of_clocks_nobody_is_accused(tmp_path: Path) -> None:
    clocks = {rank: Clock(offset_ns=rank * 3_000_000) for rank in range(4)}
    job = simulated(tmp_path, ddp, late(2, *range(STEPS)), recording=Recording(clocks=clocks, hosts=4))
    assert job_verdict(job).rank == 2


def gloo_steps(folder: Path, *lengths: Sequence[float], first: int = 0) -> list[Path]:
    """Write ranks that multiply in each step for so long (µs), meet once, and go straight on without waiting.

    µs       0        10                 60
    rank 0   [mul]call[add               ]wait    it waits for the collective after other work
    worker        [~~~~~~~~~~~~~~~~~~====]
    rank 1   [mul               ]call[add ]wait
    """
    paths = []
    for rank, own in enumerate(lengths, first):
        trace = GlooRank(rank, list(range(first, first + len(lengths))), names=str(first))
        trace.called("all_reduce", -20 + rank, -15)
        trace.worked("all_reduce", -14, -5)
        for step, length in enumerate(own):
            at, last = 200 * step, max(of[step] for of in lengths)
            trace.annotation(f"ProfilerStep#{step}", at, at + 190, tid=MAIN)
            trace.op("aten::mul", at + 1, at + 1 + length, tid=MAIN)
            trace.called("all_reduce", at + 2 + length, at + 4 + length)
            trace.worked("all_reduce", at + 5 + length, at + last + 20)
            trace.op("aten::add", at + last + 25, at + last + 40, tid=MAIN)
        paths.append(trace.write(folder / f"rank{rank}.json"))
    return paths


def test_a_rank_that_leads_by_chance_is_not_named(tmp_path: Path) -> None:
    """Either of two ranks is the last one of two steps half of the time, with the same operation."""
    found = job_verdict(hg.read_job(gloo_steps(tmp_path, (10, 40, 10, 60), (10, 10, 50, 30))))
    assert (found.rank, found.firmness) == (None, "none")


@pytest.mark.parametrize("kind", [ddp, deep(fsdp), deep(tensor_parallel)])
def test_delays_that_dwarf_all_others_are_named_though_few_and_of_two_kinds(tmp_path: Path, kind: Kind) -> None:
    """Half of the steps, of two ranks, by one operation and by another: chance leads as often, but not by as much."""
    faults = [Fault(1, step, "forward", DELAY_NS, on_host=step % 2 == 0) for step in range(4, 8)]
    job = simulated(tmp_path / "four", kind, faults, backend="gloo", steps=8, ranks=2)
    found = job_verdict(job)
    check(job, found)
    assert (found.rank, found.firmness, found.pattern, found.steps) == (1, "firm", "since", (4, 5, 6, 7))
    assert job_verdict(simulated(tmp_path / "two", kind, faults[:2], backend="gloo", steps=8, ranks=2)).rank is None


def test_delays_of_one_rank_that_exceed_all_others_are_named_where_loads_vary(tmp_path: Path) -> None:
    faults = [Fault(0, step, "forward", 8_000_000, on_host=step % 2 == 0) for step in range(4, 8)]
    for late_in, rank in ((faults, 0), (faults[1:], None), ((), None)):
        shape = JobShape(4, 8, 3, 2_000_000, seed=3, backend="gloo", faults=late_in)
        recorded = record_job(simulate_job(meshes(shape)), Recording(), tmp_path / str(len(late_in)))
        assert job_verdict(hg.read_job(recorded.paths)).rank == rank


def test_a_delay_as_small_as_those_of_other_ranks_is_not_counted_with_long_ones(tmp_path: Path) -> None:
    """Step 4 of rank 1 is 28 µs late, as step 5 of rank 0 is 15 µs late: that is chance next to three times 90 µs."""
    own = (10, 10, 10, 10, 10, 25, 10, 25), (10, 100, 100, 100, 38, 10, 10, 10)
    found = job_verdict(hg.read_job(gloo_steps(tmp_path, *own)))
    assert (found.rank, found.firmness, found.steps) == (1, "firm", (1, 2, 3))


def test_a_step_that_was_asked_for_comes_first(tmp_path: Path) -> None:
    job = simulated(tmp_path, ddp, [*late(2, *range(STEPS)), Fault(1, 4, "optimizer", 3 * DELAY_NS)])
    assert job_verdict(job).rank == 2
    asked = job_verdict(job, hg.step(4)(job))
    check(job, asked)
    assert (asked.scope, asked.rank, asked.steps) == ("step", 1, (4,))


def test_a_step_in_which_another_rank_delays_as_much_by_chance_is_not_named(tmp_path: Path) -> None:
    """Rank 2 is late in step 2, too, but by something else, and rank 1 delays that step as much."""
    chance = [Fault(2, 2, "backward", DELAY_NS // 2), Fault(1, 2, "forward", DELAY_NS // 2)]
    job = simulated(tmp_path, tensor_parallel, [*late(2, 1, 3), *chance], backend="gloo", steps=4)
    found = job_verdict(job)
    check(job, found)
    assert (found.rank, found.pattern, found.steps) == (2, None, (1, 3))
    assert delays_by_step(job).leading_rank(2) is None


def test_a_step_that_is_delayed_by_the_same_is_named_though_another_rank_delays_it_too(tmp_path: Path) -> None:
    faults = [*late(2, 1, 2, 3, 4), Fault(1, 2, "backward", DELAY_NS)]
    found = job_verdict(simulated(tmp_path, tensor_parallel, faults, backend="gloo", steps=5))
    assert (found.rank, found.pattern, found.steps) == (2, "every_step", (1, 2, 3, 4))


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("scenario", "backend", "seed"),
    [
        ("rooted", "nccl", 3),
        ("experts", "gloo", 6),
        ("rooted", "gloo", 7),
        # One stage always computes while its receive waits, the other one, which computes as much, does not.
        ("pipeline", "nccl", 20),
        ("buffered", "nccl", 21),
    ],
)
def test_random_loads_accuse_nobody(tmp_path: Path, scenario: str, backend: Backend, seed: int) -> None:
    """In few steps of few ranks one of them has the larger loads by chance, all in the one operator that there is."""
    shape = replace(delayed_shape(scenario, backend, seed), faults=())
    job = hg.read_job(record_job(simulate_job(SCENARIOS[scenario](shape)), Recording(), tmp_path).paths)
    found = job_verdict(job)
    check(job, found)
    assert found.rank is None


def test_ranks_that_never_meet_the_late_one_are_not_among_the_others(tmp_path: Path) -> None:
    alike, late_one = (
        gloo_steps(tmp_path, [10] * STEPS, [10] * STEPS),
        gloo_steps(tmp_path, [10] * STEPS, [60] * STEPS, first=2),
    )
    job = hg.read_job([*alike, *late_one])
    found = job_verdict(job)
    assert (found.rank, found.delayed) == (3, (2,))
    assert job_verdict(hg.read_job(late_one)).delayed == ()


def test_groups_that_never_meet_have_steps_of_their_own(tmp_path: Path) -> None:
    """Ranks 0 and 1 are through long before 2 and 3: a step of the job by time would be none of theirs."""
    program = tensor_parallel(JobShape(ranks=4, steps=STEPS, layers=3, seed=3, faults=late(3, *range(STEPS))))
    recorded = record_job(simulate_job(program), Recording(), tmp_path)
    job = hg.read_job([recorded.paths[2], recorded.paths[3]])
    assert job_verdict(job).rank == 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ddp, pipeline])
def test_all_commands_give_the_same_verdict(capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: Kind) -> None:
    simulated(tmp_path / "job", kind, late(1, *range(STEPS)), backend="gloo")
    simulated(tmp_path / "control", kind, backend="gloo")
    documents = [
        command_json(capsys, command, tmp_path / "job") for command in ("stragglers", "critical-path", "report")
    ]
    documents.append(command_json(capsys, "diff", tmp_path / "control", tmp_path / "job"))
    documents.append(command_json(capsys, "collectives", tmp_path / "job"))
    verdicts = [document["job_verdict"] for document in documents]
    assert verdicts[0]["rank"] == 1
    assert all(verdict == verdicts[0] for verdict in verdicts)
    assert documents[3]["control_job_verdict"]["rank"] is None
    (row, *_) = documents[0]["tables"]["stragglers"]
    assert (row["rank"], row["caused_ns"]) == (1, verdicts[0]["caused_ns"])
    said = documents[1]["verdict"][0]["text"]
    assert said.lower().startswith(documents[0]["conclusion"].partition(" It causes")[0].lower())


def test_one_rank_has_no_verdict_of_a_job(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    simulated(tmp_path, ddp, ranks=2)
    for command in ("stragglers", "critical-path", "report"):
        assert command_json(capsys, command, tmp_path / "rank0.json")["job_verdict"] is None


def test_chance_grows_with_the_ranks_that_may_lead() -> None:
    assert chance_of(0, 5, 8) == 1
    found = [chance_of(5, 5, ranks) for ranks in (2, 4, 8)]
    assert np.allclose(found, [2 / 2**5, 4 / 4**5, 8 / 8**5])


@pytest.mark.slow
def test_of_many_ranks_one_that_is_not_looked_at_may_cause_most(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Which ranks are looked at depends on the waits of steps; what is caused counts in the whole job."""
    (most,) = job_verdict(simulated(tmp_path, ddp)).ranks
    others = [rank for rank in range(4) if rank != most]
    monkeypatch.setattr(rank_delays, "_ranks_looked_at", lambda *_: np.array(others))
    job = simulated(tmp_path, ddp)
    found = job_verdict(job)
    check(job, found)
    assert found.rank is None
    assert set(found.ranks) < set(others)
