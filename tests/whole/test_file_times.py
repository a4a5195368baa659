"""Outputs give an event the time of its file, also where a graph moved GPU events into host time; lags stay true.

A GPU clock that is 80 µs ahead moves every GPU row of a file. The graph moves them back, and its edges, segments and
windows are those of clocks that agree. Whatever gives the time of an event gives that of the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

import hta_graph as hg
from analyses.declare.scope import whole
from analyses.hta.frame import hta_trace_frames
from analyses.questions.collectives import collective_members
from analyses.questions.counter_tracks import counter_tracks
from analyses.questions.kernel_sequences import write_sequence_overlay
from analyses.questions.overlap import communication_kernels
from analyses.source.matched_collectives import matched_collectives
from hta_graph.base.text.json_text import to_json
from hta_graph.chakra.convert import convert
from hta_graph.chakra.convert_options import ConvertOptions
from hta_graph.chakra.et_files import attributes, read_folder
from hta_graph.chakra.host_trace import read_host_trace
from hta_graph.chakra.linked_trace import link_traces, linked_json
from hta_graph.chakra.rank_workload import RankInput
from hta_graph.export.anonymize.anonymize_trace import TraceAnonymizer
from hta_graph.export.graph_json import graph_document
from hta_graph.export.sync_dependencies import SyncDependencies
from hta_graph.graph.conversion import HOST_TIMES
from hta_graph.multi_rank.wire_format import answer_pieces, graph_of_answer
from hta_graph.paths.gpu_activity import copies_of
from tests.simulator import Dialect, random_program, simulate, to_bytes, write
from tests.simulator.ranks import Clock, JobShape, Recording, ddp, record_job, simulate_job
from tests.support.host_builder import host_of
from tests.support.overlay import overlay_bytes

AHEAD_NS = 80_000
Times = dict[int, tuple[int, int]]
"""Start and end of events (ns, absolute) by their place in ``traceEvents``."""


class Recorded(NamedTuple):
    """A trace, its graph, and what its file says of each event."""

    path: Path
    graph: hg.DependencyGraph
    times: Times

    @property
    def rows(self) -> list[dict[str, Any]]:
        return list(json.loads(self.path.read_bytes())["traceEvents"])


def recorded(path: Path) -> Recorded:
    document = json.loads(path.read_bytes())
    base, rows = document.get("baseTimeNanoseconds", 0), document["traceEvents"]
    graph = hg.build_graph(hg.read_trace(path))
    starts = {index: base + round(rows[index]["ts"] * 1000) for index in graph.event_table.index.tolist()}
    times = {index: (start, start + round(rows[index].get("dur", 0) * 1000)) for index, start in starts.items()}
    return Recorded(path, graph, times)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Recorded, Recorded]:
    """Return one program recorded with clocks that agree, and with a GPU clock that is ahead."""
    run, folder = simulate(random_program(5, "pytorch", 150)), tmp_path_factory.mktemp("clocks")
    found = []
    for name, ahead in (("agree", 0), ("ahead", AHEAD_NS)):
        path = folder / f"{name}.json"
        path.write_bytes(to_bytes(write(run, Dialect(clock_error_ns=ahead)).document))
        found.append(recorded(path))
    true, moved = found
    assert true.graph.trace.moved_from is None
    assert moved.graph.trace.moved_from is not None
    return true, moved


@pytest.fixture
def true(pair: tuple[Recorded, Recorded]) -> Recorded:
    return pair[0]


@pytest.fixture
def moved(pair: tuple[Recorded, Recorded]) -> Recorded:
    return pair[1]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[Recorded]:
    """Return two ranks that communicate; the clock of the second one's GPU is ahead."""
    recording = Recording(ids=True, clocks={1: Clock(gpu_offset_ns=AHEAD_NS)})
    job = record_job(simulate_job(ddp(JobShape(ranks=2, steps=2))), recording, tmp_path_factory.mktemp("job"))
    found = [recorded(path) for path in job.paths]
    assert [own.graph.trace.moved_from is not None for own in found] == [False, True]
    return found


