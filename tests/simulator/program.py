"""Programs: what host threads say to the driver, as statements that read well when printed."""

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from typing import Any, Literal

Direction = Literal["HtoD", "DtoH", "DtoD", "PtoP"]
HostMemory = Literal["pinned", "pageable"]
NodeKind = Literal["kernel", "memcpy", "memset", "graph_host_node"]


class Shown:
    """A dataclass that prints as one would write it: without defaults, mandatory fields without names."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{label}{value!r}' for label, value in self._shown())})"

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        """Print for hypothesis, which breaks long lines."""
        with printer.group(4, f"{type(self).__name__}(", ")"):
            for index, (label, value) in enumerate(self._shown()):
                if index:
                    printer.text(",")
                    printer.breakable()
                printer.text(label)
                printer.pretty(value)

    def _shown(self) -> Iterator[tuple[str, object]]:
        for item in fields(self):  # type: ignore[arg-type]
            value = getattr(self, item.name)
            if item.default is MISSING:
                yield "", value
            elif value != item.default:
                yield f"{item.name}=", value


@dataclass(frozen=True, repr=False)
class Stream(Shown):
    """A stream of a device; number 7 is what NVIDIA traces call the default stream."""

    number: int = 7
    device: int = 0

    @property
    def context(self) -> int:
        """Return the context, one per device as in every real file."""
        return self.device + 1


class Statement(Shown):
    """Something that a host thread does."""


class CustomStatement(Statement):
    """A statement that says itself what it does: one that a test brings for a wait of its own."""

    def execute(self, driver: Any, thread: Any) -> None:
        """Do it by a driver, on a thread."""
        raise NotImplementedError


Body = tuple[Statement, ...]


@dataclass(frozen=True, repr=False)
class Gap(Statement):
    """Host time that leaves no row: Python, the interpreter lock, data loading."""

    ns: int


@dataclass(frozen=True, repr=False)
class Op(Statement):
    """An operator; a forward and a backward operator belong together by `sequence`.

    `scope_ns` is the host's own time before the body, and as much after it, if it is not the program's usual one.
    """

    name: str
    body: Body = ()
    sequence: int | None = None
    scope_ns: int | None = None


@dataclass(frozen=True, repr=False)
class Annotation(Statement):
    """A user annotation such as `ProfilerStep#1`; `scope_ns` as that of an operator."""

    name: str
    body: Body = ()
    scope_ns: int | None = None


@dataclass(frozen=True, repr=False)
class Frame(Statement):
    """A Python frame; `scope_ns` as that of an operator."""

    name: str
    body: Body = ()
    scope_ns: int | None = None


Scope = Op | Annotation | Frame


@dataclass(frozen=True, repr=False)
class Launch(Statement):
    """Launch a kernel; `overlap_ns` > 0 lets it start before its predecessor ends (programmatic dependent launch).

    With `ns` None its end is left open: who launches it says when it is known.
    """

    stream: Stream
    ns: int | None
    name: str = "kernel"
    call_ns: int = 4_000
    overlap_ns: int = 0


@dataclass(frozen=True, repr=False)
class Copy(Statement):
    """Copy memory; `blocking` is `cudaMemcpy`, otherwise `cudaMemcpyAsync`."""

    stream: Stream
    ns: int
    direction: Direction = "HtoD"
    host: HostMemory = "pinned"
    blocking: bool = False
    call_ns: int = 5_000

    @property
    def holds_the_caller(self) -> bool:
        """Tell whether the call returns only after the copy."""
        if self.direction == "DtoH":
            return self.blocking or self.host == "pageable"
        return self.direction == "HtoD" and self.blocking and self.host == "pinned"


@dataclass(frozen=True, repr=False)
class Set(Statement):
    """Fill device memory."""

    stream: Stream
    ns: int
    call_ns: int = 3_000


@dataclass(frozen=True, repr=False)
class Record(Statement):
    """Record an event; events are numbers and may be used again."""

    event: int
    stream: Stream
    call_ns: int = 1_000


@dataclass(frozen=True, repr=False)
class Wait(Statement):
    """Hold back the stream's next work until the event's latest record is reached."""

    stream: Stream
    event: int
    call_ns: int = 1_000


@dataclass(frozen=True, repr=False)
class SyncStream(Statement):
    """Block until everything enqueued on a stream is done."""

    stream: Stream
    call_ns: int = 2_000


@dataclass(frozen=True, repr=False)
class SyncDevice(Statement):
    """Block until everything enqueued on a device is done."""

    device: int = 0
    call_ns: int = 2_000


@dataclass(frozen=True, repr=False)
class SyncEvent(Statement):
    """Block until an event's latest record is reached."""

    event: int
    call_ns: int = 2_000


