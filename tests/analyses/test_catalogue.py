"""What an analysis declares stands once: its flags, defaults and columns are those of its signature, help and files."""

from __future__ import annotations

import argparse
import csv
import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest

import analyses
from analyses import flags
from analyses.catalogue import CATALOGUE, Analysis
from analyses.flags import OWNER_KINDS, MemoryTimelineFlags
from analyses.memory import raw_memory_timeline
from analyses.tables import MORE, Table
from analyses.two_runs import job_diff, run_diff
from hta_graph.algorithms.who.owners import OWNERS
from tests.simulator import Dialect
from tests.support.command_line import run_command
from tests.support.poor_traces import saved_file, simulated_bytes

pytestmark = pytest.mark.sampled(2)

ROOT = Path(__file__).parents[2]
every_analysis = pytest.mark.parametrize("analysis", CATALOGUE, ids=lambda item: item.name)


def required_flags(analysis: Analysis[Any]) -> list[str]:
    """Give each flag without a default some value."""
    return [text for flag in analysis.listed_flags if flag.is_required for text in (flag.option, "aten::")]


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two_ranks")
    for rank in range(2):
        saved_file(folder / f"rank{rank}.json", simulated_bytes(Dialect(), rank, 2))
    return folder


def documented_words(table: Table) -> set[str]:
    """Return the words behind ``Returns:`` in the docstring that explains a table."""
    text = inspect.getdoc(table.explained_by) or ""
    return set(re.findall(r"\w+", text.partition("Returns:")[2].partition("Raises:")[0]))


def all_tables() -> list[tuple[str, Table]]:
    listed = [(f"{one.name} {name}", table) for one in CATALOGUE for name, table in one.tables.items()]
    others = {"diff": run_diff.TABLES, "diff of jobs": job_diff.TABLES, "raw timeline": raw_memory_timeline.TABLES}
    return listed + [(f"{of} {name}", table) for of, tables in others.items() for name, table in tables.items()]


@every_analysis
def test_flags_are_the_arguments_of_the_answer_with_the_same_defaults(analysis: Analysis[Any]) -> None:
    _, *arguments = inspect.signature(analysis.question().answer).parameters.values()
    assert {item.name for item in arguments} == {flag.argument for flag in analysis.listed_flags}
    for flag in analysis.listed_flags:
        default = next(item.default for item in arguments if item.name == flag.argument)
        assert default is (inspect.Parameter.empty if flag.is_required else flag.default), flag.argument


@every_analysis
def test_flags_are_told_with_all_others(analysis: Analysis[Any]) -> None:
    assert analysis.flags.__name__ in flags.__all__


@every_analysis
def test_help_shows_what_is_asked_and_every_flag_with_its_default(
    analysis: Analysis[Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    status, out, _ = run_command(capsys, analysis.name, "--help")
    assert status == 0
    shown = " ".join(out.split())
    assert analysis.asks in shown
    for flag in analysis.listed_flags:
        assert re.search(rf"{flag.option}( \S+)*? {re.escape(flag.help)}", shown), flag.option
        shows_default = flag.read is not bool and not flag.many and not flag.is_required and flag.default is not None
        assert flag.help.endswith(f"({flag.default})") == shows_default


@every_analysis
def test_a_command_line_without_flags_gives_the_defaults(analysis: Analysis[Any]) -> None:
    from analyses.command_line.all_commands import command_of

    parser = argparse.ArgumentParser()
    for add in command_of(analysis).options:
        add(parser)
    from analyses.command_line.ask import told_flags

    given = required_flags(analysis)
    told = told_flags(analysis, parser.parse_args(["trace.json", *given]))
    assert vars(told) == vars(analysis.flags(*given[1:2]))


@pytest.mark.sampled(3)
@every_analysis
def test_json_and_csv_have_the_declared_columns(
    analysis: Analysis[Any], two_ranks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = [tmp_path / "answer.json", tmp_path / "answer.csv"]
    written = ["--json", str(outputs[0]), "--csv", str(outputs[1])]
    status, _, err = run_command(capsys, analysis.name, two_ranks, *required_flags(analysis), *written)
    assert status == 0, err
    tables = json.loads(outputs[0].read_text(encoding="utf-8"))["tables"]
    assert tables.keys() <= analysis.tables.keys()
    for name, rows in tables.items():
        declared = [column for column in analysis.tables[name].columns if column != MORE]
        assert all(list(row)[: len(declared)] == declared for row in rows), name
        assert MORE in analysis.tables[name].columns or all(len(row) == len(declared) for row in rows), name
    header = next(csv.reader(outputs[1].read_text(encoding="utf-8").splitlines()))
    assert header == list(analysis.tables[next(iter(tables))].columns)


@every_analysis
def test_tables_of_nothing_have_the_declared_columns(analysis: Analysis[Any]) -> None:
    found = analysis.answer([], analysis.flags(*required_flags(analysis)[1:2]))
    for name, frame in {**found.tables, **found.series}.items():
        assert list(frame.columns) == [column for column in analysis.tables[name].columns if column != MORE]


@pytest.mark.parametrize(("name", "table"), all_tables(), ids=[name for name, _ in all_tables()])
def test_every_column_is_explained(name: str, table: Table) -> None:
    assert {column for column in table.columns if column != MORE} - documented_words(table) == set(), name


QUESTIONS = {item.name: item.question() for item in CATALOGUE} | {"diff": run_diff, "raw": raw_memory_timeline}


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_answer_says_what_comes_back_and_what_each_argument_is(name: str) -> None:
    answer = QUESTIONS[name].answer
    text = inspect.getdoc(answer) or ""
    assert "the command" not in text
    assert set(inspect.signature(answer).parameters) <= set(re.findall(r"^    (\w+): ", text, re.MULTILINE))
    # An attribution has one table, named after whose time it tells.
    named = {"gpu_time_by_operator"} if name == "attribution" else set(QUESTIONS[name].TABLES)
    assert named <= set(re.findall(r"``(\w+)``", text))


def test_every_question_is_a_public_name() -> None:
    for analysis in CATALOGUE:
        name = str(getattr(analysis.question(), "__name__", "")).rpartition(".")[2]
        assert getattr(analyses, name) is analysis.question()
        assert name == {"annotations": "annotation_times"}.get(analysis.name, analysis.name.replace("-", "_"))


def test_the_package_shows_its_public_names_and_nothing_else() -> None:
    assert dir(analyses) == sorted(analyses.__all__)


def test_owners_are_told_without_numpy_as_the_algorithms_know_them() -> None:
    assert tuple(OWNERS) == OWNER_KINDS
    assert MemoryTimelineFlags().by in OWNERS
