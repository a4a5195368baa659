"""What a file says about itself without its events being decoded is what a full reading finds."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import hta_graph as hg
from hta_graph.base.errors import HtaGraphError
from hta_graph.trace import decompress, header
from hta_graph.trace.header import peek_header, text_size
from hta_graph.trace.rank_files import header_count

OP = {"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 1, "ts": 0, "dur": 5}
HERE = {"rank": 3, "world_size": 8, "nested": [{"a": {}}]}
BEHIND = '"traceName": "x", "distributedInfo": {"rank": 3}, "displayTimeUnit": "ms"}'

PLAIN = {
    "before": (json.dumps({"schemaVersion": 1, "distributedInfo": HERE, "traceEvents": [OP]}), 3),
    "behind": (f'{{"traceEvents": [{json.dumps(OP)}], {BEHIND}', 3),
    "at the very end": (f'{{"traceEvents": [{json.dumps(OP)}], "distributedInfo": {{"rank": 3}}}}', 3),
    "nowhere": (json.dumps({"schemaVersion": 1, "traceEvents": [OP] * 9}), None),
    "without a rank": (json.dumps({"distributedInfo": {"backend": "nccl"}, "traceEvents": [OP]}), None),
    "null": (json.dumps({"distributedInfo": None, "traceEvents": [OP]}), None),
    "a list": (json.dumps([OP]), None),
    "a list with space": ("\n [ \n" + json.dumps(OP) + "]", None),
    "quoted in a name": (json.dumps({"traceEvents": [{**OP, "name": 'x "distributedInfo": {"rank": 7}'}]}), None),
    "in an argument and behind": (
        f'{{"traceEvents": [{json.dumps({**OP, "args": {"distributedInfo": 7}})}], {BEHIND}',
        3,
    ),
    "broken off": (json.dumps({"distributedInfo": HERE, "traceEvents": [OP, OP]})[:-30], 3),
}
UNCLEAR = {
    "in an argument": (json.dumps({"traceEvents": [{**OP, "args": {"distributedInfo": {"rank": 7}}}, OP]}), None),
    "an inner traceEvents": (json.dumps({"x": {"traceEvents": [OP]}, "distributedInfo": HERE, "traceEvents": [OP]}), 3),
    "no events": (json.dumps({"distributedInfo": HERE, "traceEvents": []}), 3),
    "not strict": (json.dumps({"distributedInfo": HERE, "x": float("nan"), "traceEvents": [OP]}), 3),
}  # fmt: skip


def write_trace(path: Path, text: str) -> Path:
    """Write a file, compressed as its name says."""
    data = text.encode()
    if path.suffix == ".zst":
        data = pytest.importorskip("zstandard").compress(data)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def peeked_rank(path: Path) -> Any:
    """Return the rank that a look at the file tells, or that it is unclear."""
    header = peek_header(path)
    return "unclear" if header is None else header_count(header, "rank")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("ending", ["json", "json.gz", "json.zst"])
@pytest.mark.parametrize("chunk", [7, 1 << 17])
@pytest.mark.parametrize("case", PLAIN)
def test_a_header_is_found_before_and_behind_the_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, chunk: int, ending: str
) -> None:
    monkeypatch.setattr(decompress, "PIECE", chunk)
    text, rank = PLAIN[case]
    path = write_trace(tmp_path / f"t.{ending}", text)
    assert peeked_rank(path) == rank
    assert hg.read_trace(path, salvage=True).rank == rank


@pytest.mark.parametrize("case", UNCLEAR)
def test_what_is_not_plain_is_left_to_a_full_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.setattr(header, "ENDS_BYTES", 500)
    text, rank = UNCLEAR[case]
    path = write_trace(tmp_path / "t.json", text)
    assert peeked_rank(path) == "unclear"
    assert hg.read_trace(path).rank == rank


@pytest.mark.sampled(3)
@pytest.mark.parametrize("text", ["", "x", "7", "[1, 2]", "[[1]]", '{"nodes": []}', '{"traceEvents": 7}', "\ufeff[{}]"])
def test_what_is_no_trace_is_left_to_a_full_reading(tmp_path: Path, text: str) -> None:
    assert peek_header(write_trace(tmp_path / "t.json", text)) is None
    assert peek_header(tmp_path / "absent") is None
    assert peek_header(tmp_path) is None


@pytest.mark.sampled(3)
@pytest.mark.parametrize("damage", ["cut", "flipped", "cut early"])
def test_broken_compression_is_no_obstacle(tmp_path: Path, damage: str) -> None:
    text = json.dumps(
        {"distributedInfo": HERE, "traceEvents": [{**OP, "name": f"{n * 7919 % 1013}"} for n in range(999)]}
    )
    packed = bytearray(gzip.compress(text.encode()))
    if damage == "flipped":
        packed[len(packed) // 2] ^= 0x55
    path = tmp_path / "t.json.gz"
    path.write_bytes(packed[: {"cut": -10, "cut early": 15}.get(damage, len(packed))])
    assert peeked_rank(path) == ("unclear" if damage == "cut early" else 3)
    assert text_size(path) >= 0
    with pytest.raises(HtaGraphError):
        hg.read_trace(path)


def test_only_the_beginning_is_read_where_that_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    text = json.dumps({"distributedInfo": HERE, "traceEvents": [{**OP, "ts": n} for n in range(50_000)]})
    path.write_bytes(gzip.compress(text.encode())[:40_000])
    assert peeked_rank(path) == 3


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("ending", "least", "most"), [("json", 1, 1), ("json.gz", 1, 1), ("json.zst", 0.1, 20)])
def test_sizes_of_text(tmp_path: Path, ending: str, least: float, most: float) -> None:
    text = json.dumps({"traceEvents": [{**OP, "ts": n * 7919 % 10007} for n in range(5000)]})
    assert least * len(text) <= text_size(write_trace(tmp_path / f"t.{ending}", text)) <= most * len(text)
    assert text_size(tmp_path / "absent") == 0


@pytest.mark.shared
def test_real_traces(real_traces: list[Path]) -> None:
    for path in real_traces:
        header = peek_header(path)
        assert header is not None, path
        if path.stat().st_size < 100_000:
            assert header_count(header, "rank") == hg.read_trace(path).rank
        with gzip.open(path) as file:
            assert text_size(path) == len(file.read()), path
