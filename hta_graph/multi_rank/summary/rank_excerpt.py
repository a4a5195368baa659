"""What a rank's whole graph tells of a path that is on it for a while: the pieces, and the rows around them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hta_graph.arrays import column_types, freeze, take_or
from hta_graph.errors import TraceError
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.rank_summary import RankSummary, StepColumns, fingerprint
from hta_graph.model import Ids
from hta_graph.multi_rank.summary.boundary_events import excerpt_rows
from hta_graph.multi_rank.summary.hops import PathLegs, segments_of_legs
from hta_graph.multi_rank.summary.summarize import RankInJobTime, rank_in_job_time, summary_graph
from hta_graph.paths.time_accounting import explained_lags
from hta_graph.storage.location import Location

__all__ = ["ExcerptRequest", "file_changed_error", "make_path_excerpt", "rank_if_unchanged"]


@dataclass(frozen=True)
class ExcerptRequest:
    """What a rank is asked about its job's paths.

    ``rows`` are kept in any case, of ``size`` that the graph had when they were chosen, and ``content`` was its
    :func:`fingerprint` then; ``hops`` are in the time that
    ``clock`` says. ``data_load`` are expressions of what loads data.
    """

    rows: Ids
    size: int
    content: str
    hops: PathLegs
    clock: dict[str, Any]
    data_load: tuple[str, ...]

    def as_record(self) -> dict[str, Any]:
        """Return it as JSON."""
        hops = {name: getattr(self.hops, name).tolist() for name in column_types(PathLegs)}
        return {
            "rows": self.rows.tolist(), "size": self.size, "content": self.content, "hops": hops, "clock": self.clock,
            "data_load": list(self.data_load),
        }  # fmt: skip

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> ExcerptRequest:
        """Undo :meth:`as_record`."""
        rows, hops = np.array(record["rows"], np.int32), PathLegs.of(**record["hops"])
        return cls(rows, record["size"], record["content"], hops, record["clock"], tuple(record["data_load"]))


def file_changed_error(path: Location) -> TraceError:
    """Return the error of a file that holds something else than when it was read first."""
    return TraceError(path, "has changed while it was asked about", "ask again")


def rank_if_unchanged(graph: DependencyGraph, content: str, clock: Mapping[str, Any] | None) -> RankInJobTime:
    """Return a rank in the time that a clock says, of a file that holds what it did when it was read first.

    Raises:
        TraceError: the file has changed since.
    """
    if fingerprint(graph) != content:
        raise file_changed_error(graph.path)
    return rank_in_job_time(graph, clock)


def make_path_excerpt(graph: DependencyGraph, asked: ExcerptRequest) -> DependencyGraph:
    """Tell what legs pass on a rank, given its whole graph: a graph of few rows with :class:`LegSegments`.

    Raises:
        TraceError: the file has changed since.
    """
    rank = rank_if_unchanged(graph, asked.content, asked.clock)
    found = segments_of_legs(rank.local, asked.hops, asked.data_load)
    inside = np.zeros(asked.size, np.bool_)
    inside[asked.rows] = True
    inside[excerpt_rows(rank.local, asked.hops, found)] = True
    kept = freeze(np.flatnonzero(inside).astype(np.int32))
    number = freeze((np.cumsum(inside) - 1).astype(np.int32))
    induced = rank.local.rows_and_edges(kept)
    known = RankSummary(
        kept, asked.size, asked.content, np.empty(0, np.int64), explained_lags(rank.local)[0], StepColumns.empty(), (),
        is_in_job_time=True,
    )  # fmt: skip
    columns = {name: take_or(number, getattr(found.pieces, name)) for name in ("event", "open_call")}
    pieces = replace(found, pieces=replace(found.pieces, **columns))
    return summary_graph(graph, rank, known, induced.edges, induced.wait_calls, [pieces])
