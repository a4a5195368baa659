"""Tests of the simulator itself, since everything else is judged by it."""

import json
import time
from collections import Counter, defaultdict
from decimal import Decimal
from graphlib import TopologicalSorter
from itertools import pairwise
from typing import Any

import pytest

from tests.simulator import Dialect, GpuClock, Program, Run, SimEvent, random_program, simulate, to_bytes, write
from tests.simulator.dialect import BASE_NS
from tests.simulator.program import Op
from tests.simulator.reference_order import awaited_by_definition, order_by_definition, order_of_run
from tests.simulator.run import ACTIVITIES, WALKABLE, Constraint, Place
from tests.simulator.strategies import dialects, programs
from tests.support.deep_tests import deep, for_all

pytestmark = pytest.mark.sampled(2)

BOTH_FAMILIES = programs("arbitrary") | programs("pytorch")


def points_by_time(run: Run, uids: set[int]) -> dict[str, list[Place]]:
    """Return each thread's points in the order that the design gives equal times."""
    keyed: dict[str, list[tuple[tuple[int, int, int], Place]]] = defaultdict(list)
    for event in run.events:
        if event.uid in uids and event.kind in {"cpu_op", "runtime"}:
            length = event.end_ns - event.start_ns
            keyed[event.lane].append(((event.start_ns, 1, -length), (event.uid, "start")))
            keyed[event.lane].append(((event.end_ns, 0, length), (event.uid, "end")))
    return {lane: [place for _, place in sorted(places)] for lane, places in keyed.items()}


def thread_order(constraints: list[Constraint]) -> list[tuple[Place, Place]]:
    return sorted(
        ((c.source, c.source_point), (c.target, c.target_point)) for c in by_kind(constraints, "thread_order")
    )


def by_kind(constraints: list[Constraint], *kinds: str) -> list[Constraint]:
    return [constraint for constraint in constraints if constraint.kind in kinds]


def pairs(places: dict[str, list[Place]]) -> list[tuple[Place, Place]]:
    return sorted(pair for lane in places.values() for pair in pairwise(lane))


@for_all(BOTH_FAMILIES, examples=100)
def test_every_time_is_the_earliest_that_its_constraints_allow(program: Program) -> None:
    run = simulate(program)
    allowed: dict[Place, int] = {}
    for constraint in run.constraints:
        place = constraint.target, constraint.target_point
        allowed[place] = max(allowed.get(place, 0), run.source_ns(constraint) + constraint.latency_ns)
    for (uid, point), ns in allowed.items():
        assert run.events[uid].at(point) == ns or ((uid, point) in run.free and run.events[uid].at(point) > ns)
    walkable = {(event.uid, point) for event in run.events if event.kind in WALKABLE for point in ("start", "end")}
    assert walkable - run.free == allowed.keys() - run.free


@for_all(BOTH_FAMILIES, examples=100)
def test_bindings_are_the_sources_that_finished_last(program: Program) -> None:
    run = simulate(program)
    latest: dict[Place, int] = defaultdict(int)
    for constraint in run.constraints:
        place = constraint.target, constraint.target_point
        latest[place] = max(latest[place], run.source_ns(constraint))
    assert {place: run.source_ns(constraint) for place, constraint in run.binding.items()} == latest


@for_all(BOTH_FAMILIES, examples=100)
def test_constraints_have_no_cycle_and_no_twin(program: Program) -> None:
    run = simulate(program)
    graph: dict[Place, set[Place]] = defaultdict(set)
    for constraint in run.constraints:
        graph[constraint.target, constraint.target_point].add((constraint.source, constraint.source_point))
    TopologicalSorter(graph).prepare()
    twins = Counter(constraint[:5] for constraint in run.constraints if not constraint.hidden)
    assert not [key for key, count in twins.items() if count > 1]


@for_all(BOTH_FAMILIES, examples=100)
def test_thread_order_joins_consecutive_points(program: Program) -> None:
    run = simulate(program)
    assert thread_order(run.constraints) == pairs(points_by_time(run, {event.uid for event in run.events}))


