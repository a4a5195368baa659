"""Replay: every point of a window at the earliest time that its edges allow, after changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hta_graph.base.arrays import freeze
from hta_graph.base.errors import QueryError, UsageError
from hta_graph.base.memory import ONE_SHARE, available_memory, format_bytes
from hta_graph.base.text.formatting import milliseconds
from hta_graph.graph.dependency_graph import DependencyGraph, require_graph
from hta_graph.model import Ints
from hta_graph.paths.critical_path import require_all_rows
from hta_graph.paths.windows import WindowQuery, earlier_iterations, median_step
from hta_graph.what_if.changes import Change, Removal, Scaling
from hta_graph.what_if.driver_lock import with_lock_waits
from hta_graph.what_if.modified_window import (
    ModifiedWindow,
    PathTotals,
    check_added_time,
    earlier_share,
    frozen_share,
    inferred_share,
    modified_path_totals,
    possible_waiting_time,
    recorded_path_totals,
)
from hta_graph.what_if.replay_graph import ReplayGraph
from hta_graph.what_if.selectors import own_cpu_time_only

if TYPE_CHECKING:
    import pandas as pd


class Replayed:
    """A window after changes: the predicted time of every point, the predicted length and the new path.

    Calls wait for the driver's lock as they come after the changes.
    """

    def __init__(self, draft: ModifiedWindow, changes: Sequence[Change]) -> None:
        self.changes = tuple(changes)
        check_added_time(draft.added_ns, draft.base.graph.path, draft.base.window)
        weight, tails = draft.weight, draft.tails
        self.is_unchanged = draft.leaves(weight, tails)
        """Whether the changes leave every duration as it was."""
        self.draft = draft if self.is_unchanged else with_lock_waits(draft)
        moved = self.draft is not draft
        self._weight, self._tails = (self.draft.weight, self.draft.tails) if moved else (weight, tails)
        self.window = draft.base.window
        self._paths = draft.paths()

    def __repr__(self) -> str:
        said = f"{milliseconds(self.measured_ns)} → {milliseconds(self.predicted_ns)} ms"
        return (
            f"<Replayed {self.window.label}: {'; '.join([f'{said}, {self.frozen_share:.1%} frozen', *self.remarks])}>"
        )

    @property
    def graph(self) -> DependencyGraph:
        """The graph that is replayed."""
        return self.draft.base.graph

    @cached_property
    def times(self) -> Ints:
        """The predicted time (ns) of every point: starts at 2 × row of ``graph.events``, ends at 2 × row + 1."""
        return freeze(self._values[:-1])

    @cached_property
    def _values(self) -> Ints:
        values: Ints = self._paths.values(self._weight, self.draft.base.times)
        return values

    @property
    def measured_ns(self) -> int:
        """The window's length (ns) as recorded."""
        return self.draft.base.length_ns

    @cached_property
    def predicted_ns(self) -> int:
        """The window's predicted length (ns)."""
        return self.draft.base.end_of(self._values, self._tails) - self.window.start_ns

    @property
    def identity_ns(self) -> int:
        """The window's length (ns) in replay without changes; it equals the recorded one."""
        return recorded_path_totals(self.draft.base)[1] - self.window.start_ns

    @property
    def saved_ns(self) -> int:
        """The estimated saving (ns); negative if the window becomes longer."""
        return self.measured_ns - self.predicted_ns

    @property
    def starts_earlier_ns(self) -> int:
        """By how much (ns) the iterations before, where they are replayed, too, end earlier, and this one starts."""
        return self.window.start_ns - self.draft.base.start_of(self._values[self.draft.base.ends], self._tails)

    @property
    def saved_without_lock_ns(self) -> int:
        """The same if each call waited for the driver's lock as long as it did."""
        if not (self.draft.has("waits") and self.draft.waits.any()):
            return self.saved_ns
        without = self.draft.copy()
        without.waits[:] = 0
        values = self._paths.values(without.weight, without.base.times)
        return self.window.end_ns - without.base.end_of(values, without.tails)

    @property
    def path_before(self) -> PathTotals:
        """The time on the window's path as recorded, by class and event."""
        return recorded_path_totals(self.draft.base)[0]

    @cached_property
    def path_after(self) -> PathTotals:
        """The time on the window's path after the changes, by class and event."""
        return modified_path_totals(self.draft, self._values, self._weight, self._tails, self._paths)

    @cached_property
    def remarks(self) -> list[str]:
        """What changes leave out that they may seem to mean."""
        named = (one.what for one in self.changes if isinstance(one, Scaling | Removal))
        return [said for what in named if (said := own_cpu_time_only(self.draft.base, what))]

    @property
    def earlier_share(self) -> float:
        """The share of the recorded path that is work launched before the window, which keeps its times."""
        return earlier_share(self.draft.base)

    @property
    def frozen_share(self) -> float:
        """The share of the recorded path that is fixed in every scenario: unexplained, or unmatched communication."""
        return frozen_share(self.draft.base)

    @property
    def waiting_share(self) -> float:
        """The share of the predicted path that may be waiting for other ranks that looks like work."""
        return possible_waiting_time(self.path_after) / max(self.predicted_ns, 1)

    @property
    def inferred_share(self) -> float:
        """The share of the recorded path's time on inferred edges."""
        return inferred_share(self.draft.base)

    @property
    def events(self) -> pd.DataFrame:
        """The events of the window that have points, with their predicted times.

        Columns: those of ``graph.events``, predicted_start_ns, predicted_end_ns.
        """
        inside = self.draft.base.is_inside & (self.draft.base.times >= self.window.start_ns)
        rows = np.flatnonzero((inside[:-1:2] | inside[1::2]) & (self.graph.timeline.position[0::2] >= 0))
        frame = self.graph.events_of(rows)
        frame["predicted_start_ns"], frame["predicted_end_ns"] = self.times[2 * rows], self.times[2 * rows + 1]
        return frame


