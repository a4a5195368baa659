"""No two modules of the product import each other, and no public name is hidden by a package of its name."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

import analyses
import hta_graph as hg
from tests.import_graph import PACKAGES, circles, imports_of, module_name, product_files

pytestmark = pytest.mark.sources


def import_everything() -> None:
    """Import each module of the product, but for what needs a package that is not installed here."""
    for name in product_files():
        if not name.endswith(".__main__"):
            try:
                importlib.import_module(name)
            except ModuleNotFoundError as error:
                if str(error.name).partition(".")[0] in PACKAGES:
                    raise


def test_no_module_hides_a_public_name_when_everything_is_imported() -> None:
    import_everything()
    values = {
        f"{package.__name__}.{name}": getattr(package, name) for package in (hg, analyses) for name in package.__all__
    }
    modules = {name: value for name, value in values.items() if isinstance(value, ModuleType)}
    # A question is a module; any other one stands where a function or a class should.
    assert [name for name, module in modules.items() if not callable(getattr(module, "answer", None))] == []
    constants = {"hta_graph.DEFAULT_RULES"}
    assert [name for name in values.keys() - modules.keys() - constants if not callable(values[name])] == []


def test_no_modules_import_each_other() -> None:
    assert circles(imports_of(product_files())) == set()


def test_late_imports_and_those_for_types_make_circles(tmp_path: Path) -> None:
    texts = {
        "p/__init__.py": '"""Of which\nimport p.a\nfrom the top is no sentence of Python."""\n',
        "p/a.py": "def f():\n    from p import (\n        b,\n    )\n    return b\n",
        "p/b.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .c import x\n",
        "p/c.py": "import p.a\nx = 1\n",
        "p/d.py": "from p.c import x\n",
    }
    for name, text in texts.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    files = {module_name(tmp_path / name, tmp_path): tmp_path / name for name in texts}
    assert circles(imports_of(files)) == {frozenset({"p.a", "p.b", "p.c"})}
