"""The README's commands, example and tables are those of the product."""

from __future__ import annotations

import gzip
import re
import shlex
from pathlib import Path
from shutil import which

import pytest

import hta_graph as hg
from analyses.advice.expert import ADVICE_RULES, VERDICT_RULES
from analyses.command_line.cli import main
from hta_graph.graph import DIAGNOSTICS
from hta_graph.model import BoundBy
from tests.support.make_sample import SAMPLE, sample

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = sorted((ROOT / "docs").glob("*.md"))
EXAMPLES = ROOT / "examples"
PAGES = [ROOT / "README.md", *DOCS, *sorted(EXAMPLES.glob("*.md")), *sorted(EXAMPLES.glob("*.ipynb"))]
COMMAND = re.compile(r"(?:^|`)hta-graph ((?:chakra )?[a-z][a-z-]*)([^`\n]*)", re.MULTILINE)


def code_blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


WITH_PYTHON = [page for page in PAGES[: 1 + len(DOCS)] if code_blocks("python", page.read_text(encoding="utf-8"))]


def test_ci_calls_the_test_command_of_the_readme() -> None:
    _, tests = code_blocks("sh")
    assert tests.strip() in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_first_command_prints_a_path_and_writes_three_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = code_blocks("sh")[0].split("&&")[1]
    assert main(shlex.split(command)[1:]) == 0
    assert "time on the critical path" in capsys.readouterr().out
    picture = "demo_path.svg" if which("dot") else "demo_path.dot"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["demo_overlay.json", picture, "demo_timeline.html"]


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_lines_of_a_page_run_and_show_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "analyses").symlink_to(ROOT / "analyses")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for line in "".join(code_blocks("python", page.read_text(encoding="utf-8"))).splitlines():
        code, _, shown = line.partition("  # <")
        if shown:
            assert repr(eval(code, names)) == f"<{shown}"  # noqa: S307
        else:
            exec(line, names)  # noqa: S102


@pytest.mark.parametrize("page", PAGES[: 1 + len(DOCS)], ids=lambda path: path.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`((?:hta_graph|analyses|tests|examples|docs|\.ci)/[\w./]*)`", text)
    modules = re.findall(r"python -m (tests[\w.]*)", text)
    linked = re.findall(r"\]\(([\w./]+)\)", text)
    assert [name for name in named if not (ROOT / name).exists()] == []
    assert [name for name in linked if not (page.parent / name).exists()] == []
    paths = [ROOT / name.replace(".", "/") for name in modules]
    assert [path for path in paths if not (path.with_suffix(".py").exists() or path.is_dir())] == []


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in DOCS if page.name != "README.md" and f"]({page.name})" not in index] == []


def test_the_sample_is_what_the_simulator_makes() -> None:
    assert gzip.decompress(sample()) == gzip.decompress(SAMPLE.read_bytes())


def test_all_diagnostics_and_classes_are_documented() -> None:
    table = README.split("<!-- diagnostics -->")[1].split("<!-- end -->")[0]
    assert table.strip().splitlines()[2:] == [f"| `{key}` | {meaning} |" for key, meaning in DIAGNOSTICS.items()]
    assert all(f"`{bound.label}`" in README for bound in BoundBy)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_commands_and_options_that_a_page_names_exist(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = COMMAND.findall(page.read_text(encoding="utf-8"))
    for command, rest in named:
        with pytest.raises(SystemExit) as left:
            main([*command.split(), "--help"])
        assert left.value.code == 0, command
        known = capsys.readouterr().out
        assert [option for option in re.findall(r"--[a-z][a-z-]*", rest) if option not in known] == [], command


def test_every_rule_of_advice_has_its_row() -> None:
    text = (ROOT / "docs" / "advice.md").read_text(encoding="utf-8")
    assert [rule.name for rule in (*VERDICT_RULES, *ADVICE_RULES) if f"| `{rule.name}` |" not in text] == []


def test_what_the_readme_calls_exists() -> None:
    names = set(re.findall(r"\bhg\.(\w+)", README))
    assert names
    assert names <= set(hg.__all__)
    methods = set(re.findall(r"(?<![/\w])graph\.(\w+)", README))
    assert {name for name in methods if not hasattr(hg.DependencyGraph, name)} == set()
