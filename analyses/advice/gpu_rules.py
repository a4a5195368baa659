"""Rules about GPU work: exposed communication, short kernels, and kernels that are far from what the GPU can do."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from analyses.advice.facts import HOST_CLASSES, TINY_KERNEL_NS, PathFacts
from analyses.advice.rule import Evidence, Fired, Rule, named_scenario, shorter_during, with_factor
from hta_graph.base.arrays import distinct, first_of_runs, take_or
from hta_graph.base.errors import QueryError
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.model import Bools, BoundBy, EventKind, Floats, Ids, Ints
from hta_graph.paths.gpu_activity import WorkType, activities
from hta_graph.what_if.changes import Change, overlap_activities, scale_activities
from hta_graph.what_if.modified_window import ModifiedWindow

if TYPE_CHECKING:
    from hta_graph.roofline.attainable import AttainableWork
    from hta_graph.roofline.demand import Demand
    from hta_graph.roofline.fusion import FusionChains


def exposed_communication(facts: PathFacts) -> Fired | None:
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
    evidence = {
        "on_path_ns": on_path_ns, "exposed_ns": exposed_ns, "after_ns": after,
        "largest": facts.largest_records(talks),
    }  # fmt: skip
    # Without a cause of most of the time none is named; Gloo's communication has no launch.
    is_main = 2 * cause_ns > on_path_ns and facts.has_gpu_rows
    # Without communication on the path other communication is on it.
    saved = on_path_ns if facts.graph.is_job else facts.priced.communication_ns
    said = {
        "is_exposed": exposed_ns == on_path_ns, "in_job": facts.graph.is_job,
        "rank": facts.main_rank(talks), "counts_more": saved > on_path_ns,
        **{f"after_{one}": is_main and one == cause for one in after},
    }  # fmt: skip
    return Fired(evidence, "medium", saved, said)


OVERLAPPED_SHARE = 0.1
"""Communication with less of it next to computation was not meant to overlap: buckets of DDP reach 50% and more."""
FEWEST_COLLECTIVES = 10
"""One or two collectives of a step stand at its end, where nothing is left to overlap with."""
SMALL_COLLECTIVE_NS = 100_000
"""A shorter collective takes about as long whatever its size: its start, and one way around the ranks."""


def serial_communication(facts: PathFacts) -> Fired | None:
    """Collectives between computation that never overlap with it: bucket them, start them early, wait for them late."""
    if facts.graph.is_job:
        return None
    talks, computes = facts.work.busy(WorkType.COMMUNICATION), facts.work.busy(WorkType.COMPUTATION)
    lengths = (facts.work.end - facts.work.start)[facts.work.type == WorkType.COMMUNICATION]
    exposed = talks.subtract(computes)
    saved = min(exposed.total, computes.subtract(talks).total)
    hidden_ns = talks.total - exposed.total
    if (
        len(lengths) < FEWEST_COLLECTIVES
        or hidden_ns >= OVERLAPPED_SHARE * talks.total
        or not facts.is_notable(saved)
        or not facts.is_notable(facts.time_of(facts.segments_in_classes(BoundBy.GPU_COMMUNICATION_BOUND)))
    ):
        return None
    median_ns = int(np.median(lengths))
    evidence = {
        "collectives": len(lengths), "time_ns": talks.total, "overlapped_ns": hidden_ns, "median_ns": median_ns,
        "computation_ns": computes.total,
    }  # fmt: skip
    # The lags between one and the other go, too.
    saved += facts.time_of(facts.segments_in_classes(BoundBy.GPU_KERNEL_KERNEL_OVERHEAD))
    return Fired(evidence, "medium", saved, {"are_small": median_ns < SMALL_COLLECTIVE_NS})


def _overlapped(facts: PathFacts, _: Evidence) -> Change:
    every = activities(facts.graph)
    return overlap_activities(every.row[every.type == WorkType.COMMUNICATION])


FEWEST_UNBUCKETED = 50
BUCKETS = 10
"""The number of collectives that stay: DDP reduces a model of 60 million parameters in ten buckets of 25 MB."""


@dataclass(frozen=True)
class Unbucketed:
    """Collectives in a window that nothing waits for at once, and the operators that start and await collectives.

    ``rows`` are the collectives; ``share`` is how much goes with buckets of what each costs whatever its size: the
    host's time in the operators, and on the GPU the time of the shortest.
    """

    rows: Ids
    lengths: Ints
    operators: Bools
    share: float

    @property
    def less(self) -> Floats:
        """By which share of its time each is shorter in buckets, on the whole."""
        found: Floats = self.share * self.lengths.min() / np.maximum(self.lengths, 1)
        return found


@memoized
def unbucketed(facts: PathFacts) -> Unbucketed | None:
    """Find many short collectives that backward operators start: of gradients, which the optimizer needs and no layer.

    What tensor parallelism reduces is needed by the next operator; there are few of them, and they are longer.
    """
    if facts.graph.is_job:
        return None
    talks = facts.work.take((facts.work.type == WorkType.COMMUNICATION) & (facts.work.call >= 0))
    in_backward = np.zeros(len(talks), np.bool_)
    for level in facts.operators_around(talks.call) if len(talks) else ():
        in_backward |= (level >= 0) & facts.graph.event_flags.autograd[level]
    own = talks.take(in_backward)
    if len(own) < FEWEST_UNBUCKETED:
        return None
    lengths = own.end - own.start
    if np.median(lengths) >= SMALL_COLLECTIVE_NS:
        return None
    window = facts.path.window
    steps = sum(item.start_ns < window.end_ns and item.end_ns > window.start_ns for item in facts.graph.steps())
    share = max(1 - BUCKETS * max(steps, 1) / len(own), 0.0)
    return Unbucketed(own.row, lengths, facts.graph.event_flags.collective_operator, share)


def unbucketed_collectives(facts: PathFacts) -> Fired | None:
    """The host starts many short collectives one by one: buckets cost it as much each, and are few."""
    found = unbucketed(facts)
    if found is None:
        return None
    time_ns = facts.time_during(facts.segments_in_classes(*HOST_CLASSES) & facts.repeated, found.operators)
    on_gpu = ceil((facts.on_path(found.rows) * found.less).sum())
    saved = min(ceil(time_ns * found.share), facts.busiest_stream_idle_ns) + on_gpu
    if not facts.is_notable(saved):
        return None
    median_ns = int(np.median(found.lengths))
    evidence = {
        "collectives": len(found.rows), "median_ns": median_ns, "host_ns": time_ns,
        "shortest_ns": int(found.lengths.min()), "buckets": BUCKETS,
    }  # fmt: skip
    return Fired(evidence, "medium", saved)


def _buckets_at_most(facts: PathFacts, _: Evidence) -> int:
    found = unbucketed(facts)
    if found is None:
        return 0
    on_host = facts.priced.of_host_rows(found.operators, found.share)
    return min(on_host + facts.priced.of_work(found.rows, found.less), facts.priced.length_ns)


def _in_buckets(facts: PathFacts, _: Evidence) -> Change:
    """Let collectives cost as little as a few of them, on the host and, but for what their sizes cost, on the GPU."""
    found = unbucketed(facts)
    if found is None:
        raise QueryError("collectives are few, or not started by backward operators")
    on_host = shorter_during(facts, found.operators, found.share, keeps_start_up=True)
    on_gpu = scale_activities(found.rows, 1 - found.less)

    def change(draft: ModifiedWindow) -> None:
        on_host(draft)
        on_gpu(draft)

    return change


def gloo_communication(facts: PathFacts) -> Fired | None:
    """The path's thread is silent while a collective of Gloo runs on another one: communication through the CPU."""
    silent, rows = facts.segments_in_classes(BoundBy.CPU_GAP), facts.graph.event_flags.gloo_collective
    # Of a job edges tell who waits for what was matched.
    rows = rows & ~facts.event_mask(facts.graph.members.row[facts.graph.members.number >= 0])
    time_ns = facts.time_during(silent, rows)
    if not facts.is_notable(time_ns):
        return None
    events, window = facts.graph.event_table, facts.path.window
    found = np.flatnonzero(rows & (events.end > window.start_ns) & (events.start < window.end_ns))
    longest = facts.graph.name_of(int(found[np.argmax(events.end[found] - events.start[found])]))
    evidence = {"time_ns": time_ns, "collectives": len(found), "longest": longest}
    return Fired(evidence, "medium", time_ns)


