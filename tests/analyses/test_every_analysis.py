"""Every analysis on traces that lack something: a table with its columns and a sentence, or one line that says why."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analyses.catalogue import CATALOGUE
from tests.analyses.command_line.test_command_line import run
from tests.conftest import SHARED
from tests.simulator import Dialect, random_program, simulate, to_bytes, write
from tests.support.builder import PID, TraceBuilder

COMMANDS = {command.name: (command.name,) for command in CATALOGUE} | {
    "kernel-sequences": ("kernel-sequences", "--operator", "aten::")
}
COUNTED = ("rank", "scope")
NOTHING = re.compile(r"\b(nan|NaN|None|inf|<NA>|NaT)\b")
"""What a program prints where it has no number."""


def simulated(dialect: Dialect, rank: int = 0, world: int = 1) -> bytes:
    document = write(simulate(random_program(rank + 3, "pytorch", 40)), dialect).document
    document["distributedInfo"] = {"rank": rank, "world_size": world}
    return to_bytes(document)


def cpu_only(folder: Path) -> list[Path]:
    trace = TraceBuilder()
    trace.annotation("ProfilerStep#1", 0, 50)
    trace.op("aten::add", 0, 5)
    trace.op("aten::mm", 10, 30)
    return [trace.write(folder / "cpu.json")]


def no_steps(folder: Path) -> list[Path]:
    trace = TraceBuilder(distributedInfo={"rank": 3, "world_size": 8})
    trace.op("aten::mm", 0, 9)
    trace.launch("gemm", (1, 2), (10, 20), 1)
    return [trace.write(folder / "one_of_eight.json")]


def no_events(folder: Path) -> list[Path]:
    return [TraceBuilder().write(folder / "empty.json")]


def only_metadata(folder: Path) -> list[Path]:
    trace = TraceBuilder()
    trace.row(ph="M", name="process_name", pid=PID, tid=0, ts=0, args={"name": "python"})
    return [trace.write(folder / "metadata.json")]


def only_instants(folder: Path) -> list[Path]:
    trace = TraceBuilder()
    trace.row(ph="i", cat="cpu_instant_event", name="[memory]", pid=PID, tid=1, ts=10, args={"Bytes": 5})
    return [trace.write(folder / "instants.json")]


def work_of_no_time_without_launches(folder: Path) -> list[Path]:
    trace = TraceBuilder()
    for at in range(3):
        trace.kernel("k", 10, 10, at + 1)
        trace.copy("Memcpy HtoD (Pageable -> Device)", 10, 10, at + 10)
    return [trace.write(folder / "no_time.json")]


def nothing_but_communication(folder: Path) -> list[Path]:
    trace = TraceBuilder()
    trace.annotation("ProfilerStep#1", 0, 30)
    trace.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", (1, 2), (10, 20), 1)
    return [trace.write(folder / "nccl.json")]


def cuda(folder: Path) -> list[Path]:
    return [saved(folder / "cuda.json", simulated(Dialect()))]


def amd(folder: Path) -> list[Path]:
    return [saved(folder / "amd.json", simulated(Dialect(vendor="rocm")))]


def two_vendors(folder: Path) -> list[Path]:
    for rank, vendor in enumerate(("cuda", "rocm")):
        saved(folder / f"rank{rank}.json", simulated(Dialect(vendor=vendor), rank, 2))  # type: ignore[arg-type]
    return [folder]


def broken_off(folder: Path) -> list[Path]:
    whole = simulated(Dialect())
    return [saved(folder / "broken.json", whole[: len(whole) // 3])]


def saved(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


MADE: tuple[Callable[[Path], list[Path]], ...] = (
    cpu_only,
    no_steps,
    no_events,
    only_metadata,
    only_instants,
    work_of_no_time_without_launches,
    nothing_but_communication,
    cuda,
    amd,
    two_vendors,
    broken_off,
)


@pytest.fixture(scope="module", params=MADE, ids=lambda make: make.__name__)
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
    status, out, err = run(capsys, *command, *arguments, *written)
    lines = [line for line in err.splitlines() if "read up to" not in line and "salvaged" not in line]
    assert "Traceback" not in err
    if not all(path.exists() for path in outputs):
        assert status == 1, err
        assert len(lines) == 1, err
        assert not any(path.exists() for path in outputs)
        return
    assert status in (0, 1), err
    assert not out
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


@pytest.mark.parametrize("name", COMMANDS)
def test_files_are_written_whole_or_not_at_all(
    name: str, inputs: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check(capsys, tmp_path, COMMANDS[name], inputs, plot=True)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_terminal_gets_words_and_numbers(name: str, inputs: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, *COMMANDS[name], *inputs)
    assert status in (0, 1)
    assert "Traceback" not in err
    assert out.strip() or len(err.splitlines()) == 1
    assert not NOTHING.search(out), out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_step_is_answered_or_a_line_says_why_not(
    name: str, inputs: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check(capsys, tmp_path, COMMANDS[name], [*inputs, "--per-step"])


@pytest.mark.shared
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    "files",
    [
        ("vllm_hipgraph_mi300x",),
        ("cpu_only_gloo",),
        ("mtia_inference",),
        ("ascend_npu",),
        ("oldest_format_array",),
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
