"""What may be changed about a program, done to the program: the truth that a prediction is held against.

Each kind of change returns what becomes of each rank's statements, and the same in the words in which one asks.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from tests.simulator.program import (
    Annotation,
    Backward,
    Body,
    Call,
    Copy,
    Frame,
    Gap,
    GraphLaunch,
    Lagging,
    Launch,
    Op,
    Program,
    QueryEvent,
    Record,
    Set,
    Statement,
    SyncDevice,
    SyncEvent,
    SyncStream,
    Wait,
)
from tests.simulator.pytorch_idioms import LOADER
from tests.simulator.ranks.communication_statements import Meet
from tests.simulator.rewriting import Around, Change, rewritten, statements

Asked = tuple[Any, ...]
"""A change in words: ("scale", "kernel:gemm", 0.5)."""

FACTORS = (0.25, 0.5, 0.8, 1.25, 2.0)
SYNC_CALLS = {
    SyncStream: "cudaStreamSynchronize",
    SyncDevice: "cudaDeviceSynchronize",
    SyncEvent: "cudaEventSynchronize",
}
COMPILED = "## Call CompiledFxGraph ##"
"""The annotation around every graph launch."""


@dataclass(frozen=True)
class Edit:
    """A change of every rank's program, or of some ranks' only, and what is asked."""

    change: Change
    asked: tuple[Asked, ...]
    ranks: frozenset[int] | None = None
    graph_factor: float = 1.0
    """How much longer the kernels of CUDA graphs take."""
    is_handed_over_at_once: bool = False
    """Whether the autograd thread takes over work without delay."""

    def applied(self, program: Program, subject: "Subject") -> Program:
        """Return one rank's program after the change."""
        latencies = program.latencies
        if self.is_handed_over_at_once:
            latencies = replace(latencies, handoff=0)
        changed = rewritten(program, subject.only_here(self.change), self.graph_factor)
        return replace(changed, latencies=latencies)


@dataclass(frozen=True)
class Subject:
    """Programs of one or several ranks that are to be changed, and what there is in them (within a step, if given)."""

    ranks: dict[int, Program]
    step: int | None = None
    collectives: Sequence[str] = field(default=())

    @cached_property
    def found(self) -> list[tuple[Statement, Around]]:
        """All statements that may be changed."""
        found = [item for program in self.ranks.values() for item in statements(program)]
        return [(statement, around) for statement, around in found if self.holds(statement, around)]

    def holds(self, statement: Statement, around: Around) -> bool:
        """Tell whether a statement lies in what may be changed."""
        if self.step is None:
            return True
        outer = around[0] if around else statement
        return isinstance(outer, Annotation) and outer.name == f"ProfilerStep#{self.step}"

    def kernels(self) -> list[str]:
        """Return the names of its kernels that do not communicate."""
        return sorted({own.name for own, _ in self.found if isinstance(own, Launch) and "nccl" not in own.name})

    @property
    def replays_graphs(self) -> bool:
        """Whether it launches CUDA graphs."""
        return any(isinstance(own, GraphLaunch) for own, _ in self.found)

    def operators(self) -> list[str]:
        """Return the names of its operators."""
        return sorted({own.name for own, _ in self.found if isinstance(own, Op) and own.body})

    def annotations(self) -> list[str]:
        """Return the names of its annotations but for steps."""
        named = {own.name for own, _ in self.found if isinstance(own, Annotation)}
        return sorted(name for name in named if not name.startswith("ProfilerStep"))

    def only_here(self, change: Change) -> Change:
        """Restrict a change to what may be changed."""
        return lambda own, around: change(own, around) if self.holds(own, around) else (own,)


Kind = Callable[[Subject, random.Random], Edit | None]


# -- how statements change --------------------------------------------------------------------------------------------


def slower(own: Statement, factor: float) -> Statement:
    """Return a statement that takes so many times as long, with all that it asks of the GPU."""
    match own:
        case Op(scope_ns=int(ns)) | Annotation(scope_ns=int(ns)) | Frame(scope_ns=int(ns)):
            return replace(own, scope_ns=round(ns * factor))
        case Launch(ns=int(ns)) | Copy(ns=ns) | Set(ns=ns) | Meet(ns=ns):
            return replace(own, ns=round(ns * factor), call_ns=round(own.call_ns * factor))
        case Gap(ns=ns) | Call(ns=ns):
            return replace(own, ns=round(ns * factor))
        case Lagging(statement=Launch() | Copy() | Set() | GraphLaunch() | Meet() as call):
            return _submitting(own, call.call_ns, factor)
        case GraphLaunch() | Record() | Wait() | QueryEvent() | SyncStream() | SyncDevice() | SyncEvent():
            return replace(own, call_ns=round(own.call_ns * factor))
        case _:
            return own


def _submitting(own: Lagging, call_ns: int, factor: float) -> Lagging:
    """Let a call take so many times as long until it has submitted work: at its end, or when the GPU starts if earlier.

    call   |========|                times 2    |================|
    GPU    |--------|~~~▶[work                  |----------------|~~~▶[work
    """
    launch_ns = own.latencies.launch
    within_ns = min(launch_ns, call_ns)
    return replace(own, latencies=replace(own.latencies, launch=round(within_ns * factor) + launch_ns - within_ns))


