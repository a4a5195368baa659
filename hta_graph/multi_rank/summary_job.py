"""Jobs of rank summaries: these are joined, and files are read once more where a question takes all rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from hta_graph.attribution.graph_kernels import CaptureSource
from hta_graph.base.errors import HtaGraphError
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.job_graph import JobGraph
from hta_graph.graph.rank_summary import RankSummary, fingerprint
from hta_graph.multi_rank.join_ranks import join_ranks
from hta_graph.multi_rank.matching.collectives import Collectives, MatchedRanks, match_collectives, waits_of_rank
from hta_graph.multi_rank.matching.read_communications import read_communications
from hta_graph.multi_rank.read_engine import RankRequest
from hta_graph.multi_rank.read_options import ReadOptions
from hta_graph.multi_rank.read_ranks import read_files
from hta_graph.multi_rank.summary.critical_paths import ExcerptRequest, SummaryPaths, file_changed_error
from hta_graph.multi_rank.summary.summarize import SummaryRequest
from hta_graph.multi_rank.what_if.job_replay import JobReplay, ReadReplays
from hta_graph.multi_rank.what_if.rank_replay import ReplayRequest
from hta_graph.paths.windows import Window
from hta_graph.trace.rank_files import RankFile

MAX_ACTIVITIES = 1 << 16
"""How much that ranks did is listed on its own for causes, over all ranks."""
MIN_ACTIVITIES = 8


def activities_per_rank(ranks: int) -> int:
    """Return how much of what each rank did is listed on its own for causes, by the number of ranks."""
    return max(MIN_ACTIVITIES, MAX_ACTIVITIES // max(ranks, 1))


@dataclass(kw_only=True)
class SummarySource(SummaryPaths):
    """Answers for a job of summaries what takes all rows of its ranks: their files are read once more.

    The job has it and is not kept by it.

    Args:
        matched: what the ranks did together.
        read_excerpts: asks the whole graphs where paths lead.
        annotations: those whose windows the summaries know (:class:`SummaryRequest`).
        read_replays: asks the whole graphs what a replay needs.
        read_whole: reads the whole graphs of some ranks.
    """

    annotations: tuple[dict[str, Any], ...]
    read_replays: ReadReplays
    read_whole: Callable[[Iterable[int]], dict[int, DependencyGraph]]

    def full_rank_graphs(self, ranks: Iterable[int]) -> dict[int, DependencyGraph]:
        """Return the whole graphs of some ranks.

        Raises:
            HtaGraphError: a file cannot be read once more, or has changed.
        """
        return self.read_whole(ranks)

    def replay(self, job: JobGraph, window: Window, asked: str) -> JobReplay:
        """Return the replay of a window, given with how it was asked for."""
        return JobReplay(job, window, asked, self.annotations, self.matched, self.read_replays)


class SummaryJobReader:
    """Joins summaries, and reads the files of ranks once more where a question needs that.

    Args:
        options: how files are read.
        question: what the summaries were asked.
    """

    def __init__(self, options: ReadOptions, question: SummaryRequest) -> None:
        # Where a cluster is watched was said when ranks were read first.
        self._options, self._question = replace(options, say=lambda _: None), question

    def align_summaries(
        self, summaries: Mapping[int, DependencyGraph]
    ) -> tuple[dict[int, DependencyGraph], Collectives]:
        """Return summaries that can be joined, and what the ranks did together.

        Where a rank's clock drifts, its summary is made again in the job's time.

        Raises:
            HtaGraphError: a file cannot be read once more, or has changed.
        """
        matched = match_collectives({rank: read_communications(graph) for rank, graph in summaries.items()})
        clocks = {rank: clock for rank, clock in matched.clocks.by_rank.items() if not clock.is_constant_offset}
        questions = {
            rank: replace(self._question, clock=SummaryRequest.clock_record(clock)) for rank, clock in clocks.items()
        }
        again = self._read_again(
            "reading ranks whose clocks differ",
            {rank: summaries[rank] for rank in questions},
            lambda rank: replace(self._whole_rank, summary=questions[rank]),
        )
        for rank, graph in again.items():
            _refuse_changed(summaries[rank], graph)
            # What a dump of the flight recorder numbered stays so.
            numbered = replace(read_communications(graph), arguments=read_communications(summaries[rank]).arguments)
            again[rank] = graph.with_attached(numbered)
        timed = {**summaries, **again}
        known = MatchedRanks(timed.keys(), matched)
        return {rank: graph.with_attached(known) for rank, graph in timed.items()}, matched

    def job(self, summaries: Mapping[int, DependencyGraph]) -> JobGraph:
        """Join summaries to a job whose paths are read from the ranks' files on demand.

        Raises:
            HtaGraphError: a file cannot be read once more.
        """
        timed, matched = self.align_summaries(summaries)

        def ask(questions: Mapping[int, ExcerptRequest]) -> dict[int, DependencyGraph]:
            return self._read_again(
                "reading ranks on the path",
                {rank: timed[rank] for rank in questions},
                lambda rank: replace(self._whole_rank, excerpt=questions[rank]),
            )

        def ask_replay(
            doing: str, ranks: Iterable[int], question: Callable[[int], ReplayRequest]
        ) -> dict[int, DependencyGraph]:
            return self._read_again(
                doing,
                {rank: timed[rank] for rank in ranks},
                lambda rank: replace(self._whole_rank, replay=question(rank)),
            )

        def read_whole(ranks: Iterable[int]) -> dict[int, DependencyGraph]:
            return self._whole({rank: timed[rank] for rank in ranks}, matched)

        source = SummarySource(
            matched=matched,
            read_excerpts=ask,
            annotations=self._question.annotations,
            read_replays=ask_replay,
            read_whole=read_whole,
        )
        return join_ranks(timed.values(), matched=matched, source=source)

    @property
    def _whole_rank(self) -> RankRequest:
        options = self._options
        return RankRequest(
            options.salvage, communications=True, step_patterns=options.step_patterns,
            ignore_records=options.ignore_records,
        )  # fmt: skip

    def _whole(self, summaries: Mapping[int, DependencyGraph], matched: Collectives) -> dict[int, DependencyGraph]:
        found = self._read_again("reading whole ranks", summaries, lambda _: self._whole_rank)
        for rank, graph in found.items():
            _refuse_changed(summaries[rank], graph)
            if (source := summaries[rank].attached(CaptureSource)) is not None:
                found[rank] = graph.with_attached(source)
        # Compared with each other alone the few that are read would seem to wait for nobody.
        return {rank: graph.with_attached(waits_of_rank(graph, rank, matched)) for rank, graph in found.items()}

    def _read_again(
        self, doing: str, graphs: Mapping[int, DependencyGraph], asked: Callable[[int], RankRequest]
    ) -> dict[int, DependencyGraph]:
        if not graphs:
            return {}
        files = [
            RankFile(graph.path, rank, "header", process=graph.trace.settings.get("process"))
            for rank, graph in graphs.items()
        ]
        found = {}
        with closing(read_files(files, lambda file: asked(file.rank), self._options, doing)) as answers:
            for file, answer in zip(files, answers, strict=True):
                if isinstance(answer, HtaGraphError):
                    raise answer
                found[file.rank] = answer
        return found


def _refuse_changed(before: DependencyGraph, after: DependencyGraph) -> None:
    if _content_fingerprint(before) != _content_fingerprint(after):
        raise file_changed_error(after.path)


def _content_fingerprint(graph: DependencyGraph) -> str:
    """Return the fingerprint that shows whether a file has changed; of a summary that of its whole graph."""
    known = graph.attached(RankSummary)
    return fingerprint(graph) if known is None else known.content
