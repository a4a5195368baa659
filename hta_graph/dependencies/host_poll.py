"""host_poll: the host spins on memory until a running kernel has written it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.arrays import Columns, first_of_runs
from hta_graph.dependencies.context import RuleContext
from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.points import end_point, event_of, start_point
from hta_graph.model import EdgeKind, EventKind, Ids, Rule

__all__ = ["host_poll"]

SPIN_BEGINS_NS = 10_000
"""The thread begins to stand still within this time after the launch has returned."""

LAST_PART_NS = 100_000
"""It goes on in the last part of the kernel, which writes for the host before it ends."""

MIN_KERNEL_NS = 2 * LAST_PART_NS
"""Of a shorter kernel the last part says little: nearly any host would go on in it."""

MIN_SPINS, MIN_SPIN_SHARE = 3, 0.8
"""How many launches of a kernel a thread must have spun after, and which share of all its launches of that kernel."""


@dataclass(frozen=True, eq=False)
class _HostSilences(Columns):
    """Times in which a thread stands still: its points before and after, its launching call before that."""

    before: Ids
    after: Ids
    call: Ids


def host_poll(context: RuleContext) -> EdgeTable:
    """Link the start of a kernel to the point at which the host goes on that spun until the kernel let it.

        thread    [launch]__________________[next operator
        stream         [kernel~~~~~~~~~~~~~~~~~~]
                                            |---| at most 100 µs

    Spinning leaves no row, and one such silence may be chance. It counts where a thread stands still like this after
    nearly all its launches of kernels of one name: communication libraries wait so for sizes that a kernel receives
    (DeepEP's dispatch).
    """
    events, times = context.trace.events, context.timeline.times
    kernels, calls = _long_kernels(context)
    silences = _host_silences(context)
    silences = silences.take(np.isin(silences.call, calls))
    launch = np.searchsorted(calls, silences.call)
    kernel = kernels[launch]
    goes_on, end = times[silences.after], events.end[kernel]
    spins = times[silences.before] - events.end[silences.call] <= SPIN_BEGINS_NS
    # After the kernel's end nothing of it can let the host go on: that would be a synchronisation, or chance.
    spins &= (goes_on > events.start[kernel]) & (goes_on > end - LAST_PART_NS) & (goes_on <= end)
    # Of each kernel's launches by each thread: after how many does the thread spin?
    names, threads = events.name[kernels], events.lane[calls]
    group = np.unique(np.stack([names, threads]), axis=1, return_inverse=True)[1].reshape(-1)
    spun = np.bincount(group[launch[spins]], minlength=len(group))
    is_habit = (spun >= MIN_SPINS) & (spun >= MIN_SPIN_SHARE * np.bincount(group, minlength=len(group)))
    spins &= is_habit[group[launch]]
    source, target = start_point(kernel[spins]), silences.after[spins]
    return EdgeTable.of_kind(EdgeKind.HOST_POLL, source, target, Rule.SILENCE_UNTIL_KERNEL_END)


def _long_kernels(context: RuleContext) -> tuple[Ids, Ids]:
    """Return the kernels that are long enough, and the calls that launched them and nothing else, by call."""
    events = context.trace.events
    of_call, first, count = np.unique(context.launch_call, return_index=True, return_counts=True)
    kernel = context.activities[first]
    is_long = (events.kind[kernel] == EventKind.KERNEL) & (events.end[kernel] - events.start[kernel] >= MIN_KERNEL_NS)
    chosen = (of_call >= 0) & (count == 1) & is_long
    return kernel[chosen], of_call[chosen]


def _host_silences(context: RuleContext) -> _HostSilences:
    """Find where threads stand still, outside runtime calls, for as long as a host that spins."""
    calls, kind = context.timeline.calls, context.trace.events.kind
    within_a_lane = ~first_of_runs(context.trace.events.lane[calls.event])[1:]
    silent = np.flatnonzero(within_a_lane & (np.diff(calls.time) >= LAST_PART_NS))
    # A long runtime call waits inside the driver, which other rules explain; a host that spins is in none.
    silent = silent[(calls.owner[silent] < 0) | (kind[calls.owner[silent]] != EventKind.RUNTIME)]
    before, after = calls.points[silent], calls.points[silent + 1]
    launched = context.neighbouring_point(end_point(context.launches[0]), after, after=False)
    return _HostSilences(before, after, event_of(launched))
