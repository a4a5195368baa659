"""Owners: what is open around a launch, on its own thread, on the one that waits, and in the forward pass."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hta_graph as hg
from hta_graph.attribution.owners import OWNERS_BY_KIND, owners, rows_by_label, totals_by_label
from hta_graph.base.errors import UsageError
from hta_graph.graph.handoffs import autograd_bursts
from hta_graph.model import EventKind
from hta_graph.paths.gpu_activity import activities
from tests.simulator import Dialect, random_program, simulate, to_bytes, write
from tests.support.deep_tests import deep
from tests.support.shared_traces import graph_of_file, shared_traces
from tests.support.trace_builder import PID, TraceBuilder


def training_step() -> TraceBuilder:
    """Forward inside a module on thread 1; then thread 1 is silent while thread 2 runs the backward operator."""
    trace = TraceBuilder()
    trace.annotation("step", 0, 100)
    trace.annotation("forward", 1, 30)
    trace.frame("train.py(1): main", 0, 100)
    trace.frame("nn.Module: Net_0", 2, 29)
    trace.frame("nn.Module: Linear_3", 5, 20)
    trace.op("aten::linear", 6, 15, **{"Sequence number": 7})
    trace.launch("gemm", (7, 9), (10, 20), 1)
    trace.annotation("backward", 32, 90)
    trace.frame("<built-in run_backward>", 33, 89)
    trace.op("aten::ones_like", 31, 34)
    backward = {"Sequence number": 7, "Fwd thread id": 1}
    trace.op("autograd::engine::evaluate_function: LinearBackward0", 40, 60, tid=2, **backward)
    trace.op("LinearBackward0", 41, 59, tid=2, **backward)
    trace.launch("gemm_backward", (45, 47), (50, 70), 2, tid=2)
    trace.annotation("hook", 61, 70, tid=2)
    trace.launch("bucket", (62, 64), (71, 75), 3, tid=2)
    trace.op("autograd::engine::evaluate_function: AccumulateGrad", 61, 75, tid=2)
    trace.op("aten::add_", 91, 95)
    trace.launch("sgd", (92, 93), (95, 99), 4)
    return trace


def names_of(graph: hg.DependencyGraph, kind: str) -> list[str | None]:
    """Return the innermost owner of each activity, by the activities' start."""
    work = activities(graph)
    found = owners(graph, kind).innermost(work.call)
    return [graph.trace.name_of(row) if row >= 0 else None for row in found.tolist()]


def test_each_kind_of_owner_is_found_on_its_own_way(tmp_path: Path) -> None:
    graph = training_step().graph(tmp_path)
    assert names_of(graph, "operator") == [
        "aten::linear", "LinearBackward0", "autograd::engine::evaluate_function: AccumulateGrad", "aten::add_",
    ]  # fmt: skip
    assert names_of(graph, "annotation") == ["forward", "backward", "hook", "step"]
    run_backward = "<built-in run_backward>"
    assert names_of(graph, "frame") == ["nn.Module: Linear_3", run_backward, run_backward, "train.py(1): main"]
    assert names_of(graph, "module") == ["nn.Module: Linear_3", "nn.Module: Linear_3", None, None]


def test_owners_on_another_thread_go_on_where_that_one_waits(tmp_path: Path) -> None:
    graph = training_step().graph(tmp_path)
    work = activities(graph)
    found = owners(graph, "annotation")
    sums = totals_by_label(found, graph.trace.events.name, work.call, work.end - work.start)
    names = [graph.trace.names[code] for code in sums.label.tolist()]
    by_name = {name: (int(own), int(every)) for name, own, every in zip(names, sums.own, sums.total, strict=True)}
    assert by_name == {
        "forward": (10_000, 10_000),
        "backward": (20_000, 24_000),
        "hook": (4_000, 4_000),
        "step": (4_000, 38_000),
    }


