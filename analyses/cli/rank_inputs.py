"""The ranks that a command reads: its inputs as a typed object, which builds the graph of each rank or of the job.

Files that cannot be read are left out; their errors are printed, the rest as a summary.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from analyses.display.stderr import ProgressLine, say
from hta_graph.base.memory import keep_freed_memory
from hta_graph.base.progress import begin_stage
from hta_graph.base.storage.location import Location, expand_file_lists

if TYPE_CHECKING:
    from hta_graph.base.errors import HtaGraphError
    from hta_graph.graph.dependency_graph import DependencyGraph
    from hta_graph.multi_rank.read_ranks import Progress
    from hta_graph.multi_rank.summary.summarize import SummaryRequest
    from hta_graph.multi_rank.summary_job import SummaryJobReader
    from hta_graph.store.trace_cache import GraphCache


CAUSES_LISTED = 5
"""The number of causes in the summary of errors."""

NUMBER = re.compile(r"\d[\d,.]*")


def error_summary(errors: Sequence[HtaGraphError]) -> str:
    """Summarize the errors of further files by cause, the most frequent first.

    >>> from hta_graph.base.errors import TraceError
    >>> broken = TraceError("b.json", "truncated at byte 7", "record it again")
    >>> error_summary([TraceError("a.json", "is empty"), broken])
    '… and 2 more files that cannot be read: 1 × is empty, 1 × truncated at byte …'
    """
    causes = Counter(NUMBER.sub("…", _cause_of(error)) for error in errors).most_common(CAUSES_LISTED)
    listed = [f"{count:,} × {cause}" for cause, count in causes]
    rest = len(errors) - sum(count for _, count in causes)
    listed += [f"{rest:,} × another cause"] if rest else []
    return f"… and {len(errors):,} more files that cannot be read: {', '.join(listed)}"


def _cause_of(error: HtaGraphError) -> str:
    """Return an error's cause, without the file and the remedy."""
    cause = str(error).partition(": ")[2] or str(error)
    return cause.partition("; ")[0]


ERRORS_LISTED = 10
"""The number of files that cannot be read with a line of their own."""


