"""Rules about the host: it polls, waits for the GPU, launches too slowly, loads data, or idles between steps.

A host that waits cannot launch ahead, so that the GPU waits for it:

host     [launch][ aten::item ~~~~~~~~~~~~~~~~~~]   [op][launch]   [op][launch]
stream          [ kernel ~~~~~~~~~~~~~][copy]                  [ker]          [kernel ~~~~~
path                                         |-- idle --|
                                             |--------------- host ---------------|

Where the path is on the host while the GPU works, the host is just ahead of it, or it waits unseen:

host     |op|launch|........ silence ........|op|launch|      no operator, no call: Python, or a wait without a row
stream          [kernel ~~~~~~~~~~~~~~~~~~~~]       [kernel    the GPU works throughout; the host continues at its end
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analyses.advice.facts import HOST_CLASSES, TINY_KERNEL_NS, Confidence, PathFacts, PathFinding
from analyses.messages import advice, verdict
from hta_graph.base.arrays import Columns, distinct, first_of_runs, last_of_runs, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.job_graph import JobGraph
from hta_graph.graph.memo import memoized
from hta_graph.model import RETURNS, ROLE, Bools, BoundBy, EdgeRole, EventKind, Ids, Ints
from hta_graph.paths.host_pauses import device_launches
from hta_graph.paths.intervals import Intervals
from hta_graph.paths.window_ends import step_work_ends
from hta_graph.trace.profiler_names import CAPTURE_CALL, COMPILED_CODE
from hta_graph.what_if.reliability import path_waits_on_launched_work

SHORTEST_SILENCE_NS = 100_000
"""Python between two operators of a loop takes less, mostly 2 to 50 µs."""

GPU_BUSY_SHARE = 0.9
"""A silence is covered where the GPU works during at least this share of it: a host that waits continues at the end of
the work, so that only its own return is outside."""

POLLING_SHARE = 0.1
"""Covered silences are reported from this share of the window on."""

FEWEST_SILENCES = 3
"""One may be chance."""

HOST_SHARE = 0.3
"""The idle time of the GPU is compared with the time of the host from this share of the window on the host on."""

GPU_IDLE_SHARE = 1 / 3
"""The GPU is idle for far less where that is below a third of the time that the path is on the host."""


@memoized
def host_may_poll(facts: PathFacts) -> PathFinding | None:
    """Long silences of the host end with the GPU's work, again and again: it may wait in a way that leaves no row."""
    silent_ns, covered_ns, count = _silences(facts)
    if not facts.is_notable(covered_ns, POLLING_SHARE) or 2 * covered_ns < silent_ns or count < FEWEST_SILENCES:
        return None
    evidence = {
        "covered_silence_ns": covered_ns, "covered_silences": count, "silence_ns": silent_ns,
        "gpu_idle_ns": facts.gpu_idle_ns,
    }  # fmt: skip
    return PathFinding(verdict.host_may_poll(facts.timed(covered_ns)), evidence, "low")


def may_be_polling(facts: PathFacts) -> bool:
    """Return whether advice about the host's own work would be doubtful."""
    return host_may_poll(facts) is not None


@memoized
def gpu_busy_meanwhile(facts: PathFacts) -> PathFinding | None:
    """The path is on the host, and yet the GPU is idle for far less: a faster host gains that much only."""
    host_ns, idle_ns = facts.host_ns, facts.gpu_idle_ns
    if not facts.is_notable(host_ns, HOST_SHARE) or idle_ns >= GPU_IDLE_SHARE * host_ns or host_may_poll(facts):
        return None
    beside_ns = int(facts.gpu_busy_during(facts.segments_in_classes(*HOST_CLASSES)).sum())
    evidence = {
        "host_ns": host_ns, "gpu_busy_meanwhile_ns": beside_ns, "gpu_idle_ns": idle_ns,
    }  # fmt: skip
    text = verdict.gpu_busy_meanwhile(facts.share(host_ns), facts.timed(idle_ns))
    return PathFinding(text, evidence, "medium")


