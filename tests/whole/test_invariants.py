"""DESIGN §7 on simulated programs in all dialects and on soups of rows that no profiler would write."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

import hta_graph as hg
from hta_graph import DEFAULT_RULES, CriticalPath, DependencyGraph
from hta_graph.base.errors import QueryError
from hta_graph.model import EdgeKind
from hta_graph.paths.binding_edges import Chain, binding_edges, walk_back
from tests.simulator import Constraint, Dialect, Program, Run, SimEvent, random_program, simulate, to_bytes, write
from tests.simulator.program import (
    Copy,
    Gap,
    Launch,
    Op,
    QueryEvent,
    Record,
    Set,
    Statement,
    Stream,
    SyncDevice,
    SyncEvent,
    SyncStream,
    ThreadProgram,
    Wait,
)
from tests.simulator.strategies import dialects, programs
from tests.support.deep_tests import deep, for_all
from tests.support.invariants import check_graph, check_path, some_windows
from tests.support.random_rows import RANDOM_ROWS, RandomRows, graph_of
from tests.trace_fuzz import as_bytes

BOTH_FAMILIES = programs("arbitrary") | programs("pytorch")


# --- tiling, sums, acyclicity -----------------------------------------------------------------------------------------


@for_all(BOTH_FAMILIES, dialects(), st.integers(0, 99), st.sampled_from((0, 0, -3_000, -2_000_000)), examples=60)
def test_simulated_traces_obey_every_invariant(program: Program, dialect: Dialect, seed: int, clock_ns: int) -> None:
    """Every window tiles, every breakdown sums, edges close no cycle, whatever the clocks say."""
    written = write(simulate(program), replace(dialect, clock_error_ns=clock_ns))
    graph = graph_of(to_bytes(written.document))
    check_graph(graph, some_windows(graph, random.Random(seed)), oracle=True)


@for_all(RANDOM_ROWS, st.integers(0, 99), examples=250)
def test_soups_obey_every_invariant(soup: RandomRows, seed: int) -> None:
    """Rows that overlap without nesting, share instants and correlations, or go back in time break nothing."""
    graph = soup.graph()
    answered = check_graph(graph, some_windows(graph, random.Random(seed)), oracle=True)
    assert answered >= 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize("family", ["pytorch", "arbitrary"])
@pytest.mark.parametrize(("seed", "size"), [(0, 600), *(deep(seed, 3_000) for seed in range(4))])
def test_larger_programs_obey_every_invariant(family: Any, seed: int, size: int) -> None:
    """The same on programs of some thousand events with many steps and annotations."""
    graph = graph_of(to_bytes(write(simulate(random_program(seed, family, size)), Dialect()).document))
    check_graph(graph, some_windows(graph, random.Random(seed)), oracle=True)


@for_all(RANDOM_ROWS | programs("pytorch").map(lambda p: to_bytes(write(simulate(p), Dialect()).document)), examples=60)
def test_gpu_windows_tile_the_run(made: RandomRows | bytes) -> None:
    """Each step's GPU window begins where the last one that was not empty ended (DESIGN §4)."""
    graph = made.graph() if isinstance(made, RandomRows) else graph_of(made)
    windows = []
    for step in graph.trace.steps():
        try:
            windows.append(hg.critical_path(graph, hg.step(step.number, gpu_window=True)).window)
        except hg.HtaGraphError as error:
            assert "is empty" in str(error)  # noqa: PT017 - one of several windows
    assert all(left.end_ns == right.start_ns for left, right in pairwise(windows))


@for_all(RANDOM_ROWS, st.integers(-5_000, 30_000), st.integers(1, 2_200_000), examples=60)
def test_parts_of_a_window_have_the_classes_of_the_whole(soup: RandomRows, start: int, length: int) -> None:
    """Explicit times tile also where they begin before the trace or end after it; outside of it nothing is work."""
    graph = soup.graph()
    first, last = int(graph.trace.events.start.min()), int(graph.trace.events.end.max())
    assume(start < last and start + length > first)
    path = hg.critical_path(graph, hg.between(start, start + length))
    check_path(path)
    frame = path.segments
    outside = frame[(frame.end_ns <= first) | (frame.start_ns >= last)]
    assert set(outside.bound_by) <= {"cpu_gap", "unexplained", "data_loading"}


