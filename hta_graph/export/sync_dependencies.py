"""Synchronisation dependencies: GPU work that a CPU thread or another stream waited for, as simulators need them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from hta_graph.base.arrays import Columns, pair_key, take_or
from hta_graph.base.errors import QueryError, Remedy
from hta_graph.base.text.csv_text import csv_line, csv_rows
from hta_graph.graph.conversion import labels, none_where, texts_of_codes
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.edges import EventEdges, labels_of_rules
from hta_graph.graph.stream_waits import WAITS_FOR_STREAMS, stream_waits
from hta_graph.model import Bools, EdgeKind, EventKind, Evidence, Ids, Ints, edge_kinds
from hta_graph.paths.binding_edges import binding_edges
from hta_graph.paths.polled_loops import waiting_since
from hta_graph.paths.windows import WindowQuery, whole

if TYPE_CHECKING:
    import pandas as pd


GPU_TO_CPU = edge_kinds(lambda meaning: meaning.exported == "cpu")
"""Edges from the end of an activity to the return of a CPU call that waited for it."""
GPU_TO_GPU = WAITS_FOR_STREAMS
"""Edges from the end of an activity to the start of one on a stream that waited for it."""

ROWS_AT_ONCE = 50_000


@dataclass(frozen=True, eq=False)
class SyncPairs(Columns):
    """Dependencies in the order of their targets, and the events behind them (canonical rows, -1: none).

    ``edge`` is the row in the graph's edges; ``call`` is the CPU call that waited, or that made a stream wait;
    ``target`` is what came after. The external ids are those of operators: the one that launched an activity, or the
    target itself; -1 where there is none. ``binding`` marks the sources that ended the wait: those that finished last,
    of equals one.
    """

    edge: Ids
    source: Ids
    call: Ids
    target: Ids
    source_id: Ints
    target_id: Ints
    binding: Bools


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

    def __init__(self, graph: DependencyGraph, window: WindowQuery | None = None) -> None:
        """Ask a question.

        Args:
            graph: a dependency graph.
            window: a CPU call's dependencies belong to the windows that the call overlaps, a stream's to the window in
                which the waiting activity starts; the whole trace if not given.

        Raises:
            QueryError: the window is not in the trace, or the trace holds no events.
        """
        self.graph = graph
        found = (window or whole())(graph)
        # A path ends where the work ends; a list of waits holds every one that was recorded.
        self.window = whole(all_rows=True)(graph) if found.is_whole else found

    @cached_property
    def to_cpu(self) -> SyncPairs:
        """Activities that CPU calls waited for; the target is the thread's next operator after the call, if any."""
        edges, events = self._edges_by_target(GPU_TO_CPU), self.graph.event_table
        start, end = events.start[edges.target], events.end[edges.target]
        # Overlap; a call without length still belongs to the window in which it starts.
        inside = self._before_end(start) & ((end > self.window.start_ns) | (start >= self.window.start_ns))
        edges = edges.take(inside)
        following = next_operators(self.graph, edges.target)
        return self._pairs_of_edges(edges, edges.target, following, following)

    @cached_property
    def to_gpu(self) -> SyncPairs:
        """Activities that other streams waited for; the target is the activity that had to wait."""
        edges = self._edges_by_target(GPU_TO_GPU)
        edges = edges.take((edges.target_ns >= self.window.start_ns) & self._before_end(edges.target_ns))
        calls = self.graph.wait_calls.of_pairs(edges.source, edges.target)
        return self._pairs_of_edges(edges, calls, edges.target, self.graph.launching_operator[edges.target])

    def _edges_by_target(self, kinds: tuple[EdgeKind, ...]) -> EventEdges:
        """Return edges in the order of their targets, then of their sources."""
        edges = self.graph.edges_of(*kinds)
        source, target = (
            self.graph.position(edges.source, edges.from_end),
            self.graph.position(edges.target, edges.to_end),
        )
        return edges.take(np.lexsort((edges.kind, source, target)))

    def _before_end(self, times: Ints) -> Bools:
        """Mark what is before the window's end; the trace's last instant belongs to the window that it ends."""
        last = int(self.graph.event_table.end.max())
        before: Bools = times < self.window.end_ns + (self.window.end_ns >= last)
        return before

    def _pairs_of_edges(self, edges: EventEdges, call: Ids, target: Ids, target_operator: Ids) -> SyncPairs:
        ids = self.graph.event_table.external_id
        launched_by = self.graph.launching_operator[edges.source]
        binding = np.isin(edges.row, binding_edges(self.graph))
        source_id, target_id = take_or(ids, launched_by), take_or(ids, target_operator)
        return SyncPairs(edges.row, edges.source, call, target, source_id, target_id, binding)

    def columns(self, found: SyncPairs, call_name: str = "sync") -> dict[str, Any]:
        """Return the output columns of one direction; ``None`` where there is no event or id, times in ns.

        Of a job also the ``rank``: a call and what it waited for are of one rank.
        """
        edges, waited = self.graph.edges_at(found.edge), self.waited_ns(found)
        ranks = {"rank": self.graph.rank_of(found.source)} if self.graph.is_job else {}
        return {
            **ranks,
            "kind": labels(EdgeKind, edges.kind),
            "evidence": labels(Evidence, edges.inferred.astype(np.int8)),
            **self._event_columns("source", found.source),
            "source_external_id": none_where(found.source_id, found.source_id < 0),
            **self._event_columns(call_name, found.call),
            **self._event_columns("target", found.target),
            "target_external_id": none_where(found.target_id, found.target_id < 0),
            "waited_ns": none_where(waited, waited < 0),
            "lag_ns": edges.lag,
            "binding": found.binding,
        }

    def waited_ns(self, found: SyncPairs) -> Ints:
        """Return how long each dependency's call or stream waited for the source's end (ns); -1: not known.

        A call waits from its start, or that of its loop of queries; a stream from when it could otherwise have run the
        target (:func:`stream_waits`).
        """
        edges = self.graph.edges_at(found.edge)
        waits, by_stream = np.empty(len(edges), np.int64), np.isin(edges.kind, GPU_TO_GPU)
        waits[by_stream] = stream_waits(self.graph, edges.take(by_stream))
        calls = edges.take(~by_stream)
        until = np.minimum(calls.source_ns, calls.target_ns)
        waits[~by_stream] = np.maximum(until - waiting_since(self.graph, calls.target), 0)
        return waits

    def _event_columns(self, what: str, rows: Ids) -> dict[str, Any]:
        events = self.graph.event_table
        return {
            f"{what}_index": none_where(take_or(events.index, rows), rows < 0),
            f"{what}_name": texts_of_codes(self.graph.names, take_or(events.name, rows)),
        }

    def table(self) -> dict[str, Any]:
        """Return both directions as the columns of one table, those of CPU calls first."""
        parts = []
        for direction, found in (("gpu_to_cpu", self.to_cpu), ("gpu_to_gpu", self.to_gpu)):
            edges = self.graph.edges_at(found.edge)
            parts.append({
                "direction": np.full(len(found), direction, object),
                **self.columns(found),
                "rule": labels_of_rules(self.graph.edge_table.rule[found.edge]),
                "clamped": edges.target_ns < edges.source_ns,
            })  # fmt: skip
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def external_ids(self) -> ExternalIds:
        """Return ``to_cpu`` as operators that wait for operators, each pair once, in ascending order.

        Raises:
            QueryError: the graph has several ranks, and each numbers its own operators.
        """
        if self.graph.is_job:
            raise QueryError(
                f"{self.graph.path}: external ids identify operators of a single rank",
                Remedy("ask job.graph(rank)", "pass --rank N to select one rank"),
            )
        target, source = self.to_cpu.target_id, self.to_cpu.source_id
        known = (target >= 0) & (source >= 0)
        other = known & (target != source)
        pairs = np.unique(np.stack([target[other], source[other]]), axis=1)
        targets, first = np.unique(pairs[0], return_index=True)
        # Pairs are sorted by target: where a new one begins, a new list does.
        lists = np.split(pairs[1], first[1:]) if len(targets) else []
        sources = {target: part.tolist() for target, part in zip(targets.tolist(), lists, strict=True)}
        return ExternalIds(sources, int(np.count_nonzero(~known)), int(np.count_nonzero(known & ~other)))


