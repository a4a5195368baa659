"""Hypothesis strategies; what they draw shrinks to a few lines."""

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.simulator import pytorch_idioms
from tests.simulator.dialect import Dialect
from tests.simulator.program import (
    Annotation,
    Backward,
    Body,
    Call,
    Copy,
    Gap,
    Graph,
    GraphLaunch,
    GraphNode,
    Latencies,
    Launch,
    Op,
    Program,
    QueryEvent,
    Record,
    Set,
    Statement,
    Stream,
    SyncDevice,
    SyncEvent,
    SyncStream,
    ThreadProgram,
    Wait,
)
from tests.simulator.programs import Family

STREAMS = st.sampled_from((Stream(7), Stream(20), Stream(24), Stream(7, 1)))
EVENTS = st.integers(0, 2)
NS = st.sampled_from((10_000, 1, 400, 1_500, 3_000, 50_000, 300_000))
_CROSSED = EVENTS, STREAMS, STREAMS
GRAPH_COUNT = 2
TIGHT = Latencies(launch=1, stream=0, graph=0, wait=0, sync_return=0, queue_return=0, handoff=1, scope=1)


def programs(family: Family = "arbitrary", max_statements: int = 8) -> SearchStrategy[Program]:
    """Return programs of a family; `max_statements` bounds each list of statements."""
    return _pytorch(max_statements) if family == "pytorch" else _arbitrary(max_statements)


def dialects() -> SearchStrategy[Dialect]:
    """Return dialects that real files have, without clock errors, the plainest first."""
    return st.builds(
        Dialect,
        time=st.sampled_from(("us_float_base", "us_int", "epoch_us_3dec")),
        sync_rows=st.sampled_from(("resolved", "none", "unresolved", "virtual_tid")),
        record_rows=st.sampled_from((True, False)),
        external_ids=st.sampled_from(("op", "correlation", "old_lowercase")),
        vendor=st.sampled_from(("cuda", "rocm")),
        shuffle_seed=st.none() | st.integers(0, 9),
    ).map(_as_in_its_time)


def _as_in_its_time(dialect: Dialect) -> Dialect:
    """Take back what never came together: old ids with new times or sync rows, sync rows without their records."""
    if dialect.external_ids == "old_lowercase":
        return replace(dialect, time="us_int", sync_rows="none", vendor="cuda")
    if dialect.sync_rows == "virtual_tid":
        return replace(dialect, time="us_float_base", external_ids="op", record_rows=True)
    return dialect if dialect.record_rows else replace(dialect, sync_rows="none")


def _leaves() -> SearchStrategy[Statement]:
    return st.one_of(
        st.builds(Launch, STREAMS, NS),
        st.builds(Gap, NS),
        st.builds(Record, EVENTS, STREAMS),
        st.builds(Wait, STREAMS, EVENTS),
        st.builds(SyncStream, STREAMS),
        st.builds(SyncDevice, st.integers(0, 1)),
        st.builds(SyncEvent, EVENTS),
        st.builds(QueryEvent, EVENTS),
        st.builds(GraphLaunch, st.integers(0, GRAPH_COUNT - 1), STREAMS),
        st.builds(Launch, STREAMS, NS, overlap_ns=st.just(2_000)),
        st.builds(
            Copy,
            STREAMS,
            NS,
            st.sampled_from(("HtoD", "DtoH", "DtoD")),
            st.sampled_from(("pinned", "pageable")),
            st.booleans(),
        ),
        st.builds(Set, STREAMS, NS),
        st.builds(Call, st.just("cudaMalloc"), NS, st.booleans()),
    )


def _bodies(statements: SearchStrategy[Statement], size: int) -> SearchStrategy[Body]:
    return st.lists(statements, max_size=size).map(tuple)


def _nested(size: int) -> SearchStrategy[Statement]:
    def scopes(inner: SearchStrategy[Statement]) -> SearchStrategy[Statement]:
        sequences = st.none() | st.integers(0, 2)
        op = st.builds(Op, st.sampled_from(("aten::add", "aten::mm")), _bodies(inner, 4), sequences)
        return op | st.builds(Annotation, st.sampled_from(("range", "ProfilerStep#1")), _bodies(inner, 4))

    return st.recursive(_leaves(), scopes, max_leaves=size)


