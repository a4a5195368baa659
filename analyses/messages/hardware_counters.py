"""Sentences of hardware-counters."""

from __future__ import annotations

from collections.abc import Sequence

from analyses.messages.scope import window_named

TITLE = "Hardware counters by operator"
NO_COUNTERS = "no additive counters recorded"
AXIS = "share of the counter"


def no_ranges(rank: int, label: str, name: str) -> str:
    """Report a window without profiler ranges, and how to record them."""
    return (
        f"rank {rank}: no {name} events in {window_named(label)}; record with experimental_config="
        "_ExperimentalConfig(profiler_metrics=[...], profiler_measure_per_kernel=True)"
    )


def unmatched_ranges(rank: int) -> str:
    """Report ranges that cannot be matched to launches."""
    return (
        f"rank {rank}: profiler ranges and kernel launches differ in number, so ranges cannot be "
        "matched to operators; record with profiler_measure_per_kernel=True"
    )


def always_zero(rank: int, label: str, counters: Sequence[str]) -> str:
    """List the counters that never counted anything."""
    return f"rank {rank}: counters that are 0 in every range of {window_named(label)}: {', '.join(counters)}"
