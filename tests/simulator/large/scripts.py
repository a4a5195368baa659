"""What the ranks of a large job do: one program per role, in which lengths are draws and groups are axes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal

from tests.simulator.large.mesh import MESHES, Axis, Mesh
from tests.simulator.large.random_lengths import Draw
from tests.simulator.program import (
    Annotation,
    Backward,
    Body,
    Copy,
    Gap,
    Launch,
    Op,
    Record,
    Statement,
    Stream,
    SyncStream,
    Wait,
)
from tests.simulator.ranks.arguments import CALLS
from tests.simulator.ranks.communication_statements import Kind, Meet

Side = Literal["gpu", "host"]
MS = 1_000_000
STEPS = 3
COMPUTE = Stream(7)
SLOW_OPERATOR, SLOW_KERNEL = "dataset::augment", "augment_kernel"
"""What takes longer on the injected rank: the host's time in the operator, or the kernel that it launches."""
LAUNCH_ROWS = 4
"""A call, its kernel, and the two ends of the arrow between them."""
FIRST_MESSAGE_STREAM = 60


@dataclass(frozen=True)
class Injection:
    """What one rank does more: an operator, or its kernel, takes `ns` longer in a step (None: in each)."""

    rank: int
    ns: int
    on: Side
    operator: str = SLOW_OPERATOR
    kernel: str = SLOW_KERNEL
    step: int | None = STEPS // 2


@dataclass(frozen=True)
class LargeShape:
    """How large a job is: `collectives` and `rows` of the trace are about those of each rank."""

    ranks: int = 64
    collectives: int = 40
    rows: int = 2_000
    mesh: str = "fsdp"
    seed: int = 0
    delay_ns: int = 5 * MS
    delay_on: Side = "gpu"
    """In a pipeline a host that is late may be late for nothing: its GPU waits for other stages meanwhile."""
    ranks_per_host: int = 8
    clock_spread_ns: int = 0
    """Clocks of hosts are up to so far ahead or behind."""
    ids: bool = False
    """Whether recorded sequence numbers tell which communications belong together, as PyTorch does from 2026 on."""
    cuts_groups: bool = False
    """Whether the header lists a group's first thirty ranks alone, as Kineto writes it where PyTorch does not."""
    steps: int = STEPS
    delays_each_step: bool = False
    """Whether the rank is slow in each step, not in the middle one alone."""


@dataclass(frozen=True)
class LargeJob:
    """A job: its mesh, a program per role, what is injected."""

    shape: LargeShape
    mesh: Mesh
    programs: tuple[Body, ...]
    injected: Injection


def large_job(shape: LargeShape) -> LargeJob:
    """Return a job with as many rows as asked for, as far as its collectives leave room for others."""
    mesh = MESHES[shape.mesh](shape.ranks)
    rank = int(Draw(shape.seed, 0, 0, shape.ranks - 1).of(mesh.roles[0][:1])[0])
    step = None if shape.delays_each_step else shape.steps // 2
    injected = Injection(rank, shape.delay_ns, shape.delay_on, step=step)
    programs = tuple(_filled(shape, mesh, role, injected) for role in range(len(mesh.roles)))
    return LargeJob(shape, mesh, programs, injected)


def _filled(shape: LargeShape, mesh: Mesh, role: int, injected: Injection) -> Body:
    """Return a role's program: the rows that collectives leave are shared out among the times between them."""
    sparse = Script(shape, mesh, role, injected)
    least = row_count(sparse.program())
    blocks = max(0, shape.rows - least) // BLOCK_ROWS
    return Script(shape, mesh, role, injected, blocks=blocks, slots=sparse.slots).program()


