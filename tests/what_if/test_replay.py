"""Changes of small hand-made programs do what a person would work out on paper; times in microseconds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hta_graph as hg
import hta_graph.what_if.replay as replays
from analyses.judgement.verdict import verdict_sentences
from hta_graph import DependencyGraph
from hta_graph.base.errors import QueryError, UsageError
from hta_graph.what_if.modified_window import ModifiedWindow
from tests.support.trace_builder import TraceBuilder

pytestmark = pytest.mark.sampled(2)

US = 1_000


def two_kernels(folder: Path) -> DependencyGraph:
    """Make a program whose host waits for two kernels and then works on.

    thread    |--mm--|--mm--|  sync ~~~~~~~~~~~~~~~~| add  |
    stream        |==== gemm ====|=== relu ===|
    """
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 10)
    trace.launch("gemm", (2, 8), (8, 100), 1)
    trace.op("aten::relu", 12, 20)
    trace.launch("relu", (14, 18), (102, 150), 2)
    trace.call("cudaDeviceSynchronize", 25, 160, 3)
    trace.op("aten::add", 170, 200)
    return trace.graph(folder)


def overlapping_kernels(folder: Path) -> DependencyGraph:
    """Make a program whose second kernel starts 1.5 µs before the first one ends, long after its own launch.

    thread    |--mm--|--t--|relu|  sync ~~~~~~~~~~~~~~~~|
    stream        |==== gemm =======|
                                   |=== relu ===|           programmatic dependent launch
    """
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 10)
    trace.launch("gemm", (2, 8), (8, 100), 1)
    trace.op("aten::t", 10, 22)
    trace.op("aten::relu", 22, 30)
    trace.launch("relu", (24, 28), (98.5, 150), 2)
    trace.call("cudaDeviceSynchronize", 35, 160, 3)
    return trace.graph(folder)


@pytest.mark.parametrize("factor", [0, 0.5])
def test_an_overlapping_kernel_waits_for_its_predecessor_and_not_for_its_launch(factor: float, tmp_path: Path) -> None:
    """Its launch came after the predecessor began, but it takes 6 µs to reach the GPU, and not 74."""
    graph = overlapping_kernels(tmp_path)
    assert hg.replay(graph, hg.scale("operator:aten::t", factor)).saved_ns == 0


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("what", "factor", "length"),
    [
        ("kernel:gemm", 0.5, 200 - 46),
        ("kernel:gemm", 0, 200 - 82),
        ("kernel:gemm", 2, 200 + 92),
        ("gemm|relu", 0.5, 200 - 46 - 24),
        ("class:gpu_compute_bound", 0.5, 200 - 46 - 24),
        ("operator:aten::add", 0, 200 - 30),
        ("operator:aten::mm", 0.5, 200 - 46 - 1 - 3),
        ("class:sync_overhead", 0, 200 - 10),
        ("cudaLaunchKernel", 0, 200 - 6),
        ("rank:0", 0.5, 100),
    ],
)
def test_a_scaled_thing_shortens_the_window_by_what_lies_on_the_path(
    what: str, factor: float, length: float, tmp_path: Path
) -> None:
    replayed = hg.replay(two_kernels(tmp_path), hg.scale(what, factor))
    assert replayed.predicted_ns == length * US
    assert replayed.saved_ns == (200 - length) * US
    assert sum(replayed.path_after.by_bound_ns.values()) == replayed.predicted_ns


def test_a_shorter_kernel_lets_the_next_launch_decide(tmp_path: Path) -> None:
    """Without gemm the second kernel starts as soon after its call as the first one did: 6 µs."""
    replayed = hg.replay(two_kernels(tmp_path), hg.scale("kernel:gemm", 0))
    start = replayed.times[2 * _row_of(replayed.graph, "relu")] - replayed.window.start_ns
    assert start == 20 * US


def _row_of(graph: DependencyGraph, name: str) -> int:
    return next(row for row in range(len(graph.event_table)) if graph.name_of(row) == name)


def test_removed_work_is_neither_launched_nor_waited_with(tmp_path: Path) -> None:
    graph = two_kernels(tmp_path)
    free = hg.replay(graph, hg.scale("kernel:relu", 0)).predicted_ns
    gone = hg.replay(graph, hg.remove("kernel:relu")).predicted_ns
    assert (free, gone) == (152 * US, 150 * US), "the gap of 2 µs before it goes too"


def test_inserted_work_comes_before_every_such_event_or_after(tmp_path: Path) -> None:
    graph = two_kernels(tmp_path)
    assert hg.replay(graph, hg.insert("aten::add", 7 * US)).predicted_ns == 207 * US
    assert hg.replay(graph, hg.insert("kernel:gemm", 7 * US, before=False)).predicted_ns == 207 * US
    assert hg.replay(graph, hg.insert("aten::relu", 7 * US)).predicted_ns == 200 * US, (
        "the host has time until the sync"
    )


def test_without_synchronisation_the_host_does_not_wait(tmp_path: Path) -> None:
    """The call returns at once: it then takes what it took after the kernel's end, 10 µs."""
    replayed = hg.replay(two_kernels(tmp_path), hg.scenario("no_host_syncs"))
    assert replayed.predicted_ns == 150 * US, "now the GPU ends last"
    assert replayed.times[2 * _row_of(replayed.graph, "aten::add")] - replayed.window.start_ns == 45 * US


