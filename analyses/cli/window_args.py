"""The window options of a command line as a typed object: a step, an annotation, times, the whole, or every step."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hta_graph.base.errors import UsageError

if TYPE_CHECKING:
    from analyses.declare.scope import Scope
    from hta_graph.graph.dependency_graph import DependencyGraph
    from hta_graph.multi_rank.summary.summarize import SummaryRequest
    from hta_graph.paths.windows import WindowQuery


@dataclass(frozen=True)
class WindowArgs:
    """The whole trace, a window of it, or every profiler step; by default each command's own choice.

    Raises:
        UsageError: the options contradict each other.
    """

    step: int | None = None
    annotation: str | None = None
    times: str | None = None
    whole: bool = False
    regex: bool = False
    instance: str | None = None
    cpu_window: bool = False
    gpu_window: bool = False
    per_step: bool = False

    @classmethod
    def of(cls, options: argparse.Namespace) -> WindowArgs:
        """Return the window of a command line."""
        return cls(
            options.step,
            options.annotation,
            options.window,
            options.whole,
            options.regex,
            options.instance,
            options.cpu_window,
            options.gpu_window,
            getattr(options, "per_step", False),
        )

    def __post_init__(self) -> None:
        # An option without effect is refused: it would suggest another window.
        if self.annotation is None and (self.regex or self.instance is not None):
            raise UsageError("--regex and --instance need --annotation NAME")
        if self.gpu_window and (self.annotation is not None or self.times is not None or self.whole):
            raise UsageError("--gpu-window applies only to steps; omit the other window options")
        if self.cpu_window and (self.times is not None or self.whole):
            raise UsageError("--cpu-window applies only to steps and annotations; omit the other window options")
        if self.per_step and (self.names_window or self.whole):
            raise UsageError("--per-step covers all steps; omit the other window options")

    @property
    def names_window(self) -> bool:
        """Whether a step, an annotation or times are named."""
        return self.step is not None or self.annotation is not None or self.times is not None

    @property
    def names_nothing(self) -> bool:
        """Whether no part of a trace is named: the command uses its default window, or the whole trace where asked."""
        return not (self.names_window or self.cpu_window or self.gpu_window)

    def window(self, *, whole_by_default: bool = False, job: Sequence[DependencyGraph] = ()) -> WindowQuery:
        """Return the window; by default the median step (of a job, if its ranks are given) or the whole trace.

        Raises:
            UsageError: times or instances are not numbers.
        """
        from hta_graph.paths.windows import annotation, between, median_step, median_step_of_job, step, whole

        if self.annotation is not None:
            first, last = _instances_of(self.instance)
            return annotation(self.annotation, regex=self.regex, first=first, last=last, cpu_window=self.cpu_window)
        if self.times is not None:
            return between(*_times_of(self.times))
        if self.whole or (whole_by_default and self.names_nothing):
            return whole()
        if self.step is not None:
            return step(self.step, cpu_window=self.cpu_window, gpu_window=self.gpu_window)
        if job:
            return median_step_of_job(job, cpu_window=self.cpu_window, gpu_window=self.gpu_window)
        return median_step(cpu_window=self.cpu_window, gpu_window=self.gpu_window)

    def summary_with_causes(self, ranks: int) -> SummaryRequest:
        """Return what summaries must answer about the window, with the causes of waits, for a number of ranks.

        Raises:
            UsageError: instances are not numbers.
        """
        from hta_graph.multi_rank.summary.summarize import SummaryRequest
        from hta_graph.multi_rank.summary_job import activities_per_rank

        doings = activities_per_rank(ranks)
        if self.annotation is None:
            return SummaryRequest(doings=doings)
        first, last = _instances_of(self.instance)
        given = {"name": self.annotation, "regex": self.regex, "first": first, "last": last}
        return SummaryRequest(({**given, "cpu_window": self.cpu_window},), doings)

    def scopes(self, rank: int, graph: DependencyGraph, job: Sequence[DependencyGraph] = ()) -> list[Scope]:
        """Cut a rank's trace into the requested windows; by default one, the whole trace."""
        from analyses.declare.scope import in_window, per_step, whole

        if self.per_step:
            return per_step(rank, graph, cpu_window=self.cpu_window, gpu_window=self.gpu_window)
        return [whole(rank, graph) if self.names_nothing else in_window(rank, graph, self.window(job=job))]


def _instances_of(text: str | None) -> tuple[int, int | None]:
    """Read the numbers of the first and the last instance; by default the first one.

    >>> _instances_of("2:5"), _instances_of(None)
    ((2, 5), (0, None))
    """
    match = re.fullmatch(r"(\d{1,99})(?::(\d{1,99}))?", "0" if text is None else text)
    if not match:
        raise UsageError(f"--instance: expected I or I:J, got {text!r}")
    return int(match[1]), int(match[2]) if match[2] else None


def _times_of(text: str) -> tuple[int, int]:
    """Read a pair of times in ns, with at most 19 digits so that they fit 64 bits.

    >>> _times_of("5:1700000000000000000")
    (5, 1700000000000000000)
    """
    match = re.fullmatch(r"(-?\d{1,18}|\d{19}):(-?\d{1,18}|\d{19})", text)
    if not match:
        raise UsageError(f"--window: expected START_NS:END_NS, got {text!r}")
    return int(match[1]), int(match[2])
