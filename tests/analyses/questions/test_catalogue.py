"""What an analysis declares is true of its signature, help and files, and what is made of it is up to date."""

from __future__ import annotations

import argparse
import csv
import inspect
import json
import re
import sys
from pathlib import Path
from textwrap import dedent

import pytest

import analyses
from analyses.compare.diff import job_diff, run_diff
from analyses.declare.analysis import Analysis
from analyses.declare.columns import MORE, Table
from analyses.declare.description import OWNER_KINDS
from analyses.questions import raw_memory_timeline
from analyses.questions.catalogue import CATALOGUE, MODULES, analysis
from hta_graph.attribution.owners import OWNERS_BY_KIND
from tests.generate.made_files import SCHEMAS, made_files
from tests.simulator import Dialect
from tests.support.command_line import run_command
from tests.support.incomplete_traces import saved_file, simulated_bytes

pytestmark = pytest.mark.sampled(2)

ROOT = Path(__file__).parents[2]
ANALYSES = [analysis(entry.name) for entry in CATALOGUE]
every_analysis = pytest.mark.parametrize("asked", ANALYSES, ids=lambda item: item.name)


def required_flags(asked: Analysis) -> list[str]:
    """Give each flag without a default some value."""
    return [text for flag in asked.flags if flag.is_required for text in (flag.option, "aten::")]


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two_ranks")
    for rank in range(2):
        saved_file(folder / f"rank{rank}.json", simulated_bytes(Dialect(), rank, 2))
    return folder


def all_tables() -> list[tuple[str, Table]]:
    listed = [(f"{one.name} {name}", table) for one in ANALYSES for name, table in one.tables.items()]
    others = {
        "diff": run_diff.TABLES,
        "diff of jobs": job_diff.TABLES,
        "raw timeline": raw_memory_timeline.TABLES,
    }
    return listed + [(f"{of} {name}", table) for of, tables in others.items() for name, table in tables.items()]


@every_analysis
def test_flags_are_the_arguments_of_the_answer_with_the_same_defaults(asked: Analysis) -> None:
    _, *arguments = inspect.signature(asked.answer).parameters.values()
    assert {item.name for item in arguments} == {flag.argument for flag in asked.flags}
    for flag in asked.flags:
        default = next(item.default for item in arguments if item.name == flag.argument)
        assert default is (inspect.Parameter.empty if flag.is_required else flag.default), flag.argument