def _silences(facts: PathFacts) -> tuple[int, int, int]:
    """Return how long the host's long silences on the path are, those during which the GPU works, and their number."""
    pieces = facts.path.segment_table
    is_silent = facts.segments_in_classes(BoundBy.CPU_GAP)
    # Its owner may change in the middle: it is one silence as long as nothing else comes between.
    first = np.flatnonzero(first_of_runs(is_silent) & is_silent)
    last = np.flatnonzero(last_of_runs(is_silent) & is_silent)
    start, end = pieces.start[first], pieces.end[last]
    is_long = end - start >= SHORTEST_SILENCE_NS
    start, end = start[is_long], end[is_long]
    covered = facts.busy.covered_until(end) - facts.busy.covered_until(start) >= GPU_BUSY_SHARE * (end - start)
    return int((end - start).sum()), int((end - start)[covered].sum()), int(covered.sum())


GPU_WORK_CLASSES = (
    BoundBy.GPU_COMPUTE_BOUND,
    BoundBy.GPU_COMMUNICATION_BOUND,
    BoundBy.GPU_MEMORY_BOUND,
    BoundBy.GPU_KERNEL_KERNEL_OVERHEAD,
)
WAIT_LAGS = (BoundBy.SYNC_OVERHEAD, BoundBy.GPU_KERNEL_LAUNCH_OVERHEAD)
"""A call that does not wait returns at once, and what was launched ahead begins without the lag of its launch."""


@dataclass(frozen=True, eq=False)
class HostWaits(Columns):
    """Waits of the host that the path passes, in order of time: the call, whether a rule inferred it.

    ``begin`` is when the work ended that was waited for; ``host`` is how long the path then stays on the host and
    ``idle`` for how much of that no stream runs anything (ns): an instant counts for one wait, and none in which the
    host loads data: that is another rule's. ``reads`` marks those with which the host gets values from the GPU,
    ``copies`` the other ones that hold a copy; the rest are explicit synchronization.
    """

    call: Ids
    inferred: Bools
    begin: Ints
    idle: Ints
    host: Ints
    reads: Bools
    copies: Bools


@memoized
def host_waits(facts: PathFacts) -> HostWaits:
    """Find the waits, and what the host does after each until the path is on the GPU again."""
    chain, edges, window = facts.path.chain, facts.graph.edge_table, facts.path.window
    kinds = edges.kind[chain.edges]
    waits = facts.graph.edges_at(chain.edges[np.isin(kinds, RETURNS)][::-1])
    waits = waits.take((waits.target_ns > window.start_ns) & (waits.target_ns <= window.end_ns))
    if not len(waits):
        return HostWaits.empty()
    works = facts.intervals_of(facts.segments_in_classes(BoundBy.CPU_BOUND, BoundBy.CPU_GAP, BoundBy.SYNC_OVERHEAD))
    begin = np.minimum(waits.source_ns, waits.target_ns).clip(min=window.start_ns)
    launched = facts.graph.edges_at(chain.edges[ROLE[kinds] == EdgeRole.LAUNCH]).target_ns
    back_on_gpu = _first_after(waits.target_ns, launched, window.end_ns)
    resumed = np.minimum(_first_after(waits.target_ns, facts.work.start, window.end_ns), back_on_gpu)
    idle, host = _time_after(works.subtract(facts.busy), begin, resumed), _time_after(works, begin, back_on_gpu)
    return HostWaits(waits.target, waits.inferred, begin, idle, host, *classify_waits(facts, waits.target))


def _time_after(when: Intervals, begin: Ints, end: Ints) -> Ints:
    """Return how much of some times lies in each span (ns) and in no earlier one; spans are in order of begin."""
    reached = np.maximum.accumulate(end)
    since = np.maximum(begin, np.append(begin[:1], reached[:-1]))
    found: Ints = np.maximum(when.covered_until(end) - when.covered_until(since), 0)
    return found


def saved_by_running_ahead(facts: PathFacts, removed: Bools) -> int:
    """Return what the path would be shorter (ns) if the host did not wait where ``removed``, and launched ahead.

        with waits     host h1 | GPU g1 | host h2 | GPU g2        h1 + g1 + h2 + g2
        without        host h1 | host h2 |                        h1 + max(g1, h2) + g2
                               | GPU g1    | GPU g2

    The waits that stay divide the path; between two of them, work k begins at the earliest after all host time before
    it, and all GPU time from k on follows.
    """
    if not removed.any():
        return 0
    host, gpu, _ = _times_until_waits(facts)
    gpu_before = np.append(0, gpu[:-1])
    first, last = _work_between_remaining_waits(removed)
    longest = np.maximum.reduceat(host - gpu_before, first)
    saved = int((host[last] - gpu_before[first] - longest).sum())
    return min(saved, facts.busiest_stream_idle_ns)


