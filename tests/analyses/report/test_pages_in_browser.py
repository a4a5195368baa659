"""Pages in a browser: what the script draws is what the columns say; links, steps, tables, no script."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hta_graph as hg
from analyses.cli.main import main
from analyses.report.timeline import timeline_page
from hta_graph.paths.step_table import step_rows
from tests.support.large_jobs import generated_job
from tests.support.samples import SAMPLES
from tests.support.timeline_data import DrawnBar, page_data
from tests.support.trace_builder import TraceBuilder

SCRIPT = SAMPLES.parent / "report" / "templates" / "timeline_data.js"
FADED_LIGHTEST = 380
"""A background whose parts sum to more is light."""

pytestmark = pytest.mark.slow


def sync_api() -> Any:
    """Import playwright, where it is installed."""
    return pytest.importorskip("playwright.sync_api", reason="playwright is not installed")


def status_other_than(tab: Any, text: str) -> None:
    """Wait until the timeline says something else."""
    sync_api().expect(tab.locator(".status")).not_to_have_text(text)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if not shutil.which("chromium"):
        pytest.skip("a page in a browser needs chromium")
    with sync_api().sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write reports of four ranks and of many, a report and a timeline of a trace with steps."""
    folder = tmp_path_factory.mktemp("pages")
    assert main(["report", str(SAMPLES / "four_ranks"), "-o", str(folder / "ranks.html")]) == 0
    assert main(["report", str(SAMPLES / "sample_trace.json.gz"), "-o", str(folder / "steps.html")]) == 0
    assert main(["report", str(SAMPLES / "serving.json.gz"), "-o", str(folder / "serving.html")]) == 0
    many = generated_job(folder / "job", ranks=40, collectives=4, rows=60)
    assert main(["report", str(many), "--summaries", "always", "-o", str(folder / "many.html")]) == 0
    graph = hg.build_graph(hg.read_trace(SAMPLES / "sample_trace.json.gz"))
    page = timeline_page(hg.critical_path(graph, hg.step(2)), step_rows(graph))
    (folder / "timeline.html").write_bytes(page.html())
    return folder


def opened(browser: Any, page: Path, *, fragment: str = "", **options: Any) -> tuple[Any, list[str]]:
    """Open a page without a network and wait until it is drawn; return it with what went wrong on it."""
    options = {"viewport": {"width": 1280, "height": 900}, "offline": True, **options}
    tab = browser.new_context(**options).new_page()
    faults: list[str] = []
    tab.on("pageerror", lambda error: faults.append(str(error)))
    tab.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    tab.goto(page.as_uri() + fragment)
    if options.get("java_script_enabled", True):
        tab.locator("html[data-drawn]").wait_for(state="attached")
    return tab, faults


@pytest.mark.parametrize("name", ["ranks", "many", "steps", "serving", "timeline"])
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_opens(pages: Path, browser: Any, name: str, scheme: str, width: int) -> None:
    tab, faults = opened(browser, pages / f"{name}.html", viewport={"width": width, "height": 900}, color_scheme=scheme)
    assert not faults
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    light = sum(map(int, re.findall(r"\d+", tab.evaluate("getComputedStyle(document.body).backgroundColor"))[:3]))
    assert (light > FADED_LIGHTEST) == (scheme == "light")
    assert re.match(r"1 px = \d", tab.locator(".status").inner_text())
    assert tab.evaluate("""() => {
        const canvas = document.querySelector('canvas');
        const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        return data.some((value) => value > 0);
    }""")
    tab.context.close()


def test_the_picture_of_waiting_is_loaded_and_few_rows_more_are_not_hidden(pages: Path, browser: Any) -> None:
    tab, _ = opened(browser, pages / "many.html")
    source = tab.locator("svg image").get_attribute("href")
    size = tab.evaluate(
        """async (source) => {
            const image = Object.assign(new Image(), { src: source });
            await image.decode();
            return [image.width, image.height];
        }""",
        source,
    )
    assert size == [200, 40]
    ranks = tab.locator("h3:has-text('Waiting caused by each rank') + .scroll tbody tr:visible td:first-child")
    assert ranks.all_inner_texts()[-2:] == ["median", "p95"]
    tab.context.close()


