"""Where an answer goes: the files that a command line names for it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analyses.display.stderr import say
from hta_graph.errors import UsageError
from hta_graph.storage.location import resolve_location

if TYPE_CHECKING:
    from hta_graph.errors import HtaGraphError


PAGES = (".html", ".htm")


@dataclass(frozen=True)
class Outputs:
    """Where an answer goes; to the terminal if it is written nowhere, where ``wide`` cuts nothing.

    ``all_rows`` prints every row of its tables.

    ``left_out`` are the files that could not be read, of which JSON tells.
    """

    json: str | None = None
    csv: str | None = None
    plot: str | None = None
    wide: bool = False
    all_rows: bool = False
    left_out: Sequence[HtaGraphError] = ()

    @classmethod
    def of(cls, options: argparse.Namespace) -> Outputs:
        """Return what a command line names."""
        return cls(options.json, options.csv, options.plot, options.wide, options.all_rows, options.left_out)

    @property
    def is_terminal(self) -> bool:
        """Whether no file is named."""
        return not (self.json or self.csv or self.plot)


def write_json(target: str, document: Mapping[str, Any], left_out: Sequence[HtaGraphError]) -> None:
    """Write a document as JSON; ``unread`` tells which files were left out of it, and why."""
    from hta_graph.storage.atomic_write import write_file
    from hta_graph.text.json_text import to_json

    unread = [error.on_command_line for error in left_out]
    write_file(target, to_json({**document, **({"unread": unread} if unread else {})}))


def check_page_name(target: str) -> None:
    """Refuse a page under a name that no browser opens as one; ``-`` is standard output.

    Raises:
        UsageError: the name ends otherwise.
    """
    if target != "-" and resolve_location(target).suffix.lower() not in PAGES:
        raise UsageError(f"{target}: a page is written as .html or .htm")


def print_open_in_browser(target: str) -> None:
    """Tell what to do with a page, unless it went to standard output."""
    if target != "-":
        say(f"{target}: open it in a browser")
