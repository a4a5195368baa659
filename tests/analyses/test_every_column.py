"""Every column of every table of every analysis, as exact numbers: a share of less than the whole is noticed.

``small_job_answers.txt`` holds what the commands answer about :mod:`tests.support.small_job`, worked out by hand; a
share stands there as a fraction.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import hta_graph as hg
from analyses.command_line.catalogue import ANALYSES
from analyses.command_line.cli import main
from tests.support.small_job import ALL_REDUCE, COPY, one_rank, small_job

ANSWERS = Path(__file__).parent / "small_job_answers.txt"
OF_BOTH_RANKS = ("collectives", "stragglers")
OPTIONS = {
    "kernel-sequences": ("--operator", "aten::", "--min-pattern-len", "1"),
    "queue-length": ("--max-queue-length", "1"),
}
COMMANDS = (*(command.name for command in ANALYSES), "kernel-sequences")
SHORT = {ALL_REDUCE: "ALL_REDUCE", COPY: "COPY"}


def printed(value: Any) -> str:
    """Print a value: a number that is no integer as a fraction, if it is one to the last digit."""
    if isinstance(value, float) and not value.is_integer():
        fraction = Fraction(value).limit_denominator(2_000)
        return str(fraction) if abs(fraction - Fraction(value)) < 1e-12 else repr(value)
    if isinstance(value, float):
        return str(int(value))
    return SHORT.get(value, value) if isinstance(value, str) else str(value)


def lines(records: list[dict[str, Any]]) -> list[str]:
    """Print a table, its header first."""
    if not records:
        return ["(empty)"]
    return [" | ".join(records[0]), *(" | ".join(map(printed, record.values())) for record in records)]


@cache
def answers() -> dict[str, dict[str, list[str]]]:
    """Return the lines of each table that should be, by command."""
    found: dict[str, dict[str, list[str]]] = {}
    for block in ANSWERS.read_text(encoding="utf-8").strip().split("\n\n"):
        head, *rows = block.splitlines()
        command, table = head.removeprefix("# ").split(" / ")
        found.setdefault(command, {})[table] = rows
    return found


def test_every_analysis_has_its_numbers() -> None:
    assert set(answers()) == {*COMMANDS, "critical-path"}


@pytest.mark.parametrize("command", COMMANDS)
def test_an_answer_is_right_in_every_column(command: str, tmp_path: Path) -> None:
    paths = small_job(tmp_path)[: 2 if command in OF_BOTH_RANKS else 1]
    arguments = [*OPTIONS.get(command, ()), *map(str, paths), "--json", str(tmp_path / "answer.json")]
    assert main([command, *arguments]) == 0
    tables = json.loads((tmp_path / "answer.json").read_text(encoding="utf-8"))["tables"]
    assert {name: lines(rows) for name, rows in tables.items()} == answers()[command]


def path_tables(path: hg.CriticalPath) -> Iterator[tuple[str, pd.DataFrame]]:
    yield "by_bound", path.by_bound()
    yield "by_event", path.by_event()
    yield "by_lane", path.by_lane()
    yield "segments", path.segments
    yield "summary", path.summary()


def test_a_path_is_right_in_every_column(tmp_path: Path) -> None:
    path = hg.critical_path(one_rank(0).graph(tmp_path), hg.whole())
    tables = {name: frame.astype(object).where(frame.notna(), None) for name, frame in path_tables(path)}
    found = {name: lines(frame.to_dict("records")) for name, frame in tables.items()}
    assert found == answers()["critical-path"]