def test_a_page_is_drawn_within_a_second(pages: Path, browser: Any) -> None:
    times = []
    for _ in range(3):
        tab, _ = opened(browser, pages / "ranks.html")
        times.append(int(tab.evaluate("document.documentElement.dataset.drawn")))
        tab.context.close()
    assert min(times) < 1000


def test_a_link_leads_to_its_place(pages: Path, browser: Any) -> None:
    tab, faults = opened(browser, pages / "steps.html")
    before = tab.locator(".status").inner_text()
    tab.locator('a[href*="row="]').first.click()
    status_other_than(tab, before)
    assert "row=" in tab.evaluate("location.hash")
    assert tab.evaluate("document.activeElement.tagName") == "CANVAS"
    assert not faults
    tab.context.close()


def test_an_address_opens_at_its_place_in_either_page(pages: Path, browser: Any) -> None:
    data = page_data((pages / "timeline.html").read_bytes())
    start, end = (int(data.head["base"]) + at for at in data.head["windows"][2])
    for name in ("steps", "timeline"):
        tab, _ = opened(browser, pages / f"{name}.html", fragment=f"#t={start},{end}")
        assert tab.evaluate("document.querySelector('#timeline-part select').selectedIndex") == 2
        assert "Step 3:" in tab.locator(".step:visible").inner_text()
        tab.context.close()


def test_choosing_a_step_shows_its_summary(pages: Path, browser: Any) -> None:
    tab, _ = opened(browser, pages / "timeline.html")
    assert "Step 2:" in tab.locator(".step:visible").inner_text()
    tab.locator("#timeline-part select").select_option("ProfilerStep#1")
    assert "Step 1:" in tab.locator(".step:visible").inner_text()
    assert tab.locator(".step:visible").count() == 1
    tab.context.close()


def test_keys_buttons_and_the_wheel_zoom(pages: Path, browser: Any) -> None:
    tab, _ = opened(browser, pages / "timeline.html")
    seen = [tab.locator(".status").inner_text()]
    for act in (
        lambda: tab.locator("canvas").press("+"),
        lambda: tab.get_by_label("Zoom in").click(),
        lambda: (tab.locator("canvas").hover(), tab.keyboard.down("Control"), tab.mouse.wheel(0, -200)),
    ):
        act()
        status_other_than(tab, seen[-1])
        seen.append(tab.locator(".status").inner_text())
    tab.keyboard.up("Control")
    tab.locator("canvas").press("Home")
    sync_api().expect(tab.locator(".status")).to_have_text(seen[0])
    tab.context.close()


def test_pointing_at_a_bar_tells_its_name(pages: Path, browser: Any) -> None:
    tab, _ = opened(browser, pages / "timeline.html")
    # The strip of classes: below the axis and its label.
    tab.locator("canvas").hover(position={"x": 300, "y": 52})
    assert re.search(r"at .*, duration .*|events within", tab.locator(".tip").inner_text())
    tab.context.close()


def test_tables_sort_search_and_filter(pages: Path, browser: Any) -> None:
    tab, _ = opened(browser, pages / "steps.html")
    table = tab.locator("h3:has-text('Largest items on the critical path') ~ .scroll table").first
    cells = table.locator("tbody tr:visible td:first-child")
    usual = cells.all_inner_texts()
    assert len(usual) == 10
    table.locator("th button", has_text="name").click()
    assert cells.all_inner_texts() == sorted(cells.all_inner_texts(), key=str.lower) != usual
    table.locator("th button", has_text="time").click()
    assert cells.all_inner_texts() == usual
    tools = tab.locator("h3:has-text('Largest items on the critical path') + .tools").first
    tools.locator("input").fill("SGEMM")
    assert cells.all_inner_texts()
    assert all("sgemm" in name for name in cells.all_inner_texts())
    tools.locator("input").fill("")
    tools.locator("select").first.select_option("GPU compute")
    assert 0 < len(cells.all_inner_texts()) < len(usual) + 1
    tools.locator("select").first.select_option("")
    tools.locator("button").click()
    assert len(cells.all_inner_texts()) > 10
    tab.context.close()


