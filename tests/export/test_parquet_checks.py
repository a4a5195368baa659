"""Each thing that a saved graph may not say is refused in one line: which file, which row, which column, what."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import hta_graph as hg
from hta_graph.base.errors import HtaGraphError, TraceError
from hta_graph.export import parquet_files
from tests.support.command_line import two_steps
from tests.support.two_rank_job import small_job

pytestmark = pytest.mark.sampled(2)

pyarrow = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402 - not before it is known to be there

Rows = dict[str, list[Any]]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Two steps with a stream's wait, its record, a copy and a step back in time."""
    trace = two_steps()
    trace.copy("Memcpy DtoD (Device -> Device)", 160, 170, 6, bytes=8)
    trace.call("cudaMemcpyAsync", 122, 124, 6)
    trace.call("cudaStreamWaitEvent", 125, 126, 9)
    trace.sync_row("Stream Wait Event", 171, 171, 9, stream=8, wait_on_stream=7, record=4)
    hg.save_graph(trace.graph(tmp_path), tmp_path / "g")
    return tmp_path / "g"


def edited(path: Path, change: Callable[[Rows], Any]) -> None:
    """Change the columns of a table, whose types stay."""
    table = parquet.read_table(path)
    rows: Rows = table.to_pydict()
    change(rows)
    parquet.write_table(pyarrow.table(rows, schema=table.schema), path)


def put(column: str, row: int, value: Any) -> Callable[[Rows], Any]:
    return lambda rows: rows[column].__setitem__(row, value)


def add(**values: Any) -> Callable[[Rows], Any]:
    """Repeat the first row with other values at the end."""
    return lambda rows: [column.append(values.get(name, column[0])) for name, column in rows.items()]


def with_times(start: int, end: int) -> Callable[[Rows], Any]:
    return lambda rows: (rows["start"].__setitem__(-1, start), rows["end"].__setitem__(-1, end))


REFUSED: dict[str, tuple[str, Callable[[Rows], Any], str]] = {
    "a negative length": ("events", put("end", 0, -1), r"row 0, column 'end': -1 is before the row's start"),
    "out of order": ("events", put("start", 0, 30_000), r"row 1, column 'start': .* before the start of the row above"),
    "no time": ("events", with_times(2**63 - 1, 2**63 - 1), r"row \d+, column 'start': 9223372036854775807 is no time"),
    "years apart": ("events", with_times(10**17, 10**17), r"column 'end': .* is years after the first start"),
    "a number twice": ("events", put("index", 1, 0), r"row \d, column 'index': 0 appears twice"),
    "a number below 0": ("events", put("index", 1, -1), r"row 1, column 'index': -1 is no event's number"),
    "no kind": ("events", put("kind", 2, 14), r"row 2, column 'kind': 14 is no kind of event"),
    "a rendezvous alone": ("events", put("kind", 2, 13), r"row 2, column 'kind': 13 is no kind of event"),
    "no name": ("events", put("name", 2, 99), r"row 2, column 'name': 99 is no name's number"),
    "no lane": ("events", put("lane", 2, -1), r"row 2, column 'lane': -1 is no lane"),
    "no point": ("edges", put("source", 0, 999), r"row 0, column 'source': 999 is no point"),
    "a point of none": ("edges", put("source", 0, 0), r"row 0, column 'source': point 0 is of an event that has none"),
    "no edge": ("edges", put("kind", 0, 99), r"row 0, column 'kind': 99 is no kind of edges"),
    "an edge of a job": ("edges", put("kind", 0, 15), r"row 0, column 'kind': 15 leads between ranks"),
    "no rule": ("edges", put("rule", 0, 99), r"row 0, column 'rule': 99 is no rule"),
    "a loop": ("edges", lambda rows: rows["target"].__setitem__(0, rows["source"][0]), r"is the edge's source too"),
    "an edge twice": ("edges", add(), r"column 'source': the edge from point \d+ appears twice"),
    "an edge of a thread to a stream": ("edges", put("kind", -1, 0), r"does not lead from a thread to a thread"),
    "a wait of nobody": ("wait_calls", add(source=1, target=2, call=3), r"is no GPU work"),
    "no record": ("syncs", put("event", 0, 0), r"row 0, column 'event': row 0 of the events is no synchronisation"),
    "no copy": ("copies", put("event", 0, 999), r"row 0, column 'event': 999 is no event's row"),
    "a rate without end": ("copies", put("bandwidth", 0, float("inf")), r"row 0, column 'bandwidth': inf is no rate"),
}


