"""Where an answer goes: the files that a command line names for it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Outputs", "write_json"]


@dataclass(frozen=True)
class Outputs:
    """Where an answer goes; to the terminal if it is written nowhere, where ``wide`` cuts nothing."""

    json: str | None = None
    csv: str | None = None
    plot: str | None = None
    wide: bool = False

    @classmethod
    def of(cls, options: argparse.Namespace) -> Outputs:
        """Return what a command line names."""
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
