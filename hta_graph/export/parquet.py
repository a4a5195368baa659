"""The graph of a rank or a job as Parquet: columns as they are, so that loading gives an equal graph. No pickle."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from hta_graph.base.arrays import Columns, find_sorted, freeze
from hta_graph.base.errors import OutputError, TraceError, UsageError
from hta_graph.base.storage.atomic_write import new_folder
from hta_graph.base.storage.location import Location, resolve_location
from hta_graph.base.storage.output_paths import check_new_folder
from hta_graph.base.text.sanitize import encodable_path
from hta_graph.export.parquet_checks import (
    check_calls,
    check_edges,
    check_graph_tables,
    check_job_tables,
    check_members,
    check_rank_events,
    check_rank_header,
)
from hta_graph.export.parquet_files import (
    HEADER_FILE,
    SCHEMA,
    SavedHeader,
    SavedTable,
    import_arrow,
    read_saved_header,
    read_saved_table,
    saved_ranks,
)
from hta_graph.graph.dependency_graph import DependencyGraph, RankGraph
from hta_graph.graph.edges import FIRST_CUSTOM_RULE, EdgeTable, WaitCalls, custom_rule, labels_of_rules
from hta_graph.graph.job_graph import Clocks, JobGraph, Members
from hta_graph.graph.timeline import Timeline
from hta_graph.model import CLOCK_FAULT_LIMIT_NS, EDGE_MEANING, Bools, Codes, EdgeKind, EventKind, Ids, Ints, Rule
from hta_graph.multi_rank.job_trace import rendezvous_events, shift_to_job_time
from hta_graph.trace.gpu_clock import FileTimes
from hta_graph.trace.table import CopyTable, EventTable, Flows, SyncTable, Trace


@dataclass(frozen=True, eq=False)
class JobEdges(Columns):
    """Edges; where one side is a rendezvous, its point is absent (-1) and ``rendezvous`` is the collective's number."""

    source: Ids
    target: Ids
    kind: Codes
    rule: Codes
    rendezvous: Ints
    doubtful: Bools


@dataclass(frozen=True, eq=False)
class RendezvousTable(Columns):
    """Where ranks meet: the number of the collective, the code of its name, its lane, and when."""

    number: Ints
    name: Ids
    lane: Ids
    time_ns: Ints


JOB_TABLES: dict[str, Any] = {
    "events": EventTable,
    "rendezvous": RendezvousTable,
    "edges": JobEdges,
    "wait_calls": WaitCalls,
    "copies": CopyTable,
    "members": Members,
    "clocks": Clocks,
}
"""The tables of a saved job, in its time; each rank alone is a saved graph in a folder of its own, in its file's."""

NULLABLE = ("source", "target", "rendezvous")
"""What edges of a job may be without."""


def job_tables(job: JobGraph) -> dict[str, dict[str, Any]]:
    """Return the columns of each table; events and edges say their ranks too, None where there is none."""
    events, edges = job.event_table, job.edge_table
    is_event = events.kind != EventKind.RENDEZVOUS
    own, first = np.flatnonzero(is_event), int(np.count_nonzero(is_event))
    shown = job.edge_columns(edges)
    points = {
        name: np.where(getattr(edges, name) < 2 * first, getattr(edges, name), None) for name in ("source", "target")
    }
    meetings = {"name": events.name[job.rendezvous_rows], "lane": events.lane[job.rendezvous_rows]}
    return {
        "events": {"rank": job.rank_of(own), **_columns_of(events.take(own))},
        "rendezvous": {**job.rendezvous_columns(), **meetings},
        "edges": {
            **_columns_of(edges),
            "rule": _rules_to_file(edges),
            **points,
            **{name: shown[name] for name in ("source_rank", "target_rank", "rendezvous")},
            "doubtful": np.isin(np.arange(len(edges)), job.doubtful_edges),
        },
        "wait_calls": _columns_of(job.wait_calls),
        "copies": _columns_of(job.trace.copies),
        "members": _columns_of(job.members),
        "clocks": _columns_of(job.clock_table),
    }


def _columns_of(table: Columns) -> dict[str, Any]:
    return {field.name: getattr(table, field.name) for field in fields(table)}  # type: ignore[arg-type]


def events_from_tables(tables: Mapping[str, Any]) -> EventTable:
    """Return the rows of a job: all events, and behind them the rendezvous."""
    meetings = tables["rendezvous"]
    added = rendezvous_events(meetings.number, meetings.name, meetings.lane, meetings.time_ns)
    return EventTable.join([tables["events"], added])


