"""What `info` says of a rank."""

from __future__ import annotations

from pathlib import Path

from analyses.display.console import text_of
from analyses.questions.info import info_document, info_lines
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
