"""Rules about GPU work: exposed communication, and kernels that are far from what the GPU can do."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from analyses.advice.facts import TINY_KERNEL_NS, PathFacts, PathFinding
from analyses.display.sentence_format import brief_duration, brief_share, counted, quoted
from hta_graph.arrays import first_of_runs
from hta_graph.gpu_activity import WorkType
from hta_graph.graph.job_graph import JobGraph
from hta_graph.graph.memo import memoized
from hta_graph.model import BoundBy, Floats
from hta_graph.roofline.demand import Unit
from hta_graph.roofline.devices import find_device, gpu_name, is_tf32

if TYPE_CHECKING:
    from hta_graph.roofline.attainable import AttainableWork
    from hta_graph.roofline.recorded_calls import RecordedCall

COMMUNICATION_CAUSES = {
    "computation": "they start after computation that they wait for, and nothing is left to run beside them",
    "communication": "they queue behind other communication",
    "host": "the host launches them late",
}
"""What a collective came right after on the path, and what that means."""


def exposed_communication(facts: PathFacts) -> PathFinding | None:
    """Communication that no computation hides: start it earlier, or make it smaller; it may be waiting for others."""
    pieces = facts.path.segment_table
    talks = facts.segments_in_classes(BoundBy.GPU_COMMUNICATION_BOUND)
    computing = facts.work.busy(WorkType.COMPUTATION)
    hidden = computing.covered_until(pieces.end[talks]) - computing.covered_until(pieces.start[talks])
    on_path_ns = facts.time_of(talks)
    exposed_ns = on_path_ns - int(hidden.sum())
    if not facts.is_notable(exposed_ns):
        return None
    after = _time_by_cause(facts)
    cause, cause_ns = max(after.items(), key=lambda item: item[1])
    largest = facts.largest_names(talks)
    evidence = {
        "on_path_ns": on_path_ns, "exposed_ns": exposed_ns, "after_ns": after,
        "largest": facts.largest_records(talks),
    }  # fmt: skip
    # Where no cause has most of the time none is told; Gloo's has no launch.
    why = (
        f"; for the most part {COMMUNICATION_CAUSES[cause]}" if 2 * cause_ns > on_path_ns and facts.has_gpu_rows else ""
    )
    saved = _saved_without_communication(facts, on_path_ns)
    beside = " What could be saved counts communication beside the path, too." if saved > on_path_ns else ""
    waiting = (
        "Waiting for other ranks is not in it."
        if isinstance(facts.graph, JobGraph)
        else "It may include waiting for other ranks, which one rank cannot tell (hta-graph stragglers, with all "
        "ranks)."
    )
    text = (
        f"Communication takes {facts.timed(on_path_ns)} of the path, for "
        f"{brief_duration(exposed_ns)} of which nothing computes; mostly {quoted(largest[0][0])} "
        f"({largest[0][2]:,} ×){facts.on_rank(talks)}{why}. {waiting}{beside}"
    )
    return PathFinding(text, evidence, "medium", saved)


def _saved_without_communication(facts: PathFacts, on_path_ns: int) -> int:
    """Return what would be saved at most (ns) if nobody communicated."""
    if isinstance(facts.graph, JobGraph):
        return on_path_ns
    # All communication counts, also what is beside the path; all else stays, and its busiest stream is serial.
    return min(facts.work_ns(WorkType.COMMUNICATION), facts.busiest_stream_idle_without(WorkType.COMMUNICATION))


def gloo_communication(facts: PathFacts) -> PathFinding | None:
    """The path's thread is silent while a collective of Gloo runs on another one: communication through the CPU."""
    silent, rows = facts.segments_in_classes(BoundBy.CPU_GAP), facts.graph.event_flags.gloo_collective
    if isinstance(facts.graph, JobGraph):
        # Edges tell who waits for what was matched.
        rows = rows & ~facts.event_mask(facts.graph.members.row[facts.graph.members.number >= 0])
    time_ns = facts.time_during(silent, rows)
    if not facts.is_notable(time_ns):
        return None
    events, window = facts.graph.event_table, facts.path.window
    found = np.flatnonzero(rows & (events.end > window.start_ns) & (events.start < window.end_ns))
    longest = facts.graph.name_of(int(found[np.argmax(events.end[found] - events.start[found])]))
    evidence = {"time_ns": time_ns, "collectives": len(found), "longest": longest}
    text = (
        f"For {facts.timed(time_ns)} no operator is open on the path's thread "
        f"while {quoted(longest)} runs on another one: it very probably waits for that communication, "
        "which may include waiting for other ranks (hta-graph stragglers, with all ranks). Start it earlier, make it "
        "smaller, or send it through GPUs (NCCL)."
    )
    return PathFinding(text, evidence, "medium", time_ns)


