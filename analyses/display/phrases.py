"""Phrases that several answers share: steps of an inference engine, windows, ranks, savings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analyses.display.sentence_format import brief_duration, brief_share, counted, time_and_share
from analyses.display.text_layout import clipped

NOT_RECORDED = "(nothing recorded)"
OTHER_STEP = "use --step N for another"
SAVINGS_OVERLAP = "These savings overlap; do not add them."

NOT_SHOWN: Mapping[str, str] = {
    "gpu_not_recorded": "the launched GPU work is not recorded",
    "kernels_not_recorded": "launched work is not recorded for up to {share} of the window",
    "nothing_recorded": "no operator or call is recorded for {share} of the window",
    "not_started": "launched work does not start for {share} of the window",
}
"""What the rows of a window do not show, as a clause."""

LATENCY = "latency: from the start of a step to the end of its last work"

MANY_RANKS = 32
"""With more ranks than this, a table shows the worst and the typical ones."""
RANKS_LISTED = 10


def other_phase(count: int, phase: str, share: float) -> str:
    """Say how much of the time the steps of another phase take.

    >>> other_phase(2, "prefill", 0.18), other_phase(1, "idle", 0.001)
    ('2 prefill steps take 18% of the time', '1 idle step takes <1% of the time')
    """
    return f"{counted(count, f'{phase} step')} {'takes' if count == 1 else 'take'} {brief_share(share)} of the time"


def engine_idle(before_ns: int, inside_ns: int, whole_ns: int, *, on_cpu: bool = False) -> str:
    """Say how long the GPU is idle in an iteration, and where; on a rank without GPU work how long no operator runs.

    >>> engine_idle(1_320_000, 2_050_000, 18_900_000), engine_idle(0, 1_700_000, 10_468_000)
    ('GPU idle 3.37 ms (18%): 1.32 ms before its first kernel, 2.05 ms after', 'GPU idle 1.70 ms (16%)')
    >>> engine_idle(30_000_000, 2_000_000, 64_000_000, on_cpu=True)
    'in no operator of the step 32.0 ms (50%): 30.0 ms before its first operator, 2.00 ms after'
    """
    if not before_ns + inside_ns:
        return "always in an operator of the step" if on_cpu else "GPU never idle"
    idle_for, work = ("in no operator of the step", "operator") if on_cpu else ("GPU idle", "kernel")
    said = f"{idle_for} {time_and_share(before_ns + inside_ns, whole_ns)}"
    if before_ns and inside_ns:
        return f"{said}: {brief_duration(before_ns)} before its first {work}, {brief_duration(inside_ns)} after"
    return f"{said}, before its first {work}" if before_ns else said


def median_length(ns: int) -> str:
    """Name the median iteration."""
    return f"median {brief_duration(ns)}"


def counted_steps(count: int, phase: str, of: str, graph_launches: Sequence[int]) -> str:
    """Count the steps of a phase.

    >>> counted_steps(37, "decode", " of batch 64", [1]), counted_steps(9, "graph", "", [81, 81])
    ('37 decode steps of batch 64', '9 steps of 81 graph launches')
    >>> counted_steps(1, "eager", "", [0])
    '1 eager step'
    """
    if phase == "graph":
        return (
            f"{counted(count, 'step')} of {_span(graph_launches)} graph launch{'es' if max(graph_launches) > 1 else ''}"
        )
    return steps_of_phase(count, phase, of)


def steps_of_phase(count: int, phase: str, of: str = "") -> str:
    """Count the steps of a phase, with their batch; how many graphs they launch is not said.

    >>> steps_of_phase(2, "prefill", " of batch 15"), steps_of_phase(1, "graph")
    ('2 prefill steps of batch 15', '1 graph step')
    """
    return f"{counted(count, f'{phase} step')}{of}"


def _span(numbers: Sequence[int]) -> str:
    least, most = min(numbers), max(numbers)
    return f"{most:,}" if least == most else f"{least:,} to {most:,}"


def batch_sizes(requests: Sequence[int], tokens: Sequence[int], image_size: str | None = None) -> str:
    """Name the batch of steps, and the tokens where these are others; what no name says is left out.

    >>> batch_sizes([32, 32], [32, 32]), batch_sizes([15], [15360]), batch_sizes([48, 64], []), batch_sizes([], [])
    (' of batch 32', ' of batch 15 (15,360 tokens)', ' of batch 48 to 64', '')
    """
    if image_size:
        return f" of {_span(requests)} × {image_size}" if requests else f" of {image_size}"
    computed = f" ({_span(tokens)} tokens)" if tokens and list(tokens) != list(requests) else ""
    return f" of batch {_span(requests)}{computed}" if requests else computed


def short_label(label: str) -> str:
    """Return the label of a window on one line."""
    return clipped(label, 60)


def whose(rank: int | None, ranks: int) -> str:
    """Name the rank, or count the ranks of a job, behind the name of a file."""
    if ranks > 1:
        return f", {ranks:,} ranks"
    return "" if rank is None else f", rank {rank}"


def more_ranks(hidden: int) -> list[str]:
    """Say how many ranks are not listed, and where they are.

    >>> more_ranks(1014), more_ranks(0)
    (['  … 1,014 more ranks; --json FILE lists all'], [])
    """
    return [f"  … {hidden:,} more ranks; --json FILE lists all"] if hidden else []


def silent_ranks(count: int, size: int) -> str:
    """Report ranks of a job whose traces are missing or hold no communication.

    >>> silent_ranks(1, 4)
    '1 of 4 ranks has no recorded communication; whether it delays the others is unknown.'
    """
    has, delay = ("has", "it delays") if count == 1 else ("have", "they delay")
    return f"{count:,} of {size:,} ranks {has} no recorded communication; whether {delay} the others is unknown."


def untrusted(reason: str, share: float) -> str:
    """Say why a prediction cannot be trusted, as a clause."""
    if reason in NOT_SHOWN:
        return NOT_SHOWN[reason].format(share=brief_share(share))
    if reason == "fixed":
        return f"{brief_share(share)} of the path is fixed in replay"
    if reason == "waiting":
        return f"{brief_share(share)} of the predicted time may be waiting for other ranks"
    if reason == "steps_differ":
        return f"the steps differ so much that another run may be {brief_share(share)} off"
    if reason == "contended":
        return f"driver calls of other threads may change it by {brief_share(share)} of the window"
    if reason == "unusual":
        return (
            f"{brief_share(share)} of the window rests on kernel gaps, launch calls, waits or an order inside CUDA "
            "graphs that the trace does not explain"
        )
    return f"replay follows another path for {brief_share(share)} of the window"
