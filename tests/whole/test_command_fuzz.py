"""A fixed budget of questions to all commands, which are answered or refused, whatever the inputs hold."""

from __future__ import annotations

import pytest

from tests.command_fuzz import POSITIONALS, fuzz_commands, values_of
from tests.support.cli_parsers import options_of, parsers_by_command, positionals_of
from tests.support.deep_tests import cases, deep

COMMANDS = len(parsers_by_command()) - 1
"""All but the demonstration."""


@pytest.mark.parametrize(
    ("first", "count"), [(12, 12), deep(0, COMMANDS), *(deep(at, 200) for at in range(0, cases(1_000), 200))]
)
def test_any_question_is_answered_or_refused(first: int, count: int) -> None:
    found = fuzz_commands(20_261_123, range(first, first + count))
    assert found.failures == {}
    answered = sum(counts["answered"] for counts in found.counts.values())
    assert answered > count // 5


def test_whatever_a_command_can_be_given_is_given() -> None:
    for words in parsers_by_command():
        assert all(action.dest in POSITIONALS for action in positionals_of(words))
        for action in options_of(words):
            values_of(action)
