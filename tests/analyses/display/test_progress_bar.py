"""The bar of a terminal: drawn while things are done, gone at the end, never in a pipe."""

from __future__ import annotations

import io
import sys

import pytest

from analyses.display.stderr import ProgressLine


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drawn(monkeypatch: pytest.MonkeyPatch, file: io.StringIO, total: int, *, term: str = "xterm") -> str:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stderr", file)
    with ProgressLine("reading [bold]traces") as line:
        line.update(1, total)
        line.say("skipped a.json")
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
