"""Overlays: the original stays as it is; the path's slices tile its window; its arrows land in existing slices."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import hta_graph as hg
from hta_graph.base.errors import OutputError, TraceError
from hta_graph.export.perfetto.append_events import rounded_by_viewer
from hta_graph.export.perfetto.path_overlay import CLASS_CNAME, CLASS_TITLE, OverlayCounts, write_overlay
from hta_graph.model import BoundBy, Reason
from hta_graph.paths.binding_edges import walk_back
from hta_graph.paths.critical_path import CriticalPath, critical_path
from hta_graph.paths.segments import SegmentTable
from hta_graph.paths.window_ends import Sink
from hta_graph.paths.windows import Window, whole
from tests.simulator import Dialect, random_program, simulate, to_bytes, write
from tests.support.overlay import overlay_bytes
from tests.support.shared_traces import shared_traces
from tests.support.trace_builder import PID, TraceBuilder

pytestmark = pytest.mark.sampled(2)

Rows = list[dict[str, Any]]
BASE = 1_711_964_646_000_000_000
EPOCH_US = "1712195495519689"


class Slice(NamedTuple):
    """A slice of the path: times (ns), its first row, and how many slices are around it."""

    start: int
    end: int
    row: dict[str, Any]
    depth: int


def path_through(folder: Path, text: bytes | str, name: str = "trace.json") -> CriticalPath:
    (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return critical_path(hg.build_graph(hg.read_trace(folder / name)), whole())


def parsed_rows(text: bytes) -> tuple[Rows, dict[str, Any]]:
    document = json.loads(text, parse_float=Decimal)
    return (document, {}) if isinstance(document, list) else (document.pop("traceEvents"), document)


def step() -> TraceBuilder:
    """Return a step whose path goes from the CPU to the GPU and back."""
    trace = TraceBuilder(baseTimeNanoseconds=BASE, distributedInfo={"rank": 3})
    trace.op("aten::mm", 0, 30)
    trace.launch("gemm", (5, 10), (20.125, 90.007), 1)
    trace.launch("relu", (12, 15), (91, 120), 2)
    trace.call("cudaDeviceSynchronize", 31, 125.5, 3)
    trace.op("aten::item", 130, 140)
    return trace


def text_of(trace: TraceBuilder) -> str:
    return json.dumps(trace.document())


def as_nanoseconds(row: dict[str, Any], base_ns: int) -> int:
    exact = Decimal(row["ts"]) * 1000
    assert exact == int(exact), "no fraction of a nanosecond"
    return int(exact) + base_ns


def slices(rows: Rows, base_ns: int) -> list[Slice]:
    """Return the path's slices: those of a class are the ones that viewers are told a colour for."""
    found: list[Slice] = []
    opened: list[dict[str, Any]] = []
    for row in rows:
        if row["ph"] == "B":
            opened.append(row)
        elif row["ph"] == "E":
            begin = opened.pop()
            found.append(Slice(as_nanoseconds(begin, base_ns), as_nanoseconds(row, base_ns), begin, len(opened)))
        elif row["ph"] == "i":
            start = as_nanoseconds(row, base_ns)
            found.append(Slice(start, start + length_of(row), row, len(opened)))
    assert not opened
    return found


def of_classes(found: list[Slice]) -> list[Slice]:
    return [item for item in found if "cname" in item.row]


def of_runs(found: list[Slice]) -> list[Slice]:
    return [item for item in found if "cname" not in item.row]


def length_of(row: dict[str, Any]) -> int:
    length: int = row["args"].get("duration_ns", row["args"].get("lag_ns"))
    return length