@dataclass
class Script:
    """Write a role's statements; `blocks` of layers are spread over `slots` times between communications."""

    shape: LargeShape
    mesh: Mesh
    role: int
    injected: Injection
    blocks: int = 0
    slots: int = 0
    draws: int = field(default=1, init=False)
    events: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.total, self.slots = self.slots, 0

    def program(self) -> Body:
        """Return all steps, each of which ends when the host has read the loss."""
        make = self._fsdp_step if self.shape.mesh == "fsdp" else self._three_d_step
        read = Copy(COMPUTE, 2_000, "DtoH", "pageable"), SyncStream(COMPUTE)
        loss = Op("aten::item", (Op("aten::_local_scalar_dense", read),))
        return tuple(Annotation(f"ProfilerStep#{step}", (*make(step), loss)) for step in range(self.shape.steps))

    # -- what a step consists of --------------------------------------------------------------------------------------

    def _fsdp_step(self, step: int) -> Body:
        """Gather parameters layer by layer, and again backward; reduce gradients in the node, then across nodes."""
        replicas = "replicate" in self.mesh.axes
        layers = max(1, (self.shape.collectives // self.shape.steps - 1) // (4 if replicas else 3))
        slow = self._slow_operator(step)
        forward = [
            (*self._blocking("all_gather", "shard", 60_000), *(slow if layer == 0 else ()), *self._layers("forward"))
            for layer in range(layers)
        ]
        backward = []
        for _ in range(layers):
            reduced = self._pair("reduce_scatter", "shard", 80_000)
            across = self._pair("all_reduce", "replicate", 120_000) if replicas else ((), ())
            gathered = self._blocking("all_gather", "shard", 60_000)
            backward.append((*gathered, *self._layers("backward"), *reduced[0], *across[0], *reduced[1], *across[1]))
        return self._whole(step, _joined(forward), _joined(backward), ())

    def _three_d_step(self, step: int) -> Body:
        """Pass micro-batches through the stages and their gradients back; layers reduce over tensor ranks."""
        own = self.shape.collectives // self.shape.steps
        batches = 1 if own < 40 else 4
        layers = max(1, (own - 2 - 4 * batches) // (4 * batches))
        slow = self._slow_operator(step)
        forward: list[Body] = []
        backward: list[Body] = []
        for batch in range(batches):
            work = _joined(self._tensor_layer("forward") for _ in range(layers))
            forward += [self._message("recv", -1, 0), slow if batch == 0 else (), work, self._message("send", +1, 0)]
        for _ in range(batches):
            work = _joined(self._tensor_layer("backward") for _ in range(layers))
            backward += [self._message("recv", +1, 1), work, self._message("send", -1, 1)]
        return self._whole(step, _joined(forward), _joined(backward), self._blocking("all_reduce", "dp", 150_000))

    def _tensor_layer(self, phase: str) -> Body:
        return _joined((*self._layers(phase), *self._blocking("all_reduce", "tp", 30_000)) for _ in range(2))

    def _whole(self, step: int, forward: Body, backward: Body, gradients: Body) -> Body:
        first = Op("MseLossBackward0", (Gap(self._draw(4_000, 6_000)),))
        return (
            Op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", (Gap(self._draw(40_000, 60_000)),)),
            Op("aten::to", (Copy(COMPUTE, 10_000),)),
            *forward,
            Backward((first, *backward, *gradients), flows=False),
            *self._blocking("all_reduce", "world", 25_000),
            Annotation("Optimizer.step#AdamW.step", (self._kernel("aten::_fused_adamw_", "multi_tensor_apply"),)),
        )

    # -- parts --------------------------------------------------------------------------------------------------------

    def _slow_operator(self, step: int) -> Body:
        """Return what every rank does for the first batch, and one rank slowly."""
        more = {self.injected.on: self.injected.ns} if self.injected.step in (None, step) else {}
        host = Gap(self._draw(8_000, 12_000, more_ns=more.get("host", 0)))
        kernel = Launch(COMPUTE, self._draw(16_000, 20_000, more_ns=more.get("gpu", 0)), self.injected.kernel)
        return (Op(self.injected.operator, (host, kernel)),)

    def _layers(self, phase: str) -> Body:
        """Return the work between two communications: its share of all blocks, at least an operator."""
        slot, self.slots = self.slots, self.slots + 1
        count = self.blocks * (slot + 1) // self.total - self.blocks * slot // self.total if self.total else 0
        make = self._forward_block if phase == "forward" else self._backward_block
        return (self._kernel("aten::add", "vectorized_elementwise_kernel"), *chain(*(make() for _ in range(count))))

    def _forward_block(self) -> Body:
        """Return a normalised linear layer with an activation."""
        return (
            Op("aten::layer_norm", (self._kernel("aten::native_layer_norm", "vectorized_layer_norm_kernel"),)),
            Op("aten::linear", (self._host(), self._kernel("aten::addmm", "ampere_sgemm_128x64_tn"))),
            self._kernel("aten::gelu", "GeluCUDAKernelImpl"),
        )

    def _backward_block(self) -> Body:
        """Return as many rows as that of the forward pass has."""
        products = self._kernel("aten::mm", "ampere_sgemm_64x32_nt"), self._kernel("aten::mm", "ampere_sgemm_64x32_nn")
        inner = Op("AddmmBackward0", (self._host(), *products))
        grown = self._kernel("GeluBackward0", "GeluBackwardCUDAKernelImpl")
        return (inner, Op("autograd::engine::evaluate_function: GeluBackward0", (grown,)))

    def _kernel(self, name: str, kernel: str) -> Op:
        return Op(name, (self._host(), Launch(COMPUTE, self._draw(16_000, 20_000), kernel)))

    def _host(self) -> Gap:
        return Gap(self._draw(1_000, 2_000))

    def _blocking(self, kind: Kind, axis: str, ns: int) -> Body:
        return tuple(chain(*self._pair(kind, axis, ns)))

    def _pair(self, kind: Kind, axis: str, ns: int) -> tuple[Body, Body]:
        """Return what asks for a collective and what lets the compute stream wait for it."""
        own = self.mesh.axes[axis]
        return self._asked(kind, own, ns, Stream(own.stream), 1 << 20, None)

    def _message(self, kind: Kind, shift: int, direction: int) -> Body:
        """Return a message to or from the stage so many further, if there is one."""
        if not 0 <= self.role + shift < len(self.mesh.roles):
            return ()
        stream = Stream(FIRST_MESSAGE_STREAM + 2 * min(self.role, self.role + shift) + direction)
        ask, wait = self._asked(kind, self.mesh.axes["pp"], 40_000, stream, 65_536, shift)
        return ask + (wait if kind == "recv" else ())

    def _asked(
        self, kind: Kind, axis: Axis, ns: int, stream: Stream, elements: int, shift: int | None
    ) -> tuple[Body, Body]:
        ready, done = self.events, self.events + 1
        self.events += 2
        meet = Meet(kind, axis, self._draw(ns * 98 // 100, ns * 102 // 100), stream, elements, shift)  # type: ignore[arg-type]
        launch = Annotation(f"nccl:{kind}", (meet,))
        inner = Record(ready, COMPUTE), Wait(stream, ready), launch, Record(done, stream)
        return (Op(CALLS[kind], (Op("record_param_comms", inner),)),), (Wait(COMPUTE, done),)

    def _draw(self, low: int, high: int, *, more_ns: int = 0) -> Draw:
        """Return a length that differs from rank to rank; roles draw apart from each other."""
        self.draws += 1
        number = self.draws * len(self.mesh.roles) + self.role
        return Draw(self.shape.seed, number, low, high, self.injected.rank if more_ns else -1, more_ns)


# -- counting ---------------------------------------------------------------------------------------------------------

BLOCK_ROWS = 3 * LAUNCH_ROWS + 5


def row_count(body: Iterable[Statement]) -> int:
    """Return about how many rows statements leave in a trace."""
    return sum(_rows_of(statement) for statement in body)


def _rows_of(statement: Statement) -> int:
    match statement:
        case Op(body=body):
            return 1 + row_count(body)
        case Annotation(body=body):
            # It has a shadow on each stream that it launched work to.
            return 2 + row_count(body)
        case Backward(body=body):
            return row_count(body)
        case Launch() | Meet() | Copy():
            return LAUNCH_ROWS
        case Wait() | SyncStream():
            return 2
        case Record():
            return 1
        case _:
            return 0


def flattened(body: Iterable[Statement]) -> Iterator[Statement]:
    """Yield statements in the order in which a thread comes to them."""
    for statement in body:
        yield statement
        yield from flattened(getattr(statement, "body", ()))


def meets_of(program: Body) -> list[Meet]:
    """Return a role's communications in order."""
    return [statement for statement in flattened(program) if isinstance(statement, Meet)]


def _joined(bodies: Iterable[Body]) -> Body:
    return tuple(chain.from_iterable(bodies))
