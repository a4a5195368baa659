"""What commands print on a terminal: nothing wider than it, no number cut, no heading cut, no word of prose broken."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from analyses.cli.main import main
from analyses.display.console import text_of
from analyses.display.text_layout import LONGEST_WORD, Line, TextTable, fitted
from analyses.questions import catalogue
from hta_graph.base.text.formatting import width_of
from tests.support.command_line import PROGRAM
from tests.support.samples import FOUR_RANKS, ONE_RANK
from tests.support.shared_traces import SHARED

WIDTHS = (60, 80, 120)
NEEDED = {"kernel-sequences": ["--operator", "aten::"]}
ANALYSES = [[entry.name, *NEEDED.get(entry.name, [])] for entry in catalogue.CATALOGUE]
OF_A_RANK = [
    *ANALYSES,
    ["attribution", "--by", "module"],
    ["idle-time", "--per-step"],
    ["temporal-breakdown", "--per-step"],
    ["info"],
    ["critical-path"],
    ["critical-path", "--per-step"],
    ["critical-path", "--near", "1%"],
    ["what-if"],
    ["what-if", "--scale", "class:gpu_compute_bound=0.5"],
    ["sync-deps"],
    ["graph"],
]
OF_A_JOB = [
    *ANALYSES,
    ["stragglers", "--all"],
    ["idle-time", "--all"],
    ["critical-path"],
    ["critical-path", "--per-step"],
    ["what-if"],
    ["what-if", "--scenario", "launches_free"],
]


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> list[list[Line]]:
    """Everything that commands print from here on, as lines."""
    found: list[list[Line]] = []

    def keep(lines: Sequence[Line], *, wide: bool = False, to: object = None) -> None:
        found.append([*lines])

    monkeypatch.setattr("analyses.display.console.print_lines", keep)
    return found


def check_screens(lines: Sequence[Line]) -> None:
    """Check the screens of an answer at each width."""
    for room in WIDTHS:
        screen = text_of(lines, room).splitlines()
        assert max(map(width_of, screen), default=0) <= room
        words = {word for line in screen for word in line.split()}
        for line in lines:
            if isinstance(line, TextTable):
                _check_table(line, room, screen, words)
            else:
                assert {word for word in line.split() if width_of(word) < room - 8} <= words


def _check_table(table: TextTable, room: int, screen: Sequence[str], words: set[str]) -> None:
    found = fitted(table, room)
    whole, shown = list(table.header), found.table
    assert all("…" not in heading for heading in shown.header)
    assert {word for heading in shown.header for word in heading.split()} <= words
    assert all(heading in whole for heading in [*shown.header, *found.left_out])
    for at, heading in enumerate(shown.header):
        if at in shown.texts:
            continue
        numbers = [row[at] for row in shown.rows]
        assert numbers in [[row[place] for row in table.rows] for place, one in enumerate(whole) if one == heading]
        assert {word for number in numbers for word in number.split()} <= words
    for at in shown.words:
        of_cells = {word for row in shown.rows for word in row[at].split()}
        assert {word for word in of_cells if len(word) <= LONGEST_WORD} <= words
    assert set(found.caption.split()) <= words


def run(arguments: Sequence[object]) -> None:
    with suppress(SystemExit):
        main([str(one) for one in arguments])


@pytest.mark.sampled(12)
@pytest.mark.parametrize("command", OF_A_RANK, ids=" ".join)
def test_answers_about_a_rank_fit(command: list[str], printed: list[list[Line]]) -> None:
    run([command[0], ONE_RANK, *command[1:]])
    assert printed
    for lines in printed:
        check_screens(lines)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("command", OF_A_JOB, ids=" ".join)
def test_answers_about_a_job_fit(command: list[str], printed: list[list[Line]]) -> None:
    run([command[0], FOUR_RANKS, *command[1:]])
    assert printed
    for lines in printed:
        check_screens(lines)


@pytest.mark.slow
def test_comparisons_and_lists_fit(printed: list[list[Line]]) -> None:
    ranks = sorted(FOUR_RANKS.glob("*.json*"))[:2]
    run(["diff", *ranks])
    run(["diff", FOUR_RANKS, FOUR_RANKS])
    run(["what-if", "--scenarios"])
    assert len(printed) == 3
    for lines in printed:
        check_screens(lines)


def files_of(name: str) -> Iterator[Path]:
    yield from sorted((SHARED / "traces" / name).glob("*rank*.json.gz"))


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("trace", ["sam_eager_a100", "owlv2_pystack_h100", "cupti_counters", "sync_alexnet_a100"])
def test_answers_about_real_ranks_fit(trace: str, printed: list[list[Line]]) -> None:
    for command in OF_A_RANK:
        run([command[0], SHARED / "traces" / trace, *command[1:]])
    assert len(printed) > 10
    for lines in printed:
        check_screens(lines)


@pytest.mark.shared
@pytest.mark.parametrize("trace", ["nanogpt_ddp_8xh100", "dlrm_8xv100"])
def test_answers_about_real_jobs_fit(trace: str, printed: list[list[Line]]) -> None:
    files = [path for path in files_of(trace) if not path.name.startswith("host")]
    for command in OF_A_JOB:
        run([command[0], *files, *command[1:]])
    run(["diff", *files[:2]])
    assert len(printed) > 10
    for lines in printed:
        check_screens(lines)


@pytest.mark.slow
@pytest.mark.shared
def test_two_ranks_are_compared_on_two_screens(printed: list[list[Line]]) -> None:
    run(["diff", *list(files_of("nanogpt_ddp_8xh100"))[:2]])
    (lines,) = printed
    assert len(text_of(lines, 80).splitlines()) <= 100


@pytest.mark.shared
@pytest.mark.slow
def test_each_cause_of_waiting_is_a_line_with_both_numbers(printed: list[list[Line]]) -> None:
    run(["stragglers", *files_of("nanogpt_ddp_8xh100")])
    (lines,) = printed
    causes = [line for line in lines if isinstance(line, TextTable)][1]
    shown = fitted(causes, 80).table
    assert set(shown.header) >= {"rank", "bound by", "caused ms", "caused %", "name"}
    assert sum("CompiledFunctionBackward" in line for line in text_of([causes], 80).splitlines()) == 1


def test_a_terminal_of_80_columns_gets_no_wider_line() -> None:
    """The whole way: a pseudo terminal of this size, a program of its own."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    env = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | {"NO_COLOR": "1"}
    command = [*PROGRAM, "critical-path", str(ONE_RANK)]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL, env=env) as program:
        os.close(theirs)
        text = b"".join(_read_until_closed(ours)).decode()
    assert program.returncode == 0
    screen = text.replace("\r\n", "\n").splitlines()
    assert 60 < max(map(width_of, screen)) <= 80


def _read_until_closed(terminal: int) -> Iterator[bytes]:
    # A pseudo terminal whose other end is closed answers with an error instead of nothing.
    with suppress(OSError):
        while part := os.read(terminal, 65536):
            yield part
    os.close(terminal)
