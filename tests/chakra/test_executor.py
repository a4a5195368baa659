"""The executor: slots, the order of issue, collectives that meet, messages that arrive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from hta_graph.chakra.astra_sim_executor import COMMUNICATION, COMPUTE, CPU, NO_SLOT, Program, execute
from tests.support.deep_tests import for_all

Node = tuple[int, int, Sequence[int]]
"""Slot, duration, what it waits for."""


def program(*nodes: Node, **more: Any) -> Program:
    pairs = [(source, target) for target, (_, _, sources) in enumerate(nodes) for source in sources]
    source, target = np.array(pairs, np.int64).reshape(-1, 2).T
    return Program([slot for slot, _, _ in nodes], [duration for _, duration, _ in nodes], source, target, **more)


def times(*programs: Program, **groups: Sequence[int]) -> list[list[tuple[int, int]]]:
    found = execute(dict(enumerate(programs)), {name[1:]: ranks for name, ranks in groups.items()})
    return [list(zip(found.start[rank], found.end[rank], strict=True)) for rank in range(len(programs))]


def test_independent_nodes_of_one_slot_follow_each_other_whatever_their_stream() -> None:
    assert times(program((COMPUTE, 100, []), (COMPUTE, 100, []))) == [[(0, 100), (100, 200)]]


def test_the_three_slots_work_side_by_side() -> None:
    nodes = program((CPU, 10, []), (COMPUTE, 20, []), (COMMUNICATION, 30, []), collective={2: "1"})
    assert times(nodes, g1=[0]) == [[(0, 10), (0, 20), (0, 30)]]


def test_of_the_ready_nodes_the_lowest_id_is_issued() -> None:
    nodes = program((CPU, 5, []), (COMPUTE, 10, [0]), (COMPUTE, 10, []), (COMPUTE, 10, []))
    assert times(nodes)[0] == [(0, 5), (10, 20), (0, 10), (20, 30)]


def test_nothing_takes_no_time() -> None:
    assert times(program((CPU, 0, []), (CPU, 0, [0]))) == [[(0, 1), (1, 2)]]


def test_a_collective_ends_for_all_its_shortest_duration_after_the_last_came() -> None:
    first = program((COMMUNICATION, 50, []), collective={0: "1"})
    second = program((CPU, 200, []), (COMMUNICATION, 30, [0]), collective={1: "1"})
    assert times(first, second, g1=[0, 1]) == [[(0, 230)], [(0, 200), (200, 230)]]


def test_the_nth_collective_of_a_group_meets_the_nth() -> None:
    first = program((COMMUNICATION, 5, []), (COMMUNICATION, 7, []), collective={0: "1", 1: "1"})
    second = program((COMMUNICATION, 5, []), (CPU, 100, [0]), (COMMUNICATION, 7, [1]), collective={0: "1", 2: "1"})
    assert times(first, second, g1=[0, 1])[0] == [(0, 5), (5, 112)]


def test_two_groups_in_opposite_orders_wait_for_ever() -> None:
    orders = [{0: "1", 1: "2"}, {0: "2", 1: "1"}]
    programs = [program((COMMUNICATION, 5, []), (COMMUNICATION, 5, []), collective=order) for order in orders]
    found = execute(dict(enumerate(programs)), {"1": [0, 1], "2": [0, 1]})
    assert found.stalled == {0: [0, 1], 1: [0, 1]}
    assert found.pending_collectives == {("1", 0): [(0, 0)], ("2", 0): [(1, 0)]}


def test_a_receive_takes_no_slot_and_ends_when_the_message_has_arrived() -> None:
    sender = program((CPU, 40, []), (COMMUNICATION, 10, [0]), sends={1: (0, 1, 7)})
    receiver = program(
        (NO_SLOT, 99, []), (COMMUNICATION, 5, []), (CPU, 1, [0]), receives={0: (0, 1, 7)}, collective={1: "1"}
    )
    assert times(sender, receiver, g1=[1])[1] == [(0, 50), (0, 5), (50, 51)]


def test_a_message_may_arrive_before_it_is_expected() -> None:
    sender = program((COMMUNICATION, 10, []), sends={0: (0, 1, 7)})
    receiver = program((CPU, 40, []), (NO_SLOT, 99, [0]), receives={1: (0, 1, 7)})
    assert times(sender, receiver)[1] == [(0, 40), (40, 40)]


def test_a_message_that_never_comes_is_told() -> None:
    found = execute({0: program((NO_SLOT, 1, []), receives={0: (1, 0, 3)}), 1: program((CPU, 1, []))}, {})
    assert found.pending_receives == {(1, 0, 3): [(0, 0)]}
    assert found.stalled == {0: [0], 1: []}


def test_what_waits_for_itself_never_runs() -> None:
    found = execute({0: program((CPU, 1, []), (CPU, 1, [2]), (CPU, 1, [1]))}, {})
    assert found.stalled == {0: [1, 2]}


def test_nothing_ends_at_once() -> None:
    assert execute({0: program()}, {}).end == {0: []}


@st.composite
def random_nodes(draw: st.DrawFn) -> list[Node]:
    size = draw(st.integers(1, 25))
    return [
        (
            draw(st.sampled_from((CPU, COMPUTE, COMMUNICATION))),
            draw(st.integers(1, 20)),
            draw(st.lists(st.integers(0, at - 1), max_size=3, unique=True)) if at else [],
        )
        for at in range(size)
    ]


@for_all(random_nodes(), examples=600)
def test_an_execution_keeps_every_rule(nodes: list[Node]) -> None:
    """No slot runs two nodes, nothing starts early, and no slot idles while a lower or only node could run."""
    (found,) = times(program(*nodes))
    for at, (slot, duration, sources) in enumerate(nodes):
        start, end = found[at]
        ready = max((found[source][1] for source in sources), default=0)
        assert start >= ready
        assert end == start + duration
        same = [found[other] for other, (where, _, _) in enumerate(nodes) if where == slot and other != at]
        assert all(other_end <= start or other_start >= end for other_start, other_end in same)
        busy = sum(min(other_end, start) - max(other_start, ready) for other_start, other_end in same
                   if other_start < start and other_end > ready)  # fmt: skip
        assert busy == start - ready


@pytest.mark.slow
def test_a_hundred_thousand_nodes_take_seconds() -> None:
    chain = [(at % 2, 3, [at - 1] if at else []) for at in range(100_000)]
    assert times(program(*chain))[0][-1][1] == 300_000