@for_all(BOTH_FAMILIES, examples=100)
def test_stream_order_joins_neighbours_on_each_lane(program: Program) -> None:
    run = simulate(program)
    lanes: dict[str, list[SimEvent]] = defaultdict(list)
    for event in run.events:
        if event.kind in ACTIVITIES:
            lanes[event.lane].append(event)
    for lane in lanes.values():
        assert [event.uid for event in lane] == [event.uid for event in sorted(lane, key=lambda e: e.start_ns)]
        assert all(second.end_ns > first.end_ns for first, second in pairwise(lane))
    expected = [
        (first.uid, "start" if second.start_ns < first.end_ns else "end", second.uid)
        for lane in lanes.values()
        for first, second in pairwise(lane)
    ]
    found = [(c.source, c.source_point, c.target) for c in by_kind(run.constraints, "stream_order")]
    assert sorted(found) == sorted(expected)


@for_all(BOTH_FAMILIES, examples=100)
def test_order_of_work_is_what_the_definitions_of_stream_event_and_graph_say(program: Program) -> None:
    run = simulate(program)
    assert order_of_run(run) == order_by_definition(program)


@for_all(BOTH_FAMILIES, examples=100)
def test_blocking_calls_await_what_their_definitions_say(program: Program) -> None:
    run = simulate(program)
    before = order_of_run(run)
    awaited: dict[int, set[int]] = defaultdict(set)
    for constraint in by_kind(run.constraints, "stream_sync", "device_sync", "event_sync", "blocking_copy"):
        awaited[constraint.target] |= {constraint.source} | before.get(constraint.source, set())
    assert awaited == awaited_by_definition(program)


@for_all(BOTH_FAMILIES, examples=100)
def test_rows_nest_and_kernels_follow_their_calls(program: Program) -> None:
    run = simulate(program)
    open_until: dict[str, list[int]] = defaultdict(list)
    for event in sorted(run.events, key=lambda e: (e.start_ns, -e.end_ns)):
        assert 0 <= event.start_ns <= event.end_ns
        if event.context is None:
            stack = open_until[event.lane]
            while stack and stack[-1] <= event.start_ns:
                stack.pop()
            assert not stack or event.end_ns <= stack[-1]
            stack.append(event.end_ns)


@for_all(BOTH_FAMILIES, examples=100)
def test_simulation_is_deterministic(program: Program) -> None:
    assert simulate(program) == simulate(program)


def read_back(text: bytes) -> tuple[list[dict[str, Any]], int]:
    document = json.loads(text, parse_float=Decimal)
    return document["traceEvents"], document.get("baseTimeNanoseconds", 0)


@for_all(BOTH_FAMILIES, dialects(), examples=100)
def test_written_times_and_names_read_back_exactly(program: Program, dialect: Dialect) -> None:
    run = simulate(program)
    written = write(run, dialect)
    rows, base = read_back(to_bytes(written.document))
    assert base in {0, BASE_NS}
    for uid, index in written.index_of.items():
        event, row = run.events[uid], rows[index]
        start, end = (dialect.absolute_ns(ns, event.device) for ns in (event.start_ns, event.end_ns))
        assert (base + row["ts"] * 1_000, row["dur"] * 1_000) == (start, end - start)
        assert row["name"] == event.name or dialect.vendor == "rocm"
        assert row["args"].get("correlation") == event.correlation
    assert len(rows) == len(write(run, dialect).document["traceEvents"])


@for_all(BOTH_FAMILIES, examples=100)
def test_constraints_close_over_missing_record_rows(program: Program) -> None:
    run = simulate(program)
    written = write(run, Dialect(record_rows=False))
    present = {event.uid for event in run.events if event.name != "cudaEventRecord"}
    assert written.index_of.keys() == present
    assert thread_order(written.constraints) == pairs(points_by_time(run, present))
    for constraint in written.constraints:
        assert {constraint.source, constraint.target} <= present
        assert run.source_ns(constraint) + constraint.latency_ns <= run.target_ns(constraint)


def sync_rows(run: Run, kind: Any) -> list[dict[str, Any]]:
    rows = write(run, Dialect(sync_rows=kind)).document["traceEvents"]
    return [row for row in rows if row.get("cat") == "cuda_sync"]


