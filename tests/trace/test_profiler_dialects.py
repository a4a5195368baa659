"""Every dialect of the format: time to the nanosecond, ids, categories, compression."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example
from hypothesis import strategies as st

import hta_graph as hg
from tests.support.deep_tests import for_all
from tests.support.trace_builder import TraceBuilder

pytestmark = pytest.mark.sampled(2)

ROW = {"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 1, "ts": 10, "dur": 5}
GPU = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 10, "dur": 5}
EPOCH_NS = 1_712_195_495_519_689_125
BASE = 1_719_853_884_000_000_000
LONGEST_RELATIVE_NS = 7_900_000_000_000_000


def read(folder: Path, content: Any, name: str = "trace.json") -> hg.Trace:
    """Write bytes, text or a document, and read it back."""
    if not isinstance(content, (bytes, str)):
        content = json.dumps(content)
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return hg.read_trace(folder / name)


def times(trace: hg.Trace) -> list[tuple[int, int]]:
    """Return start and end (ns) of the events in order of their place in the file."""
    events = trace.events
    order = events.index.argsort()
    return list(zip(events.start[order].tolist(), events.end[order].tolist(), strict=True))


def timed(*printed: str, dur: str = "1", header: str = "") -> str:
    """Return the text of a trace whose rows have these timestamps, as printed."""
    rows = [
        f'{{"ph": "X", "cat": "cpu_op", "name": "op{n}", "ts": {ts}, "dur": {dur}}}' for n, ts in enumerate(printed)
    ]
    return f'{{{header}"traceEvents": [{", ".join(rows)}]}}'


def microseconds(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03d}"


def lanes(trace: hg.Trace) -> list[str]:
    """Return the lane of each event, in order of its place in the file."""
    events = trace.events
    return [trace.lanes.labels[events.lane[at]] for at in events.index.argsort()]


def kinds(trace: hg.Trace) -> list[str]:
    """Return the kind of each event, in order of its place in the file."""
    return hg.build_graph(trace).events.sort_values("event_index")["kind"].tolist()


# -- time -------------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("header", "printed", "dur", "start", "length"),
    [
        ("", "1606910596288085", "379", 1606910596288085000, 379_000),
        ("", "0", "0", 0, 0),
        ("", "-5", "2", -5_000, 2_000),
        ("", "10.5", "0.001", 10_500, 1),
        ("", "1.5e3", "1e-3", 1_500_000, 1),
        ("", "1712195495519689.125", "3.007", EPOCH_NS, 3_007),
        ("", "1712195495519689.000", "3", 1712195495519689000, 3_000),
        ("", '"1704161511420306.491"', "12.34", 1704161511420306491, 12_340),
        ("", '"1704161511420306"', '"2.5"', 1704161511420306000, 2_500),
        (f'"baseTimeNanoseconds": {BASE}, ', "6322354305173.787", "9.999", BASE + 6322354305173787, 9_999),
        (f'"baseTimeNanoseconds": "{BASE}", ', "6322354305173.787", "1", BASE + 6322354305173787, 1_000),
        ('"baseTimeNanoseconds": 0, ', "1.002", "1", 1_002, 1_000),
        ('"baseTimeNanoseconds": null, ', "1.002", "1", 1_002, 1_000),
        (f'"baseTimeNanoseconds": {BASE + 1}, ', "7", "1", BASE + 7_001, 1_000),
    ],
)
def test_printed_microseconds_become_exact_nanoseconds(
    tmp_path: Path, header: str, printed: str, dur: str, start: int, length: int
) -> None:
    assert times(read(tmp_path, timed(printed, dur=dur, header=header))) == [(start, start + length)]


@pytest.mark.parametrize("where", ["before", "behind"])
def test_base_time_counts_wherever_the_header_stands(tmp_path: Path, where: str) -> None:
    text = timed("1.001", header='"baseTimeNanoseconds": 5000, ' if where == "before" else "")
    text = text if where == "before" else text[:-1] + ', "baseTimeNanoseconds": 5000}'
    assert times(read(tmp_path, text)) == [(6001, 7001)]


@for_all(st.lists(st.integers(0, LONGEST_RELATIVE_NS), min_size=1, max_size=60), examples=400)
@example([4_442_775_071_729_273, 4_398_046_511_104_001, 4_503_599_627_370_495])
@example([2**52 + 1, 2**51 + 1, LONGEST_RELATIVE_NS - 1])
def test_relative_floats_are_exact_up_to_a_quarter(tmp_path_factory: pytest.TempPathFactory, ns: list[int]) -> None:
    text = timed(*map(microseconds, ns), header=f'"baseTimeNanoseconds": {BASE}, ')
    trace = read(tmp_path_factory.getbasetemp(), text)
    assert [start - BASE for start, _ in times(trace)] == ns


def test_relative_floats_are_exact_where_float_spacing_is_nearly_a_nanosecond(tmp_path: Path) -> None:
    ns = list(range(4_398_046_511_104_000, 4_503_599_627_370_496, 52_776_558_133))
    found = [start for start, _ in times(read(tmp_path, timed(*map(microseconds, ns))))]
    assert sum(a != b for a, b in zip(found, ns, strict=True)) == 0


@for_all(
    st.lists(st.integers(EPOCH_NS - 10**15, EPOCH_NS + 10**15), min_size=1, max_size=40), st.booleans(), examples=400
)
def test_epoch_decimals_are_exact(tmp_path_factory: pytest.TempPathFactory, ns: list[int], quoted: bool) -> None:
    printed = [f'"{microseconds(n)}"' if quoted else microseconds(n) for n in ns]
    assert [start for start, _ in times(read(tmp_path_factory.getbasetemp(), timed(*printed)))] == ns


@for_all(st.lists(st.integers(0, 10**13), min_size=1, max_size=30), examples=400)
def test_durations_are_exact(tmp_path_factory: pytest.TempPathFactory, ns: list[int]) -> None:
    rows = [ROW | {"dur": "D"} for _ in ns]
    text = json.dumps(rows)
    for n in ns:
        text = text.replace('"D"', microseconds(n), 1)
    assert [end - start for start, end in times(read(tmp_path_factory.getbasetemp(), text))] == ns


def test_epoch_decimals_beside_integers_words_and_nothing(tmp_path: Path) -> None:
    text = timed("1712195495519689.125", "1712195495519690", '"1712195495519691.003"', '"soon"', '""', "null")
    trace = read(tmp_path, text)
    assert times(trace) == [(n, n + 1000) for n in (EPOCH_NS, EPOCH_NS + 875, EPOCH_NS + 1878)]
    assert trace.diagnostics["rows_dropped_bad_time"] == 3


def test_epoch_decimals_survive_a_row_that_is_not_strict_json(tmp_path: Path) -> None:
    trace = read(tmp_path, timed("1712195495519689.125", "NaN", "1712195495519689.127"))
    assert times(trace) == [(EPOCH_NS, EPOCH_NS + 1000), (EPOCH_NS + 2, EPOCH_NS + 1002)]
    assert trace.diagnostics["tolerant_json"] == 1


def test_a_missing_duration_is_zero_and_counted(tmp_path: Path) -> None:
    trace = read(tmp_path, [{key: value for key, value in ROW.items() if key != "dur"}, ROW])
    assert times(trace) == [(10_000, 10_000), (10_000, 15_000)]
    assert trace.diagnostics["rows_without_duration"] == 1


def test_zero_durations_are_kept(tmp_path: Path) -> None:
    trace = read(tmp_path, [ROW | {"dur": 0}, GPU | {"dur": 0}, ROW | {"cat": "cuda_runtime", "dur": 0}])
    assert times(trace) == [(10_000, 10_000)] * 3
    assert not any(trace.diagnostics.values())


# -- shape and compression --------------------------------------------------------------------------------------------


def test_a_bare_array_is_a_trace(tmp_path: Path) -> None:
    trace = read(tmp_path, [ROW, GPU])
    assert (len(trace.events), trace.rank, trace.gpu_names) == (2, None, ())


def test_white_space_before_a_bare_array_is_ignored(tmp_path: Path) -> None:
    assert len(read(tmp_path, "\n  " + json.dumps([ROW])).events) == 1


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["t.json", "t.json.gz", "t.zst", "t", "t.txt"])
@pytest.mark.parametrize("packing", ["plain", "gzip", "gzip members", "zstd", "zstd frames"])
def test_compression_is_told_by_the_first_bytes(tmp_path: Path, packing: str, name: str) -> None:
    text = json.dumps([ROW, GPU]).encode()
    half = len(text) // 2
    if packing.startswith("zstd"):
        pack = pytest.importorskip("zstandard").compress
    else:
        pack = gzip.compress if packing.startswith("gzip") else bytes
    parts = [text[:half], text[half:]] if packing in ("gzip members", "zstd frames") else [text]
    assert times(read(tmp_path, b"".join(map(pack, parts)), name)) == [(10_000, 15_000)] * 2


def test_a_trace_of_metadata_only_is_empty(tmp_path: Path) -> None:
    trace = read(tmp_path, {"traceEvents": [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "x"}}]})
    graph = hg.build_graph(trace)
    assert (len(trace.events), len(graph.events), len(graph.edges)) == (0, 0, 0)
    assert not any(graph.diagnostics.values())


@pytest.mark.parametrize("content", [[], {"traceEvents": []}])
def test_an_empty_list_of_events_is_an_empty_trace(tmp_path: Path, content: Any) -> None:
    assert len(hg.build_graph(read(tmp_path, content)).events) == 0


def test_a_trace_without_a_gpu_has_thread_order_only(tmp_path: Path) -> None:
    graph = hg.build_graph(read(tmp_path, [ROW, ROW | {"ts": 20}]))
    assert graph.edge_counts() == {"thread_order": {"recorded": 3, "inferred": 0}}


def test_gpu_rows_alone_are_a_trace(tmp_path: Path) -> None:
    graph = hg.build_graph(read(tmp_path, [GPU, GPU | {"ts": 20}]))
    assert {kind: n["recorded"] for kind, n in graph.edge_counts().items()} == {"execution": 2, "stream_order": 1}
    assert graph.diagnostics["activities_without_launch"] == 2


# -- categories -------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("category", "kind"),
    [
        ("cpu_op", "cpu_op"), ("Operator", "cpu_op"), ("OPERATOR", "cpu_op"),
        ("user_annotation", "annotation"), ("python_function", "python_function"),
        ("cuda_runtime", "runtime"), ("Runtime", "runtime"), ("cuda_driver", "runtime"), ("mtia_runtime", "runtime"),
        ("xpu_runtime", "runtime"), ("kernel", "kernel"), ("Kernel", "kernel"), ("mtia_ccp_events", "kernel"),
        ("gpu_memcpy", "memcpy"), ("Memcpy", "memcpy"), ("gpu_memset", "memset"), ("Memset", "memset"),
        ("gpu_user_annotation", "gpu_annotation"), ("cuda_sync", "sync_record"), ("synchronization", "sync_record"),
        ("overhead", "overhead"), ("cuda_profiler_range", "other"), ("something new", "other"), ("", "other"),
        (None, "other"),
    ],
)  # fmt: skip
def test_categories_old_and_new_tell_the_kind(tmp_path: Path, category: str | None, kind: str) -> None:
    row = {key: value for key, value in ROW.items() if key != "cat"} | ({} if category is None else {"cat": category})
    # With the profiler's header: without it a file of unknown categories alone is another program's.
    assert kinds(read(tmp_path, {"schemaVersion": 1, "traceEvents": [row]})) == [kind]


@pytest.mark.parametrize("category", ["Operator", "cpu_op", "user_annotation"])
def test_a_profiler_step_is_an_annotation_and_a_step(tmp_path: Path, category: str) -> None:
    trace = read(tmp_path, [ROW | {"cat": category, "name": "ProfilerStep#12"}])
    assert kinds(trace) == ["annotation"]
    assert [(step.number, step.start_ns, step.end_ns) for step in trace.steps()] == [(12, 10_000, 15_000)]


@pytest.mark.parametrize("name", ["ProfilerStep#", "ProfilerStep#1 more", "my ProfilerStep#1", "ProfilerStep*"])
def test_other_names_are_no_steps(tmp_path: Path, name: str) -> None:
    trace = read(tmp_path, [ROW | {"name": name}])
    assert (kinds(trace), trace.steps()) == (["cpu_op"], [])


def test_gpu_copies_of_steps_are_no_steps(tmp_path: Path) -> None:
    assert read(tmp_path, [GPU | {"cat": "gpu_user_annotation", "name": "ProfilerStep#1"}]).steps() == []


def test_an_unknown_device_row_that_a_call_launched_is_gpu_work(tmp_path: Path) -> None:
    call = ROW | {"cat": "new_runtime", "args": {"correlation": 4}}
    device = GPU | {"cat": "new_device", "args": {"correlation": 4, "stream": 2, "device": 0}}
    assert kinds(read(tmp_path, [call | {"cat": "privateuse1_runtime"}, device])) == ["runtime", "kernel"]
    assert kinds(read(tmp_path, [ROW, device])) == ["cpu_op", "other"]


def test_ascend_rows_without_a_category_keep_their_names(tmp_path: Path) -> None:
    row = {"ph": "X", "name": "Computing", "pid": 42, "tid": 0, "ts": "1704161511420306.491", "dur": 3.25}
    graph = hg.build_graph(read(tmp_path, [row, ROW | {"ts": "1704161511420310.000"}]))
    event = graph.event(0)
    assert (event["kind"], event["name"], event["lane"]) == ("other", "Computing", "thread 42:0")
    assert (event["start_ns"], event["duration_ns"]) == (1704161511420306491, 3250)


# -- rows that are no events, and pairs -------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "row",
    [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "x"}},
        {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler",
         "ts": 0, "dur": 1000},
        {"ph": "i", "name": "Iteration Start: PyTorch Profiler", "s": "g", "pid": "Traces", "tid": "x", "ts": 1},
        {"ph": "i", "name": "Record Window End", "pid": "", "tid": "", "ts": 1},
        {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 3, "pid": 1, "tid": 1, "ts": 1},
        {"ph": "f", "cat": "ac2g", "name": "ac2g", "id": 3, "pid": 1, "tid": 1, "ts": 1, "bp": "e"},
        {"ph": "C", "name": "GPU 0 Utilization", "pid": 1, "ts": 1, "args": {"v": 1}},
        {"ph": "t", "cat": "x", "name": "x", "id": 3, "pid": 1, "tid": 1, "ts": 1},
        {"ph": "?", "name": "x", "ts": 1, "dur": 2},
        {"name": "x", "ts": 1, "dur": 2},
        {},
    ],
    ids=lambda row: f"{row.get('ph')} {row.get('name')}",
)  # fmt: skip
def test_what_is_no_event_is_not_counted_as_dropped(tmp_path: Path, row: dict[str, Any]) -> None:
    trace = read(tmp_path, [row, ROW])
    assert trace.events.index.tolist() == [1]
    assert not any(trace.diagnostics.values())


@pytest.mark.parametrize("category", ["cpu_instant_event", None])
def test_memory_instants_are_events_with_and_without_a_category(tmp_path: Path, category: str | None) -> None:
    row = {"ph": "i", "name": "[memory]", "s": "t", "pid": 1, "tid": 1, "ts": 3, "args": {"Bytes": -512}}
    trace = read(tmp_path, [row | ({"cat": category} if category else {}), ROW])
    assert kinds(trace) == ["memory", "cpu_op"]
    assert times(trace)[0] == (3000, 3000)
    assert not any(trace.diagnostics.values())


def pair(
    name: str, start: float, end: float, tid: int = 1, cat: str = "cpu_op"
) -> tuple[dict[str, Any], dict[str, Any]]:
    begin = {"ph": "B", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": start}
    return begin, {"ph": "E", "pid": 1, "tid": tid, "ts": end}


def test_begin_and_end_rows_pair_innermost_first_per_thread(tmp_path: Path) -> None:
    outer, inner, other = pair("outer", 0, 10), pair("inner", 2, 5), pair("other", 1, 7, tid=2)
    trace = read(tmp_path, [outer[0], other[0], inner[0], inner[1], other[1], outer[1]])
    assert trace.events.index.tolist() == [0, 1, 2]
    assert times(trace) == [(0, 10_000), (1000, 7000), (2000, 5000)]
    assert not any(trace.diagnostics.values())


def test_begin_rows_of_the_recording_span_are_no_events(tmp_path: Path) -> None:
    trace = read(tmp_path, [*pair("PyTorch Profiler (0)", 0, 100, cat="Trace"), ROW])
    assert trace.events.index.tolist() == [2]
    assert kinds(trace) == ["cpu_op"]


def test_pairs_and_whole_rows_share_a_thread(tmp_path: Path) -> None:
    graph = hg.build_graph(read(tmp_path, [*pair("outer", 0, 100), ROW]))
    assert graph.edge_counts() == {"thread_order": {"recorded": 3, "inferred": 0}}


# -- ids --------------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("pid", "tid", "args", "lane"),
    [
        (0, 7, {"device": 0, "context": 1, "stream": 7}, "stream 0:1:7"),
        (0, "stream 7", {"device": 0, "context": 1, "stream": 7}, "stream 0:1:7"),
        (0, "stream 7", {"device": 0, "context": 1}, "stream 0:1:7"),
        (0, "stream 7", None, "stream 0:-:7"),
        ("0", "7", {}, "stream 0:-:7"),
        (2, 0, {"device": 2, "stream": 0}, "stream 2:-:0"),
        (0, 1_000_007, {"device": 0, "context": 1, "stream": 7}, "stream 0:1:7"),
        (0, 4294967295, {"device": 0, "context": 1, "stream": 4294967295}, "stream 0:1:-"),
        (0, -1, {"device": 0, "context": 1, "stream": -1}, "stream 0:1:-"),
        (0, 7, {"device": "0", "context": "1", "stream": "7"}, "stream 0:1:7"),
        (None, None, {}, "stream -:-:-"),
    ],
)
@pytest.mark.parametrize("category", ["kernel", "cuda_sync", "gpu_user_annotation"])
def test_streams_are_device_context_stream(
    tmp_path: Path, category: str, pid: Any, tid: Any, args: Any, lane: str
) -> None:
    row = GPU | {"cat": category, "pid": pid, "tid": tid} | ({} if args is None else {"args": args})
    assert lanes(read(tmp_path, [row])) == [lane]


@pytest.mark.parametrize(
    ("pid", "tid", "lane"),
    [
        (9, 9, "thread 9:9"), ("9", "9", "thread 9:9"), (9, 1067497152, "thread 9:1067497152"), (-1, 0, "thread -1:0"),
        ("Spans", "PyTorch Profiler", "thread Spans:PyTorch Profiler"), ("", None, "thread -:-"),
        (2**64, 3.0, f"thread {2**64}:3"),
    ],
)  # fmt: skip
def test_threads_are_process_and_thread(tmp_path: Path, pid: Any, tid: Any, lane: str) -> None:
    assert lanes(read(tmp_path, [ROW | {"pid": pid, "tid": tid}])) == [lane]


def test_printed_and_quoted_ids_are_one_lane(tmp_path: Path) -> None:
    rows = [ROW, ROW | {"pid": "1", "tid": "1", "ts": 20}, GPU, GPU | {"tid": "stream 7", "ts": 20}]
    graph = hg.build_graph(read(tmp_path, rows))
    assert set(graph.events["lane"]) == {"thread 1:1", "stream 0:-:7"}
    assert graph.edge_counts()["stream_order"] == {"recorded": 1, "inferred": 0}


def test_streams_with_one_number_on_two_devices_are_two_lanes(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.kernel("a", 0, 1)
    trace.kernel("b", 2, 3, device=1)
    graph = trace.graph(tmp_path)
    assert set(graph.events["lane"]) == {"stream 0:1:7", "stream 1:1:7"}
    assert "stream_order" not in graph.edge_counts()


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([{"External id": 3}, {"External id": "4"}], [3, 4]),
        ([{"external id": 3}, {"external id": 4}], [3, 4]),
        ([{"external id": 3}, {"External id": 4}], [-1, 4]),
        ([{"External id": 3, "external id": 9}, {}], [3, -1]),
        ([{}, {"External id": None}], [-1, -1]),
    ],
)
def test_external_ids_come_in_two_spellings(tmp_path: Path, values: list[dict[str, Any]], found: list[int]) -> None:
    graph = hg.build_graph(read(tmp_path, [ROW | {"args": args, "ts": n} for n, args in enumerate(values)]))
    assert graph.events.sort_values("event_index")["external_id"].tolist() == found


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("printed", "number"),
    [(5, 5), ("5", 5), (5.0, 5), (2**63 - 1, 2**63 - 1), (None, -1), ("x", -1), (2**64 - 1, -1), (True, -1), (5.5, -1)],
)
def test_correlations_are_exact_integers_or_none(tmp_path: Path, printed: Any, number: int) -> None:
    trace = read(tmp_path, [ROW | {"args": {"correlation": printed}}])
    assert trace.events.correlation.tolist() == [number]


def test_a_big_correlation_beside_a_float_keeps_its_digits(tmp_path: Path) -> None:
    rows = [ROW | {"args": {"correlation": 2**53 + 1}}, ROW | {"ts": 11, "args": {"correlation": 1.0}}]
    assert read(tmp_path, rows).events.correlation.tolist() == [2**53 + 1, 1]


def test_large_unsigned_stream_and_record_ids_of_waits_mean_none(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.sync_row("Stream Wait Event", 0, 1, 3, stream=7, wait_on_stream=4294967295, record=4294967295)
    syncs = hg.read_trace(trace.write(tmp_path / "t.json")).syncs
    assert (syncs.wait_on_stream.tolist(), syncs.record_correlation.tolist()) == ([-1], [-1])


def test_versions_and_options_are_those_of_the_header(tmp_path: Path) -> None:
    header = {"schemaVersion": 1, "with_stack": 1, "record_shapes": None, "cuda_runtime_version": "12.4", "other": 7}
    told = {"schemaVersion": "1", "with_stack": "1", "cuda_runtime_version": "12.4", "backend": "nccl"}
    document = {**header, "distributedInfo": {"rank": 0, "backend": "nccl"}, "traceEvents": [ROW]}
    assert read(tmp_path, document).settings == told
    assert read(tmp_path, {**header, "with_stack": [1], "cupti_version": True, "traceEvents": [ROW]}).settings == {
        key: text for key, text in told.items() if key not in ("with_stack", "backend")
    }


def test_the_tolerant_parser_finds_the_same_settings(tmp_path: Path) -> None:
    text = '{"with_flops": 1, "cupti_version": 24, "traceEvents": [{"ph": "X", "name": "a", "ts": NaN, "dur": 1}]}'
    path = tmp_path / "trace.json"
    path.write_text(text, encoding="utf-8")
    assert hg.read_trace(path).settings == {"with_flops": "1", "cupti_version": "24"}


def test_gpu_names_are_those_of_the_header(tmp_path: Path) -> None:
    devices = [{"id": 0, "name": "A100"}, {"id": 1, "name": ""}, {"id": 2}, 7]
    trace = read(tmp_path, {"deviceProperties": devices, "traceEvents": [ROW]})
    assert trace.gpu_names == ("A100", "unnamed", "unnamed")
