"""Generated parts of the manual: rows of tables, and the entries of the reference."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from analyses.cli.command import Command, command_groups
from analyses.cli.parser import EXIT_STATUSES
from analyses.declare.analysis import Analysis
from analyses.display.labels import CAUSE, MEANING, SHORT
from hta_graph.graph.dependency_graph import DIAGNOSTICS
from hta_graph.model import EDGE_MEANING, EdgeKind
from tests import device_table, operator_model_table
from tests.generate.index import every_analysis
from tests.generate.reference import filled, graphs_page, questions_page
from tests.support.cli_parsers import options_of, positionals_of

__all__ = ["PAGES"]

ROW_OF_COMMAND = re.compile(r"^\| `hta-graph ([a-z-]+) INPUT[^|]*` \|.*\n", re.MULTILINE)
SEVERAL_RANKS = "## Multiple ranks\n\n| command | what it answers |\n|---|---|\n"
ROWS_OF_TABLES = re.compile(r"(?<=^\| schema \| tables \|\n\|---\|---\|\n)(\|.*\n)*", re.MULTILINE)
ROWS_OF_STATUSES = re.compile(r"^\| 0 \|.*\n(\| \d+ \|.*\n)*", re.MULTILINE)
ROWS_OF_COUNTS = re.compile(r"(?<=^\| key \| counts \|\n\|---\|---\|\n)(\|.*\n)*", re.MULTILINE)
TABLE = re.compile(r"^(\|.*\n)+", re.MULTILINE)


def _commands(page: str) -> str:
    """Renew the rows of the commands: for each rank after ``what-if``, for multiple ranks in a table of their own."""
    analyses = list(every_analysis().values())
    names = {one.name for one in analyses}
    page = ROW_OF_COMMAND.sub(lambda row: "" if row[1] in names else row[0], page)
    ranks = [one for one in analyses if one.from_summaries]
    page = page.replace(SEVERAL_RANKS, SEVERAL_RANKS + _rows(ranks))
    alone = [one for one in analyses if not one.from_summaries]
    page = ROW_OF_COMMAND.sub(lambda row: row[0] + (_rows(alone) if row[1] == "what-if" else ""), page)
    statuses = "".join(f"| {status} | {meaning} |\n" for status, meaning in EXIT_STATUSES.items())
    page = ROWS_OF_STATUSES.sub(lambda _: statuses, page)
    for group, commands in command_groups().items():
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
        page, "# Edges of the graph\n", (f"| `{kind.label}` | {EDGE_MEANING[kind].says} |\n" for kind in missing)
    )


def _rows(analyses: Iterable[Analysis]) -> str:
    return "".join(f"| `{' '.join(_call(one))}` | {one.question} |\n" for one in analyses)


def _call(analysis: Analysis) -> list[str]:
    """Return the words of a command line that asks an analysis."""
    required = [f"{flag.option} {flag.value}" for flag in analysis.flags if flag.is_required]
    usage = [analysis.usage] if analysis.usage else required
    return ["hta-graph", analysis.name, "INPUT", *usage]


def _machine_output(page: str) -> str:
    """Renew the tables of all analyses and of the diagnostics."""
    listed = ((one.name, ", ".join(f"`{name}`" for name in one.tables)) for one in every_analysis().values())
    rows = "".join(f"| `hta-graph/{name}/1` | {tables} |\n" for name, tables in listed)
    counts = "".join(f"| `{key}` | {meaning} |\n" for key, meaning in DIAGNOSTICS.items())
    page = ROWS_OF_TABLES.sub(lambda _: rows, page)
    return ROWS_OF_COUNTS.sub(lambda _: counts, page)


def _words(page: str) -> str:
    """Renew the tables of classes and of causes, each found by its first row."""
    for meanings in (MEANING, CAUSE):
        rows = "".join(f"| `{key}` | {SHORT[key]} | {meaning} |\n" for key, meaning in meanings.items())
        first = next(iter(meanings))
        found = re.search(rf"^\| `{first}` \|.*\n(\| `.*\n)*", page, re.MULTILINE)
        page = page.replace(found[0], rows) if found else page
    return page


PAGES: Mapping[str, Callable[[str], str]] = {
    "commands.md": _commands,
    "tables.md": _words,
    "reading/edges.md": _edges,
    "reference/machine_output.md": _machine_output,
    "reference/hta_graph.md": graphs_page,
    "reference/analyses.md": questions_page,
    "reference/hta.md": filled,
    "reference/devices.md": device_table.PART.renewed,
    "../tests/roofline/operator_models.md": operator_model_table.PART.renewed,
}
"""Page of ``docs/`` → what renews it."""
