"""Invariants on every shared real trace, and the recorded synchronisation of those that have it."""

from __future__ import annotations

import dataclasses
import json
import random
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import msgspec
import networkx
import numpy as np
import orjson
import pytest

import hta_graph as hg
from hta_graph import DependencyGraph
from hta_graph.base.errors import TraceError
from hta_graph.dependencies.context import RuleContext
from hta_graph.dependencies.host import forward_backward
from hta_graph.graph.timeline import Timeline
from hta_graph.graph.validate import edges_that_close_cycles
from hta_graph.model import EdgeRule
from hta_graph.paths.binding_edges import binding_edges
from hta_graph.paths.windows import WindowQuery
from hta_graph.trace.decompress import read_bytes
from hta_graph.trace.json_reader import FilePart, Parts
from hta_graph.trace.read import trace_of_bytes
from hta_graph.trace.table import Flows
from tests.support.deep_tests import deep
from tests.support.shared_traces import SHARED, graph_of_file, shared_traces

pytestmark = pytest.mark.shared

TRACES = shared_traces() or [Path("absent")]
FOLDERS = [name if name == "one_rank" else deep(name) for name in sorted(path.name for path in SHARED.glob("*/"))]


def trace_label(path: Path) -> str:
    return f"{path.parent.name}/{path.name.removesuffix('.json.gz')}"


def graph_of(name: str) -> DependencyGraph:
    return hg.build_graph(hg.read_trace(SHARED / "traces" / name))


@pytest.fixture(scope="module", params=TRACES, ids=trace_label)
def graph(request: pytest.FixtureRequest) -> DependencyGraph:
    return graph_of_file(request.param)


def windows(graph: DependencyGraph) -> list[WindowQuery]:
    steps = graph.trace.steps()
    numbers = [step.number for step in steps[:3]]
    return [hg.whole(), *(hg.step(number) for number in numbers), *(hg.step(n, cpu_window=True) for n in numbers)]


@pytest.mark.sampled(6)
def test_paths_tile_their_windows(graph: DependencyGraph) -> None:
    for window in windows(graph):
        path = hg.critical_path(graph, window)
        path.self_check()
        assert sum(path.by_bound_ns.values()) == path.length_ns
        assert len(path.by_bound_ns) == 10
        assert int(path.by_event().time_ns.sum()) == path.length_ns
        assert int(path.by_lane().time_ns.sum()) == path.length_ns


@pytest.mark.sampled(2)
def test_gpu_windows_tile_the_run(graph: DependencyGraph) -> None:
    paths = [hg.critical_path(graph, hg.step(step.number, gpu_window=True)) for step in graph.trace.steps()]
    for path, following in pairwise(paths):
        assert path.window.end_ns == following.window.start_ns


def test_edges_go_forward_and_close_no_cycle(graph: DependencyGraph) -> None:
    edges, times = graph.edge_table, graph.timeline.times
    back = times[edges.source] - times[edges.target]
    assert back.max(initial=0) <= 1_000_000
    assert not len(edges_that_close_cycles(edges, graph.timeline))
    counted = graph.diagnostics["edges_clamped"]
    assert int(np.count_nonzero(back > 0)) == counted


def assert_inferred_edges_go_forward(graph: DependencyGraph) -> None:
    """Nothing waits for what ended later, beyond what the clocks of hosts and GPUs may be apart."""
    edges, times = graph.edge_table, graph.timeline.times
    noise = max((clock.noise_ns for clock in graph.trace.gpu_clock), default=0)
    back = (times[edges.source] - times[edges.target])[edges.rule != EdgeRule.RECORDED]
    assert back.max(initial=0) <= 20_000 + noise


def test_no_inferred_edge_leads_back_in_time(graph: DependencyGraph) -> None:
    assert_inferred_edges_go_forward(graph)


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_inferred_edge_of_other_recordings_leads_back_in_time(folder: str) -> None:
    for path in sorted((SHARED / folder).rglob("*.json*")):
        try:
            trace = hg.read_trace(path)
        except TraceError:
            continue
        assert_inferred_edges_go_forward(hg.build_graph(trace))


def test_a_point_has_one_binding_predecessor_that_finished_last(graph: DependencyGraph) -> None:
    sample = graph.filter(end_ns=int(graph.trace.events.start.min()) + 20_000_000) if len(graph.trace.events) else graph
    edges, times = sample.edge_table, sample.timeline.times
    binding = binding_edges(sample)
    finished = np.minimum(times[edges.source], times[edges.target])
    best = {}
    for target, time in zip(edges.target.tolist(), finished.tolist(), strict=True):
        best[target] = max(best.get(target, time), time)
    assert {point: int(finished[binding[point]]) for point in best} == best
    assert set(np.flatnonzero(binding >= 0).tolist()) == set(best)


SYNC_COUNTS = {
    "sync_alexnet_a100": {"stream_sync": 16, "device_sync": 9, "event_wait": 6},
    "sync_simple_add": {"stream_sync": 16, "device_sync": 9},
    "sync_event_cpu": {"stream_sync": 1, "device_sync": 1, "event_sync": 1},
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SYNC_COUNTS)
def test_recorded_synchronisation_becomes_edges(name: str) -> None:
    graph = graph_of(f"{name}/rank0.json.gz")
    counts = graph.edge_counts()
    kinds = ("stream_sync", "device_sync", "event_sync", "event_wait")
    recorded = {kind: counts[kind]["recorded"] for kind in kinds if kind in counts and counts[kind]["recorded"]}
    assert recorded == SYNC_COUNTS[name]


