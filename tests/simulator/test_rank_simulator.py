"""Tests of the simulator of several ranks: who waits for whom, what is written, what the true path is."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import orjson
import pytest

from tests.simulator.program import Gap, Op, Program, Stream
from tests.simulator.ranks import (
    Clock,
    Fault,
    Group,
    JobProgram,
    JobRun,
    JobShape,
    Recording,
    ddp,
    experts,
    fsdp,
    pipeline,
    record_job,
    rooted,
    simulate_job,
    tensor_parallel,
    true_path,
    wide,
)
from tests.simulator.ranks.communication_statements import Await, Kind, Meet
from tests.simulator.ranks.rendezvous import Member, awaited_ranks
from tests.support.deep_tests import deep

pytestmark = pytest.mark.sampled(2)

US = 1_000
LINE = Stream(23)
ROOTED: tuple[Kind, ...] = ("broadcast", "gather", "scatter")
SCENARIOS = {make.__name__: make for make in (ddp, fsdp, pipeline, tensor_parallel, experts, rooted)}


def job_of(kind: Kind, *late_us: int, other: int | None = None, buffered: bool = False) -> JobRun:
    """Let ranks launch one communication each, the k-th after so many µs; every own transfer takes 50 µs."""
    group = Group("0", tuple(range(len(late_us))))
    kinds: list[Kind] = ["send", "recv"] if kind == "send" else [kind] * len(late_us)
    peers = [1, 0] if kind == "send" else [other] * len(late_us)
    ranks = {
        rank: Program.of(
            Gap(late * US),
            Op(
                "record_param_comms", (Meet(kinds[rank], group, 50 * US, LINE, 8, peers[rank], buffered and rank == 0),)
            ),
        )
        for rank, late in enumerate(late_us)
    }
    return simulate_job(JobProgram(ranks, (group,)))


def members_of(job: JobRun) -> list[Member]:
    """Return the members of a job's only rendezvous, by rank."""
    (one,) = job.rendezvous
    return [one.members[rank] for rank in sorted(one.members)]