def check_overlay(path: CriticalPath, *, base_ns: int = 0, original: bytes = b"", arrows: int = 500) -> Rows:
    """Check every promise of an overlay; return the rows that it added."""
    original = original or path.graph.trace.path.read_bytes()
    overlay = overlay_bytes(path, arrows=arrows)
    old, header = parsed_rows(original)
    rows, new_header = parsed_rows(overlay)
    added = rows[len(old) :]
    assert (rows[: len(old)], new_header) == (old, header)
    check_runs(path, of_runs(slices(added, base_ns)))
    check_classes(path, of_classes(slices(added, base_ns)), base_ns)
    own = {(row["pid"], row["tid"]) for row in added if row["ph"] in "BEiM"}
    assert len(own) == 1
    assert not {str(pid) for pid, _ in own} & {str(row.get("pid")) for row in old if isinstance(row, dict)}
    check_arrows(path, old, added, next(iter(own)), base_ns)
    return added


def check_runs(path: CriticalPath, found: list[Slice]) -> None:
    times = [(item.start, item.end) for item in found]
    assert times == list(zip(path.runs.start.tolist(), path.runs.end.tolist(), strict=True))
    assert [end for _, end in times[:-1]] == [start for start, _ in times[1:]]
    columns = {key: column.tolist() for key, column in path.run_columns().items()}
    for at, item in enumerate(found):
        args = item.row["args"]
        assert length_of(item.row) == item.end - item.start
        assert item.row["name"].endswith(columns["name"][at] or columns["reason"][at] or "(nothing recorded)")
        assert args["carried_over"] is columns["carried_over"][at]
        assert args.get("merged", "1 segments") == f"{columns['segments'][at]:,} segments"
        for key in ("bound_by", "reason", "event_index", "inside", "edge", "evidence", "lane"):
            assert args.get(key) == columns[key][at]
        assert args.get("event") == columns["name"][at]


def check_classes(path: CriticalPath, found: list[Slice], base_ns: int) -> None:
    """Check that a slice of a class reaches over all neighbours of that class; what no viewer shows has none."""
    runs = list(zip(path.runs.bound.tolist(), path.runs.start.tolist(), path.runs.end.tolist(), strict=True))
    expected = []
    for bound, group in groupby(runs, key=lambda run: run[0]):
        times = [time for _, *both in group for time in both]
        seen = rounded_by_viewer(np.array([times[0], times[-1]]) - base_ns)
        expected += [(times[0], times[-1], BoundBy(bound).label)] if seen[0] < seen[1] else []
    assert [(item.start, item.end, item.row["args"]["bound_by"]) for item in found] == expected
    for item in found:
        bound_by = item.row["args"]["bound_by"]
        assert (item.row["name"], item.row["cname"], item.depth) == (CLASS_TITLE[bound_by], CLASS_CNAME[bound_by], 0)
        assert length_of(item.row) == item.end - item.start


def check_arrows(path: CriticalPath, old: Rows, added: Rows, own: tuple[Any, Any], base_ns: int) -> None:
    events = path.graph.trace.events
    start_of = dict(zip(events.index.tolist(), events.start.tolist(), strict=True))
    segments = {item.start: item.row["args"].get("event_index") for item in of_runs(slices(added, base_ns))}
    tails = {row["id"]: row for row in added if row["ph"] == "s"}
    heads = {row["id"]: row for row in added if row["ph"] == "f"}
    assert len(tails) == len([row for row in added if row["ph"] == "s"])
    assert tails.keys() == heads.keys()
    assert not {str(id_) for id_ in tails} & {str(row.get("id")) for row in old if isinstance(row, dict)}
    for id_, tail in tails.items():
        head = heads[id_]
        assert head["bp"] == "e"
        assert "bp" not in tail
        assert as_nanoseconds(tail, base_ns) <= as_nanoseconds(head, base_ns)
        on_path, on_event = sorted((tail, head), key=lambda row: (row["pid"], row["tid"]) != own)
        index = segments[as_nanoseconds(on_path, base_ns)]
        assert (on_event.get("pid"), on_event.get("tid")) == (old[index].get("pid"), old[index].get("tid"))
        assert as_nanoseconds(on_event, base_ns) == start_of[index]