def _time_by_cause(facts: PathFacts) -> dict[str, int]:
    """Add up the collectives' time on the path (ns) by what precedes it: computation, other communication, the host."""
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


COMMUNICATION = (
    Rule(
        "exposed_communication", "communication", exposed_communication,
        action="Start communication earlier, or make it smaller",
        why="Communication takes {on_path_ns:part} of the path, {is_exposed:+all}{is_exposed:-{exposed_ns:time}} of it "
        "exposed (no computation overlaps it), mostly {largest[0][name]:name} ({largest[0][count]:#call}){rank:rank}."
        "{after_computation:+ Most of it starts after the computation it depends on, so nothing is left to overlap "
        "with.}{after_communication:+ Most of it is queued behind other communication.}{after_host:+ Most of it is "
        "launched late by the host.}{in_job:+ Waiting for other ranks is not included.}{in_job:- It may include "
        "waiting for other ranks; run hta-graph stragglers on all ranks to separate the two.}{counts_more:+ The bound "
        "includes communication that is not on the path.}",
        change="no exposed communication",
        bound=lambda facts, _: facts.priced.no_communication_ns,
        remedy=named_scenario("communication_free"),
    ),
    Rule(
        "serial_communication", "communication", serial_communication,
        action="Overlap collectives with computation: start them with async_op=True or in DDP or FSDP buckets, and "
        "wait late",
        why="{collectives:#collective} of {median_ns:time} (median) take {time_ns:part}, and {overlapped_ns:+only "
        "{overlapped_ns:time} of them overlap}{overlapped_ns:-none of them overlaps} with computation: the GPU does "
        "one or the other.{are_small:+ Merge small ones into buckets: each costs the same time to start.} Collectives "
        "whose result the next operator needs (tensor parallelism) overlap only with another micro-batch, or in fused "
        "kernels.",
        change="overlapped communication",
        bound=lambda facts, _: facts.priced.overlap_ns,
        remedy=_overlapped,
    ),
    Rule(
        "unbucketed_collectives", "communication", unbucketed_collectives,
        action="Reduce gradients in buckets (DDP, FSDP, or one flat tensor), not one by one",
        why="The backward pass starts {collectives:#collective} of {median_ns:time} (median). Starting and awaiting "
        "them takes the host {host_ns:part} of the path. The saving assumes {buckets} buckets a step.",
        change="collectives in buckets",
        bound=_buckets_at_most,
        remedy=_in_buckets,
    ),
    Rule(
        "gloo_communication", "communication", gloo_communication,
        action="Start this communication earlier, make it smaller, or use GPUs (NCCL)",
        why="No operator is open on the path's thread for {time_ns:part} while {longest:name} runs on another thread: "
        "the path most likely waits for it. This may include waiting for other ranks; run hta-graph stragglers on all "
        "ranks.",
        bound=lambda facts, _: facts.priced.communication_ns,
    ),
)  # fmt: skip
"""Rules of advice about communication, in the order in which they are asked."""


