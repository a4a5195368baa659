"""No two modules import each other, no public name is hidden or twice, and a command loads what it needs."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from types import ModuleType

import pytest

import analyses
import hta_graph as hg
from tests.import_graph import PACKAGES, ROOT, circles, imports_of, module_name, product_files
from tests.support.shared_traces import SHARED

pytestmark = pytest.mark.sources
SAMPLE = ROOT / "analyses" / "sample" / "sample_trace.json.gz"
LOADED = """
import sys
from analyses.cli.main import main
assert main(sys.argv[1:]) == 0
print("loaded", *sorted(name for name in sys.modules if name.partition(".")[0] in ("hta_graph", "analyses")))
"""


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


def loaded_by(*words: str | Path, cache: str | Path = "off") -> list[str]:
    """Return the modules of the product that a command loads."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *map(str, words)],
        env=os.environ | {"HTA_GRAPH_CACHE": str(cache), "PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.splitlines()[-1].split()[1:]


def test_the_path_of_a_rank_loads_no_other_command_and_nothing_of_jobs() -> None:
    loaded = loaded_by("critical-path", SAMPLE)
    commands = {name for name in loaded if name.startswith("analyses.cli.commands.")}
    assert commands == {"analyses.cli.commands.critical_path"}
    of_jobs = ("hta_graph.multi_rank.matching", "hta_graph.multi_rank.summary", "hta_graph.multi_rank.what_if")
    rare = ("hta_graph.attribution.captures", "hta_graph.trace.archives", "hta_graph.chakra", "hta_graph.export")
    assert [name for name in loaded if name.startswith((*of_jobs, *rare))] == []
    # The sample's kernels are held against what its GPU can do.
    assert len([name for name in loaded if not name.startswith("hta_graph.roofline")]) <= 156


@pytest.mark.shared
def test_a_graph_in_the_cache_is_answered_with_few_files(tmp_path: Path) -> None:
    trace = SHARED / "traces" / "ddp_v100"
    assert len(loaded_by("critical-path", trace)) <= 156
    loaded_by("critical-path", trace, cache=tmp_path / "cache")
    again = loaded_by("critical-path", trace, cache=tmp_path / "cache")
    assert len(again) <= 108
    assert [name for name in again if name.startswith(("hta_graph.dependencies", "hta_graph.build"))] == []


def test_a_class_has_a_name_of_its_own() -> None:
    files = defaultdict(list)
    for name, path in product_files().items():
        if not name.startswith("analyses.hta."):  # the names of Holistic Trace Analysis
            for line in re.finditer(r"^\s*class ([A-Za-z]\w*)[(:]", path.read_text(encoding="utf-8"), re.MULTILINE):
                files[line[1]].append(name)
    assert {name: places for name, places in files.items() if len(places) > 1} == {}
