"""Every output of every command is compared with every input and every other output before any work is done."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest

from tests.support.cli_parsers import parsers_by_command
from tests.support.command_line import folder_contents, one_error, run_command
from tests.support.deep_tests import deep
from tests.support.output_commands import Output, WritingCommand, names_a_file, write_inputs, writing_commands

pytestmark = pytest.mark.sampled(2)

NAMES_OF_FILES = {"FILE", "DIR", "OUT", "INPUT", "LOG", "BEFORE", "AFTER", "CAPTURE_TRACE", "BASELINE", "NEW"}
"""What the help calls an argument that is a file or folder."""

COMMANDS = [command for command in writing_commands() if command.inputs]
by_name = pytest.mark.parametrize(
    "command", [one if at % 3 == 0 else deep(one) for at, one in enumerate(COMMANDS)], ids=lambda command: command.name
)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_inputs(tmp_path_factory.mktemp("inputs"))


@pytest.fixture
def here(inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a folder with the inputs of all commands."""
    shutil.copytree(inputs, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def files_read(command: WritingCommand) -> list[Path]:
    named = [Path(name) for name in command.files_read()]
    return [file for path in named for file in (sorted(path.iterdir()) if path.is_dir() else [path])]


def test_whatever_names_a_file_is_declared_as_one() -> None:
    """This is what lets all of them be looked at: an option without it would be overwritten."""
    wrong = [
        f"{' '.join(words)} {action.dest}"
        for words, parser in parsers_by_command().items()
        for action in parser._actions
        if (action.metavar in NAMES_OF_FILES) != names_a_file(action)
    ]
    assert wrong == []


def refused(capsys: pytest.CaptureFixture[str], here: Path, arguments: list[str], said: str, status: int = 1) -> None:
    line = one_error(capsys, here, *arguments, status=status)
    assert said in line, (arguments, line)


# -- inputs -----------------------------------------------------------------------------------------------------------


def other_names(path: Path, number: int) -> Iterator[str]:
    """Yield names of a file: its own, one by a longer way, a symbolic link's, a link's to a link, a hard link's."""
    yield str(path)
    yield f"job/../{path}"
    soft, softer, hard = (Path("place", f"{kind}{number}{path.suffix}") for kind in ("soft", "softer", "hard"))
    soft.symlink_to(path.absolute())
    softer.symlink_to(soft.name)
    hard.hardlink_to(path)
    yield from map(str, (soft, softer, hard))


def with_target(command: WritingCommand, output: Output, target: str) -> list[str]:
    """Return a command line that writes an output, and those without which it is not written, to a target."""
    outputs = [Output(output.flag, output.is_folder, target, target), *command.beside(output)[1:]]
    return command.arguments(outputs)


@pytest.mark.sampled(12)
@by_name
def test_no_input_is_overwritten(capsys: pytest.CaptureFixture[str], here: Path, command: WritingCommand) -> None:
    named = [name for number, path in enumerate(files_read(command)) for name in other_names(path, number)]
    for at, output in enumerate(output for output in command.outputs if not output.is_folder):
        # Each output meets names of another kind.
        for name in named[at % 2 :: 2]:
            # A gate fails with status 1 for a regression alone.
            status = 3 if command.name == "gate" else 1
            said = "is an input, and inputs are never overwritten"
            refused(capsys, here, with_target(command, output, name), said, status)


@by_name
def test_no_folder_with_an_input_is_written_anew(
    capsys: pytest.CaptureFixture[str], here: Path, command: WritingCommand
) -> None:
    Path("link").symlink_to("job")
    Path("up").symlink_to(here.parent)
    forced = ["--force"] if any(action.dest == "force" for action in actions(command)) else []
    for output in command.outputs:
        for path in files_read(command) if output.is_folder else ():
            for folder in (path.parent, path.parent / "..", here, "up", f"up/here/{path.parent}"):
                # A folder that is above this one, or this one, cannot be replaced at all.
                is_plain = ".." not in Path(folder).parts and str(folder) != "."
                said = "an input, and inputs are never overwritten" if is_plain else ""
                refused(capsys, here, [*with_target(command, output, str(folder)), *forced], said)


def actions(command: WritingCommand) -> list[argparse.Action]:
    return parsers_by_command()[command.words]._actions


def test_an_output_in_the_input_folder_may_be_the_name_of_another_input(
    capsys: pytest.CaptureFixture[str], here: Path
) -> None:
    Path("job/rank1.json").rename("job/rank0_with_counters.json")
    refused(capsys, here, ["counters", "job", "-o", "job"], "job/rank0_with_counters.json: is an input")


def test_an_output_in_a_folder_may_be_a_link_to_an_input(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    Path("place/rank0_with_counters.json").symlink_to("../job/rank1.json")
    refused(capsys, here, ["counters", "job", "-o", "place"], "place/rank0_with_counters.json: is an input")


def test_counters_of_one_rank_may_stand_beside_it(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    before = folder_contents(here)
    assert run_command(capsys, "counters", "job", "-o", "job", "--rank", "0")[0] == 0
    after = folder_contents(here)
    assert after.keys() - before.keys() == {str(here / "job" / "rank0_with_counters.json")}
    assert {name: after[name] for name in before} == before


def test_dumps_that_nobody_named_are_inputs(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    shutil.copytree("dumps", "job/flight")
    refused(capsys, here, ["stragglers", "job", "--json", "job/flight/rank0.json"], "is an input")


# -- each other -------------------------------------------------------------------------------------------------------


@by_name
def test_no_two_outputs_are_one_file(capsys: pytest.CaptureFixture[str], here: Path, command: WritingCommand) -> None:
    Path("link").symlink_to("target.dot")
    for one, other in combinations(command.outputs, 2):
        for names in (("target.dot", "target.dot"), ("target.dot", "link"), ("-", "-")):
            given = [Output(output.flag, False, name, name) for output, name in zip((one, other), names, strict=True)]
            needed = [more for more in command.beside(one) if more.flag not in (one.flag, other.flag)]
            if "-" not in names or not (one.is_folder or other.is_folder):
                refused(capsys, here, command.arguments([*given, *needed]), "two outputs have this name", 2)


@by_name
def test_no_output_lies_in_a_folder_that_is_written_anew(
    capsys: pytest.CaptureFixture[str], here: Path, command: WritingCommand
) -> None:
    Path("link").symlink_to("new")
    Path("new").mkdir()
    for folder in (output for output in command.outputs if output.is_folder):
        for other in (output for output in command.outputs if not output.is_folder):
            for name in ("new/x.json", "link/x.json"):
                given = [Output(folder.flag, True, "new", "new"), Output(other.flag, False, name, name)]
                refused(capsys, here, command.arguments(given), "lies in new, which is replaced", 2)


def test_nothing_is_said_of_what_goes_nowhere(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    arguments = ("kernel-breakdown", "job", "--json", "/dev/null", "--csv", "/dev/null")
    assert run_command(capsys, *arguments) == (0, "", "")


# -- names that are none ----------------------------------------------------------------------------------------------


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    ("words", "action"),
    [
        (words, action)
        for words, parser in parsers_by_command().items()
        for action in parser._actions
        if names_a_file(action)
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value.dest,
)
def test_an_empty_name_is_refused(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], action: argparse.Action
) -> None:
    status, out, err = run_command(capsys, *words, *action.option_strings[-1:], "")
    assert (status, out) == (2, "")
    assert "expected a file name, got an empty one" in err
    assert err.count("\n") == 1


# -- the commands as they are meant -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        command if command.name in ("info", "graph", "chakra simulate") else deep(command)
        for command in writing_commands()
    ],
    ids=lambda command: command.name,
)
def test_each_command_writes_what_it_can_write_and_nothing_else(
    capsys: pytest.CaptureFixture[str], here: Path, command: WritingCommand
) -> None:
    before = folder_contents(here)
    status, _, err = run_command(capsys, *command.arguments(command.outputs))
    # Of runs of two steps a gate writes why it cannot compare them.
    can_compare = command.name != "gate" or "--update" in (output.flag for output in command.outputs)
    assert status == (0 if can_compare else 3), err
    after = folder_contents(here)
    assert {name: after[name] for name in before} == before
    new = {Path(name).relative_to(here).parts[0] for name in after.keys() - before.keys()} - {"place"}
    assert new == {Path(output.path).parts[0] for output in command.outputs} - {"place"}
    assert all(Path(output.path).exists() for output in command.outputs)
