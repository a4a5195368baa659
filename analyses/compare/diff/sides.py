"""One side of a comparison: the steps of a run without the warm-up, or one window."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Literal, Self

import numpy as np

from analyses.compare.diff.comparable_names import comparable_name
from analyses.declare.scope import Scope, in_window
from hta_graph.base.arrays import distinct
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import EventKind, Ints
from hta_graph.paths.critical_path import CriticalPath, critical_paths
from hta_graph.paths.step_table import StepRow, step_rows
from hta_graph.paths.window_ends import steps_by_number
from hta_graph.paths.windows import StepLength, Window, WindowForm, WindowQuery, step, step_lengths, whole

BEFORE_AFTER = {"control": "before", "test": "after"}
"""Each side, as sentences name it."""
LONGEST_NAME = 60
LENGTH = {
    "iteration": "iteration time",
    "latency": "latency",
    "time on the CPU": "CPU time",
    "window": "time",
    "whole trace": "length",
}
"""What each measure is called in a sentence."""
OTHER_RANK = "on a different rank"

Measure = Literal["iteration", "latency", "time on the CPU", "window", "whole trace"]
"""Which length of a window is compared; :class:`~hta_graph.paths.windows.StepLength` defines those of steps."""


@dataclass(frozen=True)
class Neighbors:
    """Steps near a named one: their numbers and lengths (ns), and where they are known their scopes."""

    number: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    ns: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    scopes: Sequence[Scope] = ()


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """How long the windows of a run (of a rank or of a job) are (ns), and which of their lengths is compared.

    ``numbers`` are those of the windows' steps, -1 for other windows; ``neighbors`` the steps that show how much a
    single named step varies, itself among them; ``annotations`` the names of those on the critical paths. ``label`` and
    ``unexplained_ns`` are those of the window that represents the run. ``warms_up`` marks a window that is the first
    step of its trace.
    """

    measure: Measure
    warms_up: bool = False
    neighbors: Neighbors = field(default_factory=Neighbors)
    lengths_ns: Ints = field(init=False)
    numbers: Ints = field(init=False)
    annotations: frozenset[str] = field(init=False)
    label: str = field(init=False)
    unexplained_ns: int = field(init=False)
    steps_recorded: int = field(init=False)

    def since(self, place: int) -> Self:
        """Return the windows from a place on."""
        raise NotImplementedError

    def is_same_as(self, other: Lengths) -> bool:
        """Return whether both are the same windows of the same recording; lengths never agree by chance."""
        return self.label == other.label and np.array_equal(self.lengths_ns, other.lengths_ns)

    @property
    def has_steps(self) -> bool:
        """Whether any rank recorded steps, compared or not."""
        return self.steps_recorded > 0

    @property
    def median_ns(self) -> int:
        """The median length."""
        return round(float(np.median(self.lengths_ns)))


NEIGHBORS = 24
"""How many steps around a named one show how much it varies."""


def neighbor_steps(graph: DependencyGraph, window: Window) -> list[StepLength]:
    """Return the steps around a named one that are no warm-up, with itself; none if it is a warm-up itself."""
    steps = list(filter(attrgetter("is_candidate"), step_lengths(graph)))
    places = [at for at, one in enumerate(steps) if one.number == window.step]
    if not places:
        return []
    first = min(max(places[0] - NEIGHBORS // 2, 0), max(len(steps) - NEIGHBORS, 0))
    return steps[first : first + NEIGHBORS]


def median_index(lengths_ns: Ints) -> int:
    """Return the place of the median length, of two the shorter, of equals the earliest."""
    lower_median = np.sort(lengths_ns)[(len(lengths_ns) - 1) // 2]
    return int(np.flatnonzero(lengths_ns == lower_median)[0])


@dataclass(frozen=True, kw_only=True)
class Side(Lengths):
    """The windows of one rank's run, with their critical paths.

    ``steps`` lists the run's steps where all of them are compared; ``representative`` is the place of the window that
    represents the run, if not the median one.
    """

    graph: DependencyGraph
    scopes: Sequence[Scope]
    paths: Sequence[CriticalPath]
    steps: Sequence[StepRow] = ()
    representative: int = -1

    @property
    def usual(self) -> int:
        """The place of the window that represents the run."""
        return self.representative if self.representative >= 0 else median_index(self.lengths_ns)

    def __post_init__(self) -> None:
        """Set what follows from the paths."""
        lengths = np.array([path.length_ns for path in self.paths], np.int64)
        vars(self).update(lengths_ns=lengths, numbers=step_numbers(self.paths), annotations=annotations_on(self.paths))
        path, steps = self.path, len(self.graph.steps())
        vars(self).update(label=path.window.label, unexplained_ns=path.by_bound_ns["unexplained"], steps_recorded=steps)

    def since(self, place: int) -> Self:
        """Return the windows from a place on."""
        return replace(self, scopes=self.scopes[place:], paths=self.paths[place:]) if place else self

    def is_same_as(self, other: Lengths) -> bool:
        """Return whether both are the same windows of the same recording."""
        if not (isinstance(other, Side) and super().is_same_as(other) and self.graph.rank == other.graph.rank):
            return False
        rows = [side.graph.event_table for side in (self, other)]
        return self.graph.names == other.graph.names and all(
            np.array_equal(getattr(rows[0], name), getattr(rows[1], name)) for name in ("start", "end", "name")
        )

    @property
    def scope(self) -> Scope:
        """The window that represents the run."""
        return self.scopes[self.usual]

    @property
    def path(self) -> CriticalPath:
        """The critical path of the window that represents the run."""
        return self.paths[self.usual]


def step_numbers(paths: Sequence[CriticalPath]) -> Ints:
    """Return the number of each window's step; -1 for other windows."""
    return np.array([-1 if path.window.step is None else path.window.step for path in paths], np.int64)


