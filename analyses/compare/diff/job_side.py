"""A job as one side of a comparison: few numbers per step, so that its ranks are released before others are read.

These are the step's path by class, name and rank, the causes of waiting, and the groups that waited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import pandas as pd

from analyses.compare.diff.change_tables import class_times, event_times
from analyses.compare.diff.sides import (
    Lengths,
    Measure,
    Neighbors,
    annotations_on,
    is_first_of_recording,
    is_first_of_several,
    measure_of_window,
    median_index,
    neighbor_steps,
    step_numbers,
)
from analyses.source.window_facts import delaying_rank
from hta_graph.attribution.graph_kernels import CaptureSource
from hta_graph.base.arrays import summed_by, take_or
from hta_graph.base.storage.location import Location
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Bools, Ints
from hta_graph.multi_rank.job_verdict import JobVerdict, job_verdict, wait_causes
from hta_graph.multi_rank.matching.read_communications import read_communications
from hta_graph.paths.critical_path import CriticalPath, critical_paths
from hta_graph.paths.windows import StepLength, Window, WindowForm, WindowQuery, step, step_lengths, whole

NEVER = int(np.iinfo(np.int64).min)
CAUSE_KEYS = ["rank", "name", "call_path", "bound_by"]
GROUP_KEYS = ["kind", "ranks", "group"]


@dataclass(frozen=True)
class JobRows:
    """Tables about some windows of a job: each row has its ``window`` (from 0), keys and ``ns``, each key once.

    ``ranks`` also have ``caused_ns``, the waiting of others that they cause; the ``ns`` of ``causes`` and ``groups`` is
    waiting, added up over the ranks that wait. What is unknown is -1 as a rank, else an empty text.
    """

    count: int
    classes: pd.DataFrame
    names: pd.DataFrame
    ranks: pd.DataFrame
    causes: pd.DataFrame
    groups: pd.DataFrame

    def since(self, first: int) -> JobRows:
        """Return the rows of the windows from one on, which becomes the first."""
        frames = (self.classes, self.names, self.ranks, self.causes, self.groups)
        kept = (frame[frame["window"] >= first] for frame in frames)
        return JobRows(self.count - first, *(frame.assign(window=frame["window"] - first) for frame in kept))


def rows_of_job(job: DependencyGraph, paths: Sequence[CriticalPath]) -> JobRows:
    """Return the rows of the windows of a job whose paths are known."""
    every = [_waits_in(job, path.window) for path in paths]
    causes = _cause_rows(job, every)
    return JobRows(
        len(paths), class_times(paths), event_times(paths), _rank_rows(paths, causes), causes, _group_rows(job, every)
    )


def _waits_in(job: DependencyGraph, window: Window) -> Bools:
    """Mark the members of communications whose last member came in a window: all others wait for it.

    Iterations tile a job, so each communication belongs to one of them.
    """
    members, came = job.members, np.full(int(job.members.number.max(initial=-1)) + 1, NEVER)
    last = members.is_last & (members.number >= 0)
    came[members.number[last]] = members.arrival[last]
    when = take_or(came, members.number, otherwise=NEVER)
    found: Bools = (when > window.start_ns) & (when <= window.end_ns)
    return found


def _rank_rows(paths: Sequence[CriticalPath], causes: pd.DataFrame) -> pd.DataFrame:
    """Return each rank's time on each path, and the waiting that it causes there."""
    times = [(at, rank, ns) for at, path in enumerate(paths) for rank, ns in path.by_rank_ns.items()]
    frame = pd.DataFrame(times, columns=["window", "rank", "ns"])
    caused = causes.groupby(["window", "rank"])["ns"].sum().rename("caused_ns").reset_index()
    found = frame.merge(caused, how="left", on=["window", "rank"])
    return found.assign(caused_ns=found["caused_ns"].fillna(0).astype(np.int64))


def _cause_rows(job: DependencyGraph, every: Sequence[Bools]) -> pd.DataFrame:
    """Attribute the waits of each window to what late ranks did."""
    found = wait_causes(job)
    parts = [pd.DataFrame({"window": at, **found.columns_of(found.attribute(own))}) for at, own in enumerate(every)]
    frame = pd.concat(parts, ignore_index=True)
    texts = {key: frame[key].fillna("").astype(object) for key in CAUSE_KEYS[1:]}
    frame = frame.assign(rank=pd.to_numeric(frame["rank"]).fillna(-1).astype(np.int64), **texts)
    sums = frame.groupby(["window", *CAUSE_KEYS])["caused_ns"].sum()
    return sums.rename("ns").reset_index()


