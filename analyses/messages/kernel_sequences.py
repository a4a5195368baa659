"""Sentences of kernel-sequences and operator-kernels."""

from __future__ import annotations

from analyses.display.headline import Outlier
from analyses.display.sentence_format import brief_duration, counted, quoted
from analyses.messages.scope import window_named
from hta_graph.base.errors import Remedy

SEQUENCES_TITLE, OCCURRENCES = "Most frequent kernel sequences", "occurrences"
OPERATORS_TITLE = "GPU time of operators"
SHORTER_SEQUENCES = Remedy(
    "pass a smaller min_pattern_len to include shorter sequences",
    "use a smaller --min-pattern-len to include shorter sequences",
)
EVERY_OPERATOR = Remedy("pass operators='' for all operators", "use --operators '' for all operators")


def headline(found: Outlier) -> str:
    """Name the operator and sequence with the most GPU time."""
    size = counted(found["kernels"], "GPU activity", "GPU activities") + (" each" if found["count"] > 1 else "")
    times = f"{brief_duration(found['gpu_ns'])} in {counted(found['count'], 'occurrence')} ({size}){found.typical}"
    return f"sequence with the most GPU time{found.where}: {quoted(found['operator'])}, {times}"


def no_such_name(rank: int, part: str) -> str:
    """Report a text that no name contains."""
    return f"rank {rank}: no name in the trace contains {part!r}"


def no_sequence(rank: int, label: str, part: str, length: int) -> str:
    """Report names that launch too little GPU work."""
    return (
        f"rank {rank}: no operator, annotation or Python frame with {part!r} in its name launches "
        f"{length} or more GPU activities on its thread in {window_named(label)}"
    )


def no_operator(rank: int, label: str, prefix: str) -> str:
    """Report a prefix of which no operator launches a kernel."""
    return f"rank {rank}: no kernel in {window_named(label)} was launched by an operator that starts with {prefix!r}"
