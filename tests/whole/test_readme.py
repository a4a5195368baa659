"""The commands, names and tables of the front page and of the manual are those of the product."""

from __future__ import annotations

import gzip
import re
import shlex
from functools import cache
from pathlib import Path
from shutil import which

import pytest

import hta_graph as hg
from analyses.advice.rules import ADVICE_RULES, RULES, VERDICT_RULES
from analyses.cli.main import main
from hta_graph.graph.dependency_graph import DIAGNOSTICS
from hta_graph.model import BoundBy
from tests.support.make_samples import SAMPLE, sample
from tests.support.manual_pages import PIECES, blocks, page_with, pages, text_of
from tests.support.manual_runs import run_here

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = ROOT / "examples"
MOST_CHARACTERS = 7_000
"""The front page is one screen."""
PAGES = [
    *pages(),
    *sorted(EXAMPLES.glob("*.md")),
    *sorted(EXAMPLES.glob("*.ipynb")),
]
COMMAND = re.compile(r"(?:^(?:\$ )?|`)hta-graph ((?:chakra )?[a-z][a-z-]*)([^`\n]*)", re.MULTILINE)


def first_command(word: str) -> str:
    """Return the front page's line that installs and then does something."""
    lines = [line for block in blocks(ROOT / "README.md") for line in block.text.splitlines()]
    (found,) = [line for line in lines if "pip install" in line and word in line]
    return found


def test_ci_calls_the_test_command_of_the_readme() -> None:
    assert first_command("pytest") in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_first_command_prints_a_path_and_writes_three_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = first_command("hta-graph demo").split("&&")[1]
    assert main(shlex.split(command)[1:]) == 0
    assert "critical path by class" in capsys.readouterr().out
    picture = "demo_path.svg" if which("dot") else "demo_path.dot"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["demo_overlay.json", picture, "demo_timeline.html"]


@pytest.mark.sampled(3)
@pytest.mark.sources
@pytest.mark.parametrize(
    "page", [page for page in pages() if page.parent != PIECES], ids=lambda path: str(path.relative_to(ROOT))
)
def test_files_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`((?:hta_graph|analyses|tests|examples|docs|\.ci)/[\w./]*)`", text)
    modules = re.findall(r"python -m (tests[\w.]*)", text)
    # A part in capitals is what the reader puts in.
    assert [name for name in named if not (ROOT / name).exists() and not re.search(r"/[A-Z]+\b", name)] == []
    paths = [ROOT / name.replace(".", "/") for name in modules]
    assert [path for path in paths if not (path.with_suffix(".py").exists() or path.is_dir())] == []


def test_the_sample_is_what_the_simulator_makes() -> None:
    assert gzip.decompress(sample()) == gzip.decompress(SAMPLE.read_bytes())


def test_all_diagnostics_and_classes_are_documented() -> None:
    table = page_with("<!-- diagnostics -->").split("<!-- diagnostics -->")[1].split("<!-- end -->")[0]
    assert table.strip().splitlines()[2:] == [f"| `{key}` | {meaning} |" for key, meaning in DIAGNOSTICS.items()]
    classes = page_with("| class | the time is |").split("| class | the time is |")[1].split("\n\n")[0]
    assert [bound.label for bound in BoundBy if f"`{bound.label}`" not in classes] == []


# Recipes invent commands: tests/whole/test_contributing.py follows them.
@pytest.mark.sampled(4)
@pytest.mark.parametrize("page", [page for page in PAGES if "extending" not in page.parts], ids=lambda path: path.name)
def test_commands_and_options_that_a_page_names_exist(page: Path) -> None:
    for command, rest in COMMAND.findall(text_of(page)):
        status, known = help_of(command)
        assert status == 0, command
        assert [option for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", rest) if option not in known] == [], (
            command
        )


@cache
def help_of(command: str) -> tuple[int, str]:
    """Return the exit status and the text of a command that is asked for its options."""
    return run_here([*command.split(), "--help-all"])[:2]


def test_every_rule_of_advice_has_its_rows_in_the_order_of_the_rules() -> None:
    text = (ROOT / "docs" / "reading" / "advice.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", text, flags=re.MULTILINE)
    rows = {
        section.partition("\n")[0]: [
            name for cell in re.findall(r"^\| (`[^|]*`) \|", section, re.MULTILINE) for name in re.findall(r"\w+", cell)
        ]
        for section in sections
    }
    assert rows["Verdict rules"] == [rule.name for rule in VERDICT_RULES]
    assert rows["Advice rules"] == [rule.name for rule in ADVICE_RULES]
    assert sorted(rows["Replayed changes"]) == sorted(name for name, rule in RULES.items() if rule.remedy)


def test_what_pages_call_exists() -> None:
    text = "\n".join(text_of(page) for page in pages())
    names = set(re.findall(r"\bhg\.(\w+)", text))
    assert names
    assert names - {"__version__", "__all__"} <= set(hg.__all__)
    methods = set(re.findall(r"`graph\.(?!json)(\w+)", text))
    assert methods
    assert {name for name in methods if not hasattr(hg.DependencyGraph, name)} == set()


def test_the_front_page_is_one_screen() -> None:
    assert len(README) < MOST_CHARACTERS