def saved_without_waits(facts: PathFacts, removed: Bools) -> int:
    """Return :func:`saved_by_running_ahead` and what goes with the waits (ns): lags, values that are copied."""
    *_, gone = _times_until_waits(facts)
    first, last = _work_between_remaining_waits(removed)
    itself = np.where(last > first, gone[last] - np.append(0, gone[:-1])[first], 0)
    return min(saved_by_running_ahead(facts, removed) + int(itself.sum()), facts.busiest_stream_idle_ns)


def _work_between_remaining_waits(removed: Bools) -> tuple[Ints, Ints]:
    """Return the first and the last work between each two waits that stay."""
    first = np.flatnonzero(np.append(True, ~removed))
    return first, np.append(first[1:], len(removed) + 1) - 1


@memoized
def _times_until_waits(facts: PathFacts) -> tuple[Ints, Ints, Ints]:
    """Return the host's time, the GPU's, and that of the waits themselves (ns) until each wait and the window's end."""
    moments = np.append(host_waits(facts).begin, facts.path.window.end_ns)
    copied = facts.segments_in_classes(BoundBy.GPU_MEMORY_BOUND, BoundBy.GPU_KERNEL_KERNEL_OVERHEAD)
    copied &= facts.owned_by(facts.graph.event_flags.copies_to_host)
    gone = facts.segments_in_classes(*WAIT_LAGS) | copied
    kinds = (facts.segments_in_classes(*HOST_CLASSES), facts.segments_in_classes(*GPU_WORK_CLASSES) & ~copied, gone)
    host, gpu, itself = (facts.intervals_of(chosen).covered_until(moments) for chosen in kinds)
    return host, gpu, itself


def _first_after(times: Ints, moments: Ints, otherwise: int) -> Ints:
    """Return the first moment at or after each time; none later than ``otherwise``."""
    ordered = np.append(np.sort(moments[moments < otherwise]), otherwise)
    found: Ints = ordered[np.searchsorted(ordered[:-1], times)]
    return found


def classify_waits(facts: PathFacts, calls: Ids) -> tuple[Bools, Bools]:
    """Mark the calls with which the host gets values, and the other ones that hold a copy."""
    flags, reads = facts.graph.event_flags, _copies_to_host(facts, calls)
    for level in facts.operators_around(calls):
        reads |= (level >= 0) & flags.reads_values[level]
    synchronises = flags.blocking_call[calls] & ~flags.synchronous_copy_call[calls]
    inside_operator = facts.graph.operator_around[calls] >= 0
    return reads, ~reads & (inside_operator | ~synchronises)


def _copies_to_host(facts: PathFacts, calls: Ids) -> Bools:
    """Mark the calls that copy from a GPU to the host, or whose operator made such a copy before."""
    launching, around = facts.graph.launching_call, facts.graph.operator_around
    copying = launching[facts.graph.event_flags.copies_to_host]
    makers = around[copying[copying >= 0]]
    return facts.event_mask(copying)[calls] | (facts.event_mask(makers)[around[calls]] & (around[calls] >= 0))


def blocks_on_upload(facts: PathFacts, calls: Ids) -> Bools:
    """Mark the calls that copy to a GPU from pageable memory, or whose operator made such a copy before."""
    return _blocks_on(facts, calls, facts.graph.event_flags.pageable_upload)


def waits_for_pinned_upload(facts: PathFacts, calls: Ids) -> Bools:
    """Mark those that do so from pinned memory, or from memory whose kind is not recorded."""
    flags = facts.graph.event_flags
    return _blocks_on(facts, calls, flags.upload & ~flags.pageable_upload) & ~blocks_on_upload(facts, calls)


def _blocks_on(facts: PathFacts, calls: Ids, copies: Bools) -> Bools:
    """Mark the calls that launch one of some copies, or whose operator made such a copy before."""
    around = facts.graph.operator_around
    copying = facts.graph.launching_call[copies]
    copying = copying[copying >= 0]
    operators = around[calls]
    return facts.event_mask(copying)[calls] | (facts.event_mask(around[copying])[operators] & (operators >= 0))


LAUNCHING_SHARE = 0.2
"""The least share of a window: less is the prologue of a step, not its rhythm."""

FEWEST_LAUNCHES = 50
"""Fewer launches are no rhythm."""

