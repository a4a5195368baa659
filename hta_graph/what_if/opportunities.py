"""What is worth changing: what is on the path, and the savings at twice its speed and without it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from hta_graph.attribution.replayed_names import replayed_names
from hta_graph.base.arrays import summed_by, take_or
from hta_graph.base.errors import QueryError
from hta_graph.base.progress import tracked
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Bools, BoundBy, EventKind, Ids, Ints
from hta_graph.paths.intervals import union
from hta_graph.paths.time_accounting import TimePart
from hta_graph.paths.windows import WindowQuery
from hta_graph.what_if.driver_lock import locked_calls, with_lock_waits
from hta_graph.what_if.modified_window import (
    ModifiedWindow,
    PathTotals,
    SavedByEdges,
    modified_path_totals,
    parts_without_partner,
    path_totals_without,
    recorded_path_totals,
    saved_by_scaling,
)
from hta_graph.what_if.replay import Replayed, replay_graph
from hta_graph.what_if.replay_graph import ReplayGraph
from hta_graph.what_if.selectors import OWNER_LOOKUPS, Selector, issuing_rows, selected_parts
from hta_graph.what_if.sensitivity import decided_without, keep_without, next_on_path

if TYPE_CHECKING:
    import pandas as pd


ROWS_PER_KIND = 8
"""How many names of a kind are looked at, those with the most time on the path."""
ROWS_OF_UNNAMED_KINDS = {"class": len(BoundBy), "rank": 32}
"""The same of kinds of things that are no events with names."""

ROWS_WITH_NEXT = 10
"""For this many rows the next bottleneck is found."""

MIN_SHARE = 0.001
"""What is shorter on the path than this share of the window is no opportunity."""


@dataclass(frozen=True)
class Opportunity:
    """A thing on the path, and how much (ns) the window would be shorter at twice its speed and without it.

    ``next`` is the next bottleneck: what then takes most of the path and is not on it today; None if nothing does.
    ``alone_ns`` is how much of it on the path is communication with unknown partners, and so can be waiting for them;
    of one rank also silence while a collective of Gloo runs. ``operator_evidence`` says how kernels of graph replays
    were found to belong to it (None: there are none).
    """

    kind: str
    name: str
    on_path_ns: int
    saved_half_ns: int
    saved_free_ns: int
    next: str | None
    alone_ns: int = 0
    operator_evidence: str | None = None

    @property
    def may_be_waiting(self) -> bool:
        """Whether most of it can be waiting for ranks whose traces are missing."""
        return 2 * self.alone_ns > self.on_path_ns

    @property
    def what(self) -> str:
        """The thing as :func:`scale` and ``--scale`` understand it."""
        return f"{self.kind}:{self.name}"


def opportunities(graph: DependencyGraph, window: WindowQuery | None = None) -> pd.DataFrame:
    """List the items on a window's path with the estimated saving of each.

    Args:
        graph: one rank's or a job's.
        window: as for :func:`critical_path`.

    Returns:
        columns kind (class, operator, module, frame, kernel, collective, rank), name, on_path_ns, saved_half_ns,
        saved_free_ns (at twice the speed, removed), next; largest saving at twice the speed first. Savings overlap; do
        not add them.
    """
    return opportunity_frame(opportunity_rows(replay_graph(graph, window)))


def opportunity_frame(found: Sequence[Opportunity]) -> pd.DataFrame:
    """Return opportunities as the table of :func:`opportunities`."""
    import pandas as pd

    columns = ["kind", "name", "on_path_ns", "saved_half_ns", "saved_free_ns", "next"]
    return pd.DataFrame([vars(one) for one in found], columns=columns)


MOST_SPECIFIC = ("collective", "operator", "kernel", "module", "frame", "rank", "class")
"""Of rows about the same time the one is kept whose kind comes first here."""


def without_duplicates(every: Sequence[Opportunity]) -> list[Opportunity]:
    """Leave of rows about the same time the most specific one: an operator that only launches one kernel is that."""
    best: dict[tuple[int, int, int], Opportunity] = {}
    for one in sorted(every, key=lambda one: MOST_SPECIFIC.index(one.kind)):
        best.setdefault((one.on_path_ns, one.saved_half_ns, one.saved_free_ns), one)
    kept = {(one.kind, one.name) for one in best.values()}
    return [one for one in every if (one.kind, one.name) in kept]


def opportunity_rows(
    base: ReplayGraph, kinds: Container[str] | None = None, *, names_next: bool = True
) -> list[Opportunity]:
    """Return the rows of :func:`opportunities`, or those of some kinds; ``names_next``: with the next bottleneck."""
    path = recorded_path_totals(base)[0]
    found = [(what, meant, path.time_of(meant)) for what, meant in _candidates(base, path, kinds)]
    found = [one for one in found if is_opportunity(one[2], base.length_ns)]
    alone = parts_without_partner(base)
    saved, decided = _savings_by_scaling(base, [meant for _, meant, _ in found])
    rows = [
        Opportunity(
            what.kind, what.pattern, time, half, free, None, _possible_waiting(path, meant, alone),
            operator_evidence(base, what.kind, meant),
        )
        for (what, meant, time), (half, free) in zip(found, saved.tolist(), strict=True)
    ]  # fmt: skip
    order = opportunity_order(rows)
    following = dict[int, str | None]()
    for at in tracked(order[: ROWS_WITH_NEXT if names_next else 0]):
        what, meant, _ = found[at]
        if decided is not None:
            keep_without(base, what, meant, *(columns[:, len(FACTORS) * at + 1] for columns in decided))
        following[at] = _next_after_change(base, path, what, meant)
    return [replace(rows[at], next=following[at]) if at in following else rows[at] for at in order]


def operator_evidence(base: ReplayGraph, kind: str, meant: Bools) -> str | None:
    """Say how it is known that kernels of graph replays among some parts belong to a thing; None where none are."""
    if kind not in OWNER_LOOKUPS:
        return None
    return replayed_names(base.graph, kind).evidence_of(
        base.parts.owner[meant & (base.parts.part == TimePart.ACTIVITY)]
    )


def _possible_waiting(path: PathTotals, meant: Bools, alone: Bools) -> int:
    """Return how much (ns) of some time on a path can be waiting for ranks whose traces are missing (``alone``).

    While a collective of Gloo runs, silence of the host most likely waits for it.
    """
    alone_ns, graph, events = path.time_of(meant & alone), path.base.graph, path.base.graph.event_table
    rows = graph.event_flags.gloo_collective
    if graph.is_job or not rows.any():
        return alone_ns
    silent = meant[path.rows] & (path.base.parts.bound[path.rows] == BoundBy.CPU_GAP)
    parts, runs = path.base.parts.take(path.rows[silent]), union(events.start[rows], events.end[rows])
    return alone_ns + int((runs.covered_until(parts.start + parts.length) - runs.covered_until(parts.start)).sum())


def savings_of(base: ReplayGraph, drafts: Iterable[ModifiedWindow]) -> Ints:
    """Return how much shorter (ns) a window would be with each of several drafts that only scale what is in it.

    That is quicker than one after the other.
    """
    if locked_calls(base) is not None:
        # Calls then wait for the driver's lock as they come: each draft has a shape of times of its own.
        return np.array([Replayed(draft, ()).saved_ns for draft in drafts], np.int64)
    return _savings_of_changes(base, (draft.saved_by_edges() for draft in drafts))[0]


FACTORS = (0.5, 0.0)
"""Of the time of a thing."""


def _savings_by_scaling(base: ReplayGraph, every: Sequence[Bools]) -> tuple[Ints, tuple[Ints, Ints] | None]:
    """Return the same at twice the speed of some parts, and without them, and what is then decided, where it is known.

    That is a row for each set of parts, and two columns for each.
    """
    # Made one by one: together they take more memory than all else.
    if locked_calls(base) is not None:
        drafts = (_scaled_window(base, meant, factor) for meant in every for factor in FACTORS)
        return savings_of(base, tracked(drafts, len(FACTORS) * len(every))).reshape(-1, len(FACTORS)), None
    changes = chain.from_iterable(saved_by_scaling(base, meant, FACTORS) for meant in tracked(every))
    saved, decided = _savings_of_changes(base, changes)
    return saved.reshape(-1, len(FACTORS)), decided


def _savings_of_changes(base: ReplayGraph, changes: Iterable[SavedByEdges]) -> tuple[Ints, tuple[Ints, Ints] | None]:
    """Return the same, given what edges weigh less, and what is then decided: entries and nodes, a column for each."""
    if not len(base.window.sink.ends):
        return np.zeros(len([*changes]), np.int64), None
    places, paths = base.deciding_ends
    first = np.searchsorted(places, base.first_ends).tolist()
    of_ends = ((edges, less, tails[places]) for edges, less, tails in changes)
    latest, *decided = paths.latest(of_ends, base.times, first)
    saved: Ints = recorded_path_totals(base)[1] - base.ends_of_latest(latest)
    return saved, (decided[0], decided[1])


def is_opportunity(on_path_ns: int, window_ns: int) -> bool:
    """Return whether this much time on a path is an opportunity."""
    return on_path_ns > 0 and on_path_ns >= MIN_SHARE * window_ns


def opportunity_order(rows: Sequence[Opportunity]) -> list[int]:
    """Return the places of opportunities in the order of the table."""
    return sorted(range(len(rows)), key=lambda at: (-rows[at].saved_half_ns, -rows[at].on_path_ns, rows[at].what))


def _scaled_window(base: ReplayGraph, meant: Bools, factor: float) -> ModifiedWindow:
    draft = ModifiedWindow(base)
    draft.factor[meant] = factor
    return draft


def _next_after_change(base: ReplayGraph, path: PathTotals, what: Selector, meant: Bools) -> str | None:
    if locked_calls(base) is None:
        return next_on_path(path, path_totals_without(base, meant, decided_without(base, what, meant)), meant)
    draft = with_lock_waits(_scaled_window(base, meant, 0.0))
    weight = draft.weight
    values = base.paths.values(weight, base.times)
    return next_on_path(path, modified_path_totals(draft, values, weight, draft.tails), meant)


def _candidates(base: ReplayGraph, path: PathTotals, kinds: Container[str] | None) -> Iterator[tuple[Selector, Bools]]:
    """Yield what takes most of the path, kind by kind, with the parts of time that are meant."""
    times = path_times_by_name(path)
    of_kinds = {kind: own for kind, own in times.items() if kinds is None or kind in kinds}
    for what in tracked(candidate_selectors(of_kinds)):
        # What has nothing but lags of others on the path names no part that could change.
        with suppress(QueryError):
            yield what, selected_parts(base, what)


TimesByKind = Mapping[str, Mapping[str, int]]
"""By kind of thing and name its time (ns) on a path."""


def candidate_selectors(times: TimesByKind) -> Iterator[Selector]:
    """Yield of each kind what takes most time; of classes all."""
    for kind, own in times.items():
        longest = sorted((name for name in own if own[name]), key=lambda name: (-own[name], name))
        reading = "" if kind in ROWS_OF_UNNAMED_KINDS else "name"
        yield from (Selector(kind, name, reading) for name in longest[: ROWS_OF_UNNAMED_KINDS.get(kind, ROWS_PER_KIND)])


def path_times_by_name(path: PathTotals) -> TimesByKind:
    """Add up what may change on a path by kind and name."""
    base = path.base
    changeable = base.may_change[path.rows]
    rows, length = path.rows[changeable], path.length[changeable]
    parts = base.parts.take(rows)
    runs = (parts.part == TimePart.ACTIVITY) & take_or(base.graph.is_gpu, parts.owner, otherwise=False)
    talks = (parts.part == TimePart.ACTIVITY) & (parts.bound == BoundBy.GPU_COMMUNICATION_BOUND)
    has_frames = bool((base.graph.event_table.kind == EventKind.PYTHON_FUNCTION).any())
    has_frames |= bool(replayed_names(base.graph, "frame"))
    found = {
        "class": {
            bound.label: int(length[parts.bound == bound].sum())
            for bound in BoundBy
            if bound != BoundBy.UNEXPLAINED and (parts.bound == bound).any()
        },
        "kernel": _times_by_name(base, parts.owner, np.where(runs & ~talks, length, 0)),
        "collective": _times_by_name(base, parts.owner, np.where(talks, length, 0)),
        **{
            kind: _times_by_owner(base, kind, parts.owner, length)
            for kind in ("operator", "module", *(["frame"] if has_frames else []))
        },
    }
    if base.graph.is_job:
        shared = np.isin(parts.bound, (BoundBy.GPU_COMMUNICATION_BOUND, BoundBy.UNEXPLAINED))
        here, own = base.part_rank[rows][~shared], length[~shared]
        found["rank"] = {
            str(part.rank): int(own[here == part.index].sum())
            for part in base.graph.rank_graphs
            if (here == part.index).any()
        }
    return found


OWNS_ITSELF = {"operator": EventKind.CPU_OP, "frame": EventKind.PYTHON_FUNCTION}
"""Kinds of owners whose own time belongs to themselves and not to what is around them."""


def _innermost_owners(base: ReplayGraph, kind: str, owner: Ids) -> Ids:
    """Return the innermost operator, module or frame that each owner's time belongs to (row; -1: none)."""
    graph = base.graph
    on_cpu = issuing_rows(graph, owner)
    found = np.full(len(owner), -1, np.int32)
    for part in graph.rank_graphs:
        here = np.flatnonzero(graph.rank_index_of(on_cpu) == part.index)
        own = part.of_rank(on_cpu[here])
        innermost = take_or(OWNER_LOOKUPS[kind](part.graph)[0], own)
        if kind in OWNS_ITSELF:
            innermost = np.where(part.graph.event_table.kind[own] == OWNS_ITSELF[kind], own, innermost)
        if kind == "frame":
            is_module = take_or(part.graph.event_flags.module_frame, innermost, otherwise=False)
            innermost = np.where(is_module, -1, innermost)
        found[here] = part.of_job(innermost)
    return found


