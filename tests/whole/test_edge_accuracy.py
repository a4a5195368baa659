"""What the graph finds against what happened in simulated programs; ``python -m tests.edge_accuracy`` runs deep."""

from __future__ import annotations

import pytest

from tests.edge_accuracy import DIALECTS, GPU_TO_CPU, RECORDED_KINDS, Score, compare, prove
from tests.simulator import Program, Stream, simulate
from tests.simulator.program import Gap, Launch
from tests.simulator.programs import Family
from tests.support.deep_tests import deep

FIRST = 11
"""The first seed of the pytorch idiom, such that few programs hold every kind."""
PROGRAMS = [6, deep(150)]
"""How many programs are simulated."""
SIZE = 150


def joined(total: dict[str, Score], kinds: tuple[str, ...]) -> Score:
    """Add up the scores of kinds, recorded and inferred."""
    sums = Score()
    for kind in kinds:
        for name in (kind, f"{kind}, inferred"):
            score = total.get(name, Score())
            sums.edges += score.edges
            sums.wrong += score.wrong
            sums.truths += score.truths
            sums.missed += score.missed
            sums.examples += score.examples
    return sums


@pytest.mark.parametrize("programs", PROGRAMS)
@pytest.mark.parametrize("family", ["pytorch", "arbitrary"])
@pytest.mark.parametrize("dialect", ["recorded", "virtual tid"])
@pytest.mark.slow
def test_recorded_kinds_hold_every_true_constraint_and_no_false_one(
    family: Family, dialect: str, programs: int
) -> None:
    total = prove(family, DIALECTS[dialect], range(programs), SIZE, plain=True)
    _check_recorded(total, RECORDED_KINDS)
    assert sum(total.get(kind, Score()).truths for kind in RECORDED_KINDS) > 67 * programs
    assert total["stream_sync"].truths > 0.13 * programs
    assert total["device_sync"].truths > 0.67 * programs


@pytest.mark.slow
@pytest.mark.parametrize("programs", PROGRAMS)
def test_whole_microseconds_keep_the_recorded_synchronisation_of_the_pytorch_idiom(programs: int) -> None:
    """What began in one microsecond has no order there, so thread and stream order are left out."""
    kinds = tuple(kind for kind in RECORDED_KINDS if not kind.endswith("order"))
    _check_recorded(prove("pytorch", DIALECTS["µs, recorded"], range(programs), SIZE), kinds)


def _check_recorded(total: dict[str, Score], kinds: tuple[str, ...]) -> None:
    for kind in kinds:
        score = total.get(kind, Score())
        assert not score.wrong, score.examples[:5]
        assert not score.missed, score.examples[:5]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("programs", PROGRAMS)
@pytest.mark.parametrize("dialect", ["no ids", "no rows", deep("no rows, no records"), deep("µs, no rows"), "ROCm"])
def test_inference_in_the_pytorch_idiom(dialect: str, programs: int) -> None:
    total = prove("pytorch", DIALECTS[dialect], range(FIRST, FIRST + programs), SIZE)
    to_cpu = joined(total, GPU_TO_CPU)
    assert to_cpu.truths > 1.33 * programs
    assert min(to_cpu.precision, to_cpu.recall) >= 0.98, to_cpu.examples[:5]
    waits = joined(total, ("event_wait",))
    assert waits.truths > 2 * programs
    least = 0.90 if DIALECTS[dialect].record_rows else 0.85
    assert min(waits.precision, waits.recall) >= least, waits.examples[:5]
    for kind in ("thread_handoff", "graph_order", "forward_backward"):
        score = joined(total, (kind,))
        assert score.truths > programs / 15
        assert min(score.precision, score.recall) >= 0.98, score.examples[:5]
    assert joined(total, ("runtime_lock",)).precision >= 0.98


@pytest.mark.parametrize("programs", [4, deep(60)])
@pytest.mark.slow
def test_inference_in_arbitrary_programs_is_labelled_and_never_a_recorded_kind(programs: int) -> None:
    total = prove("arbitrary", DIALECTS["no rows"], range(programs), SIZE)
    for kind in ("event_wait", *GPU_TO_CPU, "thread_handoff", "graph_order"):
        assert not total.get(kind, Score()).edges, f"{kind} claims to be recorded"
    for kind in ("thread_order", "execution", "launch", "stream_order"):
        assert not total[kind].wrong
        assert not total[kind].missed


@pytest.mark.slow
def test_a_full_queue_of_real_depth_is_found() -> None:
    kernels = tuple(Launch(Stream(), 30_000) for _ in range(1_500))
    queue = joined(compare(simulate(Program.of(*kernels, Gap(1_000))), DIALECTS["no rows"]), ("queue_full",))
    assert queue.truths > 200
    assert queue.precision == 1.0, queue.examples[:5]
    assert queue.recall >= 0.98, queue.examples[:5]
