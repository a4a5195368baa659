"""The pages of the reference: signature and first sentence of every public name, as Markdown reads in the repository.

A region of a page begins with the names that it lists, in a comment, and ends with another comment. What lies between
is generated; Sphinx replaces it by the whole docstrings (``docs/conf.py``).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cached_property
from importlib import import_module
from textwrap import wrap
from typing import Any

import hta_graph
from hta_graph.base.errors import HtaGraphError
from tests.generate.public_names import QUESTION_MODULES

__all__ = ["END", "REGION", "filled", "graphs_page", "names_in", "questions_page", "resolved"]

BEGIN, END = "<!-- names:", "<!-- end of names -->"
REGION = re.compile(rf"^{BEGIN}([\w.\s]+)-->\n.*?^{END}$", re.MULTILINE | re.DOTALL)
SECTION = re.compile(r"^## `(\w+)`\n", re.MULTILINE)
CONSTANTS = {
    "hta_graph.DEFAULT_RULES": "The rules that find edges, one function per kind, in their order. `build_graph(trace)` "
    "applies them; `build_graph(trace, rules=[…])` takes some of them, or your own.",
    "analyses.attribution.BY": "What activities can be attributed to: the values of `by` in `answer`.",
    "analyses.hardware_counters.KEYS": "The columns that identify a range; all others are counters.",
    "analyses.kernel_breakdown.OVERLAPPING": "What separates the names of types that run at the same time.",
    "analyses.run_diff.TIMES": "The columns of times that tables of changes share.",
}
"""What values without a docstring are."""
SAID_ONCE = ("TABLES", "figure")
"""What modules of analyses have in common, which the head of the page says."""
ON_ROWS = re.compile(
    r"canonical row|\\brow -1|; -1|each row|\\brows of\\b|for algorithms|for files|as arrays|code[sd]? in"
)
"""What says that an attribute is for those who compute on rows and columns."""
ROLE = re.compile(r":\w+:`~?(?:[\w.]+\.)?(\w+)`")
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`])")
LONGEST_DEFAULT = 24
WIDTH = 150


# -- pages ------------------------------------------------------------------------------------------------------------


def filled(page: str) -> str:
    """Return a page with its regions anew."""
    return REGION.sub(lambda found: _region(found[1].split()), page)


def graphs_page(page: str) -> str:
    """Renew the page of ``hta_graph``; public names that are on it nowhere come last."""
    missing = [f"hta_graph.{name}" for name in hta_graph.__all__ if f"hta_graph.{name}" not in names_in(page)]
    if missing:
        page = page.rstrip("\n") + f"\n\n## Others\n\n{_region(sorted(missing))}\n"
    return filled(page)


def questions_page(page: str) -> str:
    """Renew the page of the analyses; a module without a section gets one, in the order of the alphabet."""
    first, *parts = re.split(r"(?=^## )", page, flags=re.MULTILINE)
    there = {found[1]: part for part in parts if (found := SECTION.match(part))}
    sections = there | {name: _section(name) for name in QUESTION_MODULES if name not in there}
    at = next(at for at, part in enumerate(parts) if SECTION.match(part))
    others = [part for part in parts if part not in there.values()]
    page = "".join([first, *others[:at], *(_current(sections[name], name) for name in sorted(sections)), *others[at:]])
    return filled(page)


def names_in(page: str) -> list[str]:
    """Return the public names that the regions of a page list."""
    return [name for found in REGION.finditer(page) for name in found[1].split()]


def _section(name: str) -> str:
    """Return the section of a module: what it answers, and its public names."""
    asks = (import_module(QUESTION_MODULES[name]).__doc__ or "").partition("\n")[0].partition(": ")[2]
    return f"## `{name}`\n\n{asks[:1].upper()}{asks[1:]}\n\n{BEGIN} -->\n{END}\n\n"


def _current(section: str, name: str) -> str:
    """Return the section of a module with the names that the module lists now."""
    listed = " ".join(f"analyses.{name}.{part}" for part in import_module(QUESTION_MODULES[name]).__all__)
    return re.sub(rf"^{BEGIN}[\w.\s]*-->", f"{BEGIN} {listed} -->", section, count=1, flags=re.MULTILINE)


def _region(names: Iterable[str]) -> str:
    """Return a region: its names, and an entry for each."""
    listed = list(names)
    entries = "\n".join(line for name in listed for line in _entry(name)).strip("\n")
    return "\n".join([BEGIN, *wrap(" ".join(listed), WIDTH), "-->", "", entries, "", END])


# -- entries ----------------------------------------------------------------------------------------------------------


def resolved(name: str) -> Any:
    """Return what a dotted name stands for; ``analyses`` offers its questions under its own name."""
    module, _, short = name.rpartition(".")
    return getattr(import_module(QUESTION_MODULES.get(module.removeprefix("analyses."), module)), short)


def _entry(name: str) -> Iterator[str]:
    """Yield the lines of a public name: a bullet, for a class a heading and a bullet for each of its attributes."""
    found, short = resolved(name), name.rpartition(".")[2]
    if short in SAID_ONCE:
        return
    if inspect.isclass(found) and not issubclass(found, HtaGraphError):
        yield from ("", f"### `{short}`", "", first_sentence(found), "")
        yield from (f"- {line}" for line in _attributes(found, short))
    elif inspect.isclass(found):
        yield f"- `{short}`: {first_sentence(found)}"
    elif callable(found):
        module = name.removeprefix("analyses.").rpartition(".")[0]
        is_step = module in QUESTION_MODULES and short != "answer"  # of what the answer consists
        yield f"- `{short}{_signature(found)}`" + ("" if is_step else f": {first_sentence(found)}")
    else:
        yield f"- `{short}`: {CONSTANTS.get(name, first_sentence(found))}"


def _attributes(found: type, short: str) -> Iterator[str]:
    """Yield an entry for each attribute that a class itself defines; of those that one makes first how."""
    if found.__module__.startswith("analyses.hta") and "__init__" in vars(found):
        yield f"`{short}{_signature(vars(found)['__init__'], returns=False)}`"
    elif issubclass(found, Enum):
        yield f"Values: {', '.join(f'`{member.name}`' for member in found)}."
    elif is_dataclass(found):
        named = [f"`{field.name}`" for field in fields(found) if not field.name.startswith("_")]
        yield from [f"Fields: {', '.join(named)}."] if named else []
    entries = [(name, *_called(value)) for name, value in vars(found).items() if _is_documented(name, value)]
    brief = [name for name, _, says in entries if found.__module__.startswith("analyses.") or ON_ROWS.search(says)]
    yield from (f"`{name}{called}`: {says}" for name, called, says in entries if name not in brief)
    if brief:
        heading = "Attributes" if len(brief) == len(entries) else "On rows and columns, for algorithms"
        yield f"{heading}: {', '.join(f'`{name}`' for name in brief)}."


def _is_documented(name: str, value: Any) -> bool:
    """Return whether an attribute is a method or property that users may know."""
    inner = getattr(value, "__func__", value)
    is_entry = inspect.isfunction(inner) or isinstance(value, property | cached_property)
    return is_entry and not name.startswith("_") and bool(inspect.getdoc(getattr(value, "func", value)))


def _called(value: Any) -> tuple[str, str]:
    """Return how an attribute is called, and what it is."""
    inner = getattr(value, "__func__", value)
    called = _signature(inner) if inspect.isfunction(inner) else ""
    return called, first_sentence(getattr(inner, "func", inner))


def _signature(function: Any, *, returns: bool = True) -> str:
    """Return how a function is called, without types, and what it returns."""
    found = inspect.signature(function)
    given = [
        part.replace(annotation=part.empty) for name, part in found.parameters.items() if name not in ("self", "cls")
    ]
    marks: list[str] = []
    for at, part in enumerate(given):
        if part.kind is part.KEYWORD_ONLY and all(
            one.kind not in (part.KEYWORD_ONLY, part.VAR_POSITIONAL) for one in given[:at]
        ):
            marks.append("*")
        marks.append(_parameter(part))
        if part.kind is part.POSITIONAL_ONLY and (
            at + 1 == len(given) or given[at + 1].kind is not part.POSITIONAL_ONLY
        ):
            marks.append("/")
    back = str(getattr(function, "__annotations__", {}).get("return", ""))
    return f"({', '.join(marks)}){f' → {back}' if returns and back not in ('', 'None') else ''}"


def _parameter(part: inspect.Parameter) -> str:
    stars = "*" * (part.kind is part.VAR_POSITIONAL) + "**" * (part.kind is part.VAR_KEYWORD)
    if part.default is part.empty:
        return f"{stars}{part.name}"
    value = repr(part.default)
    return f"{part.name}={value if len(value) <= LONGEST_DEFAULT and '<' not in value else '…'}"


def first_sentence(found: Any) -> str:
    """Return the first sentence of a docstring, in Markdown.

    >>> first_sentence(first_sentence)
    'Return the first sentence of a docstring, in Markdown.'
    """
    paragraph = " ".join((inspect.getdoc(found) or "").partition("\n\n")[0].split())
    return ROLE.sub(r"`\1`", SENTENCE.split(paragraph)[0]).replace("``", "`")
