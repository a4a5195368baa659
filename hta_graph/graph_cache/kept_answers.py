"""Answers about a file's graph that take long and are small, kept next to it: the verdict about a window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph_cache.cached_graphs import GraphCache
from hta_graph.graph_cache.entry_file import Entry
from hta_graph.quick_dataclass import dataclass
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

    def answer(self, graph: DependencyGraph, question: Any, compute: Callable[[], Any], is_sound: IsSound) -> Any:
        """Return the answer to a question, both as JSON has them; compute it where it is not kept, or not sound."""
        trace = graph.trace
        asked = [self.salvage, str(trace.path), trace.rank, list(trace.step_patterns), question]
        known = self.cache.find(trace.path, "answer", asked)
        if known is not None and is_sound(known.record.get("answer")):
            return known.record["answer"]
        found = compute()
        if self.cache.has_graph(trace.path, salvage=self.salvage):
            self.cache.keep(trace.path, "answer", asked, Entry({"answer": found}))
        return found


def with_kept_answers(graph: DependencyGraph, cache: GraphCache, *, salvage: bool) -> DependencyGraph:
    """Return a graph, as it was read of the only recording of a file, whose answers are kept."""
    return graph.with_attached(KeptAnswers(cache, graph.event_table, salvage))


def kept_answer(graph: DependencyGraph, question: Any, compute: Callable[[], Any], is_sound: IsSound) -> Any:
    """Return the answer to a question about a graph; where its answers are kept it may be known."""
    known = graph.attached(KeptAnswers)
    # What else is attached, such as the recording of a capture or what other ranks did, may change an answer.
    is_as_read = known is not None and graph.attached_tables == (known,) and graph.event_table is known.events
    return known.answer(graph, question, compute, is_sound) if known is not None and is_as_read else compute()
