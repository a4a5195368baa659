"""The files of a job as one object: which ranks are read and how, as graphs or joined; the only way to either.

What reads traces and what joins ranks is imported when it is needed: a graph in the cache needs neither.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from hta_graph.base.errors import log_warning
from hta_graph.base.progress import begin_stage
from hta_graph.base.storage.location import Location, expand_file_lists
from hta_graph.multi_rank.read_options import Progress, ReadOptions, Report, no_progress

if TYPE_CHECKING:
    from hta_graph.graph.dependency_graph import DependencyGraph
    from hta_graph.graph.job_graph import JobGraph
    from hta_graph.multi_rank.summary.summarize import SummaryRequest
    from hta_graph.multi_rank.summary_job import SummaryJobReader
    from hta_graph.store.trace_cache import GraphCache
    from hta_graph.trace.read import Say

    SummariesOf = Callable[[int], SummaryRequest]
    """Maps the number of ranks that are held as summaries to what these must answer."""


@dataclass(frozen=True, kw_only=True)
class JobSource(ReadOptions):
    """Which ranks of which files are read, and how.

    Args:
        inputs: files, folders of rank files, patterns.
        ranks: read only these; of several files a single one is read alone, without what it did with others.
        captures: recordings of the capture of CUDA or HIP graphs, besides those in the folders of the ranks.
        flight: dumps of the flight recorder; by default those next to the traces.
        summaries: whether several ranks are held as summaries, ``always`` or ``never``; by default where whole graphs
            may take more memory than there is.
    """

    inputs: Sequence[str | Location]
    ranks: Collection[int] | None = None
    captures: Sequence[str | Location] = ()
    flight: Sequence[str | Location] | None = None
    summaries: str | None = None

    @cached_property
    def listed(self) -> list[Location]:
        """The inputs; files that list others are replaced by these."""
        return expand_file_lists(self.inputs)

    @cached_property
    def files(self) -> list[Location]:
        """The files that the inputs name.

        Raises:
            TraceError: there is none.
        """
        from hta_graph.trace.rank_files import expand_inputs

        return expand_inputs(self.listed)

    @cached_property
    def many_ranks(self) -> int:
        """The number of ranks that are held as summaries; 0 where they are held in full."""
        if self.summaries == "never" or not self.names_job:
            return 0
        return len(self.files) if self.summaries == "always" or not self._fit_in_memory() else 0

    @property
    def names_job(self) -> bool:
        """Whether several ranks are read, as far as the names of files show: few files hold more than one."""
        return (self.ranks is None or len(self.ranks) != 1) and len(self.files) > 1

    def _fit_in_memory(self) -> bool:
        """Return whether the whole graphs of ranks fit in memory; a line says what summaries lack."""
        from hta_graph.base.memory import format_bytes
        from hta_graph.multi_rank.read_engine import memory_share, peak_bytes

        # Of a cluster the limit is one for each file.
        room = self.memory if self.memory is not None and self.cluster is None else memory_share()
        if (needed := peak_bytes(*self.files)) <= room:
            return True
        self.say(
            f"whole graphs of {len(self.files):,} ranks may take {format_bytes(needed)}, more than "
            f"{format_bytes(room)}; continuing with rank summaries, which lack savings by replay and comparisons of "
            "all kernels (--summaries never holds whole graphs)"
        )
        return False

    # -- ranks ---------------------------------------------------------------------------------------------------------

    def graphs(
        self, *, communications: bool = False, summary: SummaryRequest | None = None
    ) -> Iterator[DependencyGraph]:
        """Build the graph of each rank, lowest first, in parallel where that is faster.

        ``communications`` also reads collectives and messages; ``summary`` requests graphs of several files with only
        the events that answer it.

        Raises:
            HtaGraphError: a file is broken and there is no one to report it to; or nothing can be read.
        """
        return self._read(communications=communications, summary=summary)

    def _read(
        self, *, communications: bool = False, summary: SummaryRequest | None = None
    ) -> Iterator[DependencyGraph]:
        from hta_graph.multi_rank.read_engine import RankRequest
        from hta_graph.multi_rank.read_ranks import read_inputs
        from hta_graph.store.trace_cache import with_kept_answers

        begin_stage("reading traces")
        with_others = communications or summary is not None
        steps, ignore = self.step_patterns, self.ignore_records
        asked = RankRequest(self.salvage, with_others, summary, step_patterns=steps, ignore_records=ignore)
        for graph in read_inputs(self.listed, asked, self, self.ranks, self.captures):
            if with_others or self.cache is None:
                yield graph
            else:
                yield with_kept_answers(graph, self.cache, salvage=self.salvage)

    def graphs_by_rank(
        self, *, communications: bool = False, few: SummariesOf | None = None
    ) -> dict[int, DependencyGraph]:
        """Build the graphs of all ranks, with collectives numbered by the flight recorder where it has dumps.

        ``few`` is what summaries must answer, where ranks are held as such.

        Raises:
            HtaGraphError: as :meth:`graphs`; or a named dump is not one.
        """
        question = few(self.many_ranks) if few is not None and self.many_ranks else None
        found = self.graphs(communications=communications, summary=question)
        graphs = self._numbered_by_flight({graph.rank or 0: graph for graph in found})
        return graphs if question is None else self._summary_reader(question).align_summaries(graphs)[0]

    def _numbered_by_flight(self, graphs: dict[int, DependencyGraph]) -> dict[int, DependencyGraph]:
        """Use the named dumps, else those next to the traces, as far as they can be read."""
        if len(graphs) < 2:
            return graphs
        from hta_graph.base.errors import TraceError
        from hta_graph.multi_rank.matching.flight_recorder import find_flight_dumps
        from hta_graph.multi_rank.matching.flight_sequence_numbers import NOT_USED, with_assigned_sequence_numbers

        dumps = expand_file_lists(find_flight_dumps(self.listed) if self.flight is None else self.flight)
        if not dumps:
            return graphs
        try:
            found, is_complete = with_assigned_sequence_numbers(graphs, dumps)
        except TraceError as error:
            if self.flight is not None:
                raise
            self.say(f"{error}; continuing without the flight recorder")
            return graphs
        if not is_complete:
            log_warning(NOT_USED) if self.flight is None else self.say(f"{NOT_USED}; name one dump per rank")
        return found

    def one_graph(self) -> DependencyGraph:
        """Build the graph of the only requested rank, else of the lowest one that can be read."""
        # Of several files one is read, here.
        return next(replace(self, jobs=1, cluster=None, progress=no_progress).graphs())

    def graph_of(self, path: Location, captures: Sequence[Location] = ()) -> DependencyGraph:
        """Build the full graph of a rank whose file has been read before, with the captures that were found then."""
        asked = replace(self, inputs=[path], ranks=None, cluster=None, captures=captures or self.captures)
        return next(asked._read())  # noqa: SLF001 - of the same class; `graphs` would print again what is said of it

    # -- the job -------------------------------------------------------------------------------------------------------

    def job_or_graph(self, few: SummariesOf | None = None) -> DependencyGraph:
        """Join the ranks of several files to the job's graph; for one file or rank, return that rank's graph.

        ``few`` is what summaries must answer, where ranks are held as such; without it every rank is held in full.

        Raises:
            HtaGraphError: as :meth:`graphs_by_rank`; or the ranks form no job.
        """
        if self.ranks is not None and len(self.ranks) == 1:
            return self.one_graph()
        if few is not None and (job := self.job_of_summaries(few)) is not None:
            return job
        # Communications of ranks that were merged into one file are read when they are joined.
        graphs = list(self.graphs_by_rank(communications=self.names_job).values())
        if len(graphs) == 1:
            if self.names_job:
                self._say_alone(graphs[0])
            return graphs[0]
        from hta_graph.multi_rank.build_job import build_job

        return build_job(graphs)

    def job_of_summaries(self, few: SummariesOf) -> DependencyGraph | None:
        """Join the summaries of ranks to the job's graph; None where ranks are held in full.

        ``few`` is what summaries must answer. If only one rank can be read, it is returned in full.
        """
        if not self.many_ranks:
            return None
        question = few(self.many_ranks)
        graphs = {graph.rank or 0: graph for graph in self.graphs(summary=question)}
        if len(graphs) == 1:
            (found,) = graphs.values()
            self._say_alone(found)
            captures = (*self.captures, *captures_of(found))
            return replace(self, inputs=[found.path], captures=captures).one_graph()
        from hta_graph.multi_rank.build_job import log_remarks

        job = self._summary_reader(question).job(self._numbered_by_flight(graphs))
        log_remarks(job)
        return job

    def _say_alone(self, graph: DependencyGraph) -> None:
        self.say(f"continuing with {graph.path}, rank {graph.rank}, alone")

    def _summary_reader(self, question: SummaryRequest) -> SummaryJobReader:
        from hta_graph.multi_rank.summary_job import SummaryJobReader

        return SummaryJobReader(self, question)


def captures_of(graph: DependencyGraph) -> Sequence[Location]:
    """Return the files that are no ranks, but captures of a rank's graphs."""
    from hta_graph.attribution.graph_kernels import CaptureSource

    source = graph.attached(CaptureSource)
    return source.paths if source else ()


