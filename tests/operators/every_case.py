"""All calls that were counted by hand: each theme's test file lists its own, as ``CASES``."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tests.operators.recorded import Case

__all__ = ["CASES", "NEVER_TOLD"]

FOLDER = Path(__file__).parent / "models"


THEMES = [
    path.stem
    for path in sorted(FOLDER.glob("test_*.py"))
    if path.stem not in {"test_all_models", "test_hostile_inputs"}
]
MODULES = [import_module(f"{__package__}.models.{name}") for name in THEMES]

CASES: list[Case] = [case for module in MODULES for case in getattr(module, "CASES", ())]
"""The cases of all themes, in the order of the files' names."""

NEVER_TOLD: set[str] = {name for module in MODULES for name in getattr(module, "NEVER", ())}
"""Operators of which no recording tells enough to be counted."""