def replay_graph(
    graph: DependencyGraph, window: WindowQuery | None = None, *, with_previous: bool = True
) -> ReplayGraph:
    """Make a window of a graph ready for replay; one window is kept with the graph, alone and with those before.

    Args:
        graph: one rank's or a job's.
        window: as for :func:`critical_path`.
        with_previous: replay the iteration of a step together with those before.

    Raises:
        QueryError: the window is not in the trace, or the graph holds few rows of its ranks.
    """
    require_graph(graph)
    require_all_rows(graph, "the replay of every point")
    resolved = (window or median_step())(graph)
    previous = earlier_iterations(graph, resolved) if with_previous else None
    known: dict[bool, ReplayGraph] = graph.answers.setdefault(replay_graph, {})
    # Whether the window was named makes no difference to its replay.
    if any(replace(kept.window, is_default=resolved.is_default) != resolved for kept in known.values()):
        known.clear()
    alone = previous is None
    if alone not in known or known[alone].previous != previous:
        _check_memory(graph)
        known[alone] = ReplayGraph(graph, resolved, previous=previous).without_graph()
    return known[alone].of_query(graph, resolved)


PEAK_PER_EVENT = 1_600
"""What replays of a window take at most (bytes) for each event of its graph: measured with up to 1.2 million."""
ALWAYS_REPLAYED = 1_000_000
"""The memory for the replay of so few events (2 GB at most) is not looked at."""


def _check_memory(graph: DependencyGraph) -> None:
    """Refuse to replay more events than there is memory for: graphs take a tenth of what their replays take."""
    needed = PEAK_PER_EVENT * len(graph.event_table)
    if len(graph.event_table) > ALWAYS_REPLAYED and needed > ONE_SHARE * available_memory():
        raise QueryError(
            f"{graph.path}: replay of {len(graph.event_table):,} events takes up to {format_bytes(needed)} of memory, "
            "more than is available",
            "use a machine with more memory, or record fewer steps",
        )


def replay(
    graph: DependencyGraph, changes: Sequence[Change] | Change = (), window: WindowQuery | None = None
) -> Replayed:
    """Predict a window after changes: each point moves to the latest (source + weight) over its edges.

    Args:
        graph: the graph of one rank or of a job; a job's ranks wait for each other as the changes require.
        changes: :func:`scale`, :func:`remove`, :func:`insert`, :func:`reroute`, :func:`weigh`, :func:`scenario`, or
            your own functions that edit a :class:`ModifiedWindow`; they apply in order.
        window: as for :func:`critical_path`; the iteration of a rank's step is replayed together with those before.

    Returns:
        times per point, the predicted length and the new path; without changes, exactly what was recorded.

    Raises:
        QueryError: the window is not in the trace, or a change names nothing in it, closes a cycle or adds years.
        UsageError: something is not a change, or does not apply to what it names.
    """
    given: object = changes
    listed: list[Any] = [*given] if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    for change in listed:
        if not callable(change):
            raise UsageError(
                f"{change!r} is not a change; give hg.scale(…), hg.remove(…) … or a function that edits a draft"
            )
    base = replay_graph(graph, window)
    try:
        return Replayed(_changed(base, listed), listed)
    except QueryError:
        if base.previous is None:
            raise
        # What cannot be changed in the iterations before may be in the one that is asked for.
        return Replayed(_changed(replay_graph(graph, window, with_previous=False), listed), listed)


def _changed(base: ReplayGraph, changes: Sequence[Change]) -> ModifiedWindow:
    draft = ModifiedWindow(base)
    for change in changes:
        change(draft)
    return draft