# -- computation -------------------------------------------------------------------------------------------------------

FEWEST_TINY = 100


def tiny_kernels_of(graph: DependencyGraph) -> Bools:
    """Mark the kernels below 10 µs that do not communicate."""
    events, flags = graph.event_table, graph.event_flags
    found: Bools = (events.kind == EventKind.KERNEL) & ~flags.communicates
    return found & (events.end - events.start < TINY_KERNEL_NS)


def tiny_kernels(facts: PathFacts) -> Fired | None:
    """Many kernels of a few µs follow each other on the path: fuse them (torch.compile, foreach optimizers)."""
    events, pieces = facts.graph.event_table, facts.path.segment_table
    chosen = facts.segments_in_classes(BoundBy.GPU_COMPUTE_BOUND, BoundBy.GPU_KERNEL_KERNEL_OVERHEAD)
    chosen &= facts.owned_by(tiny_kernels_of(facts.graph))
    time_ns = facts.time_of(chosen)
    owners = distinct(pieces.event[chosen])
    count = len(owners)
    if not facts.is_notable(time_ns) or count < FEWEST_TINY:
        return None
    between_ns = facts.time_of(chosen & facts.segments_in_classes(BoundBy.GPU_KERNEL_KERNEL_OVERHEAD))
    lengths = (events.end - events.start)[owners]
    evidence = {
        "kernels": count, "time_ns": time_ns, "between_ns": between_ns, "median_kernel_ns": int(np.median(lengths)),
        "largest": facts.largest_records(chosen),
    }  # fmt: skip
    return Fired(evidence, "medium", time_ns, {"limit_ns": TINY_KERNEL_NS})


