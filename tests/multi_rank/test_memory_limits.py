"""A rank that takes more memory than there is costs one line, and the others are answered."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import hta_graph as hg
from hta_graph.base.errors import HtaGraphError, TooLargeError, TraceError
from hta_graph.multi_rank import read_engine, read_ranks
from hta_graph.multi_rank.read_engine import RankReading, RankRequest
from hta_graph.trace import read
from hta_graph.trace.rank_files import RankFile
from hta_graph.trace.read import read_rank
from tests.support.command_line import run_command
from tests.support.deep_tests import deep
from tests.support.trace_builder import TraceBuilder

MIB = 1 << 20


def job_folder(folder: Path, *ranks: int) -> Path:
    """Write a small trace for each rank; the names count down."""
    for rank in ranks:
        trace = TraceBuilder(distributedInfo={"rank": rank, "world_size": len(ranks)})
        trace.op("op", 0, 5)
        trace.write(folder / f"trace_{9 - rank}.json.gz")
    return folder


def bomb(path: Path, rank: int) -> None:
    packer = zlib.compressobj(1, wbits=31)
    begin = b'{"distributedInfo":{"rank":%d},"traceEvents":[{}' % rank
    path.write_bytes(b"".join([*map(packer.compress, [begin, *[b" " * MIB] * 24, b"]}"]), packer.flush()]))


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, deep(2)])
def test_a_bomb_among_ranks_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str], jobs: int) -> None:
    job_folder(tmp_path, 0, 1, 2)
    bomb(tmp_path / "trace_8.json.gz", 1)
    errors: list[HtaGraphError] = []
    found = hg.read_graphs(tmp_path, jobs=jobs, memory=100 * MIB, report=errors.append)
    assert [graph.trace.rank for graph in found] == [0, 2]
    (error,) = errors
    assert str(error).startswith(f"{tmp_path / 'trace_8.json.gz'}: holds more than 18 MiB of text, packed in 0.")
    status, out, err = run_command(capsys, "info", tmp_path, "--jobs", str(jobs), "--memory", "100M")
    assert (status, err.count("\n")) == (1, 1)
    assert "trace_9.json.gz" in out
    assert "trace_7.json.gz" in out


def run_out(file: RankFile, **how: Any) -> Any:
    if file.rank == 1:
        raise MemoryError
    return read_rank(file, **how)


def test_memory_that_runs_out_on_a_file_is_that_files_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_engine, "read_rank", run_out)
    errors: list[HtaGraphError] = []
    found = hg.read_graphs(job_folder(tmp_path, 0, 1, 2), jobs=1, memory=MIB, report=errors.append)
    assert [graph.trace.rank for graph in found] == [0, 2]
    (error,) = errors
    cause = "not enough memory to read it, too much for the 1 MiB that reading may take; allow more with memory"
    assert str(error) == f"{tmp_path / 'trace_8.json.gz'}: {cause}"


def test_memory_that_runs_out_on_the_only_file_is_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(read_ranks, "read_recordings", fail)
    with pytest.raises(TooLargeError, match=r"trace_9.json.gz: not enough memory to read it"):
        list(hg.read_graphs(job_folder(tmp_path, 0)))


def test_memory_that_runs_out_while_ranks_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header = read.peek_header

    def fail(path: Path) -> Any:
        if path.name == "trace_8.json.gz":
            raise MemoryError
        return header(path)

    monkeypatch.setattr(read, "peek_header", fail)
    errors: list[HtaGraphError] = []
    found = hg.read_graphs(job_folder(tmp_path, 0, 1, 2), jobs=1, report=errors.append)
    assert [graph.trace.rank for graph in found] == [0, 2]
    assert [type(error) for error in errors] == [TooLargeError]


class Short:
    """Stands for the pool of processes; some files take more memory than it seems, or than there is."""

    asked: list[tuple[int, int | None, int]]
    """Rank, what it may take, and how many are read already."""

    def __init__(self) -> None:
        self._busy: list[tuple[RankReading, int | None]] = []

    def read(self, file: RankFile, asked: RankRequest, *, memory: int | None) -> RankReading:
        assert asked == RankRequest()
        self.asked.append((file.rank, memory, len(self._busy)))
        made = RankReading(file)
        self._busy.append((made, memory))
        return made

    def wait(self, readings: Sequence[RankReading]) -> None:
        _, memory = self._busy.pop()
        (made,) = [item for item in readings if item.answer is None][-1:]
        needed = {1: 300, 3: 5000}.get(made.file.rank, 50)
        is_enough = needed <= (memory or 0)
        made.answer = hg.build_graph(read_rank(made.file)) if is_enough else TooLargeError(made.file.path, "too large")

    def __enter__(self) -> Short:
        return self

    def __exit__(self, *_: object) -> None:
        assert not self._busy


def test_a_file_that_takes_more_than_it_seems_is_read_again_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hta_graph.multi_rank.worker_readers.ProcessReader", Short)
    monkeypatch.setattr(Short, "asked", [], raising=False)
    monkeypatch.setattr(read_ranks, "peak_bytes", lambda _: 100)
    monkeypatch.setattr(read_ranks, "graph_bytes", lambda _: 0)
    errors: list[HtaGraphError] = []
    found = hg.read_graphs(job_folder(tmp_path, *range(5)), jobs=3, memory=400, report=errors.append)
    assert [graph.trace.rank for graph in found] == [0, 1, 2, 4]
    assert [type(error) for error in errors] == [TooLargeError]
    again = [(rank, busy) for rank, memory, busy in Short.asked if memory == 400]
    assert sorted(again) == [(1, 0), (3, 0)]
    assert sorted(rank for rank, memory, _ in Short.asked if memory == 100) == list(range(5))


def test_nothing_is_read_twice_where_a_file_needs_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hta_graph.multi_rank.worker_readers.ProcessReader", Short)
    monkeypatch.setattr(Short, "asked", [], raising=False)
    monkeypatch.setattr(read_ranks, "peak_bytes", lambda _: 500)
    with pytest.raises(TraceError, match="too large"):
        list(hg.read_graphs(job_folder(tmp_path, 1, 3), jobs=3, memory=400))
    assert Short.asked == [(1, 400, 0), (3, 400, 0)]
