"""What a replay predicts, whoever found it: of a graph at hand, or of a job whose ranks were asked one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from hta_graph.algorithms.replay.changes import Change
from hta_graph.algorithms.replay.opportunities import Opportunity
from hta_graph.algorithms.time.windows import ResolvedWindow
from hta_graph.errors import Remedy
from hta_graph.graph import DependencyGraph
from hta_graph.graph.remembered import remembered
from hta_graph.model import BoundBy

__all__ = [
    "WHOLE_GRAPHS",
    "JobOutlook",
    "JobPrediction",
    "PathOfRanks",
    "ReplayElsewhere",
    "replay_elsewhere",
]

WHOLE_GRAPHS = Remedy("name fewer ranks", "name some ranks with --rank, or ask with --skeletons never")
"""What helps where a question needs the whole graphs of all ranks."""


class ReplayElsewhere(Protocol):
    """Replays one window of a job whose rows the asking side does not hold."""

    def predict(self, changes: Sequence[Change]) -> JobPrediction:
        """Predict the window after changes.

        Raises:
            QueryError: they name nothing in the window, or need all rows of all ranks.
        """

    def opportunities(self, scenarios: Mapping[str, Change]) -> JobOutlook:
        """Tell what lies on the path with what its time would gain, and what named changes would save."""


@remembered
def replay_elsewhere(graph: DependencyGraph) -> Callable[[ResolvedWindow, str], ReplayElsewhere] | None:
    """Return who replays windows (given with how they were asked for) of a graph of few rows; None of a whole graph."""
    del graph
    return None


PathRow = tuple[str | None, str, int, int]
"""Whose the time is (None: nobody's), its class, the rank, and how long it is (ns)."""


@dataclass(frozen=True)
class PathOfRanks:
    """What a path consists of, as its ranks told: rows with distinct names, classes and ranks, longest first."""

    ranks: tuple[int, ...]
    rows: tuple[PathRow, ...]

    @classmethod
    def of(cls, ranks: Iterable[int], rows: Iterable[PathRow]) -> PathOfRanks:
        """Order rows of some ranks."""
        return cls(tuple(ranks), tuple(sorted(rows, key=lambda row: (-row[3], row[2]))))

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
        columns = list(zip(*self.rows, strict=True)) or [(), (), (), ()]
        names, bounds, ranks = (np.array(column, object) for column in columns[:3])
        return {"name": names, "bound_by": bounds, "rank": ranks, "time_ns": np.array(columns[3], np.int64)}


@dataclass(frozen=True)
class JobPrediction:
    """A window of a job after changes, as its ranks told.

    ``next`` is what most time would be spent with after the changes that is not on the path today.
    """

    graph: DependencyGraph
    window: ResolvedWindow
    changes: Sequence[Change]
    measured_ns: int
    identity_ns: int
    predicted_ns: int
    frozen_share: float
    inferred_share: float
    path_before: PathOfRanks
    path_after: PathOfRanks
    next: str | None = None

    @property
    def saved_ns(self) -> int:
        """By how much the window becomes shorter; below 0 it becomes longer."""
        return self.measured_ns - self.predicted_ns


@dataclass(frozen=True)
class JobOutlook:
    """What would gain: a window as recorded, rows of :func:`opportunities`, and by name what changes would save (ns).

    ``saved`` names those changes alone that concern anything.
    """

    recorded: JobPrediction
    opportunities: Sequence[Opportunity]
    saved: Mapping[str, int]
