"""The outermost operators of a stretch, by which the host's side of two runs is compared."""

from __future__ import annotations

import numpy as np

from analyses.scope import Scope
from hta_graph.model import EventKind, Ids, Ints

__all__ = ["outermost_operators"]


def outermost_operators(scope: Scope) -> Ids | Ints:
    """Return the rows of the operators in a scope that no other operator is around."""
    rows = np.flatnonzero((scope.graph.event_table.kind == EventKind.CPU_OP) & (scope.graph.operator_around < 0))
    found: Ids | Ints = rows[scope.holds(rows)]
    return found
