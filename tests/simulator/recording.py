"""The one place where times are made: a point comes when its last cause allows it."""

from collections.abc import Sequence
from typing import NamedTuple

from tests.simulator.run import Constraint, EdgeKind, EventKind, Point, Run, SimEvent


class Cause(NamedTuple):
    """A constraint that waits for its target."""

    kind: EdgeKind
    source: SimEvent
    point: Point
    latency_ns: int
    hidden: bool = False

    @property
    def finished_ns(self) -> int:
        """Return when the source had done its part: one that lets a host go on from within a row, only then."""
        from_within = self.kind in ("host_poll", "collective_wait") and self.point == "start"
        return self.allows_ns if from_within else self.source.at(self.point)

    @property
    def allows_ns(self) -> int:
        """Return the earliest time that this cause allows."""
        return self.source.at(self.point) + self.latency_ns


class Recording:
    """Collect events and constraints; every time follows from the constraints noted with it."""

    def __init__(self) -> None:
        self.run = Run()

    def event(self, kind: EventKind, name: str, pid: int, tid: int, context: int | None = None) -> SimEvent:
        """Add an event whose times are still open."""
        event = SimEvent(len(self.run.events), kind, name, pid, tid, context)
        self.run.events.append(event)
        return event

    def settle(self, event: SimEvent, point: Point, causes: Sequence[Cause], not_before: int = 0) -> None:
        """Give a point the earliest time that all its causes allow, and note them."""
        time = not_before
        last_ns = -1
        for cause in causes:
            time = max(time, cause.allows_ns)
            constraint = Constraint(
                cause.kind, cause.source.uid, cause.point, event.uid, point, cause.latency_ns, cause.hidden
            )
            self.run.constraints.append(constraint)
            if cause.finished_ns > last_ns:
                last_ns = cause.finished_ns
                self.run.binding[event.uid, point] = constraint
        if all(cause.allows_ns < time for cause in causes):
            self.run.free.add((event.uid, point))
        if point == "start":
            event.start_ns = time
        else:
            event.end_ns = time
