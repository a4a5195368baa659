"""The graph as Parquet: columns as they are, so that loading gives back an equal graph. No pickle."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from hta_graph.columns import freeze
from hta_graph.errors import HtaGraphError, MissingExtraError, OutputError, TraceError
from hta_graph.export.files import new_folder, printable
from hta_graph.graph import DependencyGraph
from hta_graph.graph.edges import EdgeTable, WaitCalls
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

    Raises:
        OutputError: the folder cannot be written, or holds something else; an earlier graph there is replaced whole.
        MissingExtraError: pyarrow is not installed.
    """
    target = Path(folder)
    check_folder(target)
    trace = graph.trace
    tables = {
        "events": trace.events,
        "edges": graph.edge_table,
        "wait_calls": graph.wait_calls,
        "syncs": trace.syncs,
        "copies": trace.copies,
        "flows": trace.flows,
    }
    with new_folder(target) as new:
        for name, table in tables.items():
            _write_table(new / f"{name}.parquet", table)
        (new / "graph.json").write_text(json.dumps(_graph_header(graph)), encoding="utf-8")


def check_folder(target: Path) -> None:
    """Refuse a folder that holds anything but a graph saved earlier.

    Raises:
        OutputError: the folder holds other files, is a file, cannot be looked at, or its parent does not exist.
    """
    try:
        if target.exists() and not target.is_dir():
            raise OutputError(f"{target}: is a file; name a folder")
        if target.is_dir() and any(target.iterdir()) and not _is_saved_graph(target):
            raise OutputError(f"{target}: holds other files; name a new folder")
        if not target.absolute().parent.is_dir():
            raise OutputError(f"{target}: its parent folder does not exist; make it first")
    except OSError as error:
        raise OutputError(f"{target}: cannot be written: {error.strerror or error}") from None


def _is_saved_graph(folder: Path) -> bool:
    needed = {"graph.json", *(f"{name}.parquet" for name in TABLES)}
    missing = needed ^ {item.name for item in folder.iterdir()}
    if missing - {f"{name}.parquet" for name in LATER}:
        return False
    try:
        header = json.loads((folder / "graph.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(header, dict) and header.get("schema") == SCHEMA


def _import_arrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise MissingExtraError("Parquet", "parquet") from None
    return pyarrow, parquet


def _write_table(path: Path, table: Any) -> None:
    arrow, parquet = _import_arrow()
    parquet.write_table(arrow.table({f.name: getattr(table, f.name) for f in fields(table)}), path)


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
        return _graph_of_tables(header, {name: _read_table(source, name) for name in TABLES})
    except HtaGraphError:
        raise
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise TraceError(source, f"is not a saved graph: {error!s:.200}", "save the graph again") from None


def _read_table(folder: Path, name: str) -> Any:
    _, parquet = _import_arrow()
    path, kind = folder / f"{name}.parquet", TABLES[name]
    # Graphs saved before this table existed can still be loaded.
    if name in LATER and not path.exists():
        return kind.empty()
    table = parquet.read_table(path)
    # A hole would become NaN or 0 and with that some other event.
    if any(table[f.name].null_count for f in fields(kind)):
        raise ValueError(f"{path.name} has holes")
    return kind(*(freeze(table[f.name].to_numpy().copy()) for f in fields(kind)))


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
    for what, codes, limit in limits:
        if len(codes) and not 0 <= codes.min() <= codes.max() < limit:
            raise ValueError(f"its {what} name things that it does not hold")


def _graph_of_tables(header: dict[str, Any], tables: dict[str, Any]) -> DependencyGraph:
    lanes = header["lanes"]
    is_stream = freeze(np.array(lanes["is_stream"], np.bool_))
    device, context, stream = (freeze(np.array(lanes[name], np.int64)) for name in ("device", "context", "stream"))
    trace = Trace(
        path=Path(header["path"]),
        events=tables["events"],
        names=tuple(header["names"]),
        lanes=LaneTable(tuple(lanes["labels"]), is_stream, device, context, stream),
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
    edges, calls = tables["edges"], tables["wait_calls"]
    _check_codes(trace, edges, calls)
    if not isinstance(header["building"], dict) or not isinstance(header["reading"], dict):
        raise TypeError("its counts are not counts")
    return DependencyGraph(trace, Timeline(trace), edges, header["building"], calls)
