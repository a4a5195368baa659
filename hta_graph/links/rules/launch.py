"""launch: an activity starts after the call that launched it starts."""

from __future__ import annotations

import numpy as np

from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.points import start_point
from hta_graph.links.context import LinkContext
from hta_graph.model import EdgeKind

__all__ = ["launch"]


def launch(context: LinkContext) -> EdgeTable:
    """Link the start of a call to the start of every activity with its correlation: one to many, whatever its name.

    Graph launches own hundreds of activities; a list of launching names would miss them (HTA#290, kineto#1467).
    """
    launched = context.launch_call >= 0
    context.notes["activities_without_launch"] = int(np.count_nonzero(~launched))
    calls = context.launch_call[launched]
    return EdgeTable.of_kind(EdgeKind.LAUNCH, start_point(calls), start_point(context.activities[launched]))
