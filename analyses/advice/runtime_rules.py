"""Rules about the process around a loop: code that is compiled or loaded, garbage, memory of the driver.

The first launch of a kernel loads its code, and the GPU is idle meanwhile:

host     [op|launch ~~~~ loads code ~~~~]   [op|launch]   [op|launch]
stream                                   [kernel]    [kernel]    [kernel]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from analyses.advice.facts import HOST_CLASSES, PathFacts
from analyses.advice.rule import Evidence, Fired, Lead, Rule, shorter_during, with_factor, with_own_factors
from hta_graph.base.arrays import distinct, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.model import Bools, BoundBy, EdgeKind, Ids, Ints
from hta_graph.paths.gpu_activity import activities
from hta_graph.what_if.changes import Change

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


def code_loading(facts: PathFacts) -> Fired | None:
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
    said = {
        "name": graph.name_of(longest), "longest_ns": int(times.max()), "work": _launched_by(graph, longest),
        "on_amd": graph.event_flags.amd_call.any(),
    }  # fmt: skip
    return Fired(evidence, "medium", saved, said)


def _launched_by(graph: DependencyGraph, call: int) -> str | None:
    """Name the work that a call launches."""
    rows = np.flatnonzero(graph.launching_call == call)
    return graph.name_of(int(rows[0])) if len(rows) else None


def _loading_at_most(facts: PathFacts, _: Evidence) -> int:
    return facts.priced.of_host_rows(facts.event_mask(code_loading_calls(facts.graph)))


def _without_loading(facts: PathFacts, _: Evidence) -> Change:
    """Let calls that load code take as long as a launch usually takes."""
    graph, calls = facts.graph, code_loading_calls(facts.graph)
    factor = np.ones(len(graph.event_table))
    length = np.maximum(graph.event_table.end[calls] - graph.event_table.start[calls], 1)
    factor[calls] = np.minimum(usual_launch_ns(graph) / length, 1.0)
    return with_own_factors(factor)


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


def compilation(facts: PathFacts) -> Fired | None:
    """PyTorch compiles in the window: for the first time, or again for another shape."""
    found = _host_delay(facts, facts.graph.event_flags.compiles)
    if found is None:
        return None
    evidence = {
        "time_ns": found.time_ns, "rows": len(found.rows), "longest": facts.graph.name_of(found.longest),
    }  # fmt: skip
    return Fired(evidence, "high", found.saved)


def garbage_collection(facts: PathFacts) -> Fired | None:
    """Python collects garbage while the GPU has nothing to do: no thread runs Python."""
    flags, events = facts.graph.event_flags, facts.graph.event_table
    found = _host_delay(facts, flags.collects_garbage)
    if found is None:
        return None
    count, asked = len(found.rows), int(flags.asks_to_collect[found.rows].sum())
    longest_ns = int(events.end[found.longest] - events.start[found.longest])
    evidence = {"time_ns": found.time_ns, "collections": count, "asked_for": asked, "longest_ns": longest_ns}
    return Fired(evidence, "high", found.saved, {"is_asked": 2 * asked > count})


def driver_allocations(facts: PathFacts) -> Fired | None:
    """Memory is allocated from the driver, or returned, after warm-up too: the caching allocator runs out of room."""
    pieces, events, steps = facts.path.segment_table, facts.graph.event_table, facts.graph.steps()
    if not steps:  # where the warm-up ends is unknown
        return None
    chosen = facts.owned_by(facts.graph.event_flags.allocation_call)
    chosen &= pieces.start >= steps[0].end_ns
    time_ns = facts.time_of(chosen)
    saved = min(time_ns, facts.busiest_stream_idle_ns)
    if not facts.is_notable(saved):
        return None
    rows = distinct(pieces.event[chosen])
    flags = facts.graph.event_flags
    releases, expands = int(flags.release_call[rows].sum()), bool(flags.segment_call[rows].any())
    pinning_ns = facts.time_of(chosen & facts.owned_by(flags.host_allocation_call))
    evidence = {
        "time_ns": time_ns, "calls": len(rows), "releases": releases, "expandable_segments": expands,
        "pinning_ns": pinning_ns,
        "sites": facts.sites(rows, events.end[rows] - events.start[rows]), "largest": facts.largest_records(chosen),
    }  # fmt: skip
    pins = 2 * pinning_ns > time_ns
    said = {
        "rank": facts.main_rank(chosen), "pins": pins, "grows": expands and not pins, "varies": not (expands or pins),
        "returned": 0 if pins else releases, "is_one": releases == 1,
    }  # fmt: skip
    return Fired(evidence, "high", saved, said)


def _without_allocations(facts: PathFacts, _: Evidence) -> Change:
    after = facts.graph.steps()[0].end_ns
    allocates = facts.graph.event_flags.allocation_call
    return with_factor(lambda base: take_or(allocates, base.parts.owner, otherwise=False) & (base.parts.start >= after))


PROCESS = (
    Rule(
        "code_loading", "host", code_loading,
        action="Run the same work once before measuring or serving"
        "{on_amd:-, or load code at the start (CUDA_MODULE_LOADING=EAGER)}",
        why="Loading code takes {time_ns:part} in {calls:#call}: first launches of kernels, or calls that load code. "
        "The longest is {name:name}{work:+ for {work:name}} ({longest_ns:time}{usual_launch_ns:+; a launch usually "
        "takes {usual_launch_ns:time}}). This happens once in a process.",
        lead=Lead("code loading"), bound=_loading_at_most, remedy=_without_loading,
    ),
    Rule(
        "compilation", "host", compilation,
        action="Run all shapes once before measuring or serving, or compile with dynamic=True",
        why="PyTorch compiles, tunes kernels or captures graphs for {time_ns:part}, mostly in {longest:name}. Compiled "
        "code is reused until a shape or a guard changes; TORCH_LOGS=recompiles shows why it is compiled again.",
        lead=Lead("compilation"),
        bound=lambda facts, _: facts.priced.of_host_rows(facts.graph.event_flags.compiles),
        remedy=lambda facts, _: shorter_during(facts, facts.graph.event_flags.compiles, 1.0),
    ),
    # While Python collects garbage, no thread runs Python: the host's work takes no time then.
    Rule(
        "garbage_collection", "host", garbage_collection,
        action="{is_asked:+Call gc.collect() less often, and outside of steps}{is_asked:-Collect garbage by hand: "
        "gc.freeze() and gc.disable() before the loop, gc.collect(1) every hundredth step}",
        why="Python collects garbage for {time_ns:part}: {collections:#collection}, the longest of {longest_ns:time}. "
        "No Python thread runs meanwhile. Let all ranks collect in the same step.",
        lead=Lead("garbage collection"),
        bound=lambda facts, _: facts.priced.of_host_rows(facts.graph.event_flags.collects_garbage),
        remedy=lambda facts, _: shorter_during(facts, facts.graph.event_flags.collects_garbage, 1.0),
    ),
    Rule(
        "driver_allocations", "host", driver_allocations,
        action="{pins:+Pin host memory once and reuse it: keep buffers, and let the data loader pin (pin_memory=True)}"
        "{grows:+Run the largest shapes first, pad shapes to a few sizes, and do not call torch.cuda.empty_cache()}"
        "{varies:+Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or pad shapes to a few sizes}",
        why="Memory is allocated from the driver, or returned to it, after warm-up: {time_ns:part}{rank:rank} in "
        "{calls:#call}, mostly {largest[0][name]:name}. {pins:+Most of these calls pin memory of the host, or release "
        "it.}{returned:+{returned:,} of them {is_one:+returns}{is_one:-return} memory. }{grows:+Expandable segments "
        "are in use: they still grow for each larger shape.}{varies:+Varying shapes or fragmented memory cause this.}",
        lead=Lead("memory allocation"),
        bound=lambda facts, _: facts.priced.of_host_rows(facts.graph.event_flags.allocation_call),
        remedy=_without_allocations,
    ),
)  # fmt: skip
"""Rules of advice about the process, in the order in which they are asked."""