def annotations_on(paths: Sequence[CriticalPath]) -> frozenset[str]:
    """Return the names of the annotations on paths of one graph."""
    graph = paths[0].graph
    events = distinct(np.concatenate([path.segment_table.event for path in paths]))
    events = events[events >= 0]
    names = distinct(graph.event_table.name[events[graph.event_table.kind[events] == EventKind.ANNOTATION]])
    return frozenset(comparable_name(graph.names[code]) for code in names.tolist())


def sides_of_steps(
    graphs: Sequence[DependencyGraph], data_load: Sequence[str] = (), form: WindowForm = "usual"
) -> list[Side]:
    """Return runs by all of their steps, without the warm-up; by the whole traces where one has no steps.

    Args:
        graphs: of control and test, or of one run alone.
        data_load: that of :func:`critical_path`.
        form: compare the steps on the CPU, or (else) their iterations.
    """
    lengths = _compared_steps(graphs)
    if not all(lengths):
        return [side_of_window(graph, whole(), data_load) for graph in graphs]
    alone = [is_first_of_recording(graph, own[0]) for graph, own in zip(graphs, lengths, strict=True)]
    measure: Measure = "iteration"
    if form == "cpu" or not any(one.launches_work for own in lengths for one in own):
        measure = "time on the CPU"
    elif any(alone):
        # The first step of a trace has no end of earlier work to count from: its iteration is a latency.
        measure = "latency"
    return [
        _side_of_steps(graph, own, measure, data_load, warms_up=first)
        for graph, own, first in zip(graphs, lengths, alone, strict=True)
    ]


def _compared_steps(graphs: Sequence[DependencyGraph]) -> list[list[StepLength]]:
    """Return the steps of runs that are no warm-up: of inference engines those of one phase that all have.

    Where the phase with most time is another one in each run, it is the common one with most time; none if none is.
    """
    every = [step_lengths(graph) for graph in graphs]
    candidates = [[one for one in own if one.is_candidate] for own in every]
    phases = [{one.phase for one in own} for own in candidates]
    if not all(candidates) or set.intersection(*phases):
        return candidates
    usable = [[one for one in own[1:] if one.launches_work and one.iteration_ns > 0] for own in every]
    time = [Counter[str | None]() for _ in usable]
    for counted, own in zip(time, usable, strict=True):
        for one in own:
            counted[one.phase] += one.iteration_ns
    common = [phase for phase in time[0] if all(phase in of_run for of_run in time)]
    chosen = max(common, key=lambda phase: sum(of_run[phase] for of_run in time), default="")
    return [[one for one in own if one.phase == chosen] for own in usable]


