"""What a rank's whole graph tells of a path that is on it for a while: the pieces, and the rows around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hta_graph.algorithms.skeleton.hops import HopPieces, Hops, pieces_of_hops
from hta_graph.algorithms.skeleton.kept_rows import rows_around
from hta_graph.algorithms.skeleton.whole_answers import StepColumns, WholeAnswers
from hta_graph.algorithms.time.accounting import explained_lags
from hta_graph.columns import freeze, picked
from hta_graph.errors import TraceError
from hta_graph.graph import DependencyGraph
from hta_graph.graph.remembered import remember, remembered
from hta_graph.job.skeletons.rank_skeleton import few_rows, rank_in_time
from hta_graph.model import Ids

__all__ = ["make_excerpt", "pieces_on_rank"]


@remembered
def pieces_on_rank(graph: DependencyGraph) -> HopPieces:
    """Return the pieces that an excerpt was made for, with its rows."""
    raise TraceError(graph.path, "is no excerpt")


def make_excerpt(
    graph: DependencyGraph, rows: Ids, size: int, hops: Hops, clock: Mapping[str, Any] | None, data_load: Sequence[str]
) -> DependencyGraph:
    """Tell what hops pass on a rank; some rows are kept besides those that tell it.

    Args:
        graph: the rank's whole graph.
        rows: rows to keep in any case.
        size: how many rows the graph had when ``rows`` and ``hops`` were found.
        hops: ways back, in the time that ``clock`` says.
        clock: the rank's.
        data_load: expressions of what loads data.

    Raises:
        TraceError: the file has changed since.
    """
    if len(graph.event_table) != size:
        raise TraceError(graph.path, "has changed while it was asked about", "ask again")
    rank = rank_in_time(graph, clock)
    found = pieces_of_hops(rank.local, hops, data_load)
    inside = np.zeros(size, np.bool_)
    inside[rows] = True
    inside[rows_around(rank.local, hops, found)] = True
    kept = freeze(np.flatnonzero(inside).astype(np.int32))
    number = freeze((np.cumsum(inside) - 1).astype(np.int32))
    induced = rank.local.rows_and_edges(kept)
    known = WholeAnswers(
        kept, size, np.empty(0, np.int64), explained_lags(rank.local)[0], StepColumns.empty(), (), is_moved=True
    )  # fmt: skip
    excerpt = few_rows(graph, rank, known, induced.edges, induced.wait_calls)
    columns = {name: picked(number, getattr(found.pieces, name)) for name in ("event", "open_call")}
    remember(pieces_on_rank, excerpt, replace(found, pieces=replace(found.pieces, **columns)))
    return excerpt
