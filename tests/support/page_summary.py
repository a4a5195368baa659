"""A first screen for pages that a test makes itself."""

from __future__ import annotations

from analyses.report.summary import Card, KeyFigure, Summary

__all__ = ["page_summary"]


def page_summary(text: str = "t") -> Summary:
    """Return a first screen, every text of which is the same one."""
    return Summary(text, text, [KeyFigure(text, text)], [Card(text, text, text, [text])], [text], None)
