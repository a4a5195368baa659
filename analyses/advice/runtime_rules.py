"""Rules about the process around a loop: code that is compiled or loaded, garbage, memory of the driver."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from analyses.advice.facts import HOST_CLASSES, PathFacts
from analyses.advice.rule import Evidence, Fired, Rule, shorter_during, with_factor, with_own_factors
from hta_graph.base.arrays import distinct, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Bools, BoundBy, Ints
from hta_graph.paths.start_up import code_loading_calls, iteration_ends, usual_launch_ns
from hta_graph.what_if.changes import Change


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


def _sharing_calls(graph: DependencyGraph) -> Bools:
    """Mark the calls that share memory with other processes, and those of the same operators that map it."""
    flags, around = graph.event_flags, graph.operator_around
    operators = distinct(around[flags.sharing_call])
    maps = flags.segment_call & np.isin(around, operators[operators >= 0])
    calls: Bools = flags.sharing_call | maps
    return calls


def memory_sharing(facts: PathFacts) -> Fired | None:
    """Processes share memory in the window: handles are exchanged once, when it is first used."""
    events = facts.graph.event_table
    chosen = facts.owned_by(_sharing_calls(facts.graph)) & facts.segments_in_classes(BoundBy.CPU_BOUND)
    time_ns = facts.time_of(chosen)
    saved = min(time_ns, facts.busiest_stream_idle_ns)
    if not facts.is_notable(saved):
        return None
    rows = distinct(facts.path.segment_table.event[chosen])
    evidence = {
        "time_ns": time_ns, "calls": len(rows), "largest": facts.largest_records(chosen),
        "sites": facts.sites(rows, events.end[rows] - events.start[rows]),
    }  # fmt: skip
    return Fired(evidence, "high", saved)


def _without_sharing(facts: PathFacts, _: Evidence) -> Change:
    shares = _sharing_calls(facts.graph)
    return with_factor(lambda base: take_or(shares, base.parts.owner, otherwise=False))


UNCACHED_CALLS = 20
"""A caching allocator that runs out of room returns its free blocks in a few calls; without one, each tensor is freed
by a call of its own."""


def driver_allocations(facts: PathFacts) -> Fired | None:
    """Memory is allocated from the driver, or returned, after warm-up too: the caching allocator runs out of room."""
    pieces, events, ends = facts.path.segment_table, facts.graph.event_table, iteration_ends(facts.graph)
    if not len(ends):  # where the warm-up ends is unknown
        return None
    chosen = facts.owned_by(facts.graph.event_flags.allocation_call)
    chosen &= pieces.start >= ends[0]
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
    window = facts.path.window
    iterations = int(np.count_nonzero((ends > max(window.start_ns, ends[0])) & (ends <= window.end_ns)))
    uncached = not (pins or expands) and releases >= UNCACHED_CALLS * max(iterations, 1)
    said = {
        "rank": facts.main_rank(chosen), "pins": pins, "grows": expands and not pins, "uncached": uncached,
        "varies": not (expands or pins or uncached), "returned": 0 if pins else releases, "is_one": releases == 1,
        "on_amd": flags.amd_call.any(),
    }  # fmt: skip
    return Fired(evidence, "high", saved, said)


def _without_allocations(facts: PathFacts, _: Evidence) -> Change:
    after = iteration_ends(facts.graph)[0]
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
        change="code loaded beforehand", bound=_loading_at_most, remedy=_without_loading,
    ),
    Rule(
        "compilation", "host", compilation,
        action="Run all shapes once before measuring or serving, or compile with dynamic=True",
        why="PyTorch compiles, tunes kernels or captures graphs for {time_ns:part}, mostly in {longest:name}. Compiled "
        "code is reused until a shape or a guard changes; TORCH_LOGS=recompiles shows why it is compiled again.",
        change="no compilation in the window",
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
        change="garbage collected outside of steps",
        bound=lambda facts, _: facts.priced.of_host_rows(facts.graph.event_flags.collects_garbage),
        remedy=lambda facts, _: shorter_during(facts, facts.graph.event_flags.collects_garbage, 1.0),
    ),
    Rule(
        "memory_sharing", "host", memory_sharing,
        action="Set up shared memory before measuring or serving: exchange handles (symmetric memory, CUDA IPC) once "
        "and keep them",
        why="Sharing memory between processes takes {time_ns:part} in {calls:#call}, mostly {largest[0][name]:name}. "
        "This happens when the memory is first used.",
        change="memory shared beforehand",
        bound=lambda facts, _: facts.priced.of_host_rows(_sharing_calls(facts.graph)), remedy=_without_sharing,
    ),
    Rule(
        "driver_allocations", "host", driver_allocations,
        action="{pins:+Pin host memory once and reuse it: keep buffers, and let the data loader pin (pin_memory=True)}"
        "{grows:+Run the largest shapes first, pad shapes to a few sizes, and do not call torch.cuda.empty_cache()}"
        "{varies:+Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or pad shapes to a few sizes}"
        "{uncached:+Let PyTorch cache memory (unset PYTORCH_NO_{on_amd:+HIP}{on_amd:-CUDA}_MEMORY_CACHING), or "
        "allocate buffers once and reuse them}",
        why="Memory is allocated from the driver, or returned to it, after warm-up: {time_ns:part}{rank:rank} in "
        "{calls:#call}, mostly {largest[0][name]:name}. {pins:+Most of these calls pin memory of the host, or release "
        "it.}{returned:+{returned:,} of them {is_one:+returns}{is_one:-return} memory. }{grows:+Expandable segments "
        "are in use: they still grow for each larger shape.}{varies:+Varying shapes or fragmented memory cause this.}"
        "{uncached:+Each tensor takes calls of its own: nothing caches memory.}",
        change="no driver allocations",
        bound=lambda facts, _: facts.priced.of_host_rows(facts.graph.event_flags.allocation_call),
        remedy=_without_allocations,
    ),
)  # fmt: skip
"""Rules of advice about the process, in the order in which they are asked."""