def test_the_first_screen_holds_headline_actions_picture_and_navigation(pages: Path, browser: Any) -> None:
    for name in ("ranks", "steps", "many"):
        tab, _ = opened(browser, pages / f"{name}.html", viewport={"width": 1400, "height": 900})
        ends = [tab.locator(part).bounding_box() for part in ("h1", ".cards", ".path-lanes svg", "nav", "#page-search")]
        assert all(box["y"] + box["height"] <= 900 for box in ends)
        assert [box["y"] for box in ends] == sorted(box["y"] for box in ends)
        assert 1 <= tab.locator(".cards > li").count() <= 3
        assert not tab.locator(".cards details p").first.is_visible()
        tab.locator(".cards summary").first.click()
        assert tab.locator(".cards details p").first.is_visible()
        tab.context.close()


def test_full_names_are_found_where_short_ones_are_shown(pages: Path, browser: Any) -> None:
    tab, _ = opened(browser, pages / "steps.html")
    tab.keyboard.press("/")
    assert tab.evaluate("document.activeElement.id") == "page-search"
    tab.locator("#page-search").fill("ncclDevKernel_AllReduce")
    found = tab.locator("table.data tbody tr:visible")
    assert found.count() >= 2
    assert re.fullmatch(r"\d+ rows in \d+ tables", tab.locator("#page-found").inner_text())
    # No cell shows the name that was searched for.
    assert not any("nccldev" in row.lower() for row in found.all_inner_texts())
    assert any("AllReduce" in row for row in found.all_inner_texts())
    assert tab.locator("main section:visible").count() < tab.locator("main section").count()
    tab.locator("#page-search").fill("")
    assert tab.locator("main section:visible").count() == tab.locator("main section").count()
    tab.context.close()


@pytest.mark.parametrize("name", ["ranks", "many", "steps", "serving", "timeline"])
def test_on_a_phone_nothing_overlaps_or_leaves_the_screen(pages: Path, browser: Any, name: str) -> None:
    tab, _ = opened(browser, pages / f"{name}.html", viewport={"width": 400, "height": 900})
    assert tab.evaluate("document.documentElement.scrollWidth") <= 400
    outside = tab.evaluate("""() => [...document.querySelectorAll('body *')].filter((one) =>
        !one.closest('.scroll, .ticks, .curves svg, details:not([open])')
        && one.getBoundingClientRect().right > 401).length""")
    assert outside == 0
    # The chart is cut behind its curves, where the labels of a wide screen are.
    cut = """() => [...document.querySelectorAll('.curves text, .curves circle')].filter((one) => {
        const box = one.getBoundingClientRect();
        return box.width && (box.left < 0 || box.right > 401);
    }).length"""
    assert tab.evaluate(cut) == 0
    assert bool(tab.locator(".curve-legend li:visible").count()) == (name in ("ranks", "steps", "serving"))
    overlapping = tab.evaluate("""() => {
        const lines = [...document.querySelectorAll('h1, h2, h3, p, nav a, .figures dd, .figures dt, .legend li')]
            .filter((one) => one.offsetParent && !one.closest('.scroll, details:not([open]) > :not(summary)'))
            .flatMap((one) => [...one.getClientRects()].map((box) => [box, one]));
        return lines.filter(([a, one], at) => lines.slice(at + 1).some(([b, other]) => !one.contains(other)
            && a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1)).length;
    }""")
    assert overlapping == 0
    tab.context.close()


def test_a_box_fades_where_more_columns_follow(pages: Path, browser: Any) -> None:
    tab, _ = opened(browser, pages / "ranks.html", viewport={"width": 400, "height": 900})
    box = tab.locator(".scroll.more").first
    assert "gradient" in box.evaluate("(one) => getComputedStyle(one).maskImage")
    box.evaluate("(one) => { window.box = one; one.scrollLeft = one.scrollWidth; }")
    for _ in range(100):  # the page's policy lets no expression of a test wait
        if not tab.evaluate("() => window.box.classList.contains('more')"):
            break
        tab.wait_for_timeout(20)
    hidden = """() => [...document.querySelectorAll('.scroll')].filter((one) =>
        (one.scrollWidth - one.clientWidth - one.scrollLeft > 1) !== one.classList.contains('more')).length"""
    assert tab.evaluate(hidden) == 0
    assert not tab.locator("td.bar-cell:visible").count()
    tab.context.close()


