"""The report: complete, readable without a network, in light and dark, on a phone; and true to its numbers."""

from __future__ import annotations

import json
import os
import re
from html import escape, unescape
from pathlib import Path

import pandas as pd
import pytest

import hta_graph as hg
from analyses.cli.main import main
from analyses.declare.scope import in_window
from analyses.display.labels import SHORT
from analyses.judgement.verdict import verdict
from analyses.report import sections
from analyses.report.page_tables import Bar, BarPart, Section, SectionTable
from analyses.report.report import page, report_page
from analyses.report.sections import PARTS, job_section
from analyses.report.summary import KeyFigure, detailed_rank, summary_of
from analyses.report.timeline import timeline_page
from analyses.source.window_facts import verdict_of_job
from hta_graph.base.colours import BOUND_COLOUR
from hta_graph.what_if.opportunities import Opportunity
from tests.support.html_tables import page_sections, page_tables
from tests.support.merged_ranks import labelled, read_document, write_merged
from tests.support.page_summary import page_summary
from tests.support.samples import FOUR_RANKS, ONE_RANK, SAMPLES
from tests.support.shared_traces import SHARED
from tests.support.timeline_data import page_data
from tests.support.trace_builder import TraceBuilder
from tests.support.two_rank_job import small_job


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    status = main(["report", str(FOUR_RANKS), "-o", str(folder / "r.html"), "--overlay", str(folder / "path #1.json")])
    assert status == 0
    return folder / "r.html"


def test_it_holds_every_section_and_the_verdict(report: Path) -> None:
    text = report.read_text()
    for title in ("Critical path", *(part.title for part in PARTS), "Unexplained time", "Open in Perfetto"):
        assert title in unescape(text), title
    assert "Launch stats (sums over launches, whose waits overlap): " in unescape(text)
    said = re.search(r'<details class="findings">(.*?)</details>', text, re.DOTALL)
    assert said
    assert said[1].count("<li>") >= 4
    assert "210.0 µs in steps 2 and 3 (15% of a step)" in said[1]


def test_the_headline_comes_first_then_at_most_three_actions_then_the_picture(report: Path) -> None:
    text = unescape(report.read_text())
    body = text[text.index("<body>") :]
    order = [body.index(mark) for mark in ("<h1>", 'class="figures"', 'class="cards"', "<figure", "<nav", "<section>")]
    assert order == sorted(order)
    assert "<h1>Rank 2 delays the others by 210.0 µs in steps 2 and 3 (15% of a step), mostly in enumerate(Data" in body
    figures = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", body)
    assert figures[:2] == [("of the critical path is GPU compute", "66%"), ("iteration", "1.36 ms")]
    cards = re.findall(r"<li>\s*<h2>(.*?)</h2>\s*<p class=\"saving\">(.*?)</p>", body)
    assert 1 <= len(cards) <= 3
    # Without any loading, the program that was recorded takes 300 µs less per iteration.
    assert "Saves 267.4 µs (20%)" in [saving for _, saving in cards]
    assert '<p class="quiet">Percentages are of the iteration (1.36 ms), unless a heading says otherwise.</p>' in body
    assert body.count("<h1>") == 1


def test_an_assumption_reads_as_one_and_follows_advice(tmp_path: Path) -> None:
    built = TraceBuilder()
    built.launch("gemm", (0, 2), (3, 1000), 1)
    path = hg.critical_path(built.graph(tmp_path), hg.whole())
    gemm = Opportunity("kernel", "gemm", 900_000, 450_000, 900_000, None)
    summary = summary_of(path, "run", [gemm])
    cards = [(card.action, card.saving) for card in summary.cards]
    assert cards[-1] == ("If gemm ran twice as fast", "Would save 450.0 µs (45%)")
    (card,) = summary.cards[-1:]
    counted = "900.0 µs (90%) of the path, counting what was launched in this window"
    assert card.details == [f"{counted}; without it, 900.0 µs (90%) would be saved."]
    assert summary.figures[0] == KeyFigure("498.5 µs (50%)", "largest cause: GPU compute")
    assert not any("Unexplained: 0 ms" in finding for finding in summary.findings)
    assert "Unexplained: 0 ms." in summary.notes


