"""Groups of Gloo's workers by what the ranks did together: those that are never called, equal sizes, clocks, dumps."""

from __future__ import annotations

import random
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import hta_graph as hg
from hta_graph.model import Floats
from hta_graph.multi_rank.matching.collectives import Collectives, match_collectives
from hta_graph.multi_rank.matching.communications import ALL_RANKS, RankCommunications, RankRecording
from hta_graph.multi_rank.matching.flight_recorder import FlightRecord
from hta_graph.multi_rank.matching.flight_sequence_numbers import with_sequence_numbers
from hta_graph.multi_rank.matching.match_checks import GROUP_OPEN, IMPLAUSIBLE_CLOCKS
from hta_graph.multi_rank.matching.read_communications import read_communications
from hta_graph.multi_rank.matching.worker_groups import MAX_HOST_OFFSET_NS, with_worker_groups
from tests.matching_accuracy import MS, Score, matched_job, score_of
from tests.simulator.ranks import Clock, Fault, JobShape, Recording, meshes, record_job, simulate_job
from tests.support.deep_tests import cases
from tests.support.gloo_builder import WORKER, GlooRank

WORLD, LEFT, RIGHT = [0, 1, 2, 3], [0, 1], [2, 3]
ROUNDS = 16
HEADERS = {0: [WORLD, LEFT], 1: [WORLD, LEFT], 2: [WORLD, RIGHT], 3: [WORLD, RIGHT]}
"""Each rank knows the group of all and a pair, one of which is never called."""


@dataclass(frozen=True)
class Job:
    """A job of four ranks, read and matched."""

    graphs: dict[int, hg.DependencyGraph]
    ranks: dict[int, RankCommunications]
    found: Collectives

    def groups(self) -> dict[int, set[str | None]]:
        """Return the groups of each rank's collectives."""
        return {rank: set(own.group) for rank, own in self.ranks.items()}

    def members(self) -> set[tuple[int, ...]]:
        """Return which ranks took part together."""
        return {tuple(self.found.rank[self.found.number == number].tolist()) for number in range(len(self.found))}


def job_of(folder: Path, starts: Floats, together: list[list[int]]) -> Job:
    """Write ranks that come to collectives (one row each, µs): those together leave when their last one has come."""
    paths = []
    for rank in range(4):
        trace = GlooRank(rank, *HEADERS[rank], names="01" if rank in LEFT else "02")
        mine = next(own for own in together if rank in own)
        for at in range(starts.shape[1]):
            came = float(starts[rank, at])
            trace.called("all_reduce", came, came + 2)
            last = float(starts[mine, at].max()) + 3
            trace.worked("all_reduce", came + 3, last + 40 + rank, tid=WORKER + at % 2)
        paths.append(trace.write(folder / f"rank{rank}.json"))
    graphs = {graph.trace.rank or 0: graph for graph in hg.read_graphs(paths)}
    ranks = with_worker_groups({rank: read_communications(graph) for rank, graph in graphs.items()})
    return Job(graphs, ranks, match_collectives(ranks))


def arrivals(seed: int, spread: float) -> Floats:
    """Return when each of four ranks comes to each collective (µs)."""
    return 1_000.0 * np.arange(1, ROUNDS + 1) + np.random.default_rng(seed).uniform(0, spread, (4, ROUNDS)).round(3)


def test_of_a_group_that_is_never_called_no_collective_is_made(tmp_path: Path) -> None:
    job = job_of(tmp_path, arrivals(1, 400), [LEFT, RIGHT])
    assert job.groups() == {0: {"1 [0, 1]"}, 1: {"1 [0, 1]"}, 2: {"2 [2, 3]"}, 3: {"2 [2, 3]"}}
    assert job.members() == {(0, 1), (2, 3)}
    assert len(job.found) == 2 * ROUNDS
    assert not job.found.offsets


def test_long_waits_tell_the_group_of_all_from_its_parts(tmp_path: Path) -> None:
    job = job_of(tmp_path, arrivals(2, 400), [WORLD])
    assert job.groups() == {rank: {"0 [0, 1, 2, 3]"} for rank in range(4)}
    assert (job.members(), len(job.found)) == ({(0, 1, 2, 3)}, ROUNDS)


