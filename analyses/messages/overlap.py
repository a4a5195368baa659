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


NEITHER = "no communication and no copies"


def only_copies(found: Outlier) -> str:
    """State that nothing communicates, and how long copies run alone."""
    exposed, every = (brief_duration(found[f"{name}memory_ns"]) for name in ("exposed_", ""))
    share = f"{brief_share(found['window_share'])} of the time"
    return f"no communication; exposed copies take {share}{found.where}{found.typical}: {exposed} of {every} of copies"


def nothing_exposed(found: Outlier) -> str:
    """State that computation overlaps all communication."""
    return f"computation overlaps all communication: {brief_duration(found['communication_ns'])}{found.where}"


def hardly_exposed(found: Outlier) -> str:
    """State that exposed communication takes next to no time."""
    return f"exposed communication takes {_exposed(found)}, less than 1% of the time{found.where}{found.typical}"


def headline(found: Outlier, largest: str, largest_share: float, waiting_share: float | None) -> str:
    """State how much of the time communication is exposed, in which collective, and how much of it is waiting."""
    share = f"exposed communication takes {brief_share(found['window_share'])} of the time{found.where}{found.typical}"
    waits = "" if waiting_share is None else f", and {brief_share(waiting_share)} is waiting for other ranks"
    parts = f"of the exposed time, {brief_share(largest_share)} is in {quoted(largest)}{waits}"
    return f"{share}: {_exposed(found)}; {parts}"


def _exposed(found: Outlier) -> str:
    exposed, every = (brief_duration(found[f"{name}communication_ns"]) for name in ("exposed_", ""))
    return f"{exposed} of {every} of communication"


def no_communication(rank: int, label: str) -> str:
    """Report a window without communication kernels."""
    return (
        f"rank {rank}: no communication kernels in {window_named(label)}, so the overlapped share is undefined; "
        "for a distributed job, record a step that communicates"
    )
