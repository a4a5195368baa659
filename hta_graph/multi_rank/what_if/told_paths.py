"""What ranks told of a path that comes by them, added up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from hta_graph.graph.job_graph import JobGraph
from hta_graph.what_if.modified_window import PathRow, path_columns
from hta_graph.what_if.predict import RankPathTotals

__all__ = ["JobPathTotals"]


class JobPathTotals:
    """A path of a job.

    ``frozen_ns`` is how much of it no change moves, ``inferred_ns`` how much lies on deduced edges; ``times`` (ns) are
    by kind and name of what may change; ``sums`` tell by draft how long what that changes is on it, and how much of
    that is communication without partners.
    """

    def __init__(self, job: JobGraph) -> None:
        self._job = job
        self._rows: list[PathRow] = []
        self.frozen_ns = self.inferred_ns = 0
        self.times: dict[str, dict[str, int]] = {}
        self.sums: dict[int, dict[str, int]] = {}
        self._without: dict[int, list[PathRow]] = defaultdict(list)

    def add(self, rank: int, told: Mapping[str, Any]) -> None:
        """Add what a rank told."""
        self._rows += _path_rows(told["by_name"], rank)
        self.frozen_ns += told["frozen_ns"]
        self.inferred_ns += told["inferred_ns"]
        for kind, times in told["times"].items():
            own = self.times.setdefault(kind, {})
            for name, time in times.items():
                own[name] = own.get(name, 0) + time
        for at, other in told["without"]:
            self._without[at] += _path_rows(other["by_name"], rank)
            sums = self.sums.setdefault(at, {"on_path_ns": 0, "alone_ns": 0})
            for key in sums:
                sums[key] += other[key]

    @cached_property
    def path(self) -> RankPathTotals:
        """The path."""
        return RankPathTotals(self._job.rank_numbers.tolist(), self._rows)

    def without(self, draft: int) -> dict[str, Any]:
        """Return the path without what a draft changes, as columns."""
        return path_columns(self._without[draft])


def _path_rows(columns: Mapping[str, list[Any]], rank: int) -> list[PathRow]:
    return [
        (name, bound, rank, time)
        for name, bound, time in zip(columns["name"], columns["bound_by"], columns["time_ns"], strict=True)
    ]