LONGEST_PER_LAUNCH_NS = 250_000
"""An operator of PyTorch costs the host 5 to 100 µs, with hooks and a profiler some more; above this the host does
something else than launching."""

FEWEST_TINY = 100


def launch_bound(facts: PathFacts) -> PathFinding | None:
    """The host launches work more slowly than the GPU does it: CUDA graphs, torch.compile, larger batches."""
    pieces, graph = facts.path.segment_table, facts.graph
    on_host = facts.segments_in_classes(BoundBy.CPU_BOUND, BoundBy.CPU_GAP) & (facts.pause_times < facts.lengths)
    launching_ns = facts.time_of(on_host) - int(facts.pause_times[on_host].sum())
    # After a wait the GPU is idle for another reason, which other rules report.
    host_ns = launching_ns - int(host_waits(facts).idle.sum())
    saved = min(host_ns, facts.busiest_stream_idle_ns)
    if not facts.is_notable(host_ns, LAUNCHING_SHARE) or not facts.is_notable(saved) or may_be_polling(facts):
        return None
    # A GPU that does not start what it was given is not waiting for the host: others may have it meanwhile.
    if len(graph.rank_graphs) == 1 and path_waits_on_launched_work(facts.path):
        return None
    own = facts.work.take(facts.work.call >= 0)
    when, events = facts.intervals_of(on_host), graph.event_table
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
    said = advice.launch_bound(
        facts.main_rank(on_host), per_launch, calls, typical, len(host_waits(facts)),
        is_compiled=bool(graph.trace.matching_names(COMPILED_CODE).any()),
    )  # fmt: skip
    # A relieved host is faster after waits, too, and launches that wait for nothing have no lag.
    most = launching_ns + facts.class_ns(BoundBy.GPU_KERNEL_LAUNCH_OVERHEAD)
    confidence: Confidence = "low" if gpu_busy_meanwhile(facts) else "medium" if facts.has_stacks else "high"
    return PathFinding.of_advice(said, evidence, confidence, min(most, facts.busiest_stream_idle_ns))


def host_pauses(facts: PathFacts) -> PathFinding | None:
    """The host launches nothing for long while the GPU is idle: CUDA graphs do not help."""
    # What the driver does once, or to get memory, other rules report.
    pausing = (facts.pause_times > 0) & ~facts.owned_by(facts.graph.event_table.kind == EventKind.RUNTIME)
    times = facts.pauses_of(pausing)
    time_ns = int(times.sum())
    saved = min(time_ns, facts.busiest_stream_idle_ns)
    if not facts.is_notable(saved) or may_be_polling(facts):
        return None
    evidence = {
        "pauses": len(times), "time_ns": time_ns, "longest_ns": int(times.max()),
        "largest": facts.largest_records(pausing),
    }  # fmt: skip
    silent = facts.segments_in_classes(BoundBy.CPU_GAP)
    is_silent = 2 * int(facts.pause_times[silent].sum()) > time_ns
    name = facts.name_around(pausing, facts.pause_times)
    said = advice.host_pauses(
        facts.lost(time_ns, facts.bounds.pauses_ns), len(times), int(times.min()), int(times.max()), name,
        stacks=facts.has_stacks or not is_silent, before=None if name else _launched_after_longest_pause(facts),
    )  # fmt: skip
    confidence: Confidence = "low" if gpu_busy_meanwhile(facts) else "medium"
    return PathFinding.of_advice(said, evidence, confidence, saved)


def _launched_after_longest_pause(facts: PathFacts) -> str | None:
    """Name the operator, or else the call, with which the longest pause of a rank's window ends."""
    window, events, graph = facts.path.window, facts.graph.event_table, facts.graph
    if isinstance(graph, JobGraph):  # the longest one may be on another rank than the path
        return None
    every = [of.pauses.clip(window.start_ns, window.end_ns) for of in device_launches(graph)]
    ends = np.concatenate([np.zeros(0, np.int64), *(of.end for of in every)])
    if not len(ends):
        return None
    longest = ends[int(np.argmax(np.concatenate([of.end - of.start for of in every])))]
    calls = np.flatnonzero((events.start == longest) & (events.kind == EventKind.RUNTIME))
    if not len(calls):
        return None
    operator = int(graph.outermost_operator[calls[0]])
    return graph.name_of(operator if operator >= 0 else int(calls[0]))


MOST_OF_PYTHON = 0.8
"""A frame with less of the Python on the path is not what a saving of all of it is about."""


