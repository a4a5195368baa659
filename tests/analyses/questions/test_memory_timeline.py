"""The memory timeline: peaks and what was alive then sum up, from allocator events and from the profiler's export."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from analyses.cli.main import main
from analyses.declare.scope import per_step, whole
from analyses.hta.memory_analysis import MemoryAnalysis
from analyses.questions import raw_memory_timeline as memory_raw
from analyses.questions.memory_timeline import alive_at_peak, allocations, answer, figure, memory_events, peaks
from analyses.questions.raw_memory_timeline import CATEGORIES, is_raw_timeline, peak_table, read_raw_timeline
from hta_graph.base.errors import TraceError, UsageError
from tests.support.golden_graphs import graphs
from tests.support.shared_traces import SHARED
from tests.support.trace_builder import PID, TraceBuilder

RAW = [[-1, 1, 100, 0], [-1, 1, 10, 7], [50, 2, 5, 4], [60, 2, 7, 5], [60, 3, -5, 4], [60, 3, 5, 3], [70, 4, -7, 5]]


def moved(trace: TraceBuilder, at: float, size: int, address: int, **args: Any) -> None:
    """Add an event of the allocator; on GPU 0, unless said."""
    known = {"Bytes": size, "Addr": address, "Device Type": 1, "Device Id": 0, **args}
    trace.row(ph="i", s="t", cat="cpu_instant_event", name="[memory]", pid=PID, tid=1, ts=at, args=known)


def build() -> TraceBuilder:
    """Hold 100 bytes from before; allocate 50 and 20 in operators, free the 50, reuse its address for 10."""
    trace = TraceBuilder()
    trace.annotation("ProfilerStep#1", 0, 15)
    trace.annotation("ProfilerStep#2", 15, 40)
    trace.frame("nn.Module: Linear_0", 1, 8)
    trace.op("aten::empty", 2, 5)
    trace.op("aten::mm", 10, 14)
    total = 100
    for at, size, address in ((3, 50, 1), (11, 20, 2), (16, -50, 1), (20, 10, 1), (30, -20, 2), (31, -40, 9)):
        total += size
        moved(trace, at, size, address, **{"Total Allocated": total, "Total Reserved": 512})
    moved(trace, 4, 8, 1, **{"Device Type": 0, "Device Id": -1, "Total Allocated": 8, "Total Reserved": 0})
    return trace


def test_peaks_are_told_by_device_with_who_reached_them(tmp_path: Path) -> None:
    frame = peaks(allocations([whole(0, build().graph(tmp_path))]))
    assert frame.iloc[:, 2:].drop(columns="peak_event_index").to_numpy().tolist() == [
        ["CPU", 1, 0, 0, 8, 8, 0, "aten::empty"],
        ["GPU 0", 3, 3, 100, 170, 70, 512, "aten::mm"],
    ]


def test_what_was_alive_at_the_peak_sums_to_it(tmp_path: Path) -> None:
    found = allocations([whole(0, build().graph(tmp_path))])
    assert alive_at_peak(found).iloc[:, 2:5].fillna(-1).to_numpy().tolist() == [
        ["CPU", "aten::empty", 1],
        ["GPU 0", "(allocated earlier)", -1],
        ["GPU 0", "aten::empty", 1],
        ["GPU 0", "aten::mm", 1],
    ]
    assert alive_at_peak(found)["alive_bytes"].tolist() == [8, 100, 50, 20]
    by_module = alive_at_peak(allocations([whole(0, build().graph(tmp_path))], "module"))
    assert by_module["name"].tolist()[1:] == ["(allocated earlier)", "nn.Module: Linear_0", "(unknown)"]


def test_a_stretch_that_only_frees_has_its_peak_at_the_beginning(tmp_path: Path) -> None:
    graph = build().graph(tmp_path)
    second = [item for item in allocations(per_step(0, graph)) if item.scope.label == "ProfilerStep#2"]
    frame = peaks(second)
    assert frame[["first_bytes", "peak_bytes", "last_bytes"]].to_numpy().tolist() == [[170, 170, 70]]
    assert frame["peak_by"].isna().all()
    assert alive_at_peak(second)[["name", "alive_bytes"]].to_numpy().tolist() == [["(allocated earlier)", 170]]


def test_events_are_listed_in_order_with_running_totals(tmp_path: Path) -> None:
    events = memory_events(allocations([whole(0, build().graph(tmp_path))]))
    gpu = events[events["device"] == "GPU 0"]
    assert gpu["bytes"].cumsum().add(100).tolist() == gpu["allocated_bytes"].tolist()
    assert gpu["name"].tolist() == ["aten::empty", "aten::mm", *["(unknown)"] * 4]


def test_traces_without_totals_count_from_their_first_event(tmp_path: Path) -> None:
    trace = TraceBuilder()
    moved(trace, 1, 30, 1)
    moved(trace, 2, -30, 1)
    moved(trace, 3, 12, 1)
    found = answer([whole(0, trace.graph(tmp_path))])
    assert found.main[["first_bytes", "peak_bytes", "last_bytes"]].to_numpy().tolist() == [[0, 30, 12]]
    assert "no memory totals" in found.notes[0]


def test_no_memory_events_is_a_sentence_and_a_picture_without_lines(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("aten::add", 0, 1)
    found = answer([whole(0, trace.graph(tmp_path))])
    assert not len(found.main)
    assert "peak_bytes" in found.main.columns
    assert "profile_memory=True" in found.notes[0]
    assert not figure(found).data
    with pytest.raises(UsageError, match="operator, frame, module, annotation"):
        answer([whole(0, trace.graph(tmp_path))], "colour")


def test_the_figure_has_a_line_for_each_device(tmp_path: Path) -> None:
    made = figure(answer([whole(0, build().graph(tmp_path))]))
    assert [line.name for line in made.data] == ["CPU: allocated", "GPU 0: allocated", "GPU 0: reserved"]


def raw_file(tmp_path: Path, rows: object = RAW) -> Path:
    path = tmp_path / "memory.raw.json.gz"
    path.write_bytes(gzip.compress(json.dumps(rows).encode()))
    return path


def test_the_export_becomes_running_totals_by_category(tmp_path: Path) -> None:
    timeline = read_raw_timeline(raw_file(tmp_path))
    assert timeline.time.tolist() == [50, 50, 60, 70]
    assert timeline.totals.tolist() == [
        [100, 0, 0, 0, 0, 0, 0, 10],
        [100, 0, 0, 0, 5, 0, 0, 10],
        [100, 0, 0, 5, 0, 7, 0, 10],
        [100, 0, 0, 5, 0, 0, 0, 10],
    ]
    frame = peak_table(timeline)
    assert frame["category"].tolist() == [*CATEGORIES, "all"]
    assert frame["at_peak_bytes"].tolist() == [100, 0, 0, 5, 0, 7, 0, 10, 122]
    assert frame["at_peak_bytes"][:-1].sum() == frame["at_peak_bytes"].iloc[-1]


@pytest.mark.parametrize(
    ("rows", "said"),
    [([[1, 2, 3]], "is not a raw memory timeline"), ([[1, 1, 1, 8]], "category outside 0 to 7"), ({}, "is not a raw")],
)
def test_another_file_is_refused(rows: object, said: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=said):
        read_raw_timeline(raw_file(tmp_path, rows))


def test_an_export_that_breaks_off_is_refused(tmp_path: Path) -> None:
    path = raw_file(tmp_path, RAW * 200)
    path.write_bytes(path.read_bytes()[:-20])
    assert is_raw_timeline(path)
    with pytest.raises(TraceError, match="is truncated"):
        read_raw_timeline(path)


def test_an_export_is_told_from_a_trace(tmp_path: Path) -> None:
    assert is_raw_timeline(raw_file(tmp_path))
    assert not is_raw_timeline(build().write(tmp_path / "trace.json.gz"))
    assert not is_raw_timeline(tmp_path)
    (tmp_path / "broken.gz").write_bytes(b"\x1f\x8bnonsense")
    assert not is_raw_timeline(tmp_path / "broken.gz")


def test_an_empty_export_is_a_sentence(tmp_path: Path) -> None:
    found = memory_raw.answer(read_raw_timeline(raw_file(tmp_path, [])))
    assert not len(found.main)
    assert "empty" in found.notes[0]
    assert not memory_raw.figure(found).data


def test_the_command_takes_either(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, export = build().write(tmp_path / "trace.json"), raw_file(tmp_path)
    assert main(["memory-timeline", str(trace), "--by", "annotation"]) == 0
    assert "ProfilerStep#1" in capsys.readouterr().out
    assert main(["memory-timeline", str(export), "--plot", str(tmp_path / "out.html")]) == 0
    assert "<html" in (tmp_path / "out.html").read_text()
    assert main(["memory-timeline", str(export), "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["tables"]["timeline"][-1]["all_bytes"] == 115
    assert main(["memory-timeline", str(export), str(trace)]) == 2
    assert main(["memory-timeline", str(export), "--step", "3"]) == 2
    assert main(["memory-timeline", str(export), "--json", str(export)]) == 1


def test_hta_class_gives_the_table_and_the_figure(tmp_path: Path) -> None:
    analysis = MemoryAnalysis(raw_file(tmp_path))
    assert list(analysis.get_memory_timeline().columns) == [
        "time_ns", *(f"{name}_bytes" for name in CATEGORIES), "all_bytes",
    ]  # fmt: skip
    assert [area.name for area in analysis.plot_memory_timeline().data] == [
        name.replace("_", " ") for name in CATEGORIES
    ]


@pytest.mark.shared
def test_hta_running_totals_are_met() -> None:
    golden = json.loads((SHARED / "golden" / "memory_timeline" / "process_raw_events.json").read_text())
    expected = golden["result"]["value"]
    timeline = read_raw_timeline(SHARED / "traces" / "memory_timeline" / "memory_timeline.raw.gz")
    rows = [[time, totals] for time, totals in zip(timeline.time.tolist(), timeline.totals.tolist(), strict=True)]
    assert (len(rows), rows[:20], rows[-20:]) == (expected["points"], expected["first20"], expected["last20"])
    assert timeline.totals.max(axis=0).tolist() == list(expected["max_by_category"].values())
    assert timeline.totals.min(axis=0).tolist() == list(expected["min_by_category"].values())
    assert timeline.peak == expected["peak_at_index"]
    assert int(timeline.totals[timeline.peak].sum()) == expected["peak_total_bytes"] == 3_082_832_104


@pytest.mark.shared
@pytest.mark.parametrize(("name", "rank"), [("ddp_v100", 1), ("owlv2_pystack_h100", 0)])
def test_events_agree_with_the_allocator_and_sum_to_the_peak(name: str, rank: int) -> None:
    found = allocations([whole(rank, graphs(name)[rank])])
    assert [item.device for item in found] == ["CPU", f"GPU {rank}"]
    for item in found:
        assert (item.moved[1:] == item.allocated[1:] - item.allocated[:-1]).all()
    alive = alive_at_peak(found).groupby("device")["alive_bytes"].sum()
    assert alive.tolist() == peaks(found)["peak_bytes"].tolist()
    assert alive[f"GPU {rank}"] == {"ddp_v100": 6_629_508_096, "owlv2_pystack_h100": 2_707_847_680}[name]


def test_it_concludes_how_high_the_peak_is_and_who_reached_it(tmp_path: Path) -> None:
    assert answer([whole(0, build().graph(tmp_path))]).conclusion == [
        "peak tensor memory on GPU 0: 170 bytes, reached in aten::mm"
    ]
    assert answer([]).conclusion == []
