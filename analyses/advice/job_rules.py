"""What only the graph of a job tells: which rank holds it up and what that does meanwhile, how sure that is."""

from __future__ import annotations

from typing import Any

import numpy as np

from analyses.advice.facts import PathFacts
from analyses.advice.finding import PathFinding
from analyses.advice.format import brief_duration, brief_share, counted, quoted, window_name
from analyses.display.labels import short_labels
from hta_graph.arrays import distinct, summed_by
from hta_graph.graph.job_graph import JobGraph
from hta_graph.model import BoundBy
from hta_graph.paths.intervals import Intervals
from hta_graph.paths.rank_crossings import held_up_by, straggler_place

__all__ = ["clocks_unsure", "held_up_by_rank", "ranks_matched"]

NAMES_LISTED = 3

FROZEN_SHARE = 0.01
"""Communication without a partner is told from so much of all communication on."""


def held_up_by_rank(facts: PathFacts) -> PathFinding | None:
    """Name the rank that the job waits for, and what it does while all others are there."""
    path, graph = facts.path, facts.graph
    place = straggler_place(path)
    if place < 0:
        return None
    held = held_up_by(path)
    rank, own_ns = graph.parts[place].rank, path.by_rank_ns[graph.parts[place].rank]
    meanwhile = _concurrent_work(facts, place, held[place])
    evidence: dict[str, Any] = {
        "rank": rank, "held_up_ns": held[place].total, "path_ns": own_ns, "meanwhile": meanwhile,
        "held_up_by_others_ns": {
            str(part.rank): found.total for part, found in zip(graph.parts, held, strict=True) if part.place != place
        },
    }  # fmt: skip
    text = (
        f"rank {rank} holds up the job: in {window_name(path.window)} all others wait {facts.told(held[place].total)} "
        f"for it alone, {_concurrent_text(facts, meanwhile)}; {brief_share(facts.share(own_ns))} of the path are on it"
    )
    sure = 2 * path.by_bound_ns[BoundBy.UNEXPLAINED.label] < held[place].total
    return PathFinding(text, evidence, "high" if sure else "medium")


def _concurrent_work(facts: PathFacts, place: int, held: Intervals) -> list[dict[str, Any]]:
    """Return what the path does on a rank while the others wait for it: what takes longest first."""
    pieces, graph = facts.path.pieces, facts.graph
    inside = held.covered_until(pieces.end) - held.covered_until(pieces.start)
    here = np.flatnonzero((pieces.part == place) & (inside > 0))
    names = np.append(graph.event_table.name, -1)[pieces.event[here]].astype(np.int64)
    keys = (names + 1) * len(BoundBy) + pieces.bound[here]
    every = distinct(keys)
    sums = summed_by(np.searchsorted(every, keys), inside[here], len(every))
    found = []
    for at in np.argsort(-sums, kind="stable")[:NAMES_LISTED].tolist():
        name, bound = divmod(int(every[at]), len(BoundBy))
        called = graph.names[name - 1] if name else None
        found.append({"name": called, "bound_by": BoundBy(bound).label, "time_ns": int(sums[at])})
    return found


def _concurrent_text(facts: PathFacts, meanwhile: list[dict[str, Any]]) -> str:
    """Say what takes most of the time in which the others wait."""
    if not meanwhile:
        return "in what is beside the path"
    most = meanwhile[0]
    words = short_labels(facts.graph)[most["bound_by"]]
    return f"mostly in {quoted(most['name'])} ({words})" if most["name"] else f"mostly in nothing recorded ({words})"


def ranks_matched(facts: PathFacts) -> PathFinding | None:
    """Say what the ranks did together, and how much has no partner."""
    job = facts.graph
    if not isinstance(job, JobGraph):
        return None
    members, events, window = job.members, job.event_table, facts.path.window
    inside = members.take((events.end[members.row] > window.start_ns) & (events.start[members.row] < window.end_ns))
    matched = inside.take(inside.number >= 0)
    collectives, messages = (len(distinct(matched.number[matched.is_message == kind])) for kind in (False, True))
    lengths = events.end[inside.row] - events.start[inside.row]
    alone_ns, total_ns = int(lengths[inside.number < 0].sum()), int(lengths.sum())
    alone = len(inside) - len(matched)
    share = alone_ns / total_ns if total_ns else 0.0
    evidence = {
        "collectives": collectives, "messages": messages, "without_partner": alone,
        "without_partner_ns": alone_ns, "without_partner_share": share,
    }  # fmt: skip
    if not len(inside):
        return PathFinding(
            "no communication between the ranks is recognised here: each is a graph of its own", evidence
        )
    together = " and ".join(
        counted(count, *words) for count, words in ((collectives, ("collective",)), (messages, ("message",))) if count
    )
    said = f"the ranks meet in {together}" if together else "no communication has a partner on another rank"
    if share >= FROZEN_SHARE or (alone and not together):
        without = "has no partner" if alone == 1 else "have no partner"
        said += f"; {counted(alone, 'communication')}, {brief_share(share)} of the time of all, {without}"
    return PathFinding(said, evidence)


def clocks_unsure(facts: PathFacts) -> PathFinding | None:
    """Say it where the clocks of ranks are too uncertain for waits of that length."""
    job = facts.graph
    if not isinstance(job, JobGraph) or not len(job.clock_table):
        return None
    error = int(job.clock_table.error.max())
    if not facts.is_worth(2 * error):
        return None
    rank = int(job.clock_table.rank[int(job.clock_table.error.argmax())])
    text = (
        f"the clock of rank {rank} is known to {brief_duration(error)} only: no wait below the error of two clocks is "
        "attributed to anybody"
    )
    return PathFinding(text, {"rank": rank, "error_ns": error}, "medium")