def test_a_thread_beside_the_launching_one_has_no_owner_there(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.annotation("main", 0, 50)
    for start in range(0, 50, 5):
        trace.op("aten::add", start, start + 4)
    trace.op("autograd::engine::evaluate_function: X", 11, 19, tid=2)
    trace.launch("k", (12, 13), (20, 30), 1, tid=2)
    assert names_of(trace.graph(tmp_path), "annotation") == [None]


def test_a_burst_ends_where_its_thread_gives_back_and_may_begin_before_the_recording(tmp_path: Path) -> None:
    trace = TraceBuilder()
    engine = "autograd::engine::evaluate_function: X"
    inside = [trace.op(engine, 1, 9, tid=2)]
    trace.op("aten::add", 10, 20)
    inside += [trace.op(engine, 21, 29, tid=2), trace.op(engine, 30, 38, tid=2)]
    trace.op("aten::add", 40, 60)
    beside = [trace.annotation("idle", 39.5, 70, tid=2), trace.annotation("idle", 45, 70, tid=2)]
    trace.op("aten::add", 61, 80)
    inside += [trace.op(engine, 81, 90, tid=2)]
    graph = trace.graph(tmp_path)
    row = {int(index): at for at, index in enumerate(graph.trace.events.index)}
    main = graph.trace.lanes.labels.index(f"thread {PID}:1")
    waiting = autograd_bursts(graph).waiting_lane(np.array([row[index] for index in inside + beside], np.int32))
    assert waiting.tolist() == [main] * 4 + [-1] * 2


def test_what_recurs_counts_once_in_the_total(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.annotation("part", 0, 50)
    trace.annotation("part", 5, 40)
    trace.launch("k", (10, 12), (20, 30), 1)
    trace.launch("k", (45, 46), (50, 57), 2)
    graph = trace.graph(tmp_path)
    work = activities(graph)
    found, labels = owners(graph, "annotation"), graph.trace.events.name
    sums = totals_by_label(found, labels, work.call, work.end - work.start)
    assert (sums.own.tolist(), sums.total.tolist(), sums.owners.tolist()) == ([17_000], [17_000], [2])
    assert [(code, at.tolist()) for code, at in rows_by_label(found, labels, work.call)] == [(sums.label[0], [0, 1])]


def test_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="operator, frame, module, annotation"):
        owners(training_step().graph(tmp_path), "colour")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", [*range(4), *map(deep, range(4, 8))])
def test_own_weights_sum_to_all_on_simulated_programs(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(to_bytes(write(simulate(random_program(seed, "pytorch", 40)), Dialect()).document))
    check_sums(hg.build_graph(hg.read_trace(path)))


def check_sums(graph: hg.DependencyGraph) -> None:
    work = activities(graph)
    length = work.end - work.start
    for kind in OWNERS_BY_KIND:
        found, labels = owners(graph, kind), graph.trace.events.name
        sums = totals_by_label(found, labels, work.call, length)
        assert sums.own.sum() == length.sum()
        assert (sums.own <= sums.total).all()
        for code, at in rows_by_label(found, labels, work.call):
            place = int(np.searchsorted(sums.label, code))
            assert (len(at), int(length[at].sum())) == (sums.total_count[place], sums.total[place])


@pytest.mark.shared
def test_own_weights_sum_to_all_on_every_trace(real_traces: list[Path]) -> None:
    for path in real_traces:
        check_sums(graph_of_file(path))


@pytest.mark.shared
@pytest.mark.slow
def test_operators_are_those_around_the_launch_and_frames_those_open_then() -> None:
    path = next(path for path in shared_traces() if "owlv2" in str(path))
    graph = hg.build_graph(hg.read_trace(path))
    events, work = graph.trace.events, activities(graph)
    kinds = {"operator": EventKind.CPU_OP, "frame": EventKind.PYTHON_FUNCTION, "annotation": EventKind.ANNOTATION}
    sample = np.arange(0, len(work), 389)
    for kind, code in kinds.items():
        found = owners(graph, kind).innermost(work.call[sample])
        rows = np.flatnonzero(events.kind == code)
        for call, owner in zip(work.call[sample].tolist(), found.tolist(), strict=True):
            around = rows[(events.lane[rows] == events.lane[call]) & (events.start[rows] <= events.start[call])]
            around = around[events.end[around] >= events.end[call]]
            assert owner == around[np.lexsort((-events.end[around], events.start[around]))[-1]]