def _tiny_at_most(facts: PathFacts, _: Evidence) -> int:
    """Fusing removes kernels, and the gaps between them."""
    rows = np.flatnonzero(tiny_kernels_of(facts.graph))
    return min(facts.priced.of_work(rows) + facts.priced.not_computing_ns, facts.priced.length_ns)


TINY_KERNELS = Rule(
    "tiny_kernels", "gpu", tiny_kernels,
    action="Fuse small kernels (torch.compile, foreach or fused optimizers)",
    why="{kernels:#kernel} shorter than {limit_ns:time} take {time_ns:part} of the path, including {between_ns:time} "
    "between them. Fusing them saves part of that.",
    bound=_tiny_at_most,
)  # fmt: skip

COMPUTES = 0.25
"""Shapes are read from the file only where the GPU computes for at least this share of the path."""
FAR_FROM_LIMIT = 0.5
"""Library kernels reach more than this on large work; above it there is little to gain."""
SMALL_WORK = 64
"""A side of a product that is smaller leaves most of a tile of the matrix units empty."""
ALIGNED_SIZE = 8
"""Rows of 16-bit numbers that are no multiple of 16 bytes cannot be read in whole pieces (NVIDIA's guide to matrix
multiplication for deep learning)."""
NARROW_SIZE = ("half", "bfloat16")


def _reads_shapes(facts: PathFacts) -> bool:
    """Return whether the path is on computation for long enough that shapes are worth reading; never of a job."""
    computes = facts.share(facts.class_ns(BoundBy.GPU_COMPUTE_BOUND)) >= COMPUTES
    return computes and not facts.graph.is_job


@memoized
def work_limits(facts: PathFacts) -> AttainableWork | None:
    """Return the window's work with the limits of the GPU; ``None`` where these are unknown, and of a job."""
    if not _reads_shapes(facts):
        return None
    from hta_graph.roofline.attainable import attainable_work  # late: most answers need no cost models

    return attainable_work(facts.graph, facts.work)


def far_from_limit(facts: PathFacts) -> Fired | None:
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
    said = {"share": share, "is_memory": bound == "memory", **_shape_doubt(group.demand)}
    return Fired(evidence, "medium", ceil(lost[at]), said)


def _shape_doubt(demand: Demand | None) -> Evidence:
    """Return what about a shape explains the distance to the limit: a short side, one that is not aligned, nothing."""
    is_product = demand is not None and demand.is_product
    sizes, dtype = (demand.sizes, demand.dtype) if demand is not None and is_product else ({}, "")
    sides = {name: sizes[name] for name in ("M", "N", "K") if name in sizes}
    small = min(sides, key=lambda name: sides[name], default="")
    small = small if small and sides[small] < SMALL_WORK else ""
    odd = next((name for name in sides if sides[name] % ALIGNED_SIZE and dtype in NARROW_SIZE), "")
    odd = "" if small else odd
    return {
        "is_no_product": not is_product, "small": small, "odd": odd, "side": sides.get(small or odd),
        "multiple": ALIGNED_SIZE, "is_unknown": is_product and not small and not odd,
    }  # fmt: skip


def _operator_at_most(facts: PathFacts, evidence: Evidence) -> int:
    limited = work_limits(facts)
    if limited is None:
        return 0
    meant = _operator_calls(limited, evidence)
    return facts.priced.of_work(limited.groups.work.row[meant], 1 - limited.near_limit[meant])


def _near_limit(facts: PathFacts, evidence: Evidence) -> Change:
    """Let the calls of an operator and shape reach what is possible."""
    limited = work_limits(facts)
    if limited is None:
        raise QueryError("the limits of the GPU are not known")
    meant = _operator_calls(limited, evidence)
    return scale_activities(limited.groups.work.row[meant], limited.near_limit[meant])


def _operator_calls(limited: AttainableWork, evidence: Evidence) -> Bools:
    """Mark the activities of the operator and shape that evidence names."""
    asked, groups = (evidence["operator"], evidence["inputs"]), limited.groups
    meant: Bools = np.array([(group.name, group.inputs) == asked for group in groups.groups])[groups.number]
    return meant


def float32_products(facts: PathFacts) -> Fired | None:
    """Products of 32-bit floats without TF32, on a GPU whose units for that are several times as fast."""
    limited = work_limits(facts)
    if limited is None or limited.device is None:
        return None
    on_path, factor = limited.on_path(facts.path), limited.in_tf32
    saved = ceil((on_path * (1 - factor)).sum())
    if not facts.is_notable(saved):
        return None
    on_path_ns, device = int(on_path[factor < 1].sum()), limited.device
    times = device.matrix_tflops["tf32"] / device.matrix_tflops["float"]
    evidence = {"on_path_ns": on_path_ns, "device": device.name, "times_as_fast": round(times, 2)}
    return Fired(evidence, "medium", saved, {"times": times})