def test_what_calls_the_whole_window_is_no_next_action(tmp_path: Path) -> None:
    built = TraceBuilder()
    built.launch("gemm", (0, 2), (3, 1000), 1)
    path = hg.critical_path(built.graph(tmp_path), hg.whole())
    whole = Opportunity("frame", "run", 990_000, 495_000, 990_000, None)
    gemm = Opportunity("kernel", "gemm", 900_000, 450_000, 900_000, None)
    shown = [card.action for card in summary_of(path, "run", [whole, gemm]).cards]
    assert "If gemm ran twice as fast" in shown
    assert "If run ran twice as fast" not in shown


def test_advice_that_leads_the_verdict_leads_the_page() -> None:
    """It has no time of its own on the path, so the share is that of the largest class."""
    graph = hg.build_graph(hg.read_trace(SAMPLES / "slower_trace.json.gz"))
    summary = summary_of(hg.critical_path(graph, hg.step(2, gpu_window=True)), "run", [])
    assert summary.headline == "Step 2: bound by GPU compute; largest change: no values read from the GPU"
    assert summary.figures[0].text == "largest change: no values read from the GPU, medium confidence"
    assert summary.figures[1].text == "of the critical path is GPU compute"


def test_headings_name_what_percentages_are_of(report: Path) -> None:
    kernels = unescape(page_sections(report)["Kernels, rank 2"])
    assert "time %: of the GPU's busy time in the window</span>" in kernels
    assert "time %: of all GPU time launched in the window</span>" in kernels


def test_a_section_of_all_ranks_begins_with_the_one_in_detail(report: Path) -> None:
    notes = re.findall('<p class="note">(.*?)</p>', page_sections(report)["GPU time"])
    assert notes[0].startswith("Rank 2: the GPU computes ")
    assert notes[1].startswith("All ranks: the GPU computes ")
    assert "(see " not in "".join(notes)


def test_the_rank_in_detail_is_the_one_that_the_verdict_names(report: Path, tmp_path: Path) -> None:
    text = unescape(report.read_text())
    named = re.search(r"<h1>.*?[Rr]ank (\d+)", text)
    assert named
    assert set(re.findall(r"(?:Timeline|Kernels|Launches|Roofline), rank (\d+)", text)) == {named[1]}
    paths = {rank: hg.critical_path(graph, hg.whole()) for rank, graph in _ranks(small_job(tmp_path)).items()}
    job = hg.critical_path(hg.read_job(small_job(tmp_path)), hg.whole())
    found = verdict_of_job(job)
    assert found is not None
    assert found.rank is None
    assert detailed_rank(paths, job) == max(job.by_rank_ns, key=job.by_rank_ns.__getitem__)
    assert detailed_rank(paths) == max(paths, key=lambda rank: paths[rank].length_ns)


def _ranks(job: Path) -> dict[int, hg.DependencyGraph]:
    return {part.rank: part.graph for part in hg.read_job(job).rank_graphs}


def test_all_parts_of_a_page_have_one_step_length(report: Path) -> None:
    sections = page_sections(report)
    (breakdown,) = (rows for title, rows in page_tables(sections["GPU time"]).items() if title.startswith("Temporal"))
    assert {row[breakdown[0].index("window ms")] for row in breakdown[1:]} == {"1.358"}
    assert "Step 2: iteration 1.358 ms" in report.read_text()
    steps = page_tables(sections["Steps"])["Length of each step"]
    assert "latency ms" not in steps[0]
    assert "Every rank is analyzed over step 2 of the job (1.36 ms)." in sections["Ranks"]


@pytest.mark.shared
@pytest.mark.slow
def test_a_real_job_shows_the_rank_of_its_path(tmp_path: Path) -> None:
    assert main(["report", str(SHARED / "traces" / "nanogpt_ddp_8xh100"), "-o", str(tmp_path / "r.html")]) == 0
    text = (tmp_path / "r.html").read_text()
    # It causes 94% of the waiting, and delays each of the three steps by about a fifth.
    assert (
        "<h1>Rank 1 delays the others by 8.76 ms in every step from 11 to 13 (18% of a step), in many operations"
        in text
    )
    # Others work longer without coming later: nobody would wait for them.
    assert "so does rank" not in text
    assert "Timeline, rank 1" in text
    assert len(text.encode()) < 1_000_000


