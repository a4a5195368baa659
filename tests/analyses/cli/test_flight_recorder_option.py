"""``--flight``: dumps of the flight recorder number the collectives of ranks; broken ones are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hta_graph as hg
from tests.support.command_line import command_json, run_command
from tests.support.gloo_builder import late_ranks


def with_dumps(folder: Path, dumps: Path) -> None:
    """Write two ranks that meet once, and what their recorders say of it."""
    dumps.mkdir(exist_ok=True)
    for path in late_ranks(folder, 10, 35):
        entry = {
            "process_group": ["0", "default_pg"], "collective_seq_id": 7, "profiling_name": "gloo:all_reduce",
            "input_sizes": [[8]], "time_created_ns": 10_000 if "0" in path.name else 35_000, "is_p2p": False,
        }  # fmt: skip
        (dumps / path.name).write_text(json.dumps({"version": "2.10", "pg_config": {}, "entries": [entry]}))


def matched_by(capsys: pytest.CaptureFixture[str], folder: Path, *options: str) -> list[str]:
    document = command_json(capsys, "collectives", folder, *options)
    return [row["matched_by"] for row in document["tables"]["collectives"]]


@pytest.mark.slow
def test_dumps_number_collectives_beside_the_traces_or_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    traces, elsewhere = tmp_path / "traces", tmp_path / "elsewhere"
    traces.mkdir()
    with_dumps(traces, elsewhere)
    named = sorted(map(str, elsewhere.iterdir()))
    assert matched_by(capsys, traces) == ["order"]
    assert matched_by(capsys, traces, "--flight", *named) == ["sequence number"]
    with_dumps(traces, traces / "flight")
    assert matched_by(capsys, traces) == ["sequence number"]
    assert hg.read_job(traces).members.by.tolist() == hg.read_job(traces, flight=named).members.by.tolist() == [1, 1]
    assert hg.read_job(traces, flight=()).members.by.tolist() == [2, 2]


def test_a_broken_dump_is_refused_if_it_was_named_and_else_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    with_dumps(traces, traces / "flight")
    broken = traces / "flight" / "rank1.json"
    broken.write_bytes(b"\x80\x04")
    status, _, told = run_command(capsys, "stragglers", traces)
    assert status == 0
    assert "continuing without the flight recorder" in told
    said = list[str]()
    assert len(hg.read_job(traces, say=said.append).rank_graphs) == 2
    assert said == told.splitlines()
    status, _, told = run_command(capsys, "stragglers", traces, "--flight", str(broken))
    assert status == 1
    assert "is a pickle" in told
    assert "_dump_fr_trace_json()" in told
