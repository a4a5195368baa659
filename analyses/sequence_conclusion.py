"""What answers about sequences of GPU work conclude: whose takes most time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analyses.advice.format import brief_duration, counted, quoted
from analyses.headline import largest_item

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["sequence_headline"]


def sequence_headline(frame: pd.DataFrame) -> list[str]:
    """Say whose GPU work takes most time, and where it takes most.

    Args:
        frame: rank, scope, operator, kernel_sequence, kernels, count, gpu_ns.
    """
    found = largest_item(frame, ["operator", "kernel_sequence"], "gpu_ns")
    if found is None:
        return []
    launches = f"{quoted(found['operator'])} with {counted(found['kernels'], 'piece')} of GPU work"
    times = f"{brief_duration(found['gpu_ns'])} in {counted(found['count'], 'occurrence')}{found.typical}"
    return [f"{launches} takes most GPU time{found.where}: {times}"]
