"""Sentences of temporal-breakdown."""

from __future__ import annotations

from analyses.display.headline import Outlier
from analyses.display.sentence_format import brief_share

TITLE = "GPU time by activity"
WHOLE_TRACE = "first to last GPU activity"
WITHOUT_COMPUTATION = {
    "idle": "idle time (see idle-time)",
    "exposed_communication": "exposed communication (see overlap)",
    "exposed_memory": "exposed copies and memsets (see overlap)",
}
"""What the time is in which nothing computes, and which command explains it."""


def mostly_idle(found: Outlier) -> str:
    """State first that the GPU is mostly idle."""
    idle = f"GPU idle {brief_share(found['idle_share'])} of the time (see idle-time){found.where}"
    return f"{idle}; it computes {brief_share(found['compute_share'])}{found.typical}"


def headline(found: Outlier, largest: str, largest_share: float) -> str:
    """State the share of time with computation, and what most of the rest is."""
    computes = f"the GPU computes {brief_share(found['compute_share'])} of the time{found.where}{found.typical}"
    return f"{computes}; {brief_share(largest_share)} is {WITHOUT_COMPUTATION[largest]}" if largest_share else computes