@pytest.mark.sampled(2)
@pytest.mark.shared
@pytest.mark.parametrize("name", ["traces/cpu_only_gloo", "gloo/ddp_2r_base_1"])
def test_no_gpu_communicates_where_there_is_none(name: str, tmp_path: Path) -> None:
    assert main(["report", str(SHARED / name), "-o", str(tmp_path / "r.html")]) == 0
    assert "GPU communicat" not in (tmp_path / "r.html").read_text()


def test_the_job_stands_before_its_ranks(report: Path) -> None:
    text = unescape(report.read_text())
    assert text.index("Critical path of the job</h2>") < text.index("Critical path of each rank")
    assert "Time on the critical path by rank" in text
    assert "Timeline, rank 2" in text


def test_what_others_wait_for_stands_beside_the_path_of_the_job(tmp_path: Path) -> None:
    job = hg.critical_path(hg.read_job(small_job(tmp_path)), hg.whole())
    causes = pd.DataFrame({"rank": range(12), "name": [f"cause {at}" for at in range(12)], "caused_ns": 5})
    section = job_section(job, causes)
    assert [len(table.frame) for table in section.tables][-1] == 12
    # All of the path is on one rank: a sentence says so, instead of a table of one row.
    assert [table.title for table in job_section(job).tables] == [
        "Time on the critical path by class",
        "Largest items on the critical path",
    ]
    assert "All of it is on rank " in section.meaning


def test_it_needs_no_network(report: Path) -> None:
    assert not re.findall(r'(?:src|href)\s*=\s*"(?:https?:)?//', report.read_text())
    assert "default-src 'none'" in report.read_text()


def test_it_links_the_overlay(report: Path) -> None:
    assert (report.parent / "path #1.json").is_file()
    assert 'href="path%20%231.json"' in report.read_text()


@pytest.mark.slow
def test_it_links_an_overlay_whose_name_is_no_utf_8(tmp_path: Path) -> None:
    named = tmp_path / os.fsdecode(b"path\xff.json")
    assert main(["report", str(FOUR_RANKS), "-o", str(tmp_path / "r.html"), "--overlay", str(named)]) == 0
    assert named.is_file()
    assert 'href="path%FF.json"' in (tmp_path / "r.html").read_text()


@pytest.mark.slow
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
    assert text.count("No GPU activity was recorded.") == 1
    assert "Kernels" not in text
    assert "Unexplained: 0 ms." in text


def test_the_verdict_is_about_the_slowest_rank(tmp_path: Path) -> None:
    paths = {}
    for rank, length in ((0, 40), (1, 90)):
        trace = TraceBuilder()
        trace.launch(f"kernel_{rank}", (0, 2), (3, length), 1)
        (tmp_path / str(rank)).mkdir()
        paths[rank] = hg.critical_path(trace.graph(tmp_path / str(rank)), hg.whole())
    among, bound, largest, known, why = verdict(paths)
    assert among == "Rank 1 is the slowest of 2: 90.0 µs, the others 40.0 µs (median)."
    assert bound == (
        "Rank 1, whole trace: bound by GPU compute (97% of the critical path); at 2x speed, the window would be "
        "43.5 µs (48%) shorter; length 90.0 µs."
    )
    assert why == (
        "GPU compute is 97% of the window; only faster kernels or less work help. Largest savings at 2x speed: kernel "
        "kernel_1, 43.5 µs (48%)."
    )
    assert largest == "Largest item on the critical path: kernel_1 (GPU compute), 0.087 ms in 1 call."
    assert known == "Unexplained: 0 ms."


