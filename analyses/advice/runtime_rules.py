"""Rules about the process around a loop: code that is compiled or loaded, garbage.

The first launch of a kernel loads its code, and the GPU is idle meanwhile:

host     [op|launch ~~~~ loads code ~~~~]   [op|launch]   [op|launch]
stream                                   [kernel]    [kernel]    [kernel]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from analyses.advice.facts import HOST_CLASSES, PathFacts, PathFinding
from analyses.messages import advice
from hta_graph.base.arrays import distinct
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.model import Bools, BoundBy, EdgeKind, Ids, Ints
from hta_graph.paths.gpu_activity import activities

LOADING_NS = 100_000
"""A launch takes 2 to 20 µs, and code of one kernel 0.1 ms to seconds to load."""
TIMES_USUAL = 10
"""A launch that loads takes this multiple of the usual one at least; those below differ by chance."""
IDLE_BEFORE_NS = 10_000
"""A launch that waits for room in its queue returns while the GPU works; one that loads while it has been idle."""


@memoized
def code_loading_calls(graph: DependencyGraph) -> Ids:
    """Return the calls that load code: by name, and first launches of a kernel that take long while the GPU is idle."""
    launches, events = graph.edges_of(EdgeKind.LAUNCH), graph.event_table
    order = np.argsort(launches.source_ns, kind="stable")
    call, work = launches.source[order], launches.target[order]
    first = np.unique(events.name[work], return_index=True)[1] if len(work) else np.zeros(0, np.int64)
    call, work = call[first], work[first]
    length = events.end[call] - events.start[call]
    ready = np.minimum(events.end[call], events.start[work])
    busy = activities(graph).busy()
    is_idle = busy.covered_until(ready) == busy.covered_until(ready - IDLE_BEFORE_NS)
    # Code is there before its kernel starts: a call that takes long behind that does something else.
    loads = is_idle & (2 * (events.start[work] - events.start[call]) >= length)
    loads &= (length >= LOADING_NS) & (length >= TIMES_USUAL * usual_launch_ns(graph))
    by_name = np.flatnonzero(graph.event_flags.code_loading_call).astype(np.int32)
    return distinct(np.concatenate([call[loads], by_name]))


@memoized
def usual_launch_ns(graph: DependencyGraph) -> int:
    """Return how long a launching call takes that waits for nothing (ns): a tenth is shorter; 0 without any."""
    calls, events = distinct(graph.edges_of(EdgeKind.LAUNCH).source), graph.event_table
    return _tenth(np.sort(events.end[calls] - events.start[calls]).tolist()) if len(calls) else 0


def _tenth(ordered: list[int]) -> int:
    """Return ``np.percentile(ordered, 10)``, which would load numpy's masked arrays (9 ms).

    >>> [_tenth(list(range(0, 10 * count, 10))) for count in (1, 2, 7, 11)]
    [0, 1, 6, 10]
    """
    at, share = divmod((len(ordered) - 1) * 0.1, 1)
    low, high = ordered[int(at)], ordered[min(int(at) + 1, len(ordered) - 1)]
    return int(low + (high - low) * share if share < 1 / 2 else high - (high - low) * (1 - share))


def code_loading(facts: PathFacts) -> PathFinding | None:
    """Code is loaded in the window: what programs do once, and a measurement should not contain."""
    graph, calls = facts.graph, code_loading_calls(facts.graph)
    chosen = facts.owned_by(facts.event_mask(calls)) & facts.segments_in_classes(BoundBy.CPU_BOUND)
    time_ns = facts.time_of(chosen)
    saved = min(time_ns, facts.busiest_stream_idle_ns)
    if not facts.is_notable(saved):
        return None
    rows = distinct(facts.path.segment_table.event[chosen])
    times = graph.event_table.end[rows] - graph.event_table.start[rows]
    longest = int(rows[times.argmax()])
    evidence = {
        "time_ns": time_ns, "calls": len(rows), "usual_launch_ns": usual_launch_ns(graph),
        "largest": facts.largest_records(chosen), "sites": facts.sites(rows, times),
    }  # fmt: skip
    said = advice.code_loading(
        facts.timed(time_ns), len(rows), graph.name_of(longest), int(times.max()), _launched_by(graph, longest),
        usual_launch_ns(graph), on_amd=bool(graph.event_flags.amd_call.any()),
    )  # fmt: skip
    return PathFinding.of_advice(said, evidence, "medium", saved)


def _launched_by(graph: DependencyGraph, call: int) -> str | None:
    """Name the work that a call launches."""
    rows = np.flatnonzero(graph.launching_call == call)
    return graph.name_of(int(rows[0])) if len(rows) else None


class _HostDelay(NamedTuple):
    """The host's time on the path (ns) in rows of a kind, what of it may be saved, and these rows in the window."""

    time_ns: int
    saved: int
    rows: Ints
    longest: int


def _host_delay(facts: PathFacts, kind: Bools) -> _HostDelay | None:
    """Find how rows of a kind delay the GPU; None where that is not notable."""
    time_ns = facts.time_during(facts.segments_in_classes(*HOST_CLASSES), kind) if kind.any() else 0
    saved = min(time_ns, facts.busiest_stream_idle_ns)
    if not facts.is_notable(saved):
        return None
    events, window = facts.graph.event_table, facts.path.window
    rows = np.flatnonzero(kind & (events.start < window.end_ns) & (events.end > window.start_ns))
    return _HostDelay(time_ns, saved, rows, int(rows[np.argmax((events.end - events.start)[rows])]))


def compilation(facts: PathFacts) -> PathFinding | None:
    """PyTorch compiles in the window: for the first time, or again for another shape."""
    found = _host_delay(facts, facts.graph.event_flags.compiles)
    if found is None:
        return None
    longest = facts.graph.name_of(found.longest)
    evidence = {"time_ns": found.time_ns, "rows": len(found.rows), "longest": longest}
    return PathFinding.of_advice(advice.compilation(facts.timed(found.time_ns), longest), evidence, "high", found.saved)


def garbage_collection(facts: PathFacts) -> PathFinding | None:
    """Python collects garbage while the GPU has nothing to do: no thread runs Python."""
    flags, events = facts.graph.event_flags, facts.graph.event_table
    found = _host_delay(facts, flags.collects_garbage)
    if found is None:
        return None
    count, asked = len(found.rows), int(flags.asks_to_collect[found.rows].sum())
    longest_ns = int(events.end[found.longest] - events.start[found.longest])
    evidence = {"time_ns": found.time_ns, "collections": count, "asked_for": asked, "longest_ns": longest_ns}
    said = advice.garbage_collection(facts.timed(found.time_ns), count, longest_ns, is_asked=2 * asked > count)
    return PathFinding.of_advice(said, evidence, "high", found.saved)
