"""The help: it lists every command by what people want, and its examples run."""

from __future__ import annotations

import io
import re
import shlex
import shutil
from importlib import import_module
from pathlib import Path

import pytest

import hta_graph as hg
from analyses.cli.command import Command, CommandGroup, command_groups, every_command
from analyses.cli.main import main
from analyses.cli.options import SHOWN_BY_HELP_ALL
from analyses.cli.parser import EXIT_STATUSES, FIRST_COMMANDS
from tests.support.astra_log import Ran, log_text, write_workload
from tests.support.cli_parsers import options_of
from tests.support.command_line import run_command
from tests.support.deep_tests import deep
from tests.support.host_builder import host_of

ROOT = Path(__file__).parents[3]
COMMAND_FILES = ROOT / "analyses" / "cli" / "commands"
PAGE = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
GROUPS = {group: tuple(command.name for command in commands) for group, commands in command_groups().items()}
BY_NAME = {
    f"{command.name} {one.name}" if isinstance(command, CommandGroup) else one.name: one
    for command in every_command()
    for one in (command.commands if isinstance(command, CommandGroup) else (command,))
}
OF_SECONDS = {
    "report", "roofline", "timeline", "idle-time", "diff", "collectives", "stragglers", "what-if", "chakra convert",
    "chakra scale", "memory-timeline", "attribution", "kernel-sequences", "annotations", "overlap",
}  # fmt: skip
"""Commands whose examples take long together; other tests run each of them."""


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "traces"
    assert main(["demo", "--traces", str(folder)]) == 0
    return folder


@pytest.fixture
def standing_there(traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a fresh folder with the bundled traces, as a reader does."""
    folder = tmp_path / "there"
    shutil.copytree(traces, folder)
    monkeypatch.chdir(folder)
    return folder


def record_elsewhere(name: str, folder: Path) -> None:
    """Write what some commands read and what PyTorch's observer and ASTRA-sim record: it is not bundled."""
    if name == "mcp":
        (folder / "traces").mkdir()
    if name == "chakra link":
        shutil.copy(folder / "trace.json.gz", folder / "device.json")
        host_of(hg.build_graph(hg.read_trace(folder / "device.json"))).write(folder / "host.json")
    if name == "chakra statistics":
        nodes = [Ran(1, 0, 50), Ran(2, 50, 90, "all_reduce", "COMM_COLL_NODE")]
        write_workload(folder / "workload", [nodes, nodes])
        (folder / "log").mkdir()
        (folder / "log" / "log.log").write_text(log_text([nodes, nodes]))


def declared_in_files() -> set[str]:
    """Return the names of all commands that files declare, those of groups with the group's."""
    modules = [import_module(f"analyses.cli.commands.{path.stem}") for path in COMMAND_FILES.glob("[a-z]*.py")]
    found = [one for module in modules for one in vars(module).values() if isinstance(one, Command | CommandGroup)]
    inner = {one for group in found if isinstance(group, CommandGroup) for one in group.commands}
    return {one.name for one in found if one not in inner}


def test_every_command_has_its_help_and_a_group() -> None:
    names = [command.name for command in every_command()]
    assert sorted(names) == sorted(set(names))
    assert declared_in_files() <= {*BY_NAME, *names}
    assert [name for name, command in BY_NAME.items() if not command.examples] == []
    assert [command.page for command in BY_NAME.values() if not (ROOT / "docs" / command.page).is_file()] == []
    assert [name for name, command in BY_NAME.items() if not command.more.endswith(".")] == []


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", [deep(name) if name in OF_SECONDS else name for name in BY_NAME])
def test_every_example_of_a_command_runs(
    name: str, standing_there: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record_elsewhere(name, standing_there)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))  # nobody asks the server
    for example in BY_NAME[name].examples:
        line, into, target = example.partition(" > ")
        status, out, err = run_command(capsys, *shlex.split(line))
        assert status == 0, (example, err)
        if into:
            (standing_there / target).write_text(out, encoding="utf-8")
    assert BY_NAME[name].examples[-1].startswith(name), "the last example is of the command itself"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", BY_NAME)
