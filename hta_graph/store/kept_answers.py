"""Answers about graphs that take long and are small, kept next to them, such as a window's verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.store.entry_file import Entry
from hta_graph.store.trace_cache import GraphCache
from hta_graph.trace.table import EventTable

IsSound = Callable[[Any], bool]
"""Returns whether an answer has the shape that its reader expects."""


@dataclass(frozen=True, eq=False)
class KeptAnswers:
    """Where answers about a graph are kept; attached to the graph of a whole file, as it was read.

    ``events`` are the graph's: an answer about a part of it is another one.
    """

    cache: GraphCache
    events: EventTable
    salvage: bool

    def is_about(self, graph: DependencyGraph) -> bool:
        """Return whether a graph is as it was read.

        What else is attached, such as the recording of a capture or what other ranks did, may change an answer.
        """
        return graph.event_table is self.events and all(table is self for table in graph.attached_tables)

    def has(self, graph: DependencyGraph) -> bool:
        """Return whether the graph is kept, and its file still holds what was read."""
        return self.cache.has_graph(graph.path, salvage=self.salvage)

    def asked_of(self, graph: DependencyGraph) -> list[Any]:
        """Return what distinguishes questions about graphs of one content."""
        trace = graph.trace
        return [self.salvage, str(trace.path), trace.rank, list(trace.step_patterns)]


def with_kept_answers(graph: DependencyGraph, cache: GraphCache, *, salvage: bool) -> DependencyGraph:
    """Return a graph whose answers are kept; the graph itself where it is not in the cache as it was read."""
    if not cache.has_graph(graph.path, salvage=salvage):
        return graph
    return graph.with_attached(KeptAnswers(cache, graph.event_table, salvage))


def kept_answer(graph: DependencyGraph, question: Any, compute: Callable[[], Any], is_sound: IsSound) -> Any:
    """Return the answer to a question about a graph, both as JSON has them; where answers are kept it may be known."""
    known = graph.attached(KeptAnswers)
    if known is None or not known.is_about(graph):
        return compute()
    asked = [*known.asked_of(graph), question]
    entry = known.cache.find(graph.path, "answer", asked)
    if entry is not None and is_sound(entry.record.get("answer")):
        return entry.record["answer"]
    found = compute()
    if known.has(graph):
        known.cache.keep(graph.path, "answer", asked, Entry({"answer": found}))
    return found
