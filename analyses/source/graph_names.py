"""Notes on the kernels of CUDA graphs: which have names by a capture, how sure these are, and which have none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from analyses.messages import graph_kernels as messages
from hta_graph.attribution.graph_kernels import CaptureSource, Replay, graph_kernels
from hta_graph.attribution.replayed_names import replayed_names
from hta_graph.base.arrays import distinct, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.rank_summary import RankSummary
from hta_graph.model import Bools, Ids

if TYPE_CHECKING:
    from analyses.declare.scope import Scope

__all__ = ["naming_notes", "naming_notes_of_rows", "replayed"]


def replayed(scope: Scope) -> Bools:
    """Mark the activities of a scope that a graph launch runs."""
    calls = scope.work.call
    found: Bools = take_or(scope.graph.event_flags.graph_launch_call, calls, otherwise=False)
    return found


def naming_notes(scopes: Sequence[Scope]) -> list[str]:
    """Return notes on the kernels of replays in scopes whose graphs have captures, most kernels first."""
    return [note for scope in scopes for note in _notes_on(scope.graph, scope.work.row, (scope.rank, scope.label))]


def naming_notes_of_rows(graph: DependencyGraph, rows: Ids, label: str) -> list[str]:
    """Return notes on the kernels of replays among rows (-1: none) of a rank's or a job's graph.

    One says that captures of rank summaries are not used: their few rows cannot be aligned.
    """
    notes, is_unused = [], False
    for part in graph.rank_graphs:
        if part.graph.attached(RankSummary) is None:
            own = distinct(part.of_rank(rows[graph.rank_index_of(rows) == part.index]))
            notes += _notes_on(part.graph, own, (part.rank, label))
        else:
            is_unused |= part.graph.attached(CaptureSource) is not None
    return [*notes, messages.NOT_IN_SUMMARIES] if is_unused else notes


def _notes_on(graph: DependencyGraph, rows: Ids, head: tuple[int, str]) -> list[str]:
    notes = _recorded_notes(graph, rows, head)
    names = graph_kernels(graph)
    if not names:
        return notes
    by_rule: defaultdict[tuple[str, int], list[Replay]] = defaultdict(list)
    calls = take_or(graph.launching_call, rows)
    here = set(np.unique(calls).tolist())
    replays = [one for one in names.replays if one.call in here]
    for one in replays:
        by_rule[one.rule, one.capture].append(one)
    for (rule, capture), own in sorted(by_rule.items(), key=lambda item: -sum(one.kernels for one in item[1])):
        counts = (sum(one.named for one in own), sum(one.kernels for one in own), len(own))
        if rule:
            path = names.captures[capture].path.name
            notes.append(messages.named(*head, *counts, path, rule, sum(one.edits for one in own)))
        else:
            lost = rows[np.isin(calls, [one.call for one in own])]
            ns = int((graph.event_table.end - graph.event_table.start)[lost].sum())
            notes.append(messages.not_named(*head, counts[1], ns, len(own)))
    unsure = sum(one.is_one_of_several for one in replays)
    return [*notes, messages.unsure_shapes(*head, unsure)] if unsure else notes


def _recorded_notes(graph: DependencyGraph, rows: Ids, head: tuple[int, str]) -> list[str]:
    """Say of how many kernels of replays the module is recorded, and of how many not."""
    names = replayed_names(graph, "module")
    recorded = int(np.count_nonzero(take_or(names.evidence, rows) == 0))
    every = int(np.count_nonzero(take_or(graph.event_flags.graph_launch_call, take_or(graph.launching_call, rows))))
    return [messages.recorded(*head, recorded, every)] if recorded else []
