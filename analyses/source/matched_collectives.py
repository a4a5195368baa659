"""The collectives of the scopes of multiple ranks: matched over whole traces, then divided by window."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analyses.declare.scope import Scope
from analyses.display.phrases import MANY_RANKS, RANKS_LISTED, silent_ranks
from analyses.display.sentence_format import counted
from analyses.source.window_report import window_name
from hta_graph.base.arrays import rows_by_value
from hta_graph.base.text.formatting import milliseconds, signed_milliseconds
from hta_graph.graph.dependency_graph import DependencyGraph, distinct_hosts
from hta_graph.model import Bools, Ints
from hta_graph.multi_rank.job_verdict import JobVerdict, job_verdict, late_recordings, missing_ranks
from hta_graph.multi_rank.join_ranks import join_ranks
from hta_graph.multi_rank.matching.collectives import (
    Collectives,
    collectives_of_graphs,
    match_graphs,
    match_grouped_collectives,
)
from hta_graph.multi_rank.matching.communications import UNKNOWN_RANK, Match, RankCommunications
from hta_graph.multi_rank.matching.read_communications import read_communications
from hta_graph.multi_rank.matching.worker_groups import with_worker_groups
from hta_graph.paths.windows import Window, between, step

NOT_ON_ALL_RANKS = (
    "no collective in this window was recorded on all ranks of its group; record the same steps on all ranks"
)
SINGLE_RANK = "the job has a single rank; there is no other rank to compare it with"
UNMATCHED = (
    "unmatched communications are left out: not every rank of their group recorded them in this order at this "
    "time. Traces may start or end at different times, lack events, or belong to different jobs"
)

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


def host_names(matched: Sequence[MatchedWindow]) -> dict[int, str]:
    """Return each rank's host; none if a rank's host is unknown, or all are on one."""
    ranks = matched[0].ranks if matched else {}
    return distinct_hosts({rank: own.recording.host for rank, own in ranks.items()})


def joined_job(matched: Sequence[MatchedWindow]) -> DependencyGraph | None:
    """Build the job's graph, of what is matched already if the files name their ranks; None of one rank."""
    # Ranks need not have all windows: a step may be missing.
    found = {rank: scope.graph for item in matched for rank, scope in item.scopes.items()}
    graphs = {rank: found[rank] for rank in sorted(found)}
    if len(graphs) < 2:
        return None
    is_numbered = all(graph.rank == rank for rank, graph in graphs.items()) and graphs.keys() == matched[0].ranks.keys()
    return join_ranks(graphs.values(), matched=matched[0].every if is_numbered else None)


@dataclass(frozen=True)
class JudgedJob:
    """The verdict of a job in a window (its name), and what its traces lack.

    ``late`` is by how much (ns) recordings begin late (:func:`late_recordings`), ``missing`` are ranks without a trace.
    """

    verdict: JobVerdict
    window: str
    late: Mapping[int, int]
    missing: Sequence[int]


def judged_job(matched: Sequence[MatchedWindow], job: DependencyGraph) -> JudgedJob:
    """Return the verdict of the job to which matched collectives belong, in the window that was asked for."""
    window = _asked_window(matched, job)
    found = job_verdict(job, window)
    name = "the recording" if window is None else window_name(window)
    return JudgedJob(found, name, late_recordings(job, found), missing_ranks(job))


def _asked_window(matched: Sequence[MatchedWindow], job: DependencyGraph) -> Window | None:
    """Return the job's window that was asked for; None of the whole trace and of every step."""
    if len({item.label for item in matched}) != 1 or any(scope.is_open for scope in matched[0].scopes.values()):
        return None
    clocks = dict(zip(job.clock_table.rank.tolist(), job.clock_table.offset.tolist(), strict=True))
    windows = {rank: scope.window(scope.graph) for rank, scope in matched[0].scopes.items() if scope.window_ns}
    first = next(iter(windows.values()), None)
    if first is None or first.is_whole:
        return None
    if first.step is not None:
        return step(first.step, cpu_window=first.form == "cpu")(job)
    if not first.is_named:
        return between(first.start_ns, first.end_ns)(job)
    start = min(window.start_ns - clocks.get(rank, 0) for rank, window in windows.items())
    return replace(first, start_ns=start, end_ns=max(own.end_ns - clocks.get(rank, 0) for rank, own in windows.items()))


