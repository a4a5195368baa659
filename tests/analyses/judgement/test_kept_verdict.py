"""What is kept of a verdict is that of these sources: rules, their words and the judgement on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyses.advice import rules
from analyses.display import sentence_format
from analyses.judgement import kept_verdict, verdict
from analyses.source import window_report


@pytest.mark.parametrize("module", [rules, verdict, sentence_format, window_report], ids=lambda one: one.__name__)
def test_a_change_of_any_of_its_sources_makes_another_version(module: object) -> None:
    assert Path(str(vars(module)["__file__"])).is_relative_to(kept_verdict.SOURCES)
