"""Regular expressions that somebody gave: none, or one that never ends, is one line; ordinary ones cost nothing."""

from __future__ import annotations

import signal
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
    "x{99999999999}": "repetition number is too large",
    "(" * 5_000 + ")" * 5_000: "nests too deeply",
    "(?<=a+)b": "fixed-width",
}
ENDLESS = ("(a+)+$", "(.*a){25}", "(a|a)*$", "(a+a+)+y")
LONG = "a" * 24 + "b" + "a" * 10_000 + "b"


@pytest.fixture
def long_names(tmp_path: Path) -> Path:
    trace = TraceBuilder()
    trace.annotation("ProfilerStep#1", 0, 100)
    trace.annotation(LONG, 5, 50)
    trace.op(LONG + "c", 10, 40)
    trace.launch("gemm", (20, 30), (50, 150), 5)
    return trace.write(tmp_path / "t.json")


@pytest.mark.sampled(3)
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


def test_others_find_their_signals_and_timers_again() -> None:
    before, called = signal.getsignal(signal.SIGVTALRM), []
    signal.signal(signal.SIGVTALRM, lambda *_: called.append(1))
    signal.setitimer(signal.ITIMER_VIRTUAL, 100)
    try:
        names_matching(["a"], ["a"])
        assert 90 < signal.setitimer(signal.ITIMER_VIRTUAL, 0)[0] < 101
        signal.raise_signal(signal.SIGVTALRM)
        assert called == [1]
    finally:
        signal.signal(signal.SIGVTALRM, before)


def test_other_threads_match_too() -> None:
    found: list[list[bool]] = []
    asking = threading.Thread(target=lambda: found.append(names_matching(["b"], ["a", "b"]).tolist()))
    asking.start()
    asking.join()
    assert found == [[False, True]]


def test_a_limit_costs_nothing() -> None:
    names_matching(["gemm"], ["a"])
    begin = time.process_time()
    for _ in range(100):
        names_matching(["gemm"], ["a"])
    assert time.process_time() - begin < 0.1


@pytest.mark.sampled(6)
@pytest.mark.parametrize("text", ["(a+)+$", "("])
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
        graph.filter(name="(a+)+$")
    with pytest.raises(PatternError, match="takes too long"):
        filters.NameFilter("(a+)+$")(graph.events.assign(s_name=graph.events.name))
