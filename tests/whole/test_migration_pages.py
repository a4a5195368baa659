"""The pages for users of other tools name what there is here, all of it, and nothing that is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import analyses
from analyses import LabeledTrace, MemoryAnalysis, Trace, TraceAnalysis, TraceDiff
from analyses.advice.rules import ADVICE_RULES

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "coming_from"
PAGES = sorted(FOLDER.glob("*.md"))
HTA = (FOLDER / "hta.md").read_text(encoding="utf-8")
NAMED = {word for span in re.findall(r"`([^`\n]+)`", HTA) for word in re.findall(r"\w+", span)}
"""All words that the page for users of HTA writes as code."""
OURS_ALONE = {"origin_ns", "read_only", "scopes", "scopes_of", "timeline"}
"""What these objects have besides and no user of HTA looks for."""
SECTIONS = ("What is missing here", "What is only here", "Using both", "Example")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("asked", [TraceAnalysis, TraceDiff, LabeledTrace, MemoryAnalysis, Trace])
def test_every_public_method_of_htas_classes_is_on_its_page(asked: type) -> None:
    methods = [name for name in dir(asked) if not name.startswith("_") and name not in OURS_ALONE]
    assert methods
    assert [name for name in methods if name not in NAMED] == []


def test_every_name_of_analyses_that_comes_from_hta_is_on_its_page() -> None:
    homes = {name: getattr(getattr(analyses, name), "__module__", "") for name in analyses.__all__}
    of_hta = [name for name, home in homes.items() if home.startswith("analyses.hta.")]
    assert "TraceAnalysis" in of_hta
    assert [name for name in of_hta if name not in NAMED] == []


def test_every_method_that_the_page_gives_to_traceanalysis_exists() -> None:
    table = HTA.split("### `TraceAnalysis`")[1].split("### The rest")[0]
    methods = re.findall(r"`(get_\w+|generate_\w+|critical_path_\w+|overlay_\w+)`", table)
    known = (TraceAnalysis, Trace)
    assert len(methods) > 20
    assert [name for name in methods if not any(hasattr(asked, name) for asked in known)] == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "index.md"], ids=lambda page: page.stem)
def test_a_page_answers_what_one_asks_who_comes_from_elsewhere(page: Path) -> None:
    headings = re.findall(r"^## (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == "Equivalents"
    assert [wanted for wanted in SECTIONS if wanted not in headings] == []


def test_advice_that_a_page_names_is_given() -> None:
    text = (FOLDER / "nsight_systems.md").read_text(encoding="utf-8")
    named = {rule for part in re.findall(r"advice (`[^|;]*)", text) for rule in re.findall(r"`(\w+)`", part)}
    assert named
    assert named <= {rule.name for rule in ADVICE_RULES}


def test_the_index_names_every_page() -> None:
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    assert [page.name for page in PAGES if page.name != "index.md" and f"]({page.name})" not in index] == []
