"""No cell of a CSV file is a formula to a spreadsheet, and whoever reads it can have the names back."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import example

from hta_graph.base.text.csv_text import csv_line, csv_rows, harmless_cell
from tests.support.command_line import command_json, run_command
from tests.support.deep_tests import deep, for_all
from tests.support.output_commands import WritingCommand, write_inputs, writing_commands
from tests.support.trace_builder import TraceBuilder
from tests.support.two_rank_job import one_rank

FORMULAS = ("=HYPERLINK(A1)", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "\uff1d1", "'=1", "'")
STARTS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
WITH_TABLES = [
    (command, output) for command in writing_commands() for output in command.outputs if output.path.endswith(".csv")
]


def rows_of(text: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text.decode(), newline="")))


def is_formula(cell: str) -> bool:
    return cell.strip(" ").startswith(STARTS_A_FORMULA) and not is_number(cell)


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


@pytest.mark.sampled(3)
@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_has_an_apostrophe_in_front(text: str) -> None:
    assert harmless_cell(text) == f"'{text}"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("cell", [-1, -0.5, None, True, "aten::add", "", "a=b", "x-y", "[memory]", "<built-in>", "数"])
def test_anything_else_is_left_alone(cell: object) -> None:
    assert harmless_cell(cell) is cell


@for_all(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1), examples=400)
@example(list(FORMULAS))
def test_whoever_takes_one_apostrophe_off_has_the_names_again(names: list[str]) -> None:
    written = csv_rows([names, [-7] * len(names)])
    found = rows_of(written)
    assert [cells[0].removeprefix("'") for cells in found] == names
    assert [cells[1] for cells in found] == ["-7"] * len(names)
    assert not any(cells[0].lstrip().startswith(STARTS_A_FORMULA) for cells in found)


def test_text_among_other_things_is_no_formula_either() -> None:
    assert csv_rows([[None, 3, "=1", True]]) == b"\n3\n'=1\nTrue\n".replace(b"\n3", b'""\n3', 1)


def test_a_heading_is_no_formula_either() -> None:
    assert csv_line(["ns", "=1+1"]) == b"ns,'=1+1\n"


def trace_of_formulas(folder: Path) -> Path:
    """Write a trace in which whatever has a name is called a formula."""
    trace = one_rank(0)
    for row in trace.rows:
        if row["name"] in ("gemm", "add", "aten::linear", "aten::mm", "aten::add", "forward"):
            row["name"] = f"={row['name']}"
        if "inst.sum" in row.get("args", {}):
            row["args"]["=1+inst.sum"] = row["args"].pop("inst.sum")
    return trace.write(folder / "rank0.json")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("command", "flag"),
    [
        (command, output.flag) if command.name in ("operator-kernels", "sync-deps") else deep(command, output.flag)
        for command, output in WITH_TABLES
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_no_table_of_any_command_holds_a_formula(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: WritingCommand,
    flag: str,
) -> None:
    monkeypatch.chdir(write_inputs(tmp_path / "in"))
    for path in (Path("job/rank0.json"), Path("job/rank1.json")):
        shutil.copy(trace_of_formulas(tmp_path), path)
    Path("job/rank1.json").write_text(Path("job/rank1.json").read_text().replace('"rank": 0', '"rank": 1'))
    run_command(capsys, "chakra", "convert", "job", "-o", "work", "--force")
    (output,) = (output for output in command.outputs if output.flag == flag)
    arguments = ["=" if part == "aten::" else part for part in command.arguments([output])]
    arguments += ["--operators", "="] if command.name == "operator-kernels" else []
    assert run_command(capsys, *arguments)[0] == 0
    text = Path(output.path).read_bytes()
    assert [cell for row in rows_of(text) for cell in row if is_formula(cell)] == []
    if command.name in ("operator-kernels", "kernel-sequences", "chakra simulate", "hardware-counters"):
        assert b"'=" in text  # the names are there


def test_json_has_the_names_as_they_are(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (rows, *_) = command_json(capsys, "operator-kernels", trace_of_formulas(tmp_path), "--operators", "=")[
        "tables"
    ].values()
    assert "=aten::mm" in {row["operator"] for row in rows}


def test_a_name_that_no_encoding_has_is_written_with_a_question_mark(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    trace = TraceBuilder()
    trace.launch("lone", (0, 2), (5, 9), 1)
    trace.call("cudaDeviceSynchronize", 4, 12)
    text = json.dumps(trace.document()).replace("lone", "\\ud800")
    (tmp_path / "t.json").write_text(text)
    status, out, err = run_command(capsys, "sync-deps", tmp_path / "t.json", "--csv", "-")
    assert status == 0, err
    assert "?" in out or "\ufffd" in out
