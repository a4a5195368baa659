"""Anybody's own DataFrames as a graph: what comes back, what is added, and one clear error for what is not sound."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st

import hta_graph as hg
from hta_graph.base.errors import QueryError
from tests.support.deep_tests import for_all
from tests.support.invariants import check_graph
from tests.support.make_samples import SAMPLE
from tests.support.random_jobs import random_job
from tests.support.shared_traces import graph_of_file, shared_traces
from tests.support.trace_builder import TraceBuilder
from tests.support.two_rank_job import small_job

BUNDLED = sorted(SAMPLE.parent.rglob("*.json.gz"))

PLAIN = pd.DataFrame({
    "name": ["prepare", "send", "work", "more work"],
    "lane": ["thread main", "thread main", "stream a", "stream a"],
    "start_ns": [0, 10, 14, 40],
    "end_ns": [8, 12, 30, 60],
})  # fmt: skip
"""Two calls on a thread, two pieces of work on a stream."""
LAUNCHES = pd.DataFrame({"source_index": [1], "source_point": ["start"], "target_index": [2], "kind": ["launch"]})


def same_graph(graph: hg.DependencyGraph, again: hg.DependencyGraph) -> None:
    pd.testing.assert_frame_equal(graph.events, again.events)
    pd.testing.assert_frame_equal(graph.edges, again.edges)
    if len(graph.events):
        pd.testing.assert_frame_equal(hg.critical_path(graph).segments, hg.critical_path(again).segments)


def edges_among(graph: hg.DependencyGraph, kind: str) -> list[tuple[int, str, int, str]]:
    columns = ["source_index", "source_point", "target_index", "target_point"]
    chosen = graph.edges[graph.edges.kind == kind]
    return list(chosen[columns].itertuples(index=False, name=None))


# -- what comes back ---------------------------------------------------------------------------------------------------


@pytest.mark.sampled(6)
@pytest.mark.parametrize("path", BUNDLED, ids=lambda path: path.name)
def test_a_graphs_own_frames_give_it_back(path: Path) -> None:
    graph = hg.build_graph(hg.read_trace(path))
    same_graph(graph, hg.from_dataframes(graph.events, graph.edges, rank=graph.rank))


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize(
    "path", shared_traces() or [Path("absent")], ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_frames_of_shared_traces_give_their_graphs_back(path: Path) -> None:
    graph = graph_of_file(path)
    same_graph(graph, hg.from_dataframes(graph.events, graph.edges, rank=graph.rank))


@for_all(st.integers(0, 10_000), examples=200)
def test_frames_of_random_ranks_give_their_graphs_back(seed: int) -> None:
    with TemporaryDirectory() as folder:
        job = random_job(Path(folder), seed)
        for part in job.rank_graphs:
            graph = job.graph(part.rank)
            again = hg.from_dataframes(graph.events, graph.edges, rank=part.rank)
            same_graph(graph, again)
            check_graph(again, [hg.whole()])


def test_the_order_of_rows_changes_nothing_but_that_of_edges() -> None:
    graph = hg.build_graph(hg.read_trace(SAMPLE))
    mixed = hg.from_dataframes(
        graph.events.sample(frac=1, random_state=1), graph.edges.sample(frac=1, random_state=2), rank=0
    )
    pd.testing.assert_frame_equal(graph.events, mixed.events)
    pd.testing.assert_frame_equal(hg.critical_path(graph).segments, hg.critical_path(mixed).segments)


def test_edges_stand_in_the_order_of_the_frame() -> None:
    edges = pd.DataFrame({"source_index": [2, 0, 1], "target_index": [3, 2, 2]})
    graph = hg.from_dataframes(PLAIN, edges, add_order=False)
    assert list(zip(graph.edges.source_index, graph.edges.target_index, strict=True)) == [(2, 3), (0, 2), (1, 2)]


def test_a_saved_graph_of_frames_is_the_same_when_loaded(tmp_path: Path) -> None:
    graph = hg.from_dataframes(PLAIN, LAUNCHES, name="mine")
    hg.save_graph(graph, tmp_path / "saved")
    same_graph(graph, hg.load_graph(tmp_path / "saved"))


def test_one_ranks_rows_of_a_job_are_a_graph_of_that_rank(tmp_path: Path) -> None:
    small_job(tmp_path)
    job = hg.read_job(tmp_path)
    edges = job.edges
    graph = hg.from_dataframes(
        job.events[job.events["rank"] == 1], edges[(edges.source_rank == 1) & (edges.target_rank == 1)]
    )
    assert graph.rank == 1
    pd.testing.assert_frame_equal(graph.edges, job.rank_graphs[1].graph.edges)


# -- what is filled in -------------------------------------------------------------------------------------------------


def test_the_least_columns_are_enough() -> None:
    graph = hg.from_dataframes(PLAIN, pd.DataFrame({"source_index": [1], "target_index": [2]}))
    assert graph.events.event_index.tolist() == [0, 1, 2, 3]
    assert graph.events.kind.tolist() == ["cpu_op", "cpu_op", "kernel", "kernel"]
    assert graph.events[["correlation", "external_id"]].eq(-1).all(axis=None)
    given = graph.edges.iloc[0]
    assert given[["kind", "evidence", "source_point", "target_point"]].tolist() == [
        "launch",
        "recorded",
        "end",
        "start",
    ]
    assert hg.critical_path(graph).length_ns == 60


def test_what_goes_without_saying_is_added() -> None:
    graph = hg.from_dataframes(PLAIN, LAUNCHES)
    assert edges_among(graph, "thread_order") == [
        (0, "start", 0, "end"),
        (0, "end", 1, "start"),
        (1, "start", 1, "end"),
    ]
    assert edges_among(graph, "execution") == [(2, "start", 2, "end"), (3, "start", 3, "end")]
    assert edges_among(graph, "stream_order") == [(2, "end", 3, "start")]


def test_nothing_is_added_of_a_kind_that_is_given_or_that_nobody_wants() -> None:
    execution = pd.DataFrame(
        {"source_index": [2], "source_point": ["start"], "target_index": [2], "target_point": ["end"]}
    )
    graph = hg.from_dataframes(PLAIN, execution)
    assert edges_among(graph, "execution") == [(2, "start", 2, "end")]
    assert len(edges_among(graph, "thread_order")) == 3
    assert len(hg.from_dataframes(PLAIN, LAUNCHES, add_order=False).edges) == 1


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("source", "target", "kind"),
    [(0, 1, "thread_order"), (0, 2, "launch"), (2, 4, "thread_handoff"), (2, 3, "event_wait"), (2, 0, "stream_sync")],
)
def test_an_edge_without_a_kind_is_what_joins_its_ends(source: int, target: int, kind: str) -> None:
    events = pd.DataFrame({
        "name": list("abcde"), "lane": ["thread 1", "thread 1", "stream 7", "stream 8", "thread 2"],
        "start_ns": [0] * 5, "end_ns": [5] * 5,
    })  # fmt: skip
    if kind == "thread_handoff":
        source = 0
    edges = pd.DataFrame({"source_index": [source], "target_index": [target], "source_point": ["start"]})
    graph = hg.from_dataframes(events, edges.assign(target_point="end"), add_order=False)
    assert graph.edges.kind.tolist() == [kind]


def test_lanes_of_other_texts_are_streams_where_gpu_work_is_on_them() -> None:
    events = PLAIN.assign(lane=["host", "host", "queue", "queue"], kind=["cpu_op", None, "kernel", None])
    graph = hg.from_dataframes(events, LAUNCHES)
    assert graph.events.kind.tolist() == ["cpu_op", "cpu_op", "kernel", "kernel"]
    assert graph.lanes.labels == ("host", "queue")
    assert graph.lanes.is_stream.tolist() == [False, True]


def test_ids_of_streams_are_read_from_their_labels() -> None:
    lanes = hg.from_dataframes(PLAIN.assign(lane=["thread 1", "thread 1", "stream 2:-:7", "stream b"]), LAUNCHES).lanes
    assert lanes.labels == ("thread 1", "stream 2:-:7", "stream b")
    assert (lanes.device.tolist(), lanes.stream.tolist()) == ([-1, 2, -1], [-1, 7, -1])


def test_steps_are_known_by_their_names() -> None:
    step = {"name": "ProfilerStep#4", "lane": "thread main", "start_ns": 0, "end_ns": 35}
    graph = hg.from_dataframes(pd.concat([PLAIN, pd.DataFrame([step])], ignore_index=True), LAUNCHES)
    assert [found.number for found in graph.steps()] == [4]
    assert hg.critical_path(graph, hg.step(4)).length_ns > 0


def test_events_may_have_any_numbers() -> None:
    graph = hg.from_dataframes(
        PLAIN.assign(event_index=[2_000_000_000, 7, 5, 3]), LAUNCHES.assign(source_index=7, target_index=5)
    )
    assert graph.event(2_000_000_000)["name"] == "prepare"
    assert graph.predecessors(5).source_index.tolist() == [7]


def test_an_inferred_edge_without_a_rule_has_its_producers() -> None:
    edges = pd.DataFrame({"source_index": [1, 0], "target_index": [2, 3], "evidence": ["inferred", None]})
    graph = hg.from_dataframes(PLAIN, edges, add_order=False)
    assert graph.edges.rule.tolist() == ["of_producer", "recorded"]
    assert graph.edges.evidence.tolist() == ["inferred", "recorded"]


def test_a_small_step_back_is_a_fault_of_the_clocks() -> None:
    edges = pd.DataFrame({"source_index": [3], "target_index": [2], "source_point": ["start"]})
    graph = hg.from_dataframes(PLAIN, edges, add_order=False)
    assert graph.edges[["clamped", "lag_ns"]].iloc[0].tolist() == [True, 0]
    assert graph.diagnostics["edges_clamped"] == 1
    with pytest.raises(QueryError, match=r"row 0, column 'target_index': event 2 is more than 25 ns before"):
        hg.from_dataframes(PLAIN, edges, add_order=False, clock_fault_ns=25)


def test_frames_without_rows_are_a_graph_without_events() -> None:
    graph = hg.from_dataframes(PLAIN[:0], LAUNCHES[:0])
    assert (len(graph.events), len(graph.edges)) == (0, 0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["Int64", "float64", "object", "int32", "uint64", "int64[pyarrow]"])
def test_numbers_may_be_of_any_type_that_is_exact(dtype: str) -> None:
    graph = hg.from_dataframes(
        PLAIN.astype({"start_ns": dtype, "end_ns": dtype}), LAUNCHES.astype({"source_index": dtype})
    )
    same_graph(graph, hg.from_dataframes(PLAIN, LAUNCHES))


def test_texts_may_be_categories() -> None:
    graph = hg.from_dataframes(
        PLAIN.astype({"name": "category", "lane": "category"}), LAUNCHES.astype({"kind": "category"})
    )
    same_graph(graph, hg.from_dataframes(PLAIN, LAUNCHES))


# -- what is not sound -------------------------------------------------------------------------------------------------


def with_cell(frame: pd.DataFrame, column: str, row: int, value: Any) -> pd.DataFrame:
    """Return a frame with one other value, whatever type that is."""
    values = frame[column].astype(object).tolist() if column in frame else [None] * len(frame)
    values[row] = value
    return frame.assign(**{column: pd.Series(values, dtype=object, index=frame.index)})


BAD_EVENTS = [
    ("start_ns", None, "row 1, column 'start_ns': has no value"),
    ("start_ns", np.nan, "row 1, column 'start_ns': has no value"),
    ("start_ns", 9.5, "row 1, column 'start_ns': 9.5 is not a whole number"),
    ("start_ns", "10", "row 1, column 'start_ns': '10' is not a whole number"),
    ("start_ns", True, "row 1, column 'start_ns': True is not a whole number"),
    ("start_ns", 2**63, "row 1, column 'start_ns': 9223372036854775808 is not a whole number of 64 bits"),
    ("start_ns", pd.Timestamp(0), "times are whole nanoseconds"),
    ("end_ns", 9, "row 1, column 'end_ns': 9 is before the row's start_ns"),
    ("end_ns", 10**17, "row 1, column 'end_ns': 100000000000000000 is more than a year after the first start"),
    ("name", None, "row 1, column 'name': has no value"),
    ("name", 7, "row 1, column 'name': 7 is no text"),
    ("name", "", "row 1, column 'name': '' is no text"),
    ("lane", None, "row 1, column 'lane': has no value"),
    ("kind", "kernal", "row 1, column 'kind': there is no kind 'kernal'; available: cpu_op, runtime, kernel,"),
    ("kind", "rendezvous", "there is no kind 'rendezvous'"),
    ("kind", 3, "row 1, column 'kind': 3 is no text"),
    ("correlation", 0.5, "row 1, column 'correlation': 0.5 is not a whole number"),
    ("event_index", 1, "column 'event_index': has no value"),
    ("rank", 1, "column 'rank': has no value"),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("column", "value", "says"), BAD_EVENTS)
def test_a_bad_event_is_named(column: str, value: Any, says: str) -> None:
    with pytest.raises(QueryError) as caught:
        hg.from_dataframes(with_cell(PLAIN, column, 1, value), LAUNCHES)
    assert says in str(caught.value)
    assert str(caught.value).startswith("events: row ")


def test_a_name_that_no_encoding_can_write_is_refused() -> None:
    """Columns of objects hold such texts, and what is written of them later would fail."""
    names = pd.Series([*PLAIN["name"][:1], "a\ud800", *PLAIN["name"][2:]], PLAIN.index, dtype=object)
    with pytest.raises(
        QueryError, match=r"row 1, column 'name': 'a\\ud800' holds half of a pair of surrogates"
    ) as caught:
        hg.from_dataframes(PLAIN.assign(name=names), LAUNCHES)
    str(caught.value).encode()


BAD_EDGES = [
    ({"source_index": 9}, "row 0, column 'source_index': there is no event 9"),
    ({"target_index": -1}, "row 0, column 'target_index': there is no event -1"),
    ({"source_index": np.nan}, "row 0, column 'source_index': has no value"),
    ({"source_index": 0.5}, "row 0, column 'source_index': 0.5 is not a whole number"),
    (
        {"source_point": "middle"},
        "row 0, column 'source_point': there is no source_point 'middle'; available: start, end",
    ),
    ({"kind": "calls"}, "row 0, column 'kind': there is no kind 'calls'"),
    ({"kind": "collective"}, "row 0, column 'kind': 'collective' leads between ranks"),
    ({"kind": "stream_order"}, "row 0, column 'kind': stream_order does not lead from GPU work to GPU work"),
    ({"kind": "thread_order", "target_index": 4}, "row 0, column 'kind': thread_order leads to another lane"),
    (
        {"kind": "execution", "source_index": 2, "target_index": 3},
        "execution does not lead from a row's start to its end",
    ),
    ({"source_index": 3, "source_point": "end", "kind": None}, "row 0, column 'source_index': the edge is on a cycle"),
    (
        {"source_index": 2, "source_point": "start", "kind": None},
        "row 0, column 'source_index': the edge is on a cycle",
    ),
    ({"target_index": 5, "kind": None}, "row 0, column 'target_index': event 5 is of a kind that edges cannot join"),
    ({"evidence": "guessed"}, "there is no evidence 'guessed'; available: recorded, inferred"),
    ({"rule": "mine"}, "there is no rule 'mine'; available: recorded,"),
    ({"rule": "recorded", "evidence": "inferred"}, "row 0, column 'evidence': 'inferred' contradicts the rule"),
    ({"target_rank": 1, "source_rank": 0}, "edges: they lead between ranks"),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("values", "says"), BAD_EDGES)
def test_a_bad_edge_is_named(values: dict[str, Any], says: str) -> None:
    more = pd.DataFrame({
        "name": ["aside", "step"], "lane": ["thread b", "thread main"], "start_ns": 20, "end_ns": 30,
        "kind": ["cpu_op", "annotation"],
    })  # fmt: skip
    edges = LAUNCHES
    for column, value in values.items():
        edges = with_cell(edges, column, 0, value)
    with pytest.raises(QueryError) as caught:
        hg.from_dataframes(pd.concat([PLAIN, more], ignore_index=True), edges)
    assert says in str(caught.value)
    assert str(caught.value).startswith("edges: ")


@pytest.mark.parametrize("column", ["name", "lane", "start_ns", "end_ns"])
def test_a_missing_column_of_events_is_named(column: str) -> None:
    with pytest.raises(QueryError, match=rf"^events: there is no column '{column}'; add it \(available: "):
        hg.from_dataframes(PLAIN.drop(columns=column), LAUNCHES)


@pytest.mark.parametrize("column", ["source_index", "target_index"])
def test_a_missing_column_of_edges_is_named(column: str) -> None:
    with pytest.raises(QueryError, match=rf"^edges: there is no column '{column}'; add it"):
        hg.from_dataframes(PLAIN, LAUNCHES.drop(columns=column))


def test_numbers_of_events_are_their_own() -> None:
    with pytest.raises(QueryError, match=r"^events: row 3, column 'event_index': 5 occurs twice"):
        hg.from_dataframes(PLAIN.assign(event_index=[4, 5, 6, 5]), LAUNCHES)
    with pytest.raises(QueryError, match=r"row 0, column 'event_index': .* is not a number from 0"):
        hg.from_dataframes(PLAIN.assign(event_index=[-4, 5, 6, 7]), LAUNCHES)


def test_an_edge_is_there_once() -> None:
    with pytest.raises(QueryError, match=r"^edges: row 1, column 'source_index': the edge from event 1 occurs twice"):
        hg.from_dataframes(PLAIN, pd.concat([LAUNCHES, LAUNCHES]))


def test_floats_that_have_lost_digits_are_refused() -> None:
    late = PLAIN.assign(start_ns=PLAIN.start_ns + 1.7e18, end_ns=PLAIN.end_ns + 1.7e18)
    with pytest.raises(QueryError, match=r"row 0, column 'start_ns': 1.7e\+18 is a float too large to be exact"):
        hg.from_dataframes(late, LAUNCHES)
    with pytest.raises(QueryError, match="too large to be exact"):
        hg.from_dataframes(PLAIN.assign(end_ns=np.array([2**25] * 4, np.float32)), LAUNCHES)


@pytest.mark.parametrize("rank", ["1", -1, True, 1.5])
def test_a_rank_is_a_whole_number(rank: Any) -> None:
    with pytest.raises(QueryError, match=r"^the rank is .*; give a whole number of at least 0, or omit it$"):
        hg.from_dataframes(PLAIN, LAUNCHES, rank=rank)


def test_several_ranks_are_refused() -> None:
    with pytest.raises(
        QueryError, match=r"^events: column 'rank' has 2 ranks, but this graph has a single rank; name lanes"
    ):
        hg.from_dataframes(PLAIN.assign(rank=[0, 0, 1, 1]), LAUNCHES)


def test_a_cycle_through_what_is_added_is_named() -> None:
    edges = pd.DataFrame({"source_index": [3], "target_index": [2]})
    with pytest.raises(
        QueryError, match=r"^edges: row 0, column 'source_index': the edge is on a cycle with implied order"
    ):
        hg.from_dataframes(PLAIN, edges)


def test_a_cycle_names_all_its_edges() -> None:
    events = PLAIN.assign(start_ns=0, end_ns=0)
    edges = pd.DataFrame({"source_index": [0, 2, 3], "target_index": [1, 3, 2], "source_point": "start"})
    with pytest.raises(
        QueryError, match=r"^edges: row 1, column 'source_index': the edge is on a cycle with 2; drop one"
    ):
        hg.from_dataframes(events, edges, add_order=False)


@pytest.mark.parametrize("bad", [[1, 2], None, {"name": ["a"]}])
def test_what_is_no_frame_is_refused(bad: Any) -> None:
    with pytest.raises(QueryError, match=r"^events: is a \w+, not a pandas DataFrame"):
        hg.from_dataframes(bad, LAUNCHES)
    with pytest.raises(QueryError, match=r"^edges: is a \w+, not a pandas DataFrame"):
        hg.from_dataframes(PLAIN, bad)


def test_columns_have_names_of_their_own() -> None:
    with pytest.raises(QueryError, match=r"^events: two columns are called 'name'; keep one$"):
        hg.from_dataframes(pd.concat([PLAIN, PLAIN[["name"]]], axis=1), LAUNCHES)


def test_times_as_dates_name_their_remedy() -> None:
    with pytest.raises(QueryError, match=r"\.astype\('int64'\)"):
        hg.from_dataframes(PLAIN.assign(start_ns=pd.to_datetime(PLAIN.start_ns)), LAUNCHES)


# -- questions to it ---------------------------------------------------------------------------------------------------


def test_a_trace_and_its_hand_made_frames_have_the_same_path(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("prepare", 0, 8)
    trace.launch("work", (10, 12), (14, 30), 1)
    path = hg.critical_path(trace.graph(tmp_path))
    events = pd.DataFrame({
        "name": ["prepare", "cudaLaunchKernel", "work"], "lane": ["thread 100:1"] * 2 + ["stream 0:1:7"],
        "kind": ["cpu_op", "runtime", "kernel"], "correlation": [-1, 1, 1],
        "start_ns": [0, 10_000, 14_000], "end_ns": [8_000, 12_000, 30_000],
    })  # fmt: skip
    mine = hg.critical_path(hg.from_dataframes(events, LAUNCHES))
    pd.testing.assert_frame_equal(path.segments, mine.segments)
