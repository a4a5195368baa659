"""What people depend on: one version, typed public names, every file in the package, a page that says what stays."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import analyses
import hta_graph as hg
from analyses.cli.main import main
from tests import public_api_script
from tests.package_files import Archive, sdist_faults, wheel_faults
from tests.supply_chain import OLDEST

pytestmark = pytest.mark.sources

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
PACKAGES = {"hta_graph": hg, "analyses": analyses}
SOURCES = [path for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py"))]

every_package = pytest.mark.parametrize("name", PACKAGES)


def named_in(node: ast.AST) -> set[str]:
    """Return the names that the imports below a node bring."""
    imports = (item for item in ast.walk(node) if isinstance(item, ast.ImportFrom))
    return {alias.name for item in imports for alias in item.names}


def parsed(name: str) -> ast.Module:
    return ast.parse((ROOT / name / "__init__.py").read_text(encoding="utf-8"))


# -- one version ------------------------------------------------------------------------------------------------------


def test_the_version_stands_in_one_place_that_a_build_reads_without_running_it() -> None:
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "hta_graph.__version__"}
    assigned = [node for node in parsed("hta_graph").body if isinstance(node, ast.Assign)]
    (value,) = [node.value for node in assigned if [ast.unparse(to) for to in node.targets] == ["__version__"]]
    assert ast.literal_eval(value) == hg.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", hg.__version__)
    assert [path for path in SOURCES if f'"{hg.__version__}"' in path.read_text(encoding="utf-8")] == SOURCES[:1]


def test_the_latest_release_of_the_changelog_is_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = [version for version in re.findall(r"^## \[(.+?)\]", text, re.MULTILINE) if version != "Unreleased"]
    assert released[0] == hg.__version__


# -- names and types --------------------------------------------------------------------------------------------------


@every_package
def test_type_checkers_see_the_public_names_and_no_other(name: str) -> None:
    blocks = [node for node in parsed(name).body if isinstance(node, ast.If)]
    (seen,) = [node for node in blocks if ast.unparse(node.test) == "TYPE_CHECKING"]
    assert named_in(seen) == set(PACKAGES[name].__all__)
    (hidden,) = [node for node in blocks if ast.unparse(node.test) == "not TYPE_CHECKING"]
    assert [item.name for item in hidden.body if isinstance(item, ast.FunctionDef)] == ["__getattr__"]
    assert not [node for node in parsed(name).body if getattr(node, "name", "") == "__getattr__"]


@every_package
def test_a_name_that_is_not_there_is_an_error(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'critcal_path'"):
        PACKAGES[name].critcal_path  # noqa: B018


@pytest.mark.slow
def test_a_users_script_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--traces", str(tmp_path / "traces")]) == 0
    monkeypatch.setattr(sys, "argv", ["users_script.py", str(tmp_path / "traces")])
    public_api_script.main()
    assert "asked everything; TraceError is an HtaGraphError\n" in capsys.readouterr().out


@pytest.mark.slow
def test_strict_mypy_finds_the_types_of_a_users_script(tmp_path: Path) -> None:
    """As ``.ci/package`` does with the wheel; here the repository stands on the path of a user without settings."""
    pytest.importorskip("mypy")
    script = tmp_path / "users_script.py"
    script.write_bytes(Path(public_api_script.__file__).read_bytes())
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent", script.name]
    # A user has the package installed, where what its own files need without stubs is nobody's error.
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"MYPYPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.stdout == "Success: no issues found in 1 source file\n"


# -- what is in the package -------------------------------------------------------------------------------------------


@every_package
def test_every_file_of_a_package_is_packed(name: str) -> None:
    globs = PROJECT["tool"]["setuptools"]["package-data"][name]
    files = [path.relative_to(ROOT / name) for path in (ROOT / name).rglob("*") if path.is_file()]
    data = [str(path) for path in files if path.suffix != ".py" and "__pycache__" not in path.parts]
    assert "py.typed" in data
    assert [path for path in data if not any(fnmatch(path, glob) for glob in globs)] == []
    assert [path.parent for path in files if path.suffix == ".py" and path.with_name("__init__.py") not in files] == []


KNOWN = {
    "README.md": b"# x\n",
    "LICENSE": b"MIT",
    "hta_graph/py.typed": b"",
    "analyses/py.typed": b"",
    "tests/a.py": b"1",
}
ABOUT = f"Version: {hg.__version__}\nLicense-Expression: MIT\nDescription-Content-Type: text/markdown\n\n# x\n".encode()
INFO = f"hta_graph-{hg.__version__}.dist-info/"
OF_WHEEL = dict.fromkeys(
    (f"{INFO}{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "top_level.txt")), b""
)
WHEEL = Archive(
    "wheel", {**OF_WHEEL, f"{INFO}licenses/LICENSE": b"MIT", "hta_graph/py.typed": b"", "analyses/py.typed": b""}, ABOUT
)
SDIST = Archive("sdist", {**KNOWN, "PKG-INFO": b"", "setup.cfg": b"", "hta_graph.egg-info/x": b""}, ABOUT)


def test_archives_that_hold_what_git_knows_have_no_fault() -> None:
    assert [*wheel_faults(WHEEL, KNOWN), *sdist_faults(SDIST, KNOWN)] == []


def test_what_an_archive_lacks_or_has_too_much_is_told() -> None:
    lacking = {name: content for name, content in WHEEL.files.items() if name != "analyses/py.typed"}
    junk = WHEEL.files | {"tests/a.py": b"1", f"{INFO}licenses/LICENSE": b"BSD"}
    assert list(wheel_faults(replace(WHEEL, files=lacking), KNOWN)) == [
        "wheel: lacks analyses/py.typed", "wheel: no analyses/py.typed",
    ]  # fmt: skip
    assert list(wheel_faults(replace(WHEEL, files=junk), KNOWN)) == [
        "wheel: holds tests/a.py", "wheel: its licence is not LICENSE",
    ]  # fmt: skip
    changed = replace(SDIST, files=SDIST.files | {"tests/a.py": b"2"})
    assert list(sdist_faults(changed, KNOWN)) == ["sdist: tests/a.py is not what git knows"]
    older = replace(SDIST, about=ABOUT.replace(hg.__version__.encode(), b"0.0.1").replace(b"# x", b"# y"))
    assert list(sdist_faults(older, KNOWN)) == [
        f"sdist: Version is 0.0.1, not {hg.__version__}", "sdist: its page is not the README",
    ]  # fmt: skip


# -- what is promised -------------------------------------------------------------------------------------------------


def test_the_page_names_the_lower_bounds_of_the_project() -> None:
    def bounds(lines: list[str]) -> list[str]:
        asked = [Requirement(line) for line in lines]
        return [f"{item.name} {bound.version}" for item in asked for bound in item.specifier]

    told = re.findall(r"^\| ([a-z0-9]+) \| ([\d.]+) \|$", PAGE, re.MULTILINE)
    assert [" ".join(row) for row in told] == bounds(PROJECT["project"]["dependencies"])
    extras = dict(re.findall(r"^\| `\[(\w+)\]` \| (.+) \|$", PAGE, re.MULTILINE))
    asked = PROJECT["project"]["optional-dependencies"]
    assert {extra: brought.split(", ") for extra, brought in extras.items()} == {
        extra: bounds(asked[extra]) for extra in asked if extra not in ("remote", "test", "dev", "docs")
    }


def test_the_page_names_the_pythons_of_the_project() -> None:
    classifiers = PROJECT["project"]["classifiers"]
    minors = [found[1] for text in classifiers if (found := re.fullmatch(r".* Python :: (3\.\d+)", text))]
    assert f"Python {', '.join(minors[:-1])} and {minors[-1]}, on Linux." in PAGE
    assert PROJECT["project"]["requires-python"] == f">={minors[0]}" == ">=" + ".".join(map(str, OLDEST))


def test_what_is_deprecated_is_listed() -> None:
    warns = [path for path in SOURCES if "DeprecationWarning" in path.read_text(encoding="utf-8")]
    listed = PAGE.split("### Deprecated today\n\n")[1].split("\n\n## ")[0]
    assert (listed == "Nothing is deprecated today.") == (warns == [])
