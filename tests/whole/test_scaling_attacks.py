"""What the costs of ten times as much are measured with: every command that takes a trace is asked rightly."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.benchmarks.scaling_attacks import compare, questions, table_lines, worst_lines
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


def test_no_command_is_asked_to_replace_what_another_one_wrote() -> None:
    """It would refuse, and refusing costs the same with any trace."""
    by_place = defaultdict(set)
    for question in questions("plain"):
        for option, word in pairwise(question):
            if word.startswith("OUT/") and option.startswith("-"):
                by_place[word].add(option)
    assert {place for place, options in by_place.items() if len(options) > 1} == set()


def test_ten_times_as_much_is_compared_and_the_worst_of_each_command_told(tmp_path: Path) -> None:
    asked = [["info", "T", "--json", "OUT/o.json"], ["critical-path", "T"]]
    found = list(compare("plain", 50, asked, tmp_path))
    assert [(one.command, one.tenth.status, one.full.status) for one in found] == [
        ("(reading)", 0, 0), ("info", 0, 0), ("critical-path", 0, 0),
    ]  # fmt: skip
    slow = [replace(found[1], full=replace(found[1].full, seconds=seconds)) for seconds in (1.3, 1.1)]
    slow = [replace(one, tenth=replace(one.tenth, seconds=0.09)) for one in slow]
    assert [line[0] for line in table_lines([found[0], *slow])][2:] == [" ", "!", "?"]
    assert [line.rsplit(" | ", 2)[1:] for line in worst_lines(slow)][2:] == [["0.09, 1.30", "14.4 |"]]
