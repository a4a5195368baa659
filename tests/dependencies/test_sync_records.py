"""When a synchronization record is believed, moved to its device, set aside for inference, or missing (µs)."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyses.questions.info import info_document, info_lines
from hta_graph import DependencyGraph
from tests.edge_accuracy import DIALECTS, GPU_TO_CPU, Closure, graph_edges, overlapping_ends, read, true_edges
from tests.simulator import Run, random_program, simulate, write
from tests.simulator.programs import Family
from tests.support.deep_tests import deep
from tests.support.trace_builder import TraceBuilder, edges

CALLS = {
    "stream_sync": ("cudaStreamSynchronize", "Stream Sync"),
    "device_sync": ("cudaDeviceSynchronize", "Context Sync"),
    "event_sync": ("cudaEventSynchronize", "Event Sync"),
}
LONGEST_UNNOTICED_NS = 50_000
"""A call that returns sooner may have found nothing to wait for."""


def one_wait(kind: str, until: float, *, device: int, context: int, stream: int, work_device: int = 1) -> TraceBuilder:
    """A kernel of context 2 that ends 8 µs before a call returns, and a record of the call."""
    trace = TraceBuilder()
    trace.call("cudaLaunchKernel", 1, 5, 1)
    trace.kernel("gemm", 10, until - 8, 1, device=work_device, context=2)
    trace.call("cudaEventRecord", 6, 8, 2)
    call, record = CALLS[kind]
    trace.call(call, 12, until, 3)
    is_event = kind == "event_sync"
    row = trace.sync_row(
        record, 12, until, 3, device=device, stream=-1 if kind == "device_sync" or is_event else stream,
        wait_on_stream=stream if is_event else None, record=2,
    )  # fmt: skip
    trace.rows[row]["args"]["context"] = context
    return trace


def counts(graph: DependencyGraph) -> dict[str, int]:
    found = {key: graph.diagnostics[f"sync_records_{key}"] for key in ("moved", "without_work", "contradicted")}
    return {key: count for key, count in found.items() if count}


def evidence(graph: DependencyGraph, kind: str) -> list[tuple[str, str, str]]:
    frame = graph.edges[graph.edges.kind == kind]
    sources, targets = (
        [graph.event(at)["name"] for at in column] for column in (frame.source_index, frame.target_index)
    )
    return list(zip(sources, targets, frame.evidence, strict=True))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", CALLS)
@pytest.mark.parametrize("context", [2, -1])
def test_a_record_of_another_device_means_the_device_of_its_context(kind: str, context: int, tmp_path: Path) -> None:
    graph = one_wait(kind, 500, device=0, context=context, stream=7).graph(tmp_path)
    assert evidence(graph, kind) == [("gemm", CALLS[kind][0], "recorded")]
    assert counts(graph) == {"moved": 1}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("kind", "device", "context", "stream"),
    [
        ("stream_sync", 1, 2, 9),
        ("stream_sync", 0, 1, 7),
        ("event_sync", 1, 2, 9),
        ("device_sync", 0, 1, -1),
    ],
)
@pytest.mark.parametrize(("until", "evidences"), [(500, ["inferred"]), (32, [])])
def test_a_record_without_work_leaves_long_calls_to_inference(
    kind: str, device: int, context: int, stream: int, until: float, evidences: list[str], tmp_path: Path
) -> None:
    graph = one_wait(kind, until, device=device, context=context, stream=stream).graph(tmp_path)
    assert [found for _, _, found in evidence(graph, kind)] == evidences
    assert counts(graph) == ({"without_work": 1} if evidences else {})


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", CALLS)
@pytest.mark.parametrize("unknown", [-1, 4_294_967_295])
def test_a_record_without_ids_says_nothing(kind: str, unknown: int, tmp_path: Path) -> None:
    trace = one_wait(kind, 32, device=1, context=2, stream=unknown)
    ids = ("stream", "device", "context", "wait_on_stream", "wait_on_cuda_event_record_corr_id")
    trace.rows[-1]["args"] |= dict.fromkeys(ids, unknown)
    # The only device of a file is known all the same.
    expected = "recorded" if kind == "device_sync" else "inferred"
    assert [found for _, _, found in evidence(trace.graph(tmp_path), kind)] == [expected]


@pytest.mark.parametrize(("returned", "is_found"), [(408, True), (340, False)])
def test_a_call_without_a_record_is_inferred_where_it_took_long(
    returned: float, is_found: bool, tmp_path: Path
) -> None:
    trace = TraceBuilder()
    _, a = trace.launch("A", (1, 5), (15, 300), 1)
    first = trace.call("cudaStreamSynchronize", 20, 308, 2)
    trace.sync_row("Stream Sync", 20, 308, 2, stream=7)
    _, b = trace.launch("B", (310, 315), (320, returned - 8), 3)
    second = trace.call("cudaStreamSynchronize", 330, returned, 4)
    expected = {("stream_sync", a, "end", first, "end")}
    expected |= {("stream_sync", b, "end", second, "end")} if is_found else set()
    assert edges(trace.graph(tmp_path), "stream_sync") == expected


def copied(end: float, *, other_end: float, between: bool = False, is_recorded: bool = False) -> TraceBuilder:
    """A copy on stream 20, work on stream 7, and a stream synchronization of 100 to 600 µs."""
    trace = TraceBuilder()
    trace.launch("gemm", (1, 5), (15, other_end), 1)
    trace.call("cudaMemcpyAsync", 10, 90, 2)
    trace.copy("Memcpy HtoD (Pageable -> Device)", 95, end, 2, stream=20)
    if between:
        trace.call("cudaEventRecord", 92, 94, 3)
    trace.call("cudaStreamSynchronize", 100, 600, 4)
    if is_recorded:
        # Of another call: this one's record is missing.
        trace.call("cudaStreamSynchronize", 700, 702, 5)
        trace.sync_row("Stream Sync", 700, 702, 5, stream=7)
    return trace


COPY = ("Memcpy HtoD (Pageable -> Device)", "stream_of_copy")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("trace", "expected"),
    [
        pytest.param(copied(550, other_end=598), COPY, id="timing alone would choose the other stream"),
        pytest.param(copied(615, other_end=598), COPY, id="the clocks differ by a few µs"),
        pytest.param(copied(640, other_end=598), ("gemm", "stream_by_timing"), id="no clock differs as much"),
        pytest.param(copied(540, other_end=598), ("gemm", "stream_by_timing"), id="long after the copy"),
        pytest.param(copied(550, other_end=598, between=True), ("gemm", "stream_by_timing"), id="not directly"),
        pytest.param(copied(550, other_end=598, is_recorded=True), COPY, id="the record is missing"),
    ],
)
def test_a_stream_sync_behind_a_copy_waits_for_the_copy(
    trace: TraceBuilder, expected: tuple[str, str], tmp_path: Path
) -> None:
    graph = trace.graph(tmp_path)
    frame = graph.edges[(graph.edges.kind == "stream_sync") & (graph.edges.evidence == "inferred")]
    found = zip(frame.source_index.tolist(), frame.rule.tolist(), strict=True)
    assert [(graph.event(source)["name"], rule) for source, rule in found] == [expected]


def contradicted(wrong: int, right: int, late: float) -> TraceBuilder:
    """Waits for stream 7, of which some records name stream 20, whose work ends later."""
    trace = TraceBuilder()
    for number in range(wrong + right):
        at = 1_000 * number
        trace.launch("gemm", (at + 1, at + 5), (at + 10, at + 500), 3 * number + 1)
        trace.launch("other", (at + 6, at + 9), (at + 10, at + 508 + late), 3 * number + 2, stream=20)
        trace.call("cudaStreamSynchronize", at + 12, at + 508, 3 * number + 3)
        stream = 20 if number < wrong else 7
        trace.sync_row("Stream Sync", at + 12, at + 508, 3 * number + 3, stream=stream)
    return trace


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("trace", "sources", "found"),
    [
        pytest.param(contradicted(3, 1, 100), {"gemm": "inferred"}, {"contradicted": 3}, id="most are wrong"),
        pytest.param(contradicted(1, 3, 100), {"gemm": "recorded", "other": "recorded"}, {}, id="a single one"),
        pytest.param(contradicted(3, 1, 19), {"gemm": "recorded", "other": "recorded"}, {}, id="a few µs"),
    ],
)
def test_records_that_mostly_contradict_the_times_are_set_aside(
    trace: TraceBuilder, sources: dict[str, str], found: dict[str, int], tmp_path: Path
) -> None:
    graph = trace.graph(tmp_path)
    assert {source: evidence_ for source, _, evidence_ in evidence(graph, "stream_sync")} == sources
    assert counts(graph) == found
    said = [line for line in info_lines(info_document(graph)) if "Synchronization records were not used" in str(line)]
    assert len(said) == len(found)


# -- simulated programs -----------------------------------------------------------------------------------------------


def runs(family: Family, programs: int) -> list[Run]:
    return [simulate(random_program(seed, family, 300)) for seed in range(programs)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("family", ["pytorch", "arbitrary"])
@pytest.mark.parametrize("programs", [5, deep(60)])
def test_records_of_another_device_change_no_edge(family: Family, programs: int) -> None:
    moved = 0
    for run in runs(family, programs):
        graphs = [read(write(run, DIALECTS[name])) for name in ("recorded", "wrong device")]
        assert graph_edges(graphs[0]) == graph_edges(graphs[1])
        moved += graphs[1].diagnostics["sync_records_moved"]
    assert moved > 2 * programs


@pytest.mark.slow
@pytest.mark.parametrize("programs", [2, deep(60)])
@pytest.mark.parametrize("dialect", ["wrong stream", "half the records"])
def test_faulty_records_lose_no_long_wait_and_make_no_false_one(dialect: str, programs: int) -> None:
    for run in runs("pytorch", programs):
        written = write(run, DIALECTS[dialect])
        graph = read(written)
        found, everything = graph_edges(graph), true_edges(written, hidden=True)
        ours, allowed = Closure(found), Closure(everything, overlapping_ends(everything))
        assert all(allowed.implies(edge) for edge in found if edge[0] in GPU_TO_CPU)
        for edge in true_edges(written, hidden=False):
            call = graph.event(edge[3])
            is_long = call["end_ns"] - call["start_ns"] >= LONGEST_UNNOTICED_NS
            assert edge[0] not in GPU_TO_CPU or not is_long or ours.implies(edge)


@pytest.mark.parametrize("programs", [2, deep(60)])
@pytest.mark.parametrize("dialect", ["wrong stream", "half the records"])
def test_waits_are_inferred_where_records_are_faulty(dialect: str, programs: int) -> None:
    graphs = [read(write(run, DIALECTS[dialect])) for run in runs("arbitrary", programs)]
    inferred = [edge for graph in graphs for edge in graph_edges(graph, "inferred") if edge[0] in CALLS]
    assert len(inferred) > programs
