"""What the manual says of each analysis in a line: rows of two tables, and the sections of the reference."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module

from analyses.analysis import Analysis
from tests.generate.index import every_analysis

__all__ = ["PAGES"]

ROW_OF_COMMAND = re.compile(r"^\| `hta-graph ([a-z-]+) INPUT[^|]*` \|.*\n", re.MULTILINE)
SEVERAL_RANKS = "## Several ranks\n\n| command | what it answers |\n|---|---|\n"
ROWS_OF_TABLES = re.compile(r"(?<=^\| schema \| tables \|\n\|---\|---\|\n)(\|.*\n)*", re.MULTILINE)
SECTION = re.compile(r"^## `(\w+)`\n", re.MULTILINE)
TABLES = "What tables an answer has: their names, their columns, and the functions that explain these."


def _commands(page: str) -> str:
    """Renew the rows of the commands: of one rank behind ``what-if``, of several ranks in a table of their own."""
    analyses = list(every_analysis().values())
    names = {one.name for one in analyses}
    page = ROW_OF_COMMAND.sub(lambda row: "" if row[1] in names else row[0], page)
    ranks = [one for one in analyses if one.from_summaries != "no"]
    page = page.replace(SEVERAL_RANKS, SEVERAL_RANKS + _rows(ranks))
    alone = [one for one in analyses if one.from_summaries == "no"]
    return ROW_OF_COMMAND.sub(lambda row: row[0] + (_rows(alone) if row[1] == "what-if" else ""), page)


def _rows(analyses: Iterable[Analysis]) -> str:
    return "".join(f"| `{' '.join(_call(one))}` | {one.question} |\n" for one in analyses)


def _call(analysis: Analysis) -> list[str]:
    """Return the words of a command line that asks an analysis."""
    required = [f"{flag.option} {flag.value}" for flag in analysis.flags if flag.is_required]
    usage = [analysis.usage] if analysis.usage else required
    return ["hta-graph", analysis.name, "INPUT", *usage]


def _machine_output(page: str) -> str:
    """Renew the table of the tables of all analyses."""
    listed = ((one.name, ", ".join(f"`{name}`" for name in one.tables)) for one in every_analysis().values())
    rows = "".join(f"| `hta-graph/{name}/1` | {tables} |\n" for name, tables in listed)
    return ROWS_OF_TABLES.sub(lambda _: rows, page)


def _reference(page: str) -> str:
    """Add the sections of those that have none; what a section says besides is written by hand."""
    named = {module.rpartition(".")[2]: module for module in every_analysis()}
    first, *parts = re.split(r"(?=^## )", page, flags=re.MULTILINE)
    there = {found[1]: part for part in parts if (found := SECTION.match(part))}
    sections = there | {name: _section(name, module) for name, module in named.items() if name not in there}
    at = next(at for at, part in enumerate(parts) if SECTION.match(part))
    others = [part for part in parts if part not in there.values()]
    return "".join([first, *others[:at], *(sections[name] for name in sorted(sections)), *others[at:]])


def _section(name: str, module: str) -> str:
    """Return the section of a module: what it asks, and its public names."""
    found = import_module(module)
    asks = (found.__doc__ or "").partition("\n")[0].partition(": ")[2]
    entries = (
        f".. py:data:: analyses.{name}.{part}\n\n   {TABLES}\n"
        if part == "TABLES"
        else f".. autofunction:: analyses.{name}.{part}\n"
        for part in found.__all__
    )
    listed = "\n".join(entries)
    return f"## `{name}`\n\n{asks[:1].upper()}{asks[1:]}\n\n```{{eval-rst}}\n{listed}```\n\n"


PAGES: Mapping[str, Callable[[str], str]] = {
    "commands.md": _commands,
    "machine_output.md": _machine_output,
    "reference/questions.md": _reference,
}
"""Page of ``docs/`` → what renews it."""