def sync_dependencies(graph: DependencyGraph, window: WindowQuery | None = None) -> pd.DataFrame:
    """List the CPU calls and the streams that waited for GPU work, whether or not the wait was needed.

    Columns: direction (gpu_to_cpu or gpu_to_gpu), kind, evidence, source_index, source_name, source_external_id (the
    activity waited for; the id of the innermost operator around its launch call), sync_index, sync_name (the CPU call
    that waited, or that made the stream wait; missing where no call shows it), target_index, target_name,
    target_external_id (the next operator on the call's thread after it returned, or the activity that waited),
    waited_ns (until the source's end: from the start of the call or of its loop of queries, or from when the stream
    could otherwise have run the target; missing where that is not known), lag_ns (from the source's end to the call's
    return or the target's start), binding (it ended the wait: it finished last), rule, clamped (a clock fault, lag 0);
    of a job also rank.
    Waits for other ranks are not among them.

    Args:
        graph: a dependency graph.
        window: :func:`step`, :func:`annotation`, :func:`between` or :func:`whole`; the whole trace if not given.

    Raises:
        QueryError: the window is not in the trace, or the trace holds no events.
    """
    import pandas as pd

    frame = pd.DataFrame(SyncDependencies(graph, window).table())
    ids = [name for name in frame.columns if name.endswith(("_index", "_external_id"))]
    return frame.astype(dict.fromkeys([*ids, "waited_ns"], "Int64"))


def sync_csv(found: SyncDependencies) -> Iterator[bytes]:
    """Yield the table of both directions as CSV with a header; empty where nothing is known."""
    table = found.table()
    columns = [column.tolist() for column in table.values()]
    yield csv_line(list(table))
    for at in range(0, len(columns[0]), ROWS_AT_ONCE):
        yield csv_rows([column[at : at + ROWS_AT_ONCE] for column in columns])


def external_ids_json(found: ExternalIds) -> bytes:
    """Return the text of {target: [sources]}; JSON's keys are strings."""
    return orjson.dumps(found.sources, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_APPEND_NEWLINE)


def next_operators(graph: DependencyGraph, calls: Ids, among: Bools | None = None) -> Ids:
    """Return for each call the next operator on its thread that starts when the call has returned; -1: none.

    An operator that starts at the very instant of the return comes after it; of several the outermost is taken.
    ``among`` marks the events that count; all if not given.
    """
    events = graph.event_table
    is_operator = events.kind == EventKind.CPU_OP
    operators = np.flatnonzero(is_operator if among is None else is_operator & among)
    key = pair_key(events.lane[operators], graph.position(operators))
    order = np.argsort(key)
    # Never before the call itself, which may have no length.
    after = np.maximum(graph.position_before(events.end[calls]), graph.position(calls))
    at = np.searchsorted(key[order], pair_key(events.lane[calls], after), side="right")
    following = np.append(operators[order], -1)[at]
    same_thread = (following >= 0) & (events.lane[following] == events.lane[calls])
    return np.where(same_thread, following, -1).astype(np.int32)
