"""The format: numbers and names of the schema, bytes of a file, and what pruning and sharing time must keep."""

from __future__ import annotations

import itertools
from pathlib import Path

import networkx
import numpy as np
import pytest
from hypothesis import strategies as st

from hta_graph.chakra.astra_sim_executor import COMPUTE, CPU
from hta_graph.chakra.et_files import length_prefixed, read_et
from hta_graph.chakra.nodes import Nodes, issue_order, remove_nodes
from hta_graph.chakra.replay_times import exclusive_work, overlap_ns, replay_times
from hta_graph.chakra.schema import COLLECTIVES, DESCRIPTOR, NODE_TYPES, GlobalMetadata, Node
from hta_graph.chakra.topological_order import find_cycle, topological_order
from hta_graph.paths.intervals import union
from tests.generate.chakra_schema import descriptor_bytes
from tests.support.deep_tests import for_all

SCALARS = (
    "double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32",
    "sfixed64", "bool", "string", "bytes",
)  # fmt: skip


def test_the_descriptor_is_that_of_the_schema() -> None:
    assert DESCRIPTOR.read_bytes() == descriptor_bytes(DESCRIPTOR)


def test_fields_have_the_numbers_of_the_format() -> None:
    node = {field.name: field.number for field in Node.DESCRIPTOR.fields}
    assert node == {
        "id": 1, "name": 2, "type": 3, "ctrl_deps": 4, "data_deps": 5, "start_time_micros": 6, "duration_micros": 7,
        "inputs": 8, "outputs": 9, "attr": 10,
    }  # fmt: skip
    attribute = Node.DESCRIPTOR.fields_by_name["attr"].message_type
    values = {field.name: field.number for field in attribute.oneofs_by_name["value"].fields}
    assert values == {
        f"{kind}_{form}": 3 + 2 * at + (form == "list") for at, kind in enumerate(SCALARS) for form in ("val", "list")
    }
    assert {field.name: field.number for field in GlobalMetadata.DESCRIPTOR.fields} == {"version": 1, "attr": 2}
    assert Node.DESCRIPTOR.full_name == "ChakraProtoMsg.Node"


def test_types_have_the_numbers_of_the_format() -> None:
    assert [name for name, _ in sorted(NODE_TYPES.items(), key=lambda item: item[1])] == [
        "INVALID_NODE", "METADATA_NODE", "MEM_LOAD_NODE", "MEM_STORE_NODE", "COMP_NODE", "COMM_SEND_NODE",
        "COMM_RECV_NODE", "COMM_COLL_NODE",
    ]  # fmt: skip
    assert [name for name, _ in sorted(COLLECTIVES.items(), key=lambda item: item[1])] == [
        "ALL_REDUCE", "REDUCE", "ALL_GATHER", "GATHER", "SCATTER", "BROADCAST", "ALL_TO_ALL", "REDUCE_SCATTER",
        "REDUCE_SCATTER_BLOCK", "BARRIER",
    ]  # fmt: skip


def test_bytes_are_those_of_the_wire_format() -> None:
    """Written out by hand: tag = number × 8 + type (0 varint, 2 length-delimited); packed ids; a value of 0 is kept."""
    node = Node(id=300, name="mm", type=NODE_TYPES["COMP_NODE"], data_deps=[1, 2], duration_micros=5)
    node.attr.add(name="a", int64_val=0)
    assert node.SerializeToString() == b"".join(
        [b"\x08\xac\x02", b"\x12\x02mm", b"\x18\x04", b"\x2a\x02\x01\x02", b"\x38\x05", b"\x52\x05\x0a\x01a\x48\x00"]
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_384, 300_000])
def test_messages_of_any_length_come_back(tmp_path: Path, size: int) -> None:
    nodes = [Node(id=at, name="x" * size) for at in range(3)]
    path = tmp_path / "trace.0.et"
    messages = [GlobalMetadata(version="1").SerializeToString(), *(node.SerializeToString() for node in nodes)]
    path.write_bytes(b"".join(length_prefixed(messages)))
    assert list(read_et(path).nodes()) == nodes


