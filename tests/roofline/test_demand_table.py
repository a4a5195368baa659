"""The manual's table of models is that of the program."""

from __future__ import annotations

from tests.operator_model_table import PART


def test_the_table_of_the_manual_is_that_of_the_program() -> None:
    text = PART.path.read_text(encoding="utf-8")
    assert PART.renewed(text) == text, "python -m tests.operator_model_table writes it anew"
