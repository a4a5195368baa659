"""Predicted beside re-executed programs: ``python -m tests.replay_accuracy --programs N [--first SEED]``.

A simulated program is recorded; then the program is changed, run again (all that was drawn at random stays drawn) and
measured. Replay is asked for the same change and sees the first recording alone. The error is
|predicted − true| / true new length; beside it stands what one errs by who says that nothing changes.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np

import hta_graph as hg
from hta_graph.base.errors import QueryError
from hta_graph.model import EdgeKind
from tests.edge_accuracy import read
from tests.matching_accuracy import SCENARIOS, random_shape
from tests.simulator import Dialect, Program, random_program, simulate, write
from tests.simulator.changes import OF_ANY, Asked, Subject
from tests.simulator.dialect import EPOCH_NS
from tests.simulator.interference import with_interference
from tests.simulator.ranks import JobProgram, Recording, TrueDelay, record_job, simulate_job
from tests.simulator.ranks.job_changes import OF_JOBS, JobEdit
from tests.simulator.rewriting import with_lags
from tests.simulator.run import Run
from tests.simulator.window_lengths import Span, job_span, step_span, steps_of, whole_span

SIZES = (300, 1_000, 2_000)
DEEPEST_QUEUE = 1_024
"""How many launches wait at most, as on all NVIDIA machines that were seen; fewer are found by no rule."""


@dataclass(frozen=True)
class Prediction:
    """How long a window was, truly became, and was predicted to become (ns)."""

    case: str
    measured_ns: int
    true_ns: int
    predicted_ns: int
    frozen_share: float

    @property
    def error(self) -> float:
        """By what share of the true length the prediction is wrong."""
        return abs(self.predicted_ns - self.true_ns) / self.true_ns

    @property
    def effect(self) -> float:
        """By what share of the true length it is wrong that nothing changes."""
        return abs(self.measured_ns - self.true_ns) / self.true_ns


Found = Mapping[str, list[Prediction]]


# -- one rank ---------------------------------------------------------------------------------------------------------


def program_of(seed: int, *, queue: int = DEEPEST_QUEUE, contended: bool = False, graphs: bool = False) -> Program:
    """Return a training script whose effects take their own times.

    Args:
        seed: what decides about everything.
        queue: how many launches wait at most.
        contended: let some have a thread besides that takes the driver's lock at times of its own.
        graphs: let some replay CUDA graphs of several branches.
    """
    program = random_program(seed, "pytorch", random.Random(seed).choice(SIZES))
    threads = tuple(own for own in program.threads if contended or own.name != "pin_memory")
    program = replace(program, threads=threads, launch_queue_depth=queue)
    if not graphs:
        program = replace(program, graphs=tuple(replace(one, nodes=one.nodes[:1]) for one in program.graphs))
    return with_lags(program, seed)


def of_program(
    program: Program, case: str, *, in_step: bool = False, run_of: Callable[[Program], Run] = simulate
) -> Found:
    """Change a program in every way there is, all of it or one of its steps only."""
    run = run_of(program)
    numbers = list(steps_of(run))
    step = numbers[len(numbers) // 2] if in_step else None
    window = hg.whole() if step is None else hg.step(step)
    graph, subject = read(write(run, Dialect())), Subject({0: program}, step)
    # What is put before everything else makes the window longer: it starts as before.
    start_ns, _ = _span(run, step)
    found: dict[str, list[Prediction]] = defaultdict(list)
    for name, kind in OF_ANY.items():
        edit = kind(subject, random.Random(f"{case} {name}"))
        if edit is None:
            continue
        changes = asked_changes(graph, edit.asked)
        after = _span(run_of(edit.applied(program, subject)), step)
        found[name].append(_predicted(f"{case} {edit.asked}", graph, changes, window, after[1] - start_ns))
    return found


# -- many ranks -------------------------------------------------------------------------------------------------------


def job_of(scenario: str, backend: str, seed: int, *, delayed: bool = True) -> JobProgram:
    """Return a job whose effects take their own times; with or without the delay that was injected in most."""
    shape = random_shape(scenario, backend, seed)
    job = SCENARIOS[scenario](shape if delayed else replace(shape, faults=()))
    return replace(job, ranks={rank: with_lags(own, f"{seed} {rank}") for rank, own in job.ranks.items()})


def of_job(scenario: str, backend: str, seed: int) -> Found:
    """Change a job in every way there is."""
    job, case = job_of(scenario, backend, seed), f"{scenario} {backend} {seed}"
    run = simulate_job(job)
    start_ns, _ = job_span(run)
    with tempfile.TemporaryDirectory() as folder:
        recorded = record_job(run, Recording(ids=True), Path(folder))
        graph = hg.read_job(recorded.paths)
        delays = recorded.delays()
    found: dict[str, list[Prediction]] = defaultdict(list)
    for name, (after, asked) in _job_edits(job, case):
        found[name].append(
            _predicted(f"{case} {asked}", graph, asked_changes(graph, asked), hg.whole(), _end(after) - start_ns)
        )
    if delays:
        changes = [_without_delay(graph, delay) for delay in delays]
        spared = _end(job_of(scenario, backend, seed, delayed=False)) - start_ns
        found["an injected delay removed"].append(_predicted(case, graph, changes, hg.whole(), spared))
    return found


def _end(job: JobProgram) -> int:
    return job_span(simulate_job(job))[1]


def _job_edits(job: JobProgram, case: str) -> Iterator[tuple[str, JobEdit]]:
    subject = Subject(job.ranks)
    for name, kind in OF_ANY.items():
        edit = kind(subject, random.Random(f"{case} {name}"))
        if edit is not None:
            ranks = {rank: edit.applied(own, subject) for rank, own in job.ranks.items()}
            yield name, (replace(job, ranks=ranks), edit.asked)
    for name, of_ranks in OF_JOBS.items():
        changed = of_ranks(job, random.Random(f"{case} {name}"))
        if changed is not None:
            yield name, changed


def _without_delay(graph: hg.JobGraph, delay: TrueDelay) -> hg.Change:
    """Let the edges around a delay, of a kernel or of a thread, weigh so much less."""
    edges, events, times = graph.edge_table, graph.event_table, graph.timeline.times
    part = graph.rank_graphs[graph.index_of_rank(delay.rank)]
    start, end = delay.start_ns + EPOCH_NS, delay.end_ns + EPOCH_NS
    around = (times[edges.source] <= start) & (times[edges.target] >= end)
    own = graph.rank_index_of(edges.target >> 1) == part.index
    if delay.event_index is not None:
        own &= events.lane[edges.target >> 1] == events.lane[graph.row_of((delay.rank, delay.event_index))]
    rows = np.flatnonzero(around & own & np.isin(edges.kind, (EdgeKind.THREAD_ORDER, EdgeKind.EXECUTION)))
    return hg.weigh(rows, times[edges.target[rows]] - times[edges.source[rows]] - (end - start))


def _span(run: Run, step: int | None) -> Span:
    return whole_span(run) if step is None else step_span(run, step)


def _predicted(
    case: str, graph: hg.DependencyGraph, changes: list[hg.Change], window: hg.Window, true_ns: int
) -> Prediction:
    try:
        replayed = hg.replay(graph, changes, window)
    except QueryError:
        # The window has nothing of it: the prediction is that nothing changes.
        replayed = hg.replay(graph, window=window)
    return Prediction(case, replayed.measured_ns, true_ns, replayed.predicted_ns, replayed.frozen_share)


def asked_changes(graph: hg.DependencyGraph, asked: Iterable[Asked]) -> list[hg.Change]:
    """Return what replay is asked; nothing is left out of which the graph has nothing."""
    held = set(graph.edge_table.kind.tolist())
    return [
        hg.reroute(drop=what) if how == "without" else getattr(hg, how)(*what)
        for how, *what in asked
        if how != "without" or EdgeKind[what[0].upper()] in held
    ]


# -- what is proven ---------------------------------------------------------------------------------------------------


def whole_programs(seed: int) -> Iterator[Found]:
    """Programs of one rank, from beginning to end."""
    yield of_program(program_of(seed), str(seed))


def single_steps(seed: int) -> Iterator[Found]:
    """One step of such programs, in which alone something changes."""
    yield of_program(program_of(seed), str(seed), in_step=True)


def gpu_jobs(seed: int) -> Iterator[Found]:
    """Jobs of several ranks with a GPU each, one per way to spread training."""
    yield from (of_job(scenario, "nccl", seed) for scenario in SCENARIOS if scenario != "wide")


def cpu_jobs(seed: int) -> Iterator[Found]:
    """The same on CPUs."""
    yield from (of_job(scenario, "gloo", seed) for scenario in SCENARIOS if scenario != "wide")


def locks(seed: int) -> Iterator[Found]:
    """Programs of which some have a thread that takes the driver's lock at times of its own."""
    yield of_program(program_of(seed, contended=True), str(seed))