@dataclass(frozen=True)
class RankInputs:
    """Which ranks of which inputs are read, and how; errors of ranks are printed and kept in ``left_out``.

    With ``all_needed`` the first of them is raised instead.
    """

    inputs: Sequence[str | Location]
    rank: int | None = None
    salvage: bool = False
    jobs: int | None = None
    memory: int | None = None
    left_out: list[HtaGraphError] = field(default_factory=list)
    flight: Sequence[str] = ()
    all_needed: bool = False
    cluster: str | None = None
    cache: GraphCache | None = None
    use_summaries: str | None = None
    step_patterns: tuple[str, ...] = ()
    captures: Sequence[str | Location] = ()

    @classmethod
    def of(cls, options: argparse.Namespace, inputs: Sequence[str | Location] | None = None) -> RankInputs:
        """Return the inputs of a command line; some commands lack the options for multiple ranks.

        ``inputs`` are those of one side of a comparison.
        """
        jobs, memory = getattr(options, "jobs", None), getattr(options, "memory", None)
        flight = getattr(options, "flight", None) or ()
        cluster = getattr(options, "cluster", None)
        return cls(
            options.inputs if inputs is None else inputs,
            options.rank,
            options.salvage,
            jobs,
            memory,
            options.left_out,
            flight,
            cluster=cluster,
            cache=graph_cache(options),
            use_summaries=getattr(options, "summaries", None),
            step_patterns=tuple(getattr(options, "step_pattern", None) or ()),
            captures=getattr(options, "capture", ()),
        )

    def count_files(self, besides: Collection[Location] = ()) -> int:
        """Count the files that the inputs name, without some."""
        return len(self._files() - {*besides})

    def _files(self) -> set[Location]:
        from hta_graph.trace.rank_files import expand_inputs

        return {*expand_inputs(expand_file_lists(self.inputs))}

    def graphs(self) -> Iterator[DependencyGraph]:
        """Build the graph of each rank, in parallel where that is faster; print repairs and errors."""
        with ProgressLine("reading traces") as line:
            for found in self._with_progress(line):
                # The caller prints.
                line.clear()
                yield found

    def graphs_by_rank(
        self, *, communications: bool = False, summary: SummaryRequest | None = None
    ) -> Iterator[tuple[int, DependencyGraph]]:
        """Build the graph of each rank, lowest rank first; the bar stays until all are built.

        ``communications`` also reads collectives and messages; ``summary`` requests graphs with only the events that
        answer it.
        """
        with ProgressLine("reading traces") as line:
            for found in self._with_progress(line, communications=communications, summary=summary):
                yield found.rank or 0, found

    def _with_progress(
        self, line: ProgressLine, *, communications: bool = False, summary: SummaryRequest | None = None
    ) -> Iterator[DependencyGraph]:
        repaired = 0
        started = self._started(
            line, self.jobs, self.cluster, progress=line.update, communications=communications, summary=summary
        )
        for found in started:
            repairs = found.trace.repairs
            repaired += bool(repairs)
            if repaired <= ERRORS_LISTED:
                _print_each(repairs, line.say)
            yield found
        if repaired > ERRORS_LISTED:
            line.say(f"… and {repaired - ERRORS_LISTED:,} more traces were repaired; run info to list them")

    def job_or_graph(self, few: Callable[[int], SummaryRequest] | None = None) -> DependencyGraph:
        """Join the ranks of several files to the job's graph; for one file or ``--rank``, return that rank's graph.

        ``few`` maps the number of many ranks to what summaries must answer; without it every rank is held in full.
        """
        if self.rank is not None:
            return self.one_graph()
        if few is not None and self.many_ranks:
            return self._job_of_summaries(few(self.many_ranks))
        if self.count_files() == 1:
            # Nearly every single file is one rank: communications of merged ones are read when they are joined.
            graphs = self.graphs_of_one_file()
        else:
            graphs = list(self.all_ranks(communications=True).values())
            if len(graphs) == 1:
                self._report_single_rank(graphs[0])
        if len(graphs) == 1:
            return graphs[0]
        from hta_graph.multi_rank.build_job import build_job

        return build_job(graphs)

    @cached_property
    def many_ranks(self) -> int:
        """The number of ranks that are held as summaries; 0 where they are held in full.

        By default they are where whole graphs may take more memory than there is.
        """
        if self.rank is not None or self.use_summaries == "never":
            return 0
        paths = self._files()
        if len(paths) < 2:
            return 0
        return len(paths) if self.use_summaries == "always" or not self._fit_in_memory(paths) else 0

    def _fit_in_memory(self, paths: Collection[Location]) -> bool:
        """Return whether the whole graphs of ranks fit in memory; a line says what summaries lack."""
        from hta_graph.base.memory import format_bytes
        from hta_graph.multi_rank.read_engine import memory_share, peak_bytes  # late: one rank needs nothing of jobs

        # Of a cluster the limit is one for each file.
        room = self.memory if self.memory is not None and self.cluster is None else memory_share()
        if (needed := peak_bytes(*paths)) <= room:
            return True
        say(
            f"whole graphs of {len(paths):,} ranks may take {format_bytes(needed)}, more than {format_bytes(room)}; "
            "continuing with rank summaries, which lack savings by replay and comparisons of all kernels "
            "(--summaries never holds whole graphs)"
        )
        return False

    def job_of_summaries(self, few: Callable[[int], SummaryRequest]) -> DependencyGraph | None:
        """Join the summaries of many ranks to the job's graph; None where ranks are held in full.

        ``few`` maps the number of ranks to what summaries must answer. If only one rank can be read, it is returned.
        """
        return self._job_of_summaries(few(self.many_ranks)) if self.many_ranks else None

    def _job_of_summaries(self, question: SummaryRequest) -> DependencyGraph:
        few = dict(self.graphs_by_rank(summary=question))
        if len(few) == 1:
            # A single rank is analyzed in full.
            (found,) = few.values()
            self._report_single_rank(found)
            return replace(self, inputs=[found.path], captures=(*self.captures, *captures_of(found))).one_graph()
        few = self._numbered_by_flight(few)
        return self._job_reader(question).job(few)

    def _report_single_rank(self, graph: DependencyGraph) -> None:
        say(f"continuing with {graph.path}, rank {graph.rank}, alone")

    def _job_reader(self, question: SummaryRequest) -> SummaryJobReader:
        from hta_graph.multi_rank.read_ranks import ReadOptions
        from hta_graph.multi_rank.summary_job import SummaryJobReader

        readers = ReadOptions(self.jobs, self.memory, self.cluster, cache=self.cache)
        return SummaryJobReader(readers, question, self.salvage, _progress_bar, self.step_patterns)

    def all_ranks(
        self, *, communications: bool = False, few: Callable[[int], SummaryRequest] | None = None
    ) -> dict[int, DependencyGraph]:
        """Build the graphs of all ranks, with collectives numbered by the flight recorder where it has dumps.

        ``few`` maps the number of ranks to what summaries must answer, where many ranks are analyzed.

        Raises:
            TraceError: a named dump is not one.
        """
        question = few(self.many_ranks) if few is not None and self.many_ranks else None
        graphs = dict(self.graphs_by_rank(communications=communications, summary=question))
        if len(graphs) > 1:
            graphs = self._numbered_by_flight(graphs)
        return graphs if question is None else self._job_reader(question).align_summaries(graphs)[0]

    def _numbered_by_flight(self, graphs: dict[int, DependencyGraph]) -> dict[int, DependencyGraph]:
        """Use the named dumps, else those next to the traces, as far as they can be read."""
        from hta_graph.base.errors import TraceError
        from hta_graph.multi_rank.matching.flight_recorder import find_flight_dumps
        from hta_graph.multi_rank.matching.flight_sequence_numbers import with_assigned_sequence_numbers

        dumps = expand_file_lists(self.flight) or find_flight_dumps(self.inputs)
        if not dumps:
            return graphs
        try:
            found, is_complete = with_assigned_sequence_numbers(graphs, dumps)
        except TraceError as error:
            if self.flight:
                raise
            say(f"{error.on_command_line}; continuing without the flight recorder")
            return graphs
        if not is_complete and self.flight:
            say("--flight: some ranks have no dump, so none is used; name one dump per rank")
        return found

    def one_graph(self) -> DependencyGraph:
        """Build the graph of ``--rank``, else of the lowest rank that can be read."""
        # Of multiple files one is read, here; of a large one processes may read the parts.
        found = next(self._started(ProgressLine(""), self.jobs if self.count_files() == 1 else 1))
        _print_each(found.trace.repairs, say)
        if self.left_out:
            say(f"continuing with {found.path}, rank {found.rank}")
        elif self.rank is None and (files := self.count_files(besides=captures_of(found))) > 1:
            say(f"analyzing rank {found.rank} of {files} files; use --rank N for another one")
        return found

    def graphs_of_one_file(self) -> list[DependencyGraph]:
        """Build the graph of the rank in a single file, or those of all ranks that were merged into it."""
        graphs = list(self._started(ProgressLine(""), self.jobs))
        for found in graphs:
            _print_each(found.trace.repairs, say)
        return graphs

    def graph_of(self, path: Location, captures: Sequence[Location] = ()) -> DependencyGraph:
        """Build the full graph of a rank whose file has been read before, with the captures that were found then."""
        asked = replace(self, inputs=[path], rank=None, captures=captures or self.captures)
        return next(asked._started(ProgressLine(""), self.jobs))  # noqa: SLF001 - of the same class

    def _started(
        self,
        line: ProgressLine,
        jobs: int | None,
        cluster: str | None = None,
        *,
        progress: Progress = lambda *_: None,
        communications: bool = False,
        summary: SummaryRequest | None = None,
    ) -> Iterator[DependencyGraph]:
        keep_freed_memory()
        if not communications and cluster is None and (known := self._cached_graph()) is not None:
            yield known
            return
        from hta_graph.multi_rank.read_ranks import read_graphs

        found = read_graphs(
            self.inputs,
            ranks=None if self.rank is None else [self.rank],
            jobs=jobs,
            memory=self.memory,
            salvage=self.salvage,
            communications=communications,
            summary=summary,
            cache=self.cache,
            report=None if self.all_needed else partial(self.leave_out, write=line.say),
            say=line.say,
            progress=progress,
            cluster=cluster,
            step_patterns=self.step_patterns,
            captures=self.captures,
        )
        begin_stage("reading traces")
        remedy = ""
        try:
            for graph in found:
                remedy = "; run info --json FILE to list them"
                yield self._with_kept_answers(graph) if summary is None and not communications else graph
        finally:
            self.report_further_errors(line.say, remedy)

    def _cached_graph(self) -> DependencyGraph | None:
        """Return the graph of a single file from the cache, before what reads traces is imported."""
        if self.cache is None or self.captures:
            return None
        from hta_graph.trace.rank_files import expand_inputs

        paths = expand_inputs(expand_file_lists(self.inputs))
        if len(paths) != 1:
            return None
        ranks = None if self.rank is None else [self.rank]
        graph = self.cache.only_graph(paths[0], ranks, self.step_patterns, salvage=self.salvage)
        # What is recorded of the kernels of replayed graphs is found by who reads traces.
        if graph is None or graph.event_flags.graph_launch_call.any():
            return None
        return self._with_kept_answers(graph)

    def _with_kept_answers(self, graph: DependencyGraph) -> DependencyGraph:
        """Let answers about a graph that is in the cache be kept next to it."""
        if self.cache is None or not self.cache.has_graph(graph.path, salvage=self.salvage):
            return graph
        from hta_graph.store import kept_answers

        return kept_answers.with_kept_answers(graph, self.cache, salvage=self.salvage)

    def leave_out(self, error: HtaGraphError, write: Callable[[str], None] = say) -> None:
        """Continue without a file; the first errors are printed one by one."""
        self.left_out.append(error)
        if len(self.left_out) <= ERRORS_LISTED:
            write(f"hta-graph: {error.on_command_line}")

    def report_further_errors(self, write: Callable[[str], None] = say, remedy: str = "") -> None:
        """Print a summary of the files left out that had no line of their own."""
        if len(self.left_out) > ERRORS_LISTED:
            write(f"hta-graph: {error_summary(self.left_out[ERRORS_LISTED:])}{remedy}")