def edges_from_tables(tables: Mapping[str, Any]) -> EdgeTable:
    """Return the edges of a job as pairs of points."""
    edges, number = tables["edges"], tables["rendezvous"].number
    row = len(tables["events"]) + find_sorted(edges.rendezvous, number)
    points = [np.where(points < 0, 2 * row, points) for points in (edges.source, edges.target)]
    return EdgeTable.of(source=points[0], target=points[1], kind=edges.kind, rule=edges.rule)


def job_from_tables(
    trace: Trace, ranks: Sequence[int], originals: Sequence[DependencyGraph], tables: Mapping[str, Any],
    notes: dict[str, int],
) -> JobGraph:  # fmt: skip
    """Make a job of its tables, which fit each other, and of the graphs of its ranks alone."""
    members = tables["members"]
    return JobGraph(
        trace,
        Timeline(trace),
        edges_from_tables(tables),
        _ranks_in_job_time(trace, ranks, originals),
        tuple(originals),
        members,
        tables["clocks"],
        doubtful=np.flatnonzero(tables["edges"].doubtful),
        notes=notes,
        wait_calls=tables["wait_calls"],
    )


def _ranks_in_job_time(trace: Trace, ranks: Sequence[int], originals: Sequence[DependencyGraph]) -> list[RankGraph]:
    """Put the ranks' graphs into the job's time."""
    first_row = [*accumulate((len(graph.event_table) for graph in originals), initial=0)]
    first_lane = [*accumulate((len(graph.lanes.labels) for graph in originals), initial=0)]
    parts = []
    for place, (rank, graph) in enumerate(zip(ranks, originals, strict=True)):
        own = trace.events.take(slice(first_row[place], first_row[place + 1]))
        parts.append(
            RankGraph(place, rank, shift_to_job_time(graph, own.start, own.end), first_row[place], first_lane[place])
        )
    return parts


TABLES: dict[str, Any] = {
    "events": EventTable,
    "edges": EdgeTable,
    "wait_calls": WaitCalls,
    "syncs": SyncTable,
    "copies": CopyTable,
    "flows": Flows,
    "file_times": FileTimes,
}
ADDED_TABLES = ("wait_calls", "file_times")
"""Tables that graphs saved by earlier versions do not have; ``file_times`` is there only where events were moved."""
DICTIONARY_COLUMNS = (
    "kind", "rule", "name", "lane", "forward_thread", "sequence", "rank", "source_rank", "target_rank", "part", "said",
)  # fmt: skip
"""Columns that a dictionary makes smaller; all others it only makes slower to read."""
SINGLE_RANK_KINDS = [kind for kind in EdgeKind if not EDGE_MEANING[kind].of_job]


def save_graph(graph: DependencyGraph, folder: str | Location) -> None:
    """Write a graph as a folder of Parquet tables and a ``graph.json``.

    Tables: ``events`` (canonical order), ``edges`` (points: 2 × row of events, + 1 for the end), ``wait_calls`` (which
    call let one activity wait for another), ``syncs``, ``copies``, ``flows``; where GPU events were moved into host
    time also ``file_times``: when each event starts and ends by its file.

    Of a job, in its time: ``events`` (rank by rank, with ``rank``), ``edges`` (with ``source_rank``, ``target_rank``,
    ``rendezvous``: on its side the point is null), ``rendezvous``, ``members``, ``clocks``,
    ``wait_calls``, ``copies``; and in ``rank<N>`` each rank alone, in the time of its file, as a saved graph.

    Raises:
        OutputError: the folder cannot be written, or holds something else; an earlier graph there is replaced whole.
        MissingExtraError: pyarrow is not installed.
    """
    target = resolve_location(folder)
    check_folder(target, [part.graph.path for part in graph.rank_graphs])
    with new_folder(target, lambda: check_folder(target), [HEADER_FILE]) as new:
        _write_graph(graph, new)
        if isinstance(graph, JobGraph):
            for rank in graph.rank_numbers.tolist():
                (new / _rank_folder(rank)).mkdir()
                _write_graph(graph.graph(rank), new / _rank_folder(rank))


def _write_graph(graph: DependencyGraph, folder: Path) -> None:
    for name, columns in (job_tables(graph) if isinstance(graph, JobGraph) else _tables_of_graph(graph)).items():
        _write_table(folder / f"{name}.parquet", columns)
    (folder / HEADER_FILE).write_text(json.dumps(_graph_header(graph)), encoding="utf-8")


