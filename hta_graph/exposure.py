"""How much of each GPU activity other work hides: what is hidden, what is exposed, what another one already exposes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.activities import Activities
from hta_graph.model import Ints
from hta_graph.paths.intervals import Intervals

__all__ = ["Exposure", "exposure"]


@dataclass(frozen=True)
class Exposure:
    """Per activity (ns): hidden + exposed + shared = its duration.

    ``hidden`` runs beside the work that hides; ``exposed`` does not; ``shared`` does not either, but is counted as the
    exposed time of another activity of the set that started earlier and still runs.
    """

    hidden: Ints
    exposed: Ints
    shared: Ints


def exposure(work: Activities, hiding: Intervals) -> Exposure:
    """Divide the time of each activity of a set so that no instant is exposed twice.

    The sum of ``exposed`` is the length of the set's union outside ``hiding``, to the nanosecond. Where several
    activities of the set run at once, the time belongs to the one that started first (of equal starts the one that
    comes first in the set).

    >>> from hta_graph.paths.intervals import union
    >>> rows = np.zeros(2, np.int32)
    >>> work = Activities(rows, np.array([0, 4]), np.array([6, 9]), rows, rows.astype(np.int8), rows)
    >>> exposure(work, union(np.array([8]), np.array([20])))
    Exposure(hidden=array([0, 1]), exposed=array([6, 2]), shared=array([0, 2]))
    """
    order = np.argsort(work.start, kind="stable")
    own_from = np.empty(len(work), np.int64)
    own_from[order] = _first_running_from(work.start[order], work.end[order])
    hidden = hiding.covered_until(work.end) - hiding.covered_until(work.start)
    exposed = work.end - own_from - (hiding.covered_until(work.end) - hiding.covered_until(own_from))
    return Exposure(hidden, exposed, work.end - work.start - hidden - exposed)


def _first_running_from(start: Ints, end: Ints) -> Ints:
    """Return when each activity, ordered by start, is the first of those running; its end if it never is."""
    if not len(start):
        return start
    # What began earlier owns the time until it ends; an activity is first from the moment at which all of that is over.
    latest = np.maximum.accumulate(end)
    before = np.append(start[:1], latest[:-1])
    free: Ints = np.clip(before, start, end)
    return free
