"""Join ranks, from files or graphs, into a job."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

from hta_graph.base.errors import OutputError, log_info, log_warning
from hta_graph.base.storage.location import Location, RemotePath, expand_file_lists, is_remote, resolve_location
from hta_graph.base.text.formatting import milliseconds
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.job_graph import JobGraph
from hta_graph.multi_rank.join_ranks import graphs_by_rank, join_ranks
from hta_graph.multi_rank.matching.flight_recorder import find_flight_dumps
from hta_graph.multi_rank.matching.flight_sequence_numbers import with_assigned_sequence_numbers
from hta_graph.multi_rank.read_ranks import Progress, ReadOptions, Report, read_graphs
from hta_graph.multi_rank.summary.summarize import SummaryRequest
from hta_graph.multi_rank.summary_job import SummaryJobReader
from hta_graph.trace.memory_limit import limit_memory
from hta_graph.trace.read import Say


def build_job(graphs: Iterable[DependencyGraph], *, flight: Sequence[str | Location] = ()) -> JobGraph:
    """Join the graphs of all ranks of a job into one.

    Args:
        graphs: one for each rank; where the file does not name its rank, the place counts.
        flight: flight recorder dumps (JSON), which number collectives where the traces do not.

    Returns:
        an immutable graph: the graphs of all ranks on one clock, and the points where ranks meet.

    Raises:
        QueryError: there is no graph, two are of one rank, or they are of different jobs.
        TraceError: a file, which is read again for recorded arguments, is gone or has changed; or a dump is not one.
        TypeError: a single graph is given.
    """
    if isinstance(graphs, DependencyGraph):
        raise TypeError("build_job takes one graph per rank, not a single graph; pass a list of graphs")
    by_rank = _numbered_by_dumps(graphs_by_rank(graphs), flight)
    return _with_remarks(join_ranks(by_rank.values()))


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
    question = SummaryRequest() if summaries else None
    graphs = read_graphs(
        inputs,
        ranks=ranks,
        jobs=jobs,
        memory=memory,
        salvage=salvage,
        communications=True,
        summary=question,
        cache=None if cache is None else _folder_here(cache),
        report=report,
        say=say,
        progress=progress,
        cluster=cluster,
        step_patterns=step_patterns,
        captures=captures,
    )
    listed = [inputs] if isinstance(inputs, (str, Path, RemotePath)) else inputs
    dumps = find_flight_dumps(listed) if flight is None else flight
    with limit_memory(memory):
        if question is None:
            return build_job(graphs, flight=dumps)
        few: Mapping[int, DependencyGraph] = graphs_by_rank(graphs)
        # One file is read in full, of however many ranks it is.
        if len({graph.path for graph in few.values()}) == 1:
            return _with_remarks(join_ranks(few.values()))
        few = _numbered_by_dumps(few, dumps)
        readers = ReadOptions(jobs, memory, cluster, say)
        reader = SummaryJobReader(readers, question, salvage, lambda _: nullcontext(progress), tuple(step_patterns))
        return _with_remarks(reader.job(few))


def _folder_here(name: str | Path) -> Path:
    """Return a folder of this machine.

    Raises:
        OutputError: it is none.
    """
    folder = resolve_location(name)
    if is_remote(folder):
        raise OutputError(f"{folder}: the cache of rank summaries must be a local folder; name one")
    return folder


def _numbered_by_dumps(
    graphs: Mapping[int, DependencyGraph], dumps: Sequence[str | Location]
) -> Mapping[int, DependencyGraph]:
    if not dumps:
        return graphs
    found, is_complete = with_assigned_sequence_numbers(graphs, expand_file_lists(dumps))
    if not is_complete:
        log_warning("flight recorder dumps are not used, because some ranks have none")
    return found


def _with_remarks(job: JobGraph) -> JobGraph:
    """Log how many traces are missing, and how far clocks were corrected."""
    sizes = [size for part in job.rank_graphs if (size := part.graph.trace.world_size)]
    if sizes and (missing := sizes[0] - len(job.rank_graphs)) > 0:
        log_warning(f"{job.path}: {missing:,} of {sizes[0]:,} ranks are missing; waits for them have no cause")
    if moved := [abs(offset) for offset in job.clock_table.offset.tolist() if offset]:
        log_info(
            f"{job.path}: the clocks of {len(moved):,} ranks are corrected by at most {milliseconds(max(moved))} ms"
        )
    return job