def _group_rows(job: DependencyGraph, every: Sequence[Bools]) -> pd.DataFrame:
    """Add up the waits of each window by process group: kind (its purpose), ranks (its size), group."""
    members = job.members
    last = np.flatnonzero(members.is_last & (members.number >= 0))
    groups, code = _groups_of(job, last)
    of_number = np.full(int(members.number.max(initial=-1)) + 1, -1)
    of_number[members.number[last]] = code
    parts = []
    for at, waits in enumerate(every):
        own = members.take(waits)
        waited = summed_by(of_number[own.number], own.wait, len(groups))
        met = np.unique(of_number[own.number])
        parts.append(groups.iloc[met].assign(window=at, ns=waited[met]))
    return pd.concat(parts, ignore_index=True)


def _groups_of(job: DependencyGraph, last: Ints) -> tuple[pd.DataFrame, Ints]:
    """Return the groups of communications, as the rank that came last records them, and the row of each."""
    members = job.members
    first = np.searchsorted(members.part, np.arange(len(job.rank_graphs)))
    part = members.part[last]
    said = {place: read_communications(job.graph(job.rank_graphs[place].rank)) for place in np.unique(part).tolist()}
    recorded = [
        (*said[of].group_at(place), said[of].group[place] or "")
        for of, place in zip(part.tolist(), (last - first[part]).tolist(), strict=True)
    ]
    frame = pd.DataFrame(recorded, columns=GROUP_KEYS)
    size = np.bincount(members.number[members.number >= 0], minlength=len(last))[members.number[last]]
    frame = frame.assign(kind=frame["kind"].fillna("").astype(object), ranks=np.maximum(frame["ranks"], size))
    # Messages have two ranks, and need not record the size of their group.
    frame["ranks"] = frame.groupby("group")["ranks"].transform("max")
    code = frame.groupby(GROUP_KEYS, sort=False).ngroup()
    return frame.drop_duplicates(GROUP_KEYS, ignore_index=True), np.array(code, np.int64)


STEPS_LISTED = 24
"""How many windows get paths and causes: files of many ranks are read once more for all of them together."""


@dataclass(frozen=True, kw_only=True)
class JobSide(Lengths):
    """What is kept of a job's windows when its ranks are released: all lengths (ns), and rows of the listed ones.

    ``files`` are those of its ranks by number, ``captures`` the recordings that name the kernels of their graphs,
    ``hosts`` those of the ranks that record it; ``world_size`` is the number of ranks, given or not. ``missing`` are
    the ranks that lack a window. ``steps`` are records of all steps where these are compared, ``path_numbers`` the
    steps of the rows; ``phases`` are what an inference engine does in them;
    ``verdict`` says which rank delays the job.
    """

    files: Mapping[int, Location]
    hosts: Mapping[int, str]
    world_size: int | None
    lengths_ns: Ints
    numbers: Ints
    label: str
    unexplained_ns: int
    steps_recorded: int
    rows: JobRows
    missing: tuple[int, ...]
    verdict: JobVerdict
    steps: Sequence[Mapping[str, Any]] = ()
    path_numbers: tuple[int, ...] = ()
    annotations: frozenset[str] = frozenset()
    phases: frozenset[str] = frozenset()
    captures: Mapping[int, Sequence[Location]] = field(default_factory=dict)

    def since(self, place: int) -> Self:
        """Return the windows from a place on."""
        if not place:
            return self
        first_step = int(self.numbers[place])
        path = sum(number < first_step for number in self.path_numbers)
        return replace(
            self,
            lengths_ns=self.lengths_ns[place:],
            numbers=self.numbers[place:],
            path_numbers=self.path_numbers[path:],
            rows=self.rows.since(path),
            steps=[{**one, "compared": one["compared"] and one["step"] >= first_step} for one in self.steps],
        )

    def is_same_as(self, other: Lengths) -> bool:
        """Return whether both are the same windows of the same recordings."""
        return (
            isinstance(other, JobSide)
            and super().is_same_as(other)
            and self.files.keys() == other.files.keys()
            and self.rows.ranks.equals(other.rows.ranks)
        )


def side_of_job(
    job: DependencyGraph, window: WindowQuery | None = None, data_load: Sequence[str] = (), form: WindowForm = "usual"
) -> JobSide:
    """Return a job by all of its steps without the warm-up, by the whole trace if it has none, or by one window.

    Args:
        job: the job, of whole ranks or of summaries that know causes.
        window: the only window.
        data_load: that of :func:`critical_path`.
        form: take the steps' time on the CPU instead of their iterations.

    Raises:
        QueryError: the job has no such window.
        HtaGraphError: a file cannot be read once more.
    """
    lengths = [one for one in step_lengths(job) if one.is_candidate] if window is None else []
    if lengths:
        return _side_of_steps(job, lengths, data_load, form)
    (path,) = critical_paths(job, [window or whole()], data_load=data_load)
    measure, first = measure_of_window(job, path.window), is_first_of_several(job, path.window)
    one, numbers = np.array([path.length_ns]), step_numbers([path])
    made = _side(job, measure, one, [path], 0, numbers=numbers, warms_up=first, asked=path.window)
    return replace(made, neighbors=_lengths_around(job, path.window))