def _tables_of_graph(graph: DependencyGraph) -> dict[str, dict[str, Any]]:
    trace = graph.trace
    tables: dict[str, Any] = {
        "events": trace.events,
        "edges": graph.edge_table,
        "wait_calls": graph.wait_calls,
        "syncs": trace.syncs,
        "copies": trace.copies,
        "flows": trace.flows,
        **({} if trace.moved_from is None else {"file_times": trace.moved_from}),
    }
    found = {name: {f.name: getattr(table, f.name) for f in fields(table)} for name, table in tables.items()}
    found["edges"]["rule"] = _rules_to_file(graph.edge_table)
    return found


def _rank_folder(rank: int) -> str:
    return f"rank{rank}"


def check_folder(target: Location, inputs: Iterable[Location] = ()) -> None:
    """Refuse a folder that holds anything but a graph saved earlier.

    Raises:
        OutputError: the folder holds other files or an input, is a file, cannot be looked at, or its parent does not
            exist.
    """
    check_new_folder(target, inputs)
    try:
        if target.is_dir() and any(target.iterdir()) and not _is_saved_graph(target):
            raise OutputError(f"{target}: holds other files; name a new folder")
    except OSError as error:
        raise OutputError(f"{target}: cannot be written: {error.strerror or error}") from None


def _is_saved_graph(folder: Location) -> bool:
    ranks = saved_ranks(folder)
    return ranks is not None and _holds_tables(folder, ranks) and all(_is_saved_rank(folder, rank) for rank in ranks)


def _is_saved_rank(folder: Location, rank: int) -> bool:
    own = folder / _rank_folder(rank)
    return saved_ranks(own) == () and _holds_tables(own, ())


def _holds_tables(folder: Location, ranks: tuple[int, ...]) -> bool:
    """Say whether a folder holds what a saved graph or job does; other files there are never deleted."""
    needed = {
        HEADER_FILE,
        *(f"{name}.parquet" for name in (JOB_TABLES if ranks else TABLES)),
        *map(_rank_folder, ranks),
    }
    differing = needed ^ {item.name for item in folder.iterdir()}
    return not differing - {f"{name}.parquet" for name in ADDED_TABLES}


def _write_table(path: Path, columns: dict[str, Any]) -> None:
    arrow, parquet = import_arrow()
    coded = [name for name in columns if name in DICTIONARY_COLUMNS]
    # A quarter smaller and read a quarter faster than with snappy and dictionaries of everything.
    parquet.write_table(arrow.table(columns), path, compression="lz4", use_dictionary=coded)


def _graph_header(graph: DependencyGraph) -> dict[str, Any]:
    trace = graph.trace
    return {
        "schema": SCHEMA,
        "path": encodable_path(trace.path),
        "rank": trace.rank,
        "world_size": trace.world_size,
        "gpu_names": trace.gpu_names,
        "salvaged": trace.salvaged,
        "settings": trace.settings,
        "names": trace.names,
        "lanes": {f.name: np.asarray(getattr(trace.lanes, f.name)).tolist() for f in fields(trace.lanes)},
        "reading": trace.diagnostics,
        **({"notes": trace.notes} if trace.notes else {}),
        **({"ranks": graph.rank_numbers.tolist()} if isinstance(graph, JobGraph) else {}),
        **({"gpu_clock": [clock.exact_json() for clock in trace.gpu_clock]} if trace.gpu_clock else {}),
        **({"custom_rules": labels} if (labels := _custom_rules_in(graph.edge_table)) else {}),
        "building": {key: value for key, value in graph.diagnostics.items() if key not in trace.diagnostics},
        "clock_fault_ns": max(CLOCK_FAULT_LIMIT_NS, _longest_step_back(graph)),
    }


def _custom_rules_in(edges: EdgeTable) -> list[str]:
    """Return the labels of the custom rules that gave some edges, in alphabetical order."""
    return sorted(labels_of_rules(np.unique(edges.rule[edges.rule >= len(Rule)])))


def _rules_to_file(edges: EdgeTable) -> Codes:
    """Return the rules of edges as a file holds them: a custom one by its place in the header."""
    labels, codes = _custom_rules_in(edges), np.arange(FIRST_CUSTOM_RULE + 1, dtype=np.int8)
    for place, label in enumerate(labels):
        codes[custom_rule(label)] = FIRST_CUSTOM_RULE - place
    return codes[edges.rule] if labels else edges.rule


