"""The graph of a rank or a job as Parquet tables for other programs: columns as they are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from hta_graph.base.arrays import Columns
from hta_graph.base.errors import MissingExtraError, OutputError
from hta_graph.base.storage.atomic_write import new_folder
from hta_graph.base.storage.location import Location, resolve_location
from hta_graph.base.storage.output_paths import check_new_folder
from hta_graph.base.text.sanitize import encodable_path
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.edges import FIRST_CUSTOM_RULE, EdgeTable, custom_rule, labels_of_rules
from hta_graph.graph.job_graph import JobGraph
from hta_graph.model import CLOCK_FAULT_LIMIT_NS, Codes, EdgeRule, EventKind

SCHEMA = "hta-graph/parquet/1"
HEADER_FILE = "graph.json"
TABLES = ("events", "edges", "wait_calls", "syncs", "copies", "flows")
FILE_TIMES = "file_times"
"""The table that is there only where events were moved."""
JOB_TABLES = ("events", "rendezvous", "edges", "wait_calls", "copies", "members", "clocks")
"""The tables of a job, in its time; each rank alone has a folder of its own, in its file's."""
DICTIONARY_COLUMNS = (
    "kind", "rule", "name", "lane", "forward_thread", "sequence", "rank", "source_rank", "target_rank", "part", "said",
)  # fmt: skip
"""Columns that a dictionary makes smaller; all others it only makes slower to read."""


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


def write_parquet(graph: DependencyGraph, folder: str | Location) -> None:
    """Write a graph as a folder of Parquet tables and a ``graph.json``.

    Tables: ``events`` (canonical order), ``edges`` (points: 2 × row of events, + 1 for the end), ``wait_calls`` (which
    call let one activity wait for another), ``syncs``, ``copies``, ``flows``; where GPU events were moved into host
    time also ``file_times``: when each event starts and ends by its file.

    Of a job, in its time: ``events`` (rank by rank, with ``rank``), ``edges`` (with ``source_rank``, ``target_rank``,
    ``rendezvous``: on its side the point is null), ``rendezvous``, ``members``, ``clocks``,
    ``wait_calls``, ``copies``; and in ``rank<N>`` each rank alone, in the time of its file.

    Raises:
        OutputError: the folder cannot be written, or holds something else; an earlier graph there is replaced whole.
        MissingExtraError: pyarrow is not installed.
    """
    target = resolve_location(folder)
    check_folder(target, [part.graph.path for part in graph.rank_graphs])
    with new_folder(target, lambda: check_folder(target), [HEADER_FILE]) as new:
        if not isinstance(graph, JobGraph):
            _write_tables(new, _tables_of_graph(graph), _graph_header(graph))
            return
        ranks = graph.rank_numbers.tolist()
        _write_tables(new, job_tables(graph), _graph_header(graph, ranks))
        for rank, alone in ((rank, graph.graph(rank)) for rank in ranks):
            (new / _rank_folder(rank)).mkdir()
            _write_tables(new / _rank_folder(rank), _tables_of_graph(alone), _graph_header(alone))


def _write_tables(folder: Path, tables: Mapping[str, dict[str, Any]], header: Mapping[str, Any]) -> None:
    for name, columns in tables.items():
        _write_table(folder / f"{name}.parquet", columns)
    (folder / HEADER_FILE).write_text(json.dumps(header), encoding="utf-8")


def _tables_of_graph(graph: DependencyGraph) -> dict[str, dict[str, Any]]:
    trace = graph.trace
    tables: dict[str, Any] = {
        "events": trace.events,
        "edges": graph.edge_table,
        "wait_calls": graph.wait_calls,
        "syncs": trace.syncs,
        "copies": trace.copies,
        "flows": trace.flows,
        **({} if trace.moved_from is None else {FILE_TIMES: trace.moved_from}),
    }
    found = {name: {f.name: getattr(table, f.name) for f in fields(table)} for name, table in tables.items()}
    found["edges"]["rule"] = _rules_to_file(graph.edge_table)
    return found


