"""Every column of every table of every analysis, as exact numbers: a share of less than the whole is noticed.

``small_job_answers.txt`` holds what the commands answered about :mod:`tests.support.two_rank_job` once; its shares and
totals were checked by hand. A share stands there as a fraction. An analysis may have its own numbers in its test file
instead, as ``SMALL_JOB``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import hta_graph as hg
from analyses.cli.main import main
from analyses.declare.scope import in_window
from analyses.judgement.verdict import verdict
from analyses.questions.catalogue import CATALOGUE
from analyses.questions.raw_memory_timeline import CATEGORIES, RawTimeline, peak_table
from analyses.report.report import report_page
from tests.support.two_rank_job import ALL_REDUCE, COPY, one_rank, small_job

ANSWERS = Path(__file__).parent / "small_job_answers.txt"
OWN = re.compile(r'^SMALL_JOB = """\n(.*?)"""$', re.MULTILINE | re.DOTALL)
OF_BOTH_RANKS = ("collectives", "stragglers")
JOB_TABLES = {"overlap": ("overlap",), "idle-time": ("streams",)}
"""Tables that say more where both ranks are given."""
OPTIONS = {
    "kernel-sequences": ("--operator", "aten::", "--min-pattern-len", "1"),
    "queue-length": ("--max-queue-length", "1"),
}
COMMANDS = tuple(analysis.name for analysis in CATALOGUE)
SHORT = {ALL_REDUCE: "ALL_REDUCE", COPY: "COPY"}


@pytest.fixture
def path(tmp_path: Path) -> hg.CriticalPath:
    return hg.critical_path(one_rank(0).graph(tmp_path), hg.whole())


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
    texts = [ANSWERS.read_text(encoding="utf-8"), *own_answers()]
    for block in "\n\n".join(text.strip() for text in texts).split("\n\n"):
        head, *rows = block.splitlines()
        command, table = head.removeprefix("# ").split(" / ")
        found.setdefault(command, {})[table] = rows
    return found


def own_answers() -> Iterator[str]:
    """Yield the answers that stand in the test file of an analysis."""
    for entry in CATALOGUE:
        for path in ANSWERS.parents[1].rglob(f"test_{entry.module.rpartition('.')[2]}.py"):
            if found := OWN.search(path.read_text(encoding="utf-8")):
                yield found[1]


def test_every_analysis_has_its_numbers() -> None:
    assert set(answers()) == {
        *COMMANDS,
        "critical-path",
        "critical-path of the job",
        *(f"{of} of the job" for of in JOB_TABLES),
    }


@pytest.mark.sampled(2)
@pytest.mark.parametrize("command", COMMANDS)
def test_an_answer_is_right_in_every_column(command: str, tmp_path: Path) -> None:
    paths = small_job(tmp_path)[: 2 if command in OF_BOTH_RANKS else 1]
    arguments = [*OPTIONS.get(command, ()), *map(str, paths), "--json", str(tmp_path / "answer.json")]
    assert main([command, *arguments]) == 0
    tables = json.loads((tmp_path / "answer.json").read_text(encoding="utf-8"))["tables"]
    assert {name: lines(rows) for name, rows in tables.items()} == answers()[command]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("command", JOB_TABLES)
def test_an_answer_about_both_ranks_is_right_in_every_column(command: str, tmp_path: Path) -> None:
    arguments = [*map(str, small_job(tmp_path)), "--json", str(tmp_path / "answer.json")]
    assert main([command, *arguments]) == 0
    tables = json.loads((tmp_path / "answer.json").read_text(encoding="utf-8"))["tables"]
    found = {name: lines(tables[name]) for name in JOB_TABLES[command]}
    assert found == answers()[f"{command} of the job"]


def test_the_path_of_the_job_is_right_in_every_column(tmp_path: Path) -> None:
    job = hg.critical_path(hg.read_job(small_job(tmp_path)), hg.annotation("forward"))
    tables = {name: frame.astype(object).where(frame.notna(), None) for name, frame in path_tables(job)}
    found = {name: lines(frame.to_dict("records")) for name, frame in tables.items()}
    assert found == answers()["critical-path of the job"]


def path_tables(path: hg.CriticalPath) -> Iterator[tuple[str, pd.DataFrame]]:
    yield "by_bound", path.by_bound()
    yield "by_event", path.by_event()
    yield "by_lane", path.by_lane()
    yield "segments", path.segments
    yield "summary", path.summary()


def test_a_path_is_right_in_every_column(path: hg.CriticalPath) -> None:
    tables = {name: frame.astype(object).where(frame.notna(), None) for name, frame in path_tables(path)}
    found = {name: lines(frame.to_dict("records")) for name, frame in tables.items()}
    assert found == answers()["critical-path"]


# -- what people read of the same numbers ------------------------------------------------------------------------------


def words(html: str) -> str:
    """Return what a page says, without markup."""
    return " ".join(re.sub(r"<style.*?</style>|<script.*?</script>|<[^>]*>", " ", html, flags=re.DOTALL).split())


def test_the_verdict_has_the_shares_of_the_path(path: hg.CriticalPath) -> None:
    bound, largest, known, *_ = verdict({0: path})
    assert (
        "bound by host time (97% of the critical path); without it, the window would be at most 78.0 µs (55%) shorter"
        in bound
    )
    assert "ProfilerStep#1 (CPU, no operator), 0.076 ms in 1 call." in largest
    assert known == "Unexplained: 0 ms."


@pytest.mark.slow
def test_the_report_lists_the_shares_of_the_path(path: hg.CriticalPath) -> None:
    text = words(report_page([in_window(0, path.graph, hg.whole())], {0: path}).decode())
    listed = text.split("name time ms path % calls bound by ")[1]
    assert listed.startswith(
        "ProfilerStep#1 0.076 53.5 1 CPU, no operator aten::mm 0.020 14.1 2 CPU work "
        "cudaLaunchKernel 0.012 8.5 3 CPU work"
    )


def test_a_notebook_shows_the_shares_of_the_path(path: hg.CriticalPath) -> None:
    text = words(path._repr_html_())
    assert "bound by ms share cpu_gap 0.084 59.2% cpu_bound 0.052 36.6% gpu_memory_bound 0.004 2.8%" in text
    assert "name bound by ms events ProfilerStep#1 cpu_gap 0.076 1 aten::mm cpu_bound 0.020 2" in text


def test_categories_of_the_raw_memory_timeline_have_shares_of_the_peak() -> None:
    totals = np.zeros((3, len(CATEGORIES)), np.int64)
    totals[:, 0], totals[:, 1] = (100, 60, 10), (20, 180, 0)
    rows = peak_table(RawTimeline(np.array([5, 6, 7]), totals)).drop(columns="category").to_numpy().tolist()
    assert rows[:2] == [[100, 60, 0.25, 100, 10], [20, 180, 0.75, 180, 0]]
    assert rows[-1] == [120, 240, 1.0, 240, 10]
