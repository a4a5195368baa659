"""What a real shell completes with the script that ``hta-graph completion`` prints."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from analyses.command_line.command_help import HELP
from analyses.command_line.completion_command import SHELLS
from tests.support.command_line import one_error, run_command
from tests.support.every_command import every_command, options_of

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
    assert set(completed("")) >= {name.split()[0] for name in HELP}
    assert completed("chakra", "s") == ["scale", "simulate", "statistics"]


@pytest.mark.parametrize("words", list(every_command()), ids=" ".join)
def test_every_option_of_every_command_is_completed(words: tuple[str, ...], completed: Completed) -> None:
    shown = {
        option for action in options_of(words) for option in action.option_strings if action.help != "==SUPPRESS=="
    }
    long = {option for option in shown if option.startswith("--")}
    assert long <= set(completed(*words, "--"))


def test_choices_are_completed(completed: Completed) -> None:
    assert completed("stragglers", "job", "--skeletons", "") == ["always", "never"]
    assert completed("completion", "") == sorted(SHELLS)


def test_files_are_completed_where_files_are_taken(completed: Completed) -> None:
    assert completed("critical-path", "trace") == ["trace0.json.gz", "trace1.json.gz"]
    assert completed("critical-path", "trace0.json.gz", "--overlay", "tr") == ["trace0.json.gz", "trace1.json.gz"]
    assert completed("chakra", "check", "") == ["job"]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_each_shell_is_one_that_it_reads(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("shtab", reason="shtab is absent; pip install 'hta-graph[completion]' runs them")
    status, out, err = run_command(capsys, "completion", shell)
    assert (status, err) == (0, "")
    assert all(name.split()[0] in out for name in HELP)
    if shutil.which(shell) and shell != "tcsh":
        (tmp_path / "script").write_text(out, encoding="utf-8")
        subprocess.run([shell, "-n", tmp_path / "script"], check=True)


def test_without_what_makes_it_the_extra_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert "pip install 'hta-graph[completion]'" in one_error(capsys, tmp_path, "completion", "bash")


def test_a_shell_that_is_not_known_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "choose from" in one_error(capsys, tmp_path, "completion", "fish", status=2)