@dataclass(frozen=True, repr=False)
class QueryEvent(Statement):
    """Ask whether an event was reached, without waiting."""

    event: int
    call_ns: int = 1_000


@dataclass(frozen=True, repr=False)
class Call(Statement):
    """Any other runtime call; a `locked` one (an allocation) takes the driver's lock as launches do."""

    name: str
    ns: int
    locked: bool = False


@dataclass(frozen=True, repr=False)
class Poll(Statement):
    """Spin, without a row, until the stream's latest kernel writes for the host: `before_end_ns` before it ends."""

    stream: Stream
    before_end_ns: int = 20_000


@dataclass(frozen=True, repr=False)
class GraphLaunch(Statement):
    """Launch the program's graph of that number; its nodes take up to `spread` more or less time, drawn by `seed`."""

    graph: int
    stream: Stream
    call_ns: int = 8_000
    spread: float = 0.0
    seed: int = 0


@dataclass(frozen=True, repr=False)
class Backward(Statement):
    """Hand the body to the autograd thread and block until it is through; `flows` writes fwdbwd arrows."""

    body: Body
    flows: bool = True

    def __post_init__(self) -> None:
        first = next((type(statement) for statement in self.body if not isinstance(statement, Gap)), None)
        if first is not Op:
            raise ValueError("a backward pass starts with an operator, else it would leave no trace of itself")


@dataclass(frozen=True, repr=False)
class GraphNode(Shown):
    """A node of a CUDA graph, mostly a kernel; it follows the nodes of its branch and those that `after` names.

    The launching call sends it `sent_ns` after it began: HIP sends the nodes of a graph in turn.
    """

    ns: int
    branch: int = 0
    after: tuple[int, ...] = ()
    name: str = "graph_kernel"
    sent_ns: int = 0
    kind: NodeKind = "kernel"


@dataclass(frozen=True, repr=False)
class Graph(Shown):
    """A CUDA graph; branch 0 shows on the launching stream, the others on streams of the graph's own.

    With `captured` all branches do, as real A100 traces show (segment-anything-fast).
    """

    nodes: tuple[GraphNode, ...]
    captured: bool = False

    def __post_init__(self) -> None:
        if not self.nodes:
            raise ValueError("a graph has at least one node")
        for index, node in enumerate(self.nodes):
            if any(not 0 <= earlier < index for earlier in node.after):
                raise ValueError(f"node {index} may only follow earlier nodes, not {node.after}")


@dataclass(frozen=True, repr=False)
class ThreadProgram(Shown):
    """What one host thread does, from `start_ns` on."""

    body: Body
    name: str = "main"
    start_ns: int = 0


@dataclass(frozen=True, repr=False)
class Latencies(Shown):
    """The least time from each kind of cause to its effect, in ns."""

    launch: int = 6_000
    stream: int = 1_000
    graph: int = 1_200
    wait: int = 1_500
    sync_return: int = 3_000
    queue_return: int = 800
    handoff: int = 20_000
    scope: int = 300


@dataclass(frozen=True, repr=False)
class Lagging(Statement):
    """A statement whose causes take effect after times of its own, as drawn: a changed program keeps them."""

    statement: Statement
    latencies: Latencies


@dataclass(frozen=True, repr=False)
class Program(Shown):
    """Host threads, the graphs they launch and the machine they run on."""

    threads: tuple[ThreadProgram, ...]
    graphs: tuple[Graph, ...] = ()
    launch_queue_depth: int = 1_024
    latencies: Latencies = Latencies()
    keeps_first_waits: bool = False
    """Let the profiler write the wait rows of streams without work, which Kineto drops (pytorch/kineto#904)."""
    has_legacy_default: bool = False
    """Let the default stream wait for all others, and they for it: no row says so."""

    @classmethod
    def of(cls, *body: Statement, graphs: tuple[Graph, ...] = ()) -> "Program":
        """Return a program of one thread."""
        return cls((ThreadProgram(body),), graphs)
