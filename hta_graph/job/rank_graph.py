"""One rank's file → its graph, or as much of it as is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hta_graph.build import build_graph
from hta_graph.graph import DependencyGraph
from hta_graph.job.matching.read_members import read_members
from hta_graph.job.skeletons.rank_excerpt import ExcerptQuestion, make_excerpt
from hta_graph.job.skeletons.rank_skeleton import SkeletonQuestion, make_skeleton
from hta_graph.trace.source import kept_text
from hta_graph.trace.table import Trace

__all__ = ["RankQuestion", "rank_graph"]


@dataclass(frozen=True)
class RankQuestion:
    """What is asked of a rank's file: its whole graph, a skeleton of it, or an excerpt.

    ``salvage``: the whole events of a file that breaks off are read. ``members``: what the rank did with others is read
    too, while the text is at hand.
    """

    salvage: bool = False
    members: bool = False
    skeleton: SkeletonQuestion | None = None
    excerpt: ExcerptQuestion | None = None

    def as_record(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "salvage": self.salvage,
            "members": self.members,
            "skeleton": self.skeleton and asdict(self.skeleton),
            "excerpt": self.excerpt and self.excerpt.as_record(),
        }

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> RankQuestion:
        """Undo :meth:`as_record`."""
        few, more = record["skeleton"], record["excerpt"]
        return cls(
            record["salvage"],
            record["members"],
            few and SkeletonQuestion.of_record(few),
            more and ExcerptQuestion.of_record(more),
        )


def rank_graph(read: Callable[[], Trace], asked: RankQuestion) -> DependencyGraph:
    """Build the graph of what is read, or as much of it as is asked for.

    Raises:
        HtaGraphError: the file cannot be read.
    """
    if not (asked.members or asked.skeleton or asked.excerpt):
        return build_graph(read())
    with kept_text():
        graph = build_graph(read())
        read_members(graph)
        if asked.skeleton:
            return make_skeleton(graph, asked.skeleton)
        return make_excerpt(graph, asked.excerpt) if asked.excerpt else graph
