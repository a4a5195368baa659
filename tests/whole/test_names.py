"""One name is one thing: no two files and no two classes of the product are called alike."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = [path for package in ("hta_graph", "analyses") for path in sorted((ROOT / package).rglob("*.py"))]
HTA_NAMES = {"Trace"}
"""Classes whose name HTA chose."""


def test_no_two_files_have_one_name() -> None:
    counted = Counter(path.name for path in FILES if path.name not in ("__init__.py", "__main__.py"))
    assert [name for name, count in counted.items() if count > 1] == []


def test_no_two_classes_have_one_name() -> None:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in FILES]
    counted = Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert {name for name, count in counted.items() if count > 1} - HTA_NAMES == set()


def test_a_room_can_be_looked_through_at_a_glance() -> None:
    rooms = Counter(path.parent for path in FILES)
    assert {str(room.relative_to(ROOT)): count for room, count in rooms.items() if count > 25} == {}
