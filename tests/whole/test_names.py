"""One name is one thing: no two files, classes and public functions of the product are called alike."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = [path for package in ("hta_graph", "analyses") for path in sorted((ROOT / package).rglob("*.py"))]
# Patterns, since trees of some hundred files take a second to make.
ALL = re.compile(r"^__all__ = [\[(](.*?)[\])]", re.MULTILINE | re.DOTALL)
FUNCTION = re.compile(r"^def (\w+)", re.MULTILINE)
CLASS = re.compile(r"^\s*class (\w+)\b.*:$", re.MULTILINE)
HTA_NAMES = {"Trace"}
"""Classes whose name HTA chose."""
MEANT_TWICE = {
    "answer": "each question has one",
    "figure": "each question has one",
    "whole": "a window of one rank, and the scope of a question that looks at it",
}
COMMANDS = ROOT / "analyses" / "command_line"
"""Functions here are called as their command, and so as what that asks."""


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def public_functions(path: Path) -> set[str]:
    """Return the functions that a file defines and names in its ``__all__``."""
    public = {name for names in ALL.findall(text_of(path)) for name in re.findall(r'"(\w+)"', names)}
    return public & set(FUNCTION.findall(text_of(path)))


def test_no_two_files_have_one_name() -> None:
    counted = Counter(path.name for path in FILES if path.name not in ("__init__.py", "__main__.py"))
    assert [name for name, count in counted.items() if count > 1] == []


def test_no_two_classes_have_one_name() -> None:
    counted = Counter(name for path in FILES for name in CLASS.findall(text_of(path)))
    assert counted
    assert {name for name, count in counted.items() if count > 1} - HTA_NAMES == set()


def test_no_two_public_functions_have_one_name() -> None:
    files = [path for path in FILES if not path.is_relative_to(COMMANDS)]
    counted = Counter(name for path in files for name in public_functions(path))
    assert {name for name, count in counted.items() if count > 1} == MEANT_TWICE.keys()


def test_a_room_can_be_looked_through_at_a_glance() -> None:
    rooms = Counter(path.parent for path in FILES)
    assert {str(room.relative_to(ROOT)): count for room, count in rooms.items() if count > 25} == {}