def matching_notes(scopes: Sequence[Scope], matched: Sequence[MatchedWindow]) -> list[str]:
    """Return notes on what could not be compared, and how to record it."""
    ranks = {scope.rank: scope.graph.trace for scope in scopes}
    # A single rank is all there is, or all that was given: two different notes.
    if len(ranks) < 2:
        world_size = max((trace.world_size or 0 for trace in ranks.values()), default=0)
        return [SINGLE_RANK if world_size == 1 else _lone_rank(world_size)]
    own, found = matched[0].ranks, matched[0].found
    if not sum(map(len, own.values())):
        return ["no communication found on any rank: neither communication kernels nor Gloo events"]
    alone = sum(int((item.needed == UNKNOWN_RANK).sum()) for item in own.values())
    compared = sum(len(item.found) for item in matched)
    said = (
        (alone, f"{alone:,} sends, receives and rooted collectives record no peer; no waiting is attributed to them"),
        (
            found.of_open_group,
            (
                f"{counted(found.of_open_group, 'collective')} left out: the traces do not record the process group, "
                "and the timing does not determine it; record flight recorder dumps"
            ),
        ),
        (
            found.with_implausible_clocks,
            (
                f"{counted(found.with_implausible_clocks, 'communication')} left out: they match only if clocks of "
                "one host are more than 128 ms apart"
            ),
        ),
        (found.without_partner, f"{found.without_partner:,} {UNMATCHED}"),
        (not compared, NOT_ON_ALL_RANKS),
    )
    size = max(len(ranks), *(trace.world_size or 0 for trace in ranks.values()))
    silent = size - sum(len(item) > 0 for item in own.values())
    clocks = [silent_ranks(silent, size)] * bool(silent)
    clocks += _clocks_set_back(found.offsets)
    clocks += [_misfit_names(misfit, scopes, own) for misfit in found.rejected[:MISFITS_NAMED]]
    clocks += ["Clocks were not corrected: no collective contradicts them."] * bool(compared and not found.offsets)
    return [text for holds, text in said if holds] + clocks


def _lone_rank(world_size: int) -> str:
    """Report that a single rank of a job was given."""
    given = f"only one rank of {world_size:,} is given" if world_size else "only one rank is given"
    return f"{given}; give the traces of all ranks (a folder) to compare them"


def _clocks_set_back(offsets: Mapping[int, int]) -> list[str]:
    """List the clocks that were set back and by how much, of many ranks those that are furthest off."""
    furthest = sorted(offsets, key=lambda rank: -abs(offsets[rank]))
    named = sorted(furthest[:RANKS_LISTED]) if len(offsets) > MANY_RANKS else list(offsets)
    said = [
        f"rank {rank}: clock offset {signed_milliseconds(offsets[rank])} ms from the first rank's; corrected"
        for rank in named
    ]
    if hidden := len(offsets) - len(named):
        most_ns = -(-abs(offsets[furthest[RANKS_LISTED]]) // 1000) * 1000
        said.append(
            f"{hidden:,} more ranks: clock offsets of at most {milliseconds(most_ns)} ms; the job's `clocks` lists all"
        )
    return said


def _misfit_names(misfit: Match, scopes: Sequence[Scope], ranks: Mapping[int, RankCommunications]) -> str:
    """Name a collective that contradicts the clocks, by its events."""
    graphs = {scope.rank: scope.graph for scope in scopes}
    rows = {rank: ranks[rank].row[place] for rank, place in sorted(misfit.items())}
    events = [(rank, int(graphs[rank].event_table.index[row])) for rank, row in rows.items()]
    return _misfit(graphs[min(rows)].name_of(rows[min(rows)]), events)


def _misfit(name: str, events: Sequence[tuple[int, int]]) -> str:
    """Report a collective that contradicts all clock corrections."""
    listed = ", ".join(f"rank {rank} event {index}" for rank, index in events)
    return (
        f"{name} ({listed}) contradicts the clocks that all other collectives agree on; it is mismatched and left out"
    )