@pytest.mark.sampled(9)
@pytest.mark.parametrize("case", REFUSED)
def test_what_contradicts_itself_is_refused_with_its_row(saved: Path, case: str) -> None:
    table, change, says = REFUSED[case]
    if case == "a wait of nobody":
        kinds = {"source": "int32", "target": "int32", "call": "int32"}
        empty = pyarrow.table({name: pyarrow.array([1], kind) for name, kind in kinds.items()})
        parquet.write_table(empty, saved / "wait_calls.parquet")
    edited(saved / f"{table}.parquet", change)
    with pytest.raises(TraceError, match=rf"/g/{table}\.parquet: .*{says}.*; write it again with hg\.save_graph"):
        hg.load_graph(saved)


def test_two_changed_edges_that_close_a_cycle_are_refused(saved: Path) -> None:
    """A walk along them would never end; at one instant no time betrays it."""
    edited(
        saved / "events.parquet", lambda rows: rows.update(start=[5] * len(rows["start"]), end=[5] * len(rows["end"]))
    )

    def turned(rows: Rows) -> None:
        first = rows["kind"].index(0)
        add(source=rows["target"][first], target=rows["source"][first], kind=0, rule=0)(rows)

    edited(saved / "edges.parquet", turned)
    with pytest.raises(TraceError, match=r"edges\.parquet: row \d+: the edge is on a cycle with \d"):
        hg.load_graph(saved)


def test_steps_back_are_as_many_and_as_long_as_was_counted(tmp_path: Path) -> None:
    times = {"start_ns": [80_000, 79_000], "end_ns": [82_000, 99_000]}
    events = pd.DataFrame({"name": ["cudaLaunchKernel", "early"], "lane": ["thread 1:1", "stream 0:1:9"], **times})
    edges = pd.DataFrame({"source_index": [0], "source_point": "start", "target_index": [1], "kind": "launch"})
    graph = hg.from_dataframes(events.assign(kind=["runtime", "kernel"]), edges)
    hg.save_graph(graph, tmp_path / "g")
    assert hg.load_graph(tmp_path / "g").edges.equals(graph.edges)
    assert graph.diagnostics["edges_clamped"] == 1
    edited(tmp_path / "g" / "events.parquet", lambda rows: rows["end"].__setitem__(rows["start"].index(79_000), 10**9))
    path = tmp_path / "g" / "graph.json"
    path.write_text(path.read_text().replace('"edges_clamped": 1', '"edges_clamped": 0'))
    with pytest.raises(TraceError, match=r"edges go back in time, but graph\.json says 0 \(edges_clamped\)"):
        hg.load_graph(tmp_path / "g")


def test_a_graph_of_frames_may_go_back_as_far_as_its_maker_allowed(tmp_path: Path) -> None:
    graph = two_steps().graph(tmp_path)
    edges = graph.edges[graph.edges.kind == "launch"]
    events = graph.events
    events.loc[events.kind == "kernel", ["start_ns", "end_ns"]] -= 60_000
    events["start_ns"], events["end_ns"] = events.start_ns * 100, events.end_ns * 100
    made = hg.from_dataframes(events, edges, clock_fault_ns=10**8)
    hg.save_graph(made, tmp_path / "g")
    assert hg.load_graph(tmp_path / "g").edges.equals(made.edges)
    path = tmp_path / "g" / "graph.json"
    header = json.loads(path.read_text())
    assert header["clock_fault_ns"] > 10**6
    path.write_text(json.dumps(header | {"clock_fault_ns": 10**6}))
    with pytest.raises(TraceError, match=r"row 0, column 'target': point \d+ is more than 1,000,000 ns before"):
        hg.load_graph(tmp_path / "g")


# -- types, sizes, files ----------------------------------------------------------------------------------------------

