"""What is worth changing: what lies on the path, and what the window would gain if it took half its time, or none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hta_graph.arrays import picked, summed_by
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.job_graph import JobGraph
from hta_graph.model import Bools, BoundBy, EventKind, Ids, Ints
from hta_graph.paths.time_accounting import TimePart
from hta_graph.paths.windows import Window
from hta_graph.what_if.draft import Draft
from hta_graph.what_if.modified_window import PathTotals, path_of_draft, recorded_path, without_partner
from hta_graph.what_if.replay import replayable
from hta_graph.what_if.replay_graph import Replayable
from hta_graph.what_if.selectors import OWNERS_OF_ROWS, What, issuing_rows, selected_parts
from hta_graph.what_if.sensitivity import next_on_path

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "WORTH_A_NAME",
    "Opportunity",
    "TimesByKind",
    "best_first",
    "is_worth_a_row",
    "listed_opportunities",
    "opportunities",
    "opportunity_frame",
    "saved_by",
    "things_worth_a_look",
    "time_alone",
    "times_on_path",
]

OF_A_KIND = 8
"""How many names of a kind are looked at, those with the most time on the path."""
OF_KINDS = {"class": len(BoundBy), "rank": 32}
"""The same of kinds of things that are no events with names."""

WORTH_A_NAME = 10
"""For so many rows it is found what would come next."""

LEAST_SHARE = 0.001
"""What is shorter on the path than this share of the window is no opportunity."""


@dataclass(frozen=True)
class Opportunity:
    """A thing on the path, and what the window would gain (ns) if it took half its time, or none.

    ``next`` is what most time would be spent with then that is not on the path today; None if nothing is. ``alone_ns``
    is how much of it on the path is communication whose partners are not known, and so may be waiting for them.
    """

    kind: str
    name: str
    on_path_ns: int
    saved_half_ns: int
    saved_free_ns: int
    next: str | None
    alone_ns: int = 0

    @property
    def may_be_waiting(self) -> bool:
        """Whether most of it may be no work but waiting for ranks of which there is no file."""
        return 2 * self.alone_ns > self.on_path_ns

    @property
    def what(self) -> str:
        """The thing as :func:`scale` and ``--scale`` understand it."""
        return f"{self.kind}:{self.name}"


def opportunities(graph: DependencyGraph, window: Window | None = None) -> pd.DataFrame:
    """List what lies on a window's path, with what each thing's time would gain: what to look at first.

    Args:
        graph: one rank's or a job's.
        window: as for :func:`critical_path`.

    Returns:
        columns kind (class, operator, module, kernel, collective, rank), name, on_path_ns, saved_half_ns,
        saved_free_ns, next; most saved by half first. Rows overlap: an operator's kernels are in its class too.
    """
    return opportunity_frame(listed_opportunities(replayable(graph, window)))


def opportunity_frame(found: Sequence[Opportunity]) -> pd.DataFrame:
    """Return opportunities as the table of :func:`opportunities`."""
    import pandas as pd

    columns = ["kind", "name", "on_path_ns", "saved_half_ns", "saved_free_ns", "next"]
    return pd.DataFrame([vars(one) for one in found], columns=columns)


def listed_opportunities(base: Replayable) -> list[Opportunity]:
    """Return the rows of :func:`opportunities`."""
    path = recorded_path(base)[0]
    found = [(what, meant, path.time_of(meant)) for what, meant in _candidates(base, path)]
    found = [one for one in found if is_worth_a_row(one[2], base.length_ns)]
    drafts = [_scaled(base, meant, factor) for _, meant, _ in found for factor in (0.5, 0.0)]
    saved = saved_by(base, drafts).reshape(-1, 2).tolist()
    rows = [
        Opportunity(what.kind, what.pattern, time, half, free, None, time_alone(path, meant))
        for (what, meant, time), (half, free) in zip(found, saved, strict=True)
    ]
    order = best_first(rows)
    meant = {at: found[at][1] for at in order[:WORTH_A_NAME]}
    return [replace(rows[at], next=_what_is_next(base, path, meant[at])) if at in meant else rows[at] for at in order]


def saved_by(base: Replayable, drafts: Sequence[Draft]) -> Ints:
    """Return how much shorter (ns) a window would be with each of several drafts: quicker than one after the other."""
    if not drafts:
        return np.zeros(0, np.int64)
    values = base.paths.many((draft.weight for draft in drafts), base.times, base.window.sink.ends)
    tails = np.array([draft.tails for draft in drafts], np.int64).reshape(values.shape)
    saved: Ints = recorded_path(base)[1] - base.ends_of(values, tails)
    return saved


def is_worth_a_row(on_path_ns: int, window_ns: int) -> bool:
    """Tell whether what lies on a path for so long is an opportunity."""
    return on_path_ns > 0 and on_path_ns >= LEAST_SHARE * window_ns


def best_first(rows: Sequence[Opportunity]) -> list[int]:
    """Return the places of opportunities in the order of the table."""
    return sorted(range(len(rows)), key=lambda at: (-rows[at].saved_half_ns, -rows[at].on_path_ns, rows[at].what))


def time_alone(path: PathTotals, meant: Bools) -> int:
    """Return how much (ns) of some parts on a path is communication whose partners are not known."""
    alone = picked(without_partner(path.base.graph), path.base.parts.owner, otherwise=False)
    return path.time_of(meant & alone)


def _scaled(base: Replayable, meant: Bools, factor: float) -> Draft:
    draft = Draft(base)
    draft.factor[meant] = factor
    return draft


def _what_is_next(base: Replayable, path: PathTotals, meant: Bools) -> str | None:
    draft = _scaled(base, meant, 0.0)
    weight = draft.weight
    values = base.paths.values(weight, base.times)
    return next_on_path(path, path_of_draft(draft, values, weight, draft.tails), meant)


def _candidates(base: Replayable, path: PathTotals) -> Iterator[tuple[What, Bools]]:
    """Yield what takes most of the path, kind by kind, with the parts of time that are meant."""
    for what in things_worth_a_look(times_on_path(path)):
        if what.kind != "rank" or len(base.graph.parts) > 1:
            yield what, selected_parts(base, what)


TimesByKind = Mapping[str, Mapping[str, int]]
"""By kind of thing and name its time (ns) on a path."""


def things_worth_a_look(times: TimesByKind) -> Iterator[What]:
    """Yield of each kind what takes most time; of classes all."""
    for kind, own in times.items():
        longest = sorted((name for name in own if own[name]), key=lambda name: (-own[name], name))
        reading = "" if kind in OF_KINDS else "name"
        yield from (What(kind, name, reading) for name in longest[: OF_KINDS.get(kind, OF_A_KIND)])


def times_on_path(path: PathTotals) -> TimesByKind:
    """Add up what may change on a path by kind and name."""
    base = path.base
    changeable = base.may_change[path.rows]
    rows, length = path.rows[changeable], path.length[changeable]
    parts = base.parts.take(rows)
    runs = (parts.part == TimePart.ACTIVITY) & picked(base.graph.is_gpu, parts.owner, otherwise=False)
    talks = (parts.part == TimePart.ACTIVITY) & (parts.bound == BoundBy.GPU_COMMUNICATION_BOUND)
    found = {
        "class": {
            bound.label: int(length[parts.bound == bound].sum())
            for bound in BoundBy
            if bound != BoundBy.UNEXPLAINED and (parts.bound == bound).any()
        },
        "kernel": _by_name(base, parts.owner, np.where(runs & ~talks, length, 0)),
        "collective": _by_name(base, parts.owner, np.where(talks, length, 0)),
        **{kind: _by_name(base, _innermost(base, kind, parts.owner), length) for kind in ("operator", "module")},
    }
    if isinstance(base.graph, JobGraph):
        shared = np.isin(parts.bound, (BoundBy.GPU_COMMUNICATION_BOUND, BoundBy.UNEXPLAINED))
        here, own = base.part_rank[rows][~shared], length[~shared]
        found["rank"] = {
            str(part.rank): int(own[here == part.place].sum())
            for part in base.graph.parts
            if (here == part.place).any()
        }
    return found


def _innermost(base: Replayable, kind: str, owner: Ids) -> Ids:
    """Return the innermost operator or module that each owner's time belongs to (row; -1: none)."""
    graph = base.graph
    on_cpu = issuing_rows(graph, owner)
    found = np.full(len(owner), -1, np.int32)
    for part in graph.parts:
        here = np.flatnonzero(graph.part_of(on_cpu) == part.place)
        own = part.of_rank(on_cpu[here])
        innermost = picked(OWNERS_OF_ROWS[kind](part.graph)[0], own)
        if kind == "operator":
            innermost = np.where(part.graph.event_table.kind[own] == EventKind.CPU_OP, own, innermost)
        found[here] = part.of_job(innermost)
    return found


def _by_name(base: Replayable, owner: Ids, length: Ints) -> dict[str, int]:
    """Add up the time (ns) of owners by their names, in the order of these in the graph."""
    code = picked(base.graph.event_table.name, owner)
    time = summed_by(code[code >= 0], length[code >= 0], len(base.graph.names))
    return {base.graph.names[of]: int(time[of]) for of in np.flatnonzero(time).tolist()}