def test_the_full_help_of_a_command_shows_examples_statuses_and_the_page(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    status, out, err = run_command(capsys, *name.split(), "--help-all")
    assert (status, err) == (0, "")
    shown = " ".join(out.split())
    about = BY_NAME[name]
    assert about.more in shown
    assert [line for line in about.examples if f"\n  hta-graph {line}\n" not in out] == []
    assert [text for number, text in EXIT_STATUSES.items() if f"{number} {text}" not in shown] == []
    assert out.endswith(f"more: docs/{about.page}\n")


@pytest.mark.parametrize("name", BY_NAME)
def test_the_help_of_a_command_fits_a_page_with_examples_first(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    status, out, err = run_command(capsys, *name.split(), "--help")
    assert (status, err) == (0, "")
    assert len(out.splitlines()) <= 30
    assert max(len(line) for line in out.splitlines() if not line.startswith(("  hta-graph ", "usage: "))) <= 80
    assert out.index("\nexamples ") < out.index("\noptions:")
    assert [line for line in BY_NAME[name].examples if f"\n  hta-graph {line}\n" not in out] == []
    known = {option for action in options_of(tuple(name.split())) for option in action.option_strings}
    usual = {"--rank", "-o", "--json", "--step", "--annotation", "--window", "--whole"} & known
    assert [option for option in usual if not re.search(rf"^  {option}[ ,]", out, re.MULTILINE)] == []
    assert out.endswith(f"more: docs/{BY_NAME[name].page}; hta-graph {name} --help-all\n")
    assert run_command(capsys, "help", *name.split()) == (0, out, "")


def test_the_page_of_commands_has_the_options_that_the_short_help_leaves_out() -> None:
    left_out = {
        option
        for name in BY_NAME
        for action in options_of(tuple(name.split()))
        if action.dest in SHOWN_BY_HELP_ALL
        for option in action.option_strings
    }
    assert [option for option in sorted(left_out) if f"`{option}" not in PAGE] == []


def test_the_help_of_a_command_lists_no_other_command(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run_command(capsys, "info", "--help")
    assert "--formats" in out
    assert not [group for group in GROUPS if f"\n{group}:" in out]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("columns", [60, 80, 140])
def test_the_help_of_the_program_lists_commands_by_group_in_the_width_that_there_is(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    status, out, _ = run_command(capsys, "--help")
    assert status == 0
    sections = re.findall(r"^(\S.*):$", out, re.MULTILINE)
    assert sections == [*GROUPS, "options", "try first", "exit status"]
    for group, text in zip(GROUPS, re.split(r"^\S.*:$", out, flags=re.MULTILINE)[1:], strict=False):
        assert tuple(re.findall(r"^  ([a-z-]+)", text, re.MULTILINE)) == GROUPS[group], group
    assert max(len(line) for line in out.splitlines() if not line.startswith("  hta-graph ")) <= columns
    assert [line for line in FIRST_COMMANDS if line not in out] == []
    assert run_command(capsys, "help") == (0, out, "")


def test_the_page_of_commands_has_every_command_in_the_order_of_the_help() -> None:
    named = re.findall(r"^\| `hta-graph ((?:chakra )?[a-z-]+)", PAGE, re.MULTILINE)
    wanted = [name for names in GROUPS.values() for name in names]
    assert named == [words for name in wanted for words in BY_NAME if words.split()[0] == name]
    assert re.findall(r"^## (.*)$", PAGE, re.MULTILINE)[: len(GROUPS)] == [group.capitalize() for group in GROUPS]


def test_the_page_of_commands_has_every_exit_status() -> None:
    assert re.findall(r"^\| (\d+) \| (.*) \|$", PAGE, re.MULTILINE) == [
        (str(status), meaning) for status, meaning in EXIT_STATUSES.items()
    ]
