"""Paths, edges and predictions of programs in shapes that no other test has: ``python -m tests.new_shapes_accuracy``.

Each shape is simulated with jitter and recorded twice: with all that recorders write (the profiler's synchronization
rows, arrows between the nodes of CUDA graphs), and without. Scored are, by what truly happened:

right      the share of the window in which the path runs over the work, or on the thread, of the true path
false      edges that the execution does not imply
what-if    every kernel name at twice its speed beside the program run again so: the largest error of the predictions
           that are not doubted, in percentage points of the window; and how many of all are doubted
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import hta_graph as hg
from hta_graph.what_if.reliability import reliability_after
from tests.edge_accuracy import read, scores_of
from tests.simulator import Dialect, Program, Run, Stream, ThreadProgram, simulate, write
from tests.simulator.changes import on_gpu
from tests.simulator.dialect import EPOCH_NS
from tests.simulator.program import (
    Body,
    Copy,
    Gap,
    Graph,
    GraphLaunch,
    GraphNode,
    Launch,
    Op,
    Record,
    Set,
    Statement,
    SyncDevice,
    SyncEvent,
    SyncStream,
    Wait,
)
from tests.simulator.ranks.true_path import path_of_run
from tests.simulator.rewriting import Around, rewritten, statements, with_lags
from tests.simulator.waiting_calls import MayWait, QueryUntil
from tests.simulator.window_lengths import whole_span
from tests.simulator.writer import Written

RIGHT, CLOSE = 0.995, 0.5
"""What a program has to reach: more than this share right, predictions within so many points or doubted."""

SPREAD = 0.1
"""Times vary by up to this share."""

ROUNDS = 10
RECORDERS: Mapping[str, Dialect] = {"all": Dialect(node_arrows=True), "none": Dialect(sync_rows="none")}
S, A, B, C = Stream(7), Stream(20), Stream(24), Stream(28)


class Draw:
    """Statements of a shape, with times that vary."""

    def __init__(self, seed: str) -> None:
        self.rng = random.Random(seed)

    def ns(self, us: float) -> int:
        """Return about as many µs."""
        return round(1_000 * us * self.rng.uniform(1 - SPREAD, 1 + SPREAD))

    def kernel(self, stream: Stream, us: float, name: str) -> Op:
        """Launch a kernel from an operator."""
        return Op("aten::mm", (Launch(stream, self.ns(us), name),))

    def graph(self, number: int, stream: Stream) -> GraphLaunch:
        """Launch a graph."""
        return GraphLaunch(number, stream, spread=SPREAD, seed=self.rng.getrandbits(30))

    def host(self, us: float) -> Op:
        """Work on the host."""
        return Op("aten::cpu", (Gap(self.ns(us)),))


def after(event: int, source: Stream, target: Stream) -> Body:
    """Let a stream wait for another one."""
    return Record(event, source), Wait(target, event)


def rounds(body: Callable[[int], tuple[Statement, ...]], count: int = ROUNDS) -> Body:
    """Repeat a body, each time with the number of the round."""
    return tuple(statement for number in range(count) for statement in body(number))


def node(us: float, name: str, branch: int = 0, *waits: int) -> GraphNode:
    """Return a kernel of a graph."""
    return GraphNode(round(1_000 * us), branch, waits, name)


# -- CUDA graphs ------------------------------------------------------------------------------------------------------


def fork_of_a_fork(d: Draw) -> Program:
    """A branch forks from a branch and joins it before that joins the first one."""
    graph = Graph((
        node(40, "root"), node(280, "left"), node(60, "outer", 1, 0), node(150, "inner", 2, 2),
        node(90, "beside", 1), node(70, "inner_join", 1, 3), node(50, "outer_join", 0, 5),
    ))  # fmt: skip
    once = lambda _: (d.host(20), d.graph(0, S), d.kernel(S, 30, "eager"), SyncStream(S))  # noqa: E731
    return Program.of(*rounds(once), graphs=(graph,))


def joins_in_another_order(d: Draw) -> Program:
    """Three branches fork in one order and join in another one."""
    graph = Graph((
        node(30, "root"), node(100, "one", 1, 0), node(140, "two", 2, 0), node(180, "three", 3, 0),
        node(40, "join_two", 0, 2), node(60, "join_three", 1, 3), node(90, "last_of_three", 3),
        node(30, "join_one", 0, 5), node(20, "join_all", 0, 6),
    ))  # fmt: skip
    return Program.of(*rounds(lambda _: (d.host(15), d.graph(0, S))), SyncDevice(), graphs=(graph,))


def graphs_on_two_streams(d: Draw) -> Program:
    """Two graphs with branches alternate between streams, joined by events."""
    first = Graph((node(40, "a0"), node(120, "a1"), node(130, "a2", 1, 0), node(30, "a3", 0, 2)))
    second = Graph((node(50, "b0"), node(90, "b1"), node(100, "b2", 1, 0), node(40, "b3", 0, 2)))

    def once(number: int) -> Body:
        fork, join = after(2 * number, S, A), after(2 * number + 1, A, S)
        return (d.graph(0, S), *fork, d.graph(1, A), d.kernel(S, 170, "beside"), *join, d.kernel(S, 30, "joined"))

    return Program.of(*rounds(once), SyncDevice(), graphs=(first, second))


def root_waits_for_an_event(d: Draw) -> Program:
    """A graph with two roots waits for a copy of another stream, which waits for the graph before the last."""
    graph = Graph((node(150, "left"), node(160, "right", 1), node(40, "join", 0, 1)))

    def once(number: int) -> Body:
        free = (Wait(A, 2 * number - 1),) if number else ()
        copied = after(2 * number, A, S)
        return (*free, Copy(A, d.ns(170)), *copied, d.graph(0, S), Record(2 * number + 1, S), d.host(30))

    return Program.of(*rounds(once), SyncDevice(), graphs=(graph,))


def graph_of_a_second_thread(d: Draw) -> Program:
    """One thread launches kernels, another one a graph behind each of them, on another stream."""
    graph = Graph((node(60, "root"), node(150, "left"), node(160, "right", 1, 0), node(30, "join", 0, 2)))
    main = rounds(lambda number: (d.kernel(S, 250, "eager"), Record(number, S)))
    other = rounds(lambda number: (Op("replay", (Wait(A, number), d.graph(0, A))),))
    threads = ThreadProgram((*main, SyncStream(S))), ThreadProgram((d.host(400), *other, SyncStream(A)), "other")
    return Program(threads, (graph,))


def graph_with_copies_and_a_host_node(d: Draw) -> Program:
    """A graph clears memory, copies beside a kernel, calls the host, and computes."""
    nodes = (
        GraphNode(10_000, name="Memset (Device)", kind="memset"),
        node(140, "left"),
        GraphNode(150_000, 1, (0,), "Memcpy HtoD (Pinned -> Device)", kind="memcpy"),
        GraphNode(80_000, 0, (2,), "HostNode: sample", kind="graph_host_node"),
        node(100, "right"),
    )
    once = lambda _: (d.host(20), d.graph(0, S), SyncStream(S))  # noqa: E731
    return Program.of(*rounds(once), graphs=(Graph(nodes),))


def free_between_graphs(d: Draw) -> Program:
    """Memory is freed, which waits for a graph and for a side stream, before the graph is launched again."""
    graph = Graph((node(60, "root"), node(150, "left"), node(160, "right", 1, 0), node(30, "join", 0, 2)))

    def once(_: int) -> Body:
        return (d.kernel(A, 250, "beside"), d.graph(0, S), MayWait("cudaFree", d.ns(4)), d.host(40))

    return Program.of(*rounds(once), graphs=(graph,))


def graph_beside_eager_work(d: Draw) -> Program:
    """A graph runs beside kernels of another stream; both are joined."""
    graph = Graph((node(50, "root"), node(120, "left"), node(130, "right", 1, 0), node(30, "join", 0, 2)))

    def once(number: int) -> Body:
        fork, join = after(2 * number, S, A), after(2 * number + 1, A, S)
        eager = (d.kernel(S, 110, "eager"), d.kernel(S, 110, "eager"))
        return (d.kernel(S, 60, "before"), *fork, d.graph(0, A), *eager, *join, d.kernel(S, 50, "joined"))

    return Program.of(*rounds(once), SyncDevice(), graphs=(graph,))


# -- hosts that wait --------------------------------------------------------------------------------------------------


def event_of_another_thread(d: Draw) -> Program:
    """A thread waits for events which another one recorded, and works after each."""
    main = rounds(lambda number: (d.kernel(S, 200, "long"), Record(number, S), d.kernel(S, 100, "next")))
    waiter = rounds(lambda number: (SyncEvent(number), d.host(80)))
    threads = ThreadProgram((*main, SyncDevice(), d.host(100))), ThreadProgram((d.host(350), *waiter), "waiter")
    return Program(threads)


def polled_event(d: Draw) -> Program:
    """A host asks in a loop until an event of a side stream has happened."""

    def once(number: int) -> Body:
        ask = Record(2 * number + 1, A), QueryUntil(2 * number + 1, 3_000)
        return (d.kernel(S, 90, "main"), *after(2 * number, S, A), d.kernel(A, 260, "side"), *ask, d.host(60))

    return Program.of(*rounds(once))


def polled_stream(d: Draw) -> Program:
    """A host asks in a loop until a stream is done, while another stream works."""

    def once(number: int) -> Body:
        beside = d.kernel(A, 120, "beside")
        ask = Record(number, S), QueryUntil(number, 3_000, "cudaStreamQuery")
        return (beside, d.kernel(S, 300, "main"), *ask, d.host(60))

    return Program.of(*rounds(once), SyncDevice())


def pageable_read_back(d: Draw) -> Program:
    """Results are copied into pageable memory on a stream of their own; the host works on each."""

    def once(number: int) -> Body:
        copied = Op("aten::copy_", (Copy(A, d.ns(60), "DtoH", "pageable"),))
        later = d.kernel(S, 90, "later")
        return (d.kernel(S, 200, "first"), *after(number, S, A), later, copied, d.host(70))

    return Program.of(*rounds(once), SyncDevice())


# -- streams that wait for each other ---------------------------------------------------------------------------------


def events_over_four_streams(d: Draw) -> Program:
    """Work goes round over four streams, each of which works beside it."""
    ring = (S, A, B, C)

    def once(number: int) -> Body:
        body: list[Statement] = []
        for place, (own, following) in enumerate(zip(ring, (*ring[1:], S), strict=True)):
            body += [d.kernel(own, 70 + 10 * place, f"link{place}"), *after(4 * number + place, own, following)]
            body += [d.kernel(own, 150, "beside")] * (place == number % 4)
        return tuple(body)

    return Program.of(*rounds(once), SyncDevice())


def ping_pong(d: Draw) -> Program:
    """Two streams work in turn, and each has work of its own meanwhile."""

    def once(number: int) -> Body:
        there, back = after(2 * number, S, A), after(2 * number + 1, A, S)
        own = d.kernel(S, 85, "own")
        return (d.kernel(S, 100, "ping"), *there, own, d.kernel(A, 90, "pong"), *back)

    return Program.of(*rounds(once), d.kernel(S, 20, "last"), SyncStream(S))


def priority_streams(d: Draw) -> Program:
    """A stream of high priority sends what a kernel made while the next one runs; the update waits for all."""
    high = Stream(35)

    def once(number: int) -> Body:
        body: list[Statement] = []
        for part in range(3):
            body += [d.kernel(S, 100, "gemm"), *after(4 * number + part, S, high), d.kernel(high, 110, "send")]
        return (*body, *after(4 * number + 3, high, S), d.kernel(S, 60, "update"))

    return Program.of(*rounds(once), SyncDevice())


def join_of_joins(d: Draw) -> Program:
    """Two pairs of streams join, and what they join in joins again."""
    return Program.of(*rounds(lambda number: _joins(d, number)), SyncDevice())


def _joins(d: Draw, number: int, *, is_own_first: bool = False, is_joined_at_once: bool = False) -> Body:
    """Fork three streams, join them pair by pair, and join the pairs."""
    event = 8 * number
    forks = [Record(event, S), *(Wait(stream, event) for stream in (A, B, C))]
    works = [d.kernel(stream, us, f"on_{us}") for stream, us in ((A, 160), (B, 155), (C, 165), (S, 150))]
    if is_own_first:
        works = [works[3], *works[:3]]
    joins = [*after(event + 1, A, S)], [*after(event + 2, C, B)]
    joined = [d.kernel(S, 50, "left_join"), d.kernel(B, 55, "right_join")]
    pairs = [*joins[0], joined[0], *joins[1], joined[1]]
    if is_joined_at_once:
        pairs = [*joins[0], *joins[1], *joined]
    return (*forks, *works, *pairs, *after(event + 3, B, S), d.kernel(S, 40, "join"))


def double_buffered_prefetch(d: Draw) -> Program:
    """A copy waits until the step before the last is through with its buffer; a step waits for its copy."""

    def once(number: int) -> Body:
        free = (Wait(A, 100 + number - 2),) if number > 1 else ()
        copied = Op("aten::copy_", (Copy(A, d.ns(190)),))
        return (*free, copied, *after(number, A, S), d.kernel(S, 120, "forward"), d.kernel(S, 75, "backward"),
                Record(100 + number, S), d.host(20))  # fmt: skip

    return Program.of(*rounds(once), SyncDevice())


def three_buffers(d: Draw) -> Program:
    """Copies in, kernels and copies out on three streams, with three buffers; the host waits for each third round."""

    def once(number: int) -> Body:
        free = (Wait(A, 200 + number - 3),) if number > 2 else ()
        copied = (Copy(A, d.ns(140)), *after(number, A, S))
        out = (*after(100 + number, S, B), Copy(B, d.ns(145), "DtoH"), Record(200 + number, B))
        wait = (SyncEvent(200 + number), d.host(50)) if number % 3 == 2 else ()
        return (*free, *copied, Set(S, d.ns(5)), d.kernel(S, 135, "transform"), *out, *wait)

    return Program.of(*rounds(once), SyncDevice())


def legacy_default_stream(d: Draw) -> Program:
    """Two streams and the legacy default stream, which waits for both, and they for it; no row says so."""

    def once(_: int) -> Body:
        return (d.kernel(A, 150, "one"), d.kernel(B, 160, "two"), d.kernel(S, 80, "default"))

    return replace(Program.of(*rounds(once), SyncDevice()), has_legacy_default=True)


def two_threads_into_one_stream(d: Draw) -> Program:
    """Two threads launch into one stream, one of them after work on a stream of its own."""

    def other(number: int) -> Body:
        return (d.kernel(A, 130, "own"), *after(number, A, S), d.kernel(S, 70, "joined"), Gap(d.ns(40)))

    main = rounds(lambda _: (d.kernel(S, 100, "main"), d.host(60)))
    return Program(
        (ThreadProgram((*main, SyncStream(S))), ThreadProgram((*rounds(other), SyncStream(S)), "two", 7_000))
    )


def fork_that_goes_on_first(d: Draw) -> Program:
    """Three streams wait for one, which is the first to get work: no launch says which stream a wait is of."""
    return Program.of(*rounds(lambda number: _joins(d, number, is_own_first=True)), SyncDevice())


def two_joins_at_once(d: Draw) -> Program:
    """Two streams wait, each for another one, before anything is launched on them."""
    return Program.of(*rounds(lambda number: _joins(d, number, is_joined_at_once=True)), SyncDevice())


Shape = Callable[[Draw], Program]
LIMITS: Mapping[str, Shape] = {
    own.__name__.replace("_", " "): own for own in (fork_that_goes_on_first, two_joins_at_once)
}
"""Shapes that are not understood without records, besides ``legacy_default_stream``."""

SHAPES: Mapping[str, Shape] = {
    own.__name__.replace("_", " "): own
    for own in (
        fork_of_a_fork, joins_in_another_order, graphs_on_two_streams, root_waits_for_an_event,
        graph_of_a_second_thread, graph_with_copies_and_a_host_node, free_between_graphs, graph_beside_eager_work,
        event_of_another_thread, polled_event, polled_stream, pageable_read_back, events_over_four_streams, ping_pong,
        priority_streams, join_of_joins, double_buffered_prefetch, three_buffers, legacy_default_stream,
        two_threads_into_one_stream,
    )
}  # fmt: skip


# -- scores -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Forecast:
    """A kernel name at twice its speed: the prediction's error in points of the window, and whether it is doubted."""

    name: str
    error: float
    is_doubted: bool