TYPES: dict[str, tuple[Any, str]] = {
    "text": (pyarrow.string(), "string"),
    "long text": (pyarrow.large_string(), "large_string"),
    "bytes": (pyarrow.binary(), "binary"),
    "a fraction": (pyarrow.float64(), "double"),
    "a decimal": (pyarrow.decimal128(20, 0), r"decimal128\(20, 0\)"),
    "a time": (pyarrow.timestamp("ns"), r"timestamp\[ns\]"),
    "a flag": (pyarrow.bool_(), "bool"),
    "a dictionary": (pyarrow.dictionary(pyarrow.int32(), pyarrow.binary()), "dictionary"),
    "absent": (pyarrow.null(), "null"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", TYPES)
def test_a_column_of_another_type_is_refused(saved: Path, case: str) -> None:
    kind, said = TYPES[case]
    table = parquet.read_table(saved / "events.parquet")
    at = table.schema.get_field_index("start")
    values = table.column(at).to_pylist()
    if case in ("text", "long text", "bytes", "a dictionary"):
        values = [str(value).encode() for value in values]
    column = pyarrow.nulls(len(values)) if case == "absent" else pyarrow.array(values)
    column = column.dictionary_encode() if case == "a dictionary" else column.cast(kind)
    parquet.write_table(table.set_column(at, "start", column), saved / "events.parquet")
    with pytest.raises(TraceError, match=rf"events\.parquet: column 'start': is of type {said}.*, not int64"):
        hg.load_graph(saved)


def test_wider_whole_numbers_are_taken_if_they_fit(saved: Path) -> None:
    before = hg.load_graph(saved).edges
    table = parquet.read_table(saved / "edges.parquet")
    wide = table.cast(pyarrow.schema([(name, pyarrow.uint64()) for name in table.schema.names]))
    parquet.write_table(wide, saved / "edges.parquet")
    assert hg.load_graph(saved).edges.equals(before)
    edited(saved / "edges.parquet", put("target", 1, 2**40))
    with pytest.raises(TraceError, match=r"row 1, column 'target': 1099511627776 does not fit int32"):
        hg.load_graph(saved)


def test_holes_and_two_columns_of_one_name_are_refused(saved: Path) -> None:
    table = parquet.read_table(saved / "events.parquet")
    parquet.write_table(table.append_column("lane", table.column("lane")), saved / "events.parquet")
    with pytest.raises(TraceError, match=r"events\.parquet: has two columns 'lane'"):
        hg.load_graph(saved)
    parquet.write_table(table, saved / "events.parquet")
    edited(saved / "events.parquet", put("kind", 3, None))
    with pytest.raises(TraceError, match=r"events\.parquet: row 3, column 'kind': has no value"):
        hg.load_graph(saved)


def test_a_small_file_of_very_many_rows_is_refused_before_it_is_read(saved: Path, monkeypatch: Any) -> None:
    """Runs of one value take no room in the file, and much in memory."""
    rows = 3_000_000
    columns = {
        field.name: pyarrow.repeat(pyarrow.scalar(0, field.type), rows)
        for field in parquet.read_table(saved / "edges.parquet").schema
    }
    parquet.write_table(pyarrow.table(columns), saved / "edges.parquet")
    monkeypatch.setattr(parquet_files, "SMALL_BYTES", 1 << 20)
    said = r"edges\.parquet: has [\d,]+ bytes and would unpack to 30,000,000, which no saved graph does"
    with pytest.raises(TraceError, match=said):
        hg.load_graph(saved)
    monkeypatch.setattr(parquet_files, "LARGEST_TABLE", rows)
    with pytest.raises(TraceError, match="declares 3,000,000 rows, more than a graph can hold"):
        hg.load_graph(saved)


def test_a_pipe_and_a_folder_are_no_tables(saved: Path) -> None:
    (saved / "flows.parquet").unlink()
    os.mkfifo(saved / "flows.parquet")
    with pytest.raises(TraceError, match=r"flows\.parquet: is no file"):
        hg.load_graph(saved)


def test_an_arrow_that_runs_code_of_files_is_refused(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyarrow, "__version__", "14.0.0")
    with pytest.raises(HtaGraphError, match=r"pyarrow 14\.0\.0 may run code .*CVE-2023-47248.*pip install"):
        hg.load_graph(saved)
    monkeypatch.setattr(pyarrow, "__version__", "14.0.1")
    assert len(hg.load_graph(saved).events)


# -- graph.json -------------------------------------------------------------------------------------------------------

HEADERS: dict[str, tuple[dict[str, Any], str]] = {
    "a rank of text": ({"rank": "0"}, r"'rank' is '0', not a whole number from 0 to 2\^31 - 1, or null"),
    "a rank that is a flag": ({"rank": True}, "'rank' is True, not a whole number .*"),
    "a rank too large": ({"world_size": 2**31}, "'world_size' is 2147483648, not a whole number .*"),
    "names of numbers": ({"names": [1]}, "'names' is another list, not a list of texts"),
    "a name twice": ({"names": ["a", "b", "a"]}, "'names' holds 'a' twice"),
    "counts of text": ({"building": {"edges_clamped": "1"}}, "'building' is an object, not an object of counts"),
    "counts below 0": ({"reading": {"salvaged": -1}}, "'reading' is an object, not an object of counts"),
    "settings of numbers": ({"settings": {"a": 1}}, "'settings' is an object, not an object of texts"),
    "ranks that lead elsewhere": ({"ranks": ["0/../.."]}, "'ranks' is another list, not a list of ranks, lowest first"),
    "ranks in disorder": ({"ranks": [1, 0]}, "'ranks' is another list, not a list of ranks, lowest first"),
    "a path with an end": ({"path": "a\x00b"}, r"'path' is 'a\\x00b', not a path"),
    "a year back": ({"clock_fault_ns": 10**18}, r"'clock_fault_ns' is 1000000000000000000, not a length of time .*"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", HEADERS)
def test_a_header_of_other_types_is_refused(saved: Path, case: str) -> None:
    changes, says = HEADERS[case]
    path = saved / "graph.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(TraceError, match=rf"graph\.json: {says}; write it again"):
        hg.load_graph(saved)


def test_lanes_of_different_lengths_are_refused(saved: Path) -> None:
    path = saved / "graph.json"
    header = json.loads(path.read_text())
    header["lanes"]["device"].append(0)
    path.write_text(json.dumps(header))
    with pytest.raises(TraceError, match=r"lanes: 'device' has 4 entries, but there are 3 lanes"):
        hg.load_graph(saved)


def test_texts_that_no_encoding_can_write_are_mended_as_reading_does(saved: Path) -> None:
    path = saved / "graph.json"
    path.write_text(path.read_text().replace("aten::mm", "aten\\ud800::mm").replace("A100", "\\udfffA100"))
    graph = hg.load_graph(saved)
    assert "aten\ufffd::mm" in graph.names
    assert graph.trace.gpu_names == ("\ufffdA100",)
    hg.critical_path(graph).segments.to_json().encode()


def test_the_header_of_another_folder_is_never_followed(saved: Path, tmp_path: Path) -> None:
    """Ranks are numbers, so that their folders lie in the saved one; a target with such a header is not replaced."""
    path = saved / "graph.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"ranks": 7}))
    with pytest.raises(hg.HtaGraphError, match="holds other files"):
        hg.save_graph(two_steps().graph(tmp_path), saved)


# -- jobs -------------------------------------------------------------------------------------------------------------

OF_JOBS: dict[str, tuple[str, Callable[[Rows], Any], str]] = {
    "another rank's event": ("events", put("index", 0, 9_999), r"row 0, column 'index': 9999 is not what rank 0 has"),
    "another name": ("events", put("name", 0, 0), r"row 0, column 'index': \d+ is not what rank 0 has there"),
    "no member": ("members", put("row", 0, 10_000), r"row 0, column 'row': 10000 is no event's row"),
    "a wait below nothing": ("members", put("wait", 0, -5), r"row 0, column 'wait': -5 is no length of time"),
    "a drift that is no number": ("clocks", put("drift_ppm", 0, float("nan")), r"column 'drift_ppm': nan is no drift"),
    "a clock of another": ("clocks", put("rank", 0, 5), r"its ranks are not those of graph\.json"),
    "no rendezvous": ("edges", put("rendezvous", -1, 99), r"column 'rendezvous': (there is no rendezvous )?99"),
    "a rendezvous twice": ("rendezvous", add(), r"column 'number': \d+ is out of order or appears twice"),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("case", OF_JOBS)
def test_what_a_job_may_not_say_is_refused_with_its_row(tmp_path: Path, case: str) -> None:
    table, change, says = OF_JOBS[case]
    hg.save_graph(hg.read_job(small_job(tmp_path)), tmp_path / "g")
    edited(tmp_path / "g" / f"{table}.parquet", change)
    with pytest.raises(TraceError, match=rf"/g/{table}\.parquet: .*{says}"):
        hg.load_graph(tmp_path / "g")


def test_a_rank_that_is_a_job_is_refused_without_end(tmp_path: Path) -> None:
    hg.save_graph(hg.read_job(small_job(tmp_path)), tmp_path / "g")
    header = tmp_path / "g" / "rank0" / "graph.json"
    header.write_text(json.dumps(json.loads(header.read_text()) | {"ranks": [0]}))
    (tmp_path / "g" / "rank0" / "rank0").symlink_to(".")
    with pytest.raises(TraceError, match=r"rank0/graph\.json: 'ranks' is there, but this is one rank of a job"):
        hg.load_graph(tmp_path / "g")


class _Traitor:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, left: Path) -> None:
        self.left = left

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return Path.touch, (self.left,)


def test_a_type_that_would_be_unpickled_runs_nothing(saved: Path, tmp_path: Path) -> None:
    """CVE-2023-47248: the schema of a file names a type of Python's, whose pickle older versions loaded."""
    left = tmp_path / "left"
    pickle.loads(pickle.dumps(_Traitor(left)))  # noqa: S301 - what would happen
    assert left.exists()
    left.unlink()
    table = parquet.read_table(saved / "events.parquet")
    says = {"ARROW:extension:name": "arrow.py_extension_type", "ARROW:extension:metadata": pickle.dumps(_Traitor(left))}
    fields = [field.with_metadata(says) if field.name == "start" else field for field in table.schema]
    parquet.write_table(pyarrow.table(table.columns, schema=pyarrow.schema(fields)), saved / "events.parquet")
    with contextlib.suppress(TraceError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyarrow 14 tells that it does not
        hg.load_graph(saved)
    assert not left.exists()
