"""Calls such as cudaFree wait for a device in some programs and not in others, and no record says which."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import hta_graph as hg
from analyses.questions.critical_path import PathText, path_lines
from hta_graph.what_if.reliability import reliability_after
from tests.edge_accuracy import graph_edges, read, true_edges
from tests.simulator import Dialect, simulate, write
from tests.simulator.program import Gap, Launch, Op, Program, Statement, Stream, SyncDevice
from tests.simulator.waiting_calls import MayWait
from tests.simulator.writer import Written
from tests.support.deep_tests import deep

S, SIDE = Stream(7), Stream(20)
NAMES = ("cudaFree", "hipFree", "cudaMalloc", "cuModuleUnload", "hipModuleUnload", "cudaLibraryUnload", "cudaFreeHost")


def freeing(count: int, kernel_ns: int = 300_000, *, name: str = "cudaFree", own_ns: int = 3_000) -> Program:
    """A loop of two kernels and a call that waits for both."""
    kernels = Launch(S, kernel_ns, "K1"), Launch(S, 40_000, "K2")
    return Program.of(*(Op("aten::conv2d", kernels), MayWait(name, own_ns), Gap(15_000)) * count)


def random_freeing(seed: int, *, waits: bool, factor: float = 1.0) -> Program:
    """A loop of kernels on one stream or two behind which a call comes that may wait; times vary by 0 to 20%."""
    rng = random.Random(f"implicit waits {seed}")
    jitter, name = rng.choice((0.0, 0.01, 0.05, 0.2)), rng.choice(NAMES)
    kernel, own, gap = rng.randint(60_000, 600_000), rng.randint(2_000, 15_000), rng.randint(5_000, 80_000)
    # What does not wait works for as long as kernels do, more or less.
    works = own if waits else round(kernel * rng.uniform(0.2, 1.8))
    streams = (S, SIDE) if rng.random() < 0.4 else (S,)

    def drawn(ns: int) -> int:
        return round(ns * rng.uniform(1 - jitter, 1 + jitter))

    body: list[Statement] = []
    for _ in range(rng.choice((1, 3, 6, 20, 40))):
        body += [Op("aten::mm", tuple(Launch(stream, round(factor * drawn(kernel)), "K1") for stream in streams))]
        body += [MayWait(name, drawn(works), waits)] * (rng.random() < 0.9) + [Gap(drawn(gap))]
    return Program.of(*body, SyncDevice())


def written(program: Program) -> Written:
    return write(simulate(program), Dialect(sync_rows="none"))


def taken(graph: hg.DependencyGraph) -> int:
    return int(graph.edges.query("rule == 'returned_with_work'")["target_index"].nunique())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
def test_calls_that_return_with_the_work_wait_for_the_device(name: str) -> None:
    graph, after = (read(written(freeing(6, kernel_ns, name=name))) for kernel_ns in (300_000, 150_000))
    assert taken(graph) == graph.diagnostics["implicit_waits"] == 6
    path = hg.critical_path(graph, hg.whole())
    assert path.by_bound_ns["gpu_compute_bound"] == 6 * 340_000
    assert any(f"{name}: 6 calls taken as waits" in str(line) for line in path_lines(PathText.of(path)))
    found = hg.replay(graph, hg.scale("kernel:K1", 0.5), hg.whole())
    assert found.predicted_ns == hg.critical_path(after, hg.whole()).length_ns
    assert reliability_after(found).reason is None


@pytest.mark.parametrize(
    "program",
    [freeing(2), freeing(6, own_ns=90_000), freeing(6, name="cudaStreamCreate"), freeing(6, 60_000, own_ns=12_000)],
    ids=["too few", "return long after", "wait for nothing by any manual", "might be the chance of a loop"],
)
def test_what_is_not_shown_to_wait_works(program: Program) -> None:
    assert taken(read(written(program))) == 0


def test_a_name_that_waits_has_nothing_to_wait_for_where_its_work_is_done() -> None:
    """What is done when a call begins may be what it waits for after a change."""
    late = Launch(S, 50_000, "late"), Gap(70_000), MayWait("cudaFree", 3_000), Gap(40_000)
    body = *freeing(6).threads[0].body, Op("aten::add", late)
    graph = read(written(Program.of(*body)))
    assert taken(graph) == 7
    longer = hg.replay(graph, hg.scale("kernel:late", 3), hg.whole())
    assert longer.predicted_ns - longer.measured_ns == pytest.approx(83_000, abs=5_000)


@pytest.mark.parametrize(("program", "reason"), [(freeing(1), "unusual"), (freeing(1, 20_000, own_ns=900_000), None)])
def test_what_rests_on_a_call_that_may_have_waited_is_doubted(program: Program, reason: str | None) -> None:
    graph = read(written(program))
    assert taken(graph) == 0
    assert reliability_after(hg.replay(graph, hg.scale("kernel:K1", 0.99), hg.whole())).reason is None
    assert reliability_after(hg.replay(graph, hg.scale("kernel:K1", 0.5), hg.whole())).reason == reason


def test_calls_of_a_name_that_return_while_work_is_outstanding_are_no_doubt() -> None:
    """Kernels of 340 µs: three calls of 100 µs return before their end, and one of 400 µs after it."""
    once = freeing(1).threads[0].body[0], MayWait("cudaMalloc", 100_000, waits=False), SyncDevice()
    last = freeing(1).threads[0].body[0], MayWait("cudaMalloc", 400_000, waits=False), SyncDevice()
    found = hg.replay(read(written(Program.of(*once * 3, *last))), hg.scale("kernel:K1", 0.5), hg.whole())
    assert reliability_after(found).reason is None


@pytest.mark.parametrize(("programs", "least"), [(6, 25), deep(300, 2_500)])
def test_precision_and_recall_of_calls_that_may_wait(programs: int, least: int) -> None:
    score: Counter[str] = Counter()
    for seed in range(programs):
        for waits in (True, False):
            record = written(random_freeing(seed, waits=waits))
            truth, found = (
                {edge for edge in edges if edge[0] == "device_sync"}
                for edges in (true_edges(record, hidden=False), graph_edges(read(record)))
            )
            score["right"] += len(truth & found)
            score["wrong"] += len(found - truth)
            score["missed"] += len(truth - found)
    assert score["wrong"] <= 0.01 * score["right"]
    assert score["right"] > max(least, 5 * score["missed"])


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("programs", [6, deep(150)])
def test_predictions_across_such_calls_are_right_or_doubted(programs: int, waits: bool) -> None:
    for seed in range(programs):
        graph, after = (read(written(random_freeing(seed, waits=waits, factor=factor))) for factor in (1.0, 0.5))
        found = hg.replay(graph, hg.scale("kernel:K1", 0.5), hg.whole())
        missed = abs(found.predicted_ns - hg.critical_path(after, hg.whole()).length_ns)
        assert missed <= 0.03 * found.measured_ns or reliability_after(found).reason == "unusual", seed
