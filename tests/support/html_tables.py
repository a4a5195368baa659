"""What stands on a page, as a reader sees it: its sections, and the rows of its tables by title."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

__all__ = ["page_sections", "page_tables"]


TABLE = re.compile(
    r'<h3>([^<]*?)(?: <span class="base">[^<]*</span>)?</h3>\s*(?:<ul.*?</ul>\s*)?'
    r'<div class="scroll"[^>]*><table[^>]*>(.*?)</table>',
    re.DOTALL,
)


def page_sections(page: Path) -> dict[str, str]:
    """Return the markup of each section by its title."""
    found = re.findall(r"<section>\s*<h2[^>]*>(.*?)</h2>(.*?)</section>", page.read_text(), re.DOTALL)
    return {unescape(title): text for title, text in found}


def page_tables(section: str) -> dict[str, list[list[str]]]:
    """Return the texts of each table of a section, row by row with the headings first, by the table's title."""
    found = TABLE.findall(section)
    return {unescape(title): [_cells(row) for row in text.split("<tr>")[1:]] for title, text in found}


def _cells(row: str) -> list[str]:
    return [unescape(re.sub(r"<[^>]*>", "", cell)).strip() for cell in re.split(r"</t[hd]>", row)[:-1]]