def after_first_arrival(job: JobRun) -> list[int]:
    """Return when each one's transfer ended (µs), from when the first rank came."""
    members = members_of(job)
    return [(own.row.end_ns - min(one.arrival_ns for one in members)) // US for own in members]


def waits_of(job: JobRun) -> list[int]:
    return [job.rendezvous[0].true_wait(own) // US for own in members_of(job)]


def test_all_wait_for_the_last_one() -> None:
    job = job_of("all_reduce", 0, 100, 30)
    assert after_first_arrival(job) == [150, 150, 150]
    assert waits_of(job) == [100, 0, 70]


def test_only_who_takes_from_the_root_waits_for_it() -> None:
    assert waits_of(job_of("broadcast", 0, 100, 30, other=1)) == [100, 0, 70]
    assert waits_of(job_of("gather", 0, 100, 30, other=2)) == [0, 0, 70]
    assert after_first_arrival(job_of("gather", 0, 100, 30, other=2)) == [50, 150, 150]


def test_on_cpus_who_gives_waits_for_who_takes() -> None:
    group = Group("0", (0, 1, 2, 3))
    awaited = {
        kind: [sorted(awaited_ranks(Meet(kind, group, US, LINE, 8, 0, on_cpu=True), rank)) for rank in group.ranks]
        for kind in ROOTED
    }
    leaves = [[1, 2, 3], [0], [0], [0]]
    assert awaited == {"broadcast": [[1, 2], [0, 3], [0], [0, 1]], "gather": leaves, "scatter": leaves}


def test_a_send_waits_for_its_receiver_unless_it_goes_into_a_buffer() -> None:
    assert waits_of(job_of("send", 0, 100)) == [100, 0]
    assert waits_of(job_of("send", 0, 100, buffered=True)) == [0, 0]
    assert waits_of(job_of("send", 100, 0, buffered=True)) == [0, 100]


def test_ranks_that_wait_for_each_other_for_ever_are_told() -> None:
    group = Group("0", (0, 1))
    ranks = {0: Program.of(Op("c10d::barrier", (Meet("barrier", group, US, LINE),))), 1: Program.of(Gap(5))}
    with pytest.raises(ValueError, match=r"the ranks wait for each other: rank 0 in Meet\('barrier'"):
        simulate_job(JobProgram(ranks, (group,)))


def test_on_cpus_work_queues_behind_two_threads_and_who_waits_goes_on_after_it() -> None:
    group = Group("0", (0,))
    calls = [
        Op("c10d::allreduce_", (Gap(US), Meet("all_reduce", group, 900 * US, LINE, work=at, on_cpu=True)))
        for at in range(3)
    ]
    job = simulate_job(JobProgram({0: Program.of(*calls, Await(2), Op("aten::add"))}, (group,), "gloo"))
    rows = [one.members[0].row for one in job.rendezvous]
    assert [row.tid for row in rows] == [rows[0].tid, rows[0].tid + 1, rows[0].tid]
    assert rows[2].start_ns >= rows[0].end_ns > rows[1].start_ns
    add = next(event for event in job.runs[0].events if event.name == "aten::add")
    assert add.start_ns > rows[2].end_ns
    assert job.runs[0].binding[add.uid, "start"].kind == "collective_wait"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("backend", ["gloo", deep("nccl")])
def test_every_member_ends_when_its_transfer_does(name: str, backend: str) -> None:
    job = simulate_job(SCENARIOS[name](JobShape(backend="gloo" if backend == "gloo" else "nccl", seed=3)))
    assert job.rendezvous
    for one in job.rendezvous:
        assert len(one.members) == (2 if one.kind == "send" else len(next(iter(one.members.values())).meet.group.ranks))
        for own in one.members.values():
            last = max([own.row.start_ns, *(one.members[rank].row.start_ns for rank in own.awaited)])
            assert own.done_ns == last + own.meet.ns <= own.row.end_ns
            assert 0 <= one.true_wait(own) <= own.row.end_ns - own.arrival_ns


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("backend", ["nccl", deep("gloo")])
@pytest.mark.slow
def test_the_path_is_whole_and_what_is_long_enough_lies_on_it(name: str, backend: str, tmp_path: Path) -> None:
    fault = Fault(2, 1, "forward", 40_000 * US)
    job = simulate_job(
        SCENARIOS[name](JobShape(backend="gloo" if backend == "gloo" else "nccl", seed=4, faults=(fault,)))
    )
    recorded = record_job(job, Recording(), tmp_path)
    path, (delay,) = true_path(recorded), recorded.delays()
    assert all(one.end_ns == other.start_ns for one, other in pairwise(path))
    assert path[-1].end_ns == max(event.end_ns for run in job.runs.values() for event in run.events)
    assert delay.end_ns - delay.start_ns == fault.ns
    assert any(
        (piece.rank, piece.event_index) == (delay.rank, delay.event_index)
        and piece.start_ns <= delay.start_ns
        and piece.end_ns >= delay.end_ns
        for piece in path
    )
    rows = orjson.loads(recorded.paths[2].read_bytes())["traceEvents"]
    assert rows[delay.event_index or 0]["name"] == delay.name


def test_a_slow_kernel_is_told_where_it_is() -> None:
    slow = Fault(1, 0, "backward", 5_000 * US)
    job = simulate_job(ddp(JobShape(ranks=2, seed=1, faults=(slow,))))
    (delay,) = job.delays
    assert delay.row is not None
    assert (delay.rank, delay.row.kind, delay.end_ns - delay.start_ns) == (1, "kernel", slow.ns)


def test_a_kernel_that_was_launched_before_the_recording_says_nothing(tmp_path: Path) -> None:
    job = job_of("all_reduce", 0, 100)
    begin = members_of(job)[0].arrival_ns - US
    recorded = record_job(job, Recording(ids=True, windows={0: (begin, 1 << 60)}), tmp_path)
    early, late = (orjson.loads(path.read_bytes())["traceEvents"] for path in recorded.paths)
    assert [row["args"].get("Seq") for rows in (early, late) for row in rows if row.get("cat") == "kernel"] == [None, 1]
    assert not [row for row in early if row["name"] == "record_param_comms"]


def test_clocks_and_losses_stand_in_the_files(tmp_path: Path) -> None:
    job = job_of("all_reduce", 0, 100)
    plain = record_job(job, Recording(), tmp_path / "plain")
    clock = Clock(5_000_000, drift_ppm=1_000_000, gpu_offset_ns=7 * US)
    moved = record_job(job, Recording(clocks={0: clock}), tmp_path / "moved")
    kernel = members_of(job)[0].row
    one, other = (
        orjson.loads(own.paths[0].read_bytes())["traceEvents"][own.index_of[0][kernel.uid]] for own in (plain, moved)
    )
    # A clock of double speed shows twice the time since the start, and double lengths.
    ahead = round((other["ts"] - one["ts"]) * 1_000)
    assert ahead == pytest.approx(clock.shown(kernel.start_ns, on_gpu=True) - kernel.start_ns, abs=1_000)
    assert other["dur"] == pytest.approx(2 * one["dur"])
    lost = record_job(job, Recording(loss=1.0, missing=frozenset({1})), tmp_path / "lost")
    assert [path.name for path in lost.paths] == ["rank0.json"]
    ((_, members),) = lost.rendezvous()
    assert [own.event_index for own in members] == [None, None]


def test_lists_of_more_than_thirty_ranks_are_cut(tmp_path: Path) -> None:
    job = simulate_job(wide(JobShape(ranks=34, steps=1, layers=1)))
    recorded = record_job(job, Recording(), tmp_path)
    rows = orjson.loads(recorded.paths[0].read_bytes())["traceEvents"]
    said = [row["args"] for row in rows if row["name"] == "record_param_comms"]
    assert {own["Process Group Ranks"] for own in said} == {f"[{', '.join(map(str, range(30)))}, ...]"}
    assert {(own["Process Group Name"], own["Group size"]) for own in said} == {("0", 34), ("1", 32)}
    kernels = [row["args"] for row in rows if row.get("cat") == "kernel" and "Collective name" in row["args"]]
    assert kernels
    assert not any("Global rank start" in own for own in kernels)


@pytest.mark.slow
def test_equal_seeds_make_equal_jobs(tmp_path: Path) -> None:
    files = [
        record_job(simulate_job(fsdp(JobShape(seed=9))), Recording(), tmp_path / name).paths[1].read_bytes()
        for name in "ab"
    ]
    assert files[0] == files[1]
