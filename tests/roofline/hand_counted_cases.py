"""All calls that were counted by hand: each theme's test file lists its own, as ``CASES``."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tests.roofline.recorded_inputs import Case

__all__ = ["CASES", "NEVER_TOLD"]

THEMES = [
    path
    for path in sorted(Path(__file__).parent.glob("*/test_*.py"))
    if Path(__file__).stem not in path.read_text(encoding="utf-8")  # who takes these cases has none
]
MODULES = [import_module(f"{__package__}.{path.parent.name}.{path.stem}") for path in THEMES]

CASES: list[Case] = [case for module in MODULES for case in getattr(module, "CASES", ())]
"""The cases of all themes, in the order of the files' names."""

NEVER_TOLD: set[str] = {name for module in MODULES for name in getattr(module, "NEVER", ())}
"""Operators of which no recording tells enough to be counted."""
