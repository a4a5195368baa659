"""One rank's file → its graph, or as much of it as is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hta_graph.build import compose_graph
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.multi_rank.matching.read_members import read_members
from hta_graph.multi_rank.summary.rank_excerpt import ExcerptQuestion, make_excerpt
from hta_graph.multi_rank.summary.summarize import SkeletonQuestion, make_skeleton
from hta_graph.storage.named_places import full_name
from hta_graph.trace.rank_files import RankFile
from hta_graph.trace.read import read_rank
from hta_graph.trace.source import kept_text
from hta_graph.trace.table import Trace

if TYPE_CHECKING:
    from hta_graph.multi_rank.what_if.replay_question import ReplayQuestion

__all__ = ["RankQuestion", "graph_of_file", "rank_graph"]


@dataclass(frozen=True)
class RankQuestion:
    """What is asked of a rank's file: its whole graph, a summary of it, an excerpt, or what its job's replay needs.

    ``salvage``: the whole events of a file that breaks off are read. ``members``: what the rank did with others is read
    too, while the text is at hand. ``cache`` is where summaries are kept.
    """

    salvage: bool = False
    members: bool = False
    skeleton: SkeletonQuestion | None = None
    excerpt: ExcerptQuestion | None = None
    replay: ReplayQuestion | None = None
    cache: Path | None = None

    def as_record(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "salvage": self.salvage,
            "members": self.members,
            "skeleton": self.skeleton and asdict(self.skeleton),
            "excerpt": self.excerpt and self.excerpt.as_record(),
            "replay": self.replay and self.replay.as_record(),
            "cache": self.cache and full_name(self.cache),
        }

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> RankQuestion:
        """Undo :meth:`as_record`."""
        few, more, cache = record["skeleton"], record["excerpt"], record["cache"]
        replay = None
        if record["replay"]:
            from hta_graph.multi_rank.what_if.replay_question import (
                ReplayQuestion,  # only who replays needs what replays
            )

            replay = ReplayQuestion.of_record(record["replay"])
        return cls(
            record["salvage"],
            record["members"],
            few and SkeletonQuestion.of_record(few),
            more and ExcerptQuestion.of_record(more),
            replay,
            cache and Path(cache),
        )


def graph_of_file(file: RankFile, asked: RankQuestion) -> DependencyGraph:
    """Build the graph of a rank's file, or as much of it as is asked for; a summary may be kept already.

    Raises:
        HtaGraphError: the file cannot be read.
    """
    if asked.cache is None or asked.skeleton is None or file.error:
        return rank_graph(lambda: read_rank(file, salvage=asked.salvage), asked)
    from hta_graph.multi_rank.summary.summary_cache import SkeletonCache  # needs what writes Parquet

    cache = SkeletonCache(asked.cache, file, asked.as_record())
    return cache.known() or cache.keep(rank_graph(lambda: read_rank(file, salvage=asked.salvage), asked))


def rank_graph(read: Callable[[], Trace], asked: RankQuestion) -> DependencyGraph:
    """Build the graph of what is read, or as much of it as is asked for.

    Raises:
        HtaGraphError: the file cannot be read.
    """
    if not (asked.members or asked.skeleton or asked.excerpt or asked.replay):
        return compose_graph(read())
    with kept_text():
        graph = compose_graph(read())
        graph = graph.with_attached(read_members(graph))
        if asked.skeleton:
            return make_skeleton(graph, asked.skeleton)
        if asked.replay:
            from hta_graph.multi_rank.what_if.rank_replay import make_replay  # only who replays needs what replays

            return make_replay(graph, asked.replay)
        return make_excerpt(graph, asked.excerpt) if asked.excerpt else graph
