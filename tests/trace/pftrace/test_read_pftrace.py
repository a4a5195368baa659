"""Perfetto traces as PyTorch's Cuspy recorder writes them: the same graph and path as the JSON of one recording."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import hta_graph as hg
from hta_graph import DependencyGraph
from hta_graph.export.kineto import write_kineto
from hta_graph.trace.decompress import read_bytes
from hta_graph.trace.pftrace.packets import packets
from hta_graph.trace.pftrace.schema import DESCRIPTOR, TracePacket
from tests.generate.chakra_schema import descriptor_bytes
from tests.support.command_line import run_command
from tests.support.cuspy_rows import NodeBuilder, forked_graph
from tests.support.deep_tests import deep
from tests.support.made_pftrace import PacketWriter, cuspy_pftrace, delimited, sliced_pftrace, write_pftrace
from tests.support.shared_traces import SHARED

LAYOUTS = {"tables": cuspy_pftrace, "slices": sliced_pftrace}
Layout = Callable[[dict[str, Any]], bytes]


def in_layout(path: Path, layout: Layout, tmp_path: Path) -> Path:
    return write_pftrace(layout(json.loads(read_bytes(path).data)), tmp_path / f"{path.name}.pftrace")


def path_of(graph: DependencyGraph) -> pd.DataFrame:
    columns = ["start_ns", "end_ns", "name", "lane", "bound_by", "reason"]
    return hg.critical_path(graph, hg.whole()).segments[columns]


def with_operators(trace: NodeBuilder) -> NodeBuilder:
    """Add operators that nest, follow each other at once or take no time, a record of the wait, the recorder's cost."""
    trace.op("outer", 900, 1_010)
    trace.op("inner", 900, 950)
    trace.op("next", 950, 1_000)
    trace.op("instant", 1_000, 1_000)
    trace.op("later", 1_486, 1_500)
    trace.rows[-1]["args"] = {"External id": 7, "Input Dims": [[2, 3], []]}
    trace.sync_row("Context Sync", 1_060, 1_485, 101)
    overhead = {"ph": "X", "cat": "overhead", "name": "Buffer Flush", "pid": -1, "tid": 0, "ts": 1_200, "dur": 5}
    trace.row(**overhead, args={})
    return trace


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("lanes", [False, True])
def test_one_recording_has_one_path_in_both_formats(tmp_path: Path, layout: Layout, lanes: bool) -> None:
    written = with_operators(forked_graph(lanes=lanes, arrows=layout is cuspy_pftrace)).write(tmp_path / "trace.json")
    plain, other = hg.build_graph(written), hg.build_graph(in_layout(written, layout, tmp_path))
    pd.testing.assert_frame_equal(path_of(other), path_of(plain))
    for column in ("source", "target", "kind", "rule"):
        assert getattr(other.edge_table, column).tolist() == getattr(plain.edge_table, column).tolist()
    assert other.diagnostics["graph_arrows"] == (9 if layout is cuspy_pftrace else 0)


def test_host_and_event_nodes_keep_their_kinds_and_names(tmp_path: Path) -> None:
    trace = NodeBuilder()
    trace.call("cudaGraphLaunch", 0, 20, 1)
    first = trace.node("A", 30, 130, 1)
    mark = trace.node("EventRecord", 130, 130, 1, [first], cat="graph_event_node")
    trace.node("HostNode: my_callback", 131, 200, 1, [mark], cat="graph_host_node")
    written = trace.write(tmp_path / "trace.json")
    plain, other = hg.build_graph(written), hg.build_graph(in_layout(written, cuspy_pftrace, tmp_path))
    pd.testing.assert_frame_equal(other.events.drop(columns="event_index"), plain.events.drop(columns="event_index"))
    assert other.edges_of("graph_order").source_ns.tolist() == plain.edges_of("graph_order").source_ns.tolist()


def test_arguments_are_looked_up_in_the_packets(tmp_path: Path) -> None:
    written = in_layout(with_operators(forked_graph()).write(tmp_path / "trace.json"), cuspy_pftrace, tmp_path)
    trace = hg.read_trace(written)
    rows = [at for at in range(len(trace.events)) if trace.name_of(at) == "later"]
    from hta_graph.trace.event_args import read_event_args

    assert read_event_args(trace, ["Input Dims"], pd.array(rows).to_numpy("int32"))["Input Dims"][0] == [[2, 3], []]