@for_all(RANDOM_ROWS, st.integers(1, 9), st.booleans(), examples=60)
def test_times_wholly_outside_the_trace_are_refused(soup: RandomRows, away: int, before: bool) -> None:
    """A question about times of which the trace holds nothing is one clear line, not an empty answer."""
    graph = soup.graph()
    first, last = int(graph.trace.events.start.min()), int(graph.trace.events.end.max())
    window = hg.between(first - 2 * away, first - away) if before else hg.between(last + away, last + 2 * away)
    with pytest.raises(QueryError, match="there are no events in"):
        hg.critical_path(graph, window)


# --- determinism, shuffling, shifting ---------------------------------------------------------------------------------

SCRIPT = """
import sys
from analyses.cli.main import main
for path in sys.argv[1:]:
    for command in (["graph"], ["critical-path", "--whole"], ["critical-path"], ["info"]):
        main([command[0], path, "--json", "-", *command[1:]])
"""


@pytest.mark.slow
def test_the_same_bytes_give_the_same_bytes_whatever_the_hash_seed(tmp_path: Path) -> None:
    """Nothing depends on the order of a set or on a previous run: two processes, two hash seeds, one output."""
    files = []
    for number, dialect in enumerate((Dialect(), Dialect(sync_rows="none"), Dialect(sync_rows="unresolved"))):
        family = "arbitrary" if number else "pytorch"
        files.append(tmp_path / f"{number}.json")
        files[-1].write_bytes(to_bytes(write(simulate(random_program(number, family, 300)), dialect).document))
    outputs = [
        subprocess.run([sys.executable, "-c", SCRIPT, *map(str, files)], check=True, capture_output=True,
                       env=os.environ | {"PYTHONHASHSEED": seed}).stdout for seed in ("1", "77")
    ]  # fmt: skip
    assert outputs[0].count(b'"schema"') == 12
    assert outputs[0] == outputs[1]


def row_keys(document: dict[str, Any]) -> list[str]:
    """Name each row by what it says, so that equal rows have equal names wherever they stand."""
    return [repr(sorted(row.items(), key=str)) for row in document["traceEvents"]]


def named_edges(graph: DependencyGraph, keys: list[str]) -> Counter[tuple[Any, ...]]:
    frame = graph.edges
    named = frame.assign(
        source_index=[keys[at] for at in frame.source_index], target_index=[keys[at] for at in frame.target_index]
    )
    return Counter(named.itertuples(index=False, name=None))


def named_segments(path: CriticalPath, keys: list[str]) -> list[tuple[Any, ...]]:
    columns = path.segment_columns()
    columns["event_index"] = [None if at is None else keys[at] for at in columns["event_index"].tolist()]
    return list(zip(*(list(column) for column in columns.values()), strict=True))


def assert_equal_but_for_indices(one: dict[str, Any], two: dict[str, Any]) -> None:
    graphs = [graph_of(as_bytes(document)) for document in (one, two)]
    keys = [row_keys(document) for document in (one, two)]
    edges = [named_edges(graph, names) for graph, names in zip(graphs, keys, strict=True)]
    assert edges[0] == edges[1]
    assert graphs[0].diagnostics == graphs[1].diagnostics
    assert graphs[0].trace.names == graphs[1].trace.names
    assert graphs[0].trace.lanes.labels == graphs[1].trace.lanes.labels
    for window in (None, hg.whole()) if len(graphs[0].trace.events) else ():
        paths = [hg.critical_path(graph, window) for graph in graphs]
        segments = [named_segments(path, names) for path, names in zip(paths, keys, strict=True)]
        assert segments[0] == segments[1]


def shuffled(document: dict[str, Any], seed: int) -> dict[str, Any]:
    rows = list(document["traceEvents"])
    random.Random(seed).shuffle(rows)
    return document | {"traceEvents": rows}


@for_all(BOTH_FAMILIES, dialects(), st.integers(0, 9), examples=60)
def test_shuffling_a_simulated_trace_changes_nothing_but_indices(program: Program, dialect: Dialect, seed: int) -> None:
    """Results depend on what rows say and never on where they stand in the file."""
    document = write(simulate(program), dialect).document
    assert_equal_but_for_indices(document, shuffled(document, seed))