def _time_by_cause(facts: PathFacts) -> dict[str, int]:
    """Add up the collectives' time on the path (ns) by what the path comes from: see :data:`COMMUNICATION_CAUSES`."""
    pieces = facts.path.segment_table
    talks = facts.segments_in_classes(BoundBy.GPU_COMMUNICATION_BOUND)
    # A collective's own pieces, cut by others or not, are one; lags between it and its cause tell nothing.
    lags = facts.segments_in_classes(BoundBy.GPU_KERNEL_KERNEL_OVERHEAD, BoundBy.GPU_KERNEL_LAUNCH_OVERHEAD)
    told = pieces.take(~lags)
    talks = talks[~lags]
    begins = np.flatnonzero(first_of_runs(np.where(talks, told.event, -1)) & talks)
    number = np.cumsum(first_of_runs(np.where(talks, told.event, -1)))
    before = np.append(told.bound, -1)[begins - 1]
    causes = {
        "computation": np.isin(before, (BoundBy.GPU_COMPUTE_BOUND, BoundBy.GPU_MEMORY_BOUND)),
        "communication": before == BoundBy.GPU_COMMUNICATION_BOUND,
        "host": np.isin(before, (BoundBy.CPU_BOUND, BoundBy.CPU_GAP, BoundBy.DATA_LOADING, BoundBy.SYNC_OVERHEAD)),
    }
    return {
        cause: int(told.length[talks & np.isin(number, number[begins[chosen]])].sum())
        for cause, chosen in causes.items()
    }


COMPUTES = 0.25
"""Shapes are read from the file only where the GPU computes for so much of the path."""
FAR_FROM_LIMIT = 0.5
"""Kernels of libraries reach more than this on anything large; what is above is not worth a person's time."""
SMALL_WORK = 64
"""A side of a product that is smaller leaves most of a tile of the matrix units empty."""
ALIGNED_SIZE = 8
"""Rows of 16-bit numbers that are no multiple of 16 bytes cannot be read in whole pieces (NVIDIA's guide to matrix
multiplication for deep learning)."""
NARROW_SIZE = ("half", "bfloat16")


@memoized
def work_limits(facts: PathFacts) -> AttainableWork | None:
    """Return the window's work beside the limits of the GPU; ``None`` where these are not known, and of a job."""
    graph = facts.graph
    if isinstance(graph, JobGraph) or facts.share(facts.class_ns(BoundBy.GPU_COMPUTE_BOUND)) < COMPUTES:
        return None
    gpus = [gpu for gpu in np.unique(graph.lanes.device[facts.work.lane]).tolist() if gpu >= 0]
    device = find_device(gpu_name(graph, gpus))
    if device is None:
        return None
    from hta_graph.roofline.attainable import AttainableWork  # late: most answers need no cost models

    return AttainableWork(graph, facts.work, device)


