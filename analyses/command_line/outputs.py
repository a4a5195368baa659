"""What to write: the files that a command line names, refused at once where they cannot be written."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hta_graph.errors import UsageError

__all__ = ["Outputs", "check_outputs", "write_json"]


def check_outputs(inputs: Sequence[str], *outputs: str | None) -> None:
    """Refuse outputs that cannot be written, or are inputs, before any work is done."""
    from hta_graph.export.files import check_output
    from hta_graph.trace.rank_files import expand

    named = [output for output in outputs if output]
    if len({str(Path(output).absolute()) for output in named}) < len(named):
        raise UsageError("two outputs name the same file")
    # Folders are expanded only where something is written: for a table on the terminal nothing can be in the way.
    paths = expand([Path(item) for item in inputs]) if named else []
    for output in named:
        check_output(output, paths)


@dataclass(frozen=True)
class Outputs:
    """Where an answer goes; to the terminal if it is written nowhere, where ``wide`` cuts nothing."""

    json: str | None = None
    csv: str | None = None
    plot: str | None = None
    wide: bool = False

    @classmethod
    def of(cls, options: argparse.Namespace, inputs: Sequence[str], *others: str | None) -> Outputs:
        """Return what a command line names, after a look at whether that and ``others`` can be written."""
        check_outputs(inputs, options.json, options.csv, options.plot, *others)
        return cls(options.json, options.csv, options.plot, options.wide)

    @property
    def is_terminal(self) -> bool:
        """Whether no file is named."""
        return not (self.json or self.csv or self.plot)


def write_json(target: str, document: Mapping[str, Any]) -> None:
    """Write a document as JSON."""
    from hta_graph.export.files import write_file
    from hta_graph.export.json_text import to_json

    write_file(target, to_json(document))
