"""Facts about the host: silences in which it may poll, waits that the path passes, launches that it waits for.

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

from dataclasses import dataclass

import numpy as np

from analyses.advice.facts import HOST_CLASSES, TINY_KERNEL_NS, PathFacts
from analyses.advice.rule import Fired
from hta_graph.base.arrays import Columns, first_of_runs, last_of_runs
from hta_graph.graph.memo import memoized
from hta_graph.model import RETURNS, ROLE, Bools, BoundBy, EdgeRole, EventKind, Ids, Ints
from hta_graph.paths.intervals import Intervals

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
def host_may_poll(facts: PathFacts) -> Fired | None:
    """Long silences of the host end with the GPU's work, again and again: it may wait in a way that leaves no row."""
    silent_ns, covered_ns, count = _silences(facts)
    if not facts.is_notable(covered_ns, POLLING_SHARE) or 2 * covered_ns < silent_ns or count < FEWEST_SILENCES:
        return None
    evidence = {
        "covered_silence_ns": covered_ns, "covered_silences": count, "silence_ns": silent_ns,
        "gpu_idle_ns": facts.gpu_idle_ns,
    }  # fmt: skip
    return Fired(evidence, "low")


def may_be_polling(facts: PathFacts) -> bool:
    """Return whether advice about the host's own work would be doubtful."""
    return host_may_poll(facts) is not None


def captures_graph(facts: PathFacts) -> bool:
    """Return whether a graph is captured in the window: what the host does then, it does once."""
    begins, window = facts.graph.event_table.start[facts.graph.event_flags.capture_call], facts.path.window
    return bool(((begins >= window.start_ns) & (begins < window.end_ns)).any())


@memoized
def gpu_busy_meanwhile(facts: PathFacts) -> Fired | None:
    """The path is on the host, and yet the GPU is idle for far less: a faster host gains that much only."""
    host_ns, idle_ns = facts.host_ns, facts.gpu_idle_ns
    if not facts.is_notable(host_ns, HOST_SHARE) or idle_ns >= GPU_IDLE_SHARE * host_ns or host_may_poll(facts):
        return None
    beside_ns = int(facts.gpu_busy_during(facts.segments_in_classes(*HOST_CLASSES)).sum())
    evidence = {"host_ns": host_ns, "gpu_busy_meanwhile_ns": beside_ns, "gpu_idle_ns": idle_ns}
    return Fired(evidence, "medium", said={"share": facts.share(host_ns)})


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
    idle = _time_after(works.subtract(facts.busy_or_unknown), begin, resumed)
    host = _time_after(works, begin, back_on_gpu)
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
    synchronises = (flags.blocking_call | flags.polling_call)[calls] & ~flags.synchronous_copy_call[calls]
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
