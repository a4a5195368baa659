"""Defects by name: read from their table, found in the source, made in a copy of it."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.mutations.operators import PLAIN, WITH_VALUE, Operator, rewritten

ROOT = Path(__file__).parents[2]
SOURCES = ("hta_graph", "analyses", "tests/support")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Defect:
    """The n-th place of an operator in a function, or in the value of a name, and the tests that are to notice."""

    function: str
    operator: str
    place: int
    value: str
    tests: tuple[str, ...]

    def __str__(self) -> str:
        value = f"={self.value}" if self.value else ""
        return f"{self.function}: {self.operator} {self.place}{value}"

    @property
    def path(self) -> Path:
        """The file of the function, relative to the repository."""
        folder, _, name = self.function.rpartition("/")
        return _found(f"{folder}/" * bool(folder) + name.partition(".")[0], SOURCES)

    @property
    def test_paths(self) -> list[str]:
        """The files of the tests, relative to the repository."""
        return [str(_found(test, ("tests", "hta_graph"))) for test in self.tests]

    def broken(self, source: str) -> str:
        """Return the file's text with the defect.

        Raises:
            LookupError: no such function, or not as many places, or nothing would change.
        """
        lines, node = source.splitlines(keepends=True), self._definition(source)
        first = min([node.lineno, *(item.lineno for item in getattr(node, "decorator_list", []))]) - 1
        text = textwrap.indent(self.mutant(source), " " * node.col_offset) + "\n"
        return "".join([*lines[:first], text, *lines[node.end_lineno :]])

    def mutant(self, source: str) -> str:
        """Return what becomes of the function, or of the value of the name."""
        whole = ast.unparse(self._definition(source))
        made = rewritten(ast.parse(whole).body[0], self._made_operator(), self.place)
        mutant = made and ast.unparse(made)
        if mutant is None or mutant == whole:
            raise LookupError(f"{self}: no such place")
        return mutant

    def _definition(self, source: str) -> ast.stmt:
        name = self.function.rpartition("/")[2].partition(".")[2]
        if node := _definitions_in(source).get(name):
            return node
        raise LookupError(f"{self}: no {name} in {self.path}")

    def apply(self, root: Path) -> None:
        """Make the defect in a copy of the repository."""
        path = root / self.path
        path.write_text(self.broken(path.read_text()))

    def _made_operator(self) -> Operator:
        if self.value:
            return WITH_VALUE[self.operator](ast.parse(self.value, mode="eval").body)
        return PLAIN[self.operator]


def defects(table: str) -> list[Defect]:
    """Read a table: a line with tests, then a line for each function, indented, with its defects."""
    found: list[Defect] = []
    tests: tuple[str, ...] = ()
    for line in filter(None, table.splitlines()):
        if not line.startswith(" "):
            tests = tuple(line.split())
            continue
        function, _, listed = line.strip().partition(": ")
        for one in listed.split("; "):
            operator, _, place = one.partition(" ")
            places, _, value = place.partition("=")
            begin, _, end = places.partition("-")
            found += [Defect(function, operator, at, value, tests) for at in range(int(begin), int(end or begin) + 1)]
    return found


@cache
def _found(name: str, folders: tuple[str, ...]) -> Path:
    """Find the only file of a name, which may begin with some of its folders.

    Raises:
        LookupError: there is no such file, or several.
    """
    found = [path for folder in folders for path in _files(folder) if f"/{path}".endswith(f"/{name}.py")]
    if len(found) != 1:
        raise LookupError(f"{name}: {', '.join(map(str, found)) or 'no such file'}")
    return found[0]


@cache
def _files(folder: str) -> list[Path]:
    return [path.relative_to(ROOT) for path in (ROOT / folder).rglob("*.py")]


@cache
def _definitions_in(source: str) -> dict[str, ast.stmt]:
    return dict(_definitions(ast.parse(source)))


def _definitions(tree: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[tuple[str, ast.stmt]]:
    for node in tree.body:
        if isinstance(node, FUNCTIONS):
            yield f"{prefix}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from _definitions(node, f"{prefix}{node.name}.")
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((f"{prefix}{item.id}", node) for item in ast.walk(targets[0]) if isinstance(item, ast.Name))