def on_gpu(own: Statement, factor: float) -> Statement:
    """Return a statement whose kernel takes so many times as long."""
    return replace(own, ns=round(own.ns * factor)) if isinstance(own, Launch) and own.ns is not None else own


def on_host(own: Statement, factor: float) -> Statement:
    """Return a statement of which the host's part takes so many times as long."""
    changed = slower(own, factor)
    match own:
        case Launch() | Copy() | Set() | Meet():
            return replace(changed, ns=own.ns)  # type: ignore[call-overload, no-any-return]
        case _:
            return changed


def _one(change: Callable[[Statement, Around], Statement]) -> Change:
    return lambda own, around: (change(own, around),)


def _is_compute(own: Statement) -> bool:
    return isinstance(own, Launch) and "nccl" not in own.name


# -- kinds of change --------------------------------------------------------------------------------------------------


def kernel_scaled(subject: Subject, rng: random.Random, factors: Sequence[float] = FACTORS) -> Edit | None:
    """All kernels of a name take so many times as long."""
    if not subject.kernels():
        return None
    name, factor = rng.choice(subject.kernels()), rng.choice(factors)

    def change(own: Statement, _: Around) -> Statement:
        return on_gpu(own, factor) if isinstance(own, Launch) and own.name == name else own

    return Edit(_one(change), (("scale", f"kernel:{name}", factor),))


def kernel_free(subject: Subject, rng: random.Random) -> Edit | None:
    """All kernels of a name take no time."""
    return kernel_scaled(subject, rng, (0.0,))


def compute_scaled(subject: Subject, rng: random.Random) -> Edit | None:
    """All kernels that compute take so many times as long; a graph is the same in all steps."""
    factor = rng.choice(FACTORS)
    if not subject.kernels() or (subject.replays_graphs and subject.step is not None):
        return None

    def change(own: Statement, _: Around) -> Statement:
        return on_gpu(own, factor) if _is_compute(own) else own

    return Edit(_one(change), (("scale", "class:gpu_compute_bound", factor),), graph_factor=factor)


def operator_scaled(subject: Subject, rng: random.Random) -> Edit | None:
    """All operators of a name, with everything inside and all that they launch, take so many times as long."""
    names = [name for name in subject.operators() if name != LOADER and not name.startswith("c10d::")]
    if not names:
        return None
    name, factor = rng.choice(names), rng.choice(FACTORS)
    return Edit(inside(Op, name, factor), (("scale", f"operator:{name}", factor),))


def annotation_scaled(subject: Subject, rng: random.Random) -> Edit | None:
    """All annotations of a name, with everything inside and all that they launch, take so many times as long."""
    names = [name for name in subject.annotations() if not name.startswith("nccl:")]
    if subject.step is not None:
        names = [name for name in names if name != COMPILED]
    if not names:
        return None
    name, factor = rng.choice(names), rng.choice(FACTORS)
    asked = (("scale", f"annotation:{name}", factor),)
    return Edit(inside(Annotation, name, factor), asked, graph_factor=factor if name == COMPILED else 1.0)


def inside(kind: type[Op | Annotation], name: str, factor: float) -> Change:
    """Let scopes of a name, with everything inside and all that they launch, take so many times as long."""

    def change(own: Statement, around: Around) -> Statement:
        scopes = (*around, own)
        inside = any(isinstance(scope, kind) and scope.name == name for scope in scopes)
        return slower(own, factor) if inside else own

    return _one(change)


def host_scaled(subject: Subject, rng: random.Random) -> Edit | None:
    """Operators and calls take so many times as long on the host."""
    factor = rng.choice(FACTORS)

    def change(own: Statement, around: Around) -> Statement:
        in_operator = any(isinstance(scope, Op) for scope in around) and not any(
            isinstance(scope, Op) and scope.name == LOADER for scope in (*around, own)
        )
        is_call = not isinstance(own, Gap | Frame | Annotation | Backward)
        is_loader = isinstance(own, Op) and own.name == LOADER
        return on_host(own, factor) if (in_operator or is_call) and not is_loader else own

    return Edit(_one(change), (("scale", "class:cpu_bound", factor),))


def loading_free(subject: Subject, rng: random.Random) -> Edit | None:
    """Data loading takes no time."""
    del rng
    if LOADER not in subject.operators():
        return None
    return Edit(inside(Op, LOADER, 0.0), (("scenario", "data_loading_free"),))


def syncs_free(subject: Subject, rng: random.Random) -> Edit | None:
    """The host waits for nothing on the GPU: synchronising calls and blocking copies return at once."""
    del rng

    def change(own: Statement, _: Around) -> Statement:
        match own:
            case SyncStream() | SyncDevice() | SyncEvent():
                return Call(SYNC_CALLS[type(own)], own.call_ns)
            case Copy() if own.holds_the_caller:
                return replace(own, host="pinned", blocking=False)
            case _:
                return own

    waits = any(change(own, around) is not own for own, around in subject.found)
    return Edit(_one(change), (("scenario", "no_host_syncs"),)) if waits else None