def test_an_added_edge_holds_its_target(tmp_path: Path) -> None:
    graph = two_kernels(tmp_path)
    names = graph.events.set_index("name").event_index
    later = hg.reroute(add=[(int(names["gemm"]), "end", int(names["aten::relu"]), "start", 0)])
    assert hg.replay(graph, later).times[2 * _row_of(graph, "aten::relu")] == graph.event_table.start[0] + 100 * US
    cycle = hg.reroute(add=[(int(names["aten::add"]), "end", int(names["gemm"]), "start", 0)])
    with pytest.raises(QueryError, match="form a cycle"):
        hg.replay(graph, cycle)


def test_changes_apply_in_order_and_one_of_ones_own_is_a_function(tmp_path: Path) -> None:
    def gemm_at_most(limit: int) -> Callable[[ModifiedWindow], None]:
        def change(draft: ModifiedWindow) -> None:
            parts, names = draft.base.parts, draft.base.graph
            own = np.array([owner >= 0 and names.name_of(owner) == "gemm" for owner in parts.owner.tolist()])
            draft.factor[own] *= np.minimum(1, limit / parts.length[own])

        return change

    graph = two_kernels(tmp_path)
    assert hg.replay(graph, gemm_at_most(50 * US)).predicted_ns == (200 - 42) * US
    both = hg.replay(graph, [gemm_at_most(50 * US), hg.scale("kernel:gemm", 0.5)])
    assert both.predicted_ns == (200 - 92 + 25) * US


def test_own_weights_replace_measured_ones(tmp_path: Path) -> None:
    graph = two_kernels(tmp_path)
    row = graph.edges.index[(graph.edges.kind == "execution")][0]
    assert hg.replay(graph, hg.weigh(row, 42 * US)).predicted_ns == (200 - 50) * US


@pytest.mark.sampled(3)
@pytest.mark.parametrize("weight", [42 * US, 92 * US, 200 * US])
@pytest.mark.parametrize("factor", [0, 0.5, 2])
def test_factors_apply_to_own_weights_whichever_comes_first(weight: int, factor: float, tmp_path: Path) -> None:
    graph = two_kernels(tmp_path)
    row = graph.edges.index[(graph.edges.kind == "execution")][0]
    changes = [hg.weigh(row, weight), hg.scale("kernel:gemm", factor)]
    expected = hg.replay(graph, hg.weigh(row, round(factor * weight)))
    for order in (changes, changes[::-1]):
        found = hg.replay(graph, order)
        assert (found.predicted_ns, found.path_after.by_bound_ns) == (
            expected.predicted_ns,
            expected.path_after.by_bound_ns,
        )
        assert found.draft.weight.min() >= 0


