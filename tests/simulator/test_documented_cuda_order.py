"""Hand-written programs whose constraints follow from CUDA's documentation; many settle a case that tools get wrong."""

from dataclasses import replace

import pytest

from tests.simulator import Dialect, Program, Run, Stream, ThreadProgram, simulate, write
from tests.simulator.program import (
    Annotation,
    Backward,
    Call,
    Copy,
    Direction,
    Gap,
    Graph,
    GraphLaunch,
    GraphNode,
    HostMemory,
    Launch,
    Op,
    QueryEvent,
    Record,
    Statement,
    SyncDevice,
    SyncEvent,
    SyncStream,
    Wait,
)
from tests.simulator.run import EdgeKind, Place

ONE, TWO, THREE, OTHER_DEVICE = Stream(7), Stream(20), Stream(24), Stream(7, 1)
GPU_WAITS: tuple[EdgeKind, ...] = ("stream_order", "graph_order", "event_wait")
SYNCS: tuple[EdgeKind, ...] = ("stream_sync", "device_sync", "event_sync", "blocking_copy")


def kernel(name: str, stream: Stream = ONE, ns: int = 50_000, overlap_ns: int = 0) -> Launch:
    return Launch(stream, ns, name, overlap_ns=overlap_ns)


def run_of(*body: Statement, graphs: tuple[Graph, ...] = ()) -> Run:
    return simulate(Program.of(*body, graphs=graphs))


def named(run: Run, *kinds: EdgeKind) -> list[tuple[str, str, str]]:
    """Return constraints as (kind, source name, target name)."""
    return [(c.kind, run.events[c.source].name, run.events[c.target].name) for c in run.constraints if c.kind in kinds]


def bound_by(run: Run, name: str) -> tuple[str, str]:
    """Return kind and source name of what the start of the event of that name waited for last."""
    uid = next(event.uid for event in run.events if event.name == name)
    binding = run.binding[uid, "start"]
    return binding.kind, run.events[binding.source].name


def test_two_launches_before_the_first_kernel_starts() -> None:
    run = run_of(Op("first", (kernel("A"),)), Op("second", (kernel("B"),)))
    assert bound_by(run, "A") == ("launch", "cudaLaunchKernel")
    assert bound_by(run, "B") == ("stream_order", "A")
    assert len(named(run, "launch")) == 2


def test_a_graph_launch_owns_all_its_rows() -> None:
    graph = Graph((GraphNode(95, name="G0"), GraphNode(95, name="G1"), GraphNode(95, name="G2")))
    run = run_of(kernel("P"), GraphLaunch(0, ONE), SyncDevice(), graphs=(graph,))
    launched = [target for _, source, target in named(run, "launch") if source == "cudaGraphLaunch"]
    assert launched == ["G0", "G1", "G2"]
    order = ("stream_order", "P", "G0"), ("stream_order", "G0", "G1"), ("stream_order", "G1", "G2")
    assert named(run, *GPU_WAITS) == list(order)
    assert named(run, *SYNCS) == [("device_sync", "G2", "cudaDeviceSynchronize")]


def test_a_branched_graph_is_one_piece_of_work_in_its_stream() -> None:
    graph = Graph((GraphNode(95, 1, name="left"), GraphNode(95, 2, name="right"), GraphNode(95, 2, (0,), "join")))
    run = run_of(kernel("P"), GraphLaunch(0, ONE), Record(0, ONE), Wait(TWO, 0), kernel("N", TWO), graphs=(graph,))
    shown = [c for c in run.constraints if c.kind in GPU_WAITS and not c.hidden]
    assert [(c.kind, run.events[c.source].name, run.events[c.target].name) for c in shown] == [
        ("graph_order", "P", "left"),
        ("graph_order", "P", "right"),
        ("stream_order", "right", "join"),
        ("event_wait", "left", "N"),
        ("event_wait", "join", "N"),
    ]
    hidden = [c for c in run.constraints if c.hidden]
    assert [(run.events[c.source].name, run.events[c.target].name) for c in hidden] == [("left", "join")]


def test_two_waits_before_one_kernel_are_both_kept() -> None:
    work = kernel("S1", ONE, 90_000), Record(1, ONE), kernel("S2", TWO, 190_000), Record(2, TWO)
    run = run_of(*work, Wait(THREE, 2), Wait(THREE, 1), kernel("D", THREE))
    assert named(run, "event_wait") == [("event_wait", "S2", "D"), ("event_wait", "S1", "D")]
    assert bound_by(run, "D") == ("event_wait", "S2")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("direction", "host", "blocking", "holds"),
    [
        ("DtoH", "pageable", False, True),
        ("DtoH", "pinned", False, False),
        ("DtoH", "pinned", True, True),
        ("HtoD", "pageable", True, False),
        ("HtoD", "pinned", True, True),
        ("HtoD", "pinned", False, False),
        ("DtoD", "pinned", True, False),
    ],
)
def test_copies_hold_their_caller(direction: Direction, host: HostMemory, blocking: bool, holds: bool) -> None:
    run = run_of(Copy(ONE, 480_000, direction, host, blocking))
    assert bool(named(run, "blocking_copy")) is holds
    assert (run.events[0].end_ns > run.events[1].end_ns) is holds


