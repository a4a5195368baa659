"""How a drawing stays small: bars shorter than a resolution become one for each stretch of it, and that is said."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.arrays import Columns, first_of_runs, run_numbers, summed_by
from hta_graph.model import Bools, Ids, Ints

__all__ = ["TimelineBars", "merge_to_limit"]

FINEST_NS = 16


@dataclass(frozen=True, eq=False)
class TimelineBars(Columns):
    """What is drawn: bars on tracks, in order of track, group, ``on_path`` and start; times in ns.

    ``group`` is the colour. A bar that stands for ``count`` rows is filled for ``busy`` of its time, and its ``name``
    (a code) and ``index`` (an event's; -1: none) are those of the longest of them.
    """

    track: Ids
    group: Ids
    on_path: Bools
    start: Ints
    end: Ints
    busy: Ints
    count: Ints
    name: Ids
    index: Ints

    @property
    def series(self) -> Ints:
        """Number the runs of bars that share track, group and ``on_path``; those of a series are in order of time."""
        return run_numbers(self.track, self.group, self.on_path)

    def in_order(self) -> TimelineBars:
        """Sort the bars."""
        return self.take(np.lexsort((self.end, self.start, self.on_path, self.group, self.track)))


def merge_to_limit(bars: TimelineBars, limit: int, finest_ns: int = FINEST_NS) -> tuple[TimelineBars, int]:
    """Merge the shortest bars until about ``limit`` are left; return also the resolution (ns, 0: all are there).

    The first resolution that is tried is ``finest_ns``. Every series keeps its time to the nanosecond: the sum of
    ``busy`` stays what it was.
    """
    if len(bars) <= limit:
        return bars, 0
    series, resolution = bars.series, max(finest_ns, FINEST_NS)
    while _merged_size(bars, series, resolution) > limit and resolution < int(bars.end.max() - bars.start.min()):
        resolution = resolution * 5 // 4
    return _merge_below(bars, series, resolution), resolution


def _cells(bars: TimelineBars, series: Ints, resolution: int) -> Ints:
    """Number what is merged into one: short bars of a series that start in one stretch; a long bar is alone."""
    short = bars.end - bars.start < resolution
    stretch = np.where(short, bars.start // resolution, -1 - np.arange(len(bars)))
    return run_numbers(series, stretch)


def _merged_size(bars: TimelineBars, series: Ints, resolution: int) -> int:
    """Count the bars that a resolution leaves."""
    return int(_cells(bars, series, resolution)[-1]) + 1


def _merge_below(bars: TimelineBars, series: Ints, resolution: int) -> TimelineBars:
    """Merge the bars that are shorter than a resolution."""
    cell = _cells(bars, series, resolution)
    first = np.flatnonzero(first_of_runs(cell))
    # The longest bar of a cell lends it its name.
    longest = np.lexsort((-bars.busy, cell))[first]
    return TimelineBars(
        track=bars.track[first],
        group=bars.group[first],
        on_path=bars.on_path[first],
        start=bars.start[first],
        end=np.maximum.reduceat(bars.end, first),
        busy=summed_by(cell, bars.busy, len(first)),
        count=summed_by(cell, bars.count, len(first)),
        name=bars.name[longest],
        index=bars.index[longest],
    )