def _rank_folder(rank: int) -> str:
    return f"rank{rank}"


def check_folder(target: Location, inputs: Iterable[Location] = ()) -> None:
    """Refuse a folder that holds anything but a graph written earlier.

    Raises:
        OutputError: the folder holds other files or an input, is a file, cannot be looked at, or its parent does not
            exist.
    """
    check_new_folder(target, inputs)
    try:
        if target.is_dir() and any(target.iterdir()) and not _holds_a_graph(target):
            raise OutputError(f"{target}: holds other files; name a new folder")
    except OSError as error:
        raise OutputError(f"{target}: cannot be written: {error.strerror or error}") from None


def _holds_a_graph(folder: Location) -> bool:
    ranks = _ranks_in(folder)
    return ranks is not None and _holds_tables(folder, ranks) and all(_holds_a_rank(folder, rank) for rank in ranks)


def _holds_a_rank(folder: Location, rank: int) -> bool:
    own = folder / _rank_folder(rank)
    return _ranks_in(own) == () and _holds_tables(own, ())


def _ranks_in(folder: Location) -> tuple[int, ...] | None:
    """Return the ranks of a job's folder, none of a rank's; None if it holds neither."""
    file = folder / HEADER_FILE
    try:
        header = json.loads(file.read_bytes()) if file.is_file() else None
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(header, dict) or header.get("schema") != SCHEMA:
        return None
    ranks = header.get("ranks", [])
    return tuple(ranks) if isinstance(ranks, list) and all(type(rank) is int for rank in ranks) else None


def _holds_tables(folder: Location, ranks: tuple[int, ...]) -> bool:
    """Say whether a folder holds what a graph or job does; other files there are never deleted."""
    needed = {
        HEADER_FILE,
        *(f"{name}.parquet" for name in (JOB_TABLES if ranks else TABLES)),
        *map(_rank_folder, ranks),
    }
    differing = needed ^ {item.name for item in folder.iterdir()}
    return not differing - {f"{FILE_TIMES}.parquet"}


def _write_table(path: Path, columns: dict[str, Any]) -> None:
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise MissingExtraError("Parquet", "parquet") from None
    coded = [name for name in columns if name in DICTIONARY_COLUMNS]
    # A quarter smaller and read a quarter faster than with snappy and dictionaries of everything.
    parquet.write_table(pyarrow.table(columns), path, compression="lz4", use_dictionary=coded)


def _graph_header(graph: DependencyGraph, ranks: Sequence[int] = ()) -> dict[str, Any]:
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
        **({"ranks": ranks} if ranks else {}),
        **({"gpu_clock": [clock.exact_json() for clock in trace.gpu_clock]} if trace.gpu_clock else {}),
        **({"custom_rules": labels} if (labels := _custom_rules_in(graph.edge_table)) else {}),
        "building": {key: value for key, value in graph.diagnostics.items() if key not in trace.diagnostics},
        "clock_fault_ns": max(CLOCK_FAULT_LIMIT_NS, _longest_step_back(graph)),
    }


def _custom_rules_in(edges: EdgeTable) -> list[str]:
    """Return the labels of the custom rules that gave some edges, in alphabetical order."""
    return sorted(labels_of_rules(np.unique(edges.rule[edges.rule >= len(EdgeRule)])))


def _rules_to_file(edges: EdgeTable) -> Codes:
    """Return the rules of edges as a file holds them: a custom one by its place in the header."""
    labels, codes = _custom_rules_in(edges), np.arange(FIRST_CUSTOM_RULE + 1, dtype=np.int8)
    for place, label in enumerate(labels):
        codes[custom_rule(label)] = FIRST_CUSTOM_RULE - place
    return codes[edges.rule] if labels else edges.rule


def _longest_step_back(graph: DependencyGraph) -> int:
    """Return how far back in time (ns) an edge leads: who made the graph may have allowed more than is usual."""
    edges, times = graph.edge_table, graph.timeline.times
    return int((times[edges.source] - times[edges.target]).max(initial=0))
