"""Sentences of annotations."""

from __future__ import annotations

from analyses.display.headline import Outlier
from analyses.display.sentence_format import brief_duration, brief_share, quoted

TITLE = "Annotations: CPU time and launched GPU work"
NO_ANNOTATION = "no annotation recorded"
BARS = {"cpu_covered_ns": "open on the CPU", "gpu_busy_ns": "GPU busy with its work", "gpu_self_ns": "self GPU time"}


def headline(found: Outlier, share: float) -> str:
    """Name the annotation with the most GPU time of its own."""
    own = f"{brief_duration(found['gpu_self_ns'])}{found.typical}, {brief_share(share)} of all GPU work"
    return f"annotation {quoted(found['annotation'])} has the most self GPU time{found.where}: {own}"


def folded(name: str, count: int) -> str:
    """Say how many names one row stands for."""
    return f"{quoted(name)} stands for {count:,} annotations whose names differ only in numbers"


def no_annotations(rank: int) -> str:
    """Report a trace without annotations, and how to record some."""
    return (
        f"rank {rank}: the trace has no annotations; put torch.profiler.record_function(...) around "
        "parts of the program, and call prof.step() after each step"
    )
