"""Advice about a host that is slower than its GPU: launches, Python, kernels too small to be worth a launch."""

from __future__ import annotations

import numpy as np

from analyses.advice.facts import TINY_NS, PathFacts
from analyses.advice.finding import Confidence, PathFinding
from analyses.advice.format import brief_duration, counted, quoted
from analyses.advice.host_waits import host_waits
from analyses.advice.polling_guard import gpu_busy_meanwhile, may_poll
from hta_graph.arrays import distinct
from hta_graph.model import BoundBy, EventKind

__all__ = ["host_pauses", "launch_bound", "python_bound", "tiny_kernels"]

LAUNCHING_SHARE = 0.2
"""So much of a window at least: less is the prologue of a step, not its rhythm."""

FEWEST_LAUNCHES = 50
"""Fewer launches are no rhythm."""

LONGEST_PER_LAUNCH_NS = 250_000
"""An operator of PyTorch costs the host 5 to 100 µs, with hooks and a profiler some more; above this the host does
something else than launching."""

FEWEST_TINY = 100


def launch_bound(facts: PathFacts) -> PathFinding | None:
    """The host launches work more slowly than the GPU does it: CUDA graphs, torch.compile, larger batches."""
    pieces, graph = facts.path.pieces, facts.graph
    on_host = facts.in_classes(BoundBy.CPU_BOUND, BoundBy.CPU_GAP) & ~facts.pauses
    # After a wait the GPU is idle for another reason; other rules tell it.
    host_ns = facts.time_of(on_host) - int(host_waits(facts).idle.sum())
    saved = min(host_ns, facts.standing_ns)
    if not facts.is_worth(host_ns, LAUNCHING_SHARE) or not facts.is_worth(saved) or may_poll(facts):
        return None
    own = facts.work.take(facts.work.call >= 0)
    when, events = facts.when(on_host), graph.event_table
    own = own.take(when.covered_until(events.end[own.call]) > when.covered_until(events.start[own.call]))
    calls = len(distinct(own.call))
    if calls < FEWEST_LAUNCHES:
        return None
    per_launch, typical = host_ns // calls, int(np.median(own.end - own.start))
    if per_launch > LONGEST_PER_LAUNCH_NS or typical >= per_launch:
        return None
    evidence = {
        "host_ns": host_ns, "launches": calls, "host_per_launch_ns": per_launch, "median_kernel_ns": typical,
        "gpu_idle_ns": facts.gpu_idle_ns, "largest": facts.largest_records(on_host & (pieces.event >= 0)),
    }  # fmt: skip
    text = (
        f"The GPU waits for launches{facts.where(on_host)}: the host needs {brief_duration(per_launch)} for each of "
        f"{calls:,} launches, and what it launches takes {brief_duration(typical)} (median). CUDA graphs, "
        f"torch.compile, larger batches, or fewer and larger operators relieve the host.{_host_work_text(facts)}"
    )
    # Who relieves the host does it after waits, too, and launches that wait for nothing have no lag.
    most = facts.time_of(on_host) + facts.class_ns(BoundBy.GPU_KERNEL_LAUNCH_OVERHEAD)
    confidence: Confidence = "low" if gpu_busy_meanwhile(facts) else "medium" if facts.has_stacks else "high"
    return PathFinding(text, evidence, confidence, min(most, facts.standing_ns))


def _host_work_text(facts: PathFacts) -> str:
    """Say what has to go before a graph can be captured: calls in which the host waits for the GPU."""
    waits = len(host_waits(facts))
    return f" Its {counted(waits, 'wait')} for the GPU have to go before a graph can be captured." if waits else ""


