"""Whether two traces, read in two ways, are the same in every column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

import numpy as np
import pandas as pd

import hta_graph as hg
from hta_graph.trace.table import Trace


def same_columns(one: Trace, other: Trace) -> bool:
    """Compare all that was read."""
    tables = [(getattr(one, name), getattr(other, name)) for name in ("events", "lanes", "syncs", "flows")]
    columns = [(getattr(a, f.name), getattr(b, f.name)) for a, b in tables for f in fields(a)]
    heads = [getattr(one, n) == getattr(other, n) for n in ("names", "rank", "world_size", "gpu_names", "diagnostics")]
    return all(heads) and all(np.array_equal(a, b) for a, b in columns)


def differences_but_places(one: hg.DependencyGraph, other: hg.DependencyGraph) -> Iterator[str]:
    """Yield what differs between two graphs whose events stand elsewhere in their files, in the same order.

    The header of a trace may say more than that of a trace without one.
    """
    a, b = one.trace.events, other.trace.events
    if len(a) != len(b):
        yield f"events: {len(a):,} and {len(b):,}"
        return
    if not np.array_equal(np.argsort(a.index), np.argsort(b.index)):
        yield "events: their order"
    for table in ("events", "syncs", "copies", "flows", "lanes"):
        mine, yours = getattr(one.trace, table), getattr(other.trace, table)
        yield from (f"{table}: {name}" for name in _unequal_columns(mine, yours) if name != "index")
    for name in ("names", "rank", "world_size", "gpu_names"):
        if getattr(one.trace, name) != getattr(other.trace, name):
            yield name
    yield from (f"edges: {name}" for name in _unequal_columns(one.edge_table, other.edge_table))
    if len(a) and not _path(one).equals(_path(other)):
        yield "critical path"


def _unequal_columns(one: object, other: object) -> Iterator[str]:
    for item in fields(one):  # type: ignore[arg-type]
        mine, yours = np.asarray(getattr(one, item.name)), np.asarray(getattr(other, item.name))
        if not np.array_equal(mine, yours, equal_nan=mine.dtype.kind == "f"):
            yield item.name


def _path(graph: hg.DependencyGraph) -> pd.DataFrame:
    return hg.critical_path(graph).segments.drop(columns="event_index")