def python_bound(facts: PathFacts) -> PathFinding | None:
    """Python that runs between operators delays the GPU: named by its frames, where they are recorded.

    While a graph is captured, nothing runs on the GPU, and replaying the graph runs no Python.
    """
    captures = not facts.has_gpu_rows and facts.graph.trace.matching_names(CAPTURE_CALL).any()
    if captures or not facts.has_stacks or may_be_polling(facts):
        return None
    pieces, kind = facts.path.segment_table, facts.graph.event_table.kind
    in_python = facts.segments_in_classes(BoundBy.CPU_GAP) & (pieces.event >= 0)
    in_python &= kind[pieces.event] == EventKind.PYTHON_FUNCTION
    # A frame may wait for what Gloo does on another thread, which is another rule's.
    in_python &= 2 * facts.times_during(in_python, facts.graph.event_flags.gloo_collective) < facts.lengths
    time_ns = facts.time_of(in_python)
    saved = min(time_ns, facts.busiest_stream_idle_ns)
    if not facts.is_notable(saved):
        return None
    evidence = {"python_ns": time_ns, "gpu_idle_ns": facts.gpu_idle_ns, "largest": facts.largest_records(in_python)}
    name, largest_ns, _ = facts.largest_names(in_python, 1)[0]
    is_most = largest_ns >= MOST_OF_PYTHON * time_ns
    said = advice.python_bound(facts.timed(time_ns), facts.main_rank(in_python), name, largest_ns, is_most=is_most)
    return PathFinding.of_advice(said, evidence, "low" if gpu_busy_meanwhile(facts) else "medium", saved)


def tiny_kernels_of(graph: DependencyGraph) -> Bools:
    """Mark the kernels below 10 µs that do not communicate."""
    events, flags = graph.event_table, graph.event_flags
    found: Bools = (events.kind == EventKind.KERNEL) & ~flags.communicates
    return found & (events.end - events.start < TINY_KERNEL_NS)


def tiny_kernels(facts: PathFacts) -> PathFinding | None:
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
    said = advice.tiny_kernels(count, TINY_KERNEL_NS, facts.timed(time_ns), between_ns)
    return PathFinding.of_advice(said, evidence, "medium", time_ns)


def values_read(facts: PathFacts) -> PathFinding | None:
    """The host reads what the GPU computed (``.item()``, ``nonzero``, ``.cpu()``) and cannot launch ahead meanwhile."""
    every = host_waits(facts)
    return _waiting_finding(facts, every, every.reads, advice.VALUES_READ)


FEWEST_BLOCKED = 20
BLOCKED_SHARE = 0.9
"""A setting holds for all launches; a program that synchronizes by itself does not do so after nearly each one."""


@dataclass(frozen=True)
class Blocked:
    """Launches of kernels in a window, those of them that the host waits for one by one, and how.

    ``calls`` are launching calls that return behind the end of their kernel; ``syncs`` are the first synchronizing
    calls behind launching ones.
    """

    launches: int
    calls: Ids
    syncs: Ids

    @property
    def count(self) -> int:
        """How many launches are waited for."""
        return max(len(self.calls), len(self.syncs))


@memoized
def blocked_launches(facts: PathFacts) -> Blocked | None:
    """Return the launches that are waited for one by one, if nearly all are.

    launch blocks      [launch ~~~~~~~~~~~~]..[launch ~~~~~~~~~~~~]     CUDA_LAUNCH_BLOCKING=1
    stream                [kernel ~~~~~~~~]      [kernel ~~~~~~~~]
    sync behind it     [launch][sync ~~~~~~]..[launch][sync ~~~~~~]     a wrapper that times each operator
    """
    events, work = facts.graph.event_table, facts.work
    kernels = work.take((work.call >= 0) & (events.kind[work.row] == EventKind.KERNEL))
    calls, counts = np.unique(kernels.call, return_counts=True)
    # A kernel of a few µs may end before its launch returns, and a graph is launched as a whole.
    ends = events.end[kernels.row]
    waits = (ends <= events.end[kernels.call]) & (events.start[kernels.call] <= events.start[kernels.row])
    long = (ends - events.start[kernels.row] >= TINY_KERNEL_NS) & (counts[np.searchsorted(calls, kernels.call)] == 1)
    if len(calls) < FEWEST_BLOCKED:
        return None
    blocked, syncs = kernels.call[waits & long], _syncs_behind(facts, calls.astype(np.int32))
    by_call = np.count_nonzero(long) >= FEWEST_BLOCKED and len(blocked) >= BLOCKED_SHARE * np.count_nonzero(long)
    by_sync = len(syncs) >= BLOCKED_SHARE * len(calls)
    none = np.zeros(0, np.int32)
    return Blocked(len(calls), blocked if by_call else none, syncs if by_sync else none) if by_call | by_sync else None