@pytest.mark.parametrize(
    ("lengths", "said"),
    [
        ((100, 100.2), "The 2 ranks take about the same time: 100.0 µs to 100.2 µs."),
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
    assert list(document) == ["schema", "judgement", "verdict", "job_verdict", "job", "ranks"]
    assert document["schema"] == "hta-graph/report/1"
    assert [rank["rank"] for rank in document["ranks"]] == [0, 1, 2, 3]
    rules = [finding["rule"] for finding in document["verdict"]]
    assert rules[:5] == ["held_up_by_rank", "bound_by", "largest_item", "unexplained", "ranks_matched"]
    assert document["job"]["ranks"] == [0, 1, 2, 3]
    assert sum(document["job"]["by_rank_ns"].values()) == 1_357_700
    of_rank = [finding["rule"] for finding in document["ranks"][0]["verdict"]]
    assert of_rank[:3] == ["bound_by", "largest_item", "unexplained"]


def test_a_report_needs_a_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(FOUR_RANKS)]) == 2
    assert "-o FILE.html" in capsys.readouterr().err


def test_a_page_stays_small(report: Path) -> None:
    assert len(page(page_summary(), [Section("s", "m")])) < 30_000
    assert report.stat().st_size < 170_000


@pytest.mark.slow
def test_the_same_ranks_give_the_same_bytes(report: Path, tmp_path: Path) -> None:
    assert (
        main(["report", str(FOUR_RANKS), "-o", str(tmp_path / "r.html"), "--overlay", str(tmp_path / "path #1.json")])
        == 0
    )
    assert (tmp_path / "r.html").read_bytes() == report.read_bytes()


def test_every_link_leads_somewhere(report: Path) -> None:
    text = report.read_text()
    anchors = set(re.findall(r'id="([^"]+)"', text))
    links = [unescape(link) for link in re.findall(r'href="#([^"]+)"', text)]
    places = [re.fullmatch(r"t=(\d+),(\d+)(?:&row=(\d+))?", link) for link in links]
    assert {link for link, place in zip(links, places, strict=True) if not place} <= anchors
    data = page_data(report.read_bytes())
    base, length = int(data.head["base"]), data.head["length"]
    numbers = {bar.index for bar in data.bars}
    times = [place for place in places if place]
    assert len(times) > 30
    for place in times:
        start, end = int(place[1]) - base, int(place[2]) - base
        assert 0 <= start <= end <= length
        assert place[3] is None or int(place[3]) in numbers


def test_a_row_leads_to_the_event_that_it_names(report: Path) -> None:
    text = report.read_text()
    (link,) = set(
        re.findall(
            r'<a href="([^"]+)"[^>]*>ampere_sgemm_64x32_tn</a>', text.split("<h3>Kernels: rank")[1].split("</table>")[0]
        )
    )
    place = re.fullmatch(r"#t=(\d+),(\d+)&row=(\d+)", unescape(link))
    assert place
    data = page_data(report.read_bytes())
    (bar,) = [bar for bar in data.bars if bar.index == int(place[3]) and bar.group == "kernel"]
    assert bar.name == "ampere_sgemm_64x32_tn"
    assert [int(data.head["base"]) + at for at in (bar.start, bar.end)] == [int(place[1]), int(place[2])]


def test_an_item_of_the_path_leads_to_its_longest_segment(tmp_path: Path) -> None:
    built = TraceBuilder()
    built.op("short", 0, 10)
    built.op("long", 20, 50)
    built.op("short", 60, 75)
    graph = built.graph(tmp_path)
    path = hg.critical_path(graph, hg.whole())
    timeline = timeline_page(path)
    totals = path.event_totals()
    links = dict(zip(totals["name"].tolist(), sections.longest_segments(path, totals, timeline), strict=True))
    start = path.window.start_ns
    assert links == {
        "long": f"#t={start + 20_000},{start + 50_000}&row=1",
        "short": f"#t={start + 60_000},{start + 75_000}&row=2",
        None: f"#t={start + 10_000},{start + 20_000}",
    }


