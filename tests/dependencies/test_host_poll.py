"""A host that spins until a kernel lets it go on, found by the silence that spinning leaves, and nothing else."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

import hta_graph as hg
from analyses.declare.scope import whole
from analyses.questions.idle_time import stream_idle_time
from hta_graph.dependencies.synchronization import host_poll
from tests.edge_accuracy import graph_edges, read, true_edges
from tests.simulator import Dialect, random_program, simulate, write
from tests.simulator.program import Backward, Gap, Launch, Op, Poll, Program, Statement, Stream, SyncDevice
from tests.simulator.programs import Family
from tests.support.deep_tests import deep
from tests.support.trace_builder import TraceBuilder

S = Stream(7)
SYNC_ROWS = ("none", "resolved")


def spinning(count: int, kernel_ns: int = 600_000, before_end_ns: int = 30_000) -> Program:
    """A loop that launches a long kernel, spins until it is nearly through, and works on while the GPU is idle."""
    work = Op("aten::bmm", (Gap(50_000), Launch(S, 4_000, "gemm")))
    once = (Launch(S, kernel_ns, "dispatch"), Poll(S, before_end_ns), work)
    return Program.of(*once * count)


def of_short_kernels(count: int, *, spins: bool, lone_ns: int = 0) -> Program:
    """The same with kernels of 70 to 190 µs, after which the host spins, or works for as long as others would take."""
    rng = random.Random("short kernels")
    body: list[Statement] = []
    for _ in range(count):
        launch = Launch(S, rng.randint(70_000, 190_000 if spins else 115_000), "dispatch")
        worked_ns = rng.randint(20_000, 60_000)
        body += [launch, Poll(S, rng.randint(0, 5_000)) if spins else Gap(worked_ns)]
        body += [Op("aten::bmm", (Launch(S, 4_000, "gemm"),)), SyncDevice()]
    if lone_ns:
        body += [Launch(S, lone_ns, "dispatch"), Gap(lone_ns - 20_000), Op("aten::bmm")]
    return Program.of(*body)


def of_two_threads(count: int, *spent: Statement) -> Program:
    """A loop in which one thread launches a long kernel and spins, and another one continues.

    thread 1   [dispatch: launch]~~~~~~~~~~spins~~~~~~~~~~                     [add: launch]
    thread 2                                              [Bmm: works, launch]
    stream               [dispatch===========================]                [gemm]
    """
    work = Op("autograd::engine::evaluate_function: BmmBackward0", (Gap(50_000), Launch(S, 4_000, "gemm")))
    once = (Op("dispatch", (Launch(S, 600_000, "dispatch"),)), *spent, Backward((work,)))
    return Program.of(*(*once, Op("aten::add", (Launch(S, 3_000, "add"),))) * count)


def graph_of(program: Program) -> hg.DependencyGraph:
    return read(write(simulate(program), Dialect()))


def polls_found(graph: hg.DependencyGraph) -> int:
    return graph.edge_counts().get("host_poll", {}).get("inferred", 0)


def test_the_time_of_a_spinning_host_is_the_kernels_and_not_pythons() -> None:
    graph = graph_of(spinning(8))
    path = hg.critical_path(graph, hg.whole())
    assert polls_found(graph) == 8
    assert path.by_bound_ns["gpu_compute_bound"] > 0.85 * path.length_ns
    assert path.by_bound_ns["cpu_gap"] < 0.01 * path.length_ns
    polled = path.segments[path.segments["edge"] == "host_poll"]
    assert set(polled["name"]) == {"dispatch"}
    assert set(polled["bound_by"]) == {"gpu_compute_bound"}
    assert set(polled["evidence"]) == {"inferred"}


def test_silences_that_are_as_long_as_short_kernels_take_are_spins() -> None:
    assert polls_found(graph_of(of_short_kernels(8, spins=True))) == 8


def test_a_spin_that_only_the_first_call_of_another_thread_shows_is_the_kernels_time() -> None:
    graph = graph_of(of_two_threads(3, Poll(S, 30_000)))
    path = hg.critical_path(graph, hg.whole())
    assert polls_found(graph) == 3
    assert path.by_bound_ns["gpu_compute_bound"] > 0.85 * path.length_ns
    assert path.by_bound_ns["unexplained"] == 0
    polled = path.segments[path.segments["edge"] == "host_poll"]
    assert set(polled["name"]) == {"dispatch"}


@pytest.mark.parametrize(("call", "found"), [("", 4), ("cudaFooBar", 0)])
def test_a_thread_that_returns_from_a_call_ends_no_spin(tmp_path: Path, call: str, found: int) -> None:
    """Thread 2 launches shortly before the kernel of thread 1 ends; it may have been in the driver until then."""
    trace = TraceBuilder()
    for number in range(4):
        at = 1_000.0 * number
        trace.launch("dispatch", (at, at + 5), (at + 10, at + 610), 10 * number + 1)
        if call:
            trace.call(call, at - 20, at + 560, 10 * number + 2, tid=2)
        trace.launch("gemm", (at + 570, at + 575), (at + 620, at + 630), 10 * number + 3, tid=2)
    trace.op("aten::add", 4_500, 4_510)
    assert polls_found(trace.graph(tmp_path)) == found


def test_python_after_a_spin_may_outlast_the_kernel_if_it_seldom_does() -> None:
    late = (Launch(S, 600_000, "dispatch"), Poll(S, 0), Gap(6_000), Op("aten::bmm", (Launch(S, 4_000, "gemm"),)))
    counts = [polls_found(graph_of(Program.of(*spinning(8).threads[0].body, *late * times))) for times in (1, 2, 4)]
    assert counts == [9, 10, 0]


def test_where_long_kernels_show_the_habit_short_ones_are_spun_for_too() -> None:
    short = (Launch(S, 120_000, "dispatch"), Poll(S, 30_000), Op("aten::bmm", (Launch(S, 4_000, "gemm"),)))
    program = spinning(4)
    body = (*program.threads[0].body, *short * 4)
    assert polls_found(graph_of(Program.of(*body))) == 8


def test_an_idle_stream_behind_a_spinning_host_waits_for_the_host() -> None:
    other = Stream(20)
    once = (Launch(S, 600_000, "dispatch"), Poll(S, 30_000), Launch(other, 20_000, "gemm"))
    idle = stream_idle_time([whole(0, graph_of(Program.of(*once * 8)))])
    late = idle[(idle["stream"] == "stream 0:1:20") & (idle["cause"] == "host_blocked")]
    assert late["idle_share"].iloc[0] > 0.9


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("program", "why"),
    [
        (spinning(2), "twice may be chance"),
        (spinning(8, kernel_ns=150_000), "of a short kernel the last 100 µs say nothing"),
        (of_short_kernels(7, spins=True), "seven may be chance"),
        (of_two_threads(2, Poll(S, 30_000)), "twice may be chance, whichever thread continues"),
        (of_two_threads(8, Gap(650_000)), "the other thread continues after the kernel's end"),
        (of_two_threads(8, Gap(300_000)), "the other thread continues long before the kernel ends"),
        (of_short_kernels(30, spins=False), "the host goes on after the same time, however long the kernel takes"),
        (of_short_kernels(30, spins=False, lone_ns=5_000_000), "one long silence proves nothing of the others"),
        (spinning(8, before_end_ns=200_000), "the host goes on long before the kernel ends"),
        (
            Program.of(*(Launch(S, 600_000, "dispatch"), Gap(650_000), Op("aten::add")) * 8),
            "the host goes on after the kernel's end",
        ),
        (
            Program.of(*(Launch(S, 600_000, "dispatch"), Gap(30_000), Op("aten::add"), Poll(S, 30_000), Op("x")) * 8),
            "the silence does not begin with the launch",
        ),
        (
            Program.of(
                *(Launch(S, 600_000, "dispatch"), Poll(S, 30_000), Op("aten::add")) * 4,
                *(Launch(S, 600_000, "dispatch"), Op("aten::add")) * 4,
            ),
            "half of its launches are not waited for",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_may_be_chance_is_no_edge(program: Program, why: str) -> None:
    assert polls_found(graph_of(program)) == 0, why


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("programs", "least"), [(8, 70), deep(40, 600)])
@pytest.mark.parametrize("sync_rows", SYNC_ROWS)
def test_precision_and_recall_on_programs_with_experts_on_other_ranks(
    sync_rows: str, programs: int, least: int
) -> None:
    score: Counter[str] = Counter()
    for seed in range(programs):
        written = write(simulate(random_program(seed, "experts", 600)), Dialect(sync_rows=sync_rows))  # type: ignore[arg-type]
        truth, edges = true_edges(written, hidden=False), graph_edges(read(written))
        true_polls, polls = ({edge for edge in each if edge[0] == "host_poll"} for each in (truth, edges))
        score["right"] += len(true_polls & polls)
        score["wrong"] += len(polls - true_polls)
        score["missed"] += len(true_polls - polls)
    assert score["wrong"] == 0
    assert score["right"] > least
    assert score["right"] / (score["right"] + score["missed"]) > 0.97


@pytest.mark.parametrize("programs", [5, deep(30)])
@pytest.mark.parametrize("family", ["pytorch", "arbitrary"])
@pytest.mark.slow
def test_no_other_program_spins(family: Family, programs: int) -> None:
    for seed in range(programs):
        assert polls_found(graph_of(random_program(seed, family, 400))) == 0


def test_without_the_rule_the_time_is_pythons() -> None:
    trace = graph_of(spinning(8)).trace
    graph = hg.build_graph(trace, [rule for rule in hg.DEFAULT_RULES if rule is not host_poll])
    path = hg.critical_path(graph, hg.whole())
    assert polls_found(graph) == 0
    assert path.by_bound_ns["cpu_gap"] > 0.5 * path.length_ns
