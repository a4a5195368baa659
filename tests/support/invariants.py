"""What every graph and every path obeys, whatever the trace (DESIGN §7)."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import networkx
import numpy as np
import rustworkx

import hta_graph as hg
from hta_graph import DependencyGraph
from hta_graph.base.errors import QueryError
from hta_graph.model import CLOCK_FAULT_LIMIT_NS, WALKABLE, BoundBy, EventKind, kind_mask
from hta_graph.paths.windows import WindowQuery
from hta_graph.what_if.replay import replay_graph
from hta_graph.what_if.slack import latest_times


class BrokenRuleError(AssertionError):
    """A result that breaks an invariant, or an error that is not one clear line."""


def check_graph(graph: DependencyGraph, windows: Sequence[WindowQuery] = (), *, oracle: bool = False) -> int:
    """Check DESIGN §7 on a graph and on the paths of windows; return how many windows had an answer."""
    _check_edges(graph)
    _check_acyclic(graph, oracle=oracle)
    answered = 0
    for window in windows:
        with contextlib.suppress(QueryError):
            path = hg.critical_path(graph, window)
            check_path(path)
            check_replay(path, window)
            answered += 1
    return answered


def require(true: Any, rule: str) -> None:
    if not true:
        raise BrokenRuleError(rule)


def _check_edges(graph: DependencyGraph) -> None:
    edges, times = graph.edge_table, graph.timeline.times
    back = times[edges.source] - times[edges.target]
    walkable = kind_mask(graph.trace.events.kind, WALKABLE) | graph.is_activity
    require(back.max(initial=0) <= CLOCK_FAULT_LIMIT_NS, "an edge goes back by more than a clock fault")
    require((edges.lags(times) >= 0).all(), "a lag is negative")
    require(np.array_equal(edges.clamped(times), back > 0), "clamped is not: goes back in time")
    require(walkable[edges.source >> 1].all() and walkable[edges.target >> 1].all(), "a row that is only looked up")
    require(graph.diagnostics["edges_clamped"] >= int((back > 0).sum()), "clamped edges are not counted")
    keys = np.stack([edges.source, edges.target, edges.kind])
    require(len(np.unique(keys, axis=1).T) == len(edges), "an edge is there twice")


def _check_acyclic(graph: DependencyGraph, *, oracle: bool) -> None:
    acyclic = rustworkx.is_directed_acyclic_graph(graph.to_rustworkx())
    require(acyclic, "the graph has a cycle")
    if oracle:
        require(networkx.is_directed_acyclic_graph(graph.to_networkx()), "networkx finds a cycle")


def check_path(path: hg.CriticalPath) -> None:
    """Check that the segments tile the window to the nanosecond and that every breakdown sums to it."""
    path.self_check()
    window, pieces = path.window, path.segment_table
    require(window.end_ns >= window.start_ns, "the window ends before it starts")
    require((pieces.end > pieces.start).all(), "a segment has no length")
    require(np.array_equal(pieces.start[1:], pieces.end[:-1]), "segments are not contiguous")
    require(bool(len(pieces)) == (path.length_ns > 0), "segments do not cover the window")
    require(sum(path.by_bound_ns.values()) == path.length_ns, "classes do not sum to the window")
    require(list(path.by_bound_ns) == [bound.label for bound in BoundBy], "not all ten classes are there")
    totals = [int(frame.time_ns.sum()) for frame in (path.by_event(), path.by_lane(), path.by_bound())]
    require(totals == [path.length_ns] * 3, "names, lanes or classes do not sum to the window")
    require(int(path.segments.duration_ns.sum()) == path.length_ns, "segments do not sum to the window")
    require(0 <= path.coverage <= 1, "coverage is not a share")
    columns = ("edge_kind", "inferred", "bound", "event", "lane")
    rows = list(zip(*(getattr(pieces, name).tolist() for name in columns), strict=True))
    require(all(left != right for left, right in pairwise(rows)), "equal neighbours are not merged")


def check_replay(path: hg.CriticalPath, window: WindowQuery) -> None:
    """Check that a replay without changes is what was recorded, with the same path, and that less time never adds."""
    try:
        same = hg.replay(path.graph, window=window)
    except QueryError as error:
        raise BrokenRuleError(f"a window that has a path cannot be replayed: {error}") from error
    require(np.array_equal(same.times, path.graph.timeline.times), "a point does not fall on its recorded time")
    require(same.predicted_ns == same.measured_ns == same.identity_ns == path.length_ns, "identity is not exact")
    after = same.path_after
    require(sum(after.by_bound_ns.values()) == path.length_ns, "the replayed path's classes do not sum to the window")
    require(sum(after.by_rank_ns.values()) == path.length_ns, "the replayed path's ranks do not sum to the window")
    with contextlib.suppress(QueryError):
        free = hg.replay(path.graph, hg.scale("class:cpu_bound", 0), window)
        require((free.times <= path.graph.timeline.times).all(), "with less time something comes later")
    base = replay_graph(path.graph, window, with_previous=False)
    latest, inside = latest_times(base), base.is_inside
    require((latest[inside] >= base.times[inside])[latest[inside] >= 0].all(), "a point has less than no slack")


def some_windows(graph: DependencyGraph, rng: random.Random) -> list[WindowQuery]:
    """Choose windows of every form: whole, steps, annotations, times inside and outside."""
    events = graph.trace.events
    windows: list[WindowQuery] = [hg.whole()]
    if not len(events):
        return windows
    numbers = [step.number for step in graph.trace.steps()]
    for number in rng.sample(numbers, min(2, len(numbers))):
        windows += [hg.step(number), hg.step(number, cpu_window=True), hg.step(number, gpu_window=True)]
    named = np.unique(events.name[events.kind == EventKind.ANNOTATION]).tolist()
    for name in rng.sample(named, min(2, len(named))):
        last = rng.choice((None, 1, 2))
        windows.append(hg.annotation(graph.trace.names[name], last=last, cpu_window=rng.random() < 0.3))
    return windows + [_some_times(graph, rng) for _ in range(2)]


def _some_times(graph: DependencyGraph, rng: random.Random) -> WindowQuery:
    events = graph.trace.events
    first, last = int(events.start.min()), int(events.end.max())
    margin = max((last - first) // 3, 1_000)
    chosen = [rng.randint(first - margin, last + margin), rng.choice(events.start.tolist() + events.end.tolist())]
    start = min(chosen)
    return hg.between(start, max(*chosen, start + 1))