# -- the original file ------------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "tail", [', "traceName": "]}"}', ', "otherData": {"traceEvents": [1, [2]]}, "z": []}', "}  \n"]
)
@pytest.mark.parametrize("head", ["{", '{"a": "\\"traceEvents\\": [", "b": [[]], ', '\n {"traceEvents2": [], '])
def test_rows_are_appended_between_the_original_bytes(tmp_path: Path, head: str, tail: str) -> None:
    rows = json.dumps(step().rows, indent=1)
    text = f'{head}"baseTimeNanoseconds": {BASE}, "traceEvents" : {rows[:-1]}\n ]{tail}'
    path = path_through(tmp_path, text)
    check_overlay(path, base_ns=BASE)
    overlay = overlay_bytes(path).decode()
    end = text.rindex("]", 0, len(text) - len(tail))
    assert overlay.startswith(text[:end])
    assert overlay.endswith(text[end:])


def test_bare_array(tmp_path: Path) -> None:
    text = f"\n {json.dumps(step().rows)} \n"
    path = path_through(tmp_path, text)
    check_overlay(path)
    assert overlay_bytes(path).decode().startswith(text.rstrip()[:-1])


@pytest.mark.parametrize("text", ['{"traceEvents": [ ]}', "[]", '{"x": [], "traceEvents":[],"y":[]}'])
def test_trace_without_rows(tmp_path: Path, text: str) -> None:
    (tmp_path / "trace.json").write_text(text)
    window = Window(0, 1_500, "nothing", 0, 0, Sink(-1, 0))
    nobody = {"edge_kind": -1, "inferred": False, "event": -1, "lane": -1, "part": 0, "open_call": -1}
    pieces = SegmentTable.of(start=[0], end=[1_500], bound=BoundBy.UNEXPLAINED, reason=Reason.UNKNOWN, **nobody)
    graph = hg.build_graph(hg.read_trace(tmp_path / "trace.json"))
    path = CriticalPath(graph, window, walk_back(graph, -1, 0), pieces)
    assert [row["ph"] for row in check_overlay(path)] == ["M"] * 4 + ["B", "B", "E", "E"]


def test_last_traceevents_counts_as_it_does_for_readers(tmp_path: Path) -> None:
    rows = json.dumps(step().rows)
    text = f'{{"traceEvents": [], "baseTimeNanoseconds": {BASE}, "traceEvents": {rows}}}'
    check_overlay(path_through(tmp_path, text), base_ns=BASE)


def test_rows_that_are_no_events_stay(tmp_path: Path) -> None:
    rows: list[Any] = step().rows
    odd = [7, "x", None, [1, {"a": 2}], True, 1.5, {}, {"ph": "M", "pid": "Spans", "args": {"sort_index": -50}}]
    odd += [{"ph": "M", "name": 3, "pid": [1], "id": {}, "args": 3}, {"ph": "s", "id": "1"}, {"ph": "s", "id": 2}]
    path = path_through(tmp_path, json.dumps({"traceEvents": odd + rows}))
    added = check_overlay(path)
    assert next(row["args"]["sort_index"] for row in added if row.get("name") == "process_sort_index") == -51


def test_file_that_only_a_tolerant_parser_reads_becomes_strict(tmp_path: Path) -> None:
    trace = step()
    trace.rows[0]["args"] = {"loss": float("nan"), "big": 2**70, "half": "\ud800", "pair": "\U0001f600"}
    trace.rows[1]["name"] = "tab\there"
    text = text_of(trace).replace("\\t", "\t").replace('"ts": 0,', '"ts": 0.0000,')
    path = path_through(tmp_path, text)
    mended = text.replace("NaN", "null").replace("\\ud800", "\\ufffd").replace("\t", "\\t")
    check_overlay(path, base_ns=BASE, original=mended.encode())
    assert b'"ts":0.0000,' in overlay_bytes(path)


