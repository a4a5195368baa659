"""Recorded arrows between the nodes of CUDA graphs: a node ends before another one begins.

PyTorch's Cuspy recorder (torch/profiler/_cuspy/trace.py) draws one from each node to those that wait for it, in each
replay whose numbers it knows. An arrow names a process, a lane and a time, not a row. On a logical lane nodes of
several streams may end together: then the launch that both ends of the arrow belong to shows which are meant. Arrows
that still look alike lead between different nodes, first those between which events are recorded.

    lane 7    [A   ]            [C ]         A and B are nodes of one replay, B runs on stream 20
              [B        ]                    arrows: end of A → start of C, end of B → start of C
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hta_graph.base.arrays import expand_ranges, first_of_runs, last_at_most, occurrence_numbers
from hta_graph.model import ON_STREAMS, Bools, Ids, Ints, kind_mask
from hta_graph.trace.recorded import Arrow, FileColumns, Numbering

ROUNDED_NS = 1_000
"""Where no row ends at an arrow's time: floats of microseconds since 1970 keep a quarter of one."""
MOST_ALIKE = 32
"""Rows of a lane that end, or begin, at one time: of more no arrow shows which is meant."""


def node_rows(
    arrows: Iterable[Arrow], base_ns: int, columns: FileColumns, streams: Sequence[tuple[Any, ...]]
) -> tuple[Ints, Ints]:
    """Return the rows between which arrows lead: one pair each, in the order of their starts; -1 where none is known.

    Args:
        arrows: their starts and ends, whose times count from the base.
        base_ns: the base time.
        columns: the rows, in the order of the file.
        streams: device, context, stream, process and thread, as printed, of each stream's number.
    """
    pairs = _pairs_by_id(arrows)
    lanes = Numbering()
    lane_of_stream = lanes.codes(stream[3:5] for stream in streams)
    rows = np.flatnonzero(kind_mask(columns["kind"], ON_STREAMS) & (columns["correlation"] > 0))
    lane = lane_of_stream[columns["stream"][rows]]
    is_instant = columns["start"][rows] == columns["end"][rows]

    def side(key: str, ends: list[Arrow]) -> _Side:
        time = columns[key][rows]
        order = np.lexsort((time, lane))
        asked = np.array([lanes.get(arrow.thread, -1) for arrow in ends], np.int32)
        at = np.array([arrow.time for arrow in ends], np.int64) + base_ns
        return _Side(rows[order], lane[order], time[order], is_instant[order], asked, at)

    source, target = side("end", [pair[0] for pair in pairs]), side("start", [pair[1] for pair in pairs])
    found = np.full((2, len(pairs)), -1, np.int64)
    alike = occurrence_numbers(source.asked_lane, source.asked_time, target.asked_lane, target.asked_time)
    for tolerance in (0, ROUNDED_NS):
        which = np.flatnonzero(found[0] < 0)
        found[:, which] = _rows_of_one_launch(source, target, columns["correlation"], which, alike[which], tolerance)
    return found[0], found[1]


def _pairs_by_id(arrows: Iterable[Arrow]) -> list[tuple[Arrow, Arrow]]:
    """Pair starts and ends by id, whichever is earlier: an arrow may lead back in time."""
    by_id: dict[Any, tuple[list[Arrow], list[Arrow]]] = defaultdict(lambda: ([], []))
    for arrow in arrows:
        by_id[arrow.id][0 if arrow.is_start else 1].append(arrow)
    return [pair for starts, ends in by_id.values() for pair in zip(starts, ends, strict=False)]


@dataclass(frozen=True)
class _Side:
    """The rows by lane and the time that one side of arrows names; and the lane and time of that side of each arrow."""

    rows: Ints
    lane: Ids
    time: Ints
    is_instant: Bools
    asked_lane: Ids
    asked_time: Ints

    def candidates(self, arrows: Ints, tolerance: int) -> tuple[Ints, Ints]:
        """Return the first place among the rows that may be meant by each of some arrows, and how many may be."""
        asked, time = self.asked_lane[arrows], self.asked_time[arrows]
        first, past = (np.searchsorted(self.lane, asked, side=side) for side in ("left", "right"))
        low = last_at_most(self.time, first, past, time - tolerance - 1) + 1
        count = last_at_most(self.time, first, past, time + tolerance) + 1 - low
        return low, np.minimum(count, MOST_ALIKE)


def _rows_of_one_launch(
    source: _Side, target: _Side, correlation: Ints, arrows: Ints, alike: Ints, tolerance: int
) -> Ints:
    """Return for some arrows the two rows of one launch that stand nearest to their ends; -1 for none.

    Of arrows that are ``alike`` each has another number, and takes another of the pairs that may be meant.
    """
    found = np.full((2, len(arrows)), -1, np.int64)
    arrow, place = expand_ranges(*source.candidates(arrows, tolerance))
    low, count = target.candidates(arrows, tolerance)
    pair, other = expand_ranges(low[arrow], count[arrow])
    arrow, place = arrow[pair], place[pair]
    first, last = source.rows[place], target.rows[other]
    distance = np.abs(source.time[place] - source.asked_time[arrows[arrow]])
    distance += np.abs(target.time[other] - target.asked_time[arrows[arrow]])
    fits = np.flatnonzero((correlation[first] == correlation[last]) & (first != last))
    without_length = source.is_instant[place].astype(np.int8) + target.is_instant[other]
    fits = fits[np.lexsort((last[fits], first[fits], -without_length[fits], distance[fits], arrow[fits]))]
    begins = np.flatnonzero(first_of_runs(arrow[fits]))
    some = arrow[fits[begins]]
    own = fits[begins + np.minimum(alike[some], np.diff(np.append(begins, len(fits))) - 1)]
    found[:, some] = first[own], last[own]
    return found
