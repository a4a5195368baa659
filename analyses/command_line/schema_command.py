"""schema: the JSON Schemas of what other commands write."""

from __future__ import annotations

import argparse

from analyses.command_line.asked_ranks import print_lines

__all__ = ["add_name", "schema"]


def add_name(parser: argparse.ArgumentParser) -> None:
    """Add which schema is wanted."""
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="print this one; without it the names of all are listed"
    )


def schema(options: argparse.Namespace) -> None:
    """Print a schema as it is shipped, or list the names of all."""
    from analyses.schemas import schema_names, schema_text

    print_lines(schema_names() if options.name is None else schema_text(options.name).splitlines(), wide=True)
