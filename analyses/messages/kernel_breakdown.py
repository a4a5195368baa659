"""Sentences of kernel-breakdown."""

from __future__ import annotations

from analyses.display.headline import Outlier
from analyses.display.sentence_format import brief_duration, brief_share, counted, quoted
from analyses.messages.scope import window_named
from hta_graph.base.text.shorten import short_name

TITLE = "GPU busy time by type of work, and the longest kernels"
NO_ACTIVITY = "no GPU activity recorded"
KERNEL_AXIS = "ms, total"


def headline(found: Outlier, busy: str, *, communicates: bool) -> str:
    """Name the kernel with the most GPU time; ``busy`` is what the GPU is busy with, if it is."""
    waits = " (may include waiting for other ranks)" if communicates else ""
    times = f"{brief_duration(int(found['sum_ns']))} in {counted(found['count'], 'run')}{found.typical}"
    most = f"{quoted(short_name(found['kernel']))} takes the most GPU time{found.where}: {times}"
    share = f"{brief_share(found['time_share'])} of all GPU work{waits}"
    return f"{most}, {share}{busy}"


def busy_with(kernel_type: str, busy_share: float) -> str:
    """Name the type of work with the most busy time, as a part of the headline."""
    return f"; {brief_share(busy_share)} of GPU busy time is {kernel_type}"


def too_short(rank: int, label: str) -> str:
    """Report activities of which none has a length."""
    where = f"rank {rank}: every GPU activity in {window_named(label)}"
    return f"{where} has length 0, below the resolution of the trace's clock"


def only_copies(rank: int, label: str) -> str:
    """Report a window in which nothing is left to list."""
    return f"rank {rank}: {window_named(label)} has only copies and memsets, which are left out"
