"""Injected delays: a job without them, as replay predicts it, beside steps and runs in which there were none.

Four predictions of a step: without the recorded interval of the injection (on the rank's thread that does most), with
the rank like the others, with everything like its median (these two are not told where the fault is), and unchanged.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

import hta_graph as hg
from hta_graph.base.errors import QueryError
from hta_graph.graph.dependency_graph import RankGraph
from hta_graph.graph.job_graph import JobGraph
from hta_graph.paths.windows import Window
from hta_graph.what_if.modified_window import ModifiedWindow
from tests.support.injected_delays import Interval, intervals_of


@dataclass(frozen=True)
class Injected:
    """A step with a delay (ns): its measured and predicted lengths, and those of steps without one.

    ``inside_ns`` is what of it lies inside the step's iteration; ``unfaulted_ns`` are the other steps of the run,
    ``base_ns`` the steps of runs of its kind without a fault.
    """

    job: str
    rank: int
    phase: str
    step: int
    injected_ns: int
    inside_ns: int
    measured_ns: int
    removed_ns: int
    like_others_ns: int
    like_median_ns: int
    unfaulted_ns: tuple[int, ...]
    base_ns: tuple[int, ...]

    @property
    def reference_ns(self) -> int:
        """The median of the run's steps without a delay."""
        return int(statistics.median(self.unfaulted_ns))

    @property
    def is_within(self) -> bool:
        """Whether the predicted length lies among those of steps without a delay."""
        every = (*self.unfaulted_ns, *self.base_ns)
        return min(every) <= self.removed_ns <= max(every)


def injected(folder: Path, base: Sequence[int]) -> Iterator[Injected]:
    """Predict the steps of a job without what was injected into them."""
    job = hg.read_job(sorted(folder.glob("rank*.json.gz")))
    assert isinstance(job, JobGraph)
    found = intervals_of(folder)
    lengths = lengths_of_steps(job)
    unfaulted = tuple(length for number, length in lengths.items() if number not in {own.step for own in found})
    for step in sorted({own.step for own in found} & lengths.keys()):
        own = [one for one in found if one.step == step]
        window = hg.step(step)
        removed = hg.replay(job, without(job, own), window)
        yield Injected(
            folder.name, own[0].rank, own[0].phase, step, sum(one.end_ns - one.start_ns for one in own),
            _time_inside(job, own, removed.window), lengths[step], removed.predicted_ns,
            hg.replay(job, hg.scenario("rank_like_others", own[0].rank), window).predicted_ns,
            hg.replay(job, hg.scenario("like_median"), window).predicted_ns,
            unfaulted, tuple(base),
        )  # fmt: skip


def lengths_of_steps(job: JobGraph) -> dict[int, int]:
    """Return how long each step of a job takes (ns), from the end of the work before to that of its own."""
    found = {}
    for number in sorted({item.number for part in job.rank_graphs for item in part.graph.steps()}):
        try:
            window = hg.step(number)(job)
        except QueryError:
            continue
        found[number] = window.end_ns - window.start_ns
    return found


def without(job: JobGraph, intervals: Sequence[Interval]) -> Callable[[ModifiedWindow], None]:
    """Return a change that takes stretches of time out of the thread of a rank that does most."""
    spans = [_in_job_time(job, own) for own in intervals]
    lane = _busiest_lane(job, job.rank_graphs[job.index_of_rank(intervals[0].rank)])

    def change(draft: ModifiedWindow) -> None:
        parts = draft.base.parts
        of_thread = parts.lane == lane
        for start, end in spans:
            common = np.minimum(parts.start + parts.length, end) - np.maximum(parts.start, start)
            share = np.where(of_thread, np.maximum(common, 0) / np.maximum(parts.length, 1), 0.0)
            draft.factor = np.maximum(draft.factor - share, 0.0)

    return change


def _time_inside(job: JobGraph, intervals: Sequence[Interval], window: Window) -> int:
    spans = [_in_job_time(job, own) for own in intervals]
    return sum(max(min(end, window.end_ns) - max(start, window.start_ns), 0) for start, end in spans)


def _in_job_time(job: JobGraph, interval: Interval) -> tuple[int, int]:
    """Read times of a rank's own clock in the job's."""
    part = job.rank_graphs[job.index_of_rank(interval.rank)]
    own, common = job.graph(interval.rank).event_table.start, part.graph.event_table.start
    at = int(np.argmin(np.abs(own - interval.start_ns)))
    ahead = int(common[at] - own[at])
    return interval.start_ns + ahead, interval.end_ns + ahead


def _busiest_lane(job: JobGraph, part: RankGraph) -> int:
    """Return the thread of a rank with the most points."""
    count = np.diff(job.calls.first)
    own = np.where(job.rank_index_of_lane[: len(count)] == part.index, count[: len(job.rank_index_of_lane)], 0)
    return int(np.argmax(own))


@cache
def base_lengths(folder: Path) -> dict[str, list[int]]:
    """Return the lengths of all steps of runs without a fault beside a folder of runs, by kind (``ddp_4r``)."""
    found: dict[str, list[int]] = {}
    for base in sorted(folder.glob("*_base_*")):
        job = hg.read_job(sorted(base.glob("rank*.json.gz")))
        assert isinstance(job, JobGraph)
        found.setdefault(kind_of(base), []).extend(lengths_of_steps(job).values())
    return found


def kind_of(folder: Path) -> str:
    """Return the workload and the number of ranks of a recorded job."""
    job = json.loads((folder / "truth.json").read_text())["job"]
    return f"{job['workload']}_{job['ranks']}r"
