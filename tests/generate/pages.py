"""What the manual says of each analysis in a line: rows of two tables, and the sections of the reference."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module

from analyses.analysis import Analysis
from analyses.cli.all_commands import COMMAND_GROUPS
from analyses.cli.command import Command
from hta_graph.model import EDGE_MEANING, EdgeKind
from tests.generate.index import every_analysis
from tests.support.cli_parsers import options_of, positionals_of

__all__ = ["PAGES"]

ROW_OF_COMMAND = re.compile(r"^\| `hta-graph ([a-z-]+) INPUT[^|]*` \|.*\n", re.MULTILINE)
SEVERAL_RANKS = "## Multiple ranks\n\n| command | what it answers |\n|---|---|\n"
ROWS_OF_TABLES = re.compile(r"(?<=^\| schema \| tables \|\n\|---\|---\|\n)(\|.*\n)*", re.MULTILINE)
TABLE = re.compile(r"^(\|.*\n)+", re.MULTILINE)
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
    page = ROW_OF_COMMAND.sub(lambda row: row[0] + (_rows(alone) if row[1] == "what-if" else ""), page)
    for group, commands in COMMAND_GROUPS.items():
        missing = [one for one in commands if isinstance(one, Command) and f"| `hta-graph {one.name}" not in page]
        page = _behind_table(page, f"## {group.capitalize()}\n", map(_row_of_command, missing))
    return page


def _behind_table(page: str, before: str, rows: Iterable[str]) -> str:
    """Add rows to the first table behind a text."""
    start, mark, rest = page.partition(before)
    return start + mark + TABLE.sub(lambda table: table[0] + "".join(rows), rest, count=1)


def _row_of_command(command: Command) -> str:
    """Return a command's row: what must be given, and its help; another text, written by hand, stays."""
    words = (command.name,)
    options = (f"{one.option_strings[0]} {one.metavar}" for one in options_of(words) if one.required)
    call = ["hta-graph", command.name, *(str(one.metavar) for one in positionals_of(words)), *options]
    return f"| `{' '.join(call)}` | {command.help[:1].lower()}{command.help[1:].rstrip('.')} |\n"


def _edges(page: str) -> str:
    """Add the rows of edge kinds that have none."""
    missing = [kind for kind in EdgeKind if f"`{kind.label}`" not in page.partition("\n\nHow many")[0]]
    return _behind_table(
        page, "# The edges of the graph\n", (f"| `{kind.label}` | {EDGE_MEANING[kind].says} |\n" for kind in missing)
    )


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
    "reading/edges.md": _edges,
    "machine_output.md": _machine_output,
    "reference/questions.md": _reference,
}
"""Page of ``docs/`` → what renews it."""
