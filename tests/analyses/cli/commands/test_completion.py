"""What a real shell completes with the script that ``hta-graph completion`` prints."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from analyses.cli.command import every_command
from analyses.cli.commands.schema_and_completion import SHELLS
from tests.support.cli_parsers import options_of, parsers_by_command
from tests.support.command_line import one_error, run_command

Completed = Callable[..., list[str]]

ASKED = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
complete -p hta-graph | grep -oE '[-]F [^ ]+' | { read -r _ function; echo "$function"; } > function
"$(cat function)" hta-graph "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
"""What Bash does when the tabulator is pressed behind some words."""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the script of Bash as a user has it written."""
    pytest.importorskip("shtab", reason="shtab is absent; pip install 'hta-graph[completion]' runs them")
    made = tmp_path_factory.mktemp("completion") / "hta-graph.bash"
    command = [sys.executable, "-m", "hta_graph", "completion", "bash"]
    made.write_bytes(subprocess.run(command, check=True, capture_output=True).stdout)
    return made


@pytest.fixture
def completed(script: Path, tmp_path: Path) -> Completed:
    """Return what asks Bash for what some words, the last one unfinished, can become, in a folder with two traces."""
    for name in ("trace0.json.gz", "trace1.json.gz"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "job").mkdir()

    def ask(*words: str) -> list[str]:
        command = ["bash", "--norc", "-c", ASKED, "bash", str(script), "hta-graph", *words]
        done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True, timeout=60)
        assert done.stderr == ""
        return sorted(filter(None, (line.strip() for line in done.stdout.splitlines())))

    return ask


def test_commands_are_completed(completed: Completed) -> None:
    assert completed("crit") == ["critical-path"]
    assert set(completed("")) >= {command.name for command in every_command()}
    assert completed("chakra", "s") == ["scale", "simulate", "statistics"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("words", list(parsers_by_command()), ids=" ".join)
def test_every_option_of_every_command_is_completed(words: tuple[str, ...], completed: Completed) -> None:
    shown = {
        option for action in options_of(words) for option in action.option_strings if action.help != "==SUPPRESS=="
    }
    long = {option for option in shown if option.startswith("--")}
    assert long <= set(completed(*words, "--"))


def test_choices_are_completed(completed: Completed) -> None:
    assert completed("stragglers", "job", "--summaries", "") == ["always", "never"]
    assert completed("completion", "") == sorted(SHELLS)


def test_files_are_completed_where_files_are_taken(completed: Completed) -> None:
    assert completed("critical-path", "trace") == ["trace0.json.gz", "trace1.json.gz"]
    assert completed("critical-path", "trace0.json.gz", "--overlay", "tr") == ["trace0.json.gz", "trace1.json.gz"]
    assert completed("chakra", "check", "") == ["job"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_each_shell_is_one_that_it_reads(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("shtab", reason="shtab is absent; pip install 'hta-graph[completion]' runs them")
    status, out, err = run_command(capsys, "completion", shell)
    assert (status, err) == (0, "")
    assert all(command.name in out for command in every_command())
    if shutil.which(shell) and shell != "tcsh":
        (tmp_path / "script").write_text(out, encoding="utf-8")
        subprocess.run([shell, "-n", tmp_path / "script"], check=True)


def test_without_what_makes_it_the_extra_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert "pip install 'hta-graph[completion]'" in one_error(capsys, tmp_path, "completion", "bash")


def test_a_shell_that_is_not_known_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = one_error(capsys, tmp_path, "completion", "fsh", status=2)
    assert "SHELL: expected bash, zsh, fish or tcsh, got 'fsh'; did you mean fish?" in line


class Zsh:
    """A zsh that believes that somebody types; it is told with which completions in a folder it begins."""

    def __init__(self, functions: Path, folder: Path) -> None:
        self._typed, side = pty.openpty()
        env = {**os.environ, "TERM": "dumb", "HOME": str(folder)}
        self._process = subprocess.Popen(
            ["zsh", "-f", "-i"], stdin=side, stdout=side, stderr=side, cwd=folder, env=env, start_new_session=True
        )
        os.close(side)
        start = f"unsetopt zle_bracketed_paste; fpath=({functions} $fpath); autoload -U compinit; compinit -u -D"
        self.type(f"{start}; echo rea''dy\n", "ready")

    def type(self, text: str, expected: str, seconds: float = 30) -> str:
        """Type a text and return what is shown until something is there, or time is over."""
        os.write(self._typed, text.encode())
        shown, end = "", time.monotonic() + seconds
        while expected not in shown and time.monotonic() < end:
            if select.select([self._typed], [], [], 0.1)[0]:
                shown += os.read(self._typed, 1 << 16).decode(errors="replace")
        return shown

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        os.close(self._typed)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is absent")
def test_zsh_completes_commands_options_choices_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab", reason="shtab is absent; pip install 'hta-graph[completion]' runs them")
    functions = tmp_path / "functions"
    functions.mkdir()
    (functions / "_hta-graph").write_text(run_command(capsys, "completion", "zsh")[1], encoding="utf-8")
    (tmp_path / "trace.json.gz").write_bytes(b"")
    zsh = Zsh(functions, tmp_path)
    try:
        for typed, completed in (
            ("crit", "critical-path "),
            ("chakra conv", "convert "),
            ("stragglers job --summ", "--summaries "),
            ("stragglers job --summaries al", "always "),
            ("critical-path tra", "trace.json.gz "),
        ):
            line = f"hta-graph {typed}"
            assert completed in zsh.type(f"{line}\t", completed), line
            zsh.type("\x15", "", 0.1)  # the line is taken back
    finally:
        zsh.close()


def fish_completes(line: str, folder: Path, script: Path) -> list[str]:
    """Return what fish offers for a command line, in order, without the descriptions."""
    command = ["fish", "--no-config", "-c", f"source '{script}'; complete -C '{line}'"]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    return [offer.partition("\t")[0] for offer in done.stdout.splitlines()]


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is absent")
def test_fish_completes_commands_options_choices_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, script = tmp_path / "here", tmp_path / "hta-graph.fish"
    (folder / "job").mkdir(parents=True)
    (folder / "trace.json.gz").write_bytes(b"")
    assert run_command(capsys, "completion", "fish", "-o", script) == (0, "", "")
    for line, offered in {
        "crit": ["critical-path"],
        "chakra s": ["scale", "simulate", "statistics"],
        "--ver": ["--version"],
        "stragglers job --summ": ["--summaries"],
        "stragglers job --summaries ": ["always", "never"],
        "completion ": sorted(SHELLS),
        "critical-path tra": ["trace.json.gz"],
        "critical-path x --overlay tr": ["trace.json.gz"],
        "critical-path x --step ": [],
        "chakra check ": ["job/"],
    }.items():
        assert sorted(fish_completes(f"hta-graph {line}", folder, script)) == offered, line
