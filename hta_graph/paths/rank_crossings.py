"""Where the path of a job goes from rank to rank, and for how long the job waited for one rank alone.

rank 0   ──op──[all-reduce ~~~~~~~~~~|====]──      ~ waiting, = transferring
rank 1   ──op──────[all-reduce ~~~~~~|====]──
rank 2   ──────────── op ────────────[====]──      came last; the path leads here
                   |---- margin -----|             as much sooner all could go on, were it no later than the next
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hta_graph.base.arrays import Columns, find_sorted, take_or
from hta_graph.base.errors import QueryError
from hta_graph.graph.edges import Members
from hta_graph.graph.points import event_of
from hta_graph.model import Ids, Ints
from hta_graph.paths.intervals import Intervals, union
from hta_graph.paths.windows import step

if TYPE_CHECKING:
    from hta_graph.paths.critical_path import CriticalPath


@dataclass(frozen=True, eq=False)
class RankCrossings(Columns):
    """Where a path continues on another rank, latest first: the time (ns), the ranks' places, what clocks hid.

    ``corrected`` is by how much (ns) the earlier point is stamped after the later one: on a path time never rises.
    """

    time: Ints
    earlier: Ids
    later: Ids
    corrected: Ints


@dataclass(frozen=True, eq=False)
class LastArrivals(Columns):
    """Who came last to each collective: its number, the place of the rank, when (ns), and by what margin (ns).

    The margin is the time since the next one came whom others needed too, at most as long as anybody waited; it is cut
    to the window, and 0 where it is no longer than the clocks are uncertain.
    """

    number: Ints
    part: Ids
    arrival: Ints
    margin: Ints


def crossings(path: CriticalPath) -> RankCrossings:
    """Find where the path of a job goes from rank to rank in its window."""
    points, part = path.chain.points, path.graph.rank_index_of(event_of(path.chain.points))
    # A rendezvous is of no rank: what is before and behind it counts.
    points, part = points[part >= 0], part[part >= 0]
    later = np.flatnonzero(part[1:] != part[:-1])
    times = path.graph.timeline.times
    found = RankCrossings.of(
        time=times[points[later]],
        earlier=part[later + 1],
        later=part[later],
        corrected=np.maximum(times[points[later + 1]] - times[points[later]], 0),
    )
    return found.take((found.time > path.window.start_ns) & (found.time <= path.window.end_ns))


def last_arrivals(path: CriticalPath) -> LastArrivals:
    """Find who came last to the collectives that the path of a job leads through, and by how much.

    Only those whose last member is on the path, by its row or its call, delayed it: who comes last may go straight on.
    Messages do not count: that a stage of a pipeline waits for the one before is how pipelines work.
    """
    job, window = path.graph, path.window
    every = job.members.take((job.members.number >= 0) & ~job.members.is_message)
    passed = np.zeros(len(job.event_table), np.bool_)
    passed[event_of(path.chain.points)] = True
    inside = (every.arrival > window.start_ns) & (every.arrival <= window.end_ns)
    on_path = passed[every.row] | take_or(passed, every.call, otherwise=False)
    last = every.take(every.is_last & on_path & inside)
    last = last.take(np.argsort(last.number))
    margin = _margins(every.take(~every.is_last), last)
    # Below the error of two clocks nobody is known to be late.
    margin = np.where(margin > 2 * job.clock_table.error[last.part], margin, 0)
    return LastArrivals(last.number, last.part, last.arrival, np.minimum(margin, last.arrival - window.start_ns))


def held_up_by(path: CriticalPath) -> tuple[Intervals, ...]:
    """Return when the job waited for each rank alone, in the order of its parts.

    By so much at most the window would be shorter if that rank were no later than the next one: to the collectives that
    the path leads through, and to the end of a step.
    """
    late, (last, margin) = last_arrivals(path), _last_rank_to_end(path)
    part = np.append(late.part, last)
    end = np.append(late.arrival, path.window.end_ns)
    start = end - np.append(late.margin, margin)
    places = range(len(path.graph.rank_graphs))
    return tuple(union(start[part == place], end[part == place]) for place in places)


def _margins(others: Members, last: Members) -> Ints:
    """Return by how much the last one came after the next one who was needed, at most what anybody waited for it."""
    place, arrival = find_sorted(others.number, last.number), last.arrival
    others, place = others.take(place >= 0), place[place >= 0]
    waits = (others.wait > 0) & (others.awaited == last.part[place])
    unknown = np.iinfo(np.int64).max
    margin = np.full(len(last), unknown)
    np.minimum.at(margin, place[waits], others.wait[waits])
    waited = margin < unknown
    np.minimum.at(margin, place[others.is_needed], (arrival[place] - others.arrival)[others.is_needed])
    return np.where(waited, np.maximum(margin, 0), 0)


def _last_rank_to_end(path: CriticalPath) -> tuple[int, int]:
    """Return which rank ends a job's step last, and how long after the next one (ns)."""
    window = path.window
    if window.step is None or window.form != "gpu" or not path.graph.is_job:
        return 0, 0
    ends = []
    for part in path.graph.rank_graphs:
        try:
            ends.append((step(window.step)(part.graph).end_ns, part.index))
        except QueryError:  # a rank without the step holds up nobody
            continue
    if len(ends) < 2:
        return 0, 0
    (before, _), (end, last) = sorted(ends)[-2:]
    return last, max(min(end, window.end_ns) - max(before, window.start_ns), 0)
