"""Join the graphs of ranks into a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hta_graph.base.errors import log_info, log_warning
from hta_graph.base.storage.location import Location, expand_file_lists
from hta_graph.base.text.formatting import milliseconds
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.job_graph import JobGraph
from hta_graph.multi_rank.join_ranks import graphs_by_rank, join_ranks
from hta_graph.multi_rank.matching.flight_sequence_numbers import NOT_USED, with_assigned_sequence_numbers


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
    by_rank: Mapping[int, DependencyGraph] = graphs_by_rank(graphs)
    if flight:
        by_rank, is_complete = with_assigned_sequence_numbers(by_rank, expand_file_lists(flight))
        if not is_complete:
            log_warning(NOT_USED)
    job = join_ranks(by_rank.values())
    log_remarks(job)
    return job


def log_remarks(job: JobGraph) -> None:
    """Log how many traces are missing, and how far clocks were corrected."""
    sizes = [size for part in job.rank_graphs if (size := part.graph.trace.world_size)]
    if sizes and (missing := sizes[0] - len(job.rank_graphs)) > 0:
        log_warning(f"{job.path}: {missing:,} of {sizes[0]:,} ranks are missing; waits for them have no cause")
    if moved := [abs(offset) for offset in job.clock_table.offset.tolist() if offset]:
        log_info(
            f"{job.path}: the clocks of {len(moved):,} ranks are corrected by at most {milliseconds(max(moved))} ms"
        )
