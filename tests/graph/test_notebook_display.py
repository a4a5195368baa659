"""How objects show themselves: a short line everywhere, small tables in a notebook, nothing that a trace injects."""

from __future__ import annotations

import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

import hta_graph as hg
from hta_graph.base.errors import QueryError, UsageError
from hta_graph.base.text.formatting import join_first
from tests.support.trace_builder import TraceBuilder


@pytest.fixture
def graph(tmp_path: Path) -> hg.DependencyGraph:
    trace = TraceBuilder()
    trace.annotation("ProfilerStep#3", 0, 100)
    trace.op("<script>alert(1)</script>", 5, 30)
    trace.call("cudaLaunchKernel", 10, 20, 1)
    trace.kernel("<img src=x onerror=alert(1)>", 40, 90, 1)
    trace.call("cudaDeviceSynchronize", 30, 95, 2)
    return trace.graph(tmp_path)


class Tags(HTMLParser):
    """Collects the tags of a page, and the texts of its cells."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_line_says_what_it_is(graph: hg.DependencyGraph) -> None:
    path = hg.critical_path(graph, hg.step(3))
    assert repr(graph.trace) == "<Trace trace.json: 5 events on 2 lanes>"
    assert repr(graph) == f"<DependencyGraph trace.json: 5 events, {len(graph.edges)} edges>"
    assert repr(path).startswith("<CriticalPath ProfilerStep#3: 0.100 ms, ")
    assert repr(path.window).startswith("<window ProfilerStep#3: 0.100 ms from ")
    assert repr(hg.render(path)).startswith("<Picture: ")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("window", "said"),
    [
        (hg.step(3), "<window step(3)>"),
        (hg.step(3, gpu_window=True), "<window step(3, gpu_window=True)>"),
        (hg.annotation("fwd", first=1, last=2), "<window annotation('fwd', first=1, last=2)>"),
        (hg.between(0, 9), "<window between(0, 9)>"),
        (hg.whole(), "<window whole()>"),
    ],
    ids=repr,
)
def test_a_window_is_printed_as_it_was_asked(window: object, said: str) -> None:
    assert repr(window) == said


def test_a_notebook_shows_small_tables_of_escaped_texts(graph: hg.DependencyGraph) -> None:
    path = hg.critical_path(graph, hg.step(3))
    for shown in (graph.trace, graph, path):
        found = Tags(shown._repr_html_())
        assert found.tags == {"table", "caption", "tr", "th", "td"}
        assert repr(shown) in found.texts
    texts = Tags(path._repr_html_()).texts
    assert "<img src=x onerror=alert(1)>" in texts
    assert "gpu_compute_bound" in texts
    edges = Tags(graph._repr_html_()).texts
    assert "a launch call starts before the work it launches" in edges


@pytest.mark.skipif(shutil.which("dot") is None, reason="dot is not installed")
def test_a_picture_shows_itself_in_a_notebook(graph: hg.DependencyGraph) -> None:
    svg = hg.render(hg.critical_path(graph, hg.step(3)))._repr_svg_()
    assert svg is not None
    assert "<svg" in svg


def test_without_dot_a_notebook_shows_the_line(graph: hg.DependencyGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert hg.render(hg.critical_path(graph, hg.step(3)))._repr_svg_() is None


def test_pictures_from_python(graph: hg.DependencyGraph, tmp_path: Path) -> None:
    kernel = int(graph.events.loc[graph.events["kind"] == "kernel", "event_index"].iloc[0])
    call = int(graph.events.loc[graph.events["kind"] == "runtime", "event_index"].iloc[0])
    assert f"Around event {kernel}" in hg.render(graph, around=kernel).source
    assert f"From event {call}" in hg.render(graph, between=(call, kernel)).source
    written = hg.render(hg.critical_path(graph, hg.step(3)), tmp_path / "path.dot")
    assert (tmp_path / "path.dot").read_text() == written.source
    with pytest.raises(UsageError, match="pass around=… or between="):
        hg.render(graph)
    with pytest.raises(UsageError, match="pass around=… or between="):
        hg.render(graph, around=kernel, between=(call, kernel))
    with pytest.raises(UsageError, match=r"need a graph; pass path\.graph"):
        hg.render(hg.critical_path(graph, hg.step(3)), around=kernel)
    with pytest.raises(QueryError, match="no path leads from"):
        hg.render(graph, between=(kernel, call))


@pytest.mark.parametrize(
    ("window", "remedy"),
    [(3, r"use step\(3\)"), ("forward", r"use annotation\('forward'\)"), ((1, 2), r"use between\(1, 2\)")],
)
def test_what_is_no_window_is_told_what_was_meant(graph: hg.DependencyGraph, window: object, remedy: str) -> None:
    with pytest.raises(UsageError, match=remedy):
        hg.critical_path(graph, window)  # type: ignore[arg-type]


def test_dir_shows_what_users_need() -> None:
    assert dir(hg) == sorted([*hg.__all__, "__version__"])
    assert all(getattr(hg, name) is not None for name in dir(hg))


def test_more_ranks_than_a_line_holds_are_told() -> None:
    assert join_first([str(at) for at in range(20)]) == ", ".join(map(str, range(16))) + ", …"
    assert join_first(["a", "b"], "; ") == "a; b"