def shallow_queues(seed: int) -> Iterator[Found]:
    """Programs on a machine that lets 16 launches wait: no trace shows that, calls just take longer."""
    yield of_program(program_of(seed, queue=16), str(seed))


def branched_graphs(seed: int) -> Iterator[Found]:
    """Programs of which some replay CUDA graphs: why a kernel follows others inside a graph stands in no trace."""
    yield of_program(program_of(seed, graphs=True), str(seed))


def slowed_by_others(seed: int) -> Iterator[Found]:
    """Programs whose kernels take up to 30% longer while others run beside them."""
    program = program_of(seed)
    yield of_program(program, str(seed), run_of=with_interference)


PROVEN: dict[str, Callable[[int], Iterator[Found]]] = {
    "one rank": whole_programs,
    "one step": single_steps,
    "many ranks, GPUs": gpu_jobs,
    "many ranks, CPUs": cpu_jobs,
}
"""What a trace tells: all kinds of change are predicted well."""

NOT_TOLD: dict[str, Callable[[int], Iterator[Found]]] = {
    "locks": locks,
    "shallow queues": shallow_queues,
    "branched graphs": branched_graphs,
    "interference": slowed_by_others,
}
"""What no trace tells in full."""

TABLES = PROVEN | NOT_TOLD


# -- figures ----------------------------------------------------------------------------------------------------------


