"""What streams hold, and what waits captured, beside CUDA's streams replayed one question at a time."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume
from hypothesis import strategies as st

from hta_graph import DependencyGraph
from hta_graph.dependencies.context import RuleContext
from hta_graph.dependencies.stream_queues import CapturedWork, ResolvedWaits, StreamWaits
from hta_graph.graph.timeline import Timeline
from hta_graph.trace.table import Trace
from tests.edge_accuracy import read
from tests.simulator import Dialect, simulate, write
from tests.simulator.program import (
    Gap,
    Graph,
    GraphLaunch,
    GraphNode,
    Launch,
    Op,
    Program,
    Record,
    Stream,
    SyncDevice,
    Wait,
)
from tests.support.deep_tests import for_all
from tests.support.graph_strategies import GRAPHS
from tests.support.trace_builder import TraceBuilder

S, GRAPH_STREAM = Stream(7), Stream(20)


@dataclass
class Item:
    """What one call enqueued on one stream."""

    place: int
    rows: list[int]

    def last_on_each_lane(self, lane: list[int]) -> list[int]:
        """Return the tails, one per stream on which the item shows."""
        return sorted({lane[row]: row for row in self.rows}.values())

    def first_on_each_lane(self, lane: list[int]) -> list[int]:
        """Return the heads, one per stream on which the item shows."""
        return sorted({lane[row]: row for row in reversed(self.rows)}.values())


class NaiveStreams:
    """CUDA stream semantics, one question at a time."""

    def __init__(self, context: RuleContext) -> None:
        events, position = context.trace.events, context.timeline.position
        self.lane = events.lane.tolist()
        self.enqueue_stream: dict[int, int] = dict(
            zip(context.activities.tolist(), context.enqueue_stream.tolist(), strict=True)
        )
        call = dict(zip(context.activities.tolist(), context.launch_call.tolist(), strict=True))
        self.items: dict[int, list[Item]] = defaultdict(list)
        self.shown: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        latest: dict[int, int] = {}
        for row in sorted(self.enqueue_stream, key=lambda each: int(position[2 * each])):
            place = int(position[2 * call[row]]) if call[row] >= 0 else latest.get(self.lane[row], -1)
            latest[self.lane[row]] = max(latest.get(self.lane[row], -1), place)
            self.shown[self.lane[row]].append((place, len(self.shown[self.lane[row]]), row))
            self._add(self.enqueue_stream[row], place, row)

    def _add(self, enqueue_stream: int, place: int, row: int) -> None:
        for item in self.items[enqueue_stream]:
            if item.place == place:
                item.rows.append(row)
                return
        self.items[enqueue_stream].append(Item(place, [row]))

    def before(self, stream: int, place: int) -> Item | None:
        """Return the last item enqueued on a stream before a place."""
        return max((i for i in self.items[stream] if i.place < place), key=lambda i: i.place, default=None)

    def after(self, stream: int, place: int) -> Item | None:
        """Return the next item enqueued on a stream after a place."""
        return min((i for i in self.items[stream] if i.place > place), key=lambda i: i.place, default=None)

    def last_shown(self, lane: int, place: int) -> int:
        """Return the last work that shows on a stream and was enqueued before a place; -1 if there is none."""
        return max((each for each in self.shown[lane] if each[0] < place), default=(0, 0, -1))[2]

    def held(self, stream: int, place: int, waits: list[tuple[int, int, int, int]]) -> set[int]:
        """Return what a record of the stream at a place captures: its last item and what its pending waits captured."""
        item = self.before(stream, place)
        tails = set(item.last_on_each_lane(self.lane)) if item else set()
        return tails | self.pending(stream, place, waits)

    def pending(self, stream: int, place: int, waits: list[tuple[int, int, int, int]]) -> set[int]:
        """Return what the waits captured that stand behind the stream's last item."""
        item = self.before(stream, place)
        since = item.place if item else -1
        behind = [wait for wait in waits if wait[0] == stream and since <= wait[1] < place]
        return set().union(*(self.captured(wait, waits) for wait in behind))

    def captured(self, wait: tuple[int, int, int, int], waits: list[tuple[int, int, int, int]]) -> set[int]:
        """Return what a wait holds its stream back for; work of the same stream adds nothing to stream order."""
        own, _, record_stream, record_place = wait
        return {row for row in self.held(record_stream, record_place, waits) if self.enqueue_stream[row] != own}