def graph_cache(options: argparse.Namespace) -> GraphCache | None:
    """Return the cache of a command line, one for all its inputs; None where it is turned off, or there is no folder.

    Raises:
        OutputError: the folder that is named cannot be used.
    """
    if getattr(options, "no_cache", False):
        return None
    opened: GraphCache | None
    if hasattr(options, "opened_cache"):
        opened = options.opened_cache
        return opened
    from hta_graph.store.cache_folder import CacheFolder, default_cache_folder
    from hta_graph.store.trace_cache import GraphCache

    named = getattr(options, "cache", None)
    folder = default_cache_folder() if named is None else named_cache_folder(named)
    opened = None if folder is None else GraphCache(CacheFolder(folder, say))
    options.opened_cache = opened
    return opened


def named_cache_folder(name: str) -> Path:
    """Return the folder that a command line names for the cache; create it if it does not exist.

    Raises:
        OutputError: it cannot be created.
    """
    from hta_graph.base.errors import OutputError
    from hta_graph.base.storage.location import is_remote, resolve_location

    folder = resolve_location(name)
    if is_remote(folder):
        raise OutputError(f"{name}: not a local folder; name one for the cache")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{name}: cannot be created: {error.strerror or error}; name another folder") from None
    return folder.absolute()


@contextmanager
def _progress_bar(doing: str) -> Iterator[Progress]:
    with ProgressLine(doing) as line:
        yield line.update


def captures_of(graph: DependencyGraph) -> Sequence[Location]:
    """Return the files that are no ranks, but captures of a rank's graphs."""
    from hta_graph.attribution.graph_kernels import CaptureSource

    source = graph.attached(CaptureSource)
    return source.paths if source else ()


def _print_each(lines: Iterable[str], say: Callable[[str], None]) -> None:
    for line in lines:
        say(line)
