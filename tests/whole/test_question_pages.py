"""The pages of questions: each is listed under its title, shows what to run, and all analyses are on one of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from analyses.catalogue import CATALOGUE

FOLDER = Path(__file__).parents[2] / "docs" / "questions"
PAGES = sorted(page for page in FOLDER.glob("*.md") if page.name != "index.md")
INDEX = (FOLDER / "index.md").read_text(encoding="utf-8")


def title_of(page: Path) -> str:
    """Return a page's heading, which is the question."""
    return page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def test_the_index_lists_every_page_under_its_question_with_an_answer() -> None:
    rows = re.findall(r"^\| \[(.+?)\]\((\w+\.md)\) \| (.+) \|$", INDEX, re.MULTILINE)
    assert {(page.name, title_of(page)) for page in PAGES} == {(name, title) for title, name, _ in rows}
    assert len(rows) == len(PAGES)
    assert all(answer.endswith(".") for _, _, answer in rows)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_asks_shows_a_run_python_and_traps(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert title_of(page).endswith("?")
    assert "```sh\nhta-graph " in text
    assert re.search("```(python|pycon)\n", text)
    assert "\n## Traps\n" in text


def test_every_analysis_is_on_a_page() -> None:
    told = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert [question.name for question in CATALOGUE if f"hta-graph {question.name}" not in told] == []