def context_of(trace: Trace) -> RuleContext:
    return RuleContext(trace, Timeline(trace))


def draw_waits(data: st.DataObject, context: RuleContext, naive: NaiveStreams) -> list[tuple[int, int, int, int]]:
    """Draw waits at places where nothing is enqueued, each for a record before it."""
    taken = {item.place for items in naive.items.values() for item in items}
    places = [place for place in range(len(context.timeline.order) + 1) if place not in taken]
    streams = sorted(naive.items)
    drawn = st.tuples(st.sampled_from(streams), st.sampled_from(places), st.sampled_from(streams), st.integers(0, 99))
    waits = data.draw(st.lists(drawn, max_size=6, unique_by=lambda wait: wait[1]))
    return [(lane, place, other, at * place // 100) for lane, place, other, at in waits]


def as_sets(captured: CapturedWork, size: int) -> list[set[int]]:
    found: list[set[int]] = [set() for _ in range(size)]
    for query, activity in zip(captured.query.tolist(), captured.activity.tolist(), strict=True):
        found[query].add(activity)
    return found


@for_all(GRAPHS, st.data(), examples=400)
def test_queues_and_waits_replay_cuda_streams(graph: DependencyGraph, data: st.DataObject) -> None:
    """What each stream holds at each place, what waits captured and whom they hold back, by a naive replay."""
    context = context_of(graph.trace)
    assume(len(context.activities))
    naive = NaiveStreams(context)
    waits = draw_waits(data, context, naive)
    columns = [np.array([wait[at] for wait in waits], np.int64) for at in range(4)]
    table = ResolvedWaits(columns[0].astype(np.int32), columns[1], columns[2].astype(np.int32), columns[3],
                  np.zeros(len(waits), np.int8), np.full(len(waits), -1, np.int32))  # fmt: skip
    streams = StreamWaits(context.queues, table)
    asked = [(lane, place) for lane in sorted(naive.items) for place in range(0, len(context.timeline.order) + 1, 2)]
    lanes, places = np.array([lane for lane, _ in asked], np.int32), np.array([place for _, place in asked], np.int64)
    assert as_sets(streams.outstanding_at(lanes, places), len(asked)) == [naive.held(*pair, waits) for pair in asked]
    assert as_sets(streams.pending_at(lanes, places), len(asked)) == [naive.pending(*pair, waits) for pair in asked]
    ordered = sorted(waits, key=lambda wait: wait[:2])
    assert as_sets(streams.captured_by_waits(), len(waits)) == [naive.captured(wait, waits) for wait in ordered]
    assert_items(context, naive, asked)


def assert_items(context: RuleContext, naive: NaiveStreams, asked: list[tuple[int, int]]) -> None:
    queues = context.queues
    lanes, places = np.array([lane for lane, _ in asked], np.int32), np.array([place for _, place in asked], np.int64)
    _, members = as_lists(queues.tails.expand(queues.item_before(lanes, places)), len(asked))
    before = [naive.before(*pair) for pair in asked]
    assert members == [item.last_on_each_lane(naive.lane) if item else [] for item in before]
    _, members = as_lists(queues.heads.expand(queues.item_after(lanes, places)), len(asked))
    assert queues.last_on(lanes, places).tolist() == [naive.last_shown(*pair) for pair in asked]
    after = [naive.after(*pair) for pair in asked]
    assert members == [item.first_on_each_lane(naive.lane) if item else [] for item in after]


def as_lists(pairs: tuple[Any, Any], size: int) -> tuple[int, list[list[int]]]:
    found: list[list[int]] = [[] for _ in range(size)]
    for query, member in zip(pairs[0].tolist(), pairs[1].tolist(), strict=True):
        found[query].append(member)
    return size, [sorted(members) for members in found]


def graph_beside(sync_rows: bool, *, recorded_only: bool = False) -> TraceBuilder:
    """A graph with rows on streams 20 and 21 waits for stream 7, where a kernel follows at once, and is waited for.

    With ``recorded_only`` that kernel comes after the graph, so that only records show on which stream the graph is.
    """
    trace = TraceBuilder()
    trace.launch("first", (0, 4), (6, 56), 1)
    trace.call("cudaEventRecord", 5, 6, 2)
    trace.call("cudaStreamWaitEvent", 7, 8, 3)
    trace.call("cudaGraphLaunch", 9, 17, 4)
    trace.kernel("C1", 58, 258, 4, stream=20)
    trace.kernel("D1", 58, 318, 4, stream=21)
    start = 320 if recorded_only else 57
    trace.launch("beside", (18, 22), (start, start + 100), 5)
    trace.call("cudaEventRecord", 23, 24, 6)
    trace.call("cudaStreamWaitEvent", 25, 26, 7)
    trace.launch("last", (27, 31), (start + 262, start + 300), 8)
    if sync_rows:
        trace.sync_row("Stream Wait Event", 7, 8, 3, stream=20, wait_on_stream=7, record=2)
        trace.sync_row("Stream Wait Event", 25, 26, 7, stream=7, wait_on_stream=20, record=6)
    return trace


def names(graph: DependencyGraph, *kinds: str) -> set[tuple[str, str]]:
    """Return the names of what edges lead from and to, of some kinds or of all."""
    name = dict(zip(graph.events["event_index"], graph.events["name"], strict=True))
    found = graph.edges[graph.edges["kind"].isin(kinds)] if kinds else graph.edges
    return {(name[pair[0]], name[pair[1]]) for pair in zip(found["source_index"], found["target_index"], strict=True)}


@pytest.mark.parametrize("sync_rows", [True, False], ids=["with records", "without records"])
def test_work_that_overlaps_with_a_graph_is_of_another_stream(sync_rows: bool, tmp_path: Path) -> None:
    graph = graph_beside(sync_rows).graph(tmp_path)
    assert not graph.edges["clamped"].any()
    assert {("first", "C1"), ("first", "D1"), ("D1", "last")} <= names(graph, "event_wait")
    assert ("D1", "beside") not in names(graph)


def test_a_record_says_on_which_stream_a_graph_was_launched(tmp_path: Path) -> None:
    graph = graph_beside(True, recorded_only=True).graph(tmp_path)
    assert not names(graph, "graph_order")
    assert {target for _, target in names(graph, "event_wait")} == {"C1", "D1", "last"}


@pytest.mark.parametrize("captured", [False, True], ids=["on its stream", "on streams of its own"])
@pytest.mark.parametrize("sync_rows", ["none", "resolved"])
def test_graphs_of_a_stream_where_only_graphs_run_are_of_no_other(sync_rows: Any, captured: bool) -> None:
    nodes = GraphNode(200_000, name="node"), GraphNode(90_000, branch=1, after=(0,), name="node")
    fork = Record(0, S), Wait(GRAPH_STREAM, 0), GraphLaunch(0, GRAPH_STREAM)
    once = Op("aten::a", (Launch(S, 50_000),)), *fork, Op("aten::m", (Launch(S, 30_000),)), Gap(60_000)
    program = Program.of(*once * 6, SyncDevice(), graphs=(Graph(nodes, captured=captured),))
    graph = read(write(simulate(program), Dialect(sync_rows=sync_rows)))
    assert names(graph, "graph_order") == {("node", "node")}