@dataclass(frozen=True)
class Scored:
    """What a program reached."""

    right: float
    false: int
    mistakes: tuple[str, ...]
    forecasts: tuple[Forecast, ...]

    @property
    def error(self) -> float:
        """The largest error that no doubt announces, in points of the window."""
        return max((one.error for one in self.forecasts if not one.is_doubted), default=0.0)

    @property
    def doubted(self) -> int:
        """How many predictions are doubted."""
        return sum(one.is_doubted for one in self.forecasts)

    @property
    def passes(self) -> tuple[bool, bool, bool]:
        """Whether path, edges and predictions are as they should be."""
        return self.right > RIGHT, not self.false, self.error <= CLOSE


def program_of(shape: str, seed: int) -> Program:
    """Return a program of a shape in which every effect takes a time of its own."""
    return with_lags({**SHAPES, **LIMITS}[shape](Draw(f"{shape} {seed}")), f"{shape} {seed}")


def scored(shape: str, seed: int, records: str) -> Scored:
    """Simulate a program, read what is recorded of it, and compare."""
    program = program_of(shape, seed)
    run = simulate(program)
    written = write(run, RECORDERS[records])
    graph = read(written)
    scores = scores_of(graph, written).values()
    mistakes = (line for score in scores for line in score.examples if line.startswith("wrong"))
    return Scored(
        right_share(run, written, graph),
        sum(score.wrong for score in scores),
        tuple(mistakes),
        tuple(forecasts(program, run, graph)),
    )