# -- every output that gives the time of an event ----------------------------------------------------------------------


def of_table(frame: pd.DataFrame, start: str = "start_ns", end: str = "end_ns") -> Times:
    ends = frame[end] if end in frame else frame[start] + frame["duration_ns"]
    return dict(zip(frame["event_index"].tolist(), zip(frame[start].tolist(), ends.tolist(), strict=True), strict=True))


def of_networkx(one: Recorded, folder: Path) -> Times:
    return {data["event_index"]: (data["start_ns"], data["end_ns"]) for _, data in one.graph.to_networkx().nodes.data()}


def of_json(one: Recorded, folder: Path) -> Times:
    return of_table(pd.DataFrame(json.loads(b"".join(to_json(graph_document(one.graph))))["events"]))


def of_saved(one: Recorded, folder: Path) -> Times:
    hg.save_graph(one.graph, folder / "saved")
    return of_table(hg.load_graph(folder / "saved").events)


def of_worker(one: Recorded, folder: Path) -> Times:
    found = graph_of_answer(b"".join(answer_pieces(one.graph)))
    assert (found.gpu_clock, found.edges.equals(one.graph.edges)) == (one.graph.gpu_clock, True)
    return of_table(found.events)


def of_frames(one: Recorded, folder: Path) -> Times:
    found = hg.from_dataframes(one.graph.events, one.graph.edges)
    pd.testing.assert_frame_equal(found.edges, one.graph.edges)
    return of_table(found.events)


def of_subgraph(one: Recorded, folder: Path) -> Times:
    return of_table(one.graph.filter(kind="kernel").events)


def of_hta(one: Recorded, folder: Path) -> Times:
    frame = hta_trace_frames([whole(0, one.graph)])[0][0]
    first = min(start for start, _ in one.times.values())
    ts, ends = (np.rint(frame[name] * 1000).astype(int) + first for name in ("ts", "end"))
    return dict(zip(frame.index.tolist(), zip(ts.tolist(), ends.tolist(), strict=True), strict=True))


def of_linked(one: Recorded, folder: Path) -> Times:
    host = read_host_trace(host_of(one.graph).write(folder / "host.json"))
    document = json.loads(b"".join(linked_json(link_traces(one.graph, host, any_process=True))))
    index = {row["args"].get("correlation"): at for at, row in enumerate(one.rows) if row.get("cat") in WORK}
    base, nodes = document["baseTimeNanoseconds"], [node for node in document["nodes"] if "cat" in node]
    starts = {index[node["args"]["correlation"]]: base + round(node["ts"] * 1000) for node in nodes}
    lengths = {index[node["args"]["correlation"]]: round(node["inclusive_dur"] * 1000) for node in nodes}
    return {at: (start, start + lengths[at]) for at, start in starts.items()}


def of_chakra(one: Recorded, folder: Path) -> Times:
    convert([RankInput(0, one.graph)], folder / "work", ConvertOptions(unknown="as-compute"))
    written = read_folder(folder / "work").files[0].nodes()
    nodes = [{name: value for name, _, value in attributes(node)} for node in written]
    on_gpu = [node for node in nodes if "stream" in node and "event_index" in node]
    return {node["event_index"]: (node["start_nanos"], node["start_nanos"] + node["duration_nanos"]) for node in on_gpu}


