"""Where an answer goes: the files that a command line names for it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from itertools import islice
from typing import TYPE_CHECKING, Any, TextIO

from analyses.cli.path_args import JsonFile
from analyses.display.stderr import clear_progress, say
from hta_graph.base.errors import UsageError
from hta_graph.base.storage.location import is_remote, resolve_location

if TYPE_CHECKING:
    from analyses.display.text_layout import Line
    from hta_graph.base.errors import HtaGraphError
    from hta_graph.base.text.json_text import Records


PAGES = (".html", ".htm")
FORMATS = {".json": "json", ".csv": "csv", **dict.fromkeys(PAGES, "plot")}
"""Suffix of a file → the option that writes this format."""
INSTEAD_OF_TEXT = ("json", "csv", "plot", "external_ids", "parquet", "kineto", "markdown", "update")
"""Options with which a command prints no text."""


def resolve_answer_file(options: argparse.Namespace) -> None:
    """Replace ``--output`` of an answer by the option of its format; a file that gets text stays in ``answer``.

    Raises:
        UsageError: the command does not write this format, or another option leaves no text to write.
    """
    target = getattr(options, "answer", None)
    if target is None or target == "-":
        options.answer = None
        return
    option = FORMATS.get(resolve_location(target).suffix.lower()) if hasattr(options, "json") else None
    if option is None:
        _check_text_is_printed(target, options)
        return
    if not hasattr(options, option):
        formats = [suffix for suffix, name in FORMATS.items() if hasattr(options, name)]
        raise UsageError(f"{target}: this command writes {', '.join(formats)} or text; name another file")
    if getattr(options, option):
        raise UsageError(f"{target}: --{option} names this output too; omit one of them")
    setattr(options, option, JsonFile(target) if option == "json" else target)
    options.answer = None


def _check_text_is_printed(target: str, options: argparse.Namespace) -> None:
    """Refuse a file for text where other options replace the text."""
    if others := [name for name in INSTEAD_OF_TEXT if getattr(options, name, None)]:
        option = f"--{others[0].replace('_', '-')}"
        raise UsageError(f"{target}: {option} leaves no text to write there; omit one of them")


class _AnswerText(StringIO):
    """What is printed for the file of an answer; another output that is named ``-`` goes to what is ``beneath``."""

    def __init__(self) -> None:
        super().__init__()
        self.beneath = sys.stdout


def run_command(options: argparse.Namespace) -> None:
    """Run a command; write what it prints to the file that the command line names, whole or not at all."""
    target = getattr(options, "answer", None)
    if target is None:
        options.run(options)
        return
    from hta_graph.base.storage.atomic_write import write_file

    text = _AnswerText()
    try:
        with redirect_stdout(text):
            options.run(options)
    finally:
        # A check that fails prints what it found first.
        if text.getvalue():
            write_file(target, text.getvalue().encode(errors="backslashreplace"))


@dataclass(frozen=True)
class Outputs:
    """Where an answer goes: to files, else to the terminal, uncut if ``wide``.

    ``all_rows`` prints every row of its tables. ``left_out`` are the errors of files that could not be read; JSON lists
    them.
    """

    json: str | None = None
    csv: str | None = None
    plot: str | None = None
    wide: bool = False
    all_rows: bool = False
    left_out: Sequence[HtaGraphError] = ()

    @classmethod
    def of(cls, options: argparse.Namespace) -> Outputs:
        """Return the outputs of a command line."""
        return cls(options.json, options.csv, options.plot, options.wide, options.all_rows, options.left_out)

    @property
    def is_terminal(self) -> bool:
        """Whether no file is named."""
        return not (self.json or self.csv or self.plot)


def write_output(
    options: argparse.Namespace,
    document: Callable[[], Mapping[str, Any]],
    lines: Callable[[], Sequence[Line]],
    *,
    table: str = "",
) -> None:
    """Write an answer as JSON or as CSV where a file is named for it, else print it; next to a file its first line.

    Args:
        options: the command line.
        document: the answer as JSON.
        lines: the answer as text.
        table: the key of the main table in the document, for CSV.
    """
    csv = getattr(options, "csv", None)
    if not (options.json or csv):
        print_lines(lines(), wide=options.wide)
        return
    found = document()
    if options.json:
        write_json(options.json, found, options.left_out)
        if csv != "-":
            print_first_sentence(options.json, lines())
    if csv:
        write_records(csv, found[table])


def print_first_sentence(json: str, lines: Iterable[Line]) -> None:
    """Print the first sentence of an answer that a file gets as JSON; a pipe or standard output gets JSON alone."""
    from hta_graph.base.storage.output_paths import is_written_directly

    place = resolve_location(json)
    try:
        os.write(1, b"")
    except OSError:
        return  # who closed standard output has the answer in the file
    if json != "-" and (is_remote(place) or not is_written_directly(place)):
        print_lines([line for line in islice(lines, 1) if isinstance(line, str) and line])


def print_lines(lines: Sequence[Line], *, wide: bool = False, to: TextIO | None = None) -> None:
    """Print the lines of an answer, by default on standard output."""
    from analyses.display.console import print_lines as write  # late: --help needs no tables

    clear_progress()
    write(lines, wide=wide, to=to)


def write_records(target: str, records: Records | Sequence[Mapping[str, Any]]) -> None:
    """Write a table of a document as CSV; a cell that holds several values is JSON."""
    from hta_graph.base.storage.atomic_write import write_file
    from hta_graph.base.text.csv_text import csv_rows
    from hta_graph.base.text.json_text import Records

    if isinstance(records, Records):
        columns = {name: column.tolist() for name, column in records.columns.items()}
    else:
        names = dict.fromkeys(name for record in records for name in record)
        columns = {name: [record.get(name) for record in records] for name in names}
    write_file(target, csv_rows([[name, *map(_cell, column)] for name, column in columns.items()]))


def _cell(value: Any) -> Any:
    if not isinstance(value, dict | list):
        return value
    import orjson

    return orjson.dumps(value).decode()


def write_json(target: str, document: Mapping[str, Any], left_out: Sequence[HtaGraphError]) -> None:
    """Write a document as JSON; its key ``unread`` lists the errors of files that were left out."""
    from hta_graph.base.storage.atomic_write import write_file

    write_file(target, json_pieces(document, left_out))


def json_pieces(document: Mapping[str, Any], left_out: Sequence[HtaGraphError]) -> Iterator[bytes]:
    """Yield the text of the same."""
    from hta_graph.base.text.json_text import to_json

    unread = [error.on_command_line for error in left_out]
    return to_json({**document, **({"unread": unread} if unread else {})})


def check_page_name(target: str) -> None:
    """Refuse a file name that no browser opens as a page; ``-`` is standard output.

    Raises:
        UsageError: it has another suffix.
    """
    if target != "-" and resolve_location(target).suffix.lower() not in PAGES:
        raise UsageError(f"{target}: not an HTML file; name one that ends in .html")


def print_open_in_browser(target: str) -> None:
    """Print how to view a page, unless it went to standard output."""
    if target != "-":
        say(f"{target}: open it in a browser")