def is_first_of_recording(graph: DependencyGraph, one: StepLength) -> bool:
    """Return whether a step is the first of its trace."""
    return steps_by_number(graph)[one.number][0] == 0


def _side_of_steps(
    graph: DependencyGraph, steps: Sequence[StepLength], measure: Measure, data_load: Sequence[str], *, warms_up: bool
) -> Side:
    """Divide a run into its steps."""
    on_gpu = measure == "iteration" and steps[0].launches_work
    # A step whose work ends before that of an earlier one adds nothing to the run: it has no iteration.
    kept = [one for one in steps if one.iteration_ns or not on_gpu]
    form = {"gpu_window": on_gpu, "cpu_window": measure == "time on the CPU"}
    windows = [step(one.number, **form) for one in kept]
    scopes, paths = _scopes_and_paths(graph, windows, data_load)
    return Side(
        graph=graph, scopes=scopes, paths=paths, measure=measure, warms_up=warms_up, steps=step_rows(graph, data_load)
    )


def side_of_window(graph: DependencyGraph, window: WindowQuery, data_load: Sequence[str] = ()) -> Side:
    """Return a run by one window.

    Raises:
        QueryError: the trace has no such window.
    """
    scopes, paths = _scopes_and_paths(graph, [window], data_load)
    return side_of_path(scopes[0], paths[0])


def side_of_path(scope: Scope, path: CriticalPath) -> Side:
    """Return a run by one window whose path is known."""
    graph, window = path.graph, path.window
    measure, first = measure_of_window(graph, window), is_first_of_several(graph, window)
    around = _scopes_around(graph, window)
    return Side(graph=graph, scopes=[scope], paths=[path], measure=measure, warms_up=first, neighbors=around)


def _scopes_around(graph: DependencyGraph, window: Window) -> Neighbors:
    """Return the steps around a named one, in the same form."""
    form = {"gpu_window": window.form == "gpu", "cpu_window": window.form == "cpu"}
    steps = neighbor_steps(graph, window)
    scopes = [in_window(graph.rank or 0, graph, step(one.number, **form)) for one in steps]
    lengths = [scope.window_ns for scope in scopes]
    return Neighbors(np.array([one.number for one in steps], np.int64), np.array(lengths, np.int64), scopes)


def is_first_of_several(graph: DependencyGraph, window: Window) -> bool:
    """Return whether a window is the first of several steps."""
    steps = graph.steps()
    return window.step is not None and len(steps) > 1 and window.step == steps[0].number


def measure_of_window(graph: DependencyGraph, window: Window) -> Measure:
    """Return which length of a window is compared."""
    if window.is_whole:
        return "whole trace"
    if not window.is_named:
        return "window"
    # Steps of a job tile it whatever does the work.
    if window.form == "cpu" or not (graph.is_gpu.any() or (window.form == "gpu" and graph.is_job)):
        return "time on the CPU"
    return "iteration" if window.form == "gpu" else "latency"


def _scopes_and_paths(
    graph: DependencyGraph, windows: Sequence[WindowQuery], data_load: Sequence[str]
) -> tuple[list[Scope], list[CriticalPath]]:
    """Return the scopes and the critical paths of windows."""
    scopes = [in_window(graph.rank or 0, graph, window) for window in windows]
    return scopes, critical_paths(graph, windows, data_load=data_load)


def sides(ranks: Mapping[str, int]) -> str:
    """Name a rank of each side.

    >>> sides({"control": 0, "test": 1})
    'rank 0 (before) and rank 1 (after)'
    """
    return " and ".join(f"rank {rank} ({BEFORE_AFTER[side]})" for side, rank in ranks.items())


def side_name(side: str) -> str:
    """Name a side at the start of a sentence."""
    return BEFORE_AFTER[side].capitalize()
