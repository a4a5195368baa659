"""Lines in a pipe are written as rich writes them, without it."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len

from analyses.display.console import NARROW, text_of
from analyses.display.text_layout import TextTable

if TYPE_CHECKING:
    from analyses.display.text_layout import Line

WORDS = (
    "a",
    " ",
    "  ",
    "…",
    "→",
    "µs",
    "1,234.5",
    "%",
    "ms",
    "a_kernel<float>",
    "\n",
    "\xa0",
    "é",
    "[bold]",
    "GB/s",
    "内核",
    "e\u0301",
)


@pytest.mark.parametrize("seed", range(20))
def test_a_plain_table_is_that_of_rich(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = Random(seed)

    def text() -> str:
        return "".join(chosen.choices(WORDS, k=chosen.randrange(5)))

    columns = range(chosen.randrange(1, 5))
    rows = [[text() for _ in columns] for _ in range(chosen.randrange(1, 5))]
    header = [text() for _ in columns] if seed % 4 else ()
    lines: list[Line] = [text(), TextTable(header, rows, texts=columns[::2], caption=text(), more=text()), text()]
    plain = text_of(lines)
    monkeypatch.setattr("analyses.display.console._takes_colour", lambda _: True)
    assert text_of(lines) == plain


def test_what_is_written_without_rich_takes_a_column_a_letter() -> None:
    assert [char for char in map(chr, range(0x3000)) if NARROW.fullmatch(char) and cell_len(char) != 1] == []