@pytest.mark.parametrize("together", [[WORLD], [LEFT, RIGHT]])
def test_what_two_groups_explain_alike_stays_open(tmp_path: Path, together: list[list[int]]) -> None:
    job = job_of(tmp_path, arrivals(3, 5), together)
    assert len(job.found) == 0
    assert job.found.of_open_group == 4 * ROUNDS
    assert {code for own in job.found.reasons.values() for code in own.tolist()} == {GROUP_OPEN}


def test_groups_of_the_same_ranks_are_named_by_these(tmp_path: Path) -> None:
    paths = []
    for rank in range(2):
        trace = GlooRank(rank, [0, 1], [0, 1], names="78")
        for at in range(6):
            trace.called("broadcast", 100 * at + 10 * rank, 100 * at + 10 * rank + 2)
            trace.worked("broadcast", 100 * at + 10 * rank + 3, 100 * at + 60, tid=WORKER + at % 2)
        paths.append(trace.write(tmp_path / f"rank{rank}.json"))
    ranks = with_worker_groups({g.trace.rank or 0: read_communications(g) for g in hg.read_graphs(paths)})
    assert {text for own in ranks.values() for text in own.group} == {"[0, 1]"}
    # The root is the second rank of the group, whichever that is: who is known waits for it.
    assert ranks[0].needed.tolist() == [1] * 6
    assert len(match_collectives(ranks)) == 6


