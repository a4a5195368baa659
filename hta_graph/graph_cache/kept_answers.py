"""Answers about graphs that take long and are small, kept next to them: a window's verdict, what a command printed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph_cache.cached_graphs import GraphCache
from hta_graph.graph_cache.entry_file import Entry
from hta_graph.quick_dataclass import dataclass
from hta_graph.trace.table import EventTable

IsSound = Callable[[Any], bool]
"""Returns whether an answer has the shape that its reader expects."""

MOST_OUTPUT_BYTES = 4 << 20
"""Longer outputs are not kept: printing them takes as long as finding them."""


@dataclass(frozen=True, eq=False)
class KeptAnswers:
    """Where answers about a graph are kept; attached to the graph of a whole file, as it was read.

    ``events`` are the graph's: an answer about a part of it is another one.
    """

    cache: GraphCache
    events: EventTable
    salvage: bool

    def is_about(self, graph: DependencyGraph, *, of_job: bool = False) -> bool:
        """Return whether a graph is as it was read; ``of_job``: with what its file says about a job, if that was read.

        What else is attached, such as the recording of a capture or what other ranks did, may change an answer.
        """
        others = [
            table
            for table in graph.attached_tables
            if table is not self and not (of_job and getattr(table, "is_of_one_file", False))
        ]
        return not others and graph.event_table is self.events

    def has(self, graph: DependencyGraph) -> bool:
        """Return whether the graph is kept, and its file still holds what was read."""
        return self.cache.has_graph(graph.path, salvage=self.salvage)

    def asked_of(self, graph: DependencyGraph) -> list[Any]:
        """Return what distinguishes questions about graphs of one content."""
        trace = graph.trace
        return [self.salvage, str(trace.path), trace.rank, list(trace.step_patterns)]


def with_kept_answers(graph: DependencyGraph, cache: GraphCache, *, salvage: bool) -> DependencyGraph:
    """Return a graph, as it was read of the only recording of a file, whose answers are kept."""
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


def kept_output(
    graphs: Sequence[DependencyGraph],
    question: Any,
    compute: Callable[[], Iterable[bytes]],
    is_sound: IsSound,
    is_whole: Callable[[], bool],
) -> Iterator[bytes]:
    """Yield what a command writes about some graphs; where answers about all of them are kept it may be known.

    What ``compute`` returns is kept where ``is_whole`` then says so.
    """
    known = [(graph, graph.attached(KeptAnswers)) for graph in graphs]
    kept = [(graph, one) for graph, one in known if one is not None and one.is_about(graph, of_job=True)]
    if not kept or len(kept) < len(graphs):
        yield from compute()
        return
    path, cache = graphs[0].path, kept[0][1].cache
    asked = [[[cache.digest(graph.path), *one.asked_of(graph)] for graph, one in kept], question]
    entry = cache.find(path, "output", asked)
    if entry is not None and len(entry.columns) == 1 and is_sound(text := entry.columns[0].tobytes()):
        yield text
        return
    pieces, size = list[bytes](), 0
    for piece in compute():
        size += len(piece)
        if size <= MOST_OUTPUT_BYTES:
            pieces.append(piece)
        yield piece
    if size <= MOST_OUTPUT_BYTES and is_whole() and all(one.has(graph) for graph, one in kept):
        cache.keep(path, "output", asked, Entry({}, (np.frombuffer(b"".join(pieces), np.uint8),)))