def _syncs_behind(facts: PathFacts, calls: Ids) -> Ids:
    """Return the first synchronizing call behind each launching call on its thread, before the next such call."""
    events = facts.graph.event_table
    rows = np.flatnonzero(facts.graph.event_flags.blocking_call & ~facts.graph.event_flags.synchronous_copy_call)
    both = np.concatenate([calls, rows])
    is_sync = np.repeat([False, True], [len(calls), len(rows)])
    order = np.lexsort((events.start[both], events.lane[both]))
    both, is_sync = both[order], is_sync[order]
    follows = is_sync[1:] & ~is_sync[:-1] & (events.lane[both[1:]] == events.lane[both[:-1]])
    found: Ids = both[1:][follows].astype(np.int32)
    return found


def synchronous_launches(facts: PathFacts) -> PathFinding | None:
    """The host waits for each kernel that it launches: a debug setting, or a wrapper that synchronizes."""
    blocked, saved = blocked_launches(facts), facts.busiest_stream_idle_ns
    if blocked is None or not facts.is_notable(saved):
        return None
    evidence = {
        "launches": blocked.launches, "blocking_calls": len(blocked.calls), "synchronized": len(blocked.syncs),
        "gpu_idle_ns": facts.gpu_idle_ns,
    }  # fmt: skip
    said = advice.synchronous_launches(
        blocked.count, blocked.launches, facts.timed(facts.gpu_idle_ns), is_setting=bool(len(blocked.calls)),
        on_amd=bool(facts.graph.event_flags.amd_call.any()),
    )  # fmt: skip
    return PathFinding.of_advice(said, evidence, "medium", saved)


def explicit_synchronisation(facts: PathFacts) -> PathFinding | None:
    """Synchronizing calls of the program itself keep the host from launching ahead."""
    if blocked_launches(facts):
        return None
    every = host_waits(facts)
    return _waiting_finding(facts, every, ~every.reads & ~every.copies, advice.SYNCHRONIZES)


def waits_of_all_kinds(facts: PathFacts) -> PathFinding | None:
    """No kind of wait alone costs much, since the others stay, but all together do."""
    every = host_waits(facts)
    kinds = (every.reads, every.copies, ~every.reads & ~every.copies)
    if any(facts.is_notable(saved_by_running_ahead(facts, kind)) for kind in kinds):
        return None
    return _waiting_finding(facts, every, np.ones(len(every), np.bool_), advice.WAITS)


def waits_of_window(facts: PathFacts) -> PathFinding | None:
    """Report all calls that wait for the GPU in the window that savings are of, whether its path passes them or not."""
    edges, bounds = facts.graph.edge_table, facts.priced
    waits = facts.graph.edges_at(np.flatnonzero(np.isin(edges.kind, RETURNS)).astype(np.int32))
    waits = waits.take((waits.target_ns > bounds.start_ns) & (waits.target_ns <= bounds.end_ns))
    if not len(waits) or may_be_polling(facts):
        return None
    calls, events = distinct(waits.target), facts.graph.event_table
    times = events.end[calls] - events.start[calls]
    evidence = {"waits": len(calls), "gpu_idle_ns": bounds.gpu_idle_ns, "sites": facts.sites(calls, times)}
    said = advice.waiting(advice.WAITS, len(calls), _site_text(evidence), None, loads=False)
    found = PathFinding.of_advice(said, evidence, "medium", bounds.running_ahead_ns)
    return replace(found, rule="waits_of_all_kinds")


