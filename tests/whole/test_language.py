"""No text, help or output of the product uses a banned turn of phrase, and the list itself finds what it should."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from analyses.cli.main import main
from tests.language import BANNED, ROOMS, files_below, findings, may_have_some, prose, texts_of
from tests.support.cli_parsers import parsers_by_command
from tests.support.deep_tests import deep
from tests.support.make_samples import SAMPLE

FOUR_RANKS = SAMPLE.parent / "four_ranks"
QUESTIONS = """
critical-path what-if info temporal-breakdown kernel-breakdown overlap idle-time queue-length memory-bandwidth
launch-stats operator-kernels roofline annotations attribution sync-deps graph
"""
PRINTING = [
    *(f"{name} {target}" for name in QUESTIONS.split() for target in (SAMPLE, FOUR_RANKS)),
    f"stragglers {FOUR_RANKS}",
    f"collectives {FOUR_RANKS}",
    f"diff {SAMPLE} {SAMPLE}",
]


def banned_in(text: str) -> list[str]:
    """Return the banned turns of phrase in a printed text."""
    return [match.group() for pattern in BANNED for match in re.finditer(pattern, text, re.IGNORECASE)]


@pytest.mark.sources
@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("parses_all", [False, deep(True)])
def test_no_text_uses_a_banned_turn_of_phrase(room: str, parses_all: bool) -> None:
    assert findings(files_below([room]), parses_all=parses_all) == []


def test_files_that_hold_some_are_parsed() -> None:
    for text in (
        "'so many\\nnames'", "'it is '\n    'so '  \"many\"", "f'{count} %'", '"""Is so\n    many."""',
        "'As\\nso many'", "f'{number:,} '\nf'%'",
    ):  # fmt: skip
        assert may_have_some(f"x = {text}\n"), text
    assert not may_have_some("# so many\nx = 'others'\n")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("words", parsers_by_command(), ids=" ".join)
def test_no_help_uses_one(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([*words, "--help"])
    assert banned_in(" ".join(capsys.readouterr().out.split())) == []


@pytest.mark.parametrize("command", PRINTING, ids=lambda line: re.sub(r" \S+/", " ", line))
@pytest.mark.sampled(12)
def test_no_output_uses_one(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command.split()) in (0, 1)
    printed = capsys.readouterr()
    assert banned_in(printed.out + printed.err) == []


def test_what_is_banned_is_found_in_code_and_pages(tmp_path: Path) -> None:
    code, page = tmp_path / "a.py", tmp_path / "a.md"
    code.write_text(
        '"""Nobody waits."""\nX = f"the rank {1} holds up all"\nY = "nobody"\nZ = "told you"  # as recorded\n'
    )
    page.write_text("What `nobody` sees.\n```\nnobody sees\n```\nIt takes 7 %.\n")
    assert [text for _, text in texts_of(code)] == ["Nobody waits.", "the rank 0 holds up all"]
    assert [(Path(one.place).name, one.found) for one in findings([code, page])] == [
        ("a.py:1", "Nobody"),
        ("a.py:2", "holds up"),
        ("a.md:5", "7 %"),
    ]
    assert prose("a\n```\nb\n```\nc\n") == [(1, "a"), (5, "c")]