@pytest.mark.slow
def test_the_longest_kernels_stand_first_whatever_their_type(tmp_path: Path) -> None:
    built = TraceBuilder()
    for number in range(3):
        built.launch(f"gemm_{number}", (20 * number, 20 * number + 1), (20 * number + 2, 20 * number + 12), number + 1)
    built.launch("ncclDevKernel_AllReduce_Sum", (61, 62), (70, 170), 9, stream=20)
    graph = built.graph(tmp_path)
    text = report_page([in_window(0, graph, hg.whole())], {0: hg.critical_path(graph, hg.whole())}).decode()
    rows = text.split("<h3>Kernels: rank")[1].split("</table>")[0].split("<tr>")[2:]
    names = [row.split("</a>")[0].rpartition(">")[2] for row in rows]
    assert names == ["AllReduce_Sum", "gemm_0", "gemm_1", "gemm_2"]
    assert "&amp;row=7" in rows[0]
    assert "width:100.0%" in rows[0]


def test_each_class_has_one_colour_and_one_legend(report: Path) -> None:
    classes = report.read_text().split("<h3>Time on the critical path by class")[1].split("</table>")[0]
    labels = {**SHORT, "gpu_communication_bound": "communication"}
    for bound, colour in BOUND_COLOUR.items():
        assert classes.count(f'background:{colour}"></i>{labels[bound]}<') == (f">{labels[bound]}<" in classes)
    for key, colour in BOUND_COLOUR.items():
        of_class = re.findall(rf'background:(#\w+)"></i>{labels[key]}(?: <b>|<)', report.read_text())
        assert set(of_class) <= {colour}


@pytest.mark.slow
def test_the_legend_explains_the_colours_of_every_step(tmp_path: Path) -> None:
    assert main(["report", str(ONE_RANK), "--step", "2", "-o", str(tmp_path / "r.html")]) == 0
    text = (tmp_path / "r.html").read_text()
    legend = text.split('<ul class="legend" aria-label="Classes of the critical path">')[2].split("</ul>")[0]
    bars = re.findall(r'<div class="step"[^>]*>(.*?)</div>', text, re.DOTALL)
    assert len(bars) == 3
    assert {colour for bar in bars for colour in re.findall(r"background:(#\w+)", bar)} == set(
        re.findall(r"background:(#\w+)", legend)
    )


def test_bars_say_in_words_what_they_show(report: Path) -> None:
    text = report.read_text()
    assert len(re.findall(r'<span class="bar" role="img" aria-label="[^"]+"', text)) > 10
    assert re.search(r'style="width:[\d.]+%;background:#3fa65c" title="compute [\d.]+ ms, [\d.]+%"', text)


def test_a_colour_of_a_bar_is_explained_by_a_heading(report: Path) -> None:
    table = report.read_text().split("<h3>Temporal breakdown")[1].split("</thead>")[0].replace("</span>", "")
    explained = dict(re.findall(r'background:(#\w+)"></i>([\w ]+) ms', table))
    parts = next(shown.parts for part in PARTS for shown in part.tables if shown.name == "temporal_breakdown")
    # Columns that are zero in every row are left out.
    assert set(explained.items()) <= {(colour, words) for words, colour in parts.values()}
    assert explained


def test_names_stand_first() -> None:
    frame = pd.DataFrame({"time_ns": [5], "calls": [1], "name": ["a long name of a kernel that is cut last"]})
    (table,) = Section("s", "m", [SectionTable("t", frame, links=["#t=1,2"])]).shown()
    assert [cell.text for cell in table.headings] == ["name", "time ms", "calls"]
    assert [cell.style for cell in table.rows[0].cells] == ["text long", "", ""]


@pytest.mark.slow
def test_a_page_holds_all_rows_that_fit() -> None:
    frame = pd.DataFrame({"name": [f"row {number}" for number in range(900)]})
    text = page(page_summary(), [Section("s", "m", [SectionTable("t", frame)])]).decode()
    assert text.count("<tr>") == 1 + 900
    assert "rows; the page stays below" not in text
    wide = pd.DataFrame({"name": [f"{number} {'x' * 800}" for number in range(1_500)]})
    text = page(page_summary(), [Section("s", "m", [SectionTable("t", wide)] * 2)]).decode()
    assert len(text) < 1_000_000
    assert re.search(r"The first [\d,]+ of 1,500 rows; the page stays below 1 MB.", text)


def test_no_page_points_to_options_of_the_command_line(report: Path) -> None:
    assert "--json" not in report.read_text()