def pageable_copies(facts: PathFacts) -> PathFinding | None:
    """Copies to the GPU from pageable memory block the host: pinned memory and ``non_blocking=True`` do not."""
    graph, pieces, every = facts.graph, facts.path.segment_table, host_waits(facts)
    copies = np.flatnonzero(graph.event_flags.pageable_upload)
    calls = graph.launching_call[copies]
    involved = facts.event_mask(np.append(copies, calls))
    # A lag of the launch is no copying.
    copying = facts.segments_in_classes(BoundBy.GPU_MEMORY_BOUND, BoundBy.CPU_BOUND, BoundBy.SYNC_OVERHEAD)
    copying &= facts.owned_by(involved)
    held = every.copies & blocks_on_upload(facts, every.call)
    waits, copying_ns = every.take(held), facts.time_of(copying)
    worth = min(copying_ns + saved_by_running_ahead(facts, held), facts.busiest_stream_idle_ns)
    if not facts.is_notable(worth) or may_be_polling(facts):
        return None
    idle_ns = int(waits.idle.sum())
    # A copy and its call are one copy; calls that are not in the file are -1.
    passed = distinct(pieces.event[copying])
    count = max(int(np.count_nonzero(np.isin(copies, passed) | np.isin(calls, passed[passed >= 0]))), len(waits))
    evidence = {
        "copies": count, "copying_ns": copying_ns, "waits": len(waits), "host_ns": int(waits.host.sum()),
        "gpu_idle_ns": idle_ns,
        "largest": facts.largest_records(copying), "sites": facts.sites(waits.call, waits.host),
    }  # fmt: skip
    lost = facts.lost(idle_ns, facts.gpu_idle_ns)
    said = advice.pageable_copies(count, _site_text(evidence), facts.timed(copying_ns), lost)
    saved = min(copying_ns + saved_without_waits(facts, held), facts.busiest_stream_idle_ns)
    return PathFinding.of_advice(said, evidence, _confidence(waits), saved)


def blocking_uploads(facts: PathFacts) -> PathFinding | None:
    """The host waits for copies from memory that is pinned, or may be: without ``non_blocking=True`` it does."""
    every = host_waits(facts)
    return _waiting_finding(facts, every, every.copies & waits_for_pinned_upload(facts, every.call), advice.UPLOADS)


def _waiting_finding(facts: PathFacts, every: HostWaits, chosen: Bools, kind: advice.Waiting) -> PathFinding | None:
    """Report waits without which the host could launch ahead, where that would hide enough of its work."""
    if not facts.is_notable(saved_by_running_ahead(facts, chosen)) or may_be_polling(facts):
        return None
    waits = every.take(chosen)
    idle_ns = int(waits.idle.sum())
    evidence = {
        "waits": len(waits), "host_ns": int(waits.host.sum()), "gpu_idle_ns": idle_ns,
        "sites": facts.sites(waits.call, waits.host),
    }  # fmt: skip
    saved = saved_without_waits(facts, chosen)
    loads = saved > idle_ns and facts.is_notable(facts.class_ns(BoundBy.DATA_LOADING))
    said = advice.waiting(kind, len(waits), _site_text(evidence), facts.lost(idle_ns, facts.gpu_idle_ns), loads=loads)
    return PathFinding.of_advice(said, evidence, _confidence(waits), saved)


def _site_text(evidence: Mapping[str, Any]) -> str:
    """Name the place where most of the time is lost."""
    sites = evidence["sites"]
    return advice.site(len(sites), sites[0]["site"], sites[0]["calls"]) if sites else ""


def _confidence(waits: HostWaits) -> Confidence:
    """Rate what rests on waits: those that a rule inferred are right nearly always, but not recorded."""
    return "medium" if waits.inferred.any() else "high"


UNLIKE_OTHERS = 5
"""The idle time of the GPU between steps counts from this multiple of the usual one inside steps on."""


def data_loading_exposed(facts: PathFacts) -> PathFinding | None:
    """The path waits for data: more worker processes, prefetching, cheaper transforms."""
    loads = facts.segments_in_classes(BoundBy.DATA_LOADING)
    time_ns = facts.time_of(loads)
    saved = min(time_ns, facts.busiest_stream_idle_ns)
    if not facts.is_notable(saved):
        return None
    largest = facts.largest_names(loads)
    evidence = {
        "loading_ns": time_ns, "gpu_busy_meanwhile_ns": int(facts.gpu_busy_during(loads).sum()),
        "largest": facts.largest_records(loads),
    }  # fmt: skip
    said = advice.data_loading_exposed(
        facts.timed(time_ns), facts.main_rank(loads), largest[0][0],
        in_process=bool(facts.graph.event_flags.loads_in_process.any()),
    )  # fmt: skip
    return PathFinding.of_advice(said, evidence, "high", saved)