def _lengths_around(job: DependencyGraph, window: Window) -> Neighbors:
    """Return the iterations around a named one; on the CPU nothing is known of the others without reading them."""
    steps = [] if window.form == "cpu" else neighbor_steps(job, window)
    number, ns = ([getattr(one, name) for one in steps] for name in ("number", "iteration_ns"))
    return Neighbors(np.array(number, np.int64), np.array(ns, np.int64))


def _side_of_steps(
    job: DependencyGraph, steps: list[StepLength], data_load: Sequence[str], form: WindowForm
) -> JobSide:
    """Return a job by its steps; of very many, with the paths of some that represent all lengths."""
    on_cpu, first = form == "cpu", is_first_of_recording(job, steps[0])
    # The first step of a trace has no end of earlier work to count from: its iteration is a latency.
    measure: Measure = "time on the CPU" if on_cpu else "latency" if first else "iteration"
    windows = [step(one.number, cpu_window=on_cpu) for one in steps]
    lengths = np.array([one.iteration_ns for one in steps], np.int64)
    if on_cpu:
        spans = [window(job) for window in windows]
        lengths = np.array([span.end_ns - span.start_ns for span in spans], np.int64)
    listed = listed_steps(lengths)
    paths = critical_paths(job, [windows[at] for at in listed.tolist()], data_load=data_load)
    usual = int(np.flatnonzero(listed == median_index(lengths))[0])
    records = _step_records(job, {one.number for one in steps}, paths)
    numbers = np.array([one.number for one in steps], np.int64)
    made = _side(job, measure, lengths, paths, usual, numbers=numbers, warms_up=first, steps=records)
    return replace(made, phases=frozenset(one.phase for one in steps if one.phase))


def listed_steps(lengths: Ints) -> Ints:
    """Choose the windows with paths: all, or the median one, the longest, and others, evenly spread from short to long.

    Those nearest to the median would be more alike than all are: their noise would be too small.
    """
    if len(lengths) <= STEPS_LISTED:
        return np.arange(len(lengths))
    others, order = STEPS_LISTED - 2, np.argsort(lengths, kind="stable")
    places = (2 * np.arange(others) + 1) * len(lengths) // (2 * others)
    return np.union1d(order[places], [order[-1], median_index(lengths)])


def _side(
    job: DependencyGraph,
    measure: Measure,
    lengths: Ints,
    paths: Sequence[CriticalPath],
    usual: int,
    *,
    numbers: Ints,
    warms_up: bool,
    steps: Sequence[Mapping[str, Any]] = (),
    asked: Window | None = None,
) -> JobSide:
    hosts = {part.rank: read_communications(job.graph(part.rank)).recording.host for part in job.rank_graphs}
    sizes = [part.graph.trace.world_size for part in job.rank_graphs]
    return JobSide(
        files={part.rank: job.graph(part.rank).path for part in job.rank_graphs},
        captures={
            part.rank: source.paths
            for part in job.rank_graphs
            if (source := job.graph(part.rank).attached(CaptureSource))
        },
        hosts={rank: host for rank, host in hosts.items() if host},
        world_size=next((size for size in sizes if size is not None), None),
        measure=measure,
        warms_up=warms_up,
        lengths_ns=lengths,
        numbers=numbers,
        label=paths[usual].window.label,
        unexplained_ns=paths[usual].by_bound_ns["unexplained"],
        steps_recorded=len(job.steps()),
        rows=rows_of_job(job, paths),
        missing=tuple(sorted({rank for path in paths for rank in path.window.missing})),
        verdict=job_verdict(job, asked),
        steps=steps,
        path_numbers=tuple(step_numbers(paths).tolist()),
        annotations=annotations_on(paths),
    )


def _step_records(job: DependencyGraph, compared: set[int], paths: Sequence[CriticalPath]) -> list[dict[str, Any]]:
    """List the steps; of those with a path also what bounds it and which rank delays it."""
    known = {path.window.step: path for path in paths}
    return [
        {
            "step": one.number,
            "iteration_ns": one.iteration_ns,
            "latency_ns": one.latency_ns,
            **_bounds_of(known.get(one.number)),
            "compared": one.number in compared,
        }
        for one in step_lengths(job)
    ]


def _bounds_of(path: CriticalPath | None) -> dict[str, Any]:
    if path is None:
        return {"bound_by": None, "held_up_by": None}
    bound_by = max(path.by_bound_ns.items(), key=lambda item: item[1])[0]
    return {"bound_by": bound_by, "held_up_by": delaying_rank(path)}
