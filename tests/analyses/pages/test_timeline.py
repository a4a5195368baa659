"""The timeline: bars are the events and segments of the window, the path runs along its lanes, the page is complete."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hta_graph as hg
from analyses.display.charts import BOUND_COLOUR
from analyses.pages.timeline_page import timeline_figure, timeline_html
from hta_graph import CriticalPath
from hta_graph.errors import MissingExtraError, UsageError
from tests.support.builder import TraceBuilder


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


def bars(figure: Any, *, strip: bool) -> list[tuple[str, str, float, float, float]]:
    """Return (trace, text, start, length, row) of the bars of the top strip or of the events."""
    return [
        (part.name, *row)
        for part in figure.data
        if part.type == "bar" and (part.name in BOUND_COLOUR) == strip
        for row in zip(part.hovertext, part.base, part.x, part.y, strict=True)
    ]


def by_name(figure: Any, name: str) -> Any:
    return next(part for part in figure.data if part.name == name)


def test_bars_are_the_events_of_the_window(tmp_path: Path) -> None:
    figure = timeline_figure(path_of(trace(), tmp_path))
    assert {(kind, text, start, round(length, 6)) for kind, text, start, length, _ in bars(figure, strip=False)} == {
        ("annotation", "forward #0", 0.0, 0.055),
        ("cpu_op", "aten::mm #1", 0.0, 0.05),
        ("runtime", "cudaLaunchKernel #2", 0.005, 0.005),
        ("kernel", "gemm #3", 0.02, 0.04),
        ("runtime", "cudaLaunchKernel #4", 0.015, 0.01),
        ("kernel", "relu #5", 0.06, 0.02),
        ("runtime", "cudaDeviceSynchronize #6", 0.055, 0.035),
    }


def test_nested_rows_stand_below_each_other_and_lanes_apart(tmp_path: Path) -> None:
    row = {text: y for _, text, _, _, y in bars(timeline_figure(path_of(trace(), tmp_path)), strip=False)}
    assert row["aten::mm #1"] == row["forward #0"] + 1
    assert row["cudaLaunchKernel #2"] == row["cudaLaunchKernel #4"] == row["aten::mm #1"] + 1
    assert row["cudaDeviceSynchronize #6"] == row["forward #0"]
    assert row["cudaLaunchKernel #2"] < row["gemm #3"] < row["relu #5"]


def test_the_strip_tiles_the_window_with_the_segments(tmp_path: Path) -> None:
    path = path_of(trace(), tmp_path)
    strip = bars(timeline_figure(path), strip=True)
    columns = path.segment_columns()
    length = (columns["end_ns"] - columns["start_ns"]) / 1e6
    start = (columns["start_ns"] - path.window.start_ns) / 1e6
    assert sorted((bound, begin, size) for bound, _, begin, size, _ in strip) == sorted(
        zip(columns["bound_by"], start.tolist(), length.tolist(), strict=True)
    )
    assert sum(size for *_, size, _ in strip) * 1e6 == pytest.approx(path.length_ns)
    assert any(
        "through stream_order" in text or "through event_wait" in text or "launch" in text for _, text, *_ in strip
    )


def test_the_path_runs_along_its_lanes(tmp_path: Path) -> None:
    path = path_of(trace(), tmp_path)
    line = by_name(timeline_figure(path), "critical path")
    x, y = np.array(line.x).reshape(-1, 3), np.array(line.y).reshape(-1, 3)
    lanes = path.pieces.lane[np.append(True, path.pieces.lane[1:] != path.pieces.lane[:-1])]
    assert len(x) == len(lanes) >= 3
    assert np.array_equal(x[1:, 0], x[:-1, 1])
    assert (x[0, 0], x[-1, 1]) == (0.0, path.length_ns / 1e6)
    assert len(set(y[:, 0].tolist())) == len(set(lanes.tolist()))
    assert line.line.width > by_name(timeline_figure(path), "changes of lane").line.width


def test_what_is_not_on_the_path_is_faded(tmp_path: Path) -> None:
    built = trace()
    built.op("elsewhere", 0, 5, tid=2)
    part = by_name(timeline_figure(path_of(built, tmp_path)), "cpu_op")
    opacity = dict(zip(part.hovertext, part.marker.opacity, strict=True))
    assert opacity["aten::mm #1"] == 1.0 > opacity["elsewhere #7"]


def test_only_what_meets_the_window_is_drawn(tmp_path: Path) -> None:
    built = trace()
    built.op("later", 200, 210)
    figure = timeline_figure(path_of(built, tmp_path, hg.between(55_000, 70_000)))
    assert {text for _, text, *_ in bars(figure, strip=False)} == {"gemm #3", "relu #5", "cudaDeviceSynchronize #6"}
    assert figure.layout.xaxis.range == (0, 0.015)


def test_a_limit_is_kept_and_said(tmp_path: Path) -> None:
    path = path_of(trace(), tmp_path)
    figure = timeline_figure(path, limit=3)
    assert {text for _, text, *_ in bars(figure, strip=False)} == {"forward #0", "aten::mm #1", "gemm #3"}
    said = f"left out: 4 of the shortest events, {len(path.pieces)} single segments"
    assert said in figure.layout.title.subtitle.text
    assert said in timeline_html(path, limit=3).decode()
    assert "left out" not in timeline_figure(path).layout.title.subtitle.text
    assert "left out" not in timeline_html(path).decode().split("<script")[0]


def test_too_many_segments_become_stretches_of_one_class(tmp_path: Path) -> None:
    built = TraceBuilder()
    for number in range(40):
        built.op(f"op{number}", 10 * number, 10 * number + 10)
    path = path_of(built, tmp_path)
    strip = bars(timeline_figure(path, limit=100), strip=True)
    assert [(bound, text, size) for bound, text, _, size, _ in strip] == [("cpu_bound", "40 segments", 0.4)]


def test_rows_nested_too_deep_are_left_out_and_said(tmp_path: Path) -> None:
    built = TraceBuilder()
    for depth in range(15):
        built.op(f"op{depth}", depth, 100 - depth)
    figure = timeline_figure(path_of(built, tmp_path))
    assert len(bars(figure, strip=False)) == 12
    assert "3 events nested more than 12 deep" in figure.layout.title.subtitle.text


def test_odd_names_neither_break_the_page_nor_vanish(tmp_path: Path) -> None:
    built = TraceBuilder()
    built.op("</script><b>&\x00\n'\"", 0, 10)
    built.op("", 10, 20)
    path = path_of(built, tmp_path)
    texts = [text for _, text, *_ in bars(timeline_figure(path), strip=False)]
    assert texts[0].startswith("&lt;/script&gt;&lt;b&gt;&amp;\ufffd")
    page = timeline_html(path).decode()
    assert "</script><b>" not in page
    assert page.count("<script") == page.count("</script>")


def test_the_page_needs_no_network_and_suits_a_phone(tmp_path: Path) -> None:
    path = path_of(trace(), tmp_path)
    page = timeline_html(path).decode()
    assert not re.search(r"<(script|link|img|iframe)[^>]*(src|href)\s*=", page)
    assert 'name="viewport"' in page
    assert "color-scheme: light dark" in page
    assert "whole trace" in page.split("<script")[0]
    assert timeline_html(path).decode() == page


def test_without_plotly_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = path_of(trace(), tmp_path)
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(MissingExtraError, match=r"a timeline needs .* pip install 'hta-graph\[plot\]'"):
        timeline_html(path)


def test_plotly_is_imported_only_when_used() -> None:
    import subprocess

    code = "import sys, analyses.pages.timeline_page; sys.exit('plotly' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_window_without_events_is_drawn(tmp_path: Path) -> None:
    built = trace()
    built.op("later", 500, 510)
    figure = timeline_figure(path_of(built, tmp_path, hg.between(200_000, 300_000)))
    assert bars(figure, strip=False) == []
    assert sum(size for *_, size, _ in bars(figure, strip=True)) == pytest.approx(0.1)


def test_a_limit_below_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at most 0"):
        timeline_figure(path_of(trace(), tmp_path), limit=0)


def test_fifty_thousand_events_are_drawn_in_seconds(tmp_path: Path) -> None:
    built = TraceBuilder()
    for number in range(17_000):
        built.op("aten::add", 10 * number, 10 * number + 9)
        built.launch("add", (10 * number + 1, 10 * number + 3), (10 * number + 5, 10 * number + 9), number + 1)
    path = path_of(built, tmp_path)
    begin = time.perf_counter()
    timeline_figure(path)
    assert time.perf_counter() - begin < 5
