"""A thread that waits for an event which another one recorded, with the profiler's records and without them."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from tests.edge_accuracy import graph_edges, read, true_edges
from tests.simulator import Dialect, simulate, write
from tests.simulator.program import (
    Gap,
    Launch,
    Op,
    Program,
    Record,
    Statement,
    Stream,
    SyncDevice,
    SyncEvent,
    ThreadProgram,
)
from tests.support.deep_tests import deep

S, SIDE = Stream(7), Stream(20)


def program(seed: int, *, has_own: bool) -> Program:
    """A thread launches on one stream or two and records; another waits, and may record copies of its own."""
    rng = random.Random(f"events {seed} {has_own}")
    streams, count, jitter = (S, SIDE)[: rng.choice((1, 2))], rng.randint(4, 25), rng.choice((0, 0.05, 0.3))
    kernel = rng.randint(30_000, 400_000)
    # From far behind the GPU to far ahead of it.
    gap = rng.choice((2_000, kernel // 2, kernel))

    def drawn(ns: int) -> int:
        return round(ns * rng.uniform(1 - jitter, 1 + jitter))

    def copy(event: int) -> list[Statement]:
        return [Op("aten::copy_", (Launch(SIDE, 20_000, "copy"),)), Record(event, SIDE)] if has_own else []

    launching: list[Statement] = []
    waiting: list[Statement] = [Gap(rng.randint(20_000, 200_000)), *copy(1_000)]
    for event in range(count):
        launching += [Op("aten::mm", (Launch(stream, drawn(kernel)),)) for stream in streams]
        launching += [Record(event, rng.choice(streams))]
        launching += [Op("aten::add", (Launch(rng.choice(streams), drawn(kernel // 3)),))] * rng.randint(0, 1)
        launching += [Gap(drawn(gap))]
        waiting += [SyncEvent(event), Op("aten::cpu", (Gap(drawn(rng.choice((5_000, 60_000)))),))] * (event % 4 != 3)
        waiting += copy(1_001 + event) if rng.random() < 0.3 else []
    return Program((ThreadProgram((*launching, SyncDevice())), ThreadProgram(tuple(waiting), "waiter")))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("has_own", [False, True], ids=["no records of its own", "records of its own"])
@pytest.mark.parametrize("sync_rows", ["none", "resolved"])
@pytest.mark.parametrize(("programs", "least"), [(6, 25), deep(80, 500)])
def test_an_event_of_another_thread_is_found(sync_rows: Any, has_own: bool, programs: int, least: int) -> None:
    score: Counter[str] = Counter()
    for seed in range(programs):
        record = write(simulate(program(seed, has_own=has_own)), Dialect(sync_rows=sync_rows))
        graph = read(record)
        start, end = (
            dict(zip(graph.events["event_index"], graph.events[column], strict=True))
            for column in ("start_ns", "end_ns")
        )
        truth, found = (
            # What had ended when the call began was not waited for.
            {edge for edge in edges if edge[0] == "event_sync" and end[edge[1]] > start[edge[3]] + 20_000}
            for edges in (true_edges(record, hidden=False), graph_edges(graph))
        )
        score["right"] += len(truth & found)
        score["wrong"] += len(found - truth)
        score["missed"] += len(truth - found)
    assert score["wrong"] <= 0.01 * score["right"], score
    assert score["missed"] <= 0.05 * score["right"], score
    assert score["right"] > least
