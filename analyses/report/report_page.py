"""The report's page: a verdict, and sections of sentences and tables around one timeline."""

from __future__ import annotations

from collections.abc import Sequence

from analyses.display.page import page_of
from analyses.report.page_tables import Section
from analyses.report.timeline import SCRIPTS, TimelinePage

__all__ = ["page"]


def page(
    title: str,
    verdict: Sequence[str],
    sections: Sequence[Section],
    timeline: TimelinePage | None = None,
    overlay: str = "",
) -> bytes:
    """Return the page. ``overlay`` is the address of a file to offer."""
    return page_of(
        "report.html",
        scripts=(*SCRIPTS, "tables.js") if timeline else ("tables.js",),
        title=title,
        verdict=verdict,
        sections=sections,
        timeline=timeline,
        overlay=overlay,
    )
