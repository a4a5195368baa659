"""The recipes of ``docs/extending/`` as what can be followed: its steps on files, and the commands that check them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Recipe", "Step", "StepError", "follow", "recipes"]

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
