"""The timeline: bars are the events and segments of the window, the path runs along its lanes, the page is complete."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import hta_graph as hg
from analyses.report.timeline import scene_of, timeline_page
from hta_graph import CriticalPath
from hta_graph.base.errors import UsageError
from hta_graph.paths.step_table import step_rows
from tests.support.samples import ONE_RANK
from tests.support.timeline_data import DrawnBar, page_data
from tests.support.trace_builder import TraceBuilder

EVENTS = {
    "annotation",
    "operator",
    "runtime call",
    "kernel",
    "communication",
    "waiting for other ranks",
    "copy",
    "memset",
    "other",
}


def trace() -> TraceBuilder:
    """Return an operator with two launches, the second on another stream, and a synchronisation."""
    built = TraceBuilder()
    built.annotation("forward", 0, 55)
    built.op("aten::mm", 0, 50)
    built.launch("gemm", (5, 10), (20, 60), 1)
    built.launch("relu", (15, 25), (60, 80), 2, stream=9)
    built.call("cudaDeviceSynchronize", 55, 90)
    return built


def path_of(built: TraceBuilder, tmp_path: Path, window: Any = None) -> CriticalPath:
    return hg.critical_path(built.graph(tmp_path), window)


def events_on(path: CriticalPath, **options: Any) -> list[DrawnBar]:
    return [bar for bar in page_data(timeline_page(path, **options).html()).bars if bar.group in EVENTS]


def strip_on(path: CriticalPath, **options: Any) -> list[DrawnBar]:
    return [bar for bar in page_data(timeline_page(path, **options).html()).bars if bar.track == 0]


def test_bars_are_the_events_of_the_window(tmp_path: Path) -> None:
    path = path_of(trace(), tmp_path)
    assert {(bar.group, bar.name, bar.index, bar.start, bar.end - bar.start) for bar in events_on(path)} == {
        ("annotation", "forward", 0, 0, 55_000),
        ("operator", "aten::mm", 1, 0, 50_000),
        ("runtime call", "cudaLaunchKernel", 2, 5_000, 5_000),
        ("kernel", "gemm", 3, 20_000, 40_000),
        ("runtime call", "cudaLaunchKernel", 4, 15_000, 10_000),
        ("kernel", "relu", 5, 60_000, 20_000),
        ("runtime call", "cudaDeviceSynchronize", 6, 55_000, 35_000),
    }


def test_nested_rows_stand_below_each_other_and_lanes_apart(tmp_path: Path) -> None:
    path = path_of(trace(), tmp_path)
    track = {bar.index: bar.track for bar in events_on(path)}
    assert track[1] == track[0] + 1
    assert track[2] == track[4] == track[1] + 1
    assert track[6] == track[0]
    assert track[2] < track[3] < track[5]
    # Above each lane's events is the track along which the path runs.
    assert page_data(timeline_page(path).html()).head["lanes"] == [
        ["thread 100:1", 3], ["stream 0:1:7", 1], ["stream 0:1:9", 1]
    ]  # fmt: skip
    assert (track[0], track[3], track[5]) == (2, 6, 8)


def test_the_strip_tiles_the_window_with_the_classes(tmp_path: Path) -> None:
    path = path_of(trace(), tmp_path)
    strip = sorted(strip_on(path), key=lambda bar: bar.start)
    assert strip[0].start == 0
    assert strip[-1].end == path.length_ns
    assert all(one.end == other.start for one, other in pairwise(strip))
    assert sum(bar.rows for bar in strip) == len(path.segment_table)
    times: Counter[str] = Counter()
    for bar in strip:
        times[bar.group] += bar.busy
    assert times["GPU compute"] == path.by_bound_ns["gpu_compute_bound"]
    assert times.total() == path.length_ns


def test_the_path_runs_along_its_lanes(tmp_path: Path) -> None:
    path = path_of(trace(), tmp_path)
    runs = [bar for bar in page_data(timeline_page(path).html()).bars if bar.group == "path"]
    lanes = path.segment_table.lane[[True, *(path.segment_table.lane[1:] != path.segment_table.lane[:-1])]]
    assert len(runs) == len(lanes) >= 3
    ordered = sorted(runs, key=lambda bar: bar.start)
    assert (ordered[0].start, ordered[-1].end) == (0, path.length_ns)
    assert all(one.end == other.start for one, other in pairwise(ordered))


def test_what_is_not_on_the_path_is_marked(tmp_path: Path) -> None:
    built = trace()
    built.op("elsewhere", 0, 5, tid=2)
    on_path = {bar.name: bar.on_path for bar in events_on(path_of(built, tmp_path))}
    assert on_path["aten::mm"]
    assert not on_path["elsewhere"]


def test_only_what_meets_the_window_is_drawn(tmp_path: Path) -> None:
    built = trace()
    built.op("later", 200, 210)
    path = path_of(built, tmp_path, hg.between(55_000, 70_000))
    assert {bar.name for bar in events_on(path)} == {"gemm", "relu", "cudaDeviceSynchronize"}
    assert page_data(timeline_page(path).html()).head["windows"] == [[0, 15_000]]


def test_work_that_overlaps_on_a_stream_stands_on_another_track(tmp_path: Path) -> None:
    built = TraceBuilder()
    built.launch("first", (0, 2), (10, 30), 1)
    built.launch("early", (3, 5), (20, 40), 2)
    built.launch("inside", (6, 8), (22, 24), 3)
    built.launch("next", (8, 9), (45, 50), 4)
    track = {bar.name: bar.track for bar in events_on(path_of(built, tmp_path, hg.whole()))}
    assert track["early"] == track["first"] + 1
    assert track["inside"] == track["first"] + 2
    assert track["next"] == track["first"]


def test_a_limit_merges_and_says_so(tmp_path: Path) -> None:
    built = TraceBuilder()
    for number in range(40):
        built.op(f"op{number}", 10 * number, 10 * number + 9)
    path = path_of(built, tmp_path)
    few = timeline_page(path, limit=20)
    assert 5 < len(few.scene.bars) <= 20
    drawn = [bar for bar in page_data(few.html()).bars if bar.group in EVENTS]
    assert sum(bar.rows for bar in drawn) == 40
    assert sum(bar.busy for bar in drawn) == 40 * 9_000
    assert f"in {len(few.scene.bars)} bars" in few.html().decode()
    assert "are merged with neighbors" not in timeline_page(path).html().decode()


def test_rows_nested_too_deep_are_left_out_and_said(tmp_path: Path) -> None:
    built = TraceBuilder()
    for depth in range(15):
        built.op(f"op{depth}", depth, 100 - depth)
    path = path_of(built, tmp_path)
    assert len(events_on(path)) == 12
    assert "3 deeply nested events are left out" in timeline_page(path).html().decode()


def test_odd_names_neither_break_the_page_nor_vanish(tmp_path: Path) -> None:
    odd = "</script><script>alert(1)</script><b>&\x00\n'\""
    built = TraceBuilder()
    built.op(odd, 0, 10)
    built.op(" ", 10, 20)
    built.annotation("<img src=x onerror=alert(2)>", 0, 20)
    path = path_of(built, tmp_path, hg.annotation("<img src=x onerror=alert(2)>"))
    page = timeline_page(path).html().decode()
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "&lt;img src=x onerror=alert(2)&gt;" in page
    assert page.count("<script") == page.count("</script>") == 2
    names = {bar.name for bar in events_on(path)}
    assert "(no name)" in names
    assert any(name.startswith("</script><script>alert(1)") for name in names)


def test_the_page_needs_no_network_and_lets_no_other_script_run(tmp_path: Path) -> None:
    page = timeline_page(path_of(trace(), tmp_path)).html().decode()
    assert not re.search(r"<(script|link|img|iframe)[^>]*(src|href)\s*=", page)
    assert "default-src &#39;none&#39;" in page or "default-src 'none'" in page
    assert re.search(r"script-src 'sha256-[A-Za-z0-9+/]{43}='", page)
    assert 'name="viewport"' in page
    assert "color-scheme: light dark" in page
    assert "whole trace" in page.split("<script")[0]


def test_the_same_path_gives_the_same_bytes(tmp_path: Path) -> None:
    path = path_of(trace(), tmp_path)
    assert timeline_page(path).html() == timeline_page(path_of(trace(), tmp_path)).html()


@pytest.mark.slow
def test_pages_cost_no_plotly_and_other_commands_no_templates() -> None:
    said = "import sys, analyses.report.timeline, analyses.report.report, analyses.display.charts; "
    code = said + "sys.exit('plotly' in sys.modules or 'jinja2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_page_is_written_without_plotly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    assert timeline_page(path_of(trace(), tmp_path)).html().endswith(b"</html>\n")


def test_a_window_without_events_is_drawn(tmp_path: Path) -> None:
    built = trace()
    built.op("later", 500, 510)
    path = path_of(built, tmp_path, hg.between(200_000, 300_000))
    assert events_on(path) == []
    assert sum(bar.busy for bar in strip_on(path)) == 100_000


def test_a_limit_below_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not 0"):
        timeline_page(path_of(trace(), tmp_path), limit=0)


def test_a_page_about_a_step_turns_to_the_others() -> None:
    graph = hg.build_graph(hg.read_trace(ONE_RANK))
    path = hg.critical_path(graph, hg.step(2))
    steps = step_rows(graph)
    page = timeline_page(path, steps)
    assert [step.label for step in page.steps] == ["ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3"]
    data = page_data(page.html())
    assert data.head["chosen"] == 1
    windows = [[row.path.window.start_ns - page.span[0], row.path.window.end_ns - page.span[0]] for row in steps]
    assert data.head["windows"] == windows
    for number, row in enumerate(steps):
        strip = [bar for bar in data.bars if bar.track == number]
        assert sum(bar.busy for bar in strip) == row.path.length_ns
    assert [step.label for step in timeline_page(path).steps] == ["ProfilerStep#2"]


def test_links_lead_into_the_page_only(tmp_path: Path) -> None:
    page = timeline_page(path_of(trace(), tmp_path, hg.between(55_000, 70_000)))
    assert page.link(56_000, 60_000, 3) == "#t=56000,60000&row=3"
    assert page.link(55_000, 70_000) == "#t=55000,70000"
    assert page.link(54_999, 60_000) == page.link(60_000, 70_001) == page.link(60_000, 59_000) == ""


@pytest.mark.slow
def test_a_large_trace_stays_below_a_megabyte(tmp_path: Path) -> None:
    built = TraceBuilder()
    for number in range(17_000):
        at = 10 * number + number * number % 7 / 1000
        built.op("aten::add", at, at + 9 + number % 997 / 1000)
        built.launch("add", (at + 1, at + 3 + number % 619 / 1000), (at + 5, at + 8), number + 1)
    path = path_of(built, tmp_path)
    begin = time.perf_counter()
    page = timeline_page(path)
    html = page.html()
    assert time.perf_counter() - begin < 5
    assert len(html) < 1_000_000
    assert sum(page.scene.bars.count.tolist()) == page.scene.rows
    assert len(timeline_page(path, limit=2_000).scene.bars) <= 2_000


def test_a_scene_has_no_bars_that_overlap(tmp_path: Path) -> None:
    scene = scene_of([path_of(trace(), tmp_path)])
    ends: dict[int, int] = {}
    columns = (scene.bars.series, scene.bars.start, scene.bars.end)
    for series, start, end in zip(*(column.tolist() for column in columns), strict=True):
        assert start >= ends.get(series, start)
        ends[series] = end
