"""A part of a page of the manual that is written by a program, between two marks."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["GeneratedSection"]

DOCS = Path(__file__).parents[2] / "docs"


@dataclass(frozen=True)
class GeneratedSection:
    """A page, what its marks are called, and what writes the part."""

    page: str
    mark: str
    text: Callable[[], str]

    @property
    def path(self) -> Path:
        """The page's file."""
        return DOCS / self.page

    def renewed(self, page: str) -> str:
        """Return a page with the part anew."""
        begin, end = f"<!-- {self.mark}: begin -->\n", f"<!-- {self.mark}: end -->"
        between = re.compile(f"(?<={re.escape(begin)}).*(?={re.escape(end)})", re.DOTALL)
        return between.sub(lambda _: self.text(), page)

    def write(self) -> None:
        """Write the page."""
        self.path.write_text(self.renewed(self.path.read_text(encoding="utf-8")), encoding="utf-8")
