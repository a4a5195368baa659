"""A file that is read in shares gives the trace that it gives as a whole."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

import hta_graph as hg
from hta_graph.base.errors import TraceError
from hta_graph.trace import decompress, json_reader
from hta_graph.trace.read import read_recordings
from hta_graph.trace.shares import join_shares, read_share, share_pieces
from hta_graph.trace.table import Trace
from tests.simulator import Dialect, random_program, simulate, to_bytes, write
from tests.support.compare_traces import same_columns
from tests.support.shared_traces import shared_traces
from tests.support.trace_builder import TraceBuilder


def read_in_shares(path: Path, count: int) -> Trace:
    """Read each share as a process does, and join them."""
    shares = []
    for share in range(count):
        head, *columns = share_pieces(str(path), share, count)
        record = json.loads(bytes(head))
        of_type = zip(record["columns"], columns, strict=True)
        shares.append((record, {name: np.frombuffer(data, dtype).copy() for (name, dtype, _), data in of_type}))
    (trace,), _ = read_recordings(path, salvage=False, collected=join_shares(path, shares))
    return trace


@pytest.mark.sampled(3)
@pytest.mark.parametrize("count", [2, 3, 50])
@pytest.mark.parametrize("time", ["us_int", "us_float_base", "epoch_us_3dec"])
@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_simulated_traces(time: str, count: int, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_reader, "PART_BYTES", 5000)
    dialect = Dialect(time=time, shuffle_seed=count)  # type: ignore[arg-type]
    path = tmp_path / f"trace{suffix}"
    text = to_bytes(write(simulate(random_program(count, "pytorch", 300)), dialect).document)
    path.write_bytes(gzip.compress(text) if suffix == ".json.gz" else text)
    assert same_columns(read_in_shares(path, count), hg.read_trace(path))


@pytest.mark.sampled(3)
@pytest.mark.shared
@pytest.mark.parametrize("name", ["sync_alexnet_a100", "vllm_hipgraph_mi300x", "ns_resolution_v100"])
def test_real_traces(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = next(path for path in shared_traces() if path.parent.name == name)
    monkeypatch.setattr(json_reader, "PART_BYTES", 50_000)
    assert same_columns(read_in_shares(path, 3), hg.read_trace(path))


def test_brackets_and_arrows_lead_from_one_share_to_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_reader, "PART_BYTES", 400)
    trace = TraceBuilder(distributedInfo={"rank": 2})
    for at in range(60):
        trace.row(ph="B", cat="cpu_op", name="outer", pid=1, tid=at % 3, ts=at * 10)
        trace.row(ph="s", cat="fwdbwd", name="fwdbwd", id=at, pid=1, tid=at % 3, ts=at * 10)
        trace.op("inner", at * 10 + 1, at * 10 + 2, tid=at % 3)
    for at in range(60):
        trace.row(ph="f", cat="fwdbwd", name="fwdbwd", id=at, pid=1, tid=7, ts=1000 + at)
        trace.row(ph="E", cat="cpu_op", name="outer", pid=1, tid=at % 3, ts=1000 + at)
    path = trace.write(tmp_path / "trace.json")
    whole = hg.read_trace(path)
    assert (len(whole.events), len(whole.flows), whole.rank) == (120, 60, 2)
    assert same_columns(read_in_shares(path, 4), whole)


@pytest.mark.parametrize("text", ["truncated", "an event in an event", "a list", "a long event"])
def test_what_cannot_be_cut_without_decoding_is_refused(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_reader, "PART_BYTES", 400)
    monkeypatch.setattr(decompress, "PIECE", 500)
    trace = TraceBuilder()
    for at in range(100):
        inner = [{"a": 1}] * (40 if text == "an event in an event" else 1)
        trace.op("a", at, at + 1, Shapes=inner, note="x" * (2000 if text == "a long event" and at == 50 else 1))
    path = trace.write(tmp_path / "trace.json")
    if text == "truncated":
        path.write_bytes(path.read_bytes()[:-100])
    if text == "a list":
        path.write_text(json.dumps(trace.rows))
    with pytest.raises(TraceError):
        read_in_shares(path, 2)


def test_a_file_that_changes_meanwhile_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_reader, "PART_BYTES", 400)
    shares = []
    for share in range(2):
        trace = TraceBuilder()
        for at in range(20 + 40 * share):
            trace.op("a", at, at + 1)
        shares.append(read_share(trace.write(tmp_path / "trace.json"), share, 2))
    with pytest.raises(TraceError, match="changed while it was read"):
        join_shares(tmp_path / "trace.json", shares)
