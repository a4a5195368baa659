"""Notes on the kernels of CUDA graphs: which have names by a capture, how sure these are, and which have none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from analyses.messages import graph_kernels as messages
from analyses.scope import Scope
from hta_graph.arrays import take_or
from hta_graph.attribution.graph_kernels import Replay, graph_kernels
from hta_graph.model import Bools

__all__ = ["naming_notes", "replayed"]


def replayed(scope: Scope) -> Bools:
    """Mark the activities of a scope that a graph launch runs."""
    calls = scope.work.call
    found: Bools = take_or(scope.graph.event_flags.graph_launch_call, calls, otherwise=False)
    return found


def naming_notes(scopes: Sequence[Scope]) -> list[str]:
    """Return notes on the kernels of replays in scopes whose graphs have captures, most kernels first."""
    return [note for scope in scopes for note in _notes_on(scope)]


def _notes_on(scope: Scope) -> list[str]:
    names = graph_kernels(scope.graph)
    if not names:
        return []
    by_rule: defaultdict[tuple[str, int], list[Replay]] = defaultdict(list)
    here = set(np.unique(scope.work.call).tolist())
    replays = [one for one in names.replays if one.call in here]
    for one in replays:
        by_rule[one.rule, one.capture].append(one)
    notes, head = [], (scope.rank, scope.label)
    for (rule, capture), own in sorted(by_rule.items(), key=lambda item: -sum(one.kernels for one in item[1])):
        counts = (sum(one.named for one in own), sum(one.kernels for one in own), len(own))
        if rule:
            path = names.captures[capture].path.name
            notes.append(messages.named(*head, *counts, path, rule, sum(one.edits for one in own)))
        else:
            lost = np.isin(scope.work.call, [one.call for one in own])
            ns = int((scope.work.end - scope.work.start)[lost].sum())
            notes.append(messages.not_named(*head, counts[1], ns, len(own)))
    unsure = sum(one.is_one_of_several for one in replays)
    return [*notes, messages.unsure_shapes(*head, unsure)] if unsure else notes
