"""The copies and sets among GPU activities: their kinds, what they moved, and the rates at which they ran together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.activities import Activities, WorkType
from hta_graph.arrays import Columns, last_of_runs
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Bools, Floats, Ids, Ints
from hta_graph.trace.table import FASTEST_GBPS

__all__ = ["Copies", "RateSteps", "copies_of", "exact_running_sums", "rate_steps"]

SHORTEST_DRAWN_NS = 1_000
FINE, COARSE = 73, 30
"""Sums of rates count in 2^-73 and 2^-30 GB/s: exact for rates from 2^-20 (1 kB/s) to 2^23 GB/s."""


@dataclass(frozen=True)
class Copies:
    """Copies and sets as columns: row, times (ns), kind (a code into ``kinds``, which are in alphabetical order).

    ``bytes`` is -1 and ``rate`` (GB/s, as recorded) NaN where the trace does not say.
    """

    kinds: list[str]
    row: Ids
    lane: Ids
    start: Ints
    end: Ints
    kind: Ids
    bytes: Ints
    rate: Floats

    @property
    def drawn_end(self) -> Ints:
        """When each ends in a drawing: what takes no time on the trace's clock takes 1 µs, so that it shows."""
        return np.where(self.end > self.start, self.end, self.start + SHORTEST_DRAWN_NS)


@dataclass(frozen=True, eq=False)
class RateSteps(Columns):
    """The changes of the rates, kind by kind in order of time: from ``time`` (ns) on copies of a kind run at ``rate``.

    ``change`` counts what changes it: entry i of the copies starts (i), or ends (their number + i).
    """

    time: Ints
    kind: Ids
    rate: Floats
    change: Ints

    def last_of_each_instant(self) -> RateSteps:
        """Return one entry per kind and time."""
        return self.take(last_of_runs(self.time, self.kind))


def copies_of(graph: DependencyGraph, work: Activities) -> Copies:
    """Pick the copies and sets among activities."""
    chosen = work.take(work.type == WorkType.MEMORY)
    kinds, kind = graph.marks.copy_kinds(chosen.row)
    recorded, size = graph.trace.copies, len(graph.event_table)
    moved, rate = np.full(size, -1, np.int64), np.full(size, np.nan)
    moved[recorded.event], rate[recorded.event] = recorded.bytes, recorded.bandwidth
    bytes_ = moved[chosen.row]
    # Clocks that tick in microseconds print what is shorter as nothing.
    bytes_[bytes_ > FASTEST_GBPS * np.maximum(chosen.end - chosen.start, 1_000)] = -1
    return Copies(kinds, chosen.row, chosen.lane, chosen.start, chosen.end, kind, bytes_, rate[chosen.row])


def rate_steps(copies: Copies, end: Ints, rate: Floats, chosen: Bools | slice = slice(None)) -> RateSteps:
    """Add up the rates of the copies of each kind that run together; at one instant ends come before starts.

    Args:
        copies: the copies.
        end: when each ends.
        rate: the rate of each.
        chosen: which of them count.
    """
    start, kind = copies.start[chosen], copies.kind[chosen]
    times, kinds = np.concatenate([start, end[chosen]]), np.tile(kind, 2)
    is_start = np.repeat([True, False], len(start))
    # Ends before starts: a copy that ends as another starts never ran together with it.
    order = np.lexsort((is_start, times, kinds))
    sums = exact_running_sums(np.concatenate([rate[chosen], -rate[chosen]])[order])
    return RateSteps(times[order], kinds[order], sums, order)


def exact_running_sums(values: Floats) -> Floats:
    """Sum floats one after another without error: each sum is rounded once, so what cancels is 0.

    >>> exact_running_sums(np.array([0.1, 0.2, -0.1, -0.2])).tolist()
    [0.1, 0.30000000000000004, 0.2, 0.0]
    """
    # A float's running sum forgets small rates beside large ones; two integers of 64 bits hold all of both.
    fine, coarse = np.modf(values * 2.0**COARSE)
    high, low = np.cumsum(coarse.astype(np.int64)), np.cumsum((fine * 2.0 ** (FINE - COARSE)).astype(np.int64))
    sums: Floats = high / 2.0**COARSE + low / 2.0**FINE
    return sums
