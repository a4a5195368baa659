"""What ranks do with each other: groups, taking part in a communication, waiting for one's own part of it."""

from dataclasses import dataclass
from typing import Literal

from tests.simulator.program import Gap, Launch, Program, Shown, Statement, Stream

Kind = Literal[
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier",
    "broadcast", "scatter", "reduce", "gather", "send", "recv",
]  # fmt: skip
MESSAGES: tuple[Kind, Kind] = ("send", "recv")


@dataclass(frozen=True, repr=False)
class Group(Shown):
    """A process group; its kernels run on a stream of its own (the number; the device is the rank's)."""

    name: str
    ranks: tuple[int, ...]
    stream: int = 23
    description: str = "default_pg"


@dataclass(frozen=True, repr=False)
class Meet(Statement):
    """Take part in a communication of a group: its k-th is every member's k-th.

    On the GPU this launches a kernel, on the CPU it hands work to one of the group's threads. `ns` is what the rank's
    transfer takes once all that it waits for are there.
    """

    kind: Kind
    group: Group
    ns: int
    stream: Stream
    elements: int = 1
    other: int | None = None
    """The root, or a message's other rank."""
    buffered: bool = False
    """A send that goes into a buffer, and so waits for nobody."""
    work: int = 0
    """By what :class:`Await` refers to it (on the CPU)."""
    is_synchronous: bool = False
    """Whether the caller says that it waits at once (on the CPU)."""
    on_cpu: bool = False
    call_ns: int = 4_000
    """How long the call takes that launches its kernel."""


@dataclass(frozen=True, repr=False)
class Await(Statement):
    """Block until work handed over is done; that leaves no row."""

    work: int


@dataclass(frozen=True, repr=False)
class Injected(Statement):
    """Something that takes `ns` longer than it should: host work, or a kernel."""

    slowed: Gap | Launch
    ns: int


@dataclass(frozen=True, repr=False)
class JobProgram(Shown):
    """What each rank does; on the CPU (`gloo`) or on a GPU each (`nccl`)."""

    ranks: dict[int, Program]
    groups: tuple[Group, ...]
    backend: Literal["nccl", "gloo"] = "nccl"
    scenario: str = ""
