"""Whether all numbers of a summary that was kept name something: rows, points, lanes, names, what was done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.rank_summary import WholeAnswers
from hta_graph.model import EdgeKind, EventKind, Rule
from hta_graph.multi_rank.matching.rank_members import RankMembers
from hta_graph.multi_rank.rank_activity import RankWays

__all__ = ["numbers_name_something"]

Range = tuple[np.ndarray[Any, Any], int, int]
"""A column, the least number it may hold, and the first one that is too large."""


def numbers_name_something(graph: DependencyGraph) -> bool:
    """Tell whether whoever follows a number of a summary finds something there."""
    return all(not len(column) or least <= column.min() <= column.max() < past for column, least, past in _all(graph))


def _all(graph: DependencyGraph) -> Iterator[Range]:
    yield from _of_graph(graph)
    answers, members, activity = graph.attached(WholeAnswers), graph.attached(RankMembers), graph.attached(RankWays)
    if answers is not None:
        yield answers.rows, 0, answers.size
    if members is not None:
        yield members.row, -1, len(graph.event_table)
        yield members.call, -1, len(graph.event_table)
        if activity is not None:
            yield from _of_activity(activity, len(members))


def _of_graph(graph: DependencyGraph) -> Iterator[Range]:
    events, edges, size = graph.event_table, graph.edge_table, len(graph.event_table)
    yield events.name, 0, len(graph.names)
    yield events.lane, 0, len(graph.lanes.labels)
    yield events.kind, 0, max(EventKind) + 1
    yield edges.kind, 0, max(EdgeKind) + 1
    yield edges.rule, 0, max(Rule) + 1
    for column in (edges.source, edges.target):
        yield column, 0, 2 * size


def _of_activity(activity: RankWays, members: int) -> Iterator[Range]:
    yield activity.walks.member, 0, max(members, 1)
    yield activity.walks.before, -1, len(activity.walks)
    yield activity.queued, -1, len(activity.queued)
    yield activity.done.walk, 0, len(activity.walks) + len(activity.queued)
    for column in (activity.transfer, activity.done.activity):
        yield column, 0, len(activity.name)