@st.composite
def nodes_in_lanes(draw: st.DrawFn) -> Nodes:
    """Draw a few lanes of nodes in time, each chained, and dependencies forward in time between them."""
    lanes = draw(st.integers(1, 4))
    size = draw(st.integers(1, 24))
    lane = np.array(draw(st.lists(st.integers(0, lanes - 1), min_size=size, max_size=size)), np.int32)
    number = np.arange(size)
    order = np.argsort(lane, kind="stable")
    chain = [(a, b) for a, b in itertools.pairwise(order) if lane[a] == lane[b]]
    more = draw(st.lists(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), max_size=30))
    pairs = sorted({(int(b), int(a)) for a, b in [*chain, *((min(p), max(p)) for p in more if p[0] != p[1])]})
    target, source = np.array(pairs, np.int64).reshape(-1, 2).T
    length = np.array(draw(st.lists(st.integers(0, 30), min_size=size, max_size=size)), np.int64)
    start = 10 * number
    slot = np.where(lane % 2, COMPUTE, CPU).astype(np.int8)
    row = number.astype(np.int32)
    return Nodes(slot, lane, row, row, start, start + length, number, source, target)


@for_all(nodes_in_lanes(), st.data(), examples=800)
def test_pruning_keeps_who_depends_on_whom(nodes: Nodes, data: st.DataObject) -> None:
    removed = np.array(data.draw(st.lists(st.booleans(), min_size=len(nodes), max_size=len(nodes))))
    kept = remove_nodes(nodes, removed)
    assert kept.row.tolist() == np.flatnonzero(~removed).tolist()
    before, after = (
        networkx.DiGraph(list(zip(n.row[n.source].tolist(), n.row[n.target].tolist(), strict=True)))
        for n in (nodes, kept)
    )
    for graph in (before, after):
        graph.add_nodes_from(range(len(nodes)))
    for row in kept.row.tolist():
        assert networkx.descendants(before, row) - set(np.flatnonzero(removed).tolist()) == networkx.descendants(
            after, row
        )


@for_all(nodes_in_lanes(), examples=800)
def test_time_that_is_shared_out_is_that_of_the_slot(nodes: Nodes) -> None:
    work = exclusive_work(nodes)
    assert (work >= 0).all()
    assert (work <= nodes.end - nodes.start).all()
    for slot in (CPU, COMPUTE):
        own = nodes.slot == slot
        assert work[own].sum() == union(nodes.start[own], nodes.end[own]).total
        assert overlap_ns(nodes, slot) == (nodes.end - nodes.start - work)[own].sum()


@for_all(nodes_in_lanes(), examples=800)
def test_a_replay_is_never_ahead_of_its_delays_nor_of_its_dependencies(nodes: Nodes) -> None:
    times = replay_times(nodes, nodes.end - nodes.start, 0, int(nodes.end.max()))
    assert (times.delay >= 0).all()
    assert (np.abs(1000 * times.work - (nodes.end - nodes.start)) < 1000).all()
    assert sorted(times.order.tolist()) == list(range(len(nodes)))
    place = np.argsort(times.order)
    assert (place[nodes.source] < place[nodes.target]).all()
    held = times.after >= 0
    assert (place[times.after[held]] < place[held]).all()
    assert (times.delay[~times.own_node & (nodes.row >= 0)] == 0).all()


@for_all(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=20), examples=800)
def test_circles_are_found(pairs: list[tuple[int, int]]) -> None:
    pairs = [pair for pair in pairs if pair[0] != pair[1]]
    source, target = np.array(pairs, np.int64).reshape(-1, 2).T
    graph = networkx.DiGraph(pairs)
    circle = find_cycle(source, target, 10)
    assert bool(circle) == (not networkx.is_directed_acyclic_graph(graph))
    if circle:
        assert circle[0] == min(circle)
        assert all(graph.has_edge(cause, waits) for waits, cause in zip(circle, [*circle[1:], circle[0]], strict=True))
    else:
        order = topological_order(source, target, 10).tolist()
        assert sorted(order) == list(range(10))
        assert all(order.index(a) < order.index(b) for a, b in pairs)


def test_a_node_that_is_issued_before_what_it_waits_for_comes_after_it() -> None:
    none = np.zeros(3, np.int64)
    nodes = Nodes(
        none.astype(np.int8), none.astype(np.int32), none.astype(np.int32), none.astype(np.int32), none, none,
        np.array([0, 1, 2]), np.array([2]), np.array([0]),
    )  # fmt: skip
    assert issue_order(nodes).tolist() == [1, 2, 0]
