"""Titles and notes of ``critical-path``."""

from __future__ import annotations

from collections.abc import Sequence

ADVICE = "what to try"
NO_ADVICE, NO_MORE_ADVICE = "why nothing is suggested", "why nothing else is suggested"
BY_CLASS = "critical path by class"
LARGEST_ITEMS = "largest items on the critical path"
JOB = "job"


def ranks(count: int, without: Sequence[int | None]) -> str:
    """Count the ranks of a table of steps, and name those without steps."""
    named = ", ".join(map(str, without))
    return f"{count} ranks" + (f"; no steps on {'rank' if len(without) == 1 else 'ranks'} {named}" if without else "")