@every_analysis
def test_help_shows_what_is_asked_and_every_flag_with_its_default(
    asked: Analysis, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    status, out, _ = run_command(capsys, asked.name, "--help-all")
    assert status == 0
    shown = " ".join(out.split())
    assert asked.help in shown
    for flag in asked.flags:
        assert re.search(rf"{flag.option}( \S+)*? {re.escape(flag.help)}", shown), flag.option
        shows_default = flag.reader != "switch" and not flag.many and not flag.is_required and flag.default is not None
        default = f"{flag.default:g}" if isinstance(flag.default, float) else flag.default
        assert flag.help.endswith(f"(default: {default})") == shows_default


@every_analysis
def test_a_command_line_without_flags_gives_the_defaults(asked: Analysis) -> None:
    from analyses.cli.commands.analyses import analysis_command

    parser = argparse.ArgumentParser()
    (entry,) = (entry for entry in CATALOGUE if entry.name == asked.name)
    for add in analysis_command(entry).options:
        add(parser)
    given = required_flags(asked)
    required = iter(given[1::2])
    defaults = {flag.argument: next(required) if flag.is_required else flag.default for flag in asked.flags}
    assert entry.flags_in(parser.parse_args(["trace.json", *given])) == defaults


@pytest.mark.sampled(9)
@every_analysis
def test_json_and_csv_have_the_declared_columns(
    asked: Analysis, two_ranks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = [tmp_path / "answer.json", tmp_path / "answer.csv"]
    written = ["--json", str(outputs[0]), "--csv", str(outputs[1])]
    status, _, err = run_command(capsys, asked.name, two_ranks, *required_flags(asked), *written)
    assert status == 0, err
    tables = json.loads(outputs[0].read_text(encoding="utf-8"))["tables"]
    assert tables.keys() <= asked.tables.keys()
    for name, rows in tables.items():
        declared = [column for column in asked.tables[name] if column != MORE]
        assert all(list(row)[: len(declared)] == declared for row in rows), name
        assert MORE in asked.tables[name] or all(len(row) == len(declared) for row in rows), name
    header = next(csv.reader(outputs[1].read_text(encoding="utf-8").splitlines()))
    assert header == list(asked.tables[next(iter(tables))])


@every_analysis
def test_tables_of_nothing_have_the_declared_columns(asked: Analysis) -> None:
    found = asked.answer([], *required_flags(asked)[1::2])
    for name, frame in {**found.tables, **found.series}.items():
        assert list(frame.columns) == [column for column in asked.tables[name] if column != MORE]


ROOMS = ("analyses.questions", "analyses.compare.diff")
"""Where functions return tables of answers."""


def documented_columns() -> set[str]:
    """Return the columns that functions tell: what ``help`` shows of each."""
    modules = [module for name, module in sys.modules.items() if name.startswith(ROOMS)]
    functions = [function for module in modules for _, function in inspect.getmembers(module, inspect.isfunction)]
    return {dedent((function.__doc__ or "").partition("Columns:\n")[2]) for function in functions}


def test_a_function_says_the_columns_of_each_table() -> None:
    said = documented_columns()
    assert [name for name, table in all_tables() if repr(table) not in said] == []


QUESTIONS = {item.name: item.answer for item in ANALYSES} | {
    "diff": run_diff.answer,
    "raw": raw_memory_timeline.answer,
}
TABLES = {item.name: item.tables for item in ANALYSES} | {
    "diff": run_diff.TABLES,
    "raw": raw_memory_timeline.TABLES,
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", QUESTIONS)
def test_an_answer_says_what_comes_back_and_what_each_argument_is(name: str) -> None:
    answer = QUESTIONS[name]
    text = inspect.getdoc(answer) or ""
    assert "the command" not in text
    assert set(inspect.signature(answer).parameters) <= set(re.findall(r"^    (\w+): ", text, re.MULTILINE))
    # An attribution has one table, named after whose time it tells.
    named = {"gpu_time_by_operator"} if name == "attribution" else set(TABLES[name])
    assert named <= set(re.findall(r"``(\w+)``", text))


def test_every_question_is_a_public_name() -> None:
    for entry in CATALOGUE:
        name = entry.module.rpartition(".")[2]
        assert name in analyses.__all__
        module = getattr(analyses, name)
        assert (module.ANALYSIS, module.TABLES, module.answer) == (
            analysis(entry.name),
            analysis(entry.name).tables,
            analysis(entry.name).answer,
        )
        assert name == {"annotations": "annotation_times"}.get(entry.name, entry.name.replace("-", "_"))


@pytest.mark.sources
def test_what_is_made_of_the_declarations_is_that_of_now() -> None:
    texts = dict(made_files())
    stale = [path.name for path, text in texts.items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "python -m tests.generate writes them anew"
    assert {path for path in texts if path.suffix == ".json"} == set(SCHEMAS.glob("*.json"))
    assert tuple(entry.module for entry in CATALOGUE) == MODULES


def test_the_package_shows_its_public_names_and_nothing_else() -> None:
    assert dir(analyses) == sorted(analyses.__all__)


def test_owners_are_told_without_numpy_as_the_algorithms_know_them() -> None:
    assert tuple(OWNERS_BY_KIND) == OWNER_KINDS
    (by,) = analysis("memory-timeline").flags
    assert by.default in OWNERS_BY_KIND
