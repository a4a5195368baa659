"""Calls that wait for the GPU though no record says so: ``cudaFree`` and its like, and loops of queries."""

from dataclasses import dataclass
from typing import Any

from tests.simulator.program import CustomStatement
from tests.simulator.recording import Cause
from tests.simulator.run import EdgeKind, SimEvent


@dataclass(frozen=True, repr=False)
class MayWait(CustomStatement):
    """A call that works for a time of its own, which begins when the device has no work left, if it waits."""

    name: str
    own_ns: int
    waits: bool = True

    def execute(self, driver: Any, thread: Any) -> None:
        """Wait for what is outstanding on the device, or not."""
        call = driver._begin(thread, self.name)
        awaited = driver.gpu.outstanding_on(0) if self.waits else ()
        driver._end(thread, call, self.own_ns, [Cause("device_sync", work, "end", self.own_ns) for work in awaited])


@dataclass(frozen=True, repr=False)
class QueryUntil(CustomStatement):
    """Ask in a loop until an event has happened, or a stream is done, at most ``most`` times."""

    event: int
    gap_ns: int = 6_000
    name: str = "cudaEventQuery"
    most: int = 10_000

    def execute(self, driver: Any, thread: Any) -> None:
        """Ask, and go on with the first query behind the work's end."""
        awaited = driver.events[self.event].captured
        for number in range(self.most):
            call = driver._begin(thread, self.name)
            is_done = all(work.end_ns <= call.start_ns for work in awaited)
            kind: EdgeKind = "stream_sync" if "Stream" in self.name else "event_sync"
            if kind == "event_sync":
                driver._note_event("Event Sync", call, self.event)
            driver._end(thread, call, 2_000, [Cause(kind, work, "end", 0) for work in awaited if is_done])
            if is_done:
                if number:
                    self._binds(driver, call, kind)
                return
            thread.work(self.gap_ns)

    def _binds(self, driver: Any, call: SimEvent, kind: EdgeKind) -> None:
        """Note that a host which asked more than once waited: the work ended before the last query began."""
        run = driver.recording.run
        waits = [one for one in run.constraints if one.target == call.uid and one.kind == kind]
        run.binding[call.uid, "end"] = max(waits, key=run.source_ns)
