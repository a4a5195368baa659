"""Random programs from a seed, of any size, in linear time."""

import random
from collections.abc import Callable
from itertools import chain
from typing import Literal

from tests.simulator import pytorch_idioms
from tests.simulator.program import (
    Annotation,
    Backward,
    Body,
    Call,
    Copy,
    Direction,
    Gap,
    Graph,
    GraphLaunch,
    GraphNode,
    HostMemory,
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

Family = Literal["pytorch", "arbitrary", "experts"]
DIRECTIONS: tuple[Direction, ...] = ("HtoD", "DtoH", "DtoD")
HOST_MEMORY: tuple[HostMemory, ...] = ("pinned", "pageable")
STREAMS = (Stream(7), Stream(20), Stream(24), Stream(7, 1), Stream(20, 1))
DISTINCT_STREAMS = (Stream(7), Stream(20), Stream(24), Stream(8, 1), Stream(21, 1))
EVENTS_PER_LAYER = 11


def random_program(seed: int, family: Family = "pytorch", size: int = 1_000, *, plain: bool = False) -> Program:
    """Return a program of about `size` events; equal arguments give equal programs.

    A `plain` arbitrary program holds only what a trace with synchronisation records tells in full: no graph launches
    (their stream is not recorded), no stream number on two devices (a record names the number alone), no dropped rows.
    """
    rng = random.Random(f"{family} {seed}")
    if family == "experts":
        return _experts(rng, size)
    return _pytorch(rng, size) if family == "pytorch" else _arbitrary(rng, size, plain)


def _pytorch(rng: random.Random, size: int) -> Program:
    layers = rng.randint(2, 12)
    steps = max(1, size // (EVENTS_PER_LAYER * layers + 32))
    distributed = rng.random() < 0.6
    habits = _Habits(rng, layers, distributed)
    body = tuple(chain.from_iterable((habits.step(number), Gap(rng.randrange(20_000))) for number in range(steps)))
    threads = [ThreadProgram(body + rng.choice((pytorch_idioms.finish(), ())))]
    if distributed:
        threads.append(pytorch_idioms.watchdog(habits.first_event + 1, 2 * steps + 3, 100_000))
    if rng.random() < 0.3:
        threads.append(pytorch_idioms.pin_memory(2 * steps, rng.randint(5_000, 60_000)))
    depth = rng.choice((1_024, 1_024, 16))
    graph = pytorch_idioms.branched_graph(rng.randint(2_000, 20_000), rng.randint(1, 3), rng.random() < 0.5)
    return Program(tuple(threads), (graph,), depth)


class _Habits:
    """What one training script does in each of its steps."""

    def __init__(self, rng: random.Random, layers: int, distributed: bool) -> None:
        self.rng = rng
        self.layers = layers
        self.distributed = distributed
        self.kernel_ns = rng.choice((2_000, 12_000, 60_000))
        self.flows = rng.random() < 0.5
        self.first_event = 10
        self.sequence = rng.randrange(1_000)
        extras = {
            "item": lambda: pytorch_idioms.item(2_000),
            "prefetch": lambda: pytorch_idioms.prefetch(1, self._ns()),
            "side": lambda: pytorch_idioms.side_stream(2, self._ns()),
            "staged": lambda: pytorch_idioms.to_device(self._ns()),
            "graph": pytorch_idioms.replay,
            "timing": lambda: pytorch_idioms.time_kernels(4),
            "allocate": lambda: pytorch_idioms.allocate(30_000),
            "finish": pytorch_idioms.finish,
        }
        self.extras: list[Callable[[], Body]] = [extras[name] for name in rng.sample(sorted(extras), 4)]

    def step(self, number: int) -> Annotation:
        first = self.sequence
        self.sequence += self.layers
        body: Body = (
            pytorch_idioms.load_data(self.rng.randint(1_000, 200_000)) + self._extra() + pytorch_idioms.clear(1_500)
        )
        for layer in range(self.layers):
            overlap_ns = self.rng.choice((0, 0, 0, 1_500))
            body += pytorch_idioms.forward(first + layer, self._ns(), overlap_ns)
        body += (*self._extra(), Gap(self.rng.randint(1_000, 30_000)), Backward(self._backward(first), self.flows))
        if self.distributed:
            body += tuple(
                Wait(pytorch_idioms.COMPUTE, self.first_event + 2 * bucket + 1) for bucket in range(self._buckets())
            )
        body += pytorch_idioms.optimizer(self.rng.randint(1, 3), self._ns()) + self._extra()
        return pytorch_idioms.step(number, body)

    def _backward(self, first: int) -> Body:
        ops: list[Statement] = []
        for layer in reversed(range(self.layers)):
            ops.append(pytorch_idioms.backward(first + layer, self._ns()))
            if self.distributed and layer % 4 == 0:
                ops.append(pytorch_idioms.all_reduce(self.first_event + layer // 2, 4 * self._ns()))
        return tuple(ops)

    def _buckets(self) -> int:
        return (self.layers + 3) // 4

    def _extra(self) -> Body:
        return self.rng.choice(self.extras)() if self.rng.random() < 0.6 else ()

    def _ns(self) -> int:
        return max(1, int(self.rng.lognormvariate(0, 0.7) * self.kernel_ns))


def _experts(rng: random.Random, size: int) -> Program:
    """Layers of experts on other ranks: the host spins until a dispatch tells how many tokens come, or does not spin.

    In half of the programs it works on for some random time instead, which must not be taken for spinning.
    """
    spins = rng.random() < 0.5
    typical_ns = rng.choice((150_000, 400_000, 1_500_000))

    def length() -> int:
        return max(1, int(rng.lognormvariate(0, 0.4) * typical_ns))

    def layer() -> Body:
        attention = Op(
            "aten::scaled_dot_product_attention", (Launch(pytorch_idioms.COMPUTE, rng.randint(2_000, 90_000)),)
        )
        ran = pytorch_idioms.dispatch(length(), rng.randint(0, 90_000))
        sent: Body = ran if spins else (ran[0], Gap(length()))
        experts = Op("aten::bmm", (Launch(pytorch_idioms.COMPUTE, length(), "ampere_bf16_grouped_gemm"),))
        return attention, Gap(rng.randint(0, 20_000)), *sent, Gap(rng.randint(0, 5_000)), experts

    layers = max(size // 20, 1)
    steps = [
        pytorch_idioms.step(number, tuple(chain.from_iterable(layer() for _ in range(3))))
        for number in range(layers // 3)
    ]
    return Program.of(*chain.from_iterable((step, SyncDevice()) for step in steps))


def _arbitrary(rng: random.Random, size: int, plain: bool) -> Program:
    graphs = tuple(_graph(rng) for _ in range(rng.randint(1, 2)))
    count = rng.randint(1, 3)
    writer = _Scribbler(rng, 0 if plain else len(graphs))
    threads = tuple(
        ThreadProgram(writer.body(size // count), f"thread{index}", rng.randrange(50_000)) for index in range(count)
    )
    return Program(threads, graphs, rng.choice((2, 16, 1_024)), keeps_first_waits=plain)


def _graph(rng: random.Random) -> Graph:
    nodes = [GraphNode(rng.randint(1, 9_000), rng.randrange(3))]
    for index in range(1, rng.randint(1, 6)):
        after = tuple(sorted(rng.sample(range(index), min(index, rng.randrange(3)))))
        nodes.append(GraphNode(rng.randint(1, 9_000), rng.randrange(3), after))
    return Graph(tuple(nodes))


class _Scribbler:
    """Write bodies of statements in no sensible order."""

    def __init__(self, rng: random.Random, graphs: int) -> None:
        self.rng = rng
        self.graphs = graphs
        self.streams = STREAMS if graphs else DISTINCT_STREAMS
        self.sequences = 0
        self.leaves: list[Callable[[], Statement]] = [
            *[self._launch] * 6,
            self._copy,
            lambda: Set(self._stream(), self._ns()),
            *[lambda: Record(self._event(), self._stream())] * 3,
            *[lambda: Wait(self._stream(), self._event())] * 3,
            lambda: SyncStream(self._stream()),
            lambda: SyncDevice(rng.randrange(2)),
            lambda: SyncEvent(self._event()),
            lambda: QueryEvent(self._event()),
            lambda: Call("cudaMalloc", self._ns(), locked=True),
            *[lambda: GraphLaunch(rng.randrange(self.graphs), self._stream())] * (graphs > 0),
            *[lambda: Gap(self._ns())] * 3,
        ]

    def body(self, size: int) -> Body:
        """Return statements that make about `size` events."""
        statements: list[Statement] = []
        while size > 0:
            part = self.rng.randint(1, min(size, 12))
            statements.append(self._scope(part) if part > 2 else self.rng.choice(self.leaves)())
            size -= part if part > 2 else 2
        return tuple(statements)

    def _scope(self, size: int, depth: int = 0) -> Statement:
        inner = self._inner(size - 1, depth)
        if depth == 0 and self._one_in(6):
            return Backward((Op("autograd::engine::evaluate_function: X", inner),), self._one_in(2))
        if self._one_in(8):
            return Annotation(f"range#{size}", inner)
        return Op(self.rng.choice(("aten::add", "aten::mm", "aten::to")), inner)

    def _inner(self, size: int, depth: int) -> Body:
        if size > 4 and self._one_in(2):
            return (self._scope(size - 1, depth + 1), self.rng.choice(self.leaves)())
        return tuple(self.rng.choice(self.leaves)() for _ in range((size + 1) // 2))

    def _launch(self) -> Statement:
        overlap_ns = self.rng.choice((0, 0, 0, 2_000))
        return Launch(self._stream(), self._ns(), overlap_ns=overlap_ns)

    def _copy(self) -> Statement:
        direction = self.rng.choice(DIRECTIONS)
        return Copy(self._stream(), self._ns(), direction, self.rng.choice(HOST_MEMORY), self._one_in(4))

    def _stream(self) -> Stream:
        return self.rng.choice(self.streams)

    def _event(self) -> int:
        return self.rng.randrange(4)

    def _ns(self) -> int:
        return int(self.rng.lognormvariate(8, 1.5)) + 1

    def _one_in(self, count: int) -> bool:
        return self.rng.randrange(count) == 0
