"""The collectives of several ranks' scopes: matched over whole traces, then those that belong to each stretch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analyses.scope import Scope
from hta_graph.job.matching.collective_times import SLACK_NS, Collectives, match_collectives
from hta_graph.job.matching.communication_kernels import CommunicationKernels, read_communication_kernels
from hta_graph.model import Ints
from hta_graph.shown import signed_milliseconds

__all__ = ["Matched", "matched_collectives", "notes_on"]

CLOCKS = (
    "times of ranks are compared as recorded: on one host they share a clock, on several hosts a difference below "
    f"{SLACK_NS / 1e6:g} ms goes unnoticed"
)
APART = "do not overlap in time and are left out: the ranks' clocks differ, or their recordings end in different places"


@dataclass(frozen=True)
class Matched:
    """The collectives of one stretch, such as a step, over all ranks: those whose last kernel belongs to it."""

    label: str
    scopes: Mapping[int, Scope]
    ranks: Mapping[int, CommunicationKernels]
    found: Collectives

    def rows(self, at: Ints) -> Ints:
        """Return the canonical rows of kernels of ``found``, each in its own rank's trace."""
        pairs = zip(self.found.rank[at].tolist(), self.found.place[at].tolist(), strict=True)
        return np.array([self.ranks[rank].row[place] for rank, place in pairs], np.int64)

    def take(self, chosen: Iterable[bool]) -> Matched:
        """Select collectives."""
        return replace(self, found=self.found.take(np.fromiter(chosen, np.bool_)))


def matched_collectives(scopes: Sequence[Scope]) -> list[Matched]:
    """Match the collectives of all ranks, one result for each label of a scope.

    A single rank's trace is not read again: it has nobody to be compared with.
    """
    by_label: dict[str, dict[int, Scope]] = {}
    for scope in scopes:
        by_label.setdefault(scope.label, {})[scope.rank] = scope
    graphs = {scope.rank: scope.graph for scope in scopes}
    ranks = {rank: read_communication_kernels(graph) for rank, graph in graphs.items()} if len(graphs) > 1 else {}
    # Matched over whole traces: at the border of a step ranks may be in different steps.
    found = match_collectives(ranks)
    return [_belonging_to(Matched(label, own, ranks, found)) for label, own in by_label.items()]


def _belonging_to(every: Matched) -> Matched:
    """Select the collectives whose last kernel belongs to the scopes: of that, all others wait for it."""
    last = every.found.last
    work = {rank: set(scope.work.row.tolist()) for rank, scope in every.scopes.items()}
    pairs = zip(every.found.rank[last].tolist(), every.rows(last).tolist(), strict=True)
    return every.take(row in work.get(rank, ()) for rank, row in pairs)


def notes_on(scopes: Sequence[Scope], matched: Sequence[Matched]) -> list[str]:
    """Say what could not be compared, and how to record it."""
    ranks = {scope.rank: scope.graph.trace for scope in scopes}
    # A single rank may be all there is, or all that was given: two different things to tell.
    if len(ranks) < 2:
        return [_nobody_to_compare(max((trace.world_size or 0 for trace in ranks.values()), default=0))]
    own, found = matched[0].ranks, matched[0].found
    if not sum(map(len, own.values())):
        return ["no communication kernels are recognised on any rank"]
    alone = sum(sum(item.is_point_to_point) for item in own.values())
    compared = sum(len(item.found) for item in matched)
    said = (
        (alone, f"{alone:,} sends and receives are left out: they concern two ranks only"),
        (found.apart, f"{found.apart:,} collectives that are alike in order {APART}"),
        (not compared, "no collective is recorded on all ranks of its group here; record the same steps on all ranks"),
    )
    clocks = [
        f"rank {rank}: its collectives end {signed_milliseconds(offset)} ms from the first rank's; "
        "its clock was set back"
        for rank, offset in found.offsets.items()
    ]
    return [text for holds, text in said if holds] + clocks + [CLOCKS] * bool(compared)


def _nobody_to_compare(world: int) -> str:
    """Say that a rank is alone, in the job or in what was given."""
    if world == 1:
        return "the job has a single rank: there is nobody to compare it with"
    of = f"one rank of {world}" if world else "one rank"
    return f"{of} is given; give the traces of several ranks (a folder) to compare them"