def host_pauses(facts: PathFacts) -> PathFinding | None:
    """The host stands in no operator for long while the GPU has nothing to do: no launch comes sooner by any graph."""
    pauses = facts.pauses
    saved = min(facts.time_of(pauses), facts.standing_ns)
    if not facts.is_worth(saved) or may_poll(facts):
        return None
    lengths = facts.lengths[pauses]
    shortest, longest = brief_duration(int(lengths.min())), brief_duration(int(lengths.max()))
    span = f"of {longest}" if len(lengths) == 1 else f"of {shortest} to {longest}"
    evidence = {
        "pauses": len(lengths), "time_ns": int(lengths.sum()), "longest_ns": int(lengths.max()),
        "largest": facts.largest_records(pauses),
    }  # fmt: skip
    named = facts.largest_names(pauses, 1)
    where = f", mostly in {quoted(named[0][0])}" if named and 2 * named[0][1] > lengths.sum() else ""
    record = "" if facts.has_stacks else ", with_stack=True records what Python does there"
    text = (
        f"For {facts.told(int(lengths.sum()))} the host is in no operator and launches nothing{where}: "
        f"{counted(len(lengths), 'pause')} {span}. No CUDA graph and no faster launch removes them; "
        f"hta-graph idle-time lists them{record}."
    )
    confidence: Confidence = "low" if gpu_busy_meanwhile(facts) else "medium"
    return PathFinding(text, evidence, confidence, saved)


def python_bound(facts: PathFacts) -> PathFinding | None:
    """Python that runs between operators holds the GPU up: named by its frames, where they are recorded."""
    if not facts.has_stacks or may_poll(facts):
        return None
    pieces, kind = facts.path.pieces, facts.graph.event_table.kind
    in_python = facts.in_classes(BoundBy.CPU_GAP) & (pieces.event >= 0)
    in_python &= kind[pieces.event] == EventKind.PYTHON_FUNCTION
    time_ns = facts.time_of(in_python)
    saved = min(time_ns, facts.standing_ns)
    if not facts.is_worth(saved):
        return None
    evidence = {"python_ns": time_ns, "gpu_idle_ns": facts.gpu_idle_ns, "largest": facts.largest_records(in_python)}
    name, largest_ns, _ = facts.largest_names(in_python, 1)[0]
    text = (
        f"For {facts.told(time_ns)} the path is in Python{facts.where(in_python)}, mostly in "
        f"{quoted(name)} ({brief_duration(largest_ns)}). Move that out of the loop, or to another thread or process; "
        "the recording of stacks itself makes Python slower."
    )
    return PathFinding(text, evidence, "low" if gpu_busy_meanwhile(facts) else "medium", saved)


def tiny_kernels(facts: PathFacts) -> PathFinding | None:
    """Many kernels of a few µs follow each other on the path: fuse them (torch.compile, foreach optimizers)."""
    events, pieces = facts.graph.event_table, facts.path.pieces
    chosen = facts.in_classes(BoundBy.GPU_COMPUTE_BOUND, BoundBy.GPU_KERNEL_KERNEL_OVERHEAD) & (pieces.event >= 0)
    owner = pieces.event[chosen]
    tiny = (events.kind[owner] == EventKind.KERNEL) & ~facts.graph.marks.communicates[owner]
    chosen[chosen] = tiny & (events.end[owner] - events.start[owner] < TINY_NS)
    time_ns = facts.time_of(chosen)
    owners = distinct(pieces.event[chosen])
    count = len(owners)
    if not facts.is_worth(time_ns) or count < FEWEST_TINY:
        return None
    between_ns = facts.time_of(chosen & facts.in_classes(BoundBy.GPU_KERNEL_KERNEL_OVERHEAD))
    lengths = (events.end - events.start)[owners]
    evidence = {
        "kernels": count, "time_ns": time_ns, "between_ns": between_ns, "median_kernel_ns": int(np.median(lengths)),
        "largest": facts.largest_records(chosen),
    }  # fmt: skip
    text = (
        f"{counted(count, 'kernel')} of less than {brief_duration(TINY_NS)} take {facts.told(time_ns)}"
        f" of the path, {brief_duration(between_ns)} of it between them. Fusing them "
        "(torch.compile, foreach or fused optimizers) saves part of it."
    )
    return PathFinding(text, evidence, "medium", time_ns)