def _tf32_at_most(facts: PathFacts, _: Evidence) -> int:
    limited = work_limits(facts)
    return 0 if limited is None else facts.priced.of_work(limited.groups.work.row, 1 - limited.in_tf32)


def _in_tf32(facts: PathFacts, _: Evidence) -> Change:
    limited = work_limits(facts)
    if limited is None:
        raise QueryError("the limits of the GPU are not known")
    return scale_activities(limited.groups.work.row, limited.in_tf32)


@memoized
def fusible_chains(facts: PathFacts) -> FusionChains | None:
    """Return the chains that could be fused; ``None`` where shapes were not recorded, or are not worth reading."""
    if not _reads_shapes(facts):
        return None
    from hta_graph.roofline.activity_groups import operator_activities  # late: most answers need no cost models
    from hta_graph.roofline.fusion import fusion_chains

    return fusion_chains(facts.graph) if operator_activities(facts.graph).have_shapes else None


def unfused_chains(facts: PathFacts) -> Fired | None:
    """Operators that follow each other read back what the one before wrote: one kernel would keep it on the chip."""
    chains = fusible_chains(facts)
    if chains is None:
        return _unfused_kernels(facts)
    place = np.searchsorted(activities(facts.graph).row, facts.work.row)
    on_path, number = facts.on_path(facts.work.row), chains.chain[place]
    less, chosen = on_path * (1 - chains.factor[place]), (number >= 0) & (on_path > 0)
    if not facts.is_notable(ceil(less.sum())):
        return None
    own, time_ns = distinct(number[chosen]), int(on_path[chosen].sum())
    sequences = _largest_sequences(chains, number[chosen], on_path[chosen], less[chosen])
    moved, least = int(chains.moved[own].sum()), int(chains.least[own].sum())
    evidence = {
        "kernels": int(chosen.sum()), "chains": len(own), "time_ns": time_ns, "moved_bytes": moved,
        "least_bytes": least, "largest": sequences[:3],
    }  # fmt: skip
    most = on_path * (1 - chains.least_factor[place])
    between = facts.owned_by(facts.event_mask(facts.work.row[chosen & ~chains.is_first[place]]))
    between &= facts.segments_in_classes(BoundBy.GPU_KERNEL_KERNEL_OVERHEAD)
    names = [name.removeprefix("aten::") for name in sequences[0]["operators"]]
    said = {
        "are_chains": True, "times": sequences[0]["chains"],
        "operators": " > ".join(names if len(names) <= MOST_OPERATORS else [*names[:MOST_OPERATORS], "…"]),
    }  # fmt: skip
    return Fired(evidence, "medium", ceil(most.sum()) + facts.time_of(between), said)


MOST_OPERATORS = 8
"""How many operators of a chain are named."""


def _largest_sequences(chains: FusionChains, number: Ints, time: Ints, saved: Floats) -> list[dict[str, Any]]:
    """Add up chains of the same operators, what saves most first."""
    times, saves = (np.bincount(number, weights=column) for column in (time, saved))
    found: dict[tuple[str, ...], list[float]] = {}
    for at in distinct(number).tolist():
        sums = found.setdefault(chains.names[at], [0, 0, 0])
        sums[:] = sums[0] + 1, sums[1] + times[at], sums[2] + saves[at]
    ordered = sorted(found.items(), key=lambda item: -item[1][2])
    return [
        {"operators": list(names), "chains": int(count), "time_ns": int(ns), "fusing_saves_ns": int(less)}
        for names, (count, ns, less) in ordered
    ]


def unfused_kernels_of(facts: PathFacts) -> tuple[Ids, Ints, Ints]:
    """Return the kernels of single operators that follow another on their stream, their time on the path, their run.

    What one kernel of a run would take is at least what the longest of them takes.
    """
    work = facts.work.take(np.argsort(facts.work.lane, kind="stable"))
    eager = facts.graph.event_flags.eager_kernel[work.row]
    run = np.cumsum(first_of_runs(eager, work.lane)) - 1
    several = eager & (np.bincount(run, minlength=1)[run] > 1)
    return work.row[several], facts.on_path(work.row[several]), run[several]