def test_sources_of_recorded_synchronisation_are_copies_and_kernels() -> None:
    graph = graph_of("sync_alexnet_a100/rank0.json.gz")
    frame = graph.edges.merge(
        graph.events[["event_index", "kind", "name"]], left_on="source_index", right_on="event_index"
    )
    frame = frame.merge(
        graph.events[["event_index", "name"]], left_on="target_index", right_on="event_index", suffixes=("", "_t")
    )
    streams = frame[frame.kind_x == "stream_sync"]
    devices = frame[frame.kind_x == "device_sync"]
    assert (set(streams.kind_y), set(streams.name_t)) == ({"memcpy"}, {"cudaStreamSynchronize"})
    assert (set(devices.kind_y), set(devices.name_t)) == ({"kernel"}, {"cudaDeviceSynchronize"})


def test_an_event_query_is_no_dependency() -> None:
    graph = graph_of("sync_event_cpu/rank0.json.gz")
    queries = graph.events[graph.events.name == "cudaEventQuery"].event_index
    assert len(queries) == 1
    for query in queries:
        assert set(graph.predecessors(query).kind) <= {"thread_order"}


@pytest.mark.slow
def test_epoch_microseconds_keep_their_nanoseconds() -> None:
    """Compare with the printed text, which a float cannot hold."""
    path = SHARED / "traces/ns_resolution_v100/rank0.json.gz"
    events = hg.read_trace(path).events
    rows = json.loads(read_bytes(path).data, parse_float=Decimal)["traceEvents"]
    printed = [(int(rows[at]["ts"] * 1000), int(rows[at]["dur"] * 1000)) for at in events.index.tolist()]
    assert events.start.tolist() == [start for start, _ in printed]
    assert (events.end - events.start).tolist() == [length for _, length in printed]
    assert any(start % 250 for start, _ in printed)


@pytest.mark.parametrize("name", ["megatron_tp2_v100/kineto_rank0.json.gz", "sync_alexnet_a100/rank0.json.gz"])
def test_shuffling_rows_changes_nothing_but_indices(name: str, tmp_path: Path) -> None:
    source = SHARED / "traces" / name
    document = orjson.loads(read_bytes(source).data)
    random.Random(5).shuffle(document["traceEvents"])
    shuffled = tmp_path / source.name
    shuffled.write_bytes(orjson.dumps(document))
    paths = [hg.critical_path(hg.build_graph(hg.read_trace(p)), hg.whole()) for p in (source, shuffled)]
    columns = [path.segments.drop(columns="event_index") for path in paths]
    assert columns[0].equals(columns[1])
    assert paths[0].graph.edge_counts() == paths[1].graph.edge_counts()


@pytest.mark.parametrize("name", ["nccl_args_a100", "ns_resolution_v100", "cpu_only_gloo", "ascend_npu"])
def test_sequence_numbers_say_what_the_arrows_say(name: str) -> None:
    trace = hg.read_trace(next((SHARED / "traces" / name).glob("*.gz")))
    context = RuleContext(trace, Timeline(trace))
    by_arrows = forward_backward(context)
    without = dataclasses.replace(trace, flows=Flows(*(np.empty(0, np.int64) for _ in range(4))))
    by_sequence = forward_backward(RuleContext(without, context.timeline))
    pairs = [sorted(zip(t.source.tolist(), t.target.tolist(), strict=True)) for t in (by_arrows, by_sequence)]
    assert len(pairs[0]) == len(trace.flows.start_time) > 0
    assert pairs[0] == pairs[1]


def test_ancestors_equal_networkx() -> None:
    graph = graph_of("sync_event_multistream/rank0.json.gz")
    oracle = graph.to_networkx()
    for event in graph.events[graph.events.kind == "kernel"].event_index:
        expected = {node[0] for node in networkx.ancestors(oracle, (event, "end"))} - {event}
        assert set(graph.ancestors(event).event_index) == expected


@pytest.mark.parametrize("name", ["sync_alexnet_a100", "nanogpt_ddp_8xh100"])
def test_the_tolerant_reader_gives_the_same_trace(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that the strict decoder reads and rows that the tolerant one reads become equal columns."""

    def refuse(*_: object) -> FilePart:
        raise msgspec.DecodeError("is refused")

    path = SHARED / "traces" / name / "rank0.json.gz"
    content = read_bytes(path)
    strict = trace_of_bytes(path, content)
    monkeypatch.setattr(Parts, "_decode_strictly", refuse)
    tolerant = trace_of_bytes(path, content)
    assert (strict.diagnostics["tolerant_json"], tolerant.diagnostics["tolerant_json"]) == (0, 1)
    for column in ("index", "kind", "name", "lane", "start", "end", "correlation", "external_id", "sequence"):
        assert np.array_equal(getattr(strict.events, column), getattr(tolerant.events, column)), column