def test_work_of_an_earlier_step_keeps_its_times(tmp_path: Path) -> None:
    """Only the kernel that the step launched becomes shorter, however much of the other one lies in its window."""
    trace = TraceBuilder()
    for number, (start, run) in enumerate(((0, (5, 80)), (40, (80, 120)))):
        trace.annotation(f"ProfilerStep#{number}", start, start + 30)
        trace.launch("gemm", (start + 2, start + 4), run, number + 1)
    graph = trace.graph(tmp_path)
    replayed = hg.replay(graph, hg.scale("kernel:gemm", 0.5), hg.step(1))
    assert (replayed.measured_ns, replayed.predicted_ns) == (80 * US, 60 * US)


def test_a_thread_without_a_cause_keeps_its_distance_not_its_time(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 2_000)
    trace.op("aten::add", 2_000, 4_000)
    trace.op("worker", 3_500, 9_000, tid=2)
    graph = trace.graph(tmp_path)
    replayed = hg.replay(graph, hg.scale("aten::mm", 0.5))
    assert replayed.predicted_ns == 8_000 * US


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda: hg.scale("kernel:gemm", -1), "the factor of 'kernel:gemm' is -1; give a finite number of at least 0"),
        (lambda: hg.scale("kernel:gemm", float("nan")), "finite number"),
        (lambda: hg.scale("class:fast", 1), "there is no class 'fast'; available: cpu_bound, "),
        (lambda: hg.scale("rank:one", 1), "'one' is not a rank"),
        (lambda: hg.scale("kernel:", 1), "has no pattern"),
        (lambda: hg.insert("gemm", -5), "give whole nanoseconds from 0 to a year"),
        (lambda: hg.insert("gemm", True), "give whole nanoseconds"),
        (hg.reroute, "give drop or add"),
        (lambda: hg.reroute(drop=["fast"]), "there is no edge kind 'fast'; available: thread_order"),
        (lambda: hg.reroute(add=[(1, "end", 2, "middle", 0)]), "is not an edge"),
        (lambda: hg.weigh([0.5], 1), "give integers"),
        (lambda: hg.scenario("faster"), "there is no scenario 'faster'; available: no_waiting, "),
        (lambda: hg.scenario("communication", "fast"), "'fast' is not a factor"),
        (lambda: hg.scenario("rank_like_others"), "needs a rank"),
        (lambda: hg.scenario("launches_free", 3), "takes no argument"),
        (lambda: hg.scale("gemm", 10**400), "give a finite number"),
        (lambda: hg.scale("gemm", "0.5"), "the factor of 'gemm' is 0.5; give a finite number"),  # type: ignore[arg-type]
        (lambda: hg.insert("gemm", 10**30), "give whole nanoseconds from 0 to a year"),
        (lambda: hg.reroute(add=[(1, "end", 2, "start", 10**30)]), "is not an edge"),
        (lambda: hg.weigh([1, 2], [1, 2, 3]), "2 edges do not fit 3 weights"),
        (lambda: hg.weigh([1], 2**62), "a weight is more than a year"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_at_once(change: Callable[[], object], said: str) -> None:
    with pytest.raises(UsageError) as error:
        change()
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (hg.scale("kernel:conv", 0.5), "nothing in the whole trace matches 'kernel:conv'"),
        (hg.scale("rank:7", 0.5), "there is no rank 7"),
        (hg.insert("conv", 5), "nothing in the whole trace matches 'conv'"),
        (hg.reroute(drop=["host_poll"]), "no edge of kind host_poll"),
        (hg.reroute(drop=["thread_order"]), "nothing precedes"),
        (hg.scenario("no_waiting"), "compares ranks"),
        (hg.scenario("data_loading_free"), "contains no data_loading"),
        (hg.scenario("fused", "aten::mm"), "that launch several kernels"),
    ],
)
def test_what_the_trace_does_not_have_is_said(
    change: Callable[[ModifiedWindow], None], said: str, tmp_path: Path
) -> None:
    graph = two_kernels(tmp_path)
    with pytest.raises(QueryError) as error:
        hg.replay(graph, [hg.scale("kernel:gemm", 0.5), change])
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert hg.replay(graph).predicted_ns == 200 * US, "nothing is applied half"


