"""The collectives of the scopes of multiple ranks: matched over whole traces, then divided by window."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analyses.declare.scope import Scope
from analyses.display.dataframe_text import MANY_RANKS, RANKS_LISTED
from analyses.messages import collective_matching as messages
from hta_graph.base.arrays import rows_by_value
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Bools, Ints
from hta_graph.multi_rank.matching.collectives import (
    Collectives,
    collectives_of_graphs,
    match_graphs,
    match_grouped_collectives,
)
from hta_graph.multi_rank.matching.communications import UNKNOWN_RANK, Match, RankCommunications
from hta_graph.multi_rank.matching.read_communications import read_communications
from hta_graph.multi_rank.matching.worker_groups import with_worker_groups

MISFITS_NAMED = 3
"""How many collectives that contradict the clocks are listed."""


@dataclass(frozen=True)
class MatchedWindow:
    """The collectives of one window, such as a step, over all ranks: those whose last kernel belongs to it.

    ``every`` are those of the whole traces. ``scopes`` are those of the ranks that have the window; ``graphs`` are of
    all ranks: one without the window, such as a step, may be part of its collectives.
    """

    label: str
    scopes: Mapping[int, Scope]
    graphs: Mapping[int, DependencyGraph]
    ranks: Mapping[int, RankCommunications]
    found: Collectives
    every: Collectives

    def rows(self, at: Ints) -> Ints:
        """Return the canonical rows of kernels of ``found``, each in its own rank's trace."""
        rank, place = self.found.rank[at], self.found.place[at]
        rows = np.zeros(len(rank), np.int64)
        for one, mine in rows_by_value(rank).items():
            rows[mine] = self.ranks[one].row[place[mine]]
        return rows

    def without_partner(self) -> tuple[Ints, Ints]:
        """Return rank and place of the unmatched communications of the window."""
        places = {}
        for rank, scope in self.scopes.items():
            if rank in self.ranks:
                alone = _starts_inside(scope, self.ranks[rank])
                alone[self.every.place[self.every.of_rank(rank)]] = False
                places[rank] = np.flatnonzero(alone)
        of_ranks = np.repeat(np.array(list(places), np.int64), [len(own) for own in places.values()])
        return of_ranks, np.concatenate([*places.values(), np.zeros(0, np.int64)])

    def take(self, chosen: Iterable[bool]) -> MatchedWindow:
        """Select collectives."""
        return replace(self, found=self.found.take(np.fromiter(chosen, np.bool_)))


def matched_collectives(scopes: Sequence[Scope]) -> list[MatchedWindow]:
    """Match the collectives of all ranks, one result for each label of a scope.

    The trace of a single rank is not read again: there is no other rank to compare it with.
    """
    by_label: dict[str, dict[int, Scope]] = {}
    for scope in scopes:
        by_label.setdefault(scope.label, {})[scope.rank] = scope
    graphs = {scope.rank: scope.graph for scope in scopes}
    # Matched over whole traces: at the border of a step ranks may be in different steps.
    known = collectives_of_graphs(graphs)
    if known is None and len(graphs) > 1:
        ranks, found = match_graphs(graphs)
    else:
        read = {rank: read_communications(graph) for rank, graph in graphs.items()} if len(graphs) > 1 else {}
        ranks = with_worker_groups(read)
        found = match_grouped_collectives(ranks) if known is None else known
    return [_in_window(MatchedWindow(label, own, graphs, ranks, found, found)) for label, own in by_label.items()]


def _in_window(every: MatchedWindow) -> MatchedWindow:
    """Select the collectives whose last member belongs to the scopes: of that, all others wait for it."""
    last = every.found.last
    inside = {
        rank: _starts_inside(scope, every.ranks[rank]) for rank, scope in every.scopes.items() if rank in every.ranks
    }
    pairs = zip(every.found.rank[last].tolist(), every.found.place[last].tolist(), strict=True)
    return every.take(bool(rank in inside and inside[rank][place]) for rank, place in pairs)


def _starts_inside(scope: Scope, own: RankCommunications) -> Bools:
    """Mark a rank's communications that belong to a scope: as GPU work does, on the CPU by their call."""
    on_gpu = scope.graph.is_gpu[own.row]
    return np.where(on_gpu, np.isin(own.row, scope.work.row), scope.holds(np.where(own.call >= 0, own.call, own.row)))


def matching_notes(scopes: Sequence[Scope], matched: Sequence[MatchedWindow]) -> list[str]:
    """Return notes on what could not be compared, and how to record it."""
    ranks = {scope.rank: scope.graph.trace for scope in scopes}
    # A single rank is all there is, or all that was given: two different notes.
    if len(ranks) < 2:
        world_size = max((trace.world_size or 0 for trace in ranks.values()), default=0)
        return [messages.SINGLE_RANK if world_size == 1 else messages.lone_rank(world_size)]
    own, found = matched[0].ranks, matched[0].found
    if not sum(map(len, own.values())):
        return [messages.NO_COMMUNICATION]
    alone = sum(int((item.needed == UNKNOWN_RANK).sum()) for item in own.values())
    compared = sum(len(item.found) for item in matched)
    said = (
        (alone, messages.without_peer(alone)),
        (found.of_open_group, messages.group_not_recorded(found.of_open_group)),
        (found.with_implausible_clocks, messages.implausible_clocks(found.with_implausible_clocks)),
        (found.without_partner, messages.unmatched(found.without_partner)),
        (not compared, messages.NOT_ON_ALL_RANKS),
    )
    size = max(len(ranks), *(trace.world_size or 0 for trace in ranks.values()))
    silent = size - sum(len(item) > 0 for item in own.values())
    clocks = [messages.silent_ranks(silent, size)] * bool(silent)
    clocks += _clocks_set_back(found.offsets)
    clocks += [_misfit_names(misfit, scopes, own) for misfit in found.rejected[:MISFITS_NAMED]]
    clocks += [messages.CLOCKS_NOTE] * bool(compared and not found.offsets)
    return [text for holds, text in said if holds] + clocks


def _clocks_set_back(offsets: Mapping[int, int]) -> list[str]:
    """List the clocks that were set back and by how much, of many ranks those that are furthest off."""
    furthest = sorted(offsets, key=lambda rank: -abs(offsets[rank]))
    named = sorted(furthest[:RANKS_LISTED]) if len(offsets) > MANY_RANKS else list(offsets)
    said = [messages.clock_set_back(rank, offsets[rank]) for rank in named]
    if hidden := len(offsets) - len(named):
        most_ns = -(-abs(offsets[furthest[RANKS_LISTED]]) // 1000) * 1000
        said.append(messages.more_clocks_set_back(hidden, most_ns))
    return said


def _misfit_names(misfit: Match, scopes: Sequence[Scope], ranks: Mapping[int, RankCommunications]) -> str:
    """Name a collective that contradicts the clocks, by its events."""
    graphs = {scope.rank: scope.graph for scope in scopes}
    rows = {rank: ranks[rank].row[place] for rank, place in sorted(misfit.items())}
    events = [(rank, int(graphs[rank].event_table.index[row])) for rank, row in rows.items()]
    return messages.misfit(graphs[min(rows)].name_of(rows[min(rows)]), events)
