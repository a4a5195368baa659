"""Sentences of queue-length."""

from __future__ import annotations

from analyses.display.headline import Outlier
from analyses.display.sentence_format import brief_duration, counted
from analyses.messages.scope import window_named
from hta_graph.base.errors import Remedy

TITLE = "Launches that have not started"
AMD_QUEUES = "AMD queues hold more than 1,024 launches; a long queue does not block the CPU"


def headline(found: Outlier, blocked_calls: int, blocked_ns: int) -> str:
    """Name the longest queue, and how long full queues blocked launches."""
    average = f"{found['time_mean_length']:,.1f} launches on average{found.typical}"
    longest = f"longest queue: {found['stream']}{found.where}, {average}, at most {found['max_length']:,}"
    if not blocked_calls:
        return f"{longest}; no full queue blocked a launch"
    blocked = counted(blocked_calls, "launch", "launches")
    return f"{longest}; full queues blocked {blocked} for {brief_duration(blocked_ns)} in total"


def nearly_full(most: int) -> tuple[str, Remedy]:
    """Report a queue that is full below the nominal limit, and how to count it."""
    return (
        f"a queue reached {most:,} launches; NVIDIA queues are full near 1,022",
        Remedy(
            f"pass max_queue_length={most} to count it as full", f"use --max-queue-length {most} to count it as full"
        ),
    )


def no_launch_call(rank: int, label: str) -> str:
    """Report GPU work of which no launch call was recorded."""
    return f"rank {rank}: no launch call in {window_named(label)}; record with ProfilerActivity.CPU as well"
