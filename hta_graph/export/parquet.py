"""The graph as Parquet: columns as they are, so that loading gives back an equal graph. No pickle."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from hta_graph.columns import freeze
from hta_graph.errors import HtaGraphError, MissingExtraError, OutputError, TraceError
from hta_graph.export.files import new_folder, printable
from hta_graph.export.job_parquet import JOB_TABLES, events_of_job, job_tables, loaded_job
from hta_graph.export.targets import check_new_folder
from hta_graph.graph import DependencyGraph
from hta_graph.graph.edges import EdgeTable, WaitCalls
from hta_graph.graph.job_graph import JobGraph
from hta_graph.graph.timeline import Timeline
from hta_graph.model import EdgeKind, EventKind, Rule
from hta_graph.trace.table import CopyTable, EventTable, Flows, LaneTable, SyncTable, Trace

__all__ = ["check_folder", "load_graph", "save_graph"]

SCHEMA = "hta-graph/parquet/1"
TABLES: dict[str, Any] = {
    "events": EventTable,
    "edges": EdgeTable,
    "wait_calls": WaitCalls,
    "syncs": SyncTable,
    "copies": CopyTable,
    "flows": Flows,
}
LATER = ("wait_calls",)
"""Tables that graphs saved by earlier versions do not have."""


def save_graph(graph: DependencyGraph, folder: str | Path) -> None:
    """Write a graph as a folder of Parquet tables and a ``graph.json``.

    Tables: ``events`` (canonical order), ``edges`` (points: 2 × row of events, + 1 for the end), ``wait_calls`` (which
    call let one activity wait for another), ``syncs``, ``copies``, ``flows``.

    Of a job, in its time: ``events`` (rank by rank, with ``rank``), ``edges`` (with ``source_rank``, ``target_rank``,
    ``rendezvous``: on its side the point is null), ``rendezvous``, ``members``, ``clocks``,
    ``wait_calls``, ``copies``; and in ``rank<N>`` each rank alone, in the time of its file, as a saved graph.

    Raises:
        OutputError: the folder cannot be written, or holds something else; an earlier graph there is replaced whole.
        MissingExtraError: pyarrow is not installed.
    """
    target = Path(folder)
    check_folder(target, [part.graph.path for part in graph.parts])
    with new_folder(target, lambda: check_folder(target)) as new:
        _write_graph(graph, new)
        if isinstance(graph, JobGraph):
            for rank in graph.rank_of_part.tolist():
                (new / _rank_folder(rank)).mkdir()
                _write_graph(graph.graph(rank), new / _rank_folder(rank))


def _write_graph(graph: DependencyGraph, folder: Path) -> None:
    for name, columns in (job_tables(graph) if isinstance(graph, JobGraph) else _tables_of_graph(graph)).items():
        _write_table(folder / f"{name}.parquet", columns)
    (folder / "graph.json").write_text(json.dumps(_graph_header(graph)), encoding="utf-8")


def _tables_of_graph(graph: DependencyGraph) -> dict[str, dict[str, Any]]:
    trace = graph.trace
    tables: dict[str, Any] = {
        "events": trace.events,
        "edges": graph.edge_table,
        "wait_calls": graph.wait_calls,
        "syncs": trace.syncs,
        "copies": trace.copies,
        "flows": trace.flows,
    }
    return {name: {f.name: getattr(table, f.name) for f in fields(table)} for name, table in tables.items()}


def _rank_folder(rank: int) -> str:
    return f"rank{rank}"


def check_folder(target: Path, inputs: Iterable[Path] = ()) -> None:
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


def _is_saved_graph(folder: Path) -> bool:
    try:
        header = json.loads((folder / "graph.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    if not isinstance(header, dict) or header.get("schema") != SCHEMA:
        return False
    ranks = [_rank_folder(rank) for rank in header.get("ranks", ())]
    tables = JOB_TABLES if ranks else TABLES
    needed = {"graph.json", *(f"{name}.parquet" for name in tables), *ranks}
    differing = needed ^ {item.name for item in folder.iterdir()}
    # Nothing that somebody put beside or inside an earlier graph is ever deleted.
    return not differing - {f"{name}.parquet" for name in LATER} and all(_is_saved_graph(folder / own) for own in ranks)


def _import_arrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise MissingExtraError("Parquet", "parquet") from None
    return pyarrow, parquet


def _write_table(path: Path, columns: dict[str, Any]) -> None:
    arrow, parquet = _import_arrow()
    parquet.write_table(arrow.table(columns), path)


def _graph_header(graph: DependencyGraph) -> dict[str, Any]:
    trace = graph.trace
    return {
        "schema": SCHEMA,
        "path": printable(trace.path),
        "rank": trace.rank,
        "world_size": trace.world_size,
        "gpu_names": trace.gpu_names,
        "salvaged": trace.salvaged,
        "settings": trace.settings,
        "names": trace.names,
        "lanes": {f.name: np.asarray(getattr(trace.lanes, f.name)).tolist() for f in fields(trace.lanes)},
        "reading": trace.diagnostics,
        **({"ranks": graph.rank_of_part.tolist()} if isinstance(graph, JobGraph) else {}),
        "building": {key: value for key, value in graph.diagnostics.items() if key not in trace.diagnostics},
    }


def load_graph(folder: str | Path) -> DependencyGraph:
    """Read a graph that :func:`save_graph` wrote.

    Raises:
        TraceError: the folder is not such a graph.
        MissingExtraError: pyarrow is not installed.
    """
    source = Path(folder)
    _import_arrow()
    try:
        header = json.loads((source / "graph.json").read_text(encoding="utf-8"))
        if header["schema"] != SCHEMA:
            raise TraceError(source, f"holds {header['schema']!r}, not {SCHEMA!r}")
        if "ranks" in header:
            return _loaded_job(source, header)
        tables = {name: _read_table(source, name, kind) for name, kind in TABLES.items()}
        return _loaded_graph(header, tables)
    except HtaGraphError:
        raise
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise TraceError(source, f"is not a saved graph: {error!s:.200}", "save the graph again") from None


def _read_table(folder: Path, name: str, kind: Any) -> Any:
    _, parquet = _import_arrow()
    path = folder / f"{name}.parquet"
    # Graphs saved before this table existed can still be loaded.
    if name in LATER and not path.exists():
        return kind.empty()
    table = parquet.read_table(path)
    columns = {f.name: table[f.name] for f in fields(kind)}
    if kind is JOB_TABLES["edges"]:
        columns |= {
            column: columns[column].cast("int64").fill_null(-1) for column in ("source", "target", "rendezvous")
        }
    # A hole would become NaN or 0 and with that some other event.
    if any(column.null_count for column in columns.values()):
        raise ValueError(f"{path.name} has holes")
    return kind.of(**{key: column.to_numpy() for key, column in columns.items()})


def _check_codes(trace: Trace, edges: EdgeTable, calls: WaitCalls) -> None:
    """Check that every number in the tables points at something."""
    events, size = trace.events, len(trace.events)
    limits = (
        ("edges", np.concatenate([edges.source, edges.target]), 2 * size),
        ("kinds of edges", edges.kind, len(EdgeKind)),
        ("rules of edges", edges.rule, len(Rule)),
        ("kinds of events", events.kind, len(EventKind)),
        ("names", events.name, len(trace.names)),
        ("lanes", events.lane, len(trace.lanes.labels)),
        ("calls behind waits", np.concatenate([calls.source, calls.target, calls.call]), size),
        ("synchronisation records", trace.syncs.event, size),
        ("copies", trace.copies.event, size),
    )
    _check_limits(limits)


def _check_limits(limits: Iterable[tuple[str, Any, int]]) -> None:
    for what, codes, limit in limits:
        if len(codes) and not 0 <= codes.min() <= codes.max() < limit:
            raise ValueError(f"its {what} name things that it does not hold")


def _loaded_graph(header: dict[str, Any], tables: dict[str, Any]) -> DependencyGraph:
    trace = _loaded_trace(header, tables)
    edges, calls = tables["edges"], tables["wait_calls"]
    _check_codes(trace, edges, calls)
    return DependencyGraph(trace, Timeline(trace), edges, header["building"], calls)


def _loaded_job(folder: Path, header: dict[str, Any]) -> JobGraph:
    tables = {name: _read_table(folder, name, kind) for name, kind in JOB_TABLES.items()}
    originals = [load_graph(folder / _rank_folder(rank)) for rank in header["ranks"]]
    own = {**tables, "events": events_of_job(tables), "syncs": SyncTable.empty(), "flows": Flows.empty()}
    job = loaded_job(_loaded_trace(header, own), header["ranks"], originals, tables, header["building"])
    _check_codes(job.trace, job.edge_table, job.wait_calls)
    members = job.members
    _check_limits(
        [
            ("members", members.row, len(job.trace.events)),
            ("calls of members", members.call + 1, len(job.trace.events) + 1),
            ("ranks of members", members.part, len(originals)),
        ]
    )
    return job


def _loaded_trace(header: dict[str, Any], tables: dict[str, Any]) -> Trace:
    lanes = header["lanes"]
    flags = {name: freeze(np.array(lanes.get(name, ()), np.bool_)) for name in ("is_stream", "is_communication")}
    device, context, stream = (freeze(np.array(lanes[name], np.int64)) for name in ("device", "context", "stream"))
    if not isinstance(header["building"], dict) or not isinstance(header["reading"], dict):
        raise TypeError("its counts are not counts")
    return Trace(
        path=Path(header["path"]),
        events=tables["events"],
        names=tuple(header["names"]),
        lanes=LaneTable(tuple(lanes["labels"]), device=device, context=context, stream=stream, **flags),
        syncs=tables["syncs"],
        copies=tables["copies"],
        flows=tables["flows"],
        rank=header["rank"],
        world_size=header["world_size"],
        gpu_names=tuple(header["gpu_names"]),
        diagnostics=header["reading"],
        salvaged=header["salvaged"],
        settings={str(key): str(value) for key, value in header.get("settings", {}).items()},
    )
