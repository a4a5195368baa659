"""Every number in an answer is one of the JSON document that the named command line writes."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analyses.mcp.answers import DIGITS
from analyses.mcp.questions import ANSWERS
from tests.support.command_line import command_json, run_command
from tests.support.mcp_session import answer, question, rows_of, sample_folder

TRACE = {"trace": "sample_trace.json.gz"}
JOB = {"trace": "four_ranks"}
RUNS = {"before": "sample_trace.json.gz", "after": "slower_trace.json.gz"}
JOBS = {"before": "four_ranks", "after": "four_ranks"}
QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    ("overview", TRACE),
    ("critical_path", {**TRACE, "step": 2}),
    ("what_if", TRACE),
    ("diff", RUNS),
    ("roofline", TRACE),
    ("idle_causes", TRACE),
    ("stragglers", JOB),
    ("sync_dependencies", TRACE),
    ("kernels", {**TRACE, "step": 1}),
]
MORE: list[tuple[str, dict[str, Any]]] = [
    ("overview", JOB),
    ("overview", {"trace": "serving.json.gz"}),
    ("critical_path", {**JOB, "step": 3, "order": "time"}),
    ("critical_path", {**TRACE, "annotation": "ProfilerStep#1"}),
    ("critical_path", {**JOB, "rank": 2, "whole": True}),
    ("what_if", {**JOB, "changes": ["scenario rank_like_others=2"]}),
    ("what_if", {**TRACE, "changes": ["scale kernel:gemm=0.5", "remove kernel:index_select_kernel"]}),
    ("diff", {**RUNS, "step": 2}),
    ("diff", JOBS),
    ("diff", {**JOBS, "rank": 1}),
    ("roofline", {"trace": "two_gpus.json.gz"}),
    ("idle_causes", {**JOB, "table": "longest_gaps", "offset": 3, "limit": 7}),
    ("kernels", {**JOB, "rank": 3}),
    ("kernels", {**TRACE, "table": "kernels", "offset": 2, "limit": 3}),
    ("sync_dependencies", {**JOB, "step": 2}),
    ("stragglers", {**JOB, "step": 3}),
]
OWN = {"byte_offset", "longest_event", "command", "tables", "length_ns"}
"""Keys of answers only: where rows are in the file, and the command line."""
ABOUT_ROWS = {"verdict", "names", "more_rows", "other_tables", "notes", "notes_left_out"}


def as_answered(value: Any) -> Any:
    """Return a value of a document as an answer has it, but for its texts."""
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, Mapping):
        return {key: as_answered(item) for key, item in value.items() if item is not None}
    return [as_answered(item) for item in value] if isinstance(value, list) else value


def assert_within(answered: Any, document: Any, where: str) -> None:
    """Check that each number of an answer's fact is that of the document."""
    if isinstance(answered, Mapping):
        for key, value in answered.items():
            assert key in document, where
            assert_within(value, document[key], f"{where}.{key}")
    elif isinstance(answered, list):
        for at, value in enumerate(answered):
            assert_within(value, document[at], f"{where}[{at}]")
    elif not isinstance(answered, str):
        assert answered == as_answered(document), where


def is_row_of(row: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    """Say whether a row has the numbers of a record; a segment's length is that of its ends."""
    for key, value in row.items():
        if key == "duration_ns" and "duration_ns" not in record:
            if value != record["end_ns"] - record["start_ns"]:
                return False
        elif key not in OWN and not isinstance(value, str) and value != as_answered(record.get(key)):
            return False
    return True


def table_of(document: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return a table of a document by the name that it has in answers."""
    if name == "findings":
        return document["verdict"][1:]
    if name == "path_after":
        return document["path_after"]["events"]
    tables: list[dict[str, Any]] = document.get("tables", document)[name]
    return tables


def fact_of(document: Mapping[str, Any], key: str) -> Any:
    """Return what a document says under a key of answers."""
    if key == "headline":
        return document["verdict"][0]
    return document["scopes"][0]["window"]["label"] if key == "window" and "scopes" in document else document[key]


def check_same(root: Path, tool: str, asked: Mapping[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    answered = answer(root, tool, asked)
    program, *words = shlex.split(answered["command"])
    assert program == "hta-graph"
    status, out, err = run_command(capsys, *words)
    assert status == 0, err
    document = json.loads(out)
    for key, value in answered.items():
        if key not in OWN | ABOUT_ROWS:
            assert_within(value, fact_of(document, key), key)
    assert "tables" in answered or not any(document["tables"].values())
    for name in answered.get("tables", ()):
        records, rows = table_of(document, name), rows_of(answered, name)
        assert rows or answered["tables"][name]["rows_left_out"]
        for row in rows:
            assert any(is_row_of(row, record) for record in records), (name, row)
        left_out = answered["tables"][name].get("rows_left_out", 0)
        assert asked.get("offset", 0) + len(rows) + left_out == len(records), name


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = sample_folder(tmp_path)
    monkeypatch.chdir(found)
    return found


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("tool", "asked"), QUESTIONS)
def test_every_number_is_that_of_the_command(
    tool: str, asked: dict[str, Any], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check_same(root, tool, asked, capsys)


@pytest.mark.slow
@pytest.mark.parametrize(("tool", "asked"), MORE)
def test_so_it_is_for_jobs_windows_and_pages(
    tool: str, asked: dict[str, Any], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check_same(root, tool, asked, capsys)


def test_open_describes_what_info_describes(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answered = answer(root, "open", TRACE)
    (document,) = command_json(capsys, "info", TRACE["trace"])["ranks"]
    assert_within(answered["kinds"], document["kinds"], "kinds")
    assert_within(answered["diagnostics"], document["diagnostics"], "diagnostics")
    assert rows_of(answered, "steps") == document["steps"]
    (rank,) = rows_of(answered, "ranks")
    assert rank == {key: document[key] for key in rank}
    assert all(lane in document["lanes"] for lane in rows_of(answered, "lanes"))


@pytest.mark.parametrize("rank", [None, pytest.param(1, marks=pytest.mark.slow)])
def test_an_event_is_explained_by_the_edges_of_the_graph(
    root: Path, capsys: pytest.CaptureFixture[str], rank: int | None
) -> None:
    asked = TRACE if rank is None else JOB
    document, first = command_json(capsys, "graph", asked["trace"]), question(root, asked)
    events = {(one.get("rank"), one["event_index"]): one for one in document["events"]}
    communication = [one for one in events.items() if "nccl" in one[1]["name"]][:8]
    for (of, index), event in [*list(events.items())[:: 9 if rank is None else 61], *communication]:
        given = {} if of is None else {"rank": of}
        again = replace(first, given={**asked, **given, "event_index": index, "limit": 100})
        answered = json.loads(ANSWERS["explain_event"](again).text(again.page))
        assert answered["start_ns"] == event["start_ns"]
        assert answered["duration_ns"] == event["end_ns"] - event["start_ns"]
        for side, end, other in (("before", "target", "source"), ("after", "source", "target")):
            expected = [
                edge for edge in document["edges"]
                if edge[f"{end}_index"] == index and edge.get(f"{end}_rank") == of
                and (edge[f"{other}_index"], edge.get(f"{other}_rank")) != (index, of)
            ]  # fmt: skip
            rows = rows_of(answered, side) if side in answered.get("tables", {}) else []
            total = answered["tables"][side].get("rows_in_all", len(rows)) if rows else 0
            assert total == len(expected)
            for row in rows:
                found = [edge for edge in expected if edge["lag_ns"] == row["lag_ns"] and edge["kind"] == row["kind"]]
                assert row.get("event_index") in [edge[f"{other}_index"] for edge in found]
