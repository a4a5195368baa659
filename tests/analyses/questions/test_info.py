"""What `info` says of a rank."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analyses.display.console import text_of
from analyses.questions.info import info_document, info_lines
from tests.support.command_line import run_command
from tests.support.cuspy_rows import forked_graph
from tests.support.trace_builder import TraceBuilder


def test_a_rank_is_told_with_its_gpus_and_steps(tmp_path: Path) -> None:
    trace = TraceBuilder(distributedInfo={"rank": 1, "world_size": 2}, deviceProperties=[{"name": "A100"}])
    trace.annotation("ProfilerStep#3", 0, 20)
    trace.launch("gemm", (3, 4), (5, 9), 1)
    found = info_document(trace.graph(tmp_path))
    assert (found["rank"], found["world_size"], found["gpus"], found["events"]) == (1, 2, ["A100"], 3)
    text = text_of(info_lines(found), None)
    assert "rank 1 of 2" in text
    assert "A100" in text


def test_what_a_recording_lacks_is_said_first(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for number in range(4):
        trace.call("cudaLaunchKernel", 100 * number, 100 * number + 8, number + 1)
        if number > 1:
            trace.kernel("gemm", 100 * number + 10, 100 * number + 60, number + 1)
        trace.call("cudaStreamSynchronize", 100 * number + 9, 100 * number + 70, 10 + number)
    found = info_document(trace.graph(tmp_path))["recording"]
    assert (found["is_whole"], found["launch_calls"], found["launch_calls_without_row"]) == (False, 4, 2)
    assert found["missing"][0].startswith(
        "2 of 4 launch calls have no recorded GPU activity: what the GPU did is not recorded for 140.0 µs ("
    )


def test_a_gpu_program_without_rows_of_the_gpu_is_not_complete(tmp_path: Path) -> None:
    whole, waits, convolves = TraceBuilder(), TraceBuilder(), TraceBuilder()
    whole.op("aten::add", 0, 10)
    waits.call("cudaDeviceSynchronize", 0, 676_000, 1)
    convolves.op("aten::cudnn_convolution", 0, 10)
    said = []
    for number, trace in enumerate((whole, waits, convolves)):
        (tmp_path / str(number)).mkdir()
        said.append(info_document(trace.graph(tmp_path / str(number)))["recording"]["missing"])
    assert said == [
        [],
        ["no GPU activity is recorded for 1 call that waits for a GPU"],
        ["no GPU activity is recorded for 1 operator that only a GPU runs"],
    ]


def test_the_recording_of_a_capture_alone_is_whole(tmp_path: Path) -> None:
    """What is captured into a graph runs when that is launched; a launch behind the capture is lost."""
    trace = TraceBuilder()
    trace.call("hipStreamBeginCapture", 0, 5, 1)
    trace.call("hipLaunchKernel", 10, 15, 2)
    trace.call("hipStreamEndCapture", 20, 25, 3)
    found = info_document(trace.graph(tmp_path))["recording"]
    assert (found["is_whole"], found["launch_calls"]) == (True, 1)
    trace.call("hipLaunchKernel", 30, 35, 4)
    found = info_document(trace.graph(tmp_path))["recording"]
    assert found["missing"] == ["no GPU activity is recorded for 1 launch call"]


def test_recorded_waits_are_counted_by_recorder_and_can_be_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = forked_graph(replays=2)
    trace.sync_row("Context Sync", 1_060, 1_485, 101)
    path = str(trace.write(tmp_path / "trace.json"))
    found = run_command(capsys, "info", path, "--json", "-")[1]
    ignored = run_command(capsys, "info", path, "--ignore-records", "--json", "-")[1]
    ranks = [json.loads(text)["ranks"][0] for text in (found, ignored)]
    assert [rank["recorded_by"] for rank in ranks] == [
        {"graph_arrows": 6, "sync_records": 2, "queue_records": 0},
        {"graph_arrows": 0, "sync_records": 0, "queue_records": 0},
    ]
    assert "recorded waits: 6 by graph arrows, 2 by sync records" in run_command(capsys, "info", path)[1]