WORK = ("kernel", "gpu_memcpy", "gpu_memset")
OUTPUTS: dict[str, Callable[[Recorded, Path], Times]] = {
    "events": lambda one, _: of_table(one.graph.events),
    "subgraph": of_subgraph,
    "networkx": of_networkx,
    "json": of_json,
    "parquet": of_saved,
    "worker": of_worker,
    "dataframes": of_frames,
    "hta": of_hta,
    "linked": of_linked,
    "chakra": of_chakra,
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", OUTPUTS)
def test_an_event_has_the_time_of_its_file(name: str, pair: tuple[Recorded, Recorded], tmp_path: Path) -> None:
    for one in pair:
        folder = tmp_path / one.path.stem
        folder.mkdir()
        found = OUTPUTS[name](one, folder)
        assert set(found) & {row for row, own in enumerate(one.rows) if own.get("cat") == "kernel"}
        assert {index: one.times[index] for index in found} == found


def test_kernels_and_copies_that_analyses_list_have_the_time_of_their_file(moved: Recorded) -> None:
    scope = whole(0, moved.graph)
    kernels = communication_kernels([scope])
    assert len(kernels)
    assert (kernels["start_ns"] == [moved.times[index][0] for index in kernels["event_index"]]).all()
    copies = copies_of(moved.graph, scope.work)
    index = moved.graph.event_table.index[copies.row].tolist()
    drawn = copies.in_file_time(moved.graph.trace)
    assert list(zip(drawn.start.tolist(), drawn.end.tolist(), strict=True)) == [moved.times[at] for at in index]


def test_members_of_collectives_have_the_time_of_their_own_file(ranks: list[Recorded]) -> None:
    scopes = [whole(rank, own.graph) for rank, own in enumerate(ranks)]
    members = collective_members(matched_collectives(scopes))
    assert len(members) > 4
    for rank, own in enumerate(ranks):
        mine = members[members["rank"] == rank]
        assert of_table(mine) == {index: own.times[index] for index in mine["event_index"]}
        assert (mine["arrival_ns"] == mine["start_ns"]).all()
        assert (mine["wait_ns"] + mine["transfer_ns"] == mine["duration_ns"]).all()


# -- lags, segments and windows are those of clocks that agree ---------------------------------------------------------


def test_lags_and_waits_are_those_of_clocks_that_agree(true: Recorded, moved: Recorded) -> None:
    assert moved.graph.gpu_clock[0]["pieces"][0]["offset_ns"] == AHEAD_NS
    pd.testing.assert_frame_equal(moved.graph.edges, true.graph.edges)
    waits = [SyncDependencies(one.graph).table() for one in (true, moved)]
    pd.testing.assert_frame_equal(*map(pd.DataFrame, waits))
    nodes = [dict(one.graph.to_networkx().nodes.data("time_ns")) for one in (true, moved)]
    assert nodes[0] == nodes[1]


def test_host_times_stand_beside_those_of_the_file_only_where_events_moved(true: Recorded, moved: Recorded) -> None:
    assert not {*HOST_TIMES} & {*true.graph.events}
    host = of_table(moved.graph.events, *HOST_TIMES)
    assert host == true.times
    assert host != moved.times


# -- saved graphs ------------------------------------------------------------------------------------------------------


def test_a_saved_graph_is_loaded_as_it_was(moved: Recorded, tmp_path: Path) -> None:
    hg.save_graph(moved.graph, tmp_path / "saved")
    hg.save_graph(moved.graph, tmp_path / "saved")
    found = hg.load_graph(tmp_path / "saved")
    assert found.trace.gpu_clock == moved.graph.trace.gpu_clock
    pd.testing.assert_frame_equal(found.events, moved.graph.events)
    pd.testing.assert_frame_equal(found.edges, moved.graph.edges)
    pd.testing.assert_frame_equal(hg.critical_path(found).segments, hg.critical_path(moved.graph).segments)


def test_a_graph_whose_events_did_not_move_has_no_table_of_them(true: Recorded, tmp_path: Path) -> None:
    hg.write_parquet(true.graph, tmp_path / "tables")
    assert not (tmp_path / "tables" / "file_times.parquet").exists()
    hg.save_graph(true.graph, tmp_path / "saved")
    assert hg.load_graph(tmp_path / "saved").trace.moved_from is None


def test_a_saved_job_keeps_the_times_of_each_file(ranks: list[Recorded], tmp_path: Path) -> None:
    hg.save_graph(hg.build_job([own.graph for own in ranks]), tmp_path / "saved")
    job = hg.load_graph(tmp_path / "saved")
    assert {*HOST_TIMES}.isdisjoint(job.events)
    for rank, own in enumerate(ranks):
        assert of_table(job.graph(rank).events) == {
            index: own.times[index] for index in own.graph.events["event_index"]
        }


# -- traces that are written again -------------------------------------------------------------------------------------


def added_rows(text: bytes, one: Recorded) -> list[dict[str, Any]]:
    """Return what stands behind the rows of the file, which stay as they are."""
    original = one.path.read_bytes()
    assert text.startswith(original[: original.rindex(b"}", 0, original.rindex(b"]"))])
    return list(json.loads(text)["traceEvents"][len(one.rows) :])


def slices(rows: Iterable[dict[str, Any]]) -> list[tuple[str, float]]:
    return [(row["ph"], row["ts"]) for row in rows if row["ph"] in "BEi"]


def ends_of_arrows(rows: Iterable[dict[str, Any]]) -> set[tuple[Any, ...]]:
    arrows = [row for row in rows if row.get("cat") == "critical_path" and row["ph"] in "sf"]
    return {(row.get("pid"), row.get("tid"), row["ts"]) for row in arrows}


def test_an_overlay_is_in_host_time_and_its_arrows_end_at_rows_of_the_file(true: Recorded, moved: Recorded) -> None:
    texts = [overlay_bytes(hg.critical_path(one.graph)) for one in (true, moved)]
    added = [added_rows(text, one) for text, one in zip(texts, (true, moved), strict=True)]
    assert slices(added[0]) == slices(added[1])
    names = [[row["args"]["name"] for row in rows if row.get("name") == "thread_name"] for rows in added]
    assert [[name.endswith("(host time)") for name in own] for own in names] == [[False], [True]]
    for one, rows in zip((true, moved), added, strict=True):
        of_path = {row["pid"] for row in rows if row["ph"] == "B"}
        on_rows = {end for end in ends_of_arrows(rows) if end[0] not in of_path}
        assert on_rows <= {(row.get("pid"), row.get("tid"), row.get("ts")) for row in one.rows}
        streams = {row["tid"] for row in one.rows if row.get("cat") == "kernel"}
        assert any(tid in streams for _, tid, _ in on_rows)


def test_of_a_job_an_overlay_moves_rows_into_its_time(ranks: list[Recorded]) -> None:
    job = hg.build_job([own.graph for own in ranks])
    path = hg.critical_path(job)
    document = json.loads(overlay_bytes(path))
    base, rows = document["baseTimeNanoseconds"], document["traceEvents"]
    drawn = sorted(base + round(row["ts"] * 1000) for row in rows if row.get("cat") == "kernel")
    assert drawn == sorted(job.events_of("kernel")["start_ns"])
    begins = {(row.get("pid"), row.get("tid"), row.get("ts")) for row in rows if row.get("ph") in ("X", "B")}
    of_path = rows[-1]["pid"]
    assert {end for end in ends_of_arrows(rows) if end[0] != of_path} <= begins


def test_marks_and_counters_stand_with_the_rows_of_the_file(moved: Recorded, true: Recorded, tmp_path: Path) -> None:
    for one in (true, moved):
        scope = whole(0, one.graph)
        assert write_sequence_overlay(scope, tmp_path / "marked.json", "aten::", 1)
        marks = added_rows((tmp_path / "marked.json").read_bytes(), one)
        assert {row["ts"] for row in marks if row["ph"] == "B"} <= {row.get("ts") for row in one.rows}
    changes = [counter_tracks(whole(0, one.graph), ["Queue Length"]) for one in (true, moved)]
    for mine, yours in zip(*changes, strict=True):
        assert (mine.time == yours.time).all()


def test_an_anonymized_trace_has_the_times_of_its_file(moved: Recorded, tmp_path: Path) -> None:
    TraceAnonymizer().write(moved.graph.trace, tmp_path / "stripped.json")
    found = recorded(tmp_path / "stripped.json")
    shifts = {(found.times[at][0] - own[0], found.times[at][1] - own[1]) for at, own in moved.times.items()}
    assert len(shifts) == 1
    assert len({*next(iter(shifts))}) == 1
