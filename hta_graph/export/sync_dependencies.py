"""Synchronisation dependencies: GPU work that a CPU thread or another stream waited for, as simulators need them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from hta_graph.algorithms.attribution import launching_operators
from hta_graph.algorithms.walk import binding_edges
from hta_graph.algorithms.windows import Window, whole
from hta_graph.graph import DependencyGraph
from hta_graph.links import EdgeTable, LinkContext
from hta_graph.links.event_wait import held_back
from hta_graph.model import Bools, EdgeKind, EventKind, Evidence, Ids, Ints, Rule
from hta_graph.views import labels

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "GPU_TO_CPU",
    "GPU_TO_GPU",
    "Dependencies",
    "ExternalIds",
    "SyncDependencies",
    "external_ids_json",
    "next_operators",
    "sync_csv",
    "sync_dependencies",
]

GPU_TO_CPU = (EdgeKind.STREAM_SYNC, EdgeKind.DEVICE_SYNC, EdgeKind.EVENT_SYNC, EdgeKind.BLOCKING_COPY)
"""Edges from the end of an activity to the return of a CPU call that waited for it."""
GPU_TO_GPU = (EdgeKind.EVENT_WAIT,)
"""Edges from the end of an activity to the start of one on a stream that waited for it."""

ROWS_AT_ONCE = 50_000


@dataclass(frozen=True)
class Dependencies:
    """Edges in the order of their targets, and the events behind them (canonical rows, -1: none).

    ``call`` is the CPU call that waited, or that made a stream wait; ``target`` is what came after. The external ids
    are those of operators: the one that launched an activity, or the target itself; -1 where there is none.
    ``binding`` marks the sources that ended the wait: those that finished last, of equals one.
    """

    edges: EdgeTable
    source: Ids
    call: Ids
    target: Ids
    source_id: Ints
    target_id: Ints
    binding: Bools

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True)
class ExternalIds:
    """Which operators wait for GPU work of which operators, by external id, and how many dependencies have no place.

    ``missing``: one end has no external id; ``same``: both ends have the same one.
    """

    sources: dict[int, list[int]]
    missing: int
    same: int


class SyncDependencies:
    """All dependencies of a graph, or those of a window: ``to_cpu`` and ``to_gpu``."""

    def __init__(self, graph: DependencyGraph, window: Window | None = None) -> None:
        """Ask a question.

        Args:
            graph: a dependency graph.
            window: a CPU call's dependencies belong to the windows that the call overlaps, a stream's to the window in
                which the waiting activity starts; the whole trace if not given.

        Raises:
            QueryError: the window is not in the trace, or the trace holds no events.
        """
        self.graph = graph
        self.window = (window or whole())(graph)

    @cached_property
    def to_cpu(self) -> Dependencies:
        """Activities that CPU calls waited for; the target is the thread's next operator after the call, if any."""
        rows = self._rows(GPU_TO_CPU)
        call = self.graph.edge_table.target[rows] >> 1
        events = self.graph.trace.events
        inside = self._before_end(events.start[call])
        inside &= (events.end[call] > self.window.start_ns) | (events.start[call] >= self.window.start_ns)
        rows, call = rows[inside], call[inside]
        target = next_operators(self.graph, call)
        return self._dependencies(rows, call, target, target)

    @cached_property
    def to_gpu(self) -> Dependencies:
        """Activities that other streams waited for; the target is the activity that had to wait."""
        rows = self._rows(GPU_TO_GPU)
        start = self.graph.timeline.times[self.graph.edge_table.target[rows]]
        rows = rows[(start >= self.window.start_ns) & self._before_end(start)]
        target = self.graph.edge_table.target[rows] >> 1
        return self._dependencies(rows, _wait_calls(self.graph, rows), target, self._operators[target])

    def _rows(self, kinds: tuple[EdgeKind, ...]) -> Ints:
        edges, place = self.graph.edge_table, self.graph.timeline.position
        rows = np.flatnonzero(np.isin(edges.kind, kinds))
        return rows[np.lexsort((edges.kind[rows], place[edges.source[rows]], place[edges.target[rows]]))]

    def _before_end(self, times: Ints) -> Bools:
        """Mark what is before the window's end; the trace's last instant belongs to the window that it ends."""
        last = int(self.graph.trace.events.end.max())
        before: Bools = times < self.window.end_ns + (self.window.end_ns >= last)
        return before

    def _dependencies(self, rows: Ints, call: Ids, target: Ids, target_operator: Ids) -> Dependencies:
        edges = self.graph.edge_table.take(rows)
        source = edges.source >> 1
        ids = (self._external_ids(self._operators[source]), self._external_ids(target_operator))
        return Dependencies(edges, source, call, target, *ids, self._binding[edges.target] == rows)

    @cached_property
    def _binding(self) -> Ids:
        return binding_edges(self.graph.edge_table, self.graph)

    @cached_property
    def _operators(self) -> Ids:
        return launching_operators(self.graph)

    def _external_ids(self, operators: Ids) -> Ints:
        return np.where(operators >= 0, self.graph.trace.events.external_id[operators], -1)

    def columns(self, found: Dependencies, call_name: str = "sync") -> dict[str, Any]:
        """Return the output columns of one direction; ``None`` where there is no event or id, times in ns."""
        times = self.graph.timeline.times
        return {
            "kind": labels(EdgeKind, found.edges.kind),
            "evidence": labels(Evidence, found.edges.inferred.astype(np.int8)),
            **self._event_columns("source", found.source),
            "source_external_id": _or_none(found.source_id),
            **self._event_columns(call_name, found.call),
            **self._event_columns("target", found.target),
            "target_external_id": _or_none(found.target_id),
            "lag_ns": found.edges.lags(times),
            "binding": found.binding,
        }

    def _event_columns(self, what: str, rows: Ids) -> dict[str, Any]:
        events = self.graph.trace.events
        index, name = np.where(rows >= 0, events.index[rows], -1), np.where(rows >= 0, events.name[rows], -1)
        names = np.array([*self.graph.trace.names, None], object)
        return {f"{what}_index": _or_none(index), f"{what}_name": names[name]}

    def table(self) -> dict[str, Any]:
        """Return both directions as the columns of one table, those of CPU calls first."""
        parts = [
            {
                "direction": np.full(len(found), direction, object),
                **self.columns(found),
                "rule": labels(Rule, found.edges.rule),
                "clamped": found.edges.clamped(self.graph.timeline.times),
            }
            for direction, found in (("gpu_to_cpu", self.to_cpu), ("gpu_to_gpu", self.to_gpu))
        ]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def external_ids(self) -> ExternalIds:
        """Return ``to_cpu`` as operators that wait for operators, each pair once, in ascending order."""
        target, source = self.to_cpu.target_id, self.to_cpu.source_id
        known = (target >= 0) & (source >= 0)
        other = known & (target != source)
        pairs = np.unique(np.stack([target[other], source[other]]), axis=1)
        targets, first = np.unique(pairs[0], return_index=True)
        lists = np.split(pairs[1], first[1:]) if len(targets) else []
        sources = {target: part.tolist() for target, part in zip(targets.tolist(), lists, strict=True)}
        return ExternalIds(sources, int(np.count_nonzero(~known)), int(np.count_nonzero(known & ~other)))


