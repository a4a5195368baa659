"""The index of analyses: what the command line needs of each before its module is imported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields
from importlib import import_module
from typing import Any

from analyses.declare.analysis import Analysis
from analyses.declare.description import Description, Flag
from analyses.questions.catalogue import MODULES

__all__ = ["every_analysis", "index_text"]

HEADING = '''\
"""What the command line offers of each analysis, made of what these declare.

``python -m tests.generate`` writes it anew.
"""

from __future__ import annotations

from analyses.declare.description import Flag, IndexEntry

# fmt: off
# ruff: noqa: E501, Q000
INDEX: tuple[IndexEntry, ...] = (
'''


def every_analysis() -> dict[str, Analysis]:
    """Return each analysis by its module, as the catalogue lists them."""
    return {module: import_module(module).ANALYSIS for module in MODULES}


def index_text() -> str:
    """Return the index as the text of its module."""
    entries = (_call("IndexEntry", _entry(module, analysis)) for module, analysis in every_analysis().items())
    return HEADING + "".join(f"{line}\n" for entry in entries for line in _indented(entry)) + ")\n"


def _entry(module: str, analysis: Analysis) -> Iterator[tuple[str, list[str]]]:
    """Yield each field of an entry with the lines of its value."""
    for item in fields(Description):
        value = getattr(analysis, item.name)
        if value == item.default:
            continue
        if item.name == "flags":
            yield item.name, ["(", *(f"    {_flag(flag)}," for flag in value), ")"]
        else:
            yield item.name, [repr(value)]
    yield "module", [repr(module)]


def _flag(flag: Flag) -> str:
    """Return a flag as an expression of one line, without what is as usual."""
    given = ((item, getattr(flag, item.name)) for item in fields(Flag))
    told = (
        f"{item.name}={value!r}" for item, value in given if item.default is MISSING or _differs(item.default, value)
    )
    return f"Flag({', '.join(told)})"


def _differs(usual: Any, value: Any) -> bool:
    return usual is not value and (type(usual), usual) != (type(value), value)


def _call(name: str, arguments: Iterable[tuple[str, list[str]]]) -> list[str]:
    """Return the lines of a call, an argument each."""
    lines = []
    for argument, (first, *others) in arguments:
        *between, last = [f"{argument}={first}", *others]
        lines += [*between, f"{last},"]
    return [f"{name}(", *(f"    {line}" for line in lines), "),"]


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"    {line}" for line in lines)
