"""A fixed budget of questions to all commands, which are answered or refused, whatever the inputs hold."""

from __future__ import annotations

import pytest

from tests.command_fuzz import POSITIONALS, fuzzed_commands, questions, values_of
from tests.support.cli_parsers import options_of, positionals_of
from tests.support.deep_tests import cases, deep
from tests.support.fuzzed_inputs import INPUTS
from tests.support.fuzzing import fuzz
from tests.support.sound_words import NEVER, VALUES

COMMANDS = len(fuzzed_commands())
DEEP_TURNS = 20
"""How often each command is asked in a deep run; every second time with a right command line."""


@pytest.mark.parametrize(
    ("first", "count"), [(12, 5), deep(0, COMMANDS), *(deep(at, 200) for at in range(0, cases(1_000), 200))]
)
def test_any_question_is_answered_or_refused(first: int, count: int) -> None:
    found = fuzz(questions(20_261_123), range(first, first + count))
    assert found.failures == {}
    assert found.total("answered") > count // 5


@pytest.mark.sampled(23)
@pytest.mark.parametrize("command", [" ".join(words) for words in fuzzed_commands()])
def test_every_command_is_reached(command: str) -> None:
    """A command's own right lines: one of the first three is answered, and none of them is called wrong."""
    for turn in range(3):
        found = fuzz(questions(20_261_126, command), [2 * turn])
        assert found.failures == {}
        if found.counts[command]["right answered"]:
            return
    pytest.fail("none is answered")


@pytest.mark.parametrize("command", [deep(" ".join(words)) for words in fuzzed_commands()])
def test_a_third_of_right_command_lines_is_answered(command: str) -> None:
    found = fuzz(questions(20_261_126, command), range(DEEP_TURNS))
    assert found.failures == {}
    counts = found.counts[command]
    assert counts["right"] == DEEP_TURNS / 2
    assert counts["right answered"] >= counts["right"] / 3


def test_whatever_a_command_can_be_given_is_given() -> None:
    for words in fuzzed_commands():
        assert all(action.dest in POSITIONALS for action in positionals_of(words))
        for action in options_of(words):
            values_of(action)
            name = max(action.option_strings, key=len)
            assert action.nargs == 0 or action.choices or name in {*VALUES, *NEVER}
    assert INPUTS.keys() <= POSITIONALS.keys()
