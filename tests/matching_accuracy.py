"""What matching finds beside what ranks truly did together, in simulated jobs; ``python -m tests.matching_accuracy``.

A collective that the product lists is *right* if all its members are of one true rendezvous and no given rank's one
lacks, *wrong* if they are of several, *guessed* if they are and it says itself that others would fit as well. A true
rendezvous is *complete* if every given rank of it has its row in its file, and that says with whom it was. Waits are
compared where all ranks of a right one are given; clocks at the middle of the job.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

import hta_graph as hg
from hta_graph.multi_rank.matching.collectives import Collectives, match_collectives
from hta_graph.multi_rank.matching.communications import RankCommunications
from hta_graph.multi_rank.matching.read_communications import read_communications
from tests.simulator.dialect import EPOCH_NS
from tests.simulator.ranks import (
    Clock,
    Fault,
    JobProgram,
    JobRun,
    JobShape,
    RecordedJob,
    Recording,
    TrueMember,
    ddp,
    experts,
    fsdp,
    pipeline,
    record_job,
    rooted,
    simulate_job,
    tensor_parallel,
    wide,
)

MS = 1_000_000
SCENARIOS: dict[str, Callable[[JobShape], JobProgram]] = {
    "ddp": ddp,
    "fsdp": fsdp,
    "pipeline": pipeline,
    "buffered": lambda shape: pipeline(shape, buffered=True),
    "tensor": tensor_parallel,
    "experts": experts,
    "rooted": rooted,
    "wide": lambda shape: wide(replace(shape, ranks=34, steps=2, layers=2)),
}


# -- jobs and how they are recorded -----------------------------------------------------------------------------------


def random_shape(scenario: str, backend: str, seed: int) -> JobShape:
    """Return a job's shape, with one delay in most."""
    rng = random.Random(f"{scenario} {backend} {seed}")
    ranks, steps = rng.choice((2, 4, 4, 8)), rng.randint(2, 5)
    fault = Fault(
        rng.randrange(ranks),
        rng.randrange(steps),
        rng.choice(("data", "forward", "backward", "optimizer")),
        rng.randint(1, 20) * MS,
        rng.random() < 0.3,
    )
    return JobShape(
        ranks,
        steps,
        rng.randint(2, 6),
        rng.choice((30_000, 300_000, 1_000_000)),
        rng.choice((20_000, 150_000, 600_000)),
        seed,
        "gloo" if backend == "gloo" else "nccl",
        (fault,) if rng.random() < 0.8 else (),
    )


@dataclass(frozen=True)
class Damage:
    """What is wrong with a recording, by the job that is recorded and what decides at random."""

    recording: Callable[[JobRun, random.Random], Recording]
    clocks_agree: bool = True


def _length_of(job: JobRun) -> int:
    return max(event.end_ns for run in job.runs.values() for event in run.events)


