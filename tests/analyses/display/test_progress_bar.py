"""The bar of a terminal: drawn while things are done, gone at the end, never in a pipe."""

from __future__ import annotations

import io
import sys

import pytest

from analyses.display.stderr import ProgressLine, say, shown_stages
from hta_graph.base.progress import advance_stage, begin_stage


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drawn(monkeypatch: pytest.MonkeyPatch, file: io.StringIO, total: int, *, term: str = "xterm") -> str:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stderr", file)
    with ProgressLine("reading [bold]traces") as line:
        line.update(1, total)
        say("skipped a.json")
        line.update(2, total)
    return file.getvalue()


def test_a_terminal_gets_a_bar_that_is_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    text = drawn(monkeypatch, Terminal(), 3)
    assert "reading [bold]traces" in text
    assert "1 of 3" in text
    assert "2 of 3" in text
    assert text.endswith("\x1b[2K")
    assert "\x1b[2Kskipped a.json\n" in text


@pytest.mark.parametrize(
    ("file", "total", "term"), [(io.StringIO, 3, "xterm"), (Terminal, 1, "xterm"), (Terminal, 3, "dumb")]
)
def test_nothing_is_drawn_in_a_pipe_on_a_dumb_terminal_or_of_one_thing(
    monkeypatch: pytest.MonkeyPatch, file: type[io.StringIO], total: int, term: str
) -> None:
    assert drawn(monkeypatch, file(), total, term=term) == "skipped a.json\n"


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("analyses.display.stderr.monotonic", made)
    return made


def test_a_stage_is_shown_after_a_while_and_erased(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with shown_stages():
        begin_stage("reading trace.json")
        clock.now += 0.4
        advance_stage(40, 100)
        assert terminal.getvalue() == ""
        clock.now += 0.2
        advance_stage(60, 100)
        assert "reading trace.json" in terminal.getvalue()
        assert " 60%" in terminal.getvalue()
        clock.now += 0.05
        advance_stage(65, 100)
        assert " 65%" not in terminal.getvalue()
        begin_stage("building the graph")
        assert "building the graph …" in terminal.getvalue()
        say("a note")
        assert terminal.getvalue().endswith("\x1b[2Ka note\n")
        begin_stage("writing the report")
    assert terminal.getvalue().endswith("\x1b[2K")


def test_a_short_computation_shows_no_stage(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with shown_stages():
        for stage in ("reading", "building", "writing"):
            begin_stage(stage)
            clock.now += 0.1
    assert terminal.getvalue() == ""


@pytest.mark.parametrize(("file", "term"), [(io.StringIO, "xterm"), (Terminal, "dumb")])
def test_no_stage_is_shown_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, file: type[io.StringIO], term: str
) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr(sys, "stderr", written := file())
    with shown_stages():
        begin_stage("reading")
        clock.now += 5
        advance_stage(1, 2)
    assert written.getvalue() == ""
