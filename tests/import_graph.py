"""Which module of the product imports which, and the circles among them: late imports and those for types included.

``python -m tests.import_graph`` prints the circles, one a line.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import networkx as nx

ROOT = Path(__file__).parents[1]
PACKAGES = ("hta_graph", "analyses")

IMPORT = re.compile(r"^[ \t]*((?:from|import) [^(\n]*(?:\([^)]*\))?)", re.MULTILINE)

Imports = dict[str, set[str]]
"""Module → the modules that it imports."""


@cache
def product_files() -> dict[str, Path]:
    """Return each module of the product by its whole name; a package's is that of its ``__init__.py``."""
    return {module_name(path, ROOT): path for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py"))}


def module_name(path: Path, root: Path) -> str:
    """Return the whole name of the module that a file below a folder is."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(files: Mapping[str, Path]) -> Imports:
    """Return what each of these modules imports of the others, wherever in the file it does so.

    ``from package import name`` imports the module ``package.name`` if there is one, and else the package.
    """
    return {name: set(_imported(name, path, files)) - {name} for name, path in files.items()}


def _imported(name: str, path: Path, files: Mapping[str, Path]) -> Iterator[str]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in import_statements(path.read_text(encoding="utf-8")):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in files)
        else:
            above = package.rsplit(".", node.level - 1)[0] if node.level else ""
            module = ".".join(filter(None, (above, node.module)))
            for alias in node.names:
                yield from [found for found in (f"{module}.{alias.name}", module) if found in files][:1]


def import_statements(text: str) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield a file's imports; only lines that look like one are parsed, since trees of all files take a second."""
    for found in IMPORT.finditer(text):
        try:
            statements = ast.parse(found[1]).body
        except SyntaxError:  # a sentence of a docstring
            continue
        yield from (node for node in statements if isinstance(node, ast.Import | ast.ImportFrom))


def circles(imports: Imports) -> set[frozenset[str]]:
    """Return the sets of modules that import each other, directly or by way of others.

    >>> circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == {frozenset("bc")}
    True
    """
    graph = nx.DiGraph([(name, other) for name, others in imports.items() for other in others])
    return {frozenset(found) for found in nx.strongly_connected_components(graph) if len(found) > 1}


def main() -> None:
    """Print the circles, and fail if there is one."""
    found = sorted(" ↔ ".join(sorted(circle)) for circle in circles(imports_of(product_files())))
    sys.stdout.write("".join(f"{line}\n" for line in found))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