Work = tuple[str, int | str]
"""What a path runs over at a time: an activity, a thread, or the latency between such."""


def right_share(run: Run, written: Written, graph: hg.DependencyGraph) -> float:
    """Return in which share of the window the path is where the true one is; what is unexplained is not."""
    uid_at = {at: uid for uid, at in written.index_of.items()}
    columns = hg.critical_path(graph, hg.whole()).segment_columns()
    names = ("start_ns", "end_ns", "edge", "bound_by", "event_index", "lane")
    ours = [
        (start - EPOCH_NS, end - EPOCH_NS, _work(edge, uid_at.get(index, -1), lane))
        for start, end, edge, bound, index, lane in zip(*(columns[name] for name in names), strict=True)
        if bound != "unexplained" and edge is not None
    ]
    truth = [(one.start_ns, one.end_ns, _work(one.binds, one.uid, one.lane)) for one in path_of_run(run)]
    start, end = whole_span(run)
    return _common(ours, truth) / (end - start)


def _work(edge: str, uid: int | None, lane: str) -> Work:
    if edge == "execution":
        return edge, -1 if uid is None else uid
    return ("thread", lane) if edge == "thread_order" else ("latency", 0)


def _common(ours: list[tuple[int, int, Work]], truth: list[tuple[int, int, Work]]) -> int:
    """Return for how long (ns) two lists of times that follow each other say the same."""
    total, at = 0, 0
    for start, end, work in ours:
        while at and truth[at - 1][1] > start:
            at -= 1
        while at < len(truth) and truth[at][0] < end:
            low, high, other = truth[at]
            total += max(min(end, high) - max(start, low), 0) * (other == work)
            at += 1
    return total


