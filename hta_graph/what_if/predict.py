"""Predict a window after changes, for a graph in memory or for a job whose ranks are read one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol, runtime_checkable

from hta_graph.graph.dependency_graph import DependencyGraph, RankSource, require_graph
from hta_graph.model import BoundBy
from hta_graph.paths.windows import Window, WindowQuery, median_step
from hta_graph.what_if.changes import Change
from hta_graph.what_if.modified_window import PathRow, path_columns
from hta_graph.what_if.opportunities import Opportunity
from hta_graph.what_if.replay import Replayed, replay


class WindowReplay(Protocol):
    """Replays one window of a job whose rows the asking side does not hold."""

    def predict(self, changes: Sequence[Change]) -> JobPrediction:
        """Predict the window after changes.

        Raises:
            QueryError: they name nothing in the window, or need all rows of all ranks.
        """

    def opportunities(self, scenarios: Mapping[str, Change]) -> JobOpportunities:
        """Return what is on the path, what it would save, and what named changes would save."""


@runtime_checkable
class ReplaySource(RankSource, Protocol):
    """Replays windows of a graph that holds few rows of its ranks."""

    def replay(self, graph: DependencyGraph, window: Window, asked: str) -> WindowReplay:
        """Return the replay of a window of the graph, given with how it was asked for."""


def summary_replay(graph: DependencyGraph) -> Callable[[Window, str], WindowReplay] | None:
    """Return who replays windows (given with how they were asked for) of a graph of few rows; None of a whole graph."""
    return partial(graph.source.replay, graph) if isinstance(graph.source, ReplaySource) else None


@dataclass(frozen=True)
class RankPathTotals:
    """What a path consists of, from its ranks' answers: rows with distinct names, classes and ranks."""

    ranks: Sequence[int]
    rows: Sequence[PathRow]

    @cached_property
    def by_bound_ns(self) -> dict[str, int]:
        """Time (ns) per class, all ten."""
        found = {bound.label: 0 for bound in BoundBy}
        for _, bound, _, time in self.rows:
            found[bound] += time
        return found

    @cached_property
    def by_rank_ns(self) -> dict[int, int]:
        """Time (ns) on each rank."""
        found = dict.fromkeys(self.ranks, 0)
        for _, _, rank, time in self.rows:
            found[rank] += time
        return found

    def by_name(self) -> dict[str, Any]:
        """Return the columns name (whose the time is), bound_by, rank, time_ns, longest first."""
        return path_columns(self.rows)


@dataclass(frozen=True)
class JobPrediction:
    """A window of a job after changes, computed from the longest paths of its ranks.

    ``next`` is what most time would be spent with after the changes that is not on the path today. ``is_unchanged``: as
    :class:`Replayed` has it.
    """

    graph: DependencyGraph
    window: Window
    changes: Sequence[Change]
    measured_ns: int
    identity_ns: int
    predicted_ns: int
    frozen_share: float
    inferred_share: float
    waiting_share: float
    path_before: RankPathTotals
    path_after: RankPathTotals
    is_unchanged: bool
    next: str | None = None

    @property
    def remarks(self) -> list[str]:
        """As :class:`Replayed` has it; empty, since no events are at hand."""
        return []

    @property
    def earlier_share(self) -> float:
        """As :class:`Replayed` has it; 0, since no events are at hand."""
        return 0.0

    @property
    def saved_ns(self) -> int:
        """The estimated saving (ns); negative if the window becomes longer."""
        return self.measured_ns - self.predicted_ns


@dataclass(frozen=True)
class JobOpportunities:
    """What would gain: a window as recorded, rows of :func:`opportunities`, and by name what changes would save (ns).

    ``saved`` names those changes alone that concern anything.
    """

    recorded: JobPrediction
    opportunities: Sequence[Opportunity]
    saved: Mapping[str, int]


def predict(
    graph: DependencyGraph, changes: Sequence[Change] | Change = (), window: WindowQuery | None = None
) -> Replayed | JobPrediction:
    """Predict a window after changes as :func:`replay` does, also for a job of rank summaries.

    Args:
        graph: the graph of one rank or of a job; of a job of summaries (``read_job(…, summaries=True)``) the ranks'
            files are read again.
        changes: those of :func:`replay`; for a job of rank summaries only :func:`scale`, :func:`remove` and
            :func:`scenario` (except ``like_median``).
        window: as for :func:`critical_path`.

    Returns:
        lengths, shares and the new path; for a graph in memory also the times of all points.

    Raises:
        QueryError: the window is not in the trace, or a change matches nothing in it or needs all events of all ranks.
        HtaGraphError: a file cannot be read again, or has changed.
    """
    require_graph(graph)
    elsewhere = summary_replay(graph)
    if elsewhere is None:
        return replay(graph, changes, window)
    asked = window or median_step()
    return elsewhere(asked(graph), asked.asked).predict([changes] if callable(changes) else list(changes))
