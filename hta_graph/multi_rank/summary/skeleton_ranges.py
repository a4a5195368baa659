"""Whether all numbers of a summary that was kept name something: rows, points, lanes, names, what was done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.rank_summary import RankSummary
from hta_graph.model import EdgeKind, EventKind, Rule
from hta_graph.multi_rank.matching.rank_members import RankCommunications
from hta_graph.multi_rank.rank_activity import RankActivity

__all__ = ["are_indices_valid"]

IndexRange = tuple[np.ndarray[Any, Any], int, int]
"""A column, the least number it may hold, and the first one that is too large."""


def are_indices_valid(graph: DependencyGraph) -> bool:
    """Tell whether whoever follows a number of a summary finds something there."""
    return all(
        not len(column) or least <= column.min() <= column.max() < past for column, least, past in _all_indices(graph)
    )


def _all_indices(graph: DependencyGraph) -> Iterator[IndexRange]:
    yield from _graph_indices(graph)
    answers, members, activity = (
        graph.attached(RankSummary),
        graph.attached(RankCommunications),
        graph.attached(RankActivity),
    )
    if answers is not None:
        yield answers.rows, 0, answers.size
    if members is not None:
        yield members.row, -1, len(graph.event_table)
        yield members.call, -1, len(graph.event_table)
        if activity is not None:
            yield from _of_activity(activity, len(members))


def _graph_indices(graph: DependencyGraph) -> Iterator[IndexRange]:
    events, edges, size = graph.event_table, graph.edge_table, len(graph.event_table)
    yield events.name, 0, len(graph.names)
    yield events.lane, 0, len(graph.lanes.labels)
    yield events.kind, 0, max(EventKind) + 1
    yield edges.kind, 0, max(EdgeKind) + 1
    yield edges.rule, 0, max(Rule) + 1
    for column in (edges.source, edges.target):
        yield column, 0, 2 * size


def _of_activity(activity: RankActivity, members: int) -> Iterator[IndexRange]:
    yield activity.walks.member, 0, max(members, 1)
    yield activity.walks.before, -1, len(activity.walks)
    yield activity.queued, -1, len(activity.queued)
    yield activity.done.walk, 0, len(activity.walks) + len(activity.queued)
    for column in (activity.transfer, activity.done.activity):
        yield column, 0, len(activity.name)
