"""One large file is read by several processes, with the answer of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hta_graph as hg
from hta_graph.base.errors import TraceError
from hta_graph.multi_rank import large_file, read_ranks
from hta_graph.multi_rank.large_file import collect_in_shares
from hta_graph.multi_rank.read_ranks import read_graphs
from hta_graph.multi_rank.workers.tasks import Task
from tests.support.compare_traces import same_columns
from tests.support.trace_builder import TraceBuilder


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of several parts that counts as large."""
    monkeypatch.setattr(read_ranks, "LARGE_TEXT", 1 << 20)
    trace = TraceBuilder(distributedInfo={"rank": 3})
    for at in range(8000):
        trace.launch(f"kernel {at % 7}", (at * 10, at * 10 + 5), (at * 10 + 6, at * 10 + 9), at + 1, tid=at % 2)
    return trace.write(tmp_path / "trace.json.gz")


@pytest.mark.slow
def test_processes_read_what_one_does(large: Path) -> None:
    assert collect_in_shares(large, 3, None) is not None
    (graph,) = read_graphs(large, jobs=3)
    assert len(graph.event_table) == 16_000
    assert same_columns(graph.trace, hg.read_trace(large))


@pytest.mark.parametrize("fault", ["damage", "an end"])
@pytest.mark.slow
def test_what_processes_cannot_read_is_read_here(large: Path, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if fault == "damage":
        large.write_bytes(large.read_bytes()[:-1000])
        with pytest.raises(TraceError, match=r"truncated at byte .*, after 1[56],... complete events"):
            next(iter(read_graphs(large, jobs=2)))
        return
    given = large_file._share_task

    def dies(path: Path, share: int, of: int, memory: int | None) -> Task:
        task = given(path, share, of, memory)
        return task if share else Task("hta_graph.multi_rank.workers.worker_main:os", {}, memory)

    monkeypatch.setattr(large_file, "_share_task", dies)
    assert collect_in_shares(large, 2, None) is None
    (graph,) = read_graphs(large, jobs=2)
    assert len(graph.event_table) == 16_000


@pytest.mark.slow
def test_little_memory_is_for_one_process(large: Path) -> None:
    assert collect_in_shares(large, 2, 1 << 20) is not None, "so little text is always read"


def test_what_is_not_worth_a_process_is_read_here(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("no process is started")

    monkeypatch.setattr(large_file, "WorkerPool", refuse)
    assert collect_in_shares(large, 1, None) is None
    monkeypatch.setattr(read_ranks, "LARGE_TEXT", 1 << 30)
    (graph,) = read_graphs(large, jobs=4)
    assert len(graph.event_table) == 16_000
