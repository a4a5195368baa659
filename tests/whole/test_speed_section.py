"""The benchmark writes the manual's figures of speed itself, between marks that the page has."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from tests.benchmarks.hta_comparison import HTA, HTA_ALONE, HTA_LOAD, IN_PROCESS, LOADS, OURS, Measured
from tests.benchmarks.manual_speed_section import BEGIN, END, speed_section, write_speed_section

PAGE = Path(__file__).parents[2] / "docs" / "evidence" / "index.md"
SECONDS = {LOADS: 2.0, OURS: 1.0, HTA: 19.0, HTA_LOAD: 6.0, HTA_ALONE: 8.0, IN_PROCESS: 0.1}
SIZES = {"text_bytes": 54_000_000, "events": 151_000, "edges": 200_000, "edge_bytes": 2_000_000}


def measured(name: str) -> Measured:
    times = {row: [(seconds, seconds)] * 3 for row, seconds in SECONDS.items()}
    versions = {"versions": {"traceinsight": "0.6.1", "pandas": "2.3.3"}}
    return Measured(name, times, {OURS: 300_000_000, LOADS: 500_000_000}, SIZES | versions)


def test_ratios_of_the_measurements_are_what_the_section_shows() -> None:
    text = "\n".join(speed_section([measured("one")], [measured("one"), measured("one × 8")], 3, date(2026, 11, 24)))
    assert "| | `one`, 54 MB, 151 k events |" in text
    assert "| speed relative to `json.loads` alone | 2.0 × |" in text
    assert "| speed relative to HTA, start to exit | 19 × |" in text
    assert "| speed relative to HTA's load and path without its start | 14 × |" in text
    assert "| graph and path alone, speed relative to HTA's | 80 × |" in text
    assert "| peak memory relative to `json.loads` | 0.6 × |" in text
    assert "`one × 8`: 0.1 GB and 0.2 million events take 1 s and 0.3 GB." in text
    assert "An edge takes 10 bytes." in text
    assert "2026-11-24" in text


def test_only_what_stands_between_the_marks_is_renewed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    write_speed_section(page, ["new", "figures"])
    assert page.read_text(encoding="utf-8") == f"before\n{BEGIN}\nnew\nfigures\n{END}\nafter\n"


def test_a_page_without_marks_is_refused_and_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n", encoding="utf-8")
    with pytest.raises(ValueError, match="speed"):
        write_speed_section(page, ["new"])
    assert page.read_text(encoding="utf-8") == "before\n"


def test_the_manual_has_the_marks() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.index(f"{BEGIN}\n") < text.index(END)
