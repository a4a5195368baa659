"""schema: the JSON Schemas of what other commands write."""

from __future__ import annotations

import argparse

from analyses.cli.command import Command
from analyses.cli.rank_inputs import print_lines

__all__ = ["SCHEMA"]


def _add_name(parser: argparse.ArgumentParser) -> None:
    """Add which schema is wanted."""
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="print this one; without it the names of all are listed"
    )


def _run_schema(options: argparse.Namespace) -> None:
    """Print a schema as it is shipped, or list the names of all."""
    from analyses.schemas import schema_names, schema_text

    print_lines(schema_names() if options.name is None else schema_text(options.name).splitlines(), wide=True)


SCHEMA = Command(
    name="schema",
    help="The JSON Schemas of what the other commands write.",
    more="Without a name it lists them; with one it prints the file, for a validator of yours.",
    examples=("schema", "schema critical-path"),
    page="machine_output.md",
    options=(_add_name,),
    run=_run_schema,
)
