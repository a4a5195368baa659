"""Whether two traces, read in two ways, are the same in every column."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from hta_graph.trace.table import Trace


def same_columns(one: Trace, other: Trace) -> bool:
    """Compare all that was read."""
    tables = [(getattr(one, name), getattr(other, name)) for name in ("events", "lanes", "syncs", "flows")]
    columns = [(getattr(a, f.name), getattr(b, f.name)) for a, b in tables for f in fields(a)]
    heads = [getattr(one, n) == getattr(other, n) for n in ("names", "rank", "world_size", "gpu_names", "diagnostics")]
    return all(heads) and all(np.array_equal(a, b) for a, b in columns)
