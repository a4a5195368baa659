"""Programs changed statement by statement: what a what-if question is about, done to the program itself.

Whatever was drawn at random stands in the program, so what is not changed takes the same time once more.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain

from tests.simulator.program import (
    Annotation,
    Backward,
    Body,
    Copy,
    Frame,
    Gap,
    GraphLaunch,
    GraphNode,
    Lagging,
    Latencies,
    Launch,
    Op,
    Program,
    Set,
    Statement,
    SyncDevice,
    SyncEvent,
    SyncStream,
)
from tests.simulator.ranks.communication_statements import Injected, Meet

Around = tuple[Op | Annotation | Frame | Backward, ...]
"""What a statement lies in, the outermost first."""

Change = Callable[[Statement, Around], Body]
"""What stands in a program instead of a statement, whose own body is changed already."""

HAS_LAGS = (Op, Annotation, Frame, Launch, Copy, Set, GraphLaunch, SyncStream, SyncDevice, SyncEvent, Meet)
SPREAD = 0.3
HICCUP = 0.02
"""How often an effect takes several times as long as usual."""


def rewritten(program: Program, change: Change, graph_factor: float = 1.0) -> Program:
    """Return a program with its statements changed; kernels of its graphs take so many times as long."""
    graphs = program.graphs
    if graph_factor != 1.0:
        graphs = tuple(replace(one, nodes=_scaled_nodes(one.nodes, graph_factor)) for one in graphs)
    return replace(
        program, graphs=graphs, threads=tuple(replace(own, body=_body(own.body, change)) for own in program.threads)
    )


def _scaled_nodes(nodes: tuple[GraphNode, ...], factor: float) -> tuple[GraphNode, ...]:
    return tuple(replace(node, ns=round(node.ns * factor)) for node in nodes)


def _body(body: Body, change: Change, around: Around = ()) -> Body:
    return tuple(chain.from_iterable(_statement(statement, change, around) for statement in body))


def _statement(statement: Statement, change: Change, around: Around) -> Body:
    match statement:
        case Op() | Annotation() | Frame() | Backward():
            return change(replace(statement, body=_body(statement.body, change, (*around, statement))), around)
        case Lagging(statement=own):
            # The lags first: they may depend on what their statement was.
            lagging = [one for one in change(statement, around) if isinstance(one, Lagging)]
            inner = _statement(own, change, around)
            return tuple(replace(outer, statement=one) for outer in lagging for one in inner)
        case Injected(slowed=own):
            return tuple(_slowed(statement, one) for one in change(own, around))
        case _:
            return change(statement, around)


def _slowed(injected: Injected, own: Statement) -> Statement:
    if isinstance(own, Lagging):
        return replace(own, statement=_slowed(injected, own.statement))
    return replace(injected, slowed=own) if isinstance(own, Gap | Launch) else own


def statements(program: Program) -> Iterator[tuple[Statement, Around]]:
    """Yield every statement of a program and what it lies in."""
    found: list[tuple[Statement, Around]] = []

    def note(statement: Statement, around: Around) -> Body:
        found.append((statement, around))
        return (statement,)

    rewritten(program, note)
    yield from found


def with_lags(program: Program, seed: object) -> Program:
    """Let every effect take its own time after its cause, and every call its own, as on a real machine."""
    rng = random.Random(f"lags {seed}")

    def drawn(ns: int) -> int:
        slow = rng.uniform(2, 6) if rng.random() < HICCUP else 1.0
        return max(1, int(ns * slow * rng.lognormvariate(0, SPREAD)))

    def lag(statement: Statement, _: Around) -> Body:
        if not isinstance(statement, HAS_LAGS):
            return (statement,)
        if isinstance(statement, Op | Annotation | Frame):
            return (replace(statement, scope_ns=drawn(program.latencies.scope)),)
        statement = replace(statement, call_ns=drawn(statement.call_ns))
        own = {name: drawn(ns) for name, ns in vars(program.latencies).items()}
        return (Lagging(statement, Latencies(**own)),)

    return rewritten(program, lag)
