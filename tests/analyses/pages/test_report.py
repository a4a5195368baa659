"""The report: complete, readable without a network, in light and dark, on a phone; and true to its numbers."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hta_graph as hg
from analyses.command_line.cli import main
from analyses.pages.report import PARTS, report_page
from analyses.pages.report_page import Section, page
from analyses.paths.verdict import verdict
from analyses.scope import in_window
from tests.support.builder import TraceBuilder
from tests.support.shared_traces import SHARED

FOUR_RANKS = Path(__file__).parents[3] / "analyses" / "sample" / "four_ranks"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    status = main(["report", str(FOUR_RANKS), "-o", str(folder / "r.html"), "--overlay", str(folder / "path #1.json")])
    assert status == 0
    return folder / "r.html"


def test_it_holds_every_section_and_the_verdict(report: Path) -> None:
    text = report.read_text()
    for title in ("Critical path", *(part.title for part in PARTS), "What is unexplained", "Look at it in the trace"):
        assert title.replace("'", "&#x27;") in text, title
    said = re.search(r'<div class="verdict">(.*?)</div>', text, re.DOTALL)
    assert said
    assert said[1].count("<p>") >= 4
    assert "The 4 ranks are alike: 1.39 ms to 1.39 ms." in said[1]


def test_it_needs_no_network(report: Path) -> None:
    without_library = re.sub(r"<script>.*?</script>", "", report.read_text(), count=1, flags=re.DOTALL)
    assert not re.findall(r'(?:src|href)\s*=\s*"(?:https?:)?//', without_library)


def test_it_links_the_overlay(report: Path) -> None:
    assert (report.parent / "path #1.json").is_file()
    assert 'href="path%20%231.json"' in report.read_text()


def test_names_from_a_trace_are_text_not_markup(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("<script>alert(1)</script>", 0, 50)
    trace.launch("<img src=x onerror=alert(2)>", (1, 2), (3, 40), 1)
    graph = trace.graph(tmp_path)
    window = hg.whole()
    text = report_page([in_window(0, graph, window)], {0: hg.critical_path(graph, window)}).decode()
    body = text[text.index("<body>") :]
    assert "<script>alert" not in body
    assert "<img" not in re.sub(r"<script.*?</script>", "", body, flags=re.DOTALL)


def test_a_trace_without_a_gpu_gets_its_report(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("aten::add", 0, 50)
    graph = trace.graph(tmp_path)
    text = report_page([in_window(0, graph, hg.whole())], {0: hg.critical_path(graph, hg.whole())}).decode()
    assert "no GPU activity" in text
    assert "every nanosecond has a cause" in text


def test_the_verdict_is_about_the_slowest_rank(tmp_path: Path) -> None:
    paths = {}
    for rank, length in ((0, 40), (1, 90)):
        trace = TraceBuilder()
        trace.launch(f"kernel_{rank}", (0, 2), (3, length), 1)
        (tmp_path / str(rank)).mkdir()
        paths[rank] = hg.critical_path(trace.graph(tmp_path / str(rank)), hg.whole())
    among, bound, largest, known = verdict(paths)
    assert among == "Rank 1 is the slowest of 2: 90.0 µs, the others 40.0 µs (median)."
    assert bound == "The whole trace takes 90.0 µs; for 97 % of it the GPU computes."
    assert largest == "The largest item on the critical path is kernel_1 (gpu_compute_bound): 0.087 ms in 1 call."
    assert known == "Unexplained: nothing, every nanosecond has a cause."


@pytest.mark.parametrize(
    ("lengths", "said"),
    [
        ((100, 100.2), "The 2 ranks are alike: 100.0 µs to 100.2 µs."),
        ((60, 99, 100), "The 3 ranks take 60.0 µs to 100.0 µs; none stands out as the slowest."),
        ((60, 70, 100), "Rank 2 is the slowest of 3: 100.0 µs, the others 60.0 µs (median)."),
    ],
)
def test_a_rank_is_the_slowest_only_beyond_five_per_cent(tmp_path: Path, lengths: tuple[float, ...], said: str) -> None:
    paths = {}
    for rank, length in enumerate(lengths):
        trace = TraceBuilder()
        trace.launch("kernel", (0, 2), (3, length), 1)
        (tmp_path / str(rank)).mkdir()
        paths[rank] = hg.critical_path(trace.graph(tmp_path / str(rank)), hg.whole())
    assert verdict(paths)[0] == said


def test_the_verdict_of_every_rank_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(FOUR_RANKS), "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document) == ["schema", "verdict", "ranks"]
    assert document["schema"] == "hta-graph/report/1"
    assert [rank["rank"] for rank in document["ranks"]] == [0, 1, 2, 3]
    assert document["verdict"] in [rank["verdict"] for rank in document["ranks"]]
    assert [finding["rule"] for finding in document["verdict"]][:3] == ["bound_by", "largest_item", "unexplained"]


def test_a_report_needs_a_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(FOUR_RANKS)]) == 2
    assert "-o FILE.html" in capsys.readouterr().err


def test_a_page_without_figures_carries_no_library() -> None:
    assert len(page("t", ["v"], [Section("s", "m")])) < 10_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not shutil.which("chromium"):
        pytest.skip("the report in a browser needs chromium")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.mark.slow
@pytest.mark.parametrize("width", [1200, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_opens_in_a_browser(report: Path, browser: Any, scheme: str, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
    opened = context.new_page()
    faults: list[str] = []
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    opened.goto(report.as_uri())
    opened.wait_for_selector(".main-svg .bars")
    assert not faults
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.locator(".js-plotly-plot").count() >= 5
    light = sum(map(int, re.findall(r"\d+", opened.evaluate("getComputedStyle(document.body).backgroundColor"))[:3]))
    assert (light > 380) == (scheme == "light")
    context.close()


@pytest.mark.shared
@pytest.mark.parametrize("name", ["vllm_hipgraph_mi300x", "cpu_only_gloo", "mtia_inference", "oldest_format_array"])
def test_traces_of_all_kinds_get_a_report(name: str, tmp_path: Path) -> None:
    assert main(["report", str(SHARED / "traces" / name), "-o", str(tmp_path / "r.html")]) == 0
    assert b"</html>" in (tmp_path / "r.html").read_bytes()
