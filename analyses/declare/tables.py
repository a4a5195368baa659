"""Tables of answers: declared columns, and the rows of every scope under them, even if there are none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analyses.declare.columns import MORE
from analyses.declare.scope import Scope
from hta_graph.attribution.graph_kernels import row_names
from hta_graph.base.arrays import take_or
from hta_graph.graph.conversion import texts_of_codes
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Ids, Ints
from hta_graph.trace.event_args import Objects

Rows = pd.DataFrame | Mapping[str, Any] | Sequence[Mapping[str, Any]]


class LateTables(Mapping[str, pd.DataFrame]):
    """Tables by name of which each is made when it is first asked for: reports show some of them only."""

    def __init__(self, **makers: Callable[[], pd.DataFrame]) -> None:
        self._makers = makers
        self._made: dict[str, pd.DataFrame] = {}

    def __getitem__(self, name: str) -> pd.DataFrame:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def table_of(scopes: Iterable[Scope], rows: Callable[[Scope], Rows], columns: Iterable[str]) -> pd.DataFrame:
    """Make one table of the rows of all scopes.

    Args:
        scopes: where to look.
        rows: returns the columns or rows of a scope, without ``rank`` and ``scope``.
        columns: the declared columns, which the table has in this order whatever was found.
    """
    return joined([labelled(rows(scope), scope) for scope in scopes], columns)


def labelled(rows: Rows, scope: Scope) -> pd.DataFrame:
    """Make a frame of the rows of a scope, labeled with its rank and name."""
    return pd.DataFrame(rows).assign(rank=scope.rank, scope=scope.label)


def joined(parts: Sequence[pd.DataFrame], columns: Iterable[str]) -> pd.DataFrame:
    """Concatenate parts under declared columns.

    >>> joined([pd.DataFrame({"b": [1], "a": [2]}), pd.DataFrame({"a": [], "b": []})], ["a", "b"])
       a  b
    0  2  1
    >>> list(joined([], ["a", "b"]))
    ['a', 'b']
    """
    # An empty part would turn the integers of others into floats; of nothing but empty parts one keeps the types.
    kept = [part for part in parts if len(part)] or parts[:1]
    declared = [*columns]
    found = dict.fromkeys(name for part in kept for name in part if name not in declared)
    listed = [name for name in declared if name != MORE] + (list(found) if MORE in declared else [])
    if not kept:
        return pd.DataFrame(columns=listed)
    return pd.concat([part.reindex(columns=listed) for part in kept], ignore_index=True)


def event_names(graph: DependencyGraph, rows: Ids | Ints) -> Objects:
    """Return the names of events (canonical rows, or rows of captures); None for row -1."""
    # Captures are read only where one of their rows is asked for.
    has_captured = len(rows) > 0 and rows.max() >= len(graph.event_table)
    codes, names = row_names(graph) if has_captured else (graph.event_table.name, graph.names)
    return texts_of_codes(names, take_or(codes, rows))


def event_indices(graph: DependencyGraph, rows: Ids | Ints) -> Any:
    """Return the places of events (canonical rows) in the file, as pandas' integers.

    Those of row -1, and of rows of a capture's file, are missing.
    """
    in_file = (rows >= 0) & (rows < len(graph.event_table))
    found = pd.array(take_or(graph.event_table.index, np.where(in_file, rows, -1)), "Int64")
    found[~in_file] = pd.NA
    return found


def scopes_in(frame: pd.DataFrame) -> set[tuple[int, str]]:
    """Return which scopes, by rank and label, a table has rows of."""
    return set(zip(frame["rank"], frame["scope"], strict=True))


def rows_to_share(sums: np.ndarray[Any, Any], share: float, most: int) -> int:
    """Return how many of some sums, largest first, reach a share of the total: all if there are no more than ``most``.

    >>> rows_to_share(np.array([50, 30, 15, 5]), 0.8, 3), rows_to_share(np.array([50, 30, 15, 5]), 0.1, 4)
    (2, 4)
    """
    if len(sums) <= most:
        return len(sums)
    running = np.cumsum(sums)
    return min(int(np.searchsorted(running, share * float(running[-1]))) + 1, most)