def test_without_scripts_all_but_the_timeline_is_there(pages: Path, browser: Any) -> None:
    tab, _ = opened(browser, pages / "ranks.html", java_script_enabled=False)
    assert "JavaScript, which is disabled" in tab.locator("#timeline-part").inner_text()
    assert tab.locator("table.data tbody tr:visible").count() > 60
    tab.context.close()


def test_names_from_a_trace_run_nothing(tmp_path: Path, browser: Any) -> None:
    built = TraceBuilder()
    built.op("</script><script>document.title='taken'</script>", 0, 50)
    built.launch("<img src=x onerror=\"document.title='taken'\">", (1, 2), (3, 40), 1)
    graph = built.graph(tmp_path)
    (tmp_path / "p.html").write_bytes(timeline_page(hg.critical_path(graph, hg.whole())).html())
    tab, faults = opened(browser, tmp_path / "p.html")
    tab.locator("canvas").hover(position={"x": 300, "y": 52})
    assert "<" in tab.locator(".tip b").inner_text()
    assert tab.title() == "Timeline of whole trace"
    assert not faults
    tab.context.close()


# -- the arithmetic of pixels, in the page's own script ----------------------------------------------------------------


def majority_of(bars: list[DrawnBar], low: float, high: float) -> Counter[str]:
    """Return the time of each group in a stretch, row by row."""
    found: Counter[str] = Counter()
    for bar in bars:
        shared = min(bar.end, high) - max(bar.start, low)
        if shared > 0:
            found[bar.group] += shared * bar.busy / (bar.end - bar.start)
    return found


@pytest.mark.parametrize("limit", [320_000, 60])
def test_each_pixel_has_the_colour_of_most_of_its_time(tmp_path: Path, limit: int) -> None:
    if not shutil.which("node"):
        pytest.skip("the page's script alone needs node")
    built = TraceBuilder()
    for number in range(60):
        at = 10.0 * number
        built.launch(
            "ncclKernel_AllReduce" if number % 7 == 0 else "gemm",
            (at, at + 1),
            (at + 2, at + 2 + number % 9),
            number + 1,
        )
    page = timeline_page(hg.critical_path(built.graph(tmp_path), hg.whole()), limit=limit).html()
    data = page_data(page)
    view = {"from": -50.0, "perPixel": data.head["length"] / 37, "width": 40, "wide": 4}
    found = pixels_by_node(page, view)
    for track in {bar.track for bar in data.bars}:
        own = [bar for bar in data.bars if bar.track == track]
        for x in range(view["width"]):
            low = view["from"] + x * view["perPixel"]
            times = majority_of(own, low, low + view["perPixel"])
            assert found[track]["total"][x] == pytest.approx(times.total(), abs=1e-3)
            drawn = found[track]["groups"][x]
            if times:
                assert times[drawn] == pytest.approx(max(times.values()), abs=1e-3)


def pixels_by_node(page: bytes, view: dict[str, Any]) -> list[dict[str, Any]]:
    """Ask the page's own script for the colours of each track."""
    packed = re.search(rb'id="timeline-data">([^<]*)<', page)
    assert packed
    program = f"""{SCRIPT.read_text()}
    const pixels = (scene, track) => {{
        const found = majorityPerPixel(track, {json.dumps(view)});
        const groups = [...found.group].map((group) => (group < 0 ? null : scene.groups[group][0]));
        return {{ groups, total: [...found.total] }};
    }};
    unpackScene({json.dumps(packed[1].decode())}).then((scene) =>
        console.log(JSON.stringify(scene.tracks.map((track) => pixels(scene, track)))));"""
    done = subprocess.run(["node", "-e", program], check=True, capture_output=True, text=True)
    pixels: list[dict[str, Any]] = json.loads(done.stdout)
    return pixels
