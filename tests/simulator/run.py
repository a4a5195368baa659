"""What a simulation yields: events, every true constraint, and what the profiler would note besides."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

EventKind = Literal[
    "cpu_op",
    "annotation",
    "python_function",
    "runtime",
    "kernel",
    "memcpy",
    "memset",
    "graph_host_node",
    "gpu_annotation",
]
EdgeKind = str
"""A label of the product's edge kinds; ``tests/graph/test_edge_kinds.py`` holds both against each other."""
Point = Literal["start", "end"]
SyncKind = Literal["Stream Wait Event", "Event Sync", "Stream Sync", "Context Sync"]
ACTIVITIES: frozenset[EventKind] = frozenset({"kernel", "memcpy", "memset", "graph_host_node"})
WALKABLE: frozenset[EventKind] = ACTIVITIES | {"cpu_op", "runtime"}


@dataclass(slots=True)
class SimEvent:
    """A row of the trace; on the GPU `pid`, `tid` are device and stream number, and `context` is set."""

    uid: int
    kind: EventKind
    name: str
    pid: int
    tid: int
    context: int | None = None
    start_ns: int = -1
    end_ns: int = -1
    correlation: int | None = None
    external_id: int | None = None
    sequence: int | None = None
    forward_thread: int | None = None
    said: dict[str, Any] | None = None
    """Arguments that the file holds besides: what communicates with whom."""
    speaker: int | None = None
    """The operator without whose row they are not written."""

    @property
    def device(self) -> int | None:
        """Return the device's number; None on the host."""
        return None if self.context is None else self.pid

    @property
    def lane(self) -> str:
        """Return the lane as the command line spells it."""
        if self.context is None:
            return f"thread {self.pid}:{self.tid}"
        return f"stream {self.pid}:{self.context}:{self.tid}"

    def at(self, point: Point) -> int:
        """Return the time of a point."""
        return self.start_ns if point == "start" else self.end_ns


class Constraint(NamedTuple):
    """The target point comes at least `latency_ns` after the source point; no trace can show a `hidden` one."""

    kind: EdgeKind
    source: int
    source_point: Point
    target: int
    target_point: Point
    latency_ns: int = 0
    hidden: bool = False


class SyncRow(NamedTuple):
    """A cuda_sync row with its ids resolved; `call` and `record` are uids."""

    kind: SyncKind
    call: int
    device: int
    stream: int | None = None
    event: int | None = None
    wait_on_stream: int | None = None
    record: int | None = None


class Flow(NamedTuple):
    """A fwdbwd arrow between two operators."""

    forward: int
    backward: int


Place = tuple[int, Point]


@dataclass
class Run:
    """One simulated execution; `events[uid].uid == uid`, times in ns from the program's start."""

    events: list[SimEvent] = field(default_factory=list)
    constraints: list[Constraint] = field(default_factory=list)
    binding: dict[Place, Constraint] = field(default_factory=dict)
    """For every constrained point the constraint whose source finished last."""
    free: set[Place] = field(default_factory=set)
    """Points whose time no constraint explains, since a thread began there."""
    sync_rows: list[SyncRow] = field(default_factory=list)
    flows: list[Flow] = field(default_factory=list)
    thread_names: dict[int, str] = field(default_factory=dict)

    def source_ns(self, constraint: Constraint) -> int:
        """Return the time of a constraint's source point."""
        return self.events[constraint.source].at(constraint.source_point)

    def target_ns(self, constraint: Constraint) -> int:
        """Return the time of a constraint's target point."""
        return self.events[constraint.target].at(constraint.target_point)


def constraints_without(run: Run, missing: Iterable[int]) -> list[Constraint]:
    """Return the constraints among the other events, those through a missing event joined to one.

    Only calls that nothing but thread order and hand-offs touches may be missing: event records.
    """
    gone = frozenset(missing)
    into: dict[Place, list[Constraint]] = {}
    kept: list[Constraint] = []
    for constraint in run.constraints:
        through = into.get((constraint.source, constraint.source_point), [])
        for joined in [_join(first, constraint) for first in through] or [constraint]:
            if joined.target in gone:
                into.setdefault((joined.target, joined.target_point), []).append(joined)
            elif joined.source not in gone and not _returns_home(run, joined):
                kept.append(joined)
    return kept


def _join(first: Constraint, second: Constraint) -> Constraint:
    return second._replace(
        kind=second.kind if first.kind == "thread_order" else first.kind,
        source=first.source,
        source_point=first.source_point,
        latency_ns=first.latency_ns + second.latency_ns,
    )


def _returns_home(run: Run, joined: Constraint) -> bool:
    """Tell whether a hand-off there and back is now within one thread, whose own order says as much."""
    same_lane = run.events[joined.source].lane == run.events[joined.target].lane
    return joined.kind == "thread_handoff" and same_lane