@for_all(RANDOM_ROWS, st.integers(0, 9), examples=250)
def test_shuffling_a_soup_changes_nothing_but_indices(soup: RandomRows, seed: int) -> None:
    """Ties of time, length, kind and correlation are broken by content, the index comes last (DESIGN §3)."""
    document = soup.document()
    assert_equal_but_for_indices(document, shuffled(document, seed))


def shifted_segments(graph: DependencyGraph, shift_ns: int) -> list[tuple[Any, ...]]:
    path = hg.critical_path(graph, hg.whole())
    columns = path.segment_columns()
    columns |= {key: columns[key] - shift_ns for key in ("start_ns", "end_ns")}
    return list(zip(*(list(column) for column in columns.values()), strict=True))


def edge_rows(graph: DependencyGraph) -> list[tuple[Any, ...]]:
    return list(graph.edges.itertuples(index=False, name=None))


SHIFTS = st.sampled_from((1, 999, 10**9 + 1, 10**15 + 7, 1_712_867_402_348_256_789)) | st.integers(0, 2 * 10**18)


@for_all(RANDOM_ROWS, SHIFTS, st.booleans(), examples=60)
def test_shifting_all_times_shifts_the_results_exactly(soup: RandomRows, shift: int, in_header: bool) -> None:
    """A constant added to all times, in the rows or in the header, changes edges not at all and segments by it."""
    here, there = soup.graph(), soup.graph(shift_ns=shift, base_ns=shift // 1_000 * 1_000 if in_header else None)
    assert edge_rows(here) == edge_rows(there)
    assert shifted_segments(here, 0) == shifted_segments(there, shift)


STREAM_SYNC = RandomRows((
    {"ph": "X", "cat": "cuda_runtime", "ts": 0, "dur": 0, "name": "cudaStreamSynchronize", "pid": 9, "tid": 1},
    {"ph": "X", "cat": "kernel", "ts": 0, "dur": 0, "name": "gemm", "pid": 0, "tid": 7, "args": {"stream": 7}},
))  # fmt: skip


@for_all(RANDOM_ROWS, st.integers(1, 10**9), examples=60)
@example(soup=STREAM_SYNC, shift=1)
def test_shifting_to_times_before_zero_shifts_the_results(soup: RandomRows, shift: int) -> None:
    """Times are relative to a base that a file may choose as it likes: a negative one is a time like any other."""
    here, there = soup.graph(), soup.graph(shift_ns=-shift)
    assert edge_rows(here) == edge_rows(there)
    assert shifted_segments(here, 0) == shifted_segments(there, -shift)


@for_all(BOTH_FAMILIES, st.sampled_from(("resolved", "none", "unresolved")), examples=60)
def test_one_execution_in_two_dialects_has_one_path(program: Program, sync_rows: Any) -> None:
    """Epoch microseconds with three decimals and floats over a base time say the same nanoseconds."""
    run = simulate(program)
    assume(run.events)
    written = [write(run, Dialect(time=time, sync_rows=sync_rows)) for time in ("epoch_us_3dec", "us_float_base")]
    graphs = [graph_of(to_bytes(item.document)) for item in written]
    assert edge_rows(graphs[0]) == edge_rows(graphs[1])
    assert shifted_segments(graphs[0], 0) == shifted_segments(graphs[1], 0)


# --- immutability -----------------------------------------------------------------------------------------------------


def stored_arrays(graph: DependencyGraph) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Yield every array that a graph keeps and hands out, with its name."""
    trace, timeline = graph.trace, graph.timeline
    yield "Timeline.order", timeline.order
    yield "Timeline.position", timeline.position
    yield "Timeline.by_lane", timeline.by_lane
    yield "Timeline.position_by_lane", timeline.position_by_lane
    for name in ("launching_call", "operator_around", "launching_operator", "outermost_operator"):
        yield f"DependencyGraph.{name}", getattr(graph, name)
    for name in ("event", "is_end", "time"):
        yield f"Nesting.{name}", getattr(timeline.calls, name)
    tables = (trace.events, trace.lanes, trace.syncs, trace.flows, timeline, timeline.calls)
    for table in (*tables, graph.edge_table, graph.wait_calls):
        for name, value in list(vars(table).items()):
            if isinstance(value, np.ndarray):
                yield f"{type(table).__name__}.{name}", value


def some_graph(seed: int = 5) -> DependencyGraph:
    return graph_of(to_bytes(write(simulate(random_program(seed, "pytorch", 300)), Dialect()).document))


def test_no_array_of_a_graph_can_be_written() -> None:
    """Graphs are immutable after build (DESIGN §6), and so are the subgraphs that filters return."""
    graph = some_graph()
    for each in (graph, graph.filter(kind=["kernel", "runtime"])):
        assert [name for name, array in stored_arrays(each) if array.flags.writeable] == []


def test_queries_change_nothing() -> None:
    """Every question leaves all columns and both frames as they were."""
    graph = some_graph()
    before = {name: array.copy() for name, array in stored_arrays(graph)}
    edges, events = graph.edges.copy(deep=True), graph.events.copy(deep=True)
    ask_everything(graph)
    assert {name for name, array in stored_arrays(graph) if not np.array_equal(array, before[name])} == set()
    assert graph.edges.equals(edges)
    assert graph.events.equals(events)


def ask_everything(graph: DependencyGraph) -> None:
    kernel = int(graph.events[graph.events.kind == "kernel"].event_index.iloc[-1])
    for window in (hg.whole(), hg.step(0), hg.step(0, cpu_window=True), hg.between(0, 2**61)):
        path = hg.critical_path(graph, window)
        _ = path.segments, path.by_event(), path.by_lane(), path.by_bound(), path.summary(), path.segment_columns()
    _ = graph.ancestors(kernel), graph.descendants(kernel), graph.predecessors(kernel), graph.successors(kernel)
    _ = graph.path_edges_between(int(graph.events.event_index.iloc[0]), kernel), graph.neighbourhood(kernel, 3)
    _ = graph.filter(kind="kernel"), graph.subgraph([kernel]), graph.to_networkx(), graph.to_rustworkx()


# --- item 3: the path is the chain of last-finishing constraint sources -----------------------------------------------

RECORDED = frozenset({
    "thread_order", "execution", "launch", "stream_order", "event_wait", "stream_sync", "device_sync", "event_sync",
    "blocking_copy", "forward_backward",
})  # fmt: skip
BY_WAITS = frozenset({"event_wait", "event_sync", "stream_sync", "device_sync"})
RECORDED_RULES = tuple(rule for rule in DEFAULT_RULES if getattr(rule, "__name__", "") in RECORDED)
Place = tuple[int, str]


def tells_all(run: Run) -> bool:
    """Say whether a trace with resolved ids shows every constraint of a run."""
    kinds = {constraint.kind for constraint in run.constraints}
    return kinds <= RECORDED and waits_are_recorded(run) and copies_are_plain(run)


def waits_are_recorded(run: Run) -> bool:
    """Each wait has a row with a record (the profiler drops rows of streams without work, kineto#904)."""
    with_row = {row.call for row in run.sync_rows}
    waits = {event.uid for event in run.events if event.name == "cudaStreamWaitEvent"}
    return waits <= with_row and all(row.record is not None for row in run.sync_rows if row.event is not None)


def copies_are_plain(run: Run) -> bool:
    """No copy ends within its call without holding it: nobody could tell it from one that does."""
    calls = {event.correlation: event for event in run.events if event.kind == "runtime"}
    held = {constraint.source for constraint in run.constraints if constraint.kind == "blocking_copy"}
    copies = [event for event in run.events if event.kind == "memcpy" and event.uid not in held]
    return all(copy.end_ns > calls[copy.correlation].end_ns for copy in copies)


class Truth:
    """A run's constraints, asked backwards."""

    def __init__(self, run: Run, index_of: dict[int, int]) -> None:
        self.run = run
        self.uid_of = {index: uid for uid, index in index_of.items()}
        self.into: dict[Place, list[Constraint]] = {}
        for constraint in run.constraints:
            if not constraint.hidden:
                self.into.setdefault((constraint.target, constraint.target_point), []).append(constraint)

    def last(self, place: Place) -> set[tuple[str, Place]]:
        """Return the kinds and sources of the constraints on a point that finished last (several where they tie)."""
        all_of_it = self.into.get(place, [])
        latest = max((self.run.source_ns(constraint) for constraint in all_of_it), default=0)
        return {(c.kind, (c.source, c.source_point)) for c in all_of_it if self.run.source_ns(c) == latest}

    def event(self, place: Place) -> SimEvent:
        return self.run.events[place[0]]


def walked(graph: DependencyGraph, truth: Truth, chain: Chain) -> list[tuple[Place, str | None]]:
    """Name the points of a walk by uid, each with the kind of the edge that led on from it."""
    names = ("start", "end")
    index = graph.trace.events.index[chain.points >> 1].tolist()
    kinds = [EdgeKind(kind).label for kind in graph.edge_table.kind[chain.edges].tolist()]
    places = [(truth.uid_of[at], names[point & 1]) for at, point in zip(index, chain.points.tolist(), strict=True)]
    return list(zip(places, [*kinds, None], strict=True))


def walk_whole(graph: DependencyGraph) -> tuple[CriticalPath, Chain]:
    path = hg.critical_path(graph, hg.whole())
    return path, walk_back(graph, path.window.sink.point, path.window.start_ns)


def assert_walk_is_true(graph: DependencyGraph, run: Run, index_of: dict[int, int], dialect: Dialect) -> None:
    truth = Truth(run, index_of)
    path, chain = walk_whole(graph)
    steps = walked(graph, truth, chain)
    for (place, kind), (source, _) in pairwise(steps):
        assert (kind, source) in truth.last(place)
    last, _ = steps[-1]
    at_start = truth.event(last).at(last[1]) == min(event.start_ns for event in run.events)  # type: ignore[arg-type]
    assert at_start or not truth.last(last)
    times = [dialect.absolute_ns(truth.event(place).at(place[1])) for place, _ in steps]  # type: ignore[arg-type]
    assert chain.times.tolist() == times
    assert_segments_follow(path, truth, steps, dialect)


def assert_segments_follow(
    path: CriticalPath, truth: Truth, steps: list[tuple[Place, str | None]], dialect: Dialect
) -> None:
    """Each stretch between two points of the walk is covered by segments of its edge and of the event that owns it."""
    columns = path.segment_columns()
    listed = list(zip(*(columns[key].tolist() for key in ("start_ns", "end_ns", "edge", "event_index")), strict=True))
    for (target, kind), (source, _) in pairwise(steps):
        start, end = (dialect.absolute_ns(truth.event(p).at(p[1])) for p in (source, target))  # type: ignore[arg-type]
        inside = [row for row in listed if row[0] < end and row[1] > start]
        assert {row[2] for row in inside} <= {kind}
        if kind not in ("thread_order", None):
            owners = {truth.uid_of[row[3]] for row in inside}
            assert owners <= {source[0] if kind == "launch" or source[1] == "start" else target[0]}


EXACT = Dialect(sync_rows="resolved", time="us_float_base")
ON = st.sampled_from((Stream(7), Stream(20), Stream(24)))
ANY = ON | st.just(Stream(7, 1))
EVENTS = st.integers(0, 2)
NS = st.sampled_from((10_000, 1, 400, 3_000, 50_000, 300_000))
LOCK_FREE = st.one_of(
    st.builds(Gap, NS), st.builds(Record, EVENTS, ON), st.builds(Wait, ON, EVENTS), st.builds(SyncStream, ANY),
    st.builds(SyncDevice, st.integers(0, 1)), st.builds(SyncEvent, EVENTS), st.builds(QueryEvent, EVENTS),
)  # fmt: skip
ENQUEUING = st.one_of(
    st.builds(Launch, ANY, NS), st.builds(Launch, ANY, NS, overlap_ns=st.just(2_000)), st.builds(Set, ANY, NS),
    st.builds(Copy, ANY, NS, st.sampled_from(("HtoD", "DtoH")), st.sampled_from(("pinned", "pageable")), st.booleans()),
)  # fmt: skip


def crossing(event: int, one: Stream, two: Stream, ns: int) -> Op:
    """Work that waits for work of another stream, and a thread that waits for it."""
    work = Launch(one, 50_000), Record(event, one), Wait(two, event), Launch(two, ns), SyncStream(two)
    return Op("aten::crossing", work)


PRELUDE = (
    *(Launch(stream, 5_000) for stream in (Stream(7), Stream(20), Stream(24), Stream(7, 1))),
    *(Record(event, Stream(20)) for event in range(3)),
)


CROSSINGS = st.builds(crossing, EVENTS, ON, ON, NS)


def bodies(statements: SearchStrategy[Statement], size: int) -> SearchStrategy[tuple[Statement, ...]]:
    op = st.builds(Op, st.just("aten::op"), st.lists(statements, max_size=3).map(tuple))
    return st.lists(statements | op, min_size=size // 3, max_size=size).map(tuple)


@st.composite
def telling_programs(draw: st.DrawFn) -> Program:
    """Draw programs whose trace shows all: one thread enqueues, another may record, wait and synchronise."""
    threads = [ThreadProgram(PRELUDE + draw(bodies(LOCK_FREE | ENQUEUING | CROSSINGS, 18)))]
    if draw(st.booleans()):
        threads.append(ThreadProgram(draw(bodies(LOCK_FREE, 6)), "other", 60_000))
    return Program(tuple(threads))


@for_all(telling_programs(), examples=150)
def test_the_path_is_the_chain_of_last_finishing_sources(program: Program) -> None:
    """Item 3 of the proof: point by point the walk follows a true constraint whose source finished last.

    Restricted to runs that a trace with resolved ids shows completely: no hand-off, full queue, lock or graph (all
    inferred; joins inside a graph are hidden), no wait whose row the profiler drops or whose event was never recorded,
    no wait for an event of another device (a row names the recorded stream by its number alone), no copy that ends by
    chance within a call which it does not hold. Where sources finish at one instant each will do.
    """
    run = simulate(program)
    assume(run.events and tells_all(run))
    written = write(run, EXACT)
    graph = hg.build_graph(graph_of(to_bytes(written.document)).trace, RECORDED_RULES)
    assume(len(graph.edge_table))
    assert_walk_is_true(graph, run, written.index_of, EXACT)


@pytest.mark.parametrize("seed", [0, *map(deep, range(1, 12))])
@pytest.mark.parametrize("family", ["pytorch", "arbitrary"])
@pytest.mark.slow
def test_every_recorded_point_binds_to_a_last_finishing_source(family: Any, seed: int) -> None:
    """Also in programs with hand-offs, graphs, locks and queues: at each point whose true constraints are all recorded.

    Left out are points of which a true constraint is inferred or hidden and the returns of copy calls; where the
    profiler drops rows of waits (kineto#904), so that one must be inferred, also whatever waits may reach.
    """
    run = simulate(random_program(seed, family, 1_500))
    written = write(run, EXACT)
    graph = hg.build_graph(graph_of(to_bytes(written.document)).trace, RECORDED_RULES)
    told = RECORDED if waits_are_recorded(run) else RECORDED - BY_WAITS
    assert points_compared(graph, run, written.index_of, told) > 500


def points_compared(graph: DependencyGraph, run: Run, index_of: dict[int, int], told: frozenset[str]) -> int:
    truth = Truth(run, index_of)
    hidden = {(c.target, c.target_point) for c in run.constraints if c.hidden}
    edges, binding = graph.edge_table, binding_edges(graph)
    compared = 0
    for point in np.flatnonzero(binding >= 0).tolist():
        place = named_point(graph, truth, point)
        kinds = {constraint.kind for constraint in truth.into.get(place, [])}
        found = EdgeKind(int(edges.kind[binding[point]])).label
        if kinds | {found} <= told and place not in hidden and "Memcpy" not in truth.event(place).name:
            assert (found, named_point(graph, truth, int(edges.source[binding[point]]))) in truth.last(place)
            compared += 1
    return compared


def named_point(graph: DependencyGraph, truth: Truth, point: int) -> Place:
    return truth.uid_of[int(graph.trace.events.index[point >> 1])], ("start", "end")[point & 1]


@for_all(BOTH_FAMILIES, examples=60)
@example(program=random_program(3, "arbitrary", 400))
def test_in_whole_microseconds_the_path_is_a_valid_chain(program: Program) -> None:
    """In a coarser dialect each step is an edge of the graph whose source has the latest rounded finish."""
    run = simulate(program)
    assume(run.events)
    graph = graph_of(to_bytes(write(run, replace(EXACT, time="us_int")).document))
    path, chain = walk_whole(graph)
    edges, times = graph.edge_table, graph.timeline.times
    finished = np.minimum(times[edges.source], times[edges.target])
    for at, edge in enumerate(chain.edges.tolist()):
        rivals = edges.target == chain.points[at]
        assert (edges.source[edge], edges.target[edge]) == (chain.points[at + 1], chain.points[at])
        assert finished[edge] == finished[rivals].max()
    last = chain.points[-1] if len(chain.points) else -1
    assert times[last] <= path.window.start_ns or not (edges.target == last).any()
