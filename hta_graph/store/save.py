"""Saved graphs: the graph of a rank or a job as one file, which is mapped into memory when it is loaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from mmap import ACCESS_READ, mmap
from typing import Any

import msgspec
import numpy as np

from hta_graph.base.errors import HtaGraphError, TraceError, UsageError
from hta_graph.base.storage.atomic_write import write_file
from hta_graph.base.storage.location import Location, is_remote, resolve_location, untrusted_location
from hta_graph.base.storage.output_paths import check_output
from hta_graph.base.storage.remote_files import RemoteError
from hta_graph.base.text.sanitize import encodable_path, one_line, replace_surrogates
from hta_graph.graph.dependency_graph import DIAGNOSTICS, DependencyGraph, RankGraph
from hta_graph.graph.edges import Clocks, Members
from hta_graph.graph.job_graph import JobGraph, shift_to_job_time
from hta_graph.graph.validate import all_edges_valid, all_go_forward, edges_on_a_cycle, invalid_edges, without_points
from hta_graph.store.entry_file import Column, Entry, Stored, entry_pieces, read_entry
from hta_graph.store.record import (
    MOST_NS,
    NOT_WHAT_WAS_WRITTEN,
    IndexRange,
    check_indices,
    describe_table,
    graph_record,
    read_graph,
    read_table,
)

NAME = "saved graph"
SAVED_FORMAT = 1
"""Is counted up where files of earlier versions can no longer be read."""
SAVE_AGAIN = "build the graph from its trace and save it again"
PARQUET_HEADER = "graph.json"
"""What folders of Parquet tables have, which earlier versions saved and loaded."""


def save_graph(graph: DependencyGraph, file: str | Location) -> None:
    """Write a graph, of a rank or of a job, as one file.

    Raises:
        OutputError: the file cannot be written; an earlier one there is replaced whole or not at all.
    """
    target = resolve_location(file)
    check_output(target, [part.graph.path for part in graph.rank_graphs])
    columns: list[Column] = []
    record = {"format": SAVED_FORMAT, "graph": _record_of(graph, columns)}
    if isinstance(graph, JobGraph):
        record["job"] = _record_of_job(graph, columns)
    write_file(target, entry_pieces(NAME, Entry(record, tuple(columns))))


def _record_of(graph: DependencyGraph, columns: list[Column]) -> dict[str, Any]:
    # The order of a job's points is seldom asked for, and takes longer to find than to read.
    record = graph_record(graph, columns, {}, is_ordered=not isinstance(graph, JobGraph))
    record["trace"]["values"]["path"] = encodable_path(graph.path)
    record["trace"]["values"].pop("recording", None)
    record["trace"]["tables"].pop("recording", None)  # it tells how to read the file again
    return record


def _record_of_job(job: JobGraph, columns: list[Column]) -> dict[str, Any]:
    """Return what a job has besides: its tables, and each rank alone, in the time of its file."""
    record = {
        "members": describe_table(job.members, columns),
        "clocks": describe_table(job.clock_table, columns),
        "ranks": job.rank_numbers.tolist(),
    }
    columns.append(job.doubtful_edges)
    return {**record, "alone": [_record_of(job.graph(rank), columns) for rank in record["ranks"]]}


def load_graph(file: str | Location) -> DependencyGraph:
    """Read a graph that :func:`save_graph` wrote.

    Raises:
        TraceError: the file is none of a graph, is damaged, or is of a later version.
    """
    source = resolve_location(file)
    try:
        record, columns = _read_saved(source)
        return _loaded_graph(record, columns)
    except UsageError as error:
        raise TraceError(source, str(error)) from None
    except HtaGraphError:
        raise
    except RemoteError as error:
        raise TraceError(source, f"cannot be read: {error.strerror}") from None
    except OSError as error:
        raise TraceError(source, f"cannot be read: {error.strerror or error}") from None
    except MemoryError:
        raise TraceError(source, "there is not enough memory to read it", SAVE_AGAIN) from None
    except NOT_WHAT_WAS_WRITTEN as error:
        raise TraceError(source, f"is not a saved graph, or a damaged one: {error!s:.100}", SAVE_AGAIN) from None


def _read_saved(source: Location) -> tuple[dict[str, Any], Iterator[Column]]:
    entry = read_entry(NAME, _content_of(source))
    if entry.record["format"] != SAVED_FORMAT:
        raise TraceError(source, "was saved by another version of hta-graph", SAVE_AGAIN)
    return entry.record, iter(entry.columns)


def _content_of(source: Location) -> Stored:
    # A pipe would keep the reader waiting.
    if not source.is_file():
        if (source / PARQUET_HEADER).is_file():
            raise TraceError(source, "is a folder of Parquet tables, as earlier versions saved graphs", SAVE_AGAIN)
        raise TraceError(source, "is no file" if source.exists() else "is missing")
    if is_remote(source):
        return source.read_bytes()
    with source.open("rb") as file:
        return mmap(file.fileno(), 0, access=ACCESS_READ)


def _loaded_graph(record: dict[str, Any], columns: Iterator[Column]) -> DependencyGraph:
    graph = _checked_graph(record["graph"], columns)
    if "job" in record:
        graph = _loaded_job(record["job"], graph, record["graph"]["notes"], columns)
    if next(columns, None) is not None:
        raise ValueError("there are columns of nothing")
    return graph


def _checked_graph(record: dict[str, Any], columns: Iterator[Column]) -> DependencyGraph:
    """Return a graph of what others may have written: its path is shown and not opened on the network.

    Raises:
        ValueError: texts cannot be printed, a count is missing, or an edge is impossible.
    """
    values = record["trace"]["values"]
    values["path"] = untrusted_location(replace_surrogates(msgspec.convert(values["path"], str)))
    values["notes"] = [one_line(note) for note in msgspec.convert(values["notes"], list[str])]
    graph = read_graph(record, columns, {})
    trace = graph.trace
    for texts in (trace.names, trace.lanes.labels, trace.gpu_names, trace.settings, trace.settings.values()):
        "".join(texts).encode()  # half a character is a ValueError
    if not graph.diagnostics.keys() >= DIAGNOSTICS.keys():
        raise ValueError("a count is missing")
    _check_edges(graph)
    return graph


def _check_edges(graph: DependencyGraph) -> None:
    """Refuse edges that no graph has.

    Raises:
        ValueError: there are some.
    """
    edges, trace = graph.edge_table, graph.trace
    if not all_edges_valid(edges, trace):
        absent = any(without_points(trace, points).any() for points in (edges.source, edges.target))
        if absent or any(wrong.any() for wrong, _ in invalid_edges(edges, trace)):
            raise ValueError("an edge leads where none of its kind can")
    if not all_go_forward(edges, trace, graph.timeline.times) and len(edges_on_a_cycle(edges, graph.timeline)):
        raise ValueError("edges close a cycle")


# -- jobs --------------------------------------------------------------------------------------------------------------


def _loaded_job(
    record: dict[str, Any], graph: DependencyGraph, notes: dict[str, int], columns: Iterator[Column]
) -> JobGraph:
    """Make a job of its graph, its tables and the graphs of its ranks alone."""
    members: Members = read_table(Members, record["members"], columns)
    clocks: Clocks = read_table(Clocks, record["clocks"], columns)
    doubtful, ranks = next(columns), msgspec.convert(record["ranks"], list[int])
    alone = [_checked_graph(own, columns) for own in record["alone"]]
    check_indices((members, clocks), _indices_of_job(members, graph, len(ranks)))
    check_indices((), [(doubtful, 0, len(graph.edge_table))])
    took = members.waits_since + members.wait + members.transfer
    if not np.array_equal(took, graph.event_table.end[members.row]):
        raise ValueError("waits and transfers do not add up")
    if clocks.rank.tolist() != ranks or sorted(set(ranks)) != ranks or len(alone) != len(ranks) or not ranks:
        raise ValueError("its ranks are not those of its tables")
    return JobGraph(
        graph.trace,
        graph.timeline,
        graph.edge_table,
        _in_job_time(graph, ranks, alone),
        alone,
        members,
        clocks,
        doubtful=doubtful,
        notes=notes,
        wait_calls=graph.wait_calls,
    )


def _indices_of_job(members: Members, graph: DependencyGraph, ranks: int) -> Iterator[IndexRange]:
    size = len(graph.event_table)
    yield members.number, -1, 1 << 31
    yield members.part, 0, ranks
    yield members.awaited, -1, ranks
    yield members.row, 0, size
    yield members.call, -1, size
    yield members.said, 0, len(graph.names)
    yield members.arrival, -MOST_NS, MOST_NS
    yield members.busy, 0, 2 * MOST_NS
    yield members.wait, 0, 2 * MOST_NS


def _in_job_time(graph: DependencyGraph, ranks: Sequence[int], alone: Sequence[DependencyGraph]) -> list[RankGraph]:
    """Return the ranks' graphs in the time of their job.

    Raises:
        ValueError: the job has other events or lanes than its ranks.
    """
    rows = [*accumulate((len(own.event_table) for own in alone), initial=0)]
    lanes = [*accumulate((len(own.lanes.labels) for own in alone), initial=0)]
    if rows[-1] > len(graph.event_table) or lanes[-1] > len(graph.lanes.labels):
        raise ValueError("it has fewer events or lanes than its ranks")
    parts = []
    for place, (rank, own) in enumerate(zip(ranks, alone, strict=True)):
        here = graph.event_table.take(slice(rows[place], rows[place + 1]))
        parts.append(RankGraph(place, rank, shift_to_job_time(own, here.start, here.end), rows[place], lanes[place]))
    return parts