def test_a_dump_names_the_group_that_timing_leaves_open(tmp_path: Path) -> None:
    job = job_of(tmp_path, arrivals(3, 5), [LEFT, RIGHT])
    records = {
        rank: FlightRecord(
            [str(1 + rank // 2)] * len(own),
            np.arange(len(own)),
            ["all_reduce"] * len(own),
            np.full(len(own), 8),
            own.arrival + 500,
        )
        for rank, own in job.ranks.items()
    }
    found = match_collectives(with_sequence_numbers(job.ranks, job.graphs, records))
    assert len(found) == 2 * ROUNDS
    assert {tuple(found.rank[found.number == at].tolist()) for at in range(len(found))} == {(0, 1), (2, 3)}


def alone_on(host: str | None, ahead_ns: int) -> RankCommunications:
    """Return a rank of one group, whose clock is ahead: collectives at uneven times (ns)."""
    start = 1_000_000 * np.arange(12) + 7_000 * np.arange(12) ** 2 + ahead_ns
    rows, name = np.arange(12, dtype=np.int32), ["gloo:all_reduce"] * 12
    said = RankCommunications.no_arguments(12) | {"Collective name": ["all_reduce"] * 12}
    recording = RankRecording(host, int(start[0]), int(start[-1]) + 99_000)
    waits, on_cpu = np.full(12, ALL_RANKS), np.zeros(12, np.bool_)
    return RankCommunications(
        rows, rows, start, 0 * start, start, start + 10_000, waits, on_cpu, name, ["0 [0, 1]"] * 12, said, recording
    )


@pytest.mark.parametrize(
    ("other", "ahead_ns", "matches"),
    [("a", MAX_HOST_OFFSET_NS // 2, 12), ("a", 4 * MAX_HOST_OFFSET_NS, 0), ("b", 4 * MAX_HOST_OFFSET_NS, 12)],
)
def test_clocks_that_no_host_has_withdraw_the_match(other: str, ahead_ns: int, matches: int) -> None:
    found = match_collectives({0: alone_on("a", 0), 1: alone_on(other, ahead_ns)})
    assert len(found) == matches
    assert found.offsets == ({1: ahead_ns} if matches else {})
    assert found.with_implausible_clocks == 24 - 2 * matches
    assert not matches or IMPLAUSIBLE_CLOCKS not in found.reasons[0]


def test_rows_that_began_in_the_other_order_are_those_of_their_calls(tmp_path: Path) -> None:
    #   calls     a b        a b        a b
    #   rows     |a| |b|    |a| |b|    |b| |a|      the worker that took the last a was kept waiting
    trace = GlooRank(0, [0, 1])
    for at, sizes in enumerate([(4, 9), (4, 9), (9, 4)]):
        trace.called("all_reduce", 100 * at, 100 * at + 1, 4)
        trace.called("all_reduce", 100 * at + 2, 100 * at + 3, 9)
        for one, size in enumerate(sizes):
            trace.worked("all_reduce", 100 * at + 10 + one, 100 * at + 50 + one, tid=WORKER + one, elements=size)
    found = read_communications(trace.graph(tmp_path))
    assert found.arguments["In msg nelems"] == [4, 9] * 3
    assert found.arrival.tolist() == [1_000 * time for at in range(3) for time in (100 * at, 100 * at + 2)]


@pytest.mark.parametrize(("begins_ms", "is_late"), [(30, False), (2_830, True)])
def test_a_rank_that_stood_still_comes_when_its_row_begins(tmp_path: Path, begins_ms: float, is_late: bool) -> None:
    # The workers are free, but Python's lock is held: the row begins long after its call.
    trace, called = GlooRank(0, [0, 1]), 265_000.0
    for at in range(2):
        trace.called("all_reduce", 1_000 + 100 * at, 1_002 + 100 * at)
        trace.worked("all_reduce", 1_010 + 100 * at, 1_050 + 100 * at, tid=WORKER + at)
    trace.called("all_reduce", called, called + 50)
    trace.worked("all_reduce", called + 1_000 * begins_ms, called + 1_000 * begins_ms + 200)
    arrival = read_communications(trace.graph(tmp_path)).arrival.tolist()[-1]
    assert arrival == 1_000 * (called + (1_000 * begins_ms if is_late else 0))


def test_work_behind_busy_workers_is_no_late_arrival(tmp_path: Path) -> None:
    trace = GlooRank(0, [0, 1])
    for at in range(3):
        trace.called("all_reduce", 10 * at, 10 * at + 5)
        begins = 20 + at if at < 2 else 300_000
        trace.worked("all_reduce", begins, begins + 299_900, tid=WORKER + at % 2)
    assert read_communications(trace.graph(tmp_path)).arrival.tolist() == [0, 10_000, 20_000]


def simulated_score(seed: int, recording: str) -> tuple[Score, int]:
    """Simulate groups over a mesh, some never called; return how matching fares and how many stay open."""
    rng = random.Random(seed)
    ranks, steps = rng.choice((4, 4, 8)), rng.randint(2, 6)
    late = Fault(rng.randrange(ranks), rng.randrange(steps), "forward", rng.randint(1, 20) * MS)
    compute, transfer = rng.choice((30_000, 300_000, 1_000_000)), rng.choice((20_000, 150_000, 600_000))
    faults = (late,) if rng.random() < 0.5 else ()
    shape = JobShape(ranks, steps, rng.randint(2, 8), compute, transfer, seed, "gloo", faults)
    hosts = 2 if recording == "two hosts" else 1
    skew = {
        "one clock": [0] * ranks,
        "two hosts": [rank * 2 // ranks * rng.randrange(-5 * MS, 5 * MS) for rank in range(ranks)],
        "clocks": [rng.randrange(-25 * MS, 25 * MS) for _ in range(ranks)],
    }[recording]
    if hosts == 2:
        skew = [skew[-1] if rank * 2 // ranks else 0 for rank in range(ranks)]
    made = Recording(clocks={rank: Clock(ns) for rank, ns in enumerate(skew)}, hosts=hosts)
    with tempfile.TemporaryDirectory() as folder:
        job = matched_job(record_job(simulate_job(meshes(shape)), made, Path(folder)))
    return score_of(job, clocks_agree=recording == "one clock"), job.found.of_open_group


@pytest.mark.sampled(3)
@pytest.mark.parametrize("recording", ["one clock", "two hosts", "clocks"])
def test_no_collective_is_invented_whatever_groups_there_are(recording: str) -> None:
    scores = [simulated_score(seed, recording) for seed in range(cases(4))]
    assert sum(score.wrong + score.guessed for score, _ in scores) == 0
    assert not any(score.wait_errors for score, _ in scores)
    # What is lost says so.
    assert all(score.right == score.complete for score, left_open in scores if not left_open)
    assert sum(score.right for score, _ in scores) > 0


def test_with_one_group_nothing_changes() -> None:
    ranks = {0: alone_on("a", 0), 1: replace(alone_on("a", 0), group=["0 [0, 1]"] * 12)}
    assert with_worker_groups(ranks) == ranks
