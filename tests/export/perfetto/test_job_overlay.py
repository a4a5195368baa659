"""The overlay of a job: every rank's rows in job time, processes and arrows apart, the path from rank to rank."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hta_graph as hg
from hta_graph.base.errors import OutputError
from hta_graph.export.perfetto.append_events import read_original
from hta_graph.export.perfetto.path_overlay import write_overlay
from hta_graph.export.perfetto.rewrite_rows import SharedIds, rewrite_rows
from hta_graph.graph.job_graph import shift_to_job_time
from tests.support.command_line import folder_contents
from tests.support.gloo_builder import MAIN, GlooRank
from tests.support.overlay import overlay_bytes
from tests.support.shared_traces import SHARED
from tests.support.trace_builder import TraceBuilder

BASE_NS = 1_700_000_000_000_000_000
CHANGED = {"pid", "ts", "dur", "id", "args"}


def ranks_of_job() -> list[GlooRank]:
    """Let rank 1 come late to an all-reduce; both have the same process, and rank 1 counts from another base time."""
    ranks = []
    for rank, arrival in enumerate((10, 35)):
        moved = 1000 * rank
        trace = GlooRank(rank, [0, 1])
        trace.header["baseTimeNanoseconds"] = BASE_NS - moved * 1000
        trace.row(ph="M", name="process_name", pid=100, tid=0, ts=moved, args={"name": "python"})
        trace.row(ph="M", name="process_labels", pid=100, tid=0, ts=moved, args={"labels": "CPU"})
        trace.row(ph="M", name="process_sort_index", pid=100, tid=0, ts=moved, args={"sort_index": 100})
        trace.annotation("ProfilerStep#1", moved, moved + 60, tid=MAIN)
        trace.op("aten::mul", moved + 1, moved + arrival - 1, tid=MAIN)
        trace.called("all_reduce", moved + arrival, moved + arrival + 2)
        trace.worked("all_reduce", moved + arrival + 3, moved + 44 + rank)
        trace.op("aten::add", moved + 50, moved + 56 - rank, tid=MAIN)
        trace.row(ph="s", cat="fwdbwd", name="fwdbwd", id=1, pid=100, tid=MAIN, ts=moved + 2)
        trace.row(ph="f", cat="fwdbwd", name="fwdbwd", id=1, pid=100, tid=MAIN, ts=moved + 52.5, bp="e")
        trace.row(ph="X", cat="Trace", name="whole", pid="Spans", tid="PyTorch Profiler", ts=moved, dur=60)
        ranks.append(trace)
    return ranks


@pytest.fixture
def path(tmp_path: Path) -> hg.CriticalPath:
    files = [trace.write(tmp_path / f"rank{rank}.json") for rank, trace in enumerate(ranks_of_job())]
    return hg.critical_path(hg.read_job(files), hg.whole())


def rows_of(content: bytes) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(content, parse_float=Decimal)["traceEvents"]
    return rows


def path_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    pid = next(row["pid"] for row in rows if row.get("args") == {"name": "Critical path"})
    return [row for row in rows if row["pid"] == pid]


def test_rows_stay_as_they_are_but_for_times_processes_and_arrows(path: hg.CriticalPath) -> None:
    rows = rows_of(overlay_bytes(path))
    own = [trace.rows for trace in ranks_of_job()]
    starts = (0, next(at for at, row in enumerate(rows) if "rank 1" in str(row.get("args"))))
    for first, expected in zip(starts, own, strict=True):
        found = rows[first : first + len(expected)]
        assert [list(row) for row in found] == [list(row) for row in expected]
        for row, before in zip(found, expected, strict=True):
            assert {key: value for key, value in row.items() if key not in CHANGED} == {
                key: value for key, value in before.items() if key not in CHANGED
            }
            assert row["ph"] == "M" or row.get("args") == before.get("args")


def test_times_are_those_of_the_job(path: hg.CriticalPath) -> None:
    rows = rows_of(overlay_bytes(path))
    adds = [row for row in rows if (row.get("name"), row.get("cat")) == ("aten::add", "cpu_op")]
    expected = path.graph.events.query("name == 'aten::add'").start_ns.tolist()
    assert [int(row["ts"] * 1000) + BASE_NS for row in adds] == expected == [BASE_NS + 50_000] * 2
    ends = [row["ts"] for row in rows if row["ph"] == "f" and row.get("name") == "fwdbwd"]
    assert ends == [Decimal("52.5")] * 2


def test_no_two_ranks_share_a_process_or_an_arrow(path: hg.CriticalPath) -> None:
    rows = rows_of(overlay_bytes(path))
    names = {row["pid"]: row["args"]["name"] for row in rows if row.get("name") == "process_name"}
    assert sorted(names.values()) == [
        "Critical path", "rank 0: Spans", "rank 0: python (CPU)", "rank 1: Spans", "rank 1: python (CPU)",
    ]  # fmt: skip
    assert {row["pid"] for row in rows} == set(names)
    assert names[100] == "rank 0: python (CPU)"
    arrows = [row["id"] for row in rows if row.get("name") == "fwdbwd"]
    assert len(set(arrows)) == 2
    others = {row["id"] for row in rows if row.get("cat") == "critical_path" and "id" in row}
    assert others.isdisjoint(arrows)
    order = {row["pid"]: row["args"]["sort_index"] for row in rows if row.get("name") == "process_sort_index"}
    by_order = [names[pid].split(":")[0] for pid in sorted(order, key=lambda pid: order[pid])]
    assert by_order == ["Critical path", "rank 0", "rank 0", "rank 1", "rank 1"]


def test_the_path_has_a_track_for_each_rank_and_arrows_between_them(path: hg.CriticalPath) -> None:
    rows = path_rows(rows_of(overlay_bytes(path)))
    tracks = {row["tid"]: row["args"]["name"] for row in rows if row.get("name") == "thread_name"}
    assert list(tracks.values()) == ["Path of whole trace, rank 0", "Path of whole trace, rank 1"]
    begins = [row for row in rows if row["ph"] == "B" and "segments" in row["args"]]
    spans = {name: [] for name in tracks.values()}
    for row in begins:
        spans[tracks[row["tid"]]].append((int(row["ts"] * 1000), int(row["args"]["duration_ns"])))
    time = {rank: sum(length for _, length in spans[f"Path of whole trace, rank {rank}"]) for rank in (0, 1)}
    assert time == path.by_rank_ns
    starts = {row["id"]: row for row in rows if row["ph"] == "s"}
    crossing = [(starts[row["id"]], row) for row in rows if row["ph"] == "f" and row["id"] in starts]
    between = [(tracks[one["tid"]][-1], tracks[two["tid"]][-1]) for one, two in crossing if one["tid"] != two["tid"]]
    assert between == [("1", "0")]


def test_inputs_are_never_written(path: hg.CriticalPath, tmp_path: Path) -> None:
    before = folder_contents(tmp_path)
    for name in ("rank0.json", "rank1.json"):
        with pytest.raises(OutputError, match="is an input"):
            write_overlay(path, tmp_path / name)
    assert folder_contents(tmp_path) == before
    counts = write_overlay(path, tmp_path / "overlay.json.gz")
    assert (counts.runs, counts.arrows > 0) == (len(path.runs), True)


def test_the_overlay_is_the_same_each_time(path: hg.CriticalPath) -> None:
    assert overlay_bytes(path) == overlay_bytes(path)


def test_a_drifting_clock_moves_rows_lengths_and_arrows_with_their_events(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 10, 20)
    trace.op("aten::mm", 110.5, 120.5)
    trace.row(ph="s", cat="ac2g", name="ac2g", id="0x7", pid=100, tid=1, ts=110.5)
    graph = trace.graph(tmp_path)
    events = graph.event_table
    moved = shift_to_job_time(graph, events.start * 2, events.end * 2 + 1)
    numbers = SharedIds()
    found = rewrite_rows(read_original(graph.trace), graph, moved, 0, 5, 0, numbers)
    text = b"".join(found.text(0, len(found.original.text)))
    rows = rows_of(text)
    assert [(row["ts"], row.get("dur")) for row in rows] == [
        (20, Decimal("20.001")), (221, Decimal("20.001")), (221, None),
    ]  # fmt: skip
    assert rows[2]["id"] == 1
    assert found.place_of(1) == {"pid": 100, "tid": 1}


@pytest.mark.slow
@pytest.mark.shared
def test_recorded_clocks_are_aligned_to_the_nanosecond() -> None:
    job = hg.read_job(SHARED / "gloo" / "ddp_4r_slowfwd_1_skew")
    rows = rows_of(overlay_bytes(hg.critical_path(job)))
    base = int(json.loads(read_original(job.graph(0).trace).text)["baseTimeNanoseconds"])
    operators = [row for row in rows if row.get("cat") == "cpu_op"]
    times = sorted(int(row["ts"] * 1000) + base for row in operators)
    expected = job.events.query("kind == 'cpu_op'").start_ns
    assert np.array_equal(times, sorted(expected.tolist()))
