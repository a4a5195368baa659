"""No node waits for itself: not in simulated programs, not in soups, not in damaged files, not in real traces."""

from __future__ import annotations

import contextlib
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import hta_graph as hg
from hta_graph import DependencyGraph
from hta_graph.base.arrays import first_of_runs
from hta_graph.chakra.astra_sim_executor import CPU
from hta_graph.chakra.check import check
from hta_graph.chakra.convert import convert
from hta_graph.chakra.et_files import read_folder
from hta_graph.chakra.host_tensors import HostTensors
from hta_graph.chakra.host_trace import HostValues
from hta_graph.chakra.nodes import CycleError, Nodes, Pairs, issue_order, nodes_from_graph
from hta_graph.chakra.rank_workload import RankInput
from tests.simulator import Dialect, Program, simulate, to_bytes, write
from tests.simulator.dialect import Exact
from tests.simulator.strategies import dialects, programs
from tests.support.deep_tests import deep, for_all
from tests.support.random_rows import RANDOM_ROWS, RandomRows, graph_of
from tests.support.rank_builder import RankBuilder, named, nodes, workload
from tests.support.shared_traces import SHARED, graph_of_file, shared_traces
from tests.support.trace_builder import TraceBuilder
from tests.trace_fuzz import STRUCTURAL, as_bytes, seeds

CLOCK_ERRORS = st.sampled_from((0, 0, -8_000, -400_000, 30_000))
"""How far GPU rows are moved (ns): some programs' kernels start before their launch."""
DISORDER = ("few_times", "clock_faults", "one_correlation", "swap_fields", "swap_args")
TRACES = [*shared_traces(), *sorted((SHARED / "traces_more").rglob("*.json.gz"))] or [Path("absent")]


def check_order(graph: DependencyGraph) -> Nodes:
    """Check that nodes can be put in an order, and that those of a thread or stream follow each other in it."""
    found = nodes_from_graph(graph, graph.event_flags.communicates)
    assert min(found.source.min(initial=0), found.target.min(initial=0)) == 0
    order = issue_order(found)
    assert len(order) == len(found)
    lanes = np.argsort(found.lane, kind="stable")
    place = np.empty(len(found), np.int64)
    place[order] = np.arange(len(found))
    assert (np.diff(place[lanes])[~first_of_runs(found.lane[lanes])[1:]] > 0).all()
    return found


@pytest.mark.slow
@for_all(programs(), dialects(), CLOCK_ERRORS, examples=800)
def test_no_node_of_a_simulated_program_waits_for_itself(program: Program, dialect: Dialect, ahead: int) -> None:
    written = write(simulate(program), replace(dialect, clock_error_ns=ahead))
    check_order(graph_of(to_bytes(written.document)))


@for_all(RANDOM_ROWS, examples=800)
def test_no_node_of_a_soup_waits_for_itself(soup: RandomRows) -> None:
    check_order(soup.graph())


def in_disorder(number: int) -> bytes:
    """Move, crowd and swap the rows of a small trace: launches come late, arrows lead anywhere, instants coincide."""
    rng = random.Random(f"disorder {number}")
    document = json.loads(rng.choice(seeds())[1], parse_float=lambda text: Exact(Exact.MARK + text))
    for _ in range(rng.choice((1, 2, 3))):
        STRUCTURAL[rng.choice(DISORDER)](document, rng)
    return as_bytes(document)


@pytest.mark.slow
@pytest.mark.parametrize(("first", "count"), [(0, 20), *(deep(first, 500) for first in range(20, 2_000, 500))])
def test_no_node_of_a_disordered_trace_waits_for_itself(first: int, count: int) -> None:
    refused = 0
    for number in range(first, first + count):
        try:
            graph = graph_of(in_disorder(number))
        except hg.HtaGraphError:
            refused += 1
            continue
        check_order(graph)
    assert refused < count // 2


