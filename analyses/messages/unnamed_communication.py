"""Sentences about kernels whose names do not say that they communicate."""

from __future__ import annotations

from collections.abc import Sequence

from analyses.display.sentence_format import quoted

MOST = 3


def waits_for_ranks(names: Sequence[str]) -> str:
    """Say which kernels wait for other ranks and count as computation."""
    shown = ", ".join(map(quoted, names[:MOST])) + (f" and {len(names) - MOST} more" if len(names) > MOST else "")
    one = len(names) == 1
    return (
        f"{shown}: counted as computation, but {'its' if one else 'their'} runs end at the same time on several ranks "
        f"whenever they begin, so {'it probably waits' if one else 'they probably wait'} for other ranks "
        "(unknown communication)"
    )