LONG = 10**15


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "changes",
    [
        [hg.scale("kernel:gemm", 1e300)],
        [hg.scale("kernel:gemm", 1e300), hg.scale("kernel:gemm", 1e300)],
        [hg.scale("kernel:gemm", 1e300), hg.scale("kernel:gemm", 1e300), hg.scale("kernel:gemm", 0)],
        [hg.insert("gemm", 20 * LONG), hg.insert("gemm", 20 * LONG)],
        [hg.weigh([0, 1], 20 * LONG)],
    ],
)
def test_changes_that_add_years_are_refused(changes: list[Callable[[ModifiedWindow], None]], tmp_path: Path) -> None:
    with pytest.raises(QueryError, match=r"last more than a year longer; give smaller factors$"):
        hg.replay(two_kernels(tmp_path), changes, hg.whole())


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    graph = two_kernels(tmp_path)
    changes = [hg.insert("gemm", int(np.int64(10))), hg.insert("gemm", np.int64(10)), hg.scale("relu", np.float32(0.5))]  # type: ignore[arg-type]
    assert hg.replay(graph, changes, hg.whole()).saved_ns == 24 * US - 20


def test_edges_are_added_between_events_that_have_points(tmp_path: Path) -> None:
    trace = TraceBuilder()
    step = trace.annotation("ProfilerStep#1", 0, 50)
    first = trace.op("aten::mm", 0, 10)
    added = hg.reroute(add=[(step, "end", first, "start", 5)])
    with pytest.raises(QueryError, match="is of a kind without edges"):
        hg.replay(trace.graph(tmp_path), added, hg.whole())


@pytest.mark.parametrize("row", [-1, 10_000])
def test_own_weights_name_edges_of_the_graph(row: int, tmp_path: Path) -> None:
    with pytest.raises(QueryError, match=rf"there is no edge {row}; rows of graph.edges are 0 to \d+$"):
        hg.replay(two_kernels(tmp_path), hg.weigh([row], 5), hg.whole())


@pytest.mark.parametrize("changes", ["kernel:gemm", ["kernel:gemm"]])
def test_what_is_no_change_is_refused(tmp_path: Path, changes: Any) -> None:
    with pytest.raises(UsageError, match=r"'kernel:gemm' is not a change; give hg\.scale"):
        hg.replay(two_kernels(tmp_path), changes, hg.whole())


def test_a_call_goes_with_the_work_that_it_launched(tmp_path: Path) -> None:
    """Bound by the host, a step gets shorter by the launching call of a kernel that is not there."""
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 40)
    trace.launch("gemm", (10, 30), (35, 36), 1)
    trace.op("aten::add", 40, 100)
    graph = trace.graph(tmp_path)
    assert hg.replay(graph, hg.scale("kernel:gemm", 0)).predicted_ns == 100 * US
    assert hg.replay(graph, hg.remove("kernel:gemm")).predicted_ns == 80 * US


def test_what_memory_cannot_hold_is_not_replayed_and_the_verdict_says_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = two_kernels(tmp_path)
    monkeypatch.setattr(replays, "ALWAYS_REPLAYED", 0)
    monkeypatch.setattr(replays, "available_memory", lambda: 1_000)
    with pytest.raises(QueryError, match=r"replay of \d+ events takes up to 0.0\d+ MiB of memory, more than is avail"):
        hg.replay(graph)
    assert verdict_sentences(hg.critical_path(graph))
