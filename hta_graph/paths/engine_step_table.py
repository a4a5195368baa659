"""Steps of an inference engine side by side: what each says of its batch, and what its own GPU work takes.

Work belongs to a step by its launch: an engine launches ahead, so hardly any of it runs inside the step's annotation.
On a rank without GPU work it is the operators of its call, and the communication on the CPU meanwhile.

```
CPU   |--- step 1 ---|--- step 2 ---|
GPU          |====== 1 ======|  |== 2 ==|
                             |-- 2 ----|   iteration: from the end of the work before to the end of its own
                     |--------- 2 -----|   latency, of which it waits for step 1 until that ends
```
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.model import Bools, EventKind, Ids, Ints
from hta_graph.paths.intervals import Intervals, union, union_of
from hta_graph.paths.unrecorded_work import unrecorded_times
from hta_graph.paths.window_ends import earlier_work_ends, launched_in, step_work_ends
from hta_graph.trace.engine_steps import EngineStep
from hta_graph.trace.table import Step


@dataclass(frozen=True)
class EngineStepRow:
    """A step of an engine; times in ns.

    ``engine`` is what its annotation says: phase, batch, tokens. ``iteration_ns`` is from the end of the GPU work
    before to the end of its own: ``busy_ns`` with own GPU work, ``idle_before_ns`` until its first, ``idle_inside_ns``
    after that, for ``not_recorded_ns`` work may run that has no row, the rest with work of other steps. Of the first
    step it begins with its own work, and for ``before_recording_ns`` of it the GPU still works on what is not recorded.
    ``waits_ns`` is how much of the latency passes until the GPU work before has ended; of the first step, how long its
    launched first work does not start. ``exposed_ns`` is communication while none of its other work runs. ``rows`` is
    its own GPU work. ``is_on_cpu``: the rank has none, so all of this is said of its operators.
    """

    number: int
    event: int
    label: str
    engine: EngineStep
    start_ns: int
    end_ns: int
    gpu_start_ns: int
    gpu_end_ns: int
    iteration_ns: int
    latency_ns: int
    waits_ns: int
    busy_ns: int
    idle_before_ns: int
    idle_inside_ns: int
    not_recorded_ns: int
    before_recording_ns: int
    communication_ns: int
    exposed_ns: int
    graph_launches: int
    activities: int
    activities_in_graphs: int
    is_first: bool
    is_on_cpu: bool
    rows: Ids = field(repr=False, compare=False)

    @property
    def phase(self) -> str:
        """What it does: one of :data:`hta_graph.trace.engine_steps.PHASES`."""
        return self.engine.phase or "unknown"

    @property
    def idle_ns(self) -> int:
        """How long the GPU is idle in its iteration."""
        return max(self.idle_before_ns + self.idle_inside_ns - self.before_recording_ns, 0)

    @property
    def own_ns(self) -> int:
        """How long its iteration is without what the GPU did before the recording."""
        return self.iteration_ns - self.before_recording_ns

    @property
    def unrecorded_ns(self) -> int:
        """How long the first step waits for GPU work from before the recording; 0 of others."""
        return self.waits_ns + self.before_recording_ns if self.is_first else 0

    @property
    def cpu_ns(self) -> int:
        """How long its call takes on the CPU."""
        return self.end_ns - self.start_ns

    @property
    def tokens_per_s(self) -> float | None:
        """How many tokens it computes a second; None where they or the iteration are not known."""
        tokens, length = self.engine.tokens, self.own_ns
        return None if not tokens or not length else tokens / length * 1e9


@memoized
def engine_step_table(graph: DependencyGraph) -> tuple[EngineStepRow, ...]:
    """Measure the steps of an engine on one rank, in order of time; none where the trace has no such steps."""
    steps = graph.steps()
    if not any(item.engine is not None for item in steps):
        return ()
    events, on_cpu = graph.event_table, not graph.is_gpu.any()
    ends, begins = step_work_ends(graph), np.minimum(earlier_work_ends(graph), step_work_ends(graph))
    sure = int(begins[0])
    owned = _work_on_cpu(graph, steps) if on_cpu else _work_on_gpu(graph, steps)
    works = np.concatenate(owned) if on_cpu else np.flatnonzero(graph.is_gpu)
    firsts = np.array([events.start[rows].min(initial=end) for rows, end in zip(owned, ends.tolist(), strict=True)])
    begins[0] = min(sure, int(firsts[0]))
    recorded = union(events.start[works], events.end[works])
    busy = busy_or_unknown(graph, events.start[works], events.end[works])
    unknown = _idle_between(recorded, begins, ends) - _idle_between(busy, begins, ends)
    idle, idle_before = _idle_between(busy, begins, ends), _idle_between(busy, begins, firsts.clip(begins, ends))
    graph_calls = np.sort(events.start[graph.event_flags.graph_launch_call])
    launches = np.searchsorted(graph_calls, [item.until_ns for item in steps])
    launches -= np.searchsorted(graph_calls, [item.start_ns for item in steps])
    return tuple(
        EngineStepRow(
            item.number, item.event, item.label, item.engine, *item.call_ns,
            gpu_start_ns=int(firsts[at]),
            gpu_end_ns=int(ends[at]),
            iteration_ns=int(ends[at] - begins[at]),
            latency_ns=int(ends[at]) - item.call_ns[0],
            waits_ns=max(int(begins[at]) - item.call_ns[0], 0) if at else _held_ns(graph, owned[0], item.call_ns[0]),
            idle_before_ns=int(idle_before[at]),
            idle_inside_ns=int(idle[at] - idle_before[at]),
            not_recorded_ns=int(unknown[at]),
            before_recording_ns=sure - int(begins[0]) if at == 0 else 0,
            graph_launches=int(launches[at]),
            is_first=at == 0,
            is_on_cpu=on_cpu,
            rows=owned[at],
            **_work_of_step(graph, owned[at], int(begins[at]), int(ends[at])),
        )
        for at, item in enumerate(steps)
        if item.engine is not None
    )  # fmt: skip


def busy_or_unknown(graph: DependencyGraph, start: Ints, end: Ints) -> Intervals:
    """Return when work runs, given its times (ns), or may run that the recording of a rank does not hold."""
    return union_of([union(start, end), unrecorded_times(graph)])


def working_rows(graph: DependencyGraph) -> Ids:
    """Return the work between which an engine's iterations are idle, in order of start.

    That is all on the GPU; on a rank without any what the steps do on the CPU.
    """
    table = engine_step_table(graph)
    own = [row.rows for row in table] if table and table[0].is_on_cpu else [np.flatnonzero(graph.is_gpu & bool(table))]
    rows = np.concatenate(own).astype(np.int32)
    return rows[np.argsort(graph.event_table.start[rows], kind="stable")]


def _work_on_gpu(graph: DependencyGraph, steps: Sequence[Step]) -> list[Ids]:
    """Return what is launched from the start of each step to that of the next one."""
    launched = [launched_in(graph, item.start_ns, item.until_ns) for item in steps]
    return [rows[graph.is_gpu[rows]] for rows in launched]


def _work_on_cpu(graph: DependencyGraph, steps: Sequence[Step]) -> list[Ids]:
    """Return the operators in each step's call on its thread, and the rank's communication meanwhile."""
    events, flags = graph.event_table, graph.event_flags
    lanes = np.unique(events.lane[[item.event for item in steps]])
    operators = (events.kind == EventKind.CPU_OP) & np.isin(events.lane, lanes)
    rows = np.flatnonzero(operators | flags.gloo_collective).astype(np.int32)
    rows = rows[np.argsort(events.start[rows], kind="stable")]
    first, past = (np.searchsorted(events.start[rows], [item.call_ns[at] for item in steps]) for at in (0, 1))
    return [rows[one:other] for one, other in zip(first.tolist(), past.tolist(), strict=True)]


LAUNCH_NS = 50_000
"""So long after its call has returned a launch may still be under way."""


def _held_ns(graph: DependencyGraph, rows: Ids, since_ns: int) -> int:
    """Return how long the first GPU work of a recording's first step has been launched and does not start (ns).

    The GPU then works on what was enqueued before the recording.
    """
    events = graph.event_table
    first = rows[np.argmin(events.start[rows])] if len(rows) else -1
    call = graph.launching_call[first] if first >= 0 else -1
    if call < 0:
        return 0
    return max(int(events.start[first] - max(events.end[call] + LAUNCH_NS, since_ns)), 0)


def _idle_between(busy: Intervals, start: Ints, end: Ints) -> Ints:
    """Return how long (ns) nothing runs between the times of each pair."""
    found: Ints = end - start - (busy.covered_until(end) - busy.covered_until(start))
    return found


def _work_of_step(graph: DependencyGraph, rows: Ids, begins: int, end: int) -> dict[str, int]:
    """Return how much of an iteration a step's own work takes, what of it communicates, and what graphs launch."""
    events = graph.event_table
    start, stop, talks = events.start[rows].clip(begins, end), events.end[rows].clip(begins, end), _talks(graph, rows)
    # An operator on the CPU that waits for communication holds operators, or nothing that computes.
    computes = ~talks & ~np.isin(rows, graph.calls.parent[rows])
    communication = union(start[talks], stop[talks])
    calls = graph.launching_call[rows]
    return {
        "busy_ns": union(start, stop).total,
        "communication_ns": communication.total,
        "exposed_ns": communication.subtract(union(start[computes], stop[computes])).total,
        "activities": len(rows),
        "activities_in_graphs": int(np.count_nonzero(graph.event_flags.graph_launch_call[calls[calls >= 0]])),
    }


def _talks(graph: DependencyGraph, rows: Ids) -> Bools:
    flags = graph.event_flags
    found: Bools = flags.communicates[rows] | flags.gloo_collective[rows] | flags.collective_operator[rows]
    return found
