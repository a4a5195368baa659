"""What the manual shows is so: its blocks are run, and its links lead somewhere."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.deep_tests import deep
from tests.support.manual_pages import (
    DATA,
    DOCS,
    PIECES,
    ROOT,
    Block,
    anchors,
    blocks,
    external_hosts,
    links,
    pages,
    prose,
)
from tests.support.manual_runs import PageError, check_page, demo_folder, difference_of_texts
from tests.update_manual_outputs import cut_output, renewed_text

QUICK = {
    "README.md",
    "docs/start.md",
    "docs/asking_in_python.md",
    "docs/dataframes.md",
    "docs/tables.md",
}
"""Pages that the quick run executes; all of them together would take longer than it may, so that others are deep."""
MOST_NOT_RUN = 0.15
"""The share of blocks that may be left out over the whole manual: those that need a GPU, PyTorch, a bucket, a tool."""


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


every_page = pytest.mark.parametrize("page", pages(), ids=name_of)
BESIDE = [
    page
    for name in ("CHANGELOG.md", "CONTRIBUTING.md", "examples/*.md", "tests/README.md")
    for page in sorted(ROOT.glob(name))
]
"""Pages that are no part of the manual, and whose links lead into it."""
RUN = [page for page in pages() if any(block.is_run for block in blocks(page))]


# -- blocks are run ---------------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize("page", [page if name_of(page) in QUICK else deep(page) for page in RUN], ids=name_of)
def test_the_blocks_of_a_page_run_and_print_what_it_shows(page: Path, tmp_path: Path) -> None:
    check_page(page, demo_folder(tmp_path / "demo"))


@every_page
def test_blocks_say_in_which_language_they_are_read(page: Path) -> None:
    for block in blocks(page):
        if page.parent == PIECES:
            continue
        assert block.is_code or block.language in DATA, (
            f"{block.place}: nobody runs {block.language!r}; say sh or python"
        )
        if block.language == "python":
            ast.parse(block.text, block.place)
        if block.language == "json" and "…" not in block.text:
            json.loads(block.text)
        assert not block.not_run or block.is_code, f"{block.place} would not be run anyway"


def test_few_blocks_are_left_out() -> None:
    code = [block for page in pages() if page.parent != PIECES for block in blocks(page) if block.is_code]
    left_out = {block.place: block.why_not for block in code if block.why_not}
    print(f"{len(code) - len(left_out)} of {len(code)} blocks of code are run; not run: {left_out}")  # noqa: T201
    assert len(left_out) <= MOST_NOT_RUN * len(code), left_out


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("```sh\nhta-graph info nowhere.json\n```\n", "exit 1 instead of 0: hta-graph info nowhere.json"),
        ("```sh\nhta-graph info trace.json.gz  # exit 2\n```\n", "exit 0 instead of 2"),
        ("```sh\ntest -e trace.json.gz && echo b\n```\n\n```text\na\n```\n", "not printed there: 'a'"),
        ("```python\nx = 1\nx  # <2>\n```\n", "gives 1 and not <2>"),
        ("```python\nprint(1)\n```\n```text\n2\n```\n", "not printed there: '2'"),
        ("```pycon\n>>> 1 + 1\n3\n```\n", "Expected:"),
    ],
)
def test_a_page_that_shows_what_is_not_so_is_told(
    text: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.support.manual_pages.text_of", lambda _: text)
    with pytest.raises(PageError, match=re.escape(fault)):
        check_page(DOCS / "made_up.md", demo_folder(tmp_path / "demo"))


def test_what_is_said_not_to_be_run_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "<!-- not run: it needs a GPU -->\n```sh\nfalse\n```\n```text\nnothing\n```\n```python\nx = [\n    1,\n]\n```\n"
    )
    monkeypatch.setattr("tests.support.manual_pages.text_of", lambda _: text)
    assert [block.not_run for block in blocks(DOCS / "made_up.md")] == ["it needs a GPU", "", ""]
    check_page(DOCS / "made_up.md", demo_folder(tmp_path / "demo"))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("shown", "same"),
    [(shown, True) for shown in ("a\nb\nc", "a\n…", "…\nc", "…\nb\n…", "a\n…\nc", "a\nb\nc\n…")]
    + [(shown, False) for shown in ("a\nc", "b\n…", "…\nb", "…\nd\n…", "a\nb\nc\nd", "…\nc\n…\nb\n…", "a\n…\nb\n…\nb")],
)
def test_a_line_of_dots_stands_for_any_lines(shown: str, same: bool) -> None:
    assert (difference_of_texts(shown, "a\nb  \nc\n\n") == "") == same


def test_outputs_are_renewed_and_stay_cut(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("one\n```text\na 1\n…\nc 1\n…\n```\ntwo\n```text\n```\n")
    cut, empty = (Block(page, line, "text", text) for line, text in ((2, "a 1\n…\nc 1\n…\n"), (9, "")))
    printed = "a 2\nb 2\nc 2\nd 2\n"
    found = renewed_text(page, [(cut, printed), (empty, "x\n")])
    assert found == "one\n```text\na 2\n…\nc 2\n…\n```\ntwo\n```text\nx\n```\n"
    assert difference_of_texts("\n".join(cut_output(cut.text, printed)), printed) == ""


# -- links lead somewhere ---------------------------------------------------------------------------------------------


def leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return target.is_file() and (not anchor or anchor in anchors(target))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("page", [*pages(), *BESIDE], ids=name_of)
def test_links_lead_to_pages_and_headings_that_are_there(page: Path) -> None:
    inside = [link for link in links(page) if not re.match(r"[a-z]+:", link)]
    assert [link for link in inside if not leads_somewhere(page, link)] == [], f"links of {name_of(page)} lead nowhere"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("# A\n[x](nowhere.md)\n", "made_up.md lead nowhere"),
        ("# A\n## B `c`: d\n[x](#b-c--d)\n", "#b-c--d"),
        ("# A\n![a picture](pictures/none.svg)\n", "pictures/none.svg"),
        ("# A\n## B\n## B\n[x](#b-2)\n", "#b-2"),
    ],
)
def test_a_link_that_leads_nowhere_is_told(text: str, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.manual_pages.text_of", lambda _: text)
    anchors.cache_clear()
    with pytest.raises(AssertionError, match=re.escape(fault)):
        test_links_lead_to_pages_and_headings_that_are_there(DOCS / "made_up.md")
    anchors.cache_clear()


def test_links_in_code_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "# A\n```\n[x](y)\n```\n`[x](z)` [x](#a)\n[x](http://a.b)\n"
    monkeypatch.setattr("tests.support.manual_pages.text_of", lambda _: text)
    assert links(DOCS / "made_up.md") == ["#a", "http://a.b"]
    with pytest.raises(AssertionError, match="no https addresses"):
        external_hosts(DOCS / "made_up.md")


def test_a_page_from_elsewhere_is_one_link_to_it() -> None:
    for page in (DOCS / "elsewhere").glob("*.md"):
        (target,) = links(page)
        assert not (page.parent / target).resolve().is_relative_to(DOCS)


def test_links_elsewhere_are_https() -> None:
    hosts = Counter(host for page in pages() for host in external_hosts(page))
    print(f"links elsewhere, not followed: {dict(sorted(hosts.items()))}")  # noqa: T201


def test_the_index_leads_to_every_page() -> None:
    reached, new = {DOCS / "index.md"}, [DOCS / "index.md"]
    while new:
        page = new.pop()
        found = {(page.parent / link.partition("#")[0]).resolve() for link in links(page) if ".md" in link}
        inside = {path for path in found if path.is_relative_to(DOCS) and path.name.endswith(".md")}
        listed = {path for path in inside if page.name == "index.md"} - reached
        reached |= listed
        new += [path for path in listed if path.name == "index.md"]
    elsewhere = {page for page in pages() if page.parent.name == "elsewhere"}
    assert sorted(set(pages()) - reached - elsewhere - {ROOT / "README.md"}) == []


@every_page
def test_a_page_has_one_title_and_its_headings_in_order(page: Path) -> None:
    if page.parent.name == "elsewhere":
        return
    depths = [len(marks) for marks in re.findall(r"^(#+) ", prose(page), re.MULTILINE)]
    assert depths[0] == 1
    assert depths.count(1) == 1
    assert all(deeper <= depth + 1 for depth, deeper in pairwise(depths))
