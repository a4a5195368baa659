"""Jobs of several ranks from a seed: the ways in which training is spread over them."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from tests.simulator.program import Body, Statement
from tests.simulator.ranks.communication_statements import Group, JobProgram, Kind
from tests.simulator.ranks.scripts import Backend, Begun, Fault, Phase, RankScript

FIRST_OWN_STREAM = 40
"""Streams of pairs of ranks, which exchange messages."""


@dataclass(frozen=True)
class JobShape:
    """How large a job is; times are those of one layer and of one transfer (ns)."""

    ranks: int = 4
    steps: int = 3
    layers: int = 4
    compute_ns: int = 300_000
    transfer_ns: int = 150_000
    seed: int = 0
    backend: Backend = "nccl"
    faults: Sequence[Fault] = field(default=())

    def rng(self) -> random.Random:
        """Return what decides about things that are the same on all ranks."""
        return random.Random(f"job {self.seed}")

    def scripts(self) -> dict[int, RankScript]:
        """Return an empty script for each rank."""
        return {rank: RankScript(rank, self.backend, self.seed, self.faults) for rank in range(self.ranks)}

    def world(self) -> Group:
        """Return the group of all ranks."""
        return Group("0", tuple(range(self.ranks)))


def ddp(shape: JobShape) -> JobProgram:
    """Data parallel: buckets of gradients are reduced while the backward pass goes on.

    compute    |fwd|fwd|fwd|bwd|bwd|bwd|     |opt|
    group                       |rrr| |rrr|rr|
    """
    world, rng = shape.world(), shape.rng()
    # Buckets are of one size but for the first and the last one, or all of one size.
    sizes = [1 << 20] * shape.layers
    if rng.random() < 0.5:
        sizes[0], sizes[-1] = 300_000, 800_000

    def steps(script: RankScript) -> list[Statement]:
        found: list[Statement] = []
        for _ in range(shape.steps):
            buckets = [script.meet("all_reduce", world, shape.transfer_ns, size) for size in sizes]
            backward = [
                (script.layer("AddmmBackward0", "backward", 2 * shape.compute_ns), *bucket.ask) for bucket in buckets
            ]
            backward.append(_joined(*(bucket.wait for bucket in buckets)))
            found.append(
                script.step(
                    script.load(200_000),
                    _forward(script, shape),
                    script.backward(_joined(*backward)),
                    script.optimizer(shape.compute_ns // 2),
                )
            )
        return found

    return _job(shape, (world,), steps, "ddp")


def fsdp(shape: JobShape) -> JobProgram:
    """Fully sharded: a layer's parameters are gathered before it runs, the next one's meanwhile.

    compute       |fwd0||fwd1|  ...  |bwd1|   |bwd0|
    group     |gg0||gg1|        |gg1||gg0||ss1|    |ss0|
    """
    world = shape.world()

    def gather(script: RankScript) -> Begun:
        return script.meet("all_gather", world, shape.transfer_ns, 100_000)

    def steps(script: RankScript) -> list[Statement]:
        found: list[Statement] = []
        for _ in range(shape.steps):
            parts: list[Body] = [script.load(200_000)]
            ahead = gather(script)
            parts.append(ahead.ask)
            for layer in range(shape.layers):
                current = ahead
                if layer + 1 < shape.layers:
                    ahead = gather(script)
                    parts.append(ahead.ask)
                parts.append((*current.wait, script.layer("aten::linear", "forward", shape.compute_ns)))
            backward: list[Body] = []
            scattered: list[Begun] = []
            for _ in range(shape.layers):
                again = gather(script)
                scattered.append(script.meet("reduce_scatter", world, shape.transfer_ns, 400_000))
                node = script.layer("AddmmBackward0", "backward", 2 * shape.compute_ns)
                backward.append((*again.ask, *again.wait, node, *scattered[-1].ask))
            backward.append(_joined(*(begun.wait for begun in scattered)))
            # The autograd thread's part begins with an operator.
            first = script.layer("MseLossBackward0", "backward", 5_000)
            parts += [script.backward((first, *_joined(*backward))), script.optimizer(shape.compute_ns // 2)]
            found.append(script.step(*parts))
        return found

    return _job(shape, (world,), steps, "fsdp")


def parameter_server(shape: JobShape) -> JobProgram:
    """Rank 0 receives gradients from one worker after the other, and sends back parameters in the same order.

    worker 1   |fwd|bwd|ssss|~~~~~~~~~~~~~~~~~~|rrrr|
    worker 2   |fwd|bwd|~~~~|ssss|~~~~~~~~~~~~~~~~~~|rrrr|
    server             |rrrr|rrrr|    opt      |ssss|ssss|
    """
    world = shape.world()

    def messages(script: RankScript, kind: Kind, peer: int) -> Body:
        size, ns = 65_536, shape.transfer_ns // 3
        asked = [
            script.meet(kind, world, ns, size, peer, stream=FIRST_OWN_STREAM + max(script.rank, peer))
            for _ in range(shape.layers)
        ]
        return _joined(*(begun.ask + begun.wait for begun in asked))

    def steps(script: RankScript) -> list[Statement]:
        found: list[Statement] = []
        for _ in range(shape.steps):
            if script.rank:
                backward = script.layer("AddmmBackward0", "backward", 2 * shape.layers * shape.compute_ns)
                work = (*script.load(100_000), *_forward(script, shape), backward)
                parts = [work, messages(script, "send", 0), messages(script, "recv", 0)]
            else:
                parts = [messages(script, "recv", worker) for worker in range(1, shape.ranks)]
                parts.append(script.optimizer(shape.compute_ns))
                parts += [messages(script, "send", worker) for worker in range(1, shape.ranks)]
            found.append(script.step(*parts))
        return found

    return _job(shape, (world,), steps, "parameter server")


def pipeline(shape: JobShape, *, buffered: bool = False, slower: Mapping[int, int] | None = None) -> JobProgram:
    """One forward, one backward: micro-batches pass through stages and their gradients back.

    ``slower`` are stages that compute so many times as long.

    stage 0   |f0|f1|f2|          |b0|f3|b1|   |b2|   |b3|
    stage 1      |f0|f1|    |b0|f2|b1|f3|b2|   |b3|
    stage 2         |f0|b0|f1|b1|f2|b2|f3|b3|
    """
    world, micro_batches = shape.world(), 2 * shape.ranks

    def steps(script: RankScript) -> list[Statement]:
        factor = (slower or {}).get(script.rank, 1)
        stage = _Stage(script, world, replace(shape, compute_ns=factor * shape.compute_ns), buffered)
        return [
            script.step(script.load(100_000), stage.one_step(micro_batches), script.optimizer(shape.compute_ns))
            for _ in range(shape.steps)
        ]

    return _job(shape, (world,), steps, "pipeline, buffered" if buffered else "pipeline, rendezvous")


def gpipe(shape: JobShape, *, silent: bool = False) -> JobProgram:
    """All forwards, then all backwards; what is sent is waited for when its phase is over.

    stage 0   |f0|f1|f2|f3|~~~~~~~~~~~~~|b0|b1|b2|b3|
    stage 1      |f0|f1|f2|f3|~~~~~~~|b0|b1|b2|b3|
    stage 2         |f0|f1|f2|f3||b0|b1|b2|b3|

    Where a delay is ``silent`` it lies in no row, between a receive and the first operator.
    """
    world, micro_batches = shape.world(), shape.ranks

    def steps(script: RankScript) -> list[Statement]:
        stage = _Stage(script, world, shape, buffered=False, silent=silent)
        found: list[Statement] = []
        for _ in range(shape.steps):
            phases = [stage.phase(phase, to, micro_batches) for phase, to in (("forward", +1), ("backward", -1))]
            found.append(script.step(script.load(100_000), *phases, script.optimizer(shape.compute_ns)))
        return found

    return _job(shape, (world,), steps, "pipeline, sends waited for later")


class _Stage:
    """One stage of a pipeline; even stages send first, odd ones receive first, so that nobody waits for ever."""

    def __init__(
        self, script: RankScript, world: Group, shape: JobShape, buffered: bool, *, silent: bool = False
    ) -> None:
        self.script, self.world, self.shape, self.buffered, self.silent = script, world, shape, buffered, silent
        self.number, self.last = script.rank, shape.ranks - 1

    def one_step(self, micro_batches: int) -> Body:
        """Return warm-up, one forward and one backward in turn, and cool-down."""
        ahead = min(self.last - self.number, micro_batches)
        parts: list[Body] = []
        for _ in range(ahead):
            parts += [self._message("recv", -1), self._compute("forward"), self._message("send", +1)]
        if ahead < micro_batches:
            parts.append(self._message("recv", -1))
        for number in range(ahead, micro_batches):
            parts += [self._compute("forward"), self._both("send", +1, "recv", +1), self._compute("backward")]
            more = number + 1 < micro_batches
            parts.append(self._both("send", -1, "recv", -1) if more else self._message("send", -1))
        for _ in range(ahead):
            parts += [self._message("recv", +1), self._compute("backward"), self._message("send", -1)]
        return _joined(*parts)

    def phase(self, phase: Phase, to: int, micro_batches: int) -> Body:
        """Return all micro-batches one way: from one neighbor, through the stage, to the other one."""
        parts, waits = list[Body](), list[Body]()
        for _ in range(micro_batches):
            sent = self._begun("send", to)
            parts += [self._message("recv", -to), self._compute(phase), *([sent.ask] if sent else [])]
            waits += [sent.wait] if sent else []
        return _joined(*parts, *waits)

    def _compute(self, phase: str) -> Body:
        if phase == "forward" and self.silent:
            return self.script.silence(1_000, "forward"), *self._layer(phase)
        return self._layer(phase)

    def _layer(self, phase: str) -> Body:
        if phase == "forward":
            return (self.script.layer("aten::linear", "forward", self.shape.compute_ns),)
        return (self.script.layer("AddmmBackward0", "backward", 2 * self.shape.compute_ns),)

    def _both(self, first: Kind, to: int, second: Kind, at: int) -> Body:
        one, other = self._message(first, to), self._message(second, at)
        return one + other if self.number % 2 == 0 else other + one

    def _message(self, kind: Kind, step: int) -> Body:
        begun = self._begun(kind, step)
        if begun is None:
            return ()
        return begun.ask + (begun.wait if kind == "recv" or not self.script.on_gpu else ())

    def _begun(self, kind: Kind, step: int) -> Begun | None:
        """Return a message with a neighbor, if there is one."""
        peer = self.number + step
        if not 0 <= peer <= self.last:
            return None
        return self.script.meet(
            kind,
            self.world,
            self.shape.transfer_ns // 3,
            65_536,
            peer,
            stream=FIRST_OWN_STREAM + min(self.number, peer),
            buffered=self.buffered and kind == "send",
        )


def ring(shape: JobShape) -> JobProgram:
    """Ring attention: what a rank works with it hands on meanwhile; the next part is asked for before the work.

    rank 0   |ask|==== work ====|wait|ask|==== work ====|wait|
    rank 1   |ask|==== work ====|wait|ask|==== work ====|wait|
    """
    world = shape.world()

    def steps(script: RankScript) -> list[Statement]:
        def message(kind: Kind, peer: int) -> Begun:
            stream = FIRST_OWN_STREAM + (kind == "send")
            return script.meet(kind, world, shape.transfer_ns // 3, 65_536, peer % shape.ranks, stream=stream)

        found: list[Statement] = []
        for _ in range(shape.steps):
            parts = list[Body]()
            for _ in range(shape.ranks - 1):
                got, sent = message("recv", script.rank - 1), message("send", script.rank + 1)
                work = script.layer("aten::scaled_dot_product_attention", "forward", 2 * shape.compute_ns)
                parts += [got.ask, sent.ask, (work,), got.wait, sent.wait]
            reduced = script.meet("all_reduce", world, shape.transfer_ns, 1 << 20)
            parts += [reduced.ask, reduced.wait, script.optimizer(shape.compute_ns)]
            found.append(script.step(script.load(100_000), *parts))
        return found

    return _job(shape, (world,), steps, "ring")


def tensor_parallel(shape: JobShape) -> JobProgram:
    """Tensor and data parallel on a mesh: neighbours share layers, ranks of one place share gradients.

    Two groups have the same ranks and differ in name and stream alone.
    """
    width = 2
    pairs = [tuple(range(first, first + width)) for first in range(0, shape.ranks, width)]
    rows = [Group(str(1 + at), ranks, 27, "tp") for at, ranks in enumerate(pairs)]
    twins = [Group(str(20 + at), ranks, 31, "cp") for at, ranks in enumerate(pairs)]
    columns = [Group(str(40 + at), tuple(range(at, shape.ranks, width)), 35, "dp") for at in range(width)]
    world = shape.world()
    groups = (world, *rows, *twins, *columns)

    def steps(script: RankScript) -> list[Statement]:
        row, twin = rows[script.rank // width], twins[script.rank // width]
        column = columns[script.rank % width]
        found: list[Statement] = []
        for _ in range(shape.steps):
            parts: list[Body] = [script.load(200_000)]
            for _ in range(shape.layers):
                reduced = script.meet("all_reduce", row, shape.transfer_ns // 3, 4_096)
                gathered = script.meet("all_gather", twin, shape.transfer_ns // 4, 4_096)
                layer = script.layer("aten::linear", "forward", shape.compute_ns)
                parts.append((*gathered.ask, layer, *reduced.ask, *gathered.wait, *reduced.wait))
            backward: list[Body] = []
            for _ in range(shape.layers):
                reduced = script.meet("all_reduce", row, shape.transfer_ns // 3, 4_096)
                node = script.layer("AddmmBackward0", "backward", 2 * shape.compute_ns)
                backward.append((node, *reduced.ask, *reduced.wait))
            gradients = script.meet("all_reduce", column, shape.transfer_ns, 1 << 20)
            parts.append(script.backward(_joined(*backward, gradients.ask, gradients.wait)))
            loss = script.meet("all_reduce", world, 20_000, 1)
            found.append(script.step(*parts, loss.ask, loss.wait, script.optimizer(shape.compute_ns // 2)))
        return found

    return _job(shape, groups, steps, "tensor parallel")


def meshes(shape: JobShape) -> JobProgram:
    """Groups over a mesh of ranks, of which some are never called, in an order of their own; sizes may all be equal."""
    rng, count = shape.rng(), shape.ranks
    widths = [width for width in (2, 4) if width < count]
    ways = [[tuple(range(first, first + width)) for first in range(0, count, width)] for width in widths]
    ways += [[tuple(range(at, count, width)) for at in range(width)] for width in widths if width * 2 <= count]
    ways = [way for at, way in enumerate(ways) if way not in ways[:at]]
    rng.shuffle(ways)
    families = [[tuple(range(count))], *ways[: rng.randint(min(1, len(ways)), len(ways))]]
    numbers = iter(range(count * len(ways) + 1))
    groups = [[Group(str(next(numbers)), ranks) for ranks in family] for family in families]
    called = rng.sample(range(len(families)), rng.randint(1, len(families)))
    kinds: tuple[Kind, ...] = ("all_reduce", "all_reduce", "all_gather", "reduce_scatter", "barrier")
    one_size = rng.random() < 0.5
    plan = [
        (rng.choice(called), *(("all_reduce", 4_096) if one_size else (rng.choice(kinds), 1_024 << rng.randrange(4))))
        for _ in range(shape.layers)
    ]

    def steps(script: RankScript) -> list[Statement]:
        found: list[Statement] = []
        for _ in range(shape.steps):
            parts: list[Body] = [script.load(100_000)]
            for family, kind, size in plan:
                group = next(own for own in groups[family] if script.rank in own.ranks)
                begun = script.meet(kind, group, shape.transfer_ns, 1 if kind == "barrier" else size)
                layer = script.layer("aten::linear", "forward", int(shape.compute_ns * script.rng.uniform(0.3, 1.7)))
                parts.append((layer, *begun.ask, *begun.wait))
            found.append(script.step(*parts))
        return found

    return _job(shape, tuple(group for family in groups for group in family), steps, "meshes")


def experts(shape: JobShape) -> JobProgram:
    """Mixture of experts: tokens go to the ranks of their experts and come back; some experts have more of them."""
    world = shape.world()

    def steps(script: RankScript) -> list[Statement]:
        found: list[Statement] = []
        for _ in range(shape.steps):
            parts: list[Body] = [script.load(100_000)]
            for _ in range(shape.layers):
                tokens = script.rng.randint(500, 4_000)
                there = script.meet("all_to_all", world, shape.transfer_ns, tokens)
                back = script.meet("all_to_all", world, shape.transfer_ns, script.rng.randint(500, 4_000))
                attention = script.layer("aten::scaled_dot_product_attention", "forward", shape.compute_ns)
                expert = script.layer("aten::bmm", "forward", shape.compute_ns * tokens // 1_000)
                parts.append((attention, *there.ask, *there.wait, expert, *back.ask, *back.wait))
            found.append(script.step(*parts))
        return found

    return _job(shape, (world,), steps, "all-to-all")


def rooted(shape: JobShape) -> JobProgram:
    """Collectives with a root, and barriers, between layers that take different time on each rank."""
    world, rng = shape.world(), shape.rng()
    kinds: list[Kind] = ["broadcast", "reduce", "gather", "scatter", "barrier", "all_reduce"]
    plan = [[(rng.choice(kinds), rng.randrange(shape.ranks)) for _ in range(shape.layers)] for _ in range(shape.steps)]

    def steps(script: RankScript) -> list[Statement]:
        found: list[Statement] = []
        for own in plan:
            parts: list[Body] = [script.load(100_000)]
            for kind, root in own:
                layer = script.layer("aten::linear", "forward", int(shape.compute_ns * script.rng.uniform(0.3, 1.7)))
                has_root = kind not in ("barrier", "all_reduce")
                size = 1 if kind == "barrier" else 50_000
                begun = script.meet(kind, world, shape.transfer_ns, size, root if has_root else None)
                parts.append((layer, *begun.ask, *begun.wait))
            found.append(script.step(*parts))
        return found

    return _job(shape, (world,), steps, "rooted")


def wide(shape: JobShape) -> JobProgram:
    """More than thirty ranks, and a second group that differs from the first behind its thirtieth rank."""
    world = Group("0", tuple(range(shape.ranks)))
    first = Group("1", tuple(range(shape.ranks - 2)), 27, "all but two")

    def steps(script: RankScript) -> list[Statement]:
        found: list[Statement] = []
        for _ in range(shape.steps):
            parts: list[Body] = []
            for _ in range(shape.layers):
                parts.append((script.layer("aten::linear", "forward", shape.compute_ns),))
                for group in (world, first):
                    if script.rank in group.ranks:
                        begun = script.meet("all_reduce", group, shape.transfer_ns, 1 << 20)
                        parts.append(begun.ask + begun.wait)
            found.append(script.step(*parts))
        return found

    return _job(shape, (world, first), steps, "wide")


def _forward(script: RankScript, shape: JobShape) -> Body:
    return tuple(script.layer("aten::linear", "forward", shape.compute_ns) for _ in range(shape.layers))


def _job(
    shape: JobShape, groups: tuple[Group, ...], steps: Callable[[RankScript], list[Statement]], scenario: str
) -> JobProgram:
    ranks = {rank: script.program(steps(script)) for rank, script in shape.scripts().items()}
    return JobProgram(ranks, groups, shape.backend, scenario)


def _joined(*bodies: Body) -> Body:
    return tuple(chain.from_iterable(bodies))
