"""Notes on the kernels of CUDA graphs: which have names by a capture, how sure these are, and which have none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hta_graph.attribution.graph_kernels import (
    COUNTS,
    EDITS,
    POSITION,
    QUEUES,
    UNCHECKED,
    CaptureSource,
    Replay,
    graph_kernels,
)
from hta_graph.attribution.replayed_names import replayed_names
from hta_graph.base.arrays import distinct, take_or
from hta_graph.base.errors import Remedy
from hta_graph.base.text.formatting import milliseconds
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.rank_summary import RankSummary
from hta_graph.model import Bools, Ids

if TYPE_CHECKING:
    from analyses.declare.scope import Scope

__all__ = ["naming_notes", "naming_notes_of_rows", "replayed"]

RULES = {
    POSITION: "launch order is equal",
    COUNTS: "as many launches of each kernel",
    QUEUES: "launch order is equal on each stream",
    EDITS: "launch order is equal",
    UNCHECKED: "unchecked: the capture records no kernel names, only as many launches",
}
"""How a replay was aligned → what that says."""
LAUNCHED_BY_GRAPH = "launched by a CUDA graph"
NAME_THEM = Remedy(
    "record the capture of the graphs and pass captures=[…]", "record the capture of the graphs and use --capture"
)


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
    if is_unused:
        return [*notes, "captures are not used: rank summaries lack the kernels; use --summaries never"]
    return notes


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
            notes.append(_named(*head, *counts, path, rule, sum(one.edits for one in own)))
        else:
            lost = rows[np.isin(calls, [one.call for one in own])]
            ns = int((graph.event_table.end - graph.event_table.start)[lost].sum())
            notes.append(_not_named(*head, counts[1], ns, len(own)))
    unsure = sum(one.is_one_of_several for one in replays)
    return [*notes, _unsure_shapes(*head, unsure)] if unsure else notes


def _named(rank: int, label: str, named: int, every: int, replays: int, captures: str, rule: str, edits: int) -> str:
    """Say how many kernels of replays a capture names, and how they were matched."""
    but = f" but for {edits:,}: {_rows(edits)} no counterpart" if edits else ""
    counts = f"{named:,} of {every:,} kernels of {_replays(replays)}"
    return f"rank {rank}, {label}: {counts} inferred by capture ({captures}): {RULES[rule]}{but}"


def _replays(count: int) -> str:
    return "1 graph replay" if count == 1 else f"{count:,} graph replays"


def _rows(count: int) -> str:
    return "1 launch or kernel has" if count == 1 else f"{count:,} launches or kernels have"


def _not_named(rank: int, label: str, count: int, ns: int, replays: int) -> str:
    """Say how many kernels of replays no capture names."""
    what = f"{count:,} kernels ({milliseconds(ns)} ms) of {_replays(replays)}"
    return f"rank {rank}, {label}: {what} not named: no captured graph launches the same kernels"


def _unsure_shapes(rank: int, label: str, replays: int) -> str:
    """Say of how many replays shapes are not sure."""
    return (
        f"rank {rank}, {label}: shapes of {_replays(replays)} are unchecked: graphs of several batch sizes launch the "
        "same kernels, and no annotation gives the tokens of the step"
    )


def _recorded_notes(graph: DependencyGraph, rows: Ids, head: tuple[int, str]) -> list[str]:
    """Say of how many kernels of replays the module is recorded, and of how many not."""
    names = replayed_names(graph, "module")
    recorded = int(np.count_nonzero(take_or(names.evidence, rows) == 0))
    every = int(np.count_nonzero(take_or(graph.event_flags.graph_launch_call, take_or(graph.launching_call, rows))))
    return [_recorded(*head, recorded, every)] if recorded else []


def _recorded(rank: int, label: str, named: int, every: int) -> str:
    """Say of how many kernels of replays the trace, or a file of annotations, records the module."""
    return f"rank {rank}, {label}: the module of {named:,} of {every:,} kernels of graph replays is recorded"
