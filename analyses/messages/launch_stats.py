"""Sentences of launch-stats."""

from __future__ import annotations

from analyses.display.headline import Outlier
from analyses.display.sentence_format import brief_duration, brief_share, counted, quoted
from analyses.messages.scope import window_named

TITLE = "Launches"
NO_LAUNCH = "no launch recorded"
SUMMED = "launches, whose waits overlap"
HISTOGRAMS = {
    "short_kernels": "call longer than its kernel, µs",
    "runtime_outliers": "long call, µs",
    "launch_delay_outliers": "long launch delay, µs",
}
WAITED_FOR = {
    "behind_stream_ns": "waiting for earlier work on the same stream",
    "behind_event_ns": "waiting for other streams",
    "overhead_ns": "launch overhead",
}
"""What each part of a launch delay is."""


def headline(found: Outlier, largest_call: str, largest_share: float | None) -> str:
    """State what launch calls cost on the CPU, and what the launched work waits for most."""
    calls = f"{counted(found['calls'], 'launch call')}{found.where}"
    takes = f"{calls} {'takes' if found['calls'] == 1 else 'take'} {brief_duration(found['cpu_ns'])} of CPU time"
    most = "" if largest_share is None else f", {brief_share(largest_share)} of it in {quoted(largest_call)}"
    launched = f"for {brief_duration(found['gpu_ns'])} of GPU work"
    return f"{takes}{found.typical}{most}, {launched}; {_main_wait(found)}"


def _main_wait(found: Outlier) -> str:
    """State what most of the launch delay is, if there is any."""
    if not found["launch_delay_ns"]:
        return "the work starts before the launch calls return"
    part = max(WAITED_FOR, key=lambda name: int(found[name]))
    return f"{brief_share(found[part] / found['launch_delay_ns'])} of the launch delay is {WAITED_FOR[part]}"


def without_launch(rank: int, label: str, orphans: int, activities: int) -> str:
    """Report activities of which the launch call was not recorded."""
    counts = f"{orphans:,} of {activities:,} GPU activities in {window_named(label)}"
    return f"rank {rank}: {counts} left out: no launch call in the trace"


def only_memory(rank: int, label: str) -> str:
    """Report a window in which nothing but what is left out was launched."""
    return f"rank {rank}: only copies and memsets were launched in {window_named(label)}, and these are left out"
