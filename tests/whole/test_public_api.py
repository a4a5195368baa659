"""What is public: it is stated in the reference, has its docstring and its types, and is all that examples use."""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pytest

import analyses
import hta_graph as hg
from tests.generate.reference import names_in
from tests.support.manual_pages import DOCS, PIECES, ROOT, blocks, pages, text_of

REFERENCE = "\n".join(text_of(page) for page in sorted((DOCS / "reference").glob("*.md")))
LISTED = names_in(REFERENCE)
PACKAGES = (hg, analyses)
BESIDE = ("analyses.schemas", "analyses.torch")
"""Modules whose ``__all__`` is public beside that of the packages."""
INSIDE = {
    # Changes of one's own edit the draft of a replay, whose shape no release promises; the reference says so.
    "examples/what_should_i_optimise_first.ipynb": {"hta_graph.what_if.modified_window", "hta_graph.model"},
    # It runs the commands that it is about in its own process.
    "examples/export_for_a_simulator.py": {"analyses.cli.main"},
}
"""The places that take from the inside, and why."""


def public_names() -> Iterator[tuple[str, Any]]:
    """Yield every public name with what it stands for: of a question's module what its ``__all__`` lists."""
    for package in PACKAGES:
        for name in package.__all__:
            found = getattr(package, name)
            inside = found.__all__ if isinstance(found, ModuleType) else None
            yield from [(f"{package.__name__}.{name}", found)] if inside is None else []
            yield from [(f"{package.__name__}.{name}.{part}", getattr(found, part)) for part in inside or ()]
    for module in map(import_module, filter(find_spec, BESIDE)):
        yield from [(f"{module.__name__}.{name}", getattr(module, name)) for name in module.__all__]


PUBLIC = dict(public_names())
every_package = pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)


def returned_classes() -> set[str]:
    """Return the classes of the reference that one gets and does not import: they are named by their modules."""
    return {name for name in LISTED if name not in PUBLIC}


# -- the reference ----------------------------------------------------------------------------------------------------


def test_the_reference_has_every_public_name_once() -> None:
    named = LISTED
    assert [name for name in PUBLIC if named.count(name) != 1] == []


def test_what_else_the_reference_has_is_a_class_that_public_names_give_back() -> None:
    given = "\n".join(gives_back(found) for found in PUBLIC.values())
    for name in returned_classes():
        module, _, last = name.rpartition(".")
        shown = getattr(import_module(module), last)
        assert inspect.isclass(shown)
        assert issubclass(shown, hg.HtaGraphError) or re.search(rf"\b{last}\b", given), (
            f"{name} is given back by no public name"
        )


def test_what_public_functions_give_back_is_in_the_reference() -> None:
    given = {
        word for found in PUBLIC.values() if inspect.isfunction(found) for word in re.findall(r"\w+", gives_back(found))
    }
    ours = {word for word in given if is_class_of_ours(word)}
    shown = {name.rpartition(".")[2] for name in LISTED}
    assert ours - shown == set()


def is_class_of_ours(word: str) -> bool:
    modules = [vars(module) for name, module in list(sys.modules.items()) if name.startswith(("hta_graph", "analyses"))]
    found = (module.get(word) for module in modules)
    return any(inspect.isclass(value) and value.__module__.startswith(("hta_graph", "analyses")) for value in found)


def gives_back(found: Any) -> str:
    """Return what stands behind the arrow of a function, or of all public functions and attributes of a class.

    Of a table of objects, what these are.
    """
    if isinstance(found, dict):
        return " ".join({type(value).__name__ for value in found.values()})
    if not inspect.isclass(found):
        return str(getattr(found, "__annotations__", {}).get("return", ""))
    parts = [getattr(part, "fget", None) or getattr(part, "func", part) for _, part in public_attributes(found)]
    own = [str(text) for holder in (found, found.__init__) for text in inspect.get_annotations(holder).values()]
    return "\n".join([*own, *(str(getattr(part, "__annotations__", {}).get("return", "")) for part in parts)])


def public_attributes(found: type) -> list[tuple[str, Any]]:
    """Return what a class of ours defines, without what it has from elsewhere."""
    return [
        (name, part)
        for owner in found.__mro__
        if owner.__module__.startswith(("hta_graph", "analyses"))
        for name, part in vars(owner).items()
        if not name.startswith("_")
    ]


# -- docstrings and types ---------------------------------------------------------------------------------------------


def test_every_public_name_has_a_docstring_of_its_own() -> None:
    said = {
        name: found.__doc__ for name, found in PUBLIC.items() if inspect.isclass(found) or inspect.isfunction(found)
    }
    assert [name for name, text in said.items() if not text] == []
    attributes = [
        (f"{name}.{part}", inspect.getdoc(getattr(value, "func", value)))
        for name, found in PUBLIC.items()
        if inspect.isclass(found)
        for part, value in public_attributes(found)
        if callable(value) or isinstance(value, property) or hasattr(value, "func")
    ]
    assert [name for name, text in attributes if not text] == []


def test_every_public_function_is_annotated() -> None:
    functions = {name: found for name, found in PUBLIC.items() if inspect.isfunction(found)}
    for name, found in PUBLIC.items():
        if inspect.isclass(found):
            functions |= {
                f"{name}.{part}": value for part, value in public_attributes(found) if inspect.isfunction(value)
            }
    bare = {
        name: [part.name for part in inspect.signature(found).parameters.values() if is_bare(part)]
        for name, found in functions.items()
    }
    assert {name: parts for name, parts in bare.items() if parts} == {}
    assert [name for name, found in functions.items() if "return" not in found.__annotations__] == []


def is_bare(parameter: inspect.Parameter) -> bool:
    return parameter.annotation is inspect.Parameter.empty and parameter.name not in ("self", "cls")


@every_package
def test_dir_agrees(package: ModuleType) -> None:
    assert set(dir(package)) - {"__version__"} == set(package.__all__)
    assert len(set(package.__all__)) == len(package.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = package.nothing


# -- what examples import ---------------------------------------------------------------------------------------------


def python_texts() -> Iterator[tuple[str, str]]:
    """Yield the Python of the front page, the manual and the examples, with where it stands."""
    for page in [*(page for page in pages() if page.parent != PIECES), *sorted((ROOT / "examples").glob("*.md"))]:
        texts = [block.text for block in blocks(page) if block.language == "python"]
        yield str(page.relative_to(ROOT)), "\n".join(texts)
    for path in sorted((ROOT / "examples").glob("*.py")):
        yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "examples").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        yield str(path.relative_to(ROOT)), "\n".join(code)


def private_imports(text: str) -> set[str]:
    r"""Return what a text takes from the packages that is not public.

    >>> sorted(private_imports("import hta_graph.graph\nfrom hta_graph.model import A\nfrom analyses import overlap"))
    ['hta_graph.graph', 'hta_graph.model']
    """
    found = set()
    for node in ast.walk(ast.parse(text)):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        found |= {name for name in modules if name.startswith(("hta_graph.", "analyses."))} - set(BESIDE)
        if isinstance(node, ast.ImportFrom) and node.module in ("hta_graph", "analyses"):
            public = {*import_module(node.module).__all__, *(name.rpartition(".")[2] for name in BESIDE), "__version__"}
            found |= {f"{node.module}.{alias.name}" for alias in node.names if alias.name not in public}
    return found


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("place", "text"), list(python_texts()), ids=[place for place, _ in python_texts()])
def test_only_public_names_are_imported(place: str, text: str) -> None:
    assert private_imports(text) - INSIDE.get(place, set()) == set()