def test_a_wait_on_the_same_stream_adds_nothing() -> None:
    run = run_of(kernel("S"), Record(0, ONE), Wait(ONE, 0), kernel("D"))
    assert named(run, *GPU_WAITS) == [("stream_order", "S", "D")]


def test_devices_share_stream_numbers_but_no_order() -> None:
    run = run_of(kernel("k0"), kernel("k1", OTHER_DEVICE, 500_000), SyncStream(ONE), SyncDevice(1))
    assert named(run, *GPU_WAITS) == []
    assert [source for _, source, _ in named(run, *SYNCS)] == ["k0", "k1"]


def test_a_wait_holds_back_what_another_thread_enqueues() -> None:
    waiting = ThreadProgram((kernel("S"), Record(0, ONE), Wait(THREE, 0)))
    run = simulate(Program((waiting, ThreadProgram((kernel("D", THREE),), "other", 20_000))))
    assert bound_by(run, "D") == ("event_wait", "S")


def test_work_carries_over_into_the_next_step() -> None:
    first = Annotation("ProfilerStep#1", (kernel("big", ns=900_000),))
    run = run_of(first, Annotation("ProfilerStep#2", (kernel("small"), SyncDevice())))
    ends = {event.name: event.end_ns for event in run.events if event.kind == "annotation"}
    assert ends["ProfilerStep#1"] < 900_000 < ends["ProfilerStep#2"]
    shadows = {event.name: event.end_ns for event in run.events if event.kind == "gpu_annotation"}
    assert ends["ProfilerStep#1"] < 900_000 < shadows["ProfilerStep#1"] < shadows["ProfilerStep#2"]


def test_a_wait_refers_to_the_record_before_it() -> None:
    reused = kernel("A"), Record(0, ONE), Wait(TWO, 0), kernel("B"), Record(0, ONE), kernel("D", TWO)
    assert named(run_of(*reused), "event_wait") == [("event_wait", "A", "D")]


def test_waits_without_captured_work_do_nothing() -> None:
    run = run_of(Wait(TWO, 5), Record(0, ONE), Wait(TWO, 0), kernel("A"), kernel("D", TWO), SyncEvent(0))
    assert named(run, "event_wait", "event_sync") == []


def test_a_record_captures_pending_waits() -> None:
    run = run_of(kernel("A"), Record(0, ONE), Wait(TWO, 0), Record(1, TWO), Wait(THREE, 1), kernel("D", THREE))
    assert named(run, "event_wait") == [("event_wait", "A", "D")]


@pytest.mark.parametrize("sync", [SyncStream(TWO), SyncEvent(1)])
def test_syncs_wait_for_pending_waits(sync: Statement) -> None:
    run = run_of(kernel("B", TWO), kernel("A"), Record(0, ONE), Wait(TWO, 0), Record(1, TWO), sync)
    assert [source for _, source, _ in named(run, *SYNCS)] == ["B", "A"]


def test_a_device_sync_waits_for_other_devices_through_pending_waits_alone() -> None:
    run = run_of(kernel("far", OTHER_DEVICE), kernel("near"), Record(0, OTHER_DEVICE), SyncDevice(0))
    assert [source for _, source, _ in named(run, *SYNCS)] == ["near"]
    run = run_of(kernel("far", OTHER_DEVICE), kernel("near"), Record(0, OTHER_DEVICE), Wait(ONE, 0), SyncDevice(0))
    assert [source for _, source, _ in named(run, *SYNCS)] == ["near", "far"]


def test_waits_reach_back_to_the_same_stream_through_another() -> None:
    there = kernel("A"), Record(0, ONE), Wait(TWO, 0), Record(1, TWO), Wait(ONE, 1), kernel("B")
    assert named(run_of(*there), *GPU_WAITS) == [("stream_order", "A", "B")]


def test_a_query_waits_for_nothing_but_leaves_a_row() -> None:
    run = run_of(kernel("A"), Record(0, ONE), QueryEvent(0))
    assert named(run, *SYNCS) == []
    assert [(row.kind, row.wait_on_stream) for row in run.sync_rows] == [("Event Sync", 7)]


def test_the_profiler_drops_a_wait_on_a_stream_without_work() -> None:
    run = run_of(kernel("A"), Record(0, ONE), Wait(TWO, 0), kernel("B", TWO), Wait(TWO, 0))
    assert [row.kind for row in run.sync_rows] == ["Stream Wait Event"]


