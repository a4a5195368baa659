"""The task pages of the manual: each is listed, has its parts in order, and all analyses are on one of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from analyses.questions.catalogue import CATALOGUE

DOCS = Path(__file__).parents[2] / "docs"
FOLDER = DOCS / "how_to"
BESIDE = ("comparing.md", "which_rank.md", "what_if.md", "overlay.md")
"""Task pages that are references too."""
PAGES = [*sorted(FOLDER.glob("*.md")), *(DOCS / name for name in BESIDE)]
INDEX = (DOCS / "index.md").read_text(encoding="utf-8")
MOST_WORDS = 8


def title_of(page: Path) -> str:
    """Return a page's heading, which is the task."""
    return page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def test_the_index_lists_every_page_under_its_title_with_its_command() -> None:
    rows = re.findall(r"^\| \[(.+?)\]\(([\w/.]+\.md)\) \| (.+) \|$", INDEX, re.MULTILINE)
    listed = {(path, title) for title, path, _ in rows}
    assert {(str(page.relative_to(DOCS)), title_of(page)) for page in PAGES} <= listed
    assert len(listed) == len(rows)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_a_task_shows_a_run_python_and_what_can_go_wrong(page: Path) -> None:
    text, title = page.read_text(encoding="utf-8"), title_of(page)
    assert len(title.split()) <= MOST_WORDS
    assert not title.endswith("?")
    assert "```sh\nhta-graph " in text
    assert re.search("```(python|pycon)\n", text)
    assert re.search(r"^## How to read |^## Methods$|^## By kernel$|^## Measure utilization$", text, re.MULTILINE)
    assert "\n## What can go wrong\n" in text or "\n## Limits\n" in text


def test_every_analysis_is_on_a_page() -> None:
    shown = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert [question.name for question in CATALOGUE if f"hta-graph {question.name}" not in shown] == []
