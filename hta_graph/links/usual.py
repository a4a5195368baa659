"""Calls that took far longer than calls of their name usually do."""

from __future__ import annotations

import numpy as np

from hta_graph.links.blocking_copy import blocking_copy
from hta_graph.links.context import LinkContext
from hta_graph.model import Ids

__all__ = ["slow_calls"]

TIMES_USUAL = 5
LEAST_NS = 10_000


def slow_calls(context: LinkContext, calls: Ids, *, quantile: float = 0.5) -> Ids:
    """Return the calls that took at least five times what their name usually takes, and 10 µs, not held by a copy.

    Usual is the median, or a lower quantile where most calls may have waited.
    """
    events = context.trace.events
    name, length = events.name[calls], (events.end - events.start)[calls]
    usual = np.zeros(len(context.trace.names) + 1, np.int64)
    for code in np.unique(name).tolist():
        usual[code] = int(np.quantile(length[name == code], quantile))
    slow = (length >= TIMES_USUAL * usual[name]) & (length >= LEAST_NS)
    held = blocking_copy(context).target >> 1
    return calls[slow & ~np.isin(calls, held)]