def streams_wait_for_nothing(subject: Subject, rng: random.Random) -> Edit | None:
    """No stream waits for an event of another one."""
    del rng
    if subject.step is not None or not any(isinstance(own, Wait) for own, _ in subject.found):
        return None

    def change(own: Statement, _: Around) -> Statement:
        return Call("cudaStreamWaitEvent", own.call_ns) if isinstance(own, Wait) else own

    return Edit(_one(change), (("without", "event_wait"),))


def launches_free(subject: Subject, rng: random.Random) -> Edit | None:
    """Launching takes no time, neither on the host nor until the GPU begins."""
    del rng

    def change(own: Statement, _: Around) -> Statement:
        match own:
            case Lagging(statement=GraphLaunch() | Launch() | Copy() | Set() | Meet()):
                return replace(own, latencies=replace(own.latencies, launch=0))
            case GraphLaunch() | Launch() | Copy() | Set() | Meet():
                return replace(own, call_ns=0)
            case _:
                return own

    return Edit(_one(change), (("scenario", "launches_free"),)) if subject.kernels() else None


def host_free(subject: Subject, rng: random.Random) -> Edit | None:
    """The host only loads data and waits: operators, Python, hand-offs and launches take no time."""
    del rng

    def change(own: Statement, around: Around) -> Statement:
        if any(isinstance(scope, Op) and scope.name == LOADER for scope in (*around, own)):
            return own
        match own:
            case Lagging():
                return replace(own, latencies=replace(own.latencies, launch=0))
            case Op() | Annotation() | Frame():
                return replace(own, scope_ns=0)
            case _:
                return on_host(own, 0.0)

    edit = Edit(_one(change), (("scenario", "cuda_graphs"),), is_handed_over_at_once=True)
    return edit if subject.step is None and subject.kernels() else None


def kernel_removed(subject: Subject, rng: random.Random) -> Edit | None:
    """All kernels of a name are gone, and the calls that launched them."""
    if not subject.kernels():
        return None
    name = rng.choice(subject.kernels())

    def change(own: Statement, _: Around) -> Body:
        return () if isinstance(own, Launch) and own.name == name else (own,)

    return Edit(change, (("remove", f"kernel:{name}"),))


def before_kernel(subject: Subject, rng: random.Random) -> Edit | None:
    """Before each kernel of a name stands more work on its stream."""
    if not subject.kernels():
        return None
    name, ns = rng.choice(subject.kernels()), rng.randint(2_000, 80_000)

    def change(own: Statement, _: Around) -> Statement:
        is_it = isinstance(own, Launch) and own.name == name
        return replace(own, ns=own.ns + ns) if is_it else own  # type: ignore[attr-defined, type-var]

    return Edit(_one(change), (("insert", f"kernel:{name}", ns),))


def before_operator(subject: Subject, rng: random.Random) -> Edit | None:
    """Before each operator of a name the host works some more."""
    if not subject.operators():
        return None
    name, ns = rng.choice(subject.operators()), rng.randint(2_000, 80_000)

    def change(own: Statement, _: Around) -> Body:
        return (Gap(ns), own) if isinstance(own, Op) and own.name == name else (own,)

    return Edit(change, (("insert", f"operator:{name}", ns),))


def transfers_scaled(subject: Subject, rng: random.Random, factors: Sequence[float] = FACTORS) -> Edit | None:
    """Communication takes so many times as long."""
    factor = rng.choice(factors)

    def is_transfer(own: Statement) -> bool:
        return isinstance(own, Meet) or (isinstance(own, Launch) and "nccl" in own.name)

    def change(own: Statement, _: Around) -> Statement:
        return replace(own, ns=round(own.ns * factor)) if is_transfer(own) else own  # type: ignore[attr-defined, type-var]

    if not any(is_transfer(own) for own, _ in subject.found):
        return None
    return Edit(_one(change), (("scale", "class:gpu_communication_bound", factor),))


def transfers_free(subject: Subject, rng: random.Random) -> Edit | None:
    """Communication takes no time."""
    return transfers_scaled(subject, rng, (0.0,))


OF_ANY: dict[str, Kind] = {
    "kernels of a name × factor": kernel_scaled,
    "kernels of a name free": kernel_free,
    "compute kernels × factor": compute_scaled,
    "operators of a name × factor": operator_scaled,
    "annotation × factor": annotation_scaled,
    "host operators × factor": host_scaled,
    "data loading free": loading_free,
    "no host syncs": syncs_free,
    "streams wait for nothing": streams_wait_for_nothing,
    "launches free": launches_free,
    "the host only replays graphs": host_free,
    "kernels removed": kernel_removed,
    "work before kernels": before_kernel,
    "work before operators": before_operator,
    "communication × factor": transfers_scaled,
    "communication free": transfers_free,
}
"""Kinds of change that one rank's program and a job know."""
