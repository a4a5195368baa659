"""What two runs enqueued, side by side: added, removed, replaced, by call path."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hta_graph as hg
from analyses.compare.diff.kernels_in_order import kernel_changes, work_changes
from analyses.compare.diff.run_diff import answer_of_comparison, between_runs
from analyses.declare.scope import Scope, whole
from hta_graph.attribution.call_paths import DEEPEST, CallPaths
from hta_graph.attribution.sequence_alignment import align
from tests.support.deep_tests import deep
from tests.support.trace_builder import TraceBuilder


def run(kernels: list[tuple[str, str, float]], tmp_path: Path, name: str) -> Scope:
    """Record one operator per kernel: (operator, kernel, length in µs)."""
    trace = TraceBuilder()
    at = 0.0
    for number, (operator, kernel, length) in enumerate(kernels, 1):
        trace.op(operator, at, at + 4)
        trace.launch(kernel, (at + 1, at + 2), (at + 3, at + 3 + length), number)
        at += 10 + length
    (tmp_path / name).mkdir()
    return whole(0, trace.graph(tmp_path / name))


def test_an_inserted_kernel_is_added_and_the_rest_stays_matched(tmp_path: Path) -> None:
    control = run([("a", "k", 5), ("b", "k", 5), ("a", "k", 5), ("c", "q", 7)], tmp_path, "control")
    test = run([("a", "k", 5), ("b", "k", 5), ("x", "new", 3), ("a", "k", 5), ("c", "q", 9)], tmp_path, "test")
    changes = kernel_changes(control, test)
    found = changes[["change", "call_path", "kernels", "times", "diff_ns"]].to_numpy().tolist()
    assert found == [["added", "x", "new", 1, 3_000], ["slower", "c", "q", 1, 2_000]]


def test_another_kernel_in_its_place_is_replaced(tmp_path: Path) -> None:
    control = run([("a", "k", 5), ("b", "old", 5), ("a", "k", 5)], tmp_path, "control")
    test = run([("a", "k", 5), ("b", "new", 4), ("a", "k", 5)], tmp_path, "test")
    row = kernel_changes(control, test).iloc[0]
    assert (row["change"], row["kernels"], row["diff_ns"]) == ("replaced", "old ⇒ new", -1_000)
    assert control.graph.event(row["control_index"])["name"] == "old"
    assert test.graph.event(row["test_index"])["name"] == "new"


def test_a_kernel_at_another_place_is_moved(tmp_path: Path) -> None:
    work = [("a", "k", 5), ("b", "q", 5), ("c", "r", 5), ("d", "s", 5)]
    control = run([*work, ("late", "reduce", 7)], tmp_path, "control")
    test = run([*work[:1], ("early", "reduce", 7), *work[1:]], tmp_path, "test")
    changes = kernel_changes(control, test)
    found = changes[["change", "call_path", "kernels", "times"]].to_numpy().tolist()
    assert found == [["moved", "late ⇒ early", "reduce", 1]]


def test_a_kernel_on_another_stream_is_moved(tmp_path: Path) -> None:
    """Streams have other numbers in each run: those that all of their kernels share are the same."""
    scopes = []
    for name, streams in (("control", [7, 7, 7, 20, 20]), ("test", [9, 9, 30, 30, 30])):
        trace = TraceBuilder()
        for number, stream in enumerate(streams, 1):
            trace.launch(
                f"k{number}", (10 * number, 10 * number + 1), (10 * number + 2, 10 * number + 8), number, stream=stream
            )
        (tmp_path / name).mkdir()
        scopes.append(whole(0, trace.graph(tmp_path / name)))
    found = kernel_changes(*scopes)
    assert found[["change", "kernels"]].to_numpy().tolist() == [["moved", "k3 (stream 7 ⇒ 30)"]]


def test_collectives_that_moved_are_new_or_are_gone(tmp_path: Path) -> None:
    """Without a GPU, the calls of collectives are in the order."""
    scopes = []
    for name, operators in (
        ("control", ["mm", "mm", "c10d::allreduce_", "c10d::broadcast_"]),
        ("test", ["mm", "c10d::allreduce_", "mm", "c10d::barrier"]),
    ):
        trace = TraceBuilder()
        for at, operator in enumerate(operators):
            around = "backward" if at == 1 else "optimizer"
            trace.op(around, 10 * at, 10 * at + 9)
            trace.op(operator, 10 * at + 1, 10 * at + 8)
        (tmp_path / name).mkdir()
        scopes.append(whole(0, trace.graph(tmp_path / name)))
    found, others = work_changes(*scopes, kernel_changes(*scopes))
    assert not others
    assert (found.moved, found.new, found.gone) == (
        {"c10d::allreduce_": 1},
        {"c10d::barrier": 1},
        {"c10d::broadcast_": 1},
    )
    assert found.places == ("optimizer / c10d::allreduce_", "backward / c10d::allreduce_")


FORWARD, REDUCE, BACKWARD, STEP = ("forward", "mm"), ("backward", "nccl"), ("backward", "mm"), ("optimizer", "adam")
REDUCE_KERNEL = "ncclDevKernel_AllReduce_Sum_f32(ncclDevKernelArgsStorage<4096ul>)"


def program(folder: Path, work: list[tuple[str, str]]) -> hg.DependencyGraph:
    """Record four steps of these kernels, each in an annotation."""
    trace, at, number = TraceBuilder(), 0.0, 0
    for step in (1, 2, 3, 4):
        begin = at
        for around, kernel in work:
            number += 1
            trace.annotation(around, at, at + 8)
            trace.op(kernel, at + 1, at + 6)
            name = REDUCE_KERNEL if kernel == "nccl" else kernel
            trace.launch(name, (at + 2, at + 3), (at + 4, at + 24), number)
            at += 30
        trace.annotation(f"ProfilerStep#{step}", begin - 0.5, at - 0.5)
    folder.mkdir()
    return trace.graph(folder)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("after", "told"),
    [
        (
            [FORWARD, BACKWARD, STEP, ("optimizer", "nccl")],
            "Collectives: 1 moved (AllReduce_Sum_f32, from backward to optimizer).",
        ),
        ([("forward", "adam"), FORWARD, REDUCE, BACKWARD], "Kernels: 1 moved (adam, from optimizer to forward)."),
        deep([FORWARD, ("forward", "gelu"), REDUCE, BACKWARD, STEP], "Kernels: 1 new (gelu)."),
        deep([FORWARD, REDUCE, STEP], "Kernels: 1 gone (mm)."),
        deep([FORWARD, REDUCE, REDUCE, BACKWARD, STEP], "Collectives: 1 new (AllReduce_Sum_f32)."),
        deep([FORWARD, BACKWARD, STEP], "Collectives: 1 gone (AllReduce_Sum_f32)."),
        deep([FORWARD, REDUCE, ("backward", "fused"), STEP], "Kernels: 1 new (fused); 1 gone (mm)."),
    ],
)
def test_work_that_moved_is_new_or_is_gone_is_told_as_such(
    tmp_path: Path, after: list[tuple[str, str]], told: str
) -> None:
    graphs = program(tmp_path / "control", [FORWARD, REDUCE, BACKWARD, STEP]), program(tmp_path / "test", after)
    said = answer_of_comparison(between_runs(*graphs)).conclusion
    assert [line for line in said if line.startswith(("Collectives", "Kernels"))] == [told]


def test_numbers_of_iterations_do_not_part_call_paths(tmp_path: Path) -> None:
    scopes = [run([(f"Region: {number}/0", "k", 5)], tmp_path, str(number)) for number in (5, 8)]
    paths = CallPaths()
    found = [paths.around(scope.graph, scope.work.call)[0] for scope in scopes]
    assert {paths.label(int(path)) for path in found} == {"Region: #/#"}
    assert kernel_changes(*scopes).empty


def test_a_call_path_holds_the_operators_around_outermost_first(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.annotation("ProfilerStep#3", 0, 100)
    trace.op("aten::linear", 1, 20)
    trace.op("aten::addmm", 2, 10)
    trace.launch("gemm", (3, 4), (5, 9), 1)
    scope = whole(0, trace.graph(tmp_path))
    paths = CallPaths()
    assert [paths.label(path) for path in paths.around(scope.graph, scope.work.call)] == ["aten::linear / aten::addmm"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", [*range(12), *map(deep, range(12, 50))])
def test_the_alignment_is_a_common_subsequence(seed: int) -> None:
    rng = np.random.default_rng(seed)
    left = rng.integers(0, 6, 80)
    right = np.delete(left, rng.choice(80, 8, replace=False))
    right = np.insert(right, rng.choice(len(right), 5), 99)
    a, b = align(left, right)
    assert (left[a] == right[b]).all()
    assert (np.diff(a) > 0).all()
    assert (np.diff(b) > 0).all()
    assert len(a) >= 55


def test_a_path_takes_no_stack_and_its_names_are_limited(tmp_path: Path) -> None:
    """Ten thousand operators in one another have texts of a gigabyte."""
    trace, paths = TraceBuilder(), CallPaths()
    for at in range(DEEPEST + 20):
        trace.op(f"operator {'x' * (at % 7)}", at, 10_000 - at)
    found = paths.of(trace.graph(tmp_path))
    assert found.max() == found[-1] == DEEPEST == len(paths) - 1
    assert [len(paths.names(int(found[row]))) for row in (0, 500, DEEPEST - 1, DEEPEST, -1)] == [
        1, 501, DEEPEST, DEEPEST, DEEPEST,
    ]  # fmt: skip
