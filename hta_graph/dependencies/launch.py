"""launch: an activity starts after the call that launched it starts."""

from __future__ import annotations

import numpy as np

from hta_graph.dependencies.context import RuleContext
from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.points import start_point
from hta_graph.model import EdgeKind, Ints, Rule

__all__ = ["gpu_clock_behind", "launch"]

MIN_EARLY, MIN_EARLY_SHARE = 20, 0.2
"""So many launches, and such a share of all, show an offset of the clocks; fewer are single faults."""

BELIEVED_QUANTILE = 0.95
"""Of the early starts so many are believed."""


def launch(context: RuleContext) -> EdgeTable:
    """Link the start of a call to the start of every activity with its correlation: one to many, whatever its name.

    In a file without correlations a unique External id and the kernel's name stand for one; such edges are inferred.
    Graph launches own hundreds of activities; a list of launching names would miss them (HTA#290, kineto#1467).
    """
    launched = context.launch_call >= 0
    context.notes["activities_without_launch"] = int(np.count_nonzero(~launched))
    calls, work = context.launch_call[launched], context.activities[launched]
    start = context.trace.events.start
    context.notes["gpu_clock_behind_ns"] = gpu_clock_behind(start[calls] - start[work])
    by_name = context.trace.diagnostics["launches_by_external_id"] > 0
    rule = Rule.SAME_EXTERNAL_ID if by_name else Rule.RECORDED
    return EdgeTable.of_kind(EdgeKind.LAUNCH, start_point(calls), start_point(work), rule)


def gpu_clock_behind(early: Ints) -> int:
    """Return how far (ns) the GPU's clock is at least behind the host's; 0 where it is not, as far as can be seen.

    ``early`` is how long before its launch each activity is stamped. Nothing starts before its launch, so an offset
    lies behind it where many do:

        host    |launch|                    early = offset − launch latency, so that the largest ones come nearest
        GPU   [kernel                       to the offset; a few may be faults of their own

    >>> gpu_clock_behind(np.array([-5_000] * 30)), gpu_clock_behind(np.array([24_000] * 30 + [900_000, -80_000]))
    (0, 24000)
    """
    before = np.sort(early[early > 0])
    if len(before) < MIN_EARLY or MIN_EARLY_SHARE * len(early) > len(before):
        return 0
    return int(before[int(BELIEVED_QUANTILE * (len(before) - 1))])
