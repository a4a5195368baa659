"""The questions as public names: what ``analyses/__init__.py`` says of them, to Python and to type checkers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby

from analyses.questions.catalogue import MODULES

__all__ = ["QUESTION_MODULES", "renewed_names"]

BESIDE = ("analyses.compare.diff.run_diff",)
"""Modules of questions that are not in the catalogue, because they take no scopes."""
QUESTION_MODULES = {module.rpartition(".")[2]: module for module in (*MODULES, *BESIDE)}
"""Public name of a question → its module."""
WIDTH = 120

IMPORTS = re.compile(r"(?<=^if TYPE_CHECKING:\n).*?(?=^\n)", re.MULTILINE | re.DOTALL)
IMPORT = re.compile(r"^    from ([\w.]+) import (\([^)]*\)|[^\n]*)\n", re.MULTILINE)
PLACES = re.compile(r"(?<=^_QUESTIONS = \{\n).*?(?=^\})", re.MULTILINE | re.DOTALL)
LISTED = re.compile(r"(?<=^__all__ = \[\n).*?(?=^\])", re.MULTILINE | re.DOTALL)


def renewed_names(text: str) -> str:
    """Return the module with the questions that there are now."""
    rooms = _by_room(QUESTION_MODULES.values())
    before = set(re.findall(r'"(\w+)"', "".join(line.partition(":")[2] for line in _part(PLACES, text).splitlines())))
    others = {name for name in re.findall(r'"(\w+)"', _part(LISTED, text)) if name not in before}
    imports = dict(_other_imports(_part(IMPORTS, text), before)) | rooms
    places = (_place(room, names) for room, names in rooms.items())
    listed = sorted({*others, *(name for names in rooms.values() for name in names)})
    text = IMPORTS.sub(lambda _: "".join(_import(room, imports[room]) for room in sorted(imports)), text)
    text = PLACES.sub(lambda _: "".join(places), text)
    return LISTED.sub(lambda _: "".join(f"    {_quoted(name)},\n" for name in listed), text)


def _by_room(modules: Iterable[str]) -> dict[str, list[str]]:
    """Return the questions of each room, both in order of the alphabet."""
    split = sorted(tuple(module.rsplit(".", 1)) for module in modules)
    return {room: [name for _, name in found] for room, found in groupby(split, key=lambda pair: pair[0])}


def _other_imports(text: str, questions: set[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the imports of what is no question."""
    for module, names in IMPORT.findall(text):
        found = re.findall(r"\w+", names)
        if not questions.issuperset(found):
            yield module, found


def _import(module: str, names: list[str]) -> str:
    line = f"    from {module} import {', '.join(names)}\n"
    if len(line) <= WIDTH + 1:
        return line
    lines = "".join(f"        {name},\n" for name in names)
    return f"    from {module} import (\n{lines}    )\n"


def _place(room: str, names: list[str]) -> str:
    """Return the entry of a room, as the formatter would break it."""
    line = f'    "{room}": ({", ".join(map(_quoted, names))}{"," * (len(names) == 1)}),\n'
    if len(line) <= WIDTH + 1:
        return line
    lines = "".join(f"        {_quoted(name)},\n" for name in names)
    return f'    "{room}": (\n{lines}    ),\n'


def _part(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[0] if found else ""


def _quoted(name: str) -> str:
    return f'"{name}"'
