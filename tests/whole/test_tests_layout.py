"""Tests stand in the rooms of what they test; what they share is in ``tests/support``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.import_graph import import_statements

pytestmark = pytest.mark.sources

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"


@cache
def imported_modules(path: Path) -> frozenset[str]:
    """Return the modules that a file imports, and what it takes from them, with their whole names."""
    return frozenset(_imports_in_order(path))


def _imports_in_order(path: Path) -> Iterator[str]:
    package = ".".join(path.relative_to(ROOT).parent.parts)
    for node in import_statements(path.read_text(encoding="utf-8")):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        else:
            above = package.rsplit(".", node.level - 1)[0] if node.level else ""
            module = ".".join(filter(None, (above, node.module)))
            yield from (module, *(f"{module}.{name.name}" for name in node.names))


def is_of_tests(module: str) -> bool:
    """Say whether a module holds tests or their fixtures, so that nothing else may need it."""
    return module.startswith("tests.") and module.rpartition(".")[2].startswith(("test_", "conftest"))


@pytest.mark.slow
def test_no_module_imports_a_module_of_tests() -> None:
    found = {path.relative_to(ROOT): set(filter(is_of_tests, imported_modules(path))) for path in TESTS.rglob("*.py")}
    modules = {".".join(path.with_suffix("").parts) for path in found}
    assert {str(path): sorted(names & modules) for path, names in found.items() if names & modules} == {}


def test_support_is_used_and_needs_no_tests() -> None:
    used = {module for path in TESTS.rglob("*.py") for module in imported_modules(path)}
    helpers = {f"tests.support.{path.stem}" for path in (TESTS / "support").glob("*.py") if path.stem != "__init__"}
    assert helpers - used == set()


# -- tests have the rooms of the product ------------------------------------------------------------------------------


def rooms() -> dict[Path, str]:
    """Return the folders of the product as folders of ``tests``, with the package that each is."""
    folders = {
        path.parent.relative_to(ROOT) for name in ("hta_graph", "analyses") for path in (ROOT / name).rglob("*.py")
    }
    return {
        Path(*folder.parts[1:]) if folder.parts[0] == "hta_graph" else folder: ".".join(folder.parts)
        for folder in folders
    }


ROOMS = rooms()
FILES = sorted(path.relative_to(TESTS) for path in TESTS.rglob("test_*.py"))
OF_ALL_ROOMS = {Path("whole"), Path("simulator"), Path("tool_comparison")}


def test_tests_stand_in_rooms_of_the_product() -> None:
    assert {str(path.parent) for path in FILES if path.parent not in ROOMS.keys() | OF_ALL_ROOMS} == set()


def test_every_innermost_room_has_tests() -> None:
    innermost = ROOMS.keys() - {above for room in ROOMS for above in room.parents}
    assert {str(room) for room in innermost - {path.parent for path in FILES}} == set()


def test_what_tests_one_room_stands_in_it() -> None:
    """A test that asks one inner room alone of all that its folder stands for belongs into that inner room."""
    too_far_out = {}
    for path in FILES:
        package = ROOMS.get(path.parent)
        inner = [name for room, name in ROOMS.items() if room.parent == path.parent and room != path.parent]
        asked = {module for module in imported_modules(TESTS / path) if package and module.startswith(f"{package}.")}
        alone = [name for name in inner if asked and all(f"{module}.".startswith(f"{name}.") for module in asked)]
        if alone:
            too_far_out[str(path)] = alone
    assert too_far_out == {}
