"""What a window of a rank's trace lacks, and which GPUs a rank drives."""

from __future__ import annotations

from analyses.display.sentence_format import brief_duration, brief_share, quoted
from hta_graph.paths.windows import WHOLE_TRACE


def window_named(label: str) -> str:
    """Return the label of a window as part of a sentence.

    >>> window_named("whole trace"), window_named("step 2")
    ('the whole trace', 'step 2')
    """
    return f"the {label}" if label == WHOLE_TRACE else label


def of_window(label: str, length_ns: int, said: str, *, is_most: bool) -> str:
    """Put the window in front of a headline.

    >>> of_window("whole trace", 1_078_000_000, "GPU idle 42% of the time", is_most=False)
    'whole trace, 1.08 s: GPU idle 42% of the time'
    """
    return f"{quoted(label)}, {'up to ' if is_most else ''}{brief_duration(length_ns)}: {said}"


def of_span(length_ns: int, whole_ns: int, said: str, *, is_most: bool) -> str:
    """Put the part of a whole trace in front of a headline in which the GPU has anything to do.

    >>> of_span(12_900_000_000, 43_400_000_000, "GPU idle 99% of the time", is_most=False)
    'first to last GPU activity, 12.9 s of the 43.4 s trace: GPU idle 99% of the time'
    """
    length = f"{'up to ' if is_most else ''}{brief_duration(length_ns)} of the {brief_duration(whole_ns)} trace"
    return f"first to last GPU activity, {length}: {said}"


def mostly_idle(share: float, said: str) -> str:
    """Put the idle time in front of a headline about the GPU's work.

    >>> mostly_idle(0.987, "gemm takes the most GPU time: 5.10 ms in 3 runs")
    'GPU idle 99% of the time (see idle-time); gemm takes the most GPU time: 5.10 ms in 3 runs'
    """
    return f"GPU idle {brief_share(share)} of the time (see idle-time); {said}"


def no_activity_in_window(rank: int, label: str) -> str:
    """Report a window without GPU activity in a trace that has some."""
    return f"rank {rank}: no GPU activity in {window_named(label)}; choose another window"


def nothing_starts(rank: int, label: str) -> str:
    """Report a window in which activities run that all started before."""
    return f"rank {rank}: no GPU activity starts in {window_named(label)}"


def no_activity(rank: int) -> str:
    """Report a trace without GPU activity."""
    return (
        f"rank {rank}: the trace has no GPU activity; record with ProfilerActivity.CUDA "
        "and profile steps that launch kernels"
    )


def several_gpus(rank: int, gpus: str) -> str:
    """Explain what "the GPU" means on a rank that drives several."""
    return f"rank {rank}: one process drives {gpus}; the GPU counts as busy while any of them is busy"