def _with_rules(edges: SavedTable[Any], header: SavedHeader) -> SavedTable[Any]:
    """Give the custom rules of saved edges the codes that they have in this process."""
    if not header.custom_rules:
        return edges
    codes = np.arange(-FIRST_CUSTOM_RULE - 1, FIRST_CUSTOM_RULE + 1).astype(np.int8)
    try:
        for place, label in enumerate(header.custom_rules):
            codes[FIRST_CUSTOM_RULE + 1 + FIRST_CUSTOM_RULE - place] = custom_rule(label)
    except UsageError as error:
        raise TraceError(header.file, str(error)) from None
    rules = codes[edges.rows.rule.astype(np.int64) + FIRST_CUSTOM_RULE + 1]
    return replace(edges, rows=replace(edges.rows, rule=freeze(rules)))


def _longest_step_back(graph: DependencyGraph) -> int:
    """Return how far back in time (ns) an edge leads: who made the graph may have allowed more than is usual."""
    edges, times = graph.edge_table, graph.timeline.times
    return int((times[edges.source] - times[edges.target]).max(initial=0))


def load_graph(folder: str | Location) -> DependencyGraph:
    """Read a graph that :func:`save_graph` wrote.

    Raises:
        TraceError: the folder is not such a graph; the error names the file, the row and the column.
        MissingExtraError: pyarrow is not installed.
    """
    source = resolve_location(folder)
    import_arrow()
    header = read_saved_header(source)
    return _load_graph(source, header) if header.ranks is None else _load_job(source, header)


def _load_tables(folder: Location, kinds: Mapping[str, Any]) -> dict[str, SavedTable[Any]]:
    return {name: _load_table(folder / f"{name}.parquet", kind) for name, kind in kinds.items()}


def _load_table(path: Location, kind: Any) -> SavedTable[Any]:
    # Graphs saved before this table existed can still be loaded.
    if path.stem in ADDED_TABLES and not path.exists():
        return SavedTable(path, kind.empty())
    return read_saved_table(path, kind, NULLABLE if kind is JOB_TABLES["edges"] else ())


def _load_graph(folder: Location, header: SavedHeader) -> DependencyGraph:
    tables = _load_tables(folder, TABLES)
    check_graph_tables(header, tables)
    tables["edges"] = _with_rules(tables["edges"], header)
    trace = _load_trace(header, {name: table.rows for name, table in tables.items()})
    timeline = Timeline(trace)
    edges = check_edges(tables["edges"], header, trace, timeline, SINGLE_RANK_KINDS)
    check_calls(tables["wait_calls"], trace)
    return DependencyGraph(trace, timeline, edges, header.building, tables["wait_calls"].rows)


def _load_job(folder: Location, header: SavedHeader) -> JobGraph:
    tables = _load_tables(folder, JOB_TABLES)
    check_job_tables(header, tables)
    tables["edges"] = _with_rules(tables["edges"], header)
    ranks = header.ranks or ()
    originals = [_load_rank(folder / _rank_folder(rank), rank) for rank in ranks]
    rows = {name: table.rows for name, table in tables.items()}
    own = {**rows, "events": events_from_tables(rows), "syncs": SyncTable.empty(), "flows": Flows.empty()}
    own["file_times"] = FileTimes.empty()
    trace = _load_trace(header, own)
    check_rank_events(tables["events"], trace, ranks, originals)
    job = job_from_tables(trace, ranks, originals, rows, header.building)
    check_edges(SavedTable(tables["edges"].path, job.edge_table), header, trace, job.timeline, [*EdgeKind])
    check_calls(tables["wait_calls"], trace)
    check_members(tables["members"], trace, job.rank_graphs)
    return job


def _load_rank(folder: Location, rank: int) -> DependencyGraph:
    header = read_saved_header(folder)
    check_rank_header(header, rank)
    return _load_graph(folder, header)


def _load_trace(header: SavedHeader, tables: Mapping[str, Any]) -> Trace:
    return Trace(
        path=header.path,
        events=tables["events"],
        names=header.names,
        lanes=header.lanes,
        syncs=tables["syncs"],
        copies=tables["copies"],
        flows=tables["flows"],
        rank=header.rank,
        world_size=header.world_size,
        gpu_names=header.gpu_names,
        diagnostics=header.reading,
        salvaged=header.salvaged,
        settings=header.settings,
        notes=header.notes,
        gpu_clock=header.gpu_clock,
        moved_from=tables["file_times"] if len(tables["file_times"]) else None,
    )
