"""What is read of one rank's file: its graph, its summary, an excerpt, or what its job's replay needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from hta_graph.build.from_trace import build_without_log
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.trace.decompress import cached_text
from hta_graph.trace.rank_files import RankFile
from hta_graph.trace.read import read_rank
from hta_graph.trace.table import Trace

if TYPE_CHECKING:
    from hta_graph.multi_rank.summary.critical_paths import ExcerptRequest
    from hta_graph.multi_rank.summary.summarize import SummaryRequest
    from hta_graph.multi_rank.what_if.rank_replay import ReplayRequest


@dataclass(frozen=True)
class RankRequest:
    """What is read of a rank's file: its whole graph, a summary of it, an excerpt, or what its job's replay needs.

    ``salvage``: the complete events of a truncated file are read. ``communications``: what the rank did with others
    is read too, while the text is at hand. ``step_patterns`` are regular expressions of annotations that are steps.
    """

    salvage: bool = False
    communications: bool = False
    summary: SummaryRequest | None = None
    excerpt: ExcerptRequest | None = None
    replay: ReplayRequest | None = None
    step_patterns: tuple[str, ...] = ()

    def as_record(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "salvage": self.salvage,
            "communications": self.communications,
            "summary": self.summary and asdict(self.summary),
            "excerpt": self.excerpt and self.excerpt.as_record(),
            "replay": self.replay and self.replay.as_record(),
            "step_patterns": list(self.step_patterns),
        }

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> RankRequest:
        """Undo :meth:`as_record`."""
        from hta_graph.multi_rank.summary.critical_paths import ExcerptRequest  # late, as below
        from hta_graph.multi_rank.summary.summarize import SummaryRequest

        few, more = record["summary"], record["excerpt"]
        replay = None
        if record["replay"]:
            from hta_graph.multi_rank.what_if.rank_replay import ReplayRequest

            replay = ReplayRequest.of_record(record["replay"])
        return cls(
            record["salvage"],
            record["communications"],
            few and SummaryRequest.of_record(few),
            more and ExcerptRequest.of_record(more),
            replay,
            tuple(record["step_patterns"]),
        )


def read_rank_graph(file: RankFile, asked: RankRequest) -> DependencyGraph:
    """Build the graph of a rank's file, or the requested part of it.

    Raises:
        HtaGraphError: the file cannot be read.
    """
    return build_rank_graph(lambda: read_rank(file, salvage=asked.salvage), asked)


def build_rank_graph(read: Callable[[], Trace], asked: RankRequest) -> DependencyGraph:
    """Build the graph of what is read, or the requested part of it.

    Raises:
        HtaGraphError: the file cannot be read.
    """
    if not (asked.communications or asked.summary or asked.excerpt or asked.replay):
        return build_without_log(replace(read(), step_patterns=asked.step_patterns))
    from hta_graph.multi_rank.matching.read_communications import read_communications  # late: one rank needs none

    with cached_text():
        graph = build_without_log(replace(read(), step_patterns=asked.step_patterns))
        graph = graph.with_attached(read_communications(graph))
        if asked.summary:
            from hta_graph.multi_rank.summary.summarize import summarize_rank

            return summarize_rank(graph, asked.summary)
        if asked.replay:
            from hta_graph.multi_rank.what_if.rank_replay import answer_replay_request

            return answer_replay_request(graph, asked.replay)
        if asked.excerpt:
            from hta_graph.multi_rank.summary.critical_paths import make_path_excerpt

            return make_path_excerpt(graph, asked.excerpt)
        return graph