def sync_dependencies(graph: DependencyGraph, window: Window | None = None) -> pd.DataFrame:
    """List who waited for GPU work: CPU calls, and streams at events, whether or not the wait was needed.

    Columns: direction (gpu_to_cpu or gpu_to_gpu), kind, evidence, source_index, source_name, source_external_id (the
    activity waited for; the id of the innermost operator around its launch call), sync_index, sync_name (the CPU call
    that waited, or that made the stream wait), target_index, target_name, target_external_id (the next operator on
    the call's thread after it returned, or the activity that waited), lag_ns (from the source's end to the call's
    return or the target's start), binding (it ended the wait: it finished last), rule, clamped (a clock fault, lag 0).

    Args:
        graph: a dependency graph.
        window: :func:`step`, :func:`annotation`, :func:`between` or :func:`whole`; the whole trace if not given.

    Raises:
        QueryError: the window is not in the trace, or the trace holds no events.
    """
    import pandas as pd

    frame = pd.DataFrame(SyncDependencies(graph, window).table())
    ids = [name for name in frame.columns if name.endswith(("_index", "_external_id"))]
    return frame.astype(dict.fromkeys(ids, "Int64"))


def sync_csv(found: SyncDependencies) -> Iterator[bytes]:
    """Yield the table of both directions as CSV with a header; empty where nothing is known."""
    table = found.table()
    columns = [column.tolist() for column in table.values()]
    yield _csv([tuple(table)])
    for at in range(0, len(columns[0]), ROWS_AT_ONCE):
        yield _csv(zip(*(column[at : at + ROWS_AT_ONCE] for column in columns), strict=True))


def external_ids_json(found: ExternalIds) -> bytes:
    """Return the text of {target: [sources]}; JSON's keys are strings."""
    return orjson.dumps(found.sources, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_APPEND_NEWLINE)


def _csv(rows: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8", "replace")


def next_operators(graph: DependencyGraph, calls: Ids, among: Bools | None = None) -> Ids:
    """Return for each call the next operator on its thread that starts when the call has returned; -1: none.

    An operator that starts at the very instant of the return comes after it; of several the outermost is taken.
    ``among`` marks the events that count; all if not given.
    """
    events, timeline = graph.trace.events, graph.timeline
    is_operator = events.kind == EventKind.CPU_OP
    operators = np.flatnonzero(is_operator if among is None else is_operator & among)
    key = _thread_key(events.lane[operators], timeline.position[2 * operators])
    order = np.argsort(key)
    returned = np.searchsorted(timeline.times[timeline.order], events.end[calls], side="left") - 1
    after = np.maximum(returned, timeline.position[2 * calls])
    at = np.searchsorted(key[order], _thread_key(events.lane[calls], after), side="right")
    following = np.append(operators[order], -1)[at]
    same_thread = (following >= 0) & (events.lane[following] == events.lane[calls])
    return np.where(same_thread, following, -1).astype(np.int32)


def _thread_key(lane: Ids, place: Ids | Ints) -> Ints:
    return lane.astype(np.int64) << 32 | place


def _wait_calls(graph: DependencyGraph, rows: Ints) -> Ids:
    """Find the call behind each event wait; of several for one pair a recorded one, then the first; -1: none."""
    waits = held_back(LinkContext(graph.trace, graph.timeline))
    found = np.full(len(rows), -1, np.int32)
    if len(waits.source):
        key = _pair_key(waits.source, waits.target)
        order = np.lexsort((graph.timeline.position[2 * waits.call], waits.rule, key))
        wanted = _pair_key(graph.edge_table.source[rows], graph.edge_table.target[rows])
        at = np.searchsorted(key[order], wanted).clip(max=len(key) - 1)
        found = np.where(key[order[at]] == wanted, waits.call[order[at]], found)
    return found


def _pair_key(source: Ids, target: Ids) -> Ints:
    return source.astype(np.int64) << 32 | target


def _or_none(numbers: Ids | Ints) -> np.ndarray[Any, np.dtype[np.object_]]:
    column: np.ndarray[Any, np.dtype[np.object_]] = numbers.astype(object)
    column[numbers < 0] = None
    return column