def _windows(job: JobRun, rng: random.Random) -> dict[int, tuple[int, int]]:
    """Let recordings begin and end up to a quarter of the job apart."""
    length = _length_of(job)
    return {rank: (rng.randrange(length // 4), length - rng.randrange(length // 4)) for rank in job.runs}


def _clocks(job: JobRun, rng: random.Random) -> dict[int, Clock]:
    """Let ranks' clocks be up to some time apart that is between microseconds and a day."""
    most = rng.choice((50_000, 5 * MS, 86_400_000 * MS))
    return {rank: Clock(rng.randrange(-most, most), rng.uniform(-20, 20)) for rank in job.runs}


def _somebody(job: JobRun, rng: random.Random) -> frozenset[int]:
    return frozenset({rng.choice(sorted(job.runs))})


DAMAGES: dict[str, Damage] = {
    "none": Damage(lambda _, __: Recording()),
    "windows": Damage(lambda job, rng: Recording(windows=_windows(job, rng))),
    "rows lost": Damage(lambda _, rng: Recording(loss=0.03, seed=rng.randrange(1 << 30))),
    "rank missing": Damage(lambda job, rng: Recording(missing=_somebody(job, rng))),
    "clocks": Damage(lambda job, rng: Recording(clocks=_clocks(job, rng), hosts=len(job.runs)), clocks_agree=False),
    "all of these": Damage(
        lambda job, rng: Recording(
            clocks=_clocks(job, rng),
            windows=_windows(job, rng),
            missing=_somebody(job, rng) if len(job.runs) > 2 else frozenset(),
            loss=0.02,
            hosts=len(job.runs),
            seed=rng.randrange(1 << 30),
        ),
        clocks_agree=False,
    ),
}


# -- what was found, beside the truth ---------------------------------------------------------------------------------


@dataclass
class Score:
    """How matching fared on some jobs."""

    jobs: int = 0
    complete: int = 0
    right: int = 0
    wrong: int = 0
    guessed: int = 0
    ambiguous: int = 0
    waits: int = 0
    wait_errors: list[int] = field(default_factory=list)
    clock_errors: list[int] = field(default_factory=list)
    examples: list[str] = field(default_factory=list)

    def add(self, other: Score) -> None:
        """Add what was found in another job."""
        for name in ("jobs", "complete", "right", "wrong", "guessed", "ambiguous", "waits"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.wait_errors += other.wait_errors
        self.clock_errors += other.clock_errors
        self.examples += other.examples

    @property
    def recall(self) -> float:
        """Share of the complete rendezvous that are listed rightly."""
        return self.right / self.complete if self.complete else 1.0


@dataclass(frozen=True)
class Matched:
    """A recorded job as the product sees it."""

    recorded: RecordedJob
    ranks: dict[int, RankCommunications]
    graphs: dict[int, hg.DependencyGraph]
    found: Collectives

    def listed(self) -> Iterator[list[tuple[int, int, int]]]:
        """Yield the members of each collective: rank, event_index, place in the columns."""
        for number in range(len(self.found)):
            yield [
                (rank, self._index_of(rank, int(self.found.place[at])), int(at))
                for at in np.flatnonzero(self.found.number == number)
                for rank in [int(self.found.rank[at])]
            ]

    def _index_of(self, rank: int, place: int) -> int:
        return int(self.graphs[rank].event_table.index[self.ranks[rank].row[place]])


def matched_job(recorded: RecordedJob) -> Matched:
    """Read a job's files and match what its ranks did."""
    graphs = {int(graph.rank or 0): graph for graph in hg.read_graphs(recorded.paths)}
    ranks = {rank: read_communications(graph) for rank, graph in graphs.items()}
    return Matched(recorded, ranks, graphs, match_collectives(ranks))


def score_of(job: Matched, *, clocks_agree: bool) -> Score:
    """Compare what was matched with what was done."""
    truth = job.recorded.rendezvous()
    of_row = {(own.rank, own.event_index): number for number, (_, members) in enumerate(truth) for own in members}
    given = job.recorded.index_of.keys()
    score = Score(1, complete=sum(_is_complete(members, given) for _, members in truth))
    for number, members in enumerate(job.listed()):
        is_ambiguous = bool(job.found.ambiguous[number])
        score.ambiguous += is_ambiguous
        meant = {of_row.get((rank, index), -1) for rank, index, _ in members}
        if len(meant) > 1 or -1 in meant:
            score.guessed += is_ambiguous
            score.wrong += not is_ambiguous
            if not is_ambiguous:
                score.examples.append(f"{job.recorded.folder.name}: {members}")
            continue
        kind, true_members = truth[meant.pop()]
        if not _is_complete(true_members, given) or len(members) < sum(own.rank in given for own in true_members):
            continue
        score.right += 1
        if clocks_agree and not is_ambiguous and len(members) == len(true_members):
            by_rank = {own.rank: own for own in true_members}
            errors = [_wait_error(job, by_rank[rank], at) for rank, _, at in members if not by_rank[rank].is_buffered]
            score.waits += len(errors)
            score.wait_errors += [error for error in errors if error]
            score.examples += [f"{job.recorded.folder.name}: wait of {kind} {error}" for error in errors if error]
    score.clock_errors += _clock_errors(job)
    return score


def _is_complete(members: Iterable[TrueMember], given: Iterable[int]) -> bool:
    present = [own for own in members if own.rank in given]
    return len(present) > 1 and all(own.event_index is not None and not own.is_silent for own in present)


def _wait_error(job: Matched, own: TrueMember, at: int) -> int:
    return abs(int(job.found.wait[at]) - own.wait_ns)


def _clock_errors(job: Matched) -> list[int]:
    """Return by how much the middle of the job lies apart on each rank's CPU clock and on the lowest one's (ns)."""
    middle = _length_of(job.recorded.job) // 2
    shown = {rank: EPOCH_NS + job.recorded.clock(rank).shown(middle) for rank in job.ranks}
    found = {rank: int(job.found.clocks.to_job(rank, np.array([own]))[0]) for rank, own in shown.items()}
    lowest = min(found)
    return [abs(found[rank] - found[lowest]) for rank in found if rank != lowest]


def prove(scenario: str, backend: str, damage: str, seeds: Iterable[int], *, ids: bool = False) -> Score:
    """Simulate, damage, match and score jobs."""
    total = Score()
    for seed in seeds:
        job = simulate_job(SCENARIOS[scenario](random_shape(scenario, backend, seed)))
        rng = random.Random(zlib.crc32(f"{scenario} {damage} {seed}".encode()))
        recording = replace(DAMAGES[damage].recording(job, rng), ids=ids)
        with tempfile.TemporaryDirectory(prefix=f"{seed}_") as folder:
            matched = matched_job(record_job(job, recording, Path(folder)))
            total.add(score_of(matched, clocks_agree=DAMAGES[damage].clocks_agree))
    return total


# -- the tables -------------------------------------------------------------------------------------------------------

COLUMNS = (
    "scenario", "damage", "jobs", "complete", "right", "share", "wrong", "guessed", "unsure", "waits", "off",
    "clock error µs",
)  # fmt: skip


def print_table(programs: int, *, only: str | None, backends: Iterable[str]) -> bool:
    """Print one row per scenario and damage, ids first; tell whether nothing was wrong."""
    line = "{:16} {:13} {:>4} {:>8} {:>6} {:>8} {:>5} {:>7} {:>6} {:>6} {:>5} {:>18}"
    print(line.format(*COLUMNS))  # noqa: T201
    sums: dict[str, Score] = defaultdict(Score)
    for backend in backends:
        for ids in (True, False) if backend == "nccl" else (False,):
            for scenario in SCENARIOS:
                if (only and only != scenario) or (backend == "gloo" and scenario == "wide"):
                    continue
                for damage in DAMAGES:
                    score = prove(scenario, backend, damage, range(programs), ids=ids)
                    name = f"{scenario} {'CPU' if backend == 'gloo' else 'ids' if ids else ''}"
                    print(line.format(*_cells(name, damage, score)), flush=True)  # noqa: T201
                    sums["CPU" if backend == "gloo" else "with ids" if ids else "without ids"].add(score)
    for name, score in sums.items():
        print(line.format(*_cells(name, "", score)))  # noqa: T201
    for name, score in sums.items():
        print(name, *score.examples[:5], sep="\n    ")  # noqa: T201
    return not any(score.wrong for score in sums.values())


def _cells(name: str, damage: str, score: Score) -> tuple[object, ...]:
    errors = np.array(score.clock_errors or [0]) / 1_000
    return (
        name, damage, score.jobs, score.complete, score.right, f"{score.recall:.2%}", score.wrong, score.guessed,
        score.ambiguous, score.waits, len(score.wait_errors), f"{np.median(errors):,.1f} / {errors.max():,.1f}",
    )  # fmt: skip


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=5, help="jobs of each kind")
    parser.add_argument("--only", choices=SCENARIOS, help="one scenario")
    parser.add_argument("--backend", choices=("nccl", "gloo"), help="on GPUs or on CPUs alone")
    asked = parser.parse_args()
    return (
        0
        if print_table(
            asked.programs, only=asked.only, backends=[asked.backend or "nccl", *([] if asked.backend else ["gloo"])]
        )
        else 1
    )


if __name__ == "__main__":
    sys.exit(main())
