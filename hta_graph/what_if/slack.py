"""Slack: how much later events can end without the window ending later; near-critical work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hta_graph.base.arrays import freeze
from hta_graph.base.errors import UsageError
from hta_graph.graph.conversion import labels
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.graph.points import event_of
from hta_graph.model import Bools, BoundBy, Ids, Ints
from hta_graph.paths.binding_edges import lane_runs
from hta_graph.paths.intervals import union
from hta_graph.paths.windows import WindowQuery
from hta_graph.what_if.longest_paths import UNREACHED, LongestPaths
from hta_graph.what_if.replay import replay_graph
from hta_graph.what_if.replay_graph import ReplayGraph

if TYPE_CHECKING:
    import pandas as pd


@memoized
def latest_times(base: ReplayGraph) -> Ints:
    """Return how late (ns) each point may come without the window ending later; -1 where no way leads to its end."""
    edges, end = base.edges, len(base.times)
    ends, tails = _lane_ends(base)
    source = np.append(edges.target, np.full(len(ends), end, np.int32))
    target = np.append(edges.source, ends)
    # The same question backwards: from the window's end, a point of its own behind all others, to what came before.
    backwards = LongestPaths(
        source, target, np.append(lane_runs(base.graph).points[::-1], [base.start_point, end]).astype(np.int32),
        np.append(-base.graph.timeline.position.astype(np.int64), [1, -end]),
        np.zeros(end + 1, np.bool_), np.ones(len(source), np.bool_),
    )  # fmt: skip
    start = np.full(end + 1, 2 * UNREACHED)
    start[end] = 0
    behind = backwards.values(np.append(edges.weight, tails), start)[:-1]
    return freeze(np.where(behind > UNREACHED, base.window.end_ns - behind, -1))


def _lane_ends(base: ReplayGraph) -> tuple[Ids, Ints]:
    """Return what the window waits for without what is followed by more on its lane, and the tails (ns)."""
    sink, events = base.window.sink, base.graph.event_table
    row = event_of(sink.ends)
    last_start = np.full(len(base.graph.lanes.labels), np.iinfo(np.int64).min)
    np.maximum.at(last_start, events.lane[row], events.start[row])
    kept = (events.end[row] >= last_start[events.lane[row]]) & base.is_inside[sink.ends]
    return sink.ends[kept], sink.tails[kept]


def edge_slack(base: ReplayGraph) -> Ints:
    """Return by how much (ns) each edge, and behind them each tail of an end, could be longer; -1: by any time."""
    latest, sink = latest_times(base)[base.edges.target], base.window.sink
    spare = np.where(latest >= 0, latest - base.times[base.edges.source] - base.edges.weight, -1)
    # The tails of the window's ends follow behind its edges.
    return np.append(spare, base.window.end_ns - base.times[sink.ends] - sink.tails)


def slack(graph: DependencyGraph, window: WindowQuery | None = None) -> pd.DataFrame:
    """Return how much later every event can end without the window ending later.

    Args:
        graph: the graph of one rank or of a job.
        window: as for :func:`critical_path`.

    Returns:
        the events that end in the window and that its end depends on, least slack first; columns: those of
        ``graph.events``, start_slack_ns, slack_ns (of the end; 0 on the critical path).
    """
    base = replay_graph(graph, window, with_previous=False)
    latest, times = latest_times(base), base.times
    rows = np.flatnonzero(base.is_inside[1::2] & (latest[1::2] >= 0))
    own = latest[1::2][rows] - times[1::2][rows]
    begins = np.where(base.is_inside[:-1:2] & (latest[:-1:2] >= 0), latest[:-1:2] - times[:-1:2], 0)[rows]
    order = np.lexsort((times[1::2][rows], own))
    frame = graph.events_of(rows[order])
    frame["start_slack_ns"], frame["slack_ns"] = begins[order], own[order]
    return frame


@dataclass(frozen=True)
class NearCritical:
    """Near-critical work: slightly longer, it would be on the critical path.

    ``by_rank`` has columns rank, near_ns (time of near-critical work in the window), share (of the window).
    ``alternatives`` are other ways to the window's end, of each rank and class the longest one: rank, bound_by,
    event_index, name, slack_ns (by how much it is shorter than the critical path), near_ns (such work).
    """

    threshold_ns: int
    by_rank: pd.DataFrame
    alternatives: pd.DataFrame


def near_critical(graph: DependencyGraph, window: WindowQuery | None = None, *, share: float = 0.01) -> NearCritical:
    """List near-critical work: its slack is below a share of the window.

    Raises:
        UsageError: the share is not from 0 to 1.
    """
    import pandas as pd

    if not 0 <= share <= 1:
        raise UsageError(f"{share} is not a share of the window; give a number from 0 to 1, such as 0.01")
    base = replay_graph(graph, window, with_previous=False)
    length = base.window.end_ns - base.window.start_ns
    threshold = int(length * share)
    spare = edge_slack(base)[base.parts.edge]
    near = (spare >= 0) & (spare <= threshold)
    rows = []
    for part in graph.rank_graphs:
        own = base.parts.take(near & (base.part_rank == part.index))
        covered = union(own.start, own.start + own.length)
        time = int((covered.end - covered.start).sum())
        rows.append({"rank": part.rank, "near_ns": time, "share": time / max(length, 1)})
    by_rank = pd.DataFrame(rows, columns=["rank", "near_ns", "share"])
    return NearCritical(threshold, by_rank, pd.DataFrame(_alternative_paths(base, spare, near)))


def _alternative_paths(base: ReplayGraph, spare: Ints, near: Bools) -> dict[str, Any]:
    """Take of each rank and class that are not critical the part with the least slack: the way that leads over it."""
    graph, parts, classes = base.graph, base.parts, len(BoundBy)
    kind = base.part_rank.astype(np.int64) * classes + parts.bound
    critical = np.isin(kind, kind[spare == 0])
    rows = np.flatnonzero(near & ~critical & (parts.bound != BoundBy.UNEXPLAINED))
    rows = rows[np.lexsort((parts.start[rows], spare[rows], kind[rows]))]
    _, first = np.unique(kind[rows], return_index=True)
    chosen = rows[first]
    chosen = chosen[np.argsort(spare[chosen], kind="stable")]
    owner = parts.owner[chosen]
    columns = graph.event_columns(np.where(owner >= 0, owner, 0))
    time = np.bincount(kind[rows], weights=parts.length[rows], minlength=int(kind.max(initial=0)) + 1)
    return {
        "rank": [graph.rank_graphs[place].rank for place in base.part_rank[chosen].tolist()],
        "bound_by": labels(BoundBy, parts.bound[chosen]),
        "event_index": [
            index if row >= 0 else None
            for index, row in zip(columns["event_index"].tolist(), owner.tolist(), strict=True)
        ],
        "name": [graph.name_of(row) if row >= 0 else None for row in owner.tolist()],
        "slack_ns": spare[chosen],
        "near_ns": time[kind[chosen]].astype(np.int64),
    }
