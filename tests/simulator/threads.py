"""Host threads: what is open, and what the next point waits for."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tests.simulator.program import Statement
from tests.simulator.recording import Cause, Recording
from tests.simulator.run import EdgeKind, Point, SimEvent


@dataclass(slots=True)
class OpenScope:
    """A body under way; `event` is its row, none for a thread's or a hand-off's outermost body.

    `closing_ns` is what the host still has to do after the body, within the row.
    """

    body: Iterator[Statement]
    event: SimEvent | None = None
    caller: "HostThread | None" = None
    flows: bool = True
    closing_ns: int = 0


@dataclass(slots=True)
class HostThread:
    """A thread's state; `causes` are what its next point follows, `worked_ns` its work since they came."""

    tid: int
    name: str
    not_before: int = 0
    scopes: list[OpenScope] = field(default_factory=list)
    causes: list[Cause] = field(default_factory=list)
    worked_ns: int = 0
    is_autograd: bool = False

    def now(self) -> int:
        """Return when the thread's next action comes."""
        return max([self.not_before, *(cause.allows_ns for cause in self.causes)]) + self.worked_ns

    def work(self, ns: int) -> None:
        """Spend host time."""
        self.worked_ns += ns

    def reach(self, recording: Recording, event: SimEvent, point: Point, others: Iterable[Cause] = ()) -> None:
        """Place the thread's next point, after its own causes and the others."""
        recording.settle(event, point, [*self.due(), *others], self.not_before + self.worked_ns)
        self.causes, self.worked_ns, self.not_before = [Cause("thread_order", event, point, 0)], 0, 0

    def wait_for(self, cause: Cause) -> None:
        """Let the next point follow a cause too; what was worked so far delays that one no more."""
        self.causes, self.not_before, self.worked_ns = [*self.due(), cause], self.not_before + self.worked_ns, 0

    def follow(self, other: "HostThread", latency_ns: int) -> None:
        """Continue after another thread: its causes become this one's, as a hand-off."""
        merged = {(cause.source.uid, cause.point): cause for cause in self.due()}
        for cause in other.due():
            key = (cause.source.uid, cause.point)
            own = merged.get(key)
            kind: EdgeKind = own.kind if own else "thread_handoff"
            latency = max(cause.latency_ns + latency_ns, own.latency_ns if own else 0)
            merged[key] = cause._replace(kind=kind, latency_ns=latency)
        floors = self.not_before + self.worked_ns, other.not_before + other.worked_ns + latency_ns
        self.causes, self.worked_ns, self.not_before = list(merged.values()), 0, max(floors)

    def innermost(self, kind: str) -> SimEvent | None:
        """Return the innermost open row of a kind."""
        rows = (scope.event for scope in reversed(self.scopes) if scope.event is not None)
        return next((row for row in rows if row.kind == kind), None)

    def due(self) -> list[Cause]:
        """Return what the next point follows, each cause with the work since it came."""
        return [cause._replace(latency_ns=cause.latency_ns + self.worked_ns) for cause in self.causes]
