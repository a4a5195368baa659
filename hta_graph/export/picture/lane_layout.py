"""Which edges are drawn as arrows: those between lanes, of the path first; of a job from whoever came last."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from hta_graph.arrays import Columns, first_of_runs, last_of_runs, take_or
from hta_graph.graph.edges import EventEdges
from hta_graph.model import Bools, Codes, EdgeKind, EventKind, Ids, Ints
from hta_graph.paths.critical_path import CriticalPath

__all__ = ["LaneArrows", "arrows_between_lanes", "arrows_of_kinds"]

MAX_OTHER_ARROWS = 24
"""Arrows that are not on the path are drawn if there are no more of them: more are a thicket."""


@dataclass(frozen=True, eq=False)
class LaneArrows(Columns):
    """Edges from a row to another (canonical), with the times (ns) of their ends; those of the path come first."""

    kind: Codes
    inferred: Bools
    source: Ids
    target: Ids
    source_ns: Ints
    target_ns: Ints
    on_path: Bools


def arrows_between_lanes(path: CriticalPath, shown: Bools, limit: int) -> tuple[LaneArrows, int]:
    """Return the arrows between lanes that are shown, and how many others there are of these."""
    every = _in_window(path, _all_arrows(path), shown)
    lane = path.graph.event_table.lane
    every = every.take(lane[every.source] != lane[every.target])
    own, beside = every.take(every.on_path), every.take(~every.on_path)
    drawn = LaneArrows.join([own, beside]) if len(beside) <= MAX_OTHER_ARROWS else own
    # Of too many those that took longest.
    longest = np.argsort(drawn.source_ns - drawn.target_ns, kind="stable")
    kept = longest[np.argsort(~drawn.on_path[longest], kind="stable")][:limit]
    return drawn.take(np.sort(kept)), len(every) - len(kept)


def arrows_of_kinds(path: CriticalPath, shown: Bools, kinds: Collection[EdgeKind]) -> LaneArrows:
    """Return all arrows of some kinds, within lanes too."""
    every = _in_window(path, _all_arrows(path), shown)
    return every.take(np.isin(every.kind, list(kinds)))


def _all_arrows(path: CriticalPath) -> LaneArrows:
    """Return all edges in order of kind and time, those to and from where ranks meet as one from the last comer."""
    graph = path.graph
    edges = graph.edges_of()
    meets = graph.event_table.kind == EventKind.RENDEZVOUS
    into, out = meets[edges.target], meets[edges.source]
    plain = _arrows_of(path, edges.take(~into & ~out))
    return _sorted_arrows(LaneArrows.join([plain, _arrows_of_rendezvous(path, edges.take(into), edges.take(out))]))


def _arrows_of(path: CriticalPath, edges: EventEdges) -> LaneArrows:
    on_path = np.isin(edges.row, path.chain.edges)
    return LaneArrows.of(kind=edges.kind, inferred=edges.inferred, source=edges.source, target=edges.target,
                     source_ns=edges.source_ns, target_ns=edges.target_ns, on_path=on_path)  # fmt: skip


def _arrows_of_rendezvous(path: CriticalPath, into: EventEdges, out: EventEdges) -> LaneArrows:
    """Draw a meeting from the member that came last to each that waited for it, at the time when it came."""
    into = into.take(np.lexsort((into.source, into.source_ns, into.target)))
    last = into.take(np.flatnonzero(last_of_runs(into.target)))
    came = np.full(len(path.graph.event_table), -1, np.int32)
    came[last.target] = np.arange(len(last), dtype=np.int32)
    of = came[out.source]
    out, of = out.take(of >= 0), of[of >= 0]
    waited = take_or(last.source, of) != out.target
    out, last = out.take(waited), last.take(of[waited])
    return LaneArrows.of(kind=out.kind, inferred=out.inferred, source=last.source, target=out.target,
                     source_ns=last.source_ns, target_ns=last.source_ns,
                     on_path=np.isin(out.row, path.chain.edges))  # fmt: skip


def _sorted_arrows(arrows: LaneArrows) -> LaneArrows:
    columns = (arrows.target, arrows.source, arrows.target_ns, arrows.source_ns, arrows.kind)
    ordered = arrows.take(np.lexsort(columns))
    # One instance of what two rules say.
    return ordered.take(first_of_runs(*columns[::-1])) if len(ordered) else ordered


def _in_window(path: CriticalPath, arrows: LaneArrows, shown: Bools) -> LaneArrows:
    """Keep what lies in the window between rows of lanes that are shown."""
    lane, window = path.graph.event_table.lane, path.window
    ends = take_or(shown, lane[arrows.source], otherwise=False) & take_or(shown, lane[arrows.target], otherwise=False)
    first, last = (edge(arrows.source_ns, arrows.target_ns) for edge in (np.minimum, np.maximum))
    return arrows.take(ends & (first >= window.start_ns) & (last <= window.end_ns))
