"""What the costs of ten times as much are measured with: every command that takes a trace is asked rightly."""

from __future__ import annotations

import pytest

from tests.benchmarks.scaling_attacks import questions
from tests.support.cli_parsers import parsers_by_command

WITHOUT_A_TRACE = {"cache", "completion", "demo", "mcp", "schema", "chakra link", "chakra statistics"}


@pytest.mark.parametrize("shape", ["plain", "streams"])
def test_every_command_that_takes_a_trace_is_asked_rightly(shape: str) -> None:
    """A wrong command line costs the same with any trace."""
    asked = set()
    for question in questions(shape):
        words = tuple(question[: 1 + (question[0] == "chakra")])
        parsers_by_command()[words].parse_args(question[len(words) :])
        asked.add(" ".join(words))
    assert asked == {" ".join(words) for words in parsers_by_command()} - WITHOUT_A_TRACE
