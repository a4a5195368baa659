"""No regular expression of the package takes longer than its text is long: names come from anywhere."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from analyses.hta.frame import name_without_arguments
from hta_graph.base.text.sanitize import one_line
from hta_graph.base.text.shorten import demangle, short_name, short_names, shorten_middle
from tests.support.deep_tests import deep
from tests.text_attacks.regex_cost import growing_patterns, own_patterns


@cache
def patterns() -> dict[str, tuple[str, re.Pattern[Any], str]]:
    return {f"{place} {how}": (place, pattern, how) for place, pattern, how in own_patterns()}


@pytest.mark.slow
def test_patterns_are_found() -> None:
    assert len(patterns()) > 100
    assert {
        "hta_graph.base.text.shorten.FRAME[0] match",
        "hta_graph.multi_rank.matching.read_communications.PEER_PATTERN[0] search",
    } <= patterns().keys()


@pytest.mark.slow
def test_a_pattern_that_grows_too_fast_is_found() -> None:
    (line,) = growing_patterns([("here", re.compile(r"\d+x"), "search")])
    assert line.startswith("here by search: ")


@pytest.mark.parametrize("part", [deep(part) for part in range(8)])
def test_no_pattern_grows_faster_than_its_text(part: int) -> None:
    assert list(growing_patterns(list(patterns().values())[part::8])) == []


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    "shorten",
    [
        name_without_arguments,
        short_name,
        demangle,
        one_line,
        lambda name: shorten_middle(name, 60),
        lambda name: short_names([name, name + "x"])[0],
    ],
)
@pytest.mark.parametrize("part", ["<", "(", "<(", "_Z1", "a::", "a<b>(", "1", "\x1b", "\u200d", "a/", " → "])
def test_long_names_are_shortened_in_time(shorten: Callable[[str], str], part: str) -> None:
    name = "void f" + part * (20_000 // len(part))
    begin = time.process_time()
    shorten(name + {"<": ">", "(": ")"}.get(part, "") * 20_000)
    assert time.process_time() - begin < 0.5
