"""All questions about ranks and steps.

An entry says what is asked and with which flags; the file with pandas behind it is imported when the question is
asked. What else belongs to a new one is in ``docs/rooms.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from analyses.flags import (
    AttributionFlags,
    Flag,
    IdleTimeFlags,
    KernelBreakdownFlags,
    KernelSequencesFlags,
    LaunchStatsFlags,
    MemoryTimelineFlags,
    NoFlags,
    OperatorKernelsFlags,
    QueueLengthFlags,
    RooflineFlags,
    flags_of,
)

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from analyses.answer import Answer
    from analyses.scope import Scope
    from analyses.tables import Table

__all__ = ["CATALOGUE", "Analysis", "OfSkeletons", "Question"]

OfSkeletons = Literal["no", "yes", "with causes"]
"""Whether skeletons of ranks answer a question, and whether they must tell why ranks waited."""

Flags = TypeVar("Flags")


class Question(Protocol):
    """What the file of an analysis offers: its tables with their columns, who answers, who draws."""

    @property
    def TABLES(self) -> Mapping[str, Table]:  # noqa: N802 - a constant of a module
        """Every table of an answer, by its name."""

    @property
    def answer(self) -> Callable[..., Answer]:
        """Answer about scopes; the arguments behind them are the flags."""

    @property
    def figure(self) -> Callable[[Answer], Figure]:
        """Draw an answer."""


@dataclass(frozen=True)
class Analysis(Generic[Flags]):
    """A question that can be asked of scopes: its name, what it asks, its flags, and the file that answers it.

    ``of_skeletons`` tells whether graphs of few rows answer it.
    """

    name: str
    asks: str
    flags: type[Flags]
    question: Callable[[], Question]
    of_skeletons: OfSkeletons = "no"

    @property
    def listed_flags(self) -> Sequence[Flag]:
        """Its flags one by one."""
        return list(flags_of(self.flags))

    def answer(self, scopes: Sequence[Scope], told: Flags) -> Answer:
        """Answer about some scopes."""
        return self.question().answer(scopes, **vars(told))

    def figure(self, found: Answer) -> Figure:
        """Draw an answer."""
        return self.question().figure(found)

    @property
    def tables(self) -> Mapping[str, Table]:
        """Every table of an answer, with its columns."""
        return self.question().TABLES


def analysis(
    name: str, flags: type[Flags], of_skeletons: OfSkeletons = "no"
) -> Callable[[Callable[[], Question]], Analysis[Flags]]:
    """Make an analysis of the function that imports its file, and whose docstring is what it asks."""

    def make(question: Callable[[], Question]) -> Analysis[Flags]:
        return Analysis(name, question.__doc__ or "", flags, question, of_skeletons)

    return make


@analysis("temporal-breakdown", NoFlags)
def temporal_breakdown() -> Question:
    """How much of the time the GPU computes, talks, moves memory, or is idle."""
    from analyses.gpu_time import temporal_breakdown

    return temporal_breakdown


@analysis("kernel-breakdown", KernelBreakdownFlags)
def kernel_breakdown() -> Question:
    """GPU time per type of work, alone and overlapping, and the kernels that take it."""
    from analyses.gpu_time import kernel_breakdown

    return kernel_breakdown


@analysis("overlap", NoFlags)
def overlap() -> Question:
    """How much communication and copying is hidden behind other work, and which collectives stay exposed."""
    from analyses.gpu_time import overlap

    return overlap


@analysis("idle-time", IdleTimeFlags)
def idle_time() -> Question:
    """Why the GPU has nothing to run: by cause, by the wait or operator behind it, per gap and per stream."""
    from analyses.idle import idle_time

    return idle_time


@analysis("queue-length", QueueLengthFlags)
def queue_length() -> Question:
    """How many launches wait on each stream, and how long a full queue held the CPU."""
    from analyses.launches import queue_length

    return queue_length


@analysis("memory-bandwidth", NoFlags)
def memory_bandwidth() -> Question:
    """What copies and sets moved, and at which rate."""
    from analyses.memory import memory_bandwidth

    return memory_bandwidth


@analysis("launch-stats", LaunchStatsFlags)
def launch_stats() -> Question:
    """How long launches take on the CPU, and what their work waited for before it started."""
    from analyses.launches import launch_stats

    return launch_stats


@analysis("annotations", NoFlags)
def annotation_times() -> Question:
    """How long the program's named parts take on the CPU, and what GPU work they ask for."""
    from analyses.owners import annotation_times

    return annotation_times


@analysis("attribution", AttributionFlags)
def attribution() -> Question:
    """Whose work the GPU does: operators, Python frames, modules, annotations."""
    from analyses.owners import attribution

    return attribution


@analysis("collectives", NoFlags, of_skeletons="yes")
def collectives() -> Question:
    """Who came last to each collective of several ranks, how long the others waited, how long it transferred."""
    from analyses.ranks import collectives

    return collectives


@analysis("stragglers", NoFlags, of_skeletons="with causes")
def stragglers() -> Question:
    """Which ranks the others wait for."""
    from analyses.ranks import stragglers

    return stragglers


@analysis("memory-timeline", MemoryTimelineFlags)
def memory_timeline() -> Question:
    """How much memory tensors take, its peak and what was alive then; of traces or the profiler's raw export."""
    from analyses.memory import memory_timeline

    return memory_timeline


@analysis("operator-kernels", OperatorKernelsFlags)
def operator_kernels() -> Question:
    """Which kernels each operator launches, and how long it takes until they are launched and start."""
    from analyses.launches import operator_kernels

    return operator_kernels


@analysis("hardware-counters", NoFlags)
def hardware_counters() -> Question:
    """What CUPTI's hardware counters counted, by the operator that launched the kernel."""
    from analyses.owners import hardware_counters

    return hardware_counters


@analysis("kernel-sequences", KernelSequencesFlags)
def kernel_sequences() -> Question:
    """The sequences of GPU work under an operator, how often each occurs and how long it takes."""
    from analyses.launches import kernel_sequences

    return kernel_sequences


@analysis("roofline", RooflineFlags)
def roofline() -> Question:
    """How far operators are from the GPU's limits: FLOP/s, bandwidth, MFU, and what being nearer would save."""
    from analyses.hardware import roofline

    return roofline


# Written out: nothing is found by looking, nothing adds itself by being imported.
CATALOGUE: tuple[Analysis[Any], ...] = (
    temporal_breakdown,
    kernel_breakdown,
    overlap,
    idle_time,
    queue_length,
    memory_bandwidth,
    launch_stats,
    annotation_times,
    attribution,
    collectives,
    stragglers,
    memory_timeline,
    operator_kernels,
    hardware_counters,
    kernel_sequences,
    roofline,
)
