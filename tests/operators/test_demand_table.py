"""The manual's table of models is that of the program."""

from __future__ import annotations

from tests.demand_table import PAGE, renewed


def test_the_table_of_the_manual_is_that_of_the_program() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert renewed(text) == text, "python -m tests.demand_table writes it anew"