def read_graphs(
    inputs: str | Location | Sequence[str | Location],
    *,
    ranks: Collection[int] | None = None,
    jobs: int | None = None,
    memory: int | None = None,
    salvage: bool = False,
    communications: bool = False,
    summary: SummaryRequest | None = None,
    cache: Path | GraphCache | None = None,
    report: Report | None = None,
    say: Say = log_warning,
    progress: Progress = lambda *_: None,
    cluster: str | None = None,
    step_patterns: Sequence[str] = (),
    captures: Sequence[str | Location] = (),
) -> Iterator[DependencyGraph]:
    """Build the graph of each rank in files or folders, lowest rank first, in parallel processes where that is faster.

    ``{graph.trace.rank: graph for graph in read_graphs("folder")}`` holds all ranks; a loop over them holds no more in
    memory than ``memory`` allows.

    Args:
        inputs: a file, a folder of rank files, or several of either.
        ranks: read only these ranks.
        jobs: how many processes read at once; by default one per processor. With 1, this process reads.
        memory: how many bytes reading can take; by default a share of the available memory. A file that needs more is
            read alone, and is an error if it does not fit either.
        salvage: recover complete events from damaged files.
        communications: also read each rank's collectives and messages, in parallel, so that ``read_communications``
            need not open the file again.
        summary: with several files, return rank summaries, which answer this request as whole graphs do
            (``hta_graph.multi_rank.summary``).
        cache: a folder in which graphs and rank summaries are kept; those of unchanged files are reused.
        report: is called with the error of each file that cannot be read, which is then skipped; without it the error
            is raised. If no file can be read, an error is always raised.
        say: is called with a line about skipped files and one about files numbered by order; by default these are
            warnings of the logger ``hta_graph``.
        progress: is called with the number of files done and their total.
        cluster: read with Dask: ``local`` starts ``jobs`` workers here; the address of a scheduler,
            ``tcp://host:port``, uses its workers, which must see the files under the same names. ``memory`` is then
            the limit per file.
        step_patterns: regular expressions for the whole names of annotations that are steps, tried before those of the
            known inference engines; the groups ``phase``, ``batch`` and ``tokens`` are read.
        captures: recordings of the capture of CUDA or HIP graphs, which name the kernels of their replays; those in the
            folders of the ranks are used too.

    Raises:
        HtaGraphError: a file is broken, one of ``captures`` is none, two claim one rank, or one of ``ranks`` is not
            there.
    """
    source = JobSource(
        inputs=expand_file_lists(inputs),
        ranks=ranks,
        jobs=jobs,
        memory=memory,
        salvage=salvage,
        cache=_opened(cache, say),
        report=report,
        say=say,
        progress=lambda _: nullcontext(progress),
        cluster=cluster,
        step_patterns=tuple(step_patterns),
        captures=captures,
    )
    yield from source.graphs(communications=communications, summary=summary)