def test_what_is_written_as_json_has_the_same_graph(tmp_path: Path) -> None:
    graph = hg.build_graph(in_layout(forked_graph(lanes=True).write(tmp_path / "t.json"), cuspy_pftrace, tmp_path))
    write_kineto(graph, tmp_path / "again.json")
    pd.testing.assert_frame_equal(path_of(hg.build_graph(tmp_path / "again.json")), path_of(graph))


@pytest.mark.parametrize("packed", [False, True])
def test_a_truncated_file_is_named_and_recovered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], packed: bool
) -> None:
    data = sliced_pftrace(forked_graph().document())
    cut = data[: len(data) * 2 // 3 + 1]
    path = tmp_path / "cut.pftrace"
    path.write_bytes(gzip.compress(cut, mtime=0) if packed else cut)
    code, _, said = run_command(capsys, "info", str(path))
    assert code == 1
    assert said.count("\n") == 1
    assert "the Perfetto data is truncated at byte " in said
    assert "--salvage" in said
    code, out, said = run_command(capsys, "info", str(path), "--salvage")
    assert code == 0
    assert "truncated" in said
    assert "kernel" in out


def test_a_corrupt_packet_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = bytearray(sliced_pftrace(forked_graph().document()))
    data[len(data) // 2 :] = b"\xff" * 64
    (tmp_path / "bad.pftrace").write_bytes(data)
    assert "the Perfetto data is corrupt at byte " in run_command(capsys, "info", str(tmp_path / "bad.pftrace"))[2]


def test_the_trace_of_another_program_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = PacketWriter([], 0)
    row = {"pid": 1, "tid": 1, "name": "frame", "cat": "gfx", "ts": 1.0, "dur": 2.0}
    writer.begin(row)
    writer.end(row)
    path = write_pftrace(writer.data(), tmp_path / "android.pftrace")
    code, _, said = run_command(capsys, "info", str(path))
    assert (code, said.count("\n")) == (1, 1)
    assert "is a Perfetto trace (.pftrace) of another program" in said
    assert "(found: gfx)" in said


def test_slices_without_an_end_and_ends_without_a_slice_are_counted(tmp_path: Path) -> None:
    writer = PacketWriter([], 0)
    row = {"pid": 1, "tid": 1, "name": "op", "cat": "cpu_op", "ts": 1.0, "dur": 2.0}
    other = {**row, "tid": 2}
    for add, own in ((writer.begin, row), (writer.end, row), (writer.begin, row), (writer.end, other)):
        add(own)
    trace = hg.read_trace(write_pftrace(writer.data(), tmp_path / "t.pftrace"))
    assert (len(trace.events), trace.diagnostics["rows_dropped_unpaired"]) == (1, 2)


def test_packets_are_read_however_they_are_cut() -> None:
    data = cuspy_pftrace(forked_graph().document())
    whole = [delimited(packet) for _, packet in packets([data])]
    cut = [delimited(packet) for _, packet in packets(data[at : at + 7] for at in range(0, len(data), 7))]
    assert b"".join(whole) == data
    assert cut == whole


@pytest.mark.parametrize(("size", "limit_s"), [(1 << 25, 0.5), deep(1 << 27, 2)])
def test_a_long_packet_in_short_pieces_is_read_in_time(size: int, limit_s: float) -> None:
    # What came so far must not be copied with each piece.
    packet = TracePacket()
    packet.track_descriptor.thread.thread_name = bytes(size)
    data = memoryview(delimited(packet))
    begin = time.process_time()
    pieces = (bytes(data[at : at + (1 << 16)]) for at in range(0, len(data), 1 << 16))
    assert len(list(packets(pieces))) == 1
    assert time.process_time() - begin < limit_s


def test_the_shipped_descriptor_is_that_of_the_schema() -> None:
    assert DESCRIPTOR.read_bytes() == descriptor_bytes(DESCRIPTOR)


@pytest.mark.shared
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("name", ["sync_alexnet_a100", "sync_event_multistream"])
def test_real_traces_have_one_path_in_both_formats(tmp_path: Path, layout: Layout, name: str) -> None:
    source = SHARED / "traces" / name / "rank0.json.gz"
    plain, other = hg.build_graph(source), hg.build_graph(in_layout(source, layout, tmp_path))
    pd.testing.assert_frame_equal(path_of(other), path_of(plain))


@pytest.mark.shared
@pytest.mark.parametrize("count", [1, deep(None)])
def test_made_samples_are_read_whole(count: int | None) -> None:
    for path in sorted((SHARED / "formats" / "pftrace").iterdir())[:count]:
        trace = hg.read_trace(path)
        assert len(trace.events) > 10_000
        assert not any(count for key, count in trace.diagnostics.items() if key.startswith("rows_"))