def test_dependent_launches_overlap_and_their_follower_does_not() -> None:
    run = run_of(kernel("A"), kernel("B", overlap_ns=9_000), kernel("C"))
    order = [(c.source_point, run.events[c.target].name) for c in run.constraints if c.kind == "stream_order"]
    assert order == [("start", "B"), ("end", "C")]
    first, second = (event for event in run.events if event.name in {"A", "B"})
    assert first.end_ns - second.start_ns == 9_000


def test_a_full_queue_holds_the_launch_until_a_slot_is_free() -> None:
    program = replace(Program.of(*(kernel(name) for name in "ABCDE")), launch_queue_depth=2)
    run = simulate(program)
    assert [source for _, source, _ in named(run, "queue_full")] == ["B", "C"]


def test_the_lock_passes_from_return_to_return() -> None:
    holder = ThreadProgram((Call("cudaHostAlloc", 80_000, locked=True),))
    run = simulate(Program((holder, ThreadProgram((kernel("A"), Call("cudaGetDevice", 500)), "other", 10_000))))
    assert named(run, "runtime_lock") == [("runtime_lock", "cudaHostAlloc", "cudaLaunchKernel")]
    assert run.events[1].end_ns == 84_000


@pytest.mark.parametrize("flows", [True, False])
def test_autograd_runs_while_its_caller_waits(flows: bool) -> None:
    inner = Op("AddBackward0", (kernel("A"),), 5)
    burst = Backward((Op("autograd::engine::evaluate_function: AddBackward0", (inner,), 5),), flows)
    run = run_of(Op("aten::add", sequence=5), burst, Op("after"))
    engine = "autograd::engine::evaluate_function: AddBackward0"
    assert named(run, "thread_handoff") == [
        ("thread_handoff", "aten::add", engine),
        ("thread_handoff", engine, "after"),
    ]
    assert named(run, "forward_backward") == [("forward_backward", "aten::add", "AddBackward0")]
    assert len(run.flows) == flows


def test_a_background_thread_feeds_nothing() -> None:
    watchdog = ThreadProgram((Gap(900_000), QueryEvent(0)), "watchdog")
    run = simulate(Program((ThreadProgram((kernel("A"), Record(0, ONE), SyncDevice())), watchdog)))
    query = next(event for event in run.events if event.name == "cudaEventQuery")
    assert query.start_ns > max(event.end_ns for event in run.events if event is not query)
    touching = [c for c in run.constraints if query.uid in {c.source, c.target}]
    assert [(c.source, c.target) for c in touching] == [(query.uid, query.uid)]
    place: Place = (query.uid, "start")
    assert place in run.free


def test_nested_backward_passes_are_refused() -> None:
    inner = Op("x", (Backward((Op("y"),)),))
    with pytest.raises(ValueError, match="wait for itself"):
        run_of(Backward((inner,)))


@pytest.mark.parametrize("has_legacy_default", [True, False])
def test_the_legacy_default_stream_waits_for_all_others_and_they_for_it(has_legacy_default: bool) -> None:
    body = kernel("A", TWO, 90_000), kernel("B", THREE, 70_000), kernel("D"), kernel("C", TWO), kernel("E", THREE)
    run = simulate(replace(Program.of(*body), has_legacy_default=has_legacy_default))
    waits = [("event_wait", *pair) for pair in (("A", "D"), ("B", "D"), ("D", "C"), ("D", "E"))]
    assert named(run, "event_wait") == waits * has_legacy_default
    assert all(one.hidden for one in run.constraints if one.kind == "event_wait")


def test_nodes_of_a_graph_take_other_times_in_each_launch_and_the_same_in_each_run() -> None:
    graph = Graph((GraphNode(100_000, name="left"), GraphNode(100_000, 1, name="HostNode: f", kind="graph_host_node")))
    body = [GraphLaunch(0, ONE, spread=0.1, seed=seed) for seed in (1, 2, 1)]
    first, second = (
        [event.end_ns - event.start_ns for event in run_of(*body, graphs=(graph,)).events if event.context is not None]
        for _ in range(2)
    )
    assert first == second
    assert first[:2] == first[4:] != first[2:4]
    assert all(90_000 <= ns <= 110_000 for ns in first)


def test_a_recorder_draws_what_each_node_of_a_graph_waits_for() -> None:
    graph = Graph((GraphNode(95, name="root"), GraphNode(95, 1, (0,), "side"), GraphNode(95, 0, (1,), "join")))
    run = run_of(kernel("P"), GraphLaunch(0, ONE), kernel("N"), graphs=(graph,))
    drawn, plain = (write(run, Dialect(node_arrows=arrows)).document["traceEvents"] for arrows in (True, False))
    lanes = [(row["ph"], row["tid"]) for row in drawn if row.get("id", 0) >= 1 << 40]
    side = next(event.tid for event in run.events if event.name == "side")
    assert lanes == [("s", 7), ("f", side), ("s", side), ("f", 7), ("s", 7), ("f", 7)]
    assert [row for row in drawn if row.get("id", 0) < 1 << 40] == plain
