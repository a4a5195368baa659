"""A host that queries in a loop until the GPU is done waits for it; one that asks and learns nothing does not."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

import hta_graph as hg
from analyses.questions.sync_deps import sync_lines
from hta_graph.export.sync_dependencies import SyncDependencies
from tests.edge_accuracy import graph_edges, read, true_edges
from tests.simulator import Dialect, simulate, write
from tests.simulator.program import (
    Gap,
    Launch,
    Op,
    Program,
    QueryEvent,
    Record,
    Statement,
    Stream,
    SyncDevice,
    ThreadProgram,
)
from tests.simulator.waiting_calls import QueryUntil
from tests.support.deep_tests import deep

S, SIDE = Stream(7), Stream(20)


def polling(count: int = 4, ns: int = 500_000, gap_ns: int = 6_000, name: str = "cudaEventQuery") -> Program:
    """Products for each of which the host asks in a loop, and then works for 100 µs."""
    once = Op("aten::mm", (Launch(S, ns, "gemm"),)), Record(0, S), QueryUntil(0, gap_ns, name)
    return Program.of(*(*once, Op("aten::cpu", (Gap(100_000),))) * count)


def graph_of(program: Program, sync_rows: Any = "none") -> hg.DependencyGraph:
    return read(write(simulate(program), Dialect(sync_rows=sync_rows)))


def polled(graph: hg.DependencyGraph) -> int:
    return int((graph.edges.rule == "polled_until_work_end").sum())


NAMES = ("cudaEventQuery", "hipEventQuery", "cuEventQuery", "cudaStreamQuery", "cuStreamQuery", "hipStreamQuery")


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("gap_ns", [500, 6_000, 40_000])
def test_the_time_of_a_polling_host_is_the_kernels(name: str, gap_ns: int) -> None:
    graph = graph_of(polling(name=name, gap_ns=gap_ns))
    path = hg.critical_path(graph, hg.whole())
    assert polled(graph) == 4
    assert path.by_bound_ns["gpu_compute_bound"] == 4 * 500_000
    assert path.by_bound_ns["unexplained"] == 0
    assert path.by_bound_ns["cpu_bound"] > 4 * 100_000
    assert path.by_bound_ns["sync_overhead"] <= 4 * (gap_ns + 4_000)


def test_a_faster_kernel_ends_the_loop_sooner() -> None:
    graph = graph_of(polling())
    faster, free = (hg.replay(graph, hg.scale(what, 0.5), hg.whole()) for what in ("kernel:gemm", "cudaEventQuery"))
    assert faster.saved_ns == pytest.approx(4 * 250_000, rel=0.02)
    assert free.saved_ns < 4 * 10_000


def test_the_whole_loop_is_the_wait() -> None:
    graph = graph_of(polling())
    frame = hg.sync_dependencies(graph)
    assert frame.waited_ns.min() > 450_000
    assert "cudaEventQuery" in sync_lines(SyncDependencies(graph))[0]


WORKS = Op("aten::mm", (Launch(S, 500_000, "gemm"),)), Record(0, S)


@pytest.mark.parametrize(
    ("why", "program"),
    [
        ("a watchdog feeds nothing", Program((
            ThreadProgram((*WORKS, SyncDevice())),
            ThreadProgram((Gap(100_000), QueryUntil(0), Gap(9_000), *(QueryEvent(0),) * 9), "watchdog"),
        ))),
        ("few queries may end so by chance", Program.of(*WORKS, QueryUntil(0, 100_000), Op("aten::cpu"))),
        ("it gives up before the end", Program.of(*(*WORKS, QueryUntil(0, most=20), Op("aten::cpu")) * 4)),
        ("it asks far beyond the end", Program.of(*WORKS, *(Gap(8_000), QueryEvent(0)) * 90, Op("aten::cpu"))),
        ("it works between its queries", Program.of(
            *WORKS, *(QueryUntil(0, most=1), Op("aten::cpu", (Gap(8_000),))) * 60, SyncDevice()
        )),
    ],
)  # fmt: skip
def test_these_do_not_wait(why: str, program: Program) -> None:
    assert polled(graph_of(program)) == 0, why


def random_polling(seed: int) -> Program:
    """Loops that wait, among bursts of queries by an allocator and loops that end whatever the GPU does."""
    rng, body = random.Random(seed), list[Statement]()
    for at in range(30):
        event = at % 3
        launches = tuple(
            Launch(rng.choice((S, SIDE)), rng.randint(5_000, 90_000), f"k{rng.randint(0, 3)}")
            for _ in range(rng.randint(1, 8))
        )
        body += [Op("aten::mm", launches), Record(event, rng.choice((S, SIDE)))]
        if rng.random() < 0.3:
            body.append(Op("aten::add", (Launch(S, rng.randint(5_000, 90_000), "ahead"),)))
        body += [QueryEvent(rng.randint(0, event))] * rng.randint(0, 6)
        body.append(Op("aten::empty"))
        if rng.random() < 0.4:
            body += [QueryUntil(event, rng.choice((500, 3_000, 10_000)))]
        elif seed % 2 and rng.random() < 0.2:
            body += [QueryUntil(event, 5_000, most=rng.randint(3, 30))]
        body.append(Op("aten::cpu", (Gap(rng.randint(1_000, 60_000)),)))
    return Program.of(*body, SyncDevice())


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("programs", "least"), [(10, 60), deep(100, 600)])
@pytest.mark.parametrize("sync_rows", ["none", "resolved"])
def test_precision_and_recall_among_queries_that_wait_for_nothing(sync_rows: str, programs: int, least: int) -> None:
    score: Counter[str] = Counter()
    for seed in range(programs):
        written = write(simulate(random_polling(seed)), Dialect(sync_rows=sync_rows))  # type: ignore[arg-type]
        graph = read(written)
        truth = {edge for edge in true_edges(written, hidden=False) if edge[0] == "event_sync"}
        found = {edge for edge in graph_edges(graph) if edge[0] == "event_sync"}
        score["right"] += len(truth & found)
        score["wrong"] += len(found - truth)
        score["missed"] += len(truth - found)
    assert score["wrong"] <= 0.02 * score["right"]
    assert score["right"] > least