def _times_by_owner(base: ReplayGraph, kind: str, owner: Ids, length: Ints) -> dict[str, int]:
    """Add up time (ns) by the innermost operator, module or frame; that of graph replays by the names over them."""
    names = replayed_names(base.graph, kind)
    code = take_or(names.innermost, owner)
    if kind == "frame":
        modules = {*replayed_names(base.graph, "module").used}
        code = np.append(
            np.where([text in modules for text in names.texts] or False, -1, np.arange(len(names.texts) or 1)), -1
        )[code]
    found = _times_by_name(base, _innermost_owners(base, kind, owner), np.where(code >= 0, 0, length))
    time = summed_by(code[code >= 0], length[code >= 0], len(names.texts))
    for of in np.flatnonzero(time).tolist():
        found[names.texts[of]] = found.get(names.texts[of], 0) + int(time[of])
    return found


def _times_by_name(base: ReplayGraph, owner: Ids, length: Ints) -> dict[str, int]:
    """Add up the time (ns) of owners by their names, in the order of these in the graph."""
    code = take_or(base.graph.event_table.name, owner)
    time = summed_by(code[code >= 0], length[code >= 0], len(base.graph.names))
    return {base.graph.names[of]: int(time[of]) for of in np.flatnonzero(time).tolist()}
