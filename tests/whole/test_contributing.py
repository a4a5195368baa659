"""Recipes of ``docs/extending/`` are complete: who follows one is done, and without a step something says so."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pytest

from tests.support.deep_tests import exhaustive

FENCED = re.compile(r"^(````?)[^`\n]*\n.*?^\1$", re.MULTILINE | re.DOTALL)
SECTION = re.compile(r"^# (.+?)\n(.*?)(?=^#|\Z)", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^((?:[^\n]+\n)+)\n(````?)(\w*)\n(.*?)^\2$", re.MULTILINE | re.DOTALL)
INTRODUCED = re.compile(
    r"(?:.*\. )?(?:New file (?P<new>`.+`)|At the end of (?P<end>`.+`)"
    r"|In (?P<file>`.+?`),(?P<how> after| before| instead of) (?P<line>`.+`)):"
)
QUOTED = re.compile(r"(`+) ?(.+?) ?\1")


class StepError(Exception):
    """A step of a recipe cannot be followed as it is written."""


@dataclass(frozen=True)
class Step:
    """Text that goes into a file: as a new one, at its end, or at the line that is ``line`` or begins as ``line…``."""

    file: str
    how: str
    line: str
    text: str

    def apply(self, root: Path) -> None:
        """Do it below a folder.

        Raises:
            StepError: the file or the line is not there, or is there when it should not be, or more than once.
        """
        path = root / self.file
        if path.exists() == (self.how == "new"):
            raise StepError(f"{self.file}: {'is there already' if path.exists() else 'is not there'}")
        path.write_text(self._changed(path.read_text(encoding="utf-8") if path.exists() else ""), encoding="utf-8")

    def _changed(self, before: str) -> str:
        if self.how in ("new", "end"):
            return before + self.text
        lines = before.splitlines(keepends=True)
        places = [at for at, line in enumerate(lines) if self._is_meant(line.strip())]
        if len(places) != 1:
            raise StepError(f"{self.file}: {len(places)} lines are {self.line!r}")
        first, last = places[0] + (self.how == "after"), places[0] + (self.how != "before")
        return "".join([*lines[:first], self.text, *lines[last:]])

    def _is_meant(self, line: str) -> bool:
        beginning, cut, _ = self.line.partition("…")
        return line.startswith(beginning) if cut else line == self.line


@dataclass(frozen=True)
class Recipe:
    """How to add one kind of thing: the steps in their order, and the commands that must succeed afterwards."""

    name: str
    steps: tuple[Step, ...]
    checks: tuple[str, ...]


def recipes(page: str) -> list[Recipe]:
    """Return the recipes of a page: its sections of the first level that have steps.

    Raises:
        StepError: a section has a block that no words introduce which are understood.
    """
    # A heading in a block is text of a file, and no section of the page.
    marked = FENCED.sub(lambda block: re.sub("^#", "\0#", block[0], flags=re.MULTILINE), page)
    sections = [(name, text.replace("\0", "")) for name, text in SECTION.findall(marked)]
    found = [_recipe(name, text) for name, text in sections if INTRODUCED.search(text)]
    return [recipe for recipe in found if recipe.steps]


def _recipe(name: str, text: str) -> Recipe:
    if "```" in BLOCK.sub("", text):
        raise StepError(f"{name}: a block stands without a line that introduces it")
    # The paragraph before a block may be wrapped.
    blocks = [
        (" ".join(words.splitlines()).strip(), language, block) for words, _, language, block in BLOCK.findall(text)
    ]
    steps = tuple(_step(name, words, block) for words, language, block in blocks if language != "sh")
    checks = [line for _, language, block in blocks if language == "sh" for line in block.splitlines()]
    return Recipe(name, steps, tuple(checks))


def _step(name: str, words: str, block: str) -> Step:
    said = INTRODUCED.fullmatch(words)
    if not said:
        raise StepError(f"{name}: nothing says what to do with the block behind {words!r}")
    if said["file"]:
        return Step(_quoted(said["file"]), said["how"].strip(), _quoted(said["line"]), block)
    how = "new" if said["new"] else "end"
    return Step(_quoted(said[how]), how, "", block)


def _quoted(words: str) -> str:
    """Take the quotes of Markdown off.

    >>> _quoted("`a.py`"), _quoted("`` | `x` | y ``")
    ('a.py', '| `x` | y')
    """
    found = QUOTED.fullmatch(words)
    return found[2] if found else words


def follow(steps: Iterable[Step], root: Path) -> None:
    """Follow steps in their order below a folder.

    Raises:
        StepError: one cannot be followed.
    """
    for step in steps:
        step.apply(root)


pytestmark = pytest.mark.sources

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / "extending" / f"{name}.md" for name in ("analysis", "rule", "edge_kind", "export", "dialect")]
TEXTS = {path: path.read_text(encoding="utf-8") for path in PAGES}
RECIPES = [recipe for text in TEXTS.values() for recipe in recipes(text)]
MOST_BYTES = 6 * 1024
"""Of CONTRIBUTING.md: people read it before their first change."""
MOST_STEPS = {
    "Add an analysis": 3, "Add a rule of advice": 6, "Add an edge kind": 9, "Add an export or a command": 4,
    "Add a trace dialect": 7,
}  # fmt: skip
TOOLS = Path(sys.executable).parent
NOT_COPIED = shutil.ignore_patterns("__pycache__", ".git", ".venv", ".*_cache", ".hypothesis", "*.egg-info", "dist")
BUILT = {"build"}
"""Of the repository's own folder: a package has a folder of that name."""
every_recipe = pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)