def figures(found: Iterable[Found]) -> dict[str, list[Prediction]]:
    """Join what was found for many programs."""
    joined: dict[str, list[Prediction]] = defaultdict(list)
    for one in found:
        for kind, predictions in one.items():
            joined[kind] += predictions
    return joined


def quantiles(errors: Iterable[float]) -> tuple[float, float, float, float]:
    """Return the median, 90%, 95% and the largest of some errors."""
    median, most, nearly_all, largest = np.quantile(np.array([*errors]), (0.5, 0.9, 0.95, 1.0)).tolist()
    return median, most, nearly_all, largest


def table(found: Found, *, worst: bool = False) -> Iterator[str]:
    """Print a line per kind of change, and one for all; with `worst` what was predicted worst."""
    yield (f"{'change':<30}{'cases':>6}{'median':>9}{'p90':>8}{'p95':>8}{'max':>8}{'effect':>9}{'p95':>8}{'frozen':>8}")
    every = [prediction for predictions in found.values() for prediction in predictions]
    for kind, predictions in [*found.items(), ("all", every)]:
        median, most, nearly_all, largest = quantiles(one.error for one in predictions)
        effect, _, large_effect, _ = quantiles(one.effect for one in predictions)
        frozen = float(np.mean([one.frozen_share for one in predictions]))
        yield (
            f"{kind:<30}{len(predictions):>6}{median:>9.3%}{most:>8.2%}{nearly_all:>8.2%}{largest:>8.2%}"
            f"{effect:>9.2%}{large_effect:>8.2%}{frozen:>8.2%}"
        )
        if worst and kind != "all":
            yield from (
                f"    {one.error:>7.2%}  {one.case}" for one in sorted(predictions, key=lambda one: -one.error)[:2]
            )


def main(argv: list[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=40)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--worst", action="store_true", help="show what was predicted worst")
    parser.add_argument("--only", choices=TABLES, action="append")
    options = parser.parse_args(argv)
    seeds = range(options.first, options.first + options.programs)
    for title, proven in TABLES.items():
        if options.only and title not in options.only:
            continue
        found = figures(chain.from_iterable(proven(seed) for seed in seeds))
        sys.stdout.write("\n".join([f"{title}: {proven.__doc__}", *table(found, worst=options.worst), "", ""]))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