def forecasts(program: Program, run: Run, graph: hg.DependencyGraph) -> Iterator[Forecast]:
    """Predict each kernel name at twice its speed, and run the program again so."""
    start, end = whole_span(run)
    launched = {
        own.name
        for own, _ in statements(program)
        for own in [getattr(own, "statement", own)]
        if isinstance(own, Launch)
    }
    nodes = {one.name for graph_ in program.graphs for one in graph_.nodes if one.kind == "kernel"}
    for name in sorted(launched | nodes):
        replayed = hg.replay(graph, hg.scale(f"kernel:{name}", 0.5), hg.whole())
        true_ns = whole_span(simulate(with_half(program, name)))[1] - start
        error = 100 * abs(replayed.predicted_ns - true_ns) / (end - start)
        yield Forecast(name, error, reliability_after(replayed).reason is not None)


def with_half(program: Program, name: str) -> Program:
    """Return a program in which all kernels of a name take half their time."""

    def change(own: Statement, _: Around) -> Body:
        return (on_gpu(own, 0.5),) if isinstance(own, Launch) and own.name == name else (own,)

    graphs = [
        replace(one, nodes=tuple(replace(own, ns=own.ns // 2) if own.name == name else own for own in one.nodes))
        for one in program.graphs
    ]
    return replace(rewritten(program, change), graphs=tuple(graphs))


def table(seeds: int, shapes: list[str], *, details: bool = False) -> Iterator[str]:
    """Yield a row per shape and recording, and how many programs reach what they should."""
    yield f"{'shape':<34}{'records':>8}{'right':>9}{'false':>7}{'what-if':>10}{'doubted':>10}"
    every: list[Scored] = []
    for shape in shapes:
        for records in RECORDERS:
            found = [scored(shape, seed, records) for seed in range(seeds)]
            every += found
            right, error = min(one.right for one in found), max(one.error for one in found)
            false = sum(one.false for one in found)
            doubted = f"{sum(one.doubted for one in found)} of {sum(len(one.forecasts) for one in found)}"
            yield f"{shape:<34}{records:>8}{right:>9.2%}{false:>7}{error:>10.2f}{doubted:>10}"
            if details:
                yield from (f"    {line}" for one in found for line in one.mistakes)
                yield from (
                    f"    {own.name}: {own.error:.2f}{' doubted' * own.is_doubted}"
                    for one in found
                    for own in one.forecasts
                    if own.error > CLOSE
                )
    reached = [sum(column) for column in zip(*(one.passes for one in every), strict=True)]
    yield f"of {len(every)} programs: right {reached[0]}, no false edge {reached[1]}, what-if {reached[2]}"


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=1, help="programs per shape and recording")
    options.add_argument("--only", choices=SHAPES, action="append")
    options.add_argument("--limits", action="store_true", help="shapes that are not understood without records")
    options.add_argument("--details", action="store_true", help="list false edges and wrong predictions")
    given = options.parse_args()
    for line in table(given.seeds, given.only or list(LIMITS if given.limits else SHAPES), details=given.details):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
