"""Every analysis on traces that lack something: a table with its columns and a sentence, or one line that says why."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analyses import whole
from analyses.questions.catalogue import CATALOGUE, analysis
from hta_graph import build_graph
from hta_graph.trace.read import read_traces
from tests.support.command_line import run_command
from tests.support.deep_tests import deep
from tests.support.incomplete_traces import POOR_TRACES, TELLING, broken_off, cuda
from tests.support.shared_traces import SHARED
from tests.support.trace_builder import TraceBuilder

pytestmark = pytest.mark.sampled(2)

COMMANDS = {command.name: (command.name,) for command in CATALOGUE} | {
    "kernel-sequences": ("kernel-sequences", "--operator", "aten::")
}
NOTHING = re.compile(r"\b(nan|NaN|None|inf|<NA>|NaT)\b")
"""What a program prints where it has no number."""


SOME_COMMANDS = [name if at % 2 == 0 else deep(name) for at, name in enumerate(COMMANDS)]
BY_DEPTH = [make if make in TELLING else deep(make) for make in POOR_TRACES]


@pytest.fixture(scope="module", params=BY_DEPTH, ids=lambda make: make.__name__)
def inputs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = tmp_path_factory.mktemp(request.param.__name__)
    paths = request.param(folder)
    return [*paths, *(["--salvage"] if request.param is broken_off else [])]


def no_constant(text: str) -> Any:
    raise AssertionError(f"JSON holds {text}")


def check(
    capsys: pytest.CaptureFixture[str], folder: Path, command: tuple[str, ...], arguments: list[Any], plot: bool = False
) -> None:
    """Ask for everything at once; on failure there is one line, and no file."""
    outputs = [folder / name for name in ("answer.json", "answer.csv", "answer.html")[: 2 + plot]]
    written = [item for pair in zip(("--json", "--csv", "--plot"), outputs, strict=False) for item in pair]
    status, out, err = run_command(capsys, *command, *arguments, *written)
    lines = [line for line in err.splitlines() if "read up to" not in line and "salvaged" not in line]
    assert "Traceback" not in err
    if not all(path.exists() for path in outputs):
        assert status == 1, err
        assert len(lines) == 1, err
        assert not any(path.exists() for path in outputs)
        return
    assert status in (0, 1), err
    assert out.count("\n") <= 1, "beside files only the first sentence is printed"
    check_document(json.loads(outputs[0].read_text(), parse_constant=no_constant), command[0])
    check_columns(outputs[1])
    assert not plot or b"<html" in outputs[2].read_bytes()[:2_000].lower()
    for path in outputs:
        path.unlink()


def check_document(document: dict[str, Any], name: str) -> None:
    assert document["schema"] == f"hta-graph/{name}/1"
    assert document["scopes"]
    assert all(isinstance(row, dict) for rows in document["tables"].values() for row in rows)
    main = next(iter(document["tables"].values()))
    assert main or document["notes"], "nothing is said about an empty table"
    assert all(note.strip() and "nan" not in note.lower().split() for note in document["notes"])
    for rows in document["tables"].values():
        for row in rows:
            times = {key: value for key, value in row.items() if key.endswith("_ns")}
            assert all(isinstance(value, int | None) for value in times.values()), times


def check_columns(path: Path) -> None:
    header, *rows = csv.reader(path.read_text().splitlines())
    assert {"rank", "scope"} & set(header)
    assert len(header) >= 4
    assert len(set(header)) == len(header)
    assert all(len(row) == len(header) for row in rows)
    assert not any(cell.lower() in ("nan", "inf", "-inf", "none", "<na>") for row in rows for cell in row)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("plot", [False, deep(True)], ids=["tables", "pages too"])
@pytest.mark.parametrize("name", [name if at % 3 == 0 else deep(name) for at, name in enumerate(COMMANDS)])
def test_files_are_written_whole_or_not_at_all(
    name: str, inputs: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], plot: bool
) -> None:
    check(capsys, tmp_path, COMMANDS[name], inputs, plot)


@pytest.mark.parametrize("name", [name if at % 8 == 4 else deep(name) for at, name in enumerate(COMMANDS)])
def test_a_page_is_written_of_what_has_an_answer(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(capsys, tmp_path, COMMANDS[name], cuda(tmp_path), plot=True)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("inputs", BY_DEPTH, indirect=True)
@pytest.mark.parametrize("name", SOME_COMMANDS)
def test_a_terminal_gets_words_and_numbers(name: str, inputs: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run_command(capsys, *COMMANDS[name], *inputs)
    assert status in (0, 1)
    assert "Traceback" not in err
    assert out.strip() or len(err.splitlines()) == 1
    assert not NOTHING.search(out), out


@pytest.mark.sampled(9)
@pytest.mark.parametrize("inputs", BY_DEPTH, indirect=True)
@pytest.mark.parametrize("name", SOME_COMMANDS)
def test_every_step_is_answered_or_a_line_says_why_not(
    name: str, inputs: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check(capsys, tmp_path, COMMANDS[name], [*inputs, "--per-step"])


UNANSWERED = {
    "kernel-sequences": {"operator": "aten::", "min_pattern_len": 10_000},
    "operator-kernels": {"operators": "no such"},
}
"""Arguments to which an answer says what to ask instead."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("make", BY_DEPTH, ids=lambda make: make.__name__)
def test_notes_name_no_flags_in_python(make: Callable[[Path], list[Path]], tmp_path: Path) -> None:
    graphs = [build_graph(trace) for trace in read_traces(make(tmp_path), salvage=True)]
    scopes = [whole(at, graph) for at, graph in enumerate(graphs)]
    for asked in CATALOGUE:
        found = analysis(asked.name).answer(scopes, **UNANSWERED.get(asked.name, {}))
        assert all(isinstance(note, str) and "--" not in note for note in found.notes), asked.name
        assert len(found.on_command_line().notes) == len(found.notes)


@pytest.mark.sampled(9)
@pytest.mark.shared
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    "files",
    [
        ("vllm_hipgraph_mi300x",),
        ("cpu_only_gloo",),
        ("mtia_inference",),
        deep(("ascend_npu",)),
        deep(("oldest_format_array",)),
        ("execution_trace_sample", "sync_event_cpu"),
    ],
    ids="+".join,
)
def test_real_traces_that_lack_something_are_answered(
    files: tuple[str, ...], name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check(capsys, tmp_path, COMMANDS[name], [first_trace(name) for name in files])


def first_trace(name: str) -> Path:
    return next(path for path in sorted((SHARED / "traces" / name).iterdir()) if not path.name.startswith("host_et"))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_window_in_which_nothing_starts_has_words(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 3)
    trace.launch("long", (1, 2), (4, 90), 1)
    path = trace.write(tmp_path / "trace.json")
    start = int(next(read_traces(path)).events.start.min())
    window = ["--window", f"{start + 10_000}:{start + 20_000}"]
    status, out, err = run_command(capsys, *COMMANDS[name], path, *window)
    assert "Traceback" not in err
    assert (out if status == 0 else err).strip(), name
