"""What tests share is in ``tests/support``: no test imports another test."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"


def imported_modules(path: Path) -> Iterator[str]:
    """Yield the modules that a file imports, and what it takes from them, with their whole names."""
    package = ".".join(path.relative_to(ROOT).parent.parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.rsplit(".", node.level - 1)[0] if node.level else ""
            module = ".".join(filter(None, (above, node.module)))
            yield from (module, *(f"{module}.{name.name}" for name in node.names))


def is_of_tests(module: str) -> bool:
    """Say whether a module holds tests or their fixtures, so that nothing else may need it."""
    return module.startswith("tests.") and module.rpartition(".")[2].startswith(("test_", "conftest"))


def test_no_module_imports_a_module_of_tests() -> None:
    found = {path.relative_to(ROOT): set(filter(is_of_tests, imported_modules(path))) for path in TESTS.rglob("*.py")}
    modules = {".".join(path.with_suffix("").parts) for path in found}
    assert {str(path): sorted(names & modules) for path, names in found.items() if names & modules} == {}


def test_support_is_used_and_needs_no_tests() -> None:
    used = {module for path in TESTS.rglob("*.py") for module in imported_modules(path)}
    helpers = {f"tests.support.{path.stem}" for path in (TESTS / "support").glob("*.py") if path.stem != "__init__"}
    assert helpers - used == set()


def test_tests_stand_in_the_rooms_of_what_they_test() -> None:
    rooms = {
        path.parent.relative_to(ROOT) for name in ("hta_graph", "analyses") for path in (ROOT / name).rglob("*.py")
    }
    rooms |= {Path(*room.parts[1:]) for room in rooms if room.parts[0] == "hta_graph"}
    own = {Path(), Path("whole"), Path("simulator"), Path("export"), Path("graph")}
    stray = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")} - rooms - own
    assert stray == set()
