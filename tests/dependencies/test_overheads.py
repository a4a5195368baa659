"""What a recorder says of calls that took long: a full queue, or the recorder's own buffers (times in µs)."""

from __future__ import annotations

from pathlib import Path

import pytest

import hta_graph as hg
from analyses.advice.facts import PathFacts
from analyses.declare.scope import whole
from analyses.judgement.verdict import replayed_advice
from analyses.questions.idle_time import idle_waits
from analyses.questions.queue_length import queue_length
from hta_graph.graph.event_names import row_labels
from hta_graph.paths.time_accounting import profiler_calls
from tests.simulator import Dialect, simulate, to_bytes, write
from tests.simulator.program import Gap, Launch, Program, Stream
from tests.simulator.writer import Written
from tests.support.trace_builder import TraceBuilder


def overhead(trace: TraceBuilder, name: str, start: float, end: float) -> int:
    """Add a row as Kineto writes it: of no process and no thread."""
    return trace.row(ph="X", cat="overhead", name=name, pid=-1, tid=0, ts=start, dur=end - start)


def first_launch(name: str, start: float = 40, end: float = 870) -> TraceBuilder:
    """The first launch of relu takes 850 µs, most of them inside a row of the recorder; a thread waits meanwhile."""
    trace = TraceBuilder()
    trace.launch("gemm", (14, 19), (40, 70), 1)
    trace.op("aten::relu", 30, 890)
    trace.launch("relu", (34, 884), (890, 950), 2)
    overhead(trace, name, start, end)
    for at in range(20):
        trace.launch("gemm", (900 + 10 * at, 904 + 10 * at), (955 + 10 * at, 962 + 10 * at), 3 + at)
    trace.call("cudaStreamSynchronize", 1_105, 1_170, 99)
    # Another thread's call holds the row, too: the shorter one is meant.
    trace.call("cudaEventSynchronize", 12, 1_000, 98, tid=2)
    return trace


PROFILER = ("Activity Buffer Request", "Buffer Flush", "Instrumentation", "Resource", "CUDA profiling data flush")


@pytest.mark.parametrize("name", PROFILER)
def test_what_the_recorder_took_is_its_own_and_no_loading_of_code(name: str, tmp_path: Path) -> None:
    graph = first_launch(name).graph(tmp_path)
    path = hg.critical_path(graph, hg.whole())
    own = path.segments[path.segments["name"] == name]
    assert (own.end_ns - own.start_ns).sum() == pytest.approx(800_000, abs=40_000)
    assert set(own.bound_by) == {"cpu_bound"}
    assert set(own.lane) == {"thread 100:1"}
    assert "code_loading" not in {finding.rule for finding in replayed_advice(PathFacts(path))}
    codes, texts = row_labels(graph)
    assert texts[codes[int((graph.event_table.kind == hg.EventKind.OVERHEAD).nonzero()[0][0])]] == (
        f"profiler overhead: {name}"
    )
    assert f"profiler overhead: {name}" in set(idle_waits([whole(0, graph)]).name)


def test_no_change_saves_what_the_recorder_took(tmp_path: Path) -> None:
    graph = first_launch("Activity Buffer Request").graph(tmp_path)
    for scenario in ("cuda_graphs", "launches_free"):
        assert hg.replay(graph, hg.scenario(scenario), hg.whole()).predicted_ns > 820_000
    assert hg.replay(graph, hg.scale("operator:aten::relu", 0.0), hg.whole()).predicted_ns > 820_000


@pytest.mark.parametrize(
    ("name", "start", "end"), [("Lazy Function Loading", 40, 870), ("Unrecognized", 40, 870), ("Buffer Flush", 8, 880)]
)
def test_other_rows_and_rows_outside_of_calls_change_nothing(
    name: str, start: float, end: float, tmp_path: Path
) -> None:
    graph = first_launch(name, start, end).graph(tmp_path)
    assert (profiler_calls(graph) < 0).all()
    assert "code_loading" in {
        finding.rule for finding in replayed_advice(PathFacts(hg.critical_path(graph, hg.whole())))
    }


def full_queue(depth: int, launches: int, *, with_rows: bool) -> Written:
    """A loop that runs ahead until its queue is full; the recorder may say where."""
    program = Program((*Program.of(*[Launch(Stream(), 20_000, "add")] * launches, Gap(1_000)).threads,))
    program = Program(program.threads, launch_queue_depth=depth)
    written = write(simulate(program), Dialect())
    rows = written.document["traceEvents"]
    for target in {written.index_of[c.target] for c in written.constraints if c.kind == "queue_full" and with_rows}:
        call = rows[target]
        row = {"ph": "X", "cat": "overhead", "name": "Command Buffer Full", "pid": -1, "tid": 0}
        rows.append(row | {"ts": call["ts"] + 0.5, "dur": call["dur"] - 1})
    return written


def edges_and_truth(written: Written, folder: Path) -> tuple[hg.DependencyGraph, set[tuple[int, int]]]:
    path = folder / "trace.json"
    path.write_bytes(to_bytes(written.document))
    at = written.index_of
    return hg.build_graph(path.as_posix()), {
        (at[c.source], at[c.target]) for c in written.constraints if c.kind == "queue_full" and not c.hidden
    }


@pytest.mark.parametrize(("depth", "launches"), [(8, 60), (1_021, 1_300)])
def test_recorded_full_queues_are_used_at_any_depth(depth: int, launches: int, tmp_path: Path) -> None:
    graph, truth = edges_and_truth(full_queue(depth, launches, with_rows=True), tmp_path)
    frame = graph.edges[graph.edges.kind == "queue_full"]
    assert set(frame.evidence) == {"recorded"}
    assert set(frame.target_index) >= {target for _, target in truth}
    pairs = set(zip(frame.source_index, frame.target_index, strict=True))
    assert len(pairs & truth) >= 0.95 * len(truth)
    table = queue_length([whole(0, graph)])
    assert table.blocked_calls.sum() == len(frame)


def test_short_waits_show_where_the_depth_does_and_work_from_before_counts(tmp_path: Path) -> None:
    written = full_queue(1_021, 1_400, with_rows=False)
    rows = written.document["traceEvents"]
    lost = [row["args"]["correlation"] for row in rows if row.get("cat") == "cuda_runtime"][:300]
    rows[:] = [
        row if row.get("cat") != "cuda_runtime" or row["args"]["correlation"] not in lost else {**row, "ph": "lost"}
        for row in rows
    ]
    graph, truth = edges_and_truth(written, tmp_path)
    found = graph.edges[graph.edges.kind == "queue_full"]
    assert set(zip(found.source_index, found.target_index, strict=True)) <= truth
    assert len(found) >= 0.9 * len(truth)
