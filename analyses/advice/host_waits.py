"""The waits of the host on a path, and what they cost: the host cannot launch ahead, so that the GPU waits for it.

host     [launch][ aten::item ~~~~~~~~~~~~~~~~~~]   [op][launch]   [op][launch]
stream          [ kernel ~~~~~~~~~~~~~][copy]                  [ker]          [kernel ~~~~~
path                                         |-- idle --|
                                             |--------------- host ---------------|
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analyses.advice.facts import HOST_CLASSES, PathFacts
from hta_graph.arrays import Columns
from hta_graph.graph.memo import memoized
from hta_graph.model import RETURNS, ROLE, Bools, BoundBy, EdgeRole, Ids, Ints

__all__ = [
    "HostWaits",
    "holds_upload",
    "host_waits",
    "kinds_of_waits",
    "saved_by_running_ahead",
    "saved_without_waits",
]


WORK_OF_GPU = (
    BoundBy.GPU_COMPUTE_BOUND,
    BoundBy.GPU_COMMUNICATION_BOUND,
    BoundBy.GPU_MEMORY_BOUND,
    BoundBy.GPU_KERNEL_KERNEL_OVERHEAD,
)
LAGS_OF_WAITS = (BoundBy.SYNC_OVERHEAD, BoundBy.GPU_KERNEL_LAUNCH_OVERHEAD)
"""A call that does not wait returns at once, and what was launched ahead begins without the lag of its launch."""


@dataclass(frozen=True, eq=False)
class HostWaits(Columns):
    """Waits of the host that the path passes, in order of time: the call, whether a rule inferred it.

    ``begin`` is when the work ended that was waited for; ``idle`` is how long the GPU then stands still and ``host``
    how long the path stays on the host (ns). ``reads`` marks those with which the host gets values from the GPU,
    ``copies`` the other ones that hold a copy; the rest are explicit synchronisations.
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
    works = facts.when(facts.in_classes(*HOST_CLASSES, BoundBy.SYNC_OVERHEAD))
    begin = np.minimum(waits.source_ns, waits.target_ns).clip(min=window.start_ns)
    launched = facts.graph.edges_at(chain.edges[ROLE[kinds] == EdgeRole.LAUNCH]).target_ns
    back_on_gpu = _first_after(waits.target_ns, launched, window.end_ns)
    resumed = np.minimum(_first_after(waits.target_ns, facts.work.start, window.end_ns), back_on_gpu)
    before = works.covered_until(begin)
    idle, host = works.covered_until(resumed) - before, works.covered_until(back_on_gpu) - before
    return HostWaits(waits.target, waits.inferred, begin, idle, host, *kinds_of_waits(facts, waits.target))


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
    first, last = _gaps_between_kept_waits(removed)
    longest = np.maximum.reduceat(host - gpu_before, first)
    saved = int((host[last] - gpu_before[first] - longest).sum())
    return min(saved, facts.standing_ns)


def saved_without_waits(facts: PathFacts, removed: Bools) -> int:
    """Return :func:`saved_by_running_ahead` and what goes with the waits (ns): lags, values that are copied."""
    *_, gone = _times_until_waits(facts)
    first, last = _gaps_between_kept_waits(removed)
    itself = np.where(last > first, gone[last] - np.append(0, gone[:-1])[first], 0)
    return min(saved_by_running_ahead(facts, removed) + int(itself.sum()), facts.standing_ns)


def _gaps_between_kept_waits(removed: Bools) -> tuple[Ints, Ints]:
    """Return the first and the last work of each stretch that waits which stay divide."""
    first = np.flatnonzero(np.append(True, ~removed))
    return first, np.append(first[1:], len(removed) + 1) - 1


@memoized
def _times_until_waits(facts: PathFacts) -> tuple[Ints, Ints, Ints]:
    """Return the host's time, the GPU's, and that of the waits themselves (ns) until each wait and the window's end."""
    moments = np.append(host_waits(facts).begin, facts.path.window.end_ns)
    copied = facts.in_classes(BoundBy.GPU_MEMORY_BOUND, BoundBy.GPU_KERNEL_KERNEL_OVERHEAD)
    copied &= facts.owned_by(facts.graph.marks.copies_to_host)
    gone = facts.in_classes(*LAGS_OF_WAITS) | copied
    kinds = (facts.in_classes(*HOST_CLASSES), facts.in_classes(*WORK_OF_GPU) & ~copied, gone)
    host, gpu, itself = (facts.when(chosen).covered_until(moments) for chosen in kinds)
    return host, gpu, itself


def _first_after(times: Ints, moments: Ints, otherwise: int) -> Ints:
    """Return the first moment at or after each time; none later than ``otherwise``."""
    ordered = np.append(np.sort(moments[moments < otherwise]), otherwise)
    found: Ints = ordered[np.searchsorted(ordered[:-1], times)]
    return found


def kinds_of_waits(facts: PathFacts, calls: Ids) -> tuple[Bools, Bools]:
    """Mark the calls with which the host gets values, and the other ones that hold a copy."""
    marks, reads = facts.graph.marks, _copies_to_host(facts, calls)
    for level in facts.operators_around(calls):
        reads |= (level >= 0) & marks.reads_values[level]
    synchronises = marks.blocking_call[calls] & ~marks.synchronous_copy_call[calls]
    inside_operator = facts.graph.operator_around[calls] >= 0
    return reads, ~reads & (inside_operator | ~synchronises)


def _copies_to_host(facts: PathFacts, calls: Ids) -> Bools:
    """Mark the calls that copy from a GPU to the host, or whose operator made such a copy before."""
    launching, around = facts.graph.launching_call, facts.graph.operator_around
    copying = launching[facts.graph.marks.copies_to_host]
    makers = around[copying[copying >= 0]]
    return facts.marked(copying)[calls] | (facts.marked(makers)[around[calls]] & (around[calls] >= 0))


def holds_upload(facts: PathFacts, calls: Ids) -> Bools:
    """Mark the calls that copy to a GPU from pageable memory, or whose operator made such a copy before."""
    around = facts.graph.operator_around
    copying = facts.graph.launching_call[facts.graph.marks.pageable_upload]
    copying = copying[copying >= 0]
    operators = around[calls]
    return facts.marked(copying)[calls] | (facts.marked(around[copying])[operators] & (operators >= 0))