def _opened(cache: str | Path | GraphCache | None, say: Say) -> GraphCache | None:
    from hta_graph.store.cache_folder import CacheFolder, local_folder
    from hta_graph.store.trace_cache import GraphCache

    return GraphCache(CacheFolder(local_folder(cache), say)) if isinstance(cache, (str, Path)) else cache


def read_job(
    inputs: str | Location | Sequence[str | Location],
    *,
    ranks: Collection[int] | None = None,
    jobs: int | None = None,
    memory: int | None = None,
    salvage: bool = False,
    flight: Sequence[str | Location] | None = None,
    report: Report | None = None,
    say: Say = log_warning,
    progress: Progress = lambda *_: None,
    cluster: str | None = None,
    summaries: bool = False,
    cache: str | Path | None = None,
    step_patterns: Sequence[str] = (),
    captures: Sequence[str | Location] = (),
) -> JobGraph:
    """Read the traces of all ranks and join them into a job; arguments and errors are those of :func:`read_graphs`.

    ``flight`` are flight recorder dumps; by default those next to the traces, none if it is empty. With ``summaries``
    the job holds a summary of each rank: paths of steps and of the whole trace are the same (files are read again on
    demand), windows that need all events are refused, and queries see only the events in the summaries.

    >>> callable(read_job)
    True
    """
    from hta_graph.graph.job_graph import JobGraph
    from hta_graph.multi_rank.build_job import build_job
    from hta_graph.multi_rank.summary.summarize import SummaryRequest
    from hta_graph.trace.memory_limit import limit_memory

    source = JobSource(
        inputs=expand_file_lists(inputs),
        ranks=ranks,
        jobs=jobs,
        memory=memory,
        salvage=salvage,
        flight=flight,
        report=report,
        say=say,
        progress=lambda _: nullcontext(progress),
        cluster=cluster,
        summaries="always" if summaries else "never",
        cache=_opened(cache, say),
        step_patterns=tuple(step_patterns),
        captures=captures,
    )
    with limit_memory(memory):
        few = source.job_of_summaries(lambda _: SummaryRequest())
        if isinstance(few, JobGraph):
            return few
        graphs = source.graphs_by_rank(communications=True).values() if few is None else [few]
        return build_job(graphs)