def test_escaped_backslash_before_a_u_is_no_surrogate(tmp_path: Path) -> None:
    trace = step()
    trace.rows[0]["args"] = {"path": "C:\\ud800", "nan": float("nan")}
    text = text_of(trace)
    check_overlay(path_through(tmp_path, text), base_ns=BASE, original=text.replace("NaN", "null").encode())


def test_salvaged_file_is_closed(tmp_path: Path) -> None:
    text = text_of(step())
    cut = text.rindex("}, {") + 20
    (tmp_path / "trace.json").write_text(text[:cut])
    trace = hg.read_trace(tmp_path / "trace.json", salvage=True)
    path = critical_path(hg.build_graph(trace), whole())
    check_overlay(path, base_ns=BASE, original=(text[: text.rindex("}, {") + 1] + "]}").encode())


def test_names_with_quotes_and_control_characters(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op('say "]}" \\ \u0001\n\u2028' + "x" * 500, 0, 10)
    _, begin = [row for row in check_overlay(path_through(tmp_path, text_of(trace))) if row["ph"] == "B"]
    assert begin["name"] == begin["args"]["event"] == 'say "]}" \\ \u0001\n\u2028' + "x" * 500


def test_file_that_has_changed_is_refused(tmp_path: Path) -> None:
    path = path_through(tmp_path, text_of(step()))
    path.graph.trace.path.write_text('{"traceEvents": []}')
    with pytest.raises(TraceError, match="has changed"):
        overlay_bytes(path)


def test_a_merged_run_is_one_slice_that_says_so(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("first", 0, 1)
    trace.frame("forward", 1, 9_999)
    trace.frame("isinstance", 500, 502)
    trace.op("last", 9_999, 10_000)
    path = path_through(tmp_path, text_of(trace))
    _, run, _ = of_runs(slices(check_overlay(path), 0))
    assert (run.row["name"], run.row["args"]["merged"], run.row["args"]["inside"]) == (
        "forward", "3 segments", "forward",
    )  # fmt: skip
    counts = write_overlay(path, tmp_path / "overlay.json")
    assert (counts.segments, counts.runs) == (5, 3)


def test_a_launching_call_works_until_it_returns(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("gemm", (5, 10), (20, 90), 1)
    names = [run.row["name"] for run in of_runs(slices(check_overlay(path_through(tmp_path, text_of(trace))), 0))]
    assert names == ["cudaLaunchKernel", "launch: cudaLaunchKernel", "gemm"]


def test_an_unexplained_run_is_called_by_its_reason(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.call("cudaStreamSynchronize", 0, 200, 1)
    trace.op("last", 200, 210)
    run, _ = of_runs(slices(check_overlay(path_through(tmp_path, text_of(trace))), 0))
    assert run.row["name"] == "wait_without_record: cudaStreamSynchronize"
    assert run.row["args"]["reason"] == "wait_without_record"


# -- times ------------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize("family", ["pytorch", "arbitrary"])
@pytest.mark.parametrize(
    "dialect",
    [
        Dialect("us_int"),
        Dialect("us_float_base", shuffle_seed=1),
        Dialect("epoch_us_3dec", "none", vendor="rocm"),
        Dialect("epoch_us_3dec", shuffle_seed=2, clock_error_ns=-4_000),
    ],
    ids=str,
)
def test_simulated_traces_in_every_dialect(tmp_path: Path, family: Any, dialect: Dialect) -> None:
    text = to_bytes(write(simulate(random_program(7, family, 150)), dialect).document)
    base = int(parsed_rows(text)[1].get("baseTimeNanoseconds", 0))
    check_overlay(path_through(tmp_path, text), base_ns=base)


@pytest.mark.parametrize("quote", ["", '"'])
def test_epoch_microseconds_keep_every_digit(tmp_path: Path, quote: str) -> None:
    row = '{{"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 1, "ts": {0}{1}{0}, "dur": 3.007}}'
    path = path_through(tmp_path, f'{{"traceEvents": [{row.format(quote, EPOCH_US + ".047")}]}}')
    check_overlay(path)
    overlay = overlay_bytes(path).decode()
    assert f'"ph":"B","pid":2,"tid":3,"ts":{EPOCH_US}.047' in overlay
    assert f'"ph":"E","pid":2,"tid":3,"ts":{EPOCH_US[:-2]}92.054' in overlay


def test_slices_that_a_float_rounds_to_nothing_are_instants(tmp_path: Path) -> None:
    rows = [
        f'{{"ph": "X", "cat": "cpu_op", "name": "op{at}", "pid": 1, "tid": 1, "ts": {EPOCH_US}.{at}, "dur": {dur}}}'
        for at, dur in (("000", 0.1), ("100", 0.02), ("120", 0.88))
    ]
    added = check_overlay(path_through(tmp_path, f'{{"traceEvents": [{", ".join(rows)}]}}'))
    assert [row["ph"] for row in added if row["ph"] in "BiE"] == ["B", "i", "i", "B", "E", "E"]


def test_times_before_the_base(tmp_path: Path) -> None:
    trace = TraceBuilder(baseTimeNanoseconds=BASE)
    trace.op("a", -7.501, -2.25)
    trace.op("b", -2.25, 0.001)
    check_overlay(path_through(tmp_path, text_of(trace)), base_ns=BASE)


# -- ids and arrows ---------------------------------------------------------------------------------------------------


def test_process_id_is_free_in_every_reading(tmp_path: Path) -> None:
    trace = step()
    trace.rows += [{"ph": "M", "name": "n", "pid": pid} for pid in (1, "2", "C", 3.0)]
    added = check_overlay(path_through(tmp_path, text_of(trace)), base_ns=BASE)
    assert {row["pid"] for row in added if row["ph"] == "B"} == {4}  # C is 12


def test_arrows_take_ids_that_no_row_has(tmp_path: Path) -> None:
    trace = step()
    trace.rows += [{"ph": "s", "cat": "ac2g", "name": "ac2g", "id": id_} for id_ in (1, "2", "0x3", 5)]
    added = check_overlay(path_through(tmp_path, text_of(trace)), base_ns=BASE)
    assert sorted(row["id"] for row in added if row["ph"] == "s")[:3] == [4, 6, 7]


def test_arrows_at_changes_of_lane_and_large_segments(tmp_path: Path) -> None:
    path = path_through(tmp_path, text_of(step()))
    added = check_overlay(path, base_ns=BASE)
    on_gpu = {(row["pid"], row["tid"]) for row in added if row["ph"] in "sf"}
    assert (0, 7) in on_gpu
    assert (PID, 1) in on_gpu


def test_longest_segments_come_first_where_arrows_are_limited(tmp_path: Path) -> None:
    path = path_through(tmp_path, text_of(step()))
    everything = write_overlay(path, tmp_path / "all.json")
    limited = write_overlay(path, tmp_path / "two.json", arrows=2)
    assert everything.arrows_left_out == 0
    assert limited == OverlayCounts(everything.segments, everything.runs, 2, everything.arrows - 2)
    added = check_overlay(path, base_ns=BASE, arrows=1)
    (tail,) = [row for row in added if row["ph"] == "s"]
    longest = max(of_runs(slices(added, BASE)), key=lambda item: item.end - item.start)
    assert as_nanoseconds(tail, BASE) == longest.start
    assert write_overlay(path, tmp_path / "none.json", arrows=0).arrows == 0


def test_no_arrow_into_a_slice_that_viewers_drop(tmp_path: Path) -> None:
    trace = step()
    trace.launch("late", (30.5, 30.75), (119, 123), 9)
    path = path_through(tmp_path, text_of(trace))
    names = [row["name"] for row in trace.rows]
    starts = {int(path.graph.trace.events.start[at]) for at in range(len(path.graph.trace.events))}
    added = check_overlay(path, base_ns=BASE)
    targets = [as_nanoseconds(row, BASE) for row in added if row["ph"] in "sf" and row["pid"] == 0]
    assert targets
    assert set(targets) <= starts
    assert BASE + trace.rows[names.index("late")]["ts"] * 1000 not in targets


def test_names_and_order(tmp_path: Path) -> None:
    trace = step()
    trace.row(ph="M", name="process_sort_index", pid=0, args={"sort_index": 5_000_000})
    added = check_overlay(path_through(tmp_path, text_of(trace)), base_ns=BASE)
    names = {row["name"]: row["args"] for row in added if row["ph"] == "M"}
    assert names["process_name"] == {"name": "Critical path"}
    assert names["process_sort_index"] == {"sort_index": -1}
    assert names["thread_name"] == {"name": "Path of whole trace, rank 3"}
    assert all(row["tid"] != row["pid"] for row in added if row["ph"] == "B"), "viewers call that the main thread"


# -- files ------------------------------------------------------------------------------------------------------------


def test_gzip_by_name(tmp_path: Path) -> None:
    path = path_through(tmp_path, text_of(step()))
    counts = write_overlay(path, tmp_path / "o.json")
    assert write_overlay(path, tmp_path / "o.json.gz") == counts
    assert counts.segments == len(path.segment_table)
    plain, packed = (tmp_path / "o.json").read_bytes(), (tmp_path / "o.json.gz").read_bytes()
    assert plain == overlay_bytes(path) == gzip.decompress(packed)
    write_overlay(path, tmp_path / "again.json.gz")
    assert (tmp_path / "again.json.gz").read_bytes() == packed


def test_packed_input(tmp_path: Path) -> None:
    text = text_of(step()).encode()
    check_overlay(path_through(tmp_path, gzip.compress(text), "trace.json.gz"), base_ns=BASE, original=text)


def test_the_input_is_never_overwritten(tmp_path: Path) -> None:
    path = path_through(tmp_path, text_of(step()))
    (tmp_path / "link.json").symlink_to(tmp_path / "trace.json")
    for target in ("trace.json", "link.json"):
        with pytest.raises(OutputError, match="is an input"):
            write_overlay(path, tmp_path / target)
    assert (tmp_path / "trace.json").read_text() == text_of(step())


def test_no_partial_file_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = path_through(tmp_path, text_of(step()))
    (tmp_path / "o.json").write_text("earlier")

    def fail(*_: object, **__: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with pytest.raises(OutputError):
            write_overlay(path, tmp_path / "o.json")
    (tmp_path / "trace.json").unlink()
    with pytest.raises(TraceError, match="no such file"):
        write_overlay(path, tmp_path / "o.json")
    assert [item.name for item in tmp_path.iterdir()] == ["o.json"]
    assert (tmp_path / "o.json").read_text() == "earlier"


def test_overlay_can_be_read_again(tmp_path: Path) -> None:
    path = path_through(tmp_path, text_of(step()))
    again = path_through(tmp_path, overlay_bytes(path), "overlay.json")
    added = check_overlay(again, base_ns=BASE)
    assert {row["pid"] for row in added if row["ph"] == "B"} == {2}


@pytest.mark.shared
@pytest.mark.parametrize("name", ["ascend_npu", "sync_event_multistream", "vllm_hipgraph_mi300x"])
def test_real_traces(name: str) -> None:
    source = next(trace for trace in shared_traces() if trace.parent.name == name)
    path = critical_path(hg.build_graph(hg.read_trace(source)))
    text = gzip.decompress(source.read_bytes())
    header = parsed_rows(text)[1]
    check_overlay(path, base_ns=int(header.get("baseTimeNanoseconds", 0)), original=text)