def test_faulty_sync_rows_differ_from_right_ones_in_what_their_dialect_says() -> None:
    run = simulate(random_program(3, "arbitrary", 2_000))
    right, device, stream, half = (
        sync_rows(run, kind) for kind in ("resolved", "other_device", "other_stream", "half_lost")
    )
    shown = {row["pid"] for row in device}
    assert shown.isdisjoint(row["pid"] for row in right)
    assert [row["args"]["context"] for row in device] == [row["args"]["context"] for row in right]
    changed = {row["name"] for row, other in zip(right, stream, strict=True) if row != other}
    assert changed == {"Stream Sync", "Event Sync"}
    assert all(row in right for row in half)
    waits = [row["name"] == "Stream Wait Event" for row in right]
    assert sum(waits) < len(half) < len(right)


@pytest.mark.parametrize("kind", ["none", "resolved", "unresolved", "virtual_tid"])
def test_sync_rows_follow_their_dialect(kind: Any) -> None:
    run = simulate(random_program(3, "arbitrary", 2_000))
    rows = sync_rows(run, kind)
    assert len(rows) == (0 if kind == "none" else len(run.sync_rows))
    waits = [row["args"]["wait_on_cuda_event_record_corr_id"] for row in rows if row["name"] == "Stream Wait Event"]
    assert kind != "unresolved" or set(waits) == {-1, 4_294_967_295}
    streams = [row["tid"] - row["args"]["stream"] for row in rows if row["name"] == "Stream Sync"]
    assert set(streams) <= {1_000_000 if kind == "virtual_tid" else 0}


def test_clock_error_moves_gpu_rows_alone() -> None:
    run = simulate(random_program(1, "pytorch", 300))
    true, wrong = (write(run, Dialect(clock_error_ns=error)) for error in (0, -9_000))
    for uid, index in true.index_of.items():
        moved = (wrong.document["traceEvents"][index]["ts"] - true.document["traceEvents"][index]["ts"]) * 1_000
        assert round(moved) == (0 if run.events[uid].context is None else -9_000)


def test_each_device_has_a_clock_of_its_own_that_keeps_the_order_of_its_rows() -> None:
    run = simulate(random_program(2, "arbitrary", 600))
    middle = run.events[-1].start_ns // 2
    clocks = GpuClock(-70_000, ((middle, -40_000), (middle + 90_000, 60_000)), -100.0), GpuClock(30_000)
    true, wrong = (write(run, Dialect(gpu_clocks=own)) for own in ((), clocks))
    lanes: dict[str, list[Any]] = defaultdict(list)
    for uid, index in true.index_of.items():
        event = run.events[uid]
        moved = (wrong.document["traceEvents"][index]["ts"] - true.document["traceEvents"][index]["ts"]) * 1_000
        assert round(moved) == (0 if event.device is None else clocks[event.device].ahead_ns(event.start_ns))
        if event.kind in ACTIVITIES:
            lanes[event.lane].append(wrong.document["traceEvents"][index]["ts"])
    assert len(lanes) >= 4
    assert all(starts == sorted(starts) for starts in lanes.values())


@pytest.mark.parametrize("size", [10_000, deep(200_000)])
@pytest.mark.parametrize("family", ["pytorch", "arbitrary"])
@pytest.mark.slow
def test_large_programs_take_seconds(family: Any, size: int) -> None:
    begin = time.perf_counter()
    run = simulate(random_program(1, family, size))
    assert len(run.events) > size // 2
    assert time.perf_counter() - begin < 30


@pytest.mark.parametrize(("seeds", "size"), [(9, 1_500), deep(60, 2_000)])
@pytest.mark.parametrize("family", ["pytorch", deep("arbitrary")])
@pytest.mark.slow
def test_seeds_reach_every_kind_of_constraint(family: Any, seeds: int, size: int) -> None:
    kinds = {c.kind for seed in range(seeds) for c in simulate(random_program(seed, family, size)).constraints}
    assert len(kinds) == 14 - (0 if family == "pytorch" else 1)


@pytest.mark.slow
def test_thousands_of_nested_operators_need_no_recursion() -> None:
    op = Op("innermost")
    for depth in range(5_000):
        op = Op(f"op{depth}", (op,))
    run = simulate(Program.of(op))
    assert len(run.events) == 5_001
