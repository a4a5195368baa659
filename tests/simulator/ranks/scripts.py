"""What a rank's training script does, the same on a GPU as on the CPU: layers, communications begun and finished."""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tests.simulator.program import (
    Annotation,
    Backward,
    Body,
    Copy,
    Gap,
    Launch,
    Op,
    Program,
    Record,
    Statement,
    Stream,
    SyncStream,
    Wait,
)
from tests.simulator.pytorch_idioms import LOADER
from tests.simulator.ranks.arguments import CALLS
from tests.simulator.ranks.communication_statements import Await, Group, Injected, Kind, Meet

Phase = Literal["data", "forward", "backward", "optimizer"]
Backend = Literal["nccl", "gloo"]
DEVICES = 8


@dataclass(frozen=True)
class Fault:
    """A delay: in a step the first kernel, or the first host work, of a phase takes `ns` longer on one rank."""

    rank: int
    step: int
    phase: Phase
    ns: int
    on_host: bool = False


@dataclass(frozen=True)
class Begun:
    """A communication that was asked for: the statements that ask for it, and those that wait for it."""

    ask: Body
    wait: Body


class RankScript:
    """Write one rank's statements; lengths vary from rank to rank, the order of communications does not."""

    def __init__(self, rank: int, backend: Backend, seed: int, faults: Iterable[Fault] = ()) -> None:
        self.rank = rank
        self.on_gpu = backend == "nccl"
        self.seed = seed
        self.rng = random.Random(f"{seed} {rank}")
        self.device = rank % DEVICES
        self.compute = Stream(7, self.device)
        self.faults = [fault for fault in faults if fault.rank == rank]
        self.step_number = 0
        self.events = 0

    def layer(self, name: str, phase: Phase, ns: int, sequence: int | None = None) -> Op:
        """Return an operator of a layer: a kernel, on the CPU its work."""
        ns = max(1_000, int(ns * self.rng.uniform(0.9, 1.1)))
        work: Statement = Launch(self.compute, ns, "ampere_sgemm_128x64_nn") if self.on_gpu else Gap(ns)
        host = self._slowed(Gap(self.rng.randint(1_000, 4_000)), phase, on_host=True)
        return Op(name, (host, Op("aten::addmm", (self._slowed(work, phase, on_host=False),), sequence)), sequence)

    def silence(self, ns: int, phase: Phase) -> Statement:
        """Return what a thread does in no row."""
        return self._slowed(Gap(ns), phase, on_host=False)

    def load(self, ns: int) -> Body:
        """Return the loading of a batch."""
        gap = self._slowed(Gap(int(ns * self.rng.uniform(0.8, 1.2))), "data", on_host=True)
        copy = (Op("aten::to", (Copy(self.compute, 20_000),)),) if self.on_gpu else ()
        return (Op(LOADER, (gap,)), *copy)

    def step(self, *parts: Body) -> Annotation:
        """Return a profiler step of parts, and go on to the next one."""
        body = tuple(statement for part in parts for statement in part)
        number, self.step_number = self.step_number, self.step_number + 1
        # Most scripts look at the loss now and then, so the host is never many steps ahead.
        reads = self.read_loss() if self.on_gpu and (number + self.seed) % 2 else ()
        return Annotation(f"ProfilerStep#{number}", body + reads)

    def backward(self, body: Body) -> Body:
        """Return a backward pass: on a GPU the autograd thread's, on the CPU the caller's own."""
        return (Backward(body, flows=False),) if self.on_gpu else body

    def optimizer(self, ns: int) -> Body:
        """Return an optimizer's step."""
        update = self.layer("aten::_foreach_add_", "optimizer", ns)
        return (Annotation("Optimizer.step#SGD.step", (update,)),)

    def read_loss(self) -> Body:
        """Return what blocks the host until the compute stream is done; on the CPU nothing has to."""
        if not self.on_gpu:
            return (Op("aten::item", (Gap(2_000),)),)
        read = Copy(self.compute, 2_000, "DtoH", "pageable"), SyncStream(self.compute)
        return (Op("aten::item", (Op("aten::_local_scalar_dense", read),)),)

    def meet(
        self,
        kind: Kind,
        group: Group,
        ns: int,
        elements: int = 1_024,
        other: int | None = None,
        *,
        stream: int | None = None,
        buffered: bool = False,
        is_synchronous: bool = False,
    ) -> Begun:
        """Return a communication; `ns` is the usual transfer, of which each rank's own differs a little."""
        self.events += 2
        own_ns = max(2_000, int(ns * self.rng.uniform(0.95, 1.05)))
        where = Stream(group.stream if stream is None else stream, self.device)
        taking_part = Meet(
            kind, group, own_ns, where, elements, other, buffered, self.events, is_synchronous, not self.on_gpu
        )
        return self._on_stream(taking_part) if self.on_gpu else self._on_host(taking_part)

    def program(self, steps: Iterable[Statement]) -> Program:
        """Return the whole script."""
        return Program.of(*steps, *self.read_loss())

    def _on_stream(self, meet: Meet) -> Begun:
        """Let the group's stream wait for compute, launch, and mark the end."""
        ready, done = self.events, self.events + 1
        launch = Annotation(f"nccl:{meet.kind}", (meet,))
        inner = Record(ready, self.compute), Wait(meet.stream, ready), launch, Record(done, meet.stream)
        ask = Op(CALLS[meet.kind], (Op("record_param_comms", inner),))
        return Begun((ask,), (Wait(self.compute, done),))

    def _on_host(self, meet: Meet) -> Begun:
        """Call the process group; a reduce-scatter copies first."""
        copies = (Op("aten::copy_", (Gap(self.rng.randint(20_000, 200_000)),)),)
        before: Body = copies if meet.kind == "reduce_scatter" else ()
        ask = Op(CALLS[meet.kind], (*before, Gap(self.rng.randint(2_000, 20_000)), meet, Gap(5_000)))
        return Begun((ask,), (Await(meet.work),))

    def _slowed(self, work: Statement, phase: Phase, *, on_host: bool) -> Statement:
        for fault in self.faults:
            if (fault.step, fault.phase, fault.on_host) == (self.step_number, phase, on_host):
                self.faults.remove(fault)
                match work:
                    case Gap(ns=ns):
                        return Injected(Gap(ns + fault.ns), fault.ns)
                    case Launch(ns=int(ns)):
                        return Injected(Launch(work.stream, ns + fault.ns, work.name), fault.ns)
        return work
