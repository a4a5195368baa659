"""The manual as text: its pages, their fenced blocks, links and headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^( *)(`{3,})([\w{}-]*)")
NOT_RUN = re.compile(r"^ *<!-- not run: (.+) -->$")
RUNNABLE = ("sh", "python", "pycon")
"""Languages of blocks that are run, unless the line above one says why not."""
SHOWN = {"console": "a session elsewhere", "py": "a part of a program", "js": "another language"}
"""Languages of blocks that hold code and are never run, and what they are for."""
DATA = ("", "text", "json", "dot", "toml", "yaml", "diff", "{eval-rst}")
"""Languages of blocks that hold none."""
PIECES = DOCS / "extending"
"""Pages whose blocks are pieces of files; ``tests/whole/test_contributing.py`` follows them."""


@dataclass(frozen=True)
class Block:
    """A fenced block: where it begins (its fence's line, from 1), its language and text, and why it is not run."""

    page: Path
    line: int
    language: str
    text: str
    not_run: str = ""
    follows: bool = False
    """Whether nothing stands between it and the block before it."""

    @property
    def place(self) -> str:
        """Where it is, as editors and people find it."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def is_code(self) -> bool:
        """Whether it holds what could be run."""
        return self.language in RUNNABLE or self.language in SHOWN

    @property
    def why_not(self) -> str:
        """Why it is not run; nothing if it is."""
        pieces = "pieces of files" if self.page.parent == PIECES else ""
        return self.not_run or pieces or SHOWN.get(self.language, "")

    @property
    def is_run(self) -> bool:
        """Whether it is one that is run."""
        return self.language in RUNNABLE and not self.why_not


@cache
def pages() -> tuple[Path, ...]:
    """Return the front page and all pages of the manual."""
    return (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))


@cache
def text_of(page: Path) -> str:
    """Return what a page holds."""
    return page.read_text(encoding="utf-8")


def page_with(mark: str) -> str:
    """Return the text of the one page that holds a mark or a table's head; of two of them the manual's."""
    found = [page for page in pages() if mark in text_of(page)]
    inner = [page for page in found if page.is_relative_to(DOCS)] or found
    assert len(inner) == 1, f"{mark} stands on {len(inner)} pages: {[page.name for page in inner]}"
    return text_of(inner[0])


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page in their order."""
    return list(_blocks(page, text_of(page).splitlines()))


def _blocks(page: Path, lines: list[str]) -> Iterator[Block]:
    row, ended = 0, None
    while row < len(lines):
        if not (fence := FENCE.match(lines[row])):
            row += 1
            continue
        indent, ticks, language = fence.groups()
        end = _end_of_block(lines, row, ticks, page)
        inside = [line.removeprefix(indent) for line in lines[row + 1 : end]]
        why = NOT_RUN.match(lines[row - 1]) if row else None
        follows = ended is not None and not "".join(lines[ended + 1 : row]).strip()
        text = "".join(f"{line}\n" for line in inside)
        yield Block(page, row + 1, language, text, why[1] if why else "", follows)
        row, ended = end + 1, end


def _end_of_block(lines: list[str], row: int, ticks: str, page: Path) -> int:
    ends = (end for end in range(row + 1, len(lines)) if lines[end].strip() == ticks)
    end = next(ends, None)
    assert end is not None, f"{page}:{row + 1}: the block has no end"
    return end


def prose(page: Path) -> str:
    """Return a page's text without its blocks; inline code stays."""
    lines = text_of(page).splitlines()
    for block in blocks(page):
        rows = range(block.line - 1, block.line + block.text.count("\n") + 1)
        for row in rows:
            lines[row] = ""
    return "\n".join(lines)


def links(page: Path) -> list[str]:
    """Return the targets of a page's links and pictures."""
    plain = re.sub(r"`[^`\n]*`", "`…`", prose(page))
    return re.findall(r"\]\(([^)\s]+)\)", plain)


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the names that a page's headings have in links, as GitHub makes them.

    The second of two equal ones ends in ``-1``.
    """
    found: set[str] = set()
    for heading in re.findall(r"^#{1,6} (.+?)#*$", prose(page), re.MULTILINE):
        name = heading_anchor(heading)
        repeats = sum(1 for known in found if known == name or re.fullmatch(rf"{re.escape(name)}-\d+", known))
        found.add(f"{name}-{repeats}" if repeats else name)
    return frozenset(found)


def heading_anchor(heading: str) -> str:
    """Return a heading's name in links.

    >>> heading_anchor("`diff`: is it slower? [More](x.md)")
    'diff-is-it-slower-more'
    """
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading.strip())
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def external_hosts(page: Path) -> list[str]:
    """Return the hosts of a page's links to elsewhere; nothing asks them here.

    Raises:
        AssertionError: such a link is no well-formed ``https`` address.
    """
    outside = [link for link in links(page) if re.match(r"[a-z]+:", link)]
    parts = [urlsplit(link) for link in outside]
    ill = [link for link, at in zip(outside, parts, strict=True) if at.scheme != "https" or not is_host(at.hostname)]
    assert ill == [], f"{page.name}: no https addresses: {ill}"
    return [str(at.hostname) for at in parts]


def is_host(name: str | None) -> bool:
    """Say whether a text is a host's name with a domain."""
    return name is not None and re.fullmatch(r"([a-z0-9-]+\.)+[a-z]{2,}", name) is not None