def far_from_limit(facts: PathFacts) -> PathFinding | None:
    """An operator of one shape takes much of the path and is far below its limit: another shape, or fusing it."""
    limited = work_limits(facts)
    if limited is None or limited.device is None:
        return None
    number, count = limited.groups.number, len(limited.groups)
    work, on_path = limited.groups.work, limited.on_path(facts.path)
    # No limit explains what tiny kernels take.
    could = np.where(work.end - work.start >= TINY_KERNEL_NS, on_path * (1 - limited.near_limit), 0)
    lost = np.bincount(number, weights=could, minlength=count)
    lost = np.where(limited.limit_share < FAR_FROM_LIMIT, lost, 0)
    if not count or not facts.is_notable(int(lost.max())):
        return None
    at = int(lost.argmax())
    group, share = limited.groups.groups[at], float(limited.limit_share[at])
    on_path_ns, calls = int(on_path[number == at].sum()), int(limited.counted_calls[at])
    bound = limited.bounds[at]
    evidence = {
        "operator": group.name, "inputs": group.inputs, "calls": calls,
        "on_path_ns": on_path_ns, "peak_share": round(share, 4), "bound": bound, "device": limited.device.name,
    }  # fmt: skip
    text = (
        f"{quoted(group.name)} ({quoted(group.inputs)}) takes {facts.timed(on_path_ns)} of the path in "
        f"{counted(calls, 'call')} and reaches {brief_share(share)} of the limit that "
        f"{'memory' if bound == 'memory' else 'arithmetic'} sets on {limited.device.name}{_reason_text(limited, at)}."
    )
    return PathFinding(text, evidence, "medium", ceil(lost[at]))


def _reason_text(limited: AttainableWork, at: int) -> str:
    """Say what about its shape explains it, or what to do."""
    demand = limited.groups.groups[at].demand
    if demand is None or demand.unit != Unit.MATRIX:
        return "; fuse it with what is before or behind it (torch.compile), or look at the layout of its inputs"
    sides = {name: demand.sizes[name] for name in ("M", "N", "K") if name in demand.sizes}
    small = min(sides, key=lambda name: sides[name], default="")
    if small and sides[small] < SMALL_WORK:
        return f": {small} = {sides[small]} leaves its units empty; batch more of them, or merge products"
    odd = next((name for name in sides if sides[name] % ALIGNED_SIZE and demand.dtype in NARROW_SIZE), "")
    return (
        f": {odd} = {sides[odd]} is no multiple of {ALIGNED_SIZE}, which its units need to read whole; pad it"
        if odd
        else ""
    )


def float32_products(facts: PathFacts) -> PathFinding | None:
    """Products of 32-bit floats without TF32, on a GPU whose units for that are several times as fast."""
    limited = work_limits(facts)
    if limited is None or limited.device is None:
        return None
    on_path, factor = limited.on_path(facts.path), tf32_factors(limited)
    saved = ceil((on_path * (1 - factor)).sum())
    if not facts.is_notable(saved):
        return None
    on_path_ns, device = int(on_path[factor < 1].sum()), limited.device
    times = device.matrix_tflops["tf32"] / device.matrix_tflops["float"]
    evidence = {"on_path_ns": on_path_ns, "device": device.name, "times_as_fast": round(times, 2)}
    text = (
        f"Products of 32-bit floats take {facts.timed(on_path_ns)} of the path. {device.name} multiplies TF32 "
        f'{times:.0f} times as fast: torch.set_float32_matmul_precision("high") (of convolutions '
        "torch.backends.cudnn.allow_tf32), or torch.autocast, if the precision is enough."
    )
    return PathFinding(text, evidence, "medium", saved)


def tf32_factors(limited: AttainableWork) -> Floats:
    """Return what each activity's time would be multiplied with in TF32, as near to its limit as it is now."""
    rates = limited.device.matrix_tflops if limited.device else {}
    if "tf32" not in rates or "float" not in rates:
        return np.ones(len(limited.groups.work))
    plain = np.array([_is_float32_matmul(one) for one in limited.found.calls] or [False])
    calls = limited.calls
    limit = np.fmax(calls.compute_ns * (rates["float"] / rates["tf32"]), calls.memory_ns) / calls.limit_ns
    per_call = np.where(plain & (limit < 1), limit, 1.0)
    number = limited.found.number[limited.groups.place]
    return np.where(number >= 0, per_call[number], 1.0) if len(per_call) else np.ones(len(number))


def _is_float32_matmul(one: RecordedCall) -> bool:
    """Tell whether a call multiplies 32-bit floats, and its kernel says that it does not round them."""
    is_product = one.demand is not None and one.demand.unit == Unit.MATRIX and one.demand.dtype == "float"
    return is_product and is_tf32(one.call.kernel) is False