class RandomTensors:
    """Host nodes of which each takes in and puts out some of a few tensors."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def inputs(self, row: int) -> HostValues:
        del row
        return HostValues([[self._rng.randrange(4), 0, 0, 1, 4, "cpu"]])

    outputs = inputs

    def attributes(self, row: int) -> dict[str, Any]:
        return {"row": row}


@pytest.mark.parametrize(("first", "count"), [(0, 5), deep(5, 500)])
def test_tensors_close_no_circle(first: int, count: int) -> None:
    added = 0
    for number in range(first, first + count):
        with contextlib.suppress(hg.HtaGraphError):
            graph = graph_of(in_disorder(number))
            found = nodes_from_graph(graph, graph.event_flags.communicates)
            tensors = HostTensors(graph, RandomTensors(random.Random(number)), np.arange(len(graph.event_table)))
            with_tensors = found.with_dependencies(tensors.dependencies(found))
            assert len(issue_order(with_tensors)) == len(found)
            added += len(with_tensors.source) - len(found.source)
    assert added > count


@pytest.mark.sampled(4)
@pytest.mark.shared
@pytest.mark.parametrize("path", TRACES, ids=lambda path: f"{path.parent.name}/{path.name.removesuffix('.json.gz')}")
def test_no_node_of_a_real_trace_waits_for_itself(path: Path) -> None:
    check_order(graph_of_file(path))


def test_a_wait_at_the_instant_at_which_the_call_around_it_returns_is_no_cycle(tmp_path: Path) -> None:
    """In whole microseconds a synchronisation has no length, and ends before the copy that it waits for returns."""
    trace = RankBuilder(0, 1)
    trace.op("aten::zeros", 0, 10)
    trace.op("aten::copy_", 10, 60)
    trace.call("cudaMemcpyAsync", 15, 50, 1)
    trace.call("cudaStreamSynchronize", 50, 50, 2)
    trace.copy("Memcpy HtoD (Pageable -> Device)", 40, 45, 1)
    trace.op("aten::add", 60, 70)
    folder = workload(tmp_path, trace)
    assert "aten::copy_" in named(folder, "Memcpy").after
    assert any("Memcpy HtoD (Pageable -> Device)" in node.after for node in nodes(folder) if node.on_cpu)
    assert check(folder).findings == []


def test_what_a_kernel_waits_for_is_the_launch_and_not_a_kernel_stamped_before_it(tmp_path: Path) -> None:
    """One stream: what is stamped first was launched only after the wait for what is stamped behind it."""
    trace = TraceBuilder()
    trace.launch("late", (0, 2), (60, 70), 1)
    trace.kernel("long", 0, 50, 9)
    trace.op("aten::add", 72, 74)
    trace.call("cudaStreamSynchronize", 74, 76, 2)
    trace.launch("early", (80, 82), (10, 20), 3)
    trace.agree(100)
    graph = trace.graph(tmp_path)
    found = check_order(graph)
    on_stream = [graph.name_of(row) for row in found.row[found.slot != CPU].tolist()]
    assert on_stream[:3] == ["long", "late", "early"]


@pytest.mark.parametrize("profile", ["full", "gpu"])
def test_a_trace_of_gpu_rows_alone_is_a_workload(tmp_path: Path, profile: str) -> None:
    trace = RankBuilder(0, 1)
    trace.kernel("gemm", 10, 30, 1)
    trace.kernel("relu", 30, 40, 2)
    trace.kernel("side", 5, 12, 3, stream=9)
    folder = workload(tmp_path, trace, profile=profile)
    found = {node.name: node for node in nodes(folder) if "delay" not in node.name}
    assert found.keys() == {"gemm", "relu", "side"}
    assert "gemm" in found["relu"].after
    assert check(read_folder(tmp_path / "work")).findings == []


def test_a_thread_that_is_held_and_does_no_work_gets_no_dependency(tmp_path: Path) -> None:
    """A call that launched nothing in this file, held by a stream's record: its thread has no nodes."""
    trace = TraceBuilder()
    trace.call("cudaMalloc", 0, 5, 4, tid=2)
    trace.launch("gemm", (6, 8), (10, 50), 1, stream=20)
    trace.sync_row("Stream Sync", 6, 60, 3, stream=20)
    trace.call("cudaMemcpyAsync", 55, 60, 3, tid=3)
    check_order(trace.graph(tmp_path))


class Circle:
    """What no host trace gives: a tensor that was needed before it was made."""

    def dependencies(self, nodes: Nodes) -> Pairs:
        return np.array([len(nodes) - 1]), np.array([0])

    def describe(self, operator: int, node: Any) -> None:
        """Say nothing."""


def test_nodes_in_a_circle_are_named(tmp_path: Path) -> None:
    trace = RankBuilder(0, 1)
    mm = trace.op("aten::mm", 0, 10)
    _, gemm = trace.launch("gemm", (2, 4), (5, 50), 1)
    circle = RankInput(0, trace.graph(tmp_path), Circle())
    expected = (
        rf"'aten::mm' \(event {mm}\) waits for 'gemm' \(event {gemm}\), which waits for 'aten::mm' \(event {mm}\)$"
    )
    with pytest.raises(CycleError, match=rf"trace.json: nodes wait for each other in a cycle: {expected}"):
        convert([circle], tmp_path / "work")


def test_a_backward_operator_begins_with_what_it_waits_for_and_not_before(tmp_path: Path) -> None:
    """Two threads, each with the backward operator of a forward one of the other, one right after the other."""
    trace = TraceBuilder()
    trace.op("aten::outer", 0, 40, tid=2)
    trace.op("aten::mm", 5, 15, tid=2, **{"Sequence number": 1})
    trace.call("cudaLaunchKernel", 10, 12, 1, tid=2)
    trace.kernel("gemm", 13, 14, 1)
    trace.op("aten::mm_of_backward", 15, 17, **{"Sequence number": 1, "Fwd thread id": 2})
    trace.op("aten::add", 17, 20, **{"Sequence number": 2})
    trace.op("aten::add_of_backward", 20, 30, tid=2, **{"Sequence number": 2, "Fwd thread id": 1})
    graph = trace.graph(tmp_path)
    assert graph.edge_counts()["forward_backward"]["recorded"] == 2
    check_order(graph)
