"""Regular expressions that somebody gave: none, or one that never ends, is one line; ordinary ones cost nothing."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path

import pytest

import hta_graph as hg
from analyses.hta import filters
from hta_graph.base import safe_regex
from hta_graph.base.errors import PatternError, QueryError
from hta_graph.base.safe_regex import compile_pattern, names_matching
from tests.support.command_line import one_error
from tests.support.trace_builder import TraceBuilder

NO_PATTERNS = {
    "(": "missing )",
    "a**": "multiple repeat",
    "x{99999999999}": "repeat count too big",
    "(" * 500 + ")" * 500: "nests too deeply",
    "y" * 1_001: "longer than 1,000 characters",
    "(?V1)[a--b]": "mutually incompatible",
}
ENDLESS = ("(a+)+$", "(a|a)*$", "(a+a+)+y", "(a|aa)+$")
LONG = "a" * 24 + "b" + "a" * 10_000 + "b"


@pytest.fixture
def long_names(tmp_path: Path) -> Path:
    trace = TraceBuilder()
    trace.annotation("ProfilerStep#1", 0, 100)
    trace.annotation(LONG, 5, 50)
    trace.op(LONG + "c", 10, 40)
    trace.launch("gemm", (20, 30), (50, 150), 5)
    return trace.write(tmp_path / "t.json")


@pytest.mark.parametrize(("text", "cause"), NO_PATTERNS.items(), ids=range(len(NO_PATTERNS)))
def test_what_is_no_pattern_is_told(text: str, cause: str) -> None:
    with pytest.raises(QueryError, match="is not a regular expression") as told:
        compile_pattern(text)
    assert cause in str(told.value)
    assert len(str(told.value)) < 300


def test_a_pattern_that_may_be_read_otherwise_one_day_is_none_the_worse() -> None:
    assert names_matching(["[[a]"], ["[", "b"]).tolist() == [True, False]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("text", ENDLESS)
def test_a_pattern_without_end_is_given_up(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safe_regex, "LIMIT_S", 0.05)
    with pytest.raises(PatternError, match="takes too long: stopped after 0 s; avoid nested repetition"):
        names_matching([text], [LONG])


def test_a_pattern_without_end_is_given_up_in_every_thread_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While ``re`` backtracked no other thread of the program did anything."""
    monkeypatch.setattr(safe_regex, "LIMIT_S", 0.25)
    causes: list[str] = []

    def ask() -> None:
        try:
            names_matching(["(a+)+$"], [LONG])
        except PatternError as error:
            causes.append(str(error))

    asking, ticks = threading.Thread(target=ask), 0
    asking.start()
    while asking.is_alive():
        time.sleep(0.001)
        ticks += 1
    assert ["takes too long" in cause for cause in causes] == [True]
    assert ticks > 20


def test_own_patterns_are_those_of_re() -> None:
    assert names_matching([re.compile("b$")], ["ab", "ba"], by="search").tolist() == [True, False]
    assert not isinstance(compile_pattern("b"), re.Pattern)


@pytest.mark.parametrize(("by", "found"), [("search", [1, 1, 1]), ("match", [1, 1, 0]), ("fullmatch", [1, 0, 0])])
def test_ways_to_match(by: safe_regex.Way, found: list[int]) -> None:
    assert names_matching(["ab"], ["ab", "abc", "cab"], by=by).tolist() == [bool(one) for one in found]


def test_a_limit_costs_nothing() -> None:
    names_matching(["gemm"], ["a"])
    begin = time.process_time()
    for _ in range(100):
        names_matching(["gemm"], ["a"])
    assert time.process_time() - begin < 0.1


@pytest.mark.sampled(6)
@pytest.mark.parametrize("text", ["(a|a)*$", "("])
@pytest.mark.parametrize(
    "asked",
    [
        ["critical-path", "--annotation", "{}", "--regex"],
        ["critical-path", "--data-load", "{}"],
        ["idle-time", "--data-load", "{}"],
        ["what-if", "--remove", "operator:{}"],
        ["what-if", "--scale", "{}=0.5"],
        ["what-if", "--curve", "{}"],
    ],
    ids=" ".join,
)
def test_the_command_line_names_the_pattern(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    long_names: Path,
    monkeypatch: pytest.MonkeyPatch,
    asked: list[str],
    text: str,
) -> None:
    monkeypatch.setattr(safe_regex, "LIMIT_S", 0.05)
    words = [word.format(text) for word in asked]
    line = one_error(capsys, tmp_path, words[0], long_names, *words[1:], status=2)
    assert repr(text) in line


def test_python_is_told_as_well(long_names: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safe_regex, "LIMIT_S", 0.05)
    graph = hg.build_graph(hg.read_trace(long_names))
    with pytest.raises(PatternError, match="takes too long"):
        graph.filter(name="(a|a)*$")
    with pytest.raises(PatternError, match="takes too long"):
        filters.NameFilter("(a|a)*$")(graph.events.assign(s_name=graph.events.name))