def test_amounts_that_are_zero_everywhere_are_left_out() -> None:
    frame = pd.DataFrame({"name": ["a", "b"], "time_ns": [5, 6], "wait_ns": [0, 0], "count": [0, 0]})
    (table,) = Section("s", "m", [SectionTable("t", frame)]).shown()
    assert [cell.text for cell in table.headings] == ["name", "time ms", "count"]


def test_classes_have_labels_and_colours_in_every_table() -> None:
    frame = pd.DataFrame({"name": ["a", "b"], "bound_by": ["cpu_bound", "unexplained"], "cause": ["launch", None]})
    (table,) = Section("s", "m", [SectionTable("t", frame)]).shown()
    cells = {(cell.text, cell.colour) for row in table.rows for cell in row.cells}
    assert ("CPU work", BOUND_COLOUR["cpu_bound"]) in cells
    assert ("unexplained", BOUND_COLOUR["unexplained"]) in cells
    assert ("launch in progress", BOUND_COLOUR["gpu_kernel_launch_overhead"]) in cells


def test_cells_and_titles_are_escaped() -> None:
    odd = '"><script>alert(1)</script>'
    bar = Bar([BarPart(50, "red", odd)])
    table = SectionTable(odd, pd.DataFrame({"name": [odd]}), [bar], [f"#{odd}"])
    text = page(page_summary(odd), [Section(odd, odd, [table], [odd])], overlay=odd).decode()
    assert "<script>alert" not in text
    assert text.count(escape(odd, quote=False)[2:20]) >= 7


@pytest.mark.shared
@pytest.mark.parametrize("name", ["vllm_hipgraph_mi300x", "cpu_only_gloo", "mtia_inference", "oldest_format_array"])
def test_traces_of_all_kinds_get_a_report(name: str, tmp_path: Path) -> None:
    assert main(["report", str(SHARED / "traces" / name), "-o", str(tmp_path / "r.html")]) == 0
    assert b"</html>" in (tmp_path / "r.html").read_bytes()


def test_the_page_is_led_by_advice_where_the_verdict_is(tmp_path: Path) -> None:
    """What advice saves is no part of the path; what happens once is."""
    waits = summary_of(hg.critical_path(hg.build_graph(hg.read_trace(SAMPLES / "slower_trace.json.gz"))), "run")
    assert waits.headline == "Step 2: bound by GPU compute; largest change: no values read from the GPU"
    assert waits.figures[0].text == "largest change: no values read from the GPU, medium confidence"
    assert waits.figures[1].text == "of the critical path is GPU compute"
    trace = TraceBuilder()
    trace.call("cudaStreamCreateWithFlags", 0, 30_000)
    trace.launch("gemm", (30_001, 30_005), (30_010, 31_000), 1)
    once = summary_of(hg.critical_path(trace.graph(tmp_path)), "run")
    assert once.headline == "Whole trace: bound by one-time start-up"
    assert once.figures[1] == KeyFigure("97%", "of the critical path is one-time start-up")


@pytest.mark.slow
def test_a_file_of_several_ranks_is_named_and_not_its_folder(tmp_path: Path) -> None:
    documents = [read_document(path) for path in small_job(tmp_path)]
    (tmp_path / "one").mkdir()
    merged = write_merged(documents, labelled, tmp_path / "one" / "merged.json")
    assert main(["report", str(merged), "-o", str(tmp_path / "page.html")]) == 0
    assert "one/merged.json, 2 ranks" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_rank_without_events_is_named_and_the_others_get_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job").mkdir()
    small_job(tmp_path / "job")
    empty = {"distributedInfo": {"rank": 2, "world_size": 3}, "traceEvents": []}
    (tmp_path / "job" / "rank2.json").write_text(json.dumps(empty))
    assert main(["report", str(tmp_path / "job"), "-o", str(tmp_path / "page.html"), "--no-cache"]) == 0
    assert "rank 2: the trace has no events; it is left out of the report\n" in capsys.readouterr().err
    for command in ("overlap", "idle-time"):
        assert main([command, str(tmp_path / "job"), "--no-cache"]) == 0
        assert "rank 2: the trace has no GPU activity" in capsys.readouterr().out
