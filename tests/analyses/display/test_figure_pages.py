"""Pages of figures: names are text wherever they stand, and nothing runs but the page's own script."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from analyses.display.charts import figure_html, horizontal_bars, new_figure, step_lines
from tests.support.command_line import run_command
from tests.support.deep_tests import deep
from tests.support.trace_builder import TraceBuilder

LINK = '<a href="http://evil.example/">gemm</a>'
NAMES = (
    LINK, "<b>bold</b>", "<img src=x onerror=window.pwned=1>", "&lt;a href=http://evil.example&gt;",
    "%{x}</script><script>document.title='PWNED'</script>", "\u202eturned",
)  # fmt: skip
POLICY = re.compile(r'Content-Security-Policy" content="([^"]*)"')


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    made = TraceBuilder()
    for at, name in enumerate(NAMES):
        made.launch(name, (90 * at, 90 * at + 2), (90 * at + 4, 90 * at + 64 - at), at + 1)
    return made.write(tmp_path / "trace.json")


def shown_texts(page: bytes) -> str:
    """Return what the page's script draws, with the characters that JSON escapes."""
    drawn = page.decode().rpartition("const made = ")[2]
    return re.sub(r"\\u003([ce])", lambda found: "<" if found[1] == "c" else ">", drawn)


@pytest.mark.parametrize("command", ["kernel-breakdown", *map(deep, ("launch-stats", "idle-time", "operator-kernels"))])
def test_a_name_in_a_figure_is_no_markup(
    capsys: pytest.CaptureFixture[str], trace: Path, tmp_path: Path, command: str
) -> None:
    assert run_command(capsys, command, trace, "-o", tmp_path / "a.html")[0] == 0
    shown = shown_texts((tmp_path / "a.html").read_bytes())
    shown = shown.partition("</script>")[0]
    assert set(re.findall(r"<(\w+)", shown)) <= {"br", "extra"}
    assert "\u202e" not in shown
    assert "\\u202e" not in shown
    if command == "kernel-breakdown":
        assert "&lt;a href=" in shown
        assert "&amp;lt;a href=" in shown


def test_texts_of_any_part_are_escaped_and_lines_stay() -> None:
    bars = horizontal_bars([LINK], np.array([1]), [f"one<br>{LINK}"], title=LINK, x=LINK)
    lines = step_lines({LINK: (np.arange(2), np.arange(2))}, title="t", x="x", y="y")
    other = new_figure(title="t")
    other.add_scatter(x=[LINK], y=[1], text=np.array([LINK], object), hovertemplate=f"{LINK}<extra></extra>")
    for made in (bars, lines, other):
        assert "<a " not in str(made.to_dict())
        assert "&lt;a href=" in str(made.to_dict())
    assert bars.to_dict()["data"][0]["customdata"][0].startswith("one<br>&lt;a")
    assert other.to_dict()["data"][0]["hovertemplate"].endswith("<extra></extra>")
    assert bars.data[0].customdata[0] == f"one<br>{LINK}"


def test_only_the_script_of_the_page_runs() -> None:
    page = figure_html(new_figure(title="t"), "t").decode()
    policy = POLICY.search(page)
    assert policy is not None
    _, _, script = page.partition("<script>")
    digest = base64.b64encode(hashlib.sha256(script.rpartition("</script>")[0].encode()).digest()).decode()
    assert policy[1] == (
        f"default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    )


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("chromium"), reason="needs chromium")
def test_a_browser_draws_names_as_text(capsys: pytest.CaptureFixture[str], trace: Path, tmp_path: Path) -> None:
    page = tmp_path / "a.html"
    assert run_command(capsys, "kernel-breakdown", trace, "-o", page)[0] == 0
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=4000", "--dump-dom"]
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    command = [str(shutil.which("chromium")), *options, profile, page.as_uri()]
    document = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    drawn = document.partition("<body>")[2].partition("<script>")[0]
    assert "svg-container" in drawn
    assert '&lt;a href="http://evil.example/"&gt;gemm&lt;/a&gt;' in drawn
    assert re.search(r"<a [^>]*evil|<img|font-weight: ?bold", drawn) is None
    assert "<title>PWNED" not in document
