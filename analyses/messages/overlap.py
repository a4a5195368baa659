"""Sentences of overlap."""

from __future__ import annotations

from analyses.display.headline import Outlier
from analyses.display.sentence_format import brief_duration, brief_share, quoted
from analyses.messages.scope import window_named

TITLE = "Communication and copies: overlapped and exposed"
NOTHING_TO_DRAW = "no communication and no copies found"
PARTS = {
    "overlapped_communication": "communication, overlapped",
    "exposed_communication": "communication, exposed",
    "overlapped_memory": "copies, overlapped",
    "exposed_memory": "copies, exposed",
}


def nothing_exposed(found: Outlier) -> str:
    """State that computation overlaps all communication."""
    return f"computation overlaps all communication: {brief_duration(found['communication_ns'])}{found.where}"


def headline(found: Outlier, largest: str, largest_share: float, waiting_share: float | None) -> str:
    """State how much communication is exposed, in which collective, and how much of it is waiting."""
    exposed, every = (brief_duration(found[f"{name}communication_ns"]) for name in ("exposed_", ""))
    share = f"{brief_share(found['exposed_share'])} of communication is exposed{found.where}{found.typical}"
    waits = "" if waiting_share is None else f", and {brief_share(waiting_share)} is waiting for other ranks"
    parts = f"of the exposed time, {brief_share(largest_share)} is in {quoted(largest)}{waits}"
    return f"{share}: {exposed} of {every}; {parts}"


def no_communication(rank: int, label: str) -> str:
    """Report a window without communication kernels."""
    return (
        f"rank {rank}: no communication kernels in {window_named(label)}, so the overlapped share is undefined; "
        "for a distributed job, record a step that communicates"
    )