def loading_of_window(facts: PathFacts) -> PathFinding | None:
    """Report data loading by its rows, for windows whose path does not wait for it: it may delay the next launches."""
    graph, bounds = facts.graph, facts.priced
    rows = np.flatnonzero(graph.event_flags.loads_data(facts.path.data_load))
    rows = rows[(graph.event_table.end[rows] > bounds.host_start_ns) & (graph.event_table.start[rows] < bounds.end_ns)]
    most_ns = bounds.data_loading_ns(facts.path.data_load)
    if not len(rows) or not facts.is_worth(most_ns):
        return None
    longest = int(rows[np.argmax(graph.event_table.end[rows] - graph.event_table.start[rows])])
    evidence = {"loading_ns": most_ns, "largest": []}
    said = advice.data_loading_exposed(
        None, None, graph.name_of(longest), in_process=bool(graph.event_flags.loads_in_process.any())
    )
    found = PathFinding.of_advice(said, evidence, "high", most_ns)
    return replace(found, rule="data_loading_exposed")


def driver_allocations(facts: PathFacts) -> PathFinding | None:
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
    largest = facts.largest_names(chosen)
    rows = distinct(pieces.event[chosen])
    flags = facts.graph.event_flags
    releases, expands = int(flags.release_call[rows].sum()), bool(flags.segment_call[rows].any())
    pinning_ns = facts.time_of(chosen & facts.owned_by(flags.host_allocation_call))
    evidence = {
        "time_ns": time_ns, "calls": len(rows), "releases": releases, "expandable_segments": expands,
        "pinning_ns": pinning_ns,
        "sites": facts.sites(rows, events.end[rows] - events.start[rows]), "largest": facts.largest_records(chosen),
    }  # fmt: skip
    said = advice.driver_allocations(
        facts.timed(time_ns),
        facts.main_rank(chosen),
        len(rows),
        largest[0][0],
        releases,
        expands=expands,
        pins=2 * pinning_ns > time_ns,
    )
    return PathFinding.of_advice(said, evidence, "high", saved)


def idle_between_steps(facts: PathFacts) -> PathFinding | None:
    """Between the last work of the previous step and the first work of this one the GPU is idle."""
    bounds = _between_steps(facts)
    if bounds is None:
        return None
    begun, first = bounds
    idle_ns = first - begun - int(np.diff(facts.busy.covered_until(np.array([begun, first])))[0])
    others = facts.busy.gaps(first, facts.path.window.end_ns)
    usual_ns = int(np.median(others.end - others.start)) if len(others.start) else 0
    pieces = facts.path.segment_table
    inside = facts.segments_in_classes(*HOST_CLASSES) & (pieces.start < first) & (pieces.end > begun)
    loads = facts.segments_in_classes(BoundBy.DATA_LOADING)
    if (
        not facts.is_notable(idle_ns)
        or idle_ns < UNLIKE_OTHERS * usual_ns
        or 2 * facts.time_of(inside & loads) > idle_ns
    ):
        return None
    largest = facts.largest_names(inside & ~loads)
    if not largest:
        return None
    evidence = {
        "idle_ns": idle_ns, "usual_idle_ns": usual_ns,
        "largest": facts.largest_records(inside & ~loads),
    }  # fmt: skip
    said = advice.idle_between_steps(facts.timed(idle_ns), largest[0][0])
    return PathFinding.of_advice(said, evidence, "medium", min(idle_ns, facts.busiest_stream_idle_ns))


def _between_steps(facts: PathFacts) -> tuple[int, int] | None:
    """Return when all earlier steps' work ends and when this step's first begins (ns), cut to the window."""
    window, graph = facts.path.window, facts.graph
    place = [at for at, item in enumerate(graph.steps()) if item.number == window.step]
    if window.step is None or window.form == "cpu" or not place or not place[0]:
        return None
    item = graph.steps()[place[0]]
    calls = facts.work.call
    launched = take_or(graph.event_table.start, calls, otherwise=0)
    own = facts.work.start[(calls >= 0) & (launched >= item.start_ns) & (launched < item.end_ns)]
    # Of a job the window begins where the last rank's earlier work ends.
    of_job = len(graph.rank_graphs) > 1
    before = window.start_ns if of_job else int(step_work_ends(graph)[: place[0]].max())
    begun, first = max(before, window.start_ns), int(own.min(initial=window.end_ns))
    return (begun, first) if window.end_ns > first > begun else None