def _crossings() -> SearchStrategy[Body]:
    """Return what chance rarely writes: waits that hold something back, and records or syncs after them."""
    return st.one_of(
        st.builds(lambda event, one, two: (Launch(one, 10_000), Record(event, one), Wait(two, event)), *_CROSSED),
        st.builds(lambda event, one, two: (Record(event, one), Wait(two, event), Launch(two, 10_000)), *_CROSSED),
        st.builds(lambda event, one, two: (Wait(one, event), Record(event, one), Wait(two, event)), *_CROSSED),
        st.builds(lambda event, one, two: (Wait(one, event), SyncStream(one), Launch(two, 10_000)), *_CROSSED),
    )


def _handed_off(size: int) -> SearchStrategy[Statement]:
    name = st.just("autograd::engine::evaluate_function: AddBackward0")
    op = st.builds(Op, name, _bodies(_leaves(), size), st.none() | st.integers(0, 2))
    return st.builds(Backward, st.lists(op, min_size=1, max_size=2).map(tuple), st.booleans())


@st.composite
def _graphs(draw: st.DrawFn) -> Graph:
    count = draw(st.integers(1, 4))
    nodes = []
    for index in range(count):
        earlier = st.lists(st.integers(0, index - 1), max_size=2, unique=True) if index else st.just([])
        nodes.append(GraphNode(draw(NS), draw(st.integers(0, 2)), tuple(sorted(draw(earlier)))))
    return Graph(tuple(nodes))


def _arbitrary(size: int) -> SearchStrategy[Program]:
    single = st.one_of(_leaves(), _nested(4), _handed_off(3)).map(lambda statement: (statement,))
    body = st.lists(single | _crossings(), max_size=size).map(_flat)
    threads = st.builds(ThreadProgram, body, start_ns=st.sampled_from((0, 1_000, 25_000)))
    return st.builds(
        Program,
        st.lists(threads, min_size=1, max_size=3).map(tuple),
        st.tuples(_graphs(), _graphs()),
        st.sampled_from((1_024, 1, 2, 5)),
        st.sampled_from((Latencies(), TIGHT)),
    )


def _blocks() -> SearchStrategy[Body]:
    return st.one_of(
        NS.map(pytorch_idioms.item),
        NS.map(pytorch_idioms.load_data),
        st.builds(pytorch_idioms.prefetch, st.just(0), NS),
        st.builds(pytorch_idioms.side_stream, st.sampled_from((1, 3)), NS),
        NS.map(pytorch_idioms.to_device),
        st.builds(pytorch_idioms.optimizer, st.integers(1, 2), NS),
        NS.map(pytorch_idioms.clear),
        NS.map(pytorch_idioms.allocate),
        st.just(pytorch_idioms.time_kernels(5)),
        st.just(pytorch_idioms.replay()),
        st.just(pytorch_idioms.finish()),
    )


@st.composite
def _steps(draw: st.DrawFn, number: int, size: int) -> Annotation:
    layers = draw(st.integers(0, 3))
    sequences = range(10 * number, 10 * number + layers)
    body = _flat(draw(st.lists(_blocks(), max_size=size)))
    body += _flat(
        [pytorch_idioms.forward(sequence, draw(NS), draw(st.sampled_from((0, 1_500)))) for sequence in sequences]
    )
    if layers:
        ops: Body = tuple(pytorch_idioms.backward(sequence, draw(NS)) for sequence in reversed(sequences))
        reduction = (pytorch_idioms.all_reduce(10, draw(NS)),) if draw(st.booleans()) else ()
        joins = (Wait(pytorch_idioms.COMPUTE, 11),) if reduction else ()
        body += (Backward(ops + reduction, draw(st.booleans())), *joins)
    return pytorch_idioms.step(number, body + _flat(draw(st.lists(_blocks(), max_size=size))))


def _flat(bodies: Iterable[Body]) -> Body:
    return tuple(statement for body in bodies for statement in body)


@st.composite
def _pytorch(draw: st.DrawFn, size: int) -> Program:
    steps = tuple(draw(_steps(number, size // 4)) for number in range(draw(st.integers(1, 3))))
    threads = [ThreadProgram(steps)]
    if draw(st.booleans()):
        threads.append(pytorch_idioms.watchdog(11, draw(st.integers(1, 4)), 100_000))
    if draw(st.booleans()):
        threads.append(pytorch_idioms.pin_memory(draw(st.integers(1, 4)), draw(NS)))
    graph = draw(st.builds(pytorch_idioms.branched_graph, NS, st.integers(1, 3), st.booleans()))
    return Program(tuple(threads), (graph,), draw(st.sampled_from((1_024, 2))))
