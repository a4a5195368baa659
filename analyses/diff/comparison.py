"""What both runs did over and over: kernels and operators matched in order, how they spread, how many there are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analyses.diff.kernels_in_order import EnqueuedWork, common_codes
from analyses.diff.noise import Repetitions, noise_of_repetitions
from analyses.diff.outermost_operators import outermost_operators
from analyses.diff.sides import Side
from analyses.scope import Scope
from hta_graph.alignment.sequence_alignment import align
from hta_graph.arrays import distinct, summed_by
from hta_graph.attribution.call_paths import CallPaths
from hta_graph.model import Bools, Ints

__all__ = ["RepetitionNoise", "repetition_noise"]

GPU_CLASSES = ("gpu_compute_bound", "gpu_communication_bound", "gpu_memory_bound", "gpu_kernel_kernel_overhead")
LEAST_COMMON_TIME = 0.5
"""How much of each side's time units of both have to make up, to tell how much work a side holds."""


@dataclass(frozen=True)
class RepetitionNoise:
    """How much noise repeated units of work leave in their sum (a share), how many tell it, and what the runs have.

    ``amount`` is how many times as many units the test holds as the control, ``None`` where too little is common.
    """

    noise_share: float
    units: int
    amount: float | None


def repetition_noise(control: Side, test: Side, *, communication: bool = True) -> RepetitionNoise:
    """Match what two stretches did: kernels by call path and name, outermost operators by name.

    Without ``communication`` its kernels tell no noise: how long one of a job takes on a rank is what others did.
    """
    on_gpu, gpu_codes = _common_kernels(control.scope, test.scope, communication=communication)
    on_cpu, cpu_codes = _common_operators(control.scope, test.scope)
    window_ns = min(control.path.length_ns, test.path.length_ns)
    kernels, operators = (noise_of_repetitions(found, window_ns) for found in (on_gpu, on_cpu))
    # What a path spends on the GPU spreads as kernels do, the rest as the host does.
    share = _share_on_gpu(control, test)
    amount = _work_ratio(*gpu_codes) if len(gpu_codes[0][0]) else _work_ratio(*cpu_codes)
    return RepetitionNoise(share * kernels[0] + (1 - share) * operators[0], kernels[1] + operators[1], amount)


Codes = tuple[tuple[Ints, Ints], tuple[Ints, Ints]]
"""Of each side the unit of every piece of work, numbered alike, and how long it took."""


def _common_kernels(control: Scope, test: Scope, *, communication: bool) -> tuple[Repetitions, Codes]:
    """Match GPU work in the order in which it was enqueued."""
    paths = CallPaths()
    left, right = EnqueuedWork.of(control, paths), EnqueuedWork.of(test, paths)
    codes = common_codes(left, right, control, test)
    tells = np.full(len(left.row), communication) | ~control.graph.marks.communicates[left.row]
    return _matched(codes, left.length, right.length, tells), ((codes[0], left.length), (codes[1], right.length))


def _common_operators(control: Scope, test: Scope) -> tuple[Repetitions, Codes]:
    """Match the outermost operators in order of time."""
    number: dict[str, int] = {}
    codes, lengths = [], []
    for scope in (control, test):
        events, names = scope.graph.event_table, scope.graph.names
        rows = outermost_operators(scope)
        rows = rows[np.argsort(events.start[rows], kind="stable")]
        code = np.zeros(len(names) + 1, np.int64)
        for name in distinct(events.name[rows]).tolist():
            code[name] = number.setdefault(names[name], len(number))
        codes.append(code[events.name[rows]])
        lengths.append(events.end[rows] - events.start[rows])
    return _matched((codes[0], codes[1]), lengths[0], lengths[1]), ((codes[0], lengths[0]), (codes[1], lengths[1]))


def _matched(codes: tuple[Ints, Ints], left_ns: Ints, right_ns: Ints, tells: Bools | None = None) -> Repetitions:
    left, right = align(*codes)
    if tells is not None:
        left, right = left[tells[left]], right[tells[left]]
    return Repetitions(codes[0][left], left_ns[left], right_ns[right])


def _share_on_gpu(control: Side, test: Side) -> float:
    """Return which share of both paths the GPU takes."""
    totals = [side.path.by_bound_ns for side in (control, test)]
    on_gpu = sum(total[name] for total in totals for name in GPU_CLASSES)
    return on_gpu / max(sum(sum(total.values()) for total in totals), 1)


def _work_ratio(control: tuple[Ints, Ints], test: tuple[Ints, Ints]) -> float | None:
    """Return how many times as often common units occur in the test, at the median of their time."""
    units = np.union1d(control[0], test[0])
    place = [np.searchsorted(units, codes) for codes, _ in (control, test)]
    counts = [np.bincount(at, minlength=len(units)) for at in place]
    times = [summed_by(at, lengths, len(units)) for at, (_, lengths) in zip(place, (control, test), strict=True)]
    common = (counts[0] > 0) & (counts[1] > 0)
    if any(time[common].sum() < LEAST_COMMON_TIME * time.sum() or not time.sum() for time in times):
        return None
    ratio, weight = counts[1][common] / counts[0][common], (times[0] + times[1])[common]
    order = np.argsort(ratio, kind="stable")
    running = np.cumsum(weight[order])
    return float(ratio[order][np.searchsorted(running, running[-1] / 2)])