def _unfused_kernels(facts: PathFacts) -> Fired | None:
    """Say the same by names of kernels, where no shapes show what fusing saves: at most all but the longest."""
    if not _reads_shapes(facts):
        return None
    rows, on_path, run = unfused_kernels_of(facts)
    longest = np.maximum.reduceat(on_path, np.flatnonzero(first_of_runs(run))) if len(rows) else on_path
    saved, count = int(on_path.sum() - longest.sum()), int(np.count_nonzero(on_path))
    if not facts.is_notable(saved):
        return None
    time_ns = int(on_path.sum())
    evidence = {"kernels": count, "time_ns": time_ns, "moved_bytes": None, "least_bytes": None}
    return Fired(evidence, "low", saved, {"are_chains": False, "chains": None, "operators": None, "times": None})


def _fusing_at_most(facts: PathFacts, _: Evidence) -> int:
    """Fusing shortens kernels, and removes launches and time between them, in which the GPU may compute nothing."""
    chains = fusible_chains(facts)
    if chains is None:
        return facts.priced.of_work(unfused_kernels_of(facts)[0])
    of_kernels = facts.priced.of_work(activities(facts.graph).row, 1 - chains.least_factor)
    return min(of_kernels + facts.priced.not_computing_ns, facts.priced.length_ns)


def _fused(facts: PathFacts, _: Evidence) -> Change:
    """Let chains move what one kernel moves for sure, without the time between their kernels; launches stay."""
    chains, rows = fusible_chains(facts), activities(facts.graph).row
    if chains is None:
        raise QueryError("shapes are not recorded")
    inner = facts.event_mask(rows[(chains.chain >= 0) & ~chains.is_first])
    between = with_factor(
        lambda base: (
            take_or(inner, base.parts.owner, otherwise=False) & (base.parts.bound == BoundBy.GPU_KERNEL_KERNEL_OVERHEAD)
        )
    )
    shorter = scale_activities(rows, chains.factor)

    def change(draft: ModifiedWindow) -> None:
        shorter(draft)
        between(draft)

    return change


KERNELS = (
    Rule(
        "far_from_limit", "gpu", far_from_limit,
        action="{is_no_product:+Fuse {operator:name} with its neighbors (torch.compile), or check the layout of its "
        "inputs}{small:+Batch more of {operator:name}, or merge the products}{odd:+Pad {odd} of {operator:name} to a "
        "multiple of {multiple}}{is_unknown:+Try another shape or another kernel for {operator:name}}",
        why="{operator:name} ({inputs:name}) takes {on_path_ns:part} of the path in {calls:#call} and reaches "
        "{share:share} of the {is_memory:+memory}{is_memory:-compute} limit of {device}{small:+: {small} = {side} "
        "leaves most of the GPU's matrix units unused}{odd:+: {odd} = {side} is not a multiple of {multiple}, so its "
        "rows are not aligned}.",
        change="{operator:name} nearer its limit",
        bound=_operator_at_most,
        remedy=_near_limit,
    ),
    Rule(
        "float32_products", "gpu", float32_products,
        action="Use TF32 if its precision is sufficient: "
        'torch.set_float32_matmul_precision("high"), or torch.autocast',
        why="Float32 matrix products take {on_path_ns:part} of the path. {device} computes them {times:.0f} times as "
        "fast in TF32. For convolutions, set torch.backends.cudnn.allow_tf32.",
        change="matrix products in TF32",
        bound=_tf32_at_most,
        remedy=_in_tf32,
    ),
    Rule(
        "unfused_chains", "gpu", unfused_chains,
        action="Fuse {are_chains:+chains of }elementwise and normalization operators (torch.compile, or fused kernels)",
        why="{kernels:#kernel} {are_chains:+in {chains:#chain}}{are_chains:-of single operators directly follow each "
        "other and} take {time_ns:part} of the path{are_chains:+ and move {moved_bytes:bytes}; fused, they need to "
        "move {least_bytes:bytes}. Largest chain: {operators:name} ({times:#time}). Which tensors are shared is "
        "inferred from shapes.}{are_chains:-. Record with record_shapes=True to see how much fusing them saves.}",
        change="fused operators",
        bound=_fusing_at_most,
        remedy=_fused,
    ),
)  # fmt: skip
"""Rules of advice about kernels, in the order in which they are asked."""