def left_out(recipe: Recipe, at: int) -> Recipe:
    """Return a recipe without one of its steps."""
    return Recipe(recipe.name, recipe.steps[:at] + recipe.steps[at + 1 :], recipe.checks)


def _not_copied(folder: str, names: list[str]) -> set[str]:
    """Return what of a folder is not copied."""
    return NOT_COPIED(folder, names) | (BUILT & set(names) if Path(folder) == ROOT else set())


def done_in(folder: Path, recipe: Recipe) -> Path:
    """Follow a recipe in a copy of this repository."""
    copy = folder / "copy"
    shutil.copytree(ROOT, copy, ignore=_not_copied, symlinks=True)
    follow(recipe.steps, copy)
    return copy


def failing_check(copy: Path, checks: Sequence[str]) -> str:
    """Return the first command that fails in a copy, with what it says; nothing where all succeed."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    path = os.pathsep.join([str(TOOLS), own.get("PATH", "")])
    for check in checks:
        done = subprocess.run(
            ["bash", "-c", check], cwd=copy, env={**own, "PATH": path, "PYTHONPATH": str(copy)}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        if done.returncode:
            return f"{check}\n{done.stdout}"
    return ""


def needs_programs(recipe: Recipe) -> None:
    """Skip where a checker is not installed: it comes with ``[dev]``."""
    for word in dict.fromkeys(re.findall(r"^[a-z-]+", "\n".join(recipe.checks), re.MULTILINE)):
        if not shutil.which(word, path=f"{TOOLS}{os.pathsep}{os.environ.get('PATH', '')}"):
            pytest.skip(f"{word} is not installed here")


def test_there_is_a_recipe_for_what_people_add_most_and_it_is_short() -> None:
    assert {recipe.name: len(recipe.steps) for recipe in RECIPES} == MOST_STEPS
    assert all(len(recipe.checks) > 3 for recipe in RECIPES)


def test_the_page_for_contributors_is_short() -> None:
    assert (ROOT / "CONTRIBUTING.md").stat().st_size <= MOST_BYTES


@pytest.mark.parametrize("text", TEXTS.values(), ids=[path.stem for path in PAGES])
def test_a_recipe_is_numbered_step_by_step(text: str) -> None:
    (recipe,) = recipes(text)
    numbers = [int(number) for number in re.findall(r"^(\d+)\\\. ", text, re.MULTILINE)]
    assert numbers == list(range(1, len(recipe.steps) + 1))


@pytest.mark.slow
@every_recipe
def test_who_follows_a_recipe_has_what_it_says(recipe: Recipe, tmp_path: Path) -> None:
    assert failing_check(done_in(tmp_path, recipe), recipe.checks[:2]) == ""


@pytest.mark.slow
@every_recipe
def test_who_follows_a_recipe_passes_every_check(recipe: Recipe, tmp_path: Path) -> None:
    needs_programs(recipe)
    assert failing_check(done_in(tmp_path, recipe), recipe.checks) == ""


STEPS = list(chain.from_iterable(((recipe, at) for at in range(len(recipe.steps))) for recipe in RECIPES))
ONE_STEP = (RECIPES[3], 3)
"""An export that is not listed as a command: calling it fails."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "at"),
    [ONE_STEP, *(exhaustive(*step) for step in STEPS if step != ONE_STEP)],
    ids=lambda value: value.name if isinstance(value, Recipe) else str(value + 1),
)
def test_a_step_that_is_left_out_is_noticed(recipe: Recipe, at: int, tmp_path: Path) -> None:
    without = left_out(recipe, at)
    if (recipe, at) != ONE_STEP:
        needs_programs(recipe)
    assert failing_check(done_in(tmp_path, without), recipe.checks)


# -- what cannot be followed is an error ------------------------------------------------------------------------------

A_THING = "# A thing\n\n{}\n\n```python\nb = 2\n```\n\n"


def steps_of(words: str) -> tuple[Step, ...]:
    (recipe,) = recipes(A_THING.format("New file `new.py`:") + A_THING.format(words).split("\n\n", 1)[1])
    return recipe.steps[1:]


@pytest.mark.parametrize(
    ("words", "after"),
    [
        ("In `old.py`, after `a = 1`:", "a = 1\nb = 2\nc = 3\n"),
        ("Why. In `old.py`, before `a = 1`:", "b = 2\na = 1\nc = 3\n"),
        ("1\\. In `old.py`, instead of `a…`:", "b = 2\nc = 3\n"),
        ("At the end of `old.py`:", "a = 1\nc = 3\nb = 2\n"),
    ],
)
def test_a_step_goes_where_its_words_say(tmp_path: Path, words: str, after: str) -> None:
    (tmp_path / "old.py").write_text("a = 1\nc = 3\n")
    follow(steps_of(words), tmp_path)
    assert (tmp_path / "old.py").read_text() == after


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("In `old.py`, after `a = 9`:", "old.py: 0 lines are 'a = 9'"),
        ("In `old.py`, after `a…`:", "old.py: 2 lines are 'a…'"),
        ("In `none.py`, after `a = 1`:", "none.py: is not there"),
        ("New file `old.py`:", "old.py: is there already"),
        ("Somewhere put this:", "A thing: nothing says what to do"),
    ],
)
def test_a_step_that_does_not_fit_is_an_error(tmp_path: Path, words: str, error: str) -> None:
    (tmp_path / "old.py").write_text("a = 1\na = 2\n")
    with pytest.raises(StepError, match=f"^{re.escape(error)}"):
        follow(steps_of(words), tmp_path)


def test_a_block_without_words_is_an_error() -> None:
    with pytest.raises(StepError, match="A thing: a block stands without a line"):
        recipes(A_THING.format("New file `new.py`:") + "```python\nlost = 1\n```\n")
