"""The steps of a job after changes: a usual one, and how far a usual step of another run may be from that.

One step may be shorter or longer than others for reasons that no change removes, such as a processor that other
programs take away. A run consists of all of them, and what they differ by among themselves two runs differ by, too:

step         1     2     3     4     5
recorded   |206| |201| |197| |234| |205|      a rank delays all of them
predicted   |89|  |95|  |78| |113|  |86|      usual: 89; of another run as long: 74 to 107 (90%)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from math import exp, log, pi, sqrt
from statistics import median, stdev

from hta_graph.base.errors import QueryError
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.paths.windows import WindowQuery, step, step_lengths
from hta_graph.what_if.changes import Change
from hta_graph.what_if.predict import predict

MOST_STEPS = 12
"""Of more steps as many are replayed, evenly spread: more hardly make the interval narrower."""

STUDENT_95 = (6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86, 1.83, 1.81, 1.80)
"""The 95th percentile of Student's t by degrees of freedom, from 1 on: both sides leave out 10%."""

TRIMMED = 0.2
"""The share of steps at either end that does not decide what is usual."""

NOTABLE_SHARE = 0.05
"""A rank that costs a step less than this does not delay it: steps of one program differ by as much."""

OF_LARGEST = 0.5
"""Steps are delayed that gain at least this share of what any of them gains."""


@dataclass(frozen=True)
class StepPredictions:
    """Steps of a job, in order of time: their numbers, lengths as recorded and as predicted after changes (ns)."""

    steps: Sequence[int]
    measured_ns: Sequence[int]
    predicted_ns: Sequence[int]

    @cached_property
    def usual_ns(self) -> int:
        """The predicted length (ns) of a usual step: the median."""
        return round(median(self.predicted_ns))

    @cached_property
    def interval_ns(self) -> tuple[int, int]:
        """Between which lengths (ns) the usual step of another run of as many steps lies with 90% probability.

        That is by how much two runs differ whose steps differ as these do. A step far from all others does not decide
        what is usual, so a fifth of the steps at either end counts like the next one (trimmed means, Yuen 1974), and
        medians vary √(π/2) times as much as means do; lengths vary by factors, hence logarithms.
        """
        count, logs = len(self.steps), sorted(log(max(ns, 1)) for ns in self.predicted_ns)
        cut = int(TRIMMED * count)
        clipped = [min(max(one, logs[cut]), logs[count - 1 - cut]) for one in logs]
        error = stdev(clipped) / (1 - 2 * cut / count) * sqrt(pi / 2 / count)
        share = STUDENT_95[min(count - 2 * cut - 1, len(STUDENT_95)) - 1] * sqrt(2) * error
        return round(self.usual_ns * exp(-share)), round(self.usual_ns * exp(share))

    def off_by(self, predicted_ns: int) -> float:
        """Return by what share of a prediction the usual step of another run may differ from it."""
        low, high = self.interval_ns
        return max(high - predicted_ns, predicted_ns - low) / max(predicted_ns, 1)

    @property
    def saved_ns(self) -> list[int]:
        """By how much (ns) each step is predicted to be shorter."""
        return [was - now for was, now in zip(self.measured_ns, self.predicted_ns, strict=True)]

    @property
    def typical_step(self) -> int:
        """The number of the step that is predicted most like the usual one, of those that the changes concern.

        A rank may delay some steps only: its delay is gone from these. Of two the one that promises less.
        """
        saved = self.saved_ns
        most = max(saved)
        notable = any(ns > NOTABLE_SHARE * was for ns, was in zip(saved, self.measured_ns, strict=True))
        delayed = [at for at, ns in enumerate(saved) if not notable or ns >= OF_LARGEST * most]
        off = [(abs(self.predicted_ns[at] - self.usual_ns), -self.predicted_ns[at], at) for at in delayed]
        return self.steps[min(off)[2]]


def step_predictions(
    graph: DependencyGraph, changes: Sequence[Change], window: Callable[[WindowQuery], WindowQuery]
) -> StepPredictions | None:
    """Predict the steps of a job after changes; None if these apply to fewer than two that can be compared.

    These are the candidates of :func:`median_step`.

    Args:
        graph: a job's; of one of rank summaries the ranks' files are read again for each step.
        changes: those of :func:`replay`.
        window: the window of a step that is meant.
    """
    numbers = [one.number for one in step_lengths(graph) if one.is_candidate]
    count = min(len(numbers), MOST_STEPS)
    found = []
    for at in range(count):
        number = numbers[at * (len(numbers) - 1) // max(count - 1, 1)]
        with suppress(QueryError):
            one = predict(graph, changes, window(step(number)))
            found.append((number, one.measured_ns, one.predicted_ns))
    return StepPredictions(*zip(*found, strict=True)) if len(found) > 1 else None
