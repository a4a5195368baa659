"""The golden answers: one call of HTA per file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

__all__ = ["POSITION", "Golden", "golden_answers"]

POSITION = "index:0"
"""How a nameless index is listed."""


@dataclass(frozen=True)
class Golden:
    """One call of HTA: on which trace, what was asked, and what came back."""

    trace: str
    name: str
    path: Path

    @cached_property
    def document(self) -> dict[str, Any]:
        """All that the file says."""
        found: dict[str, Any] = json.loads(self.path.read_text())
        return found

    @property
    def method(self) -> str:
        """What was called."""
        return str(self.document["method"]).rsplit(".", 1)[-1]

    @property
    def arguments(self) -> dict[str, Any]:
        """With what it was called."""
        found: dict[str, Any] = self.document["args"]
        return found

    @property
    def error(self) -> str:
        """What was raised; empty if it answered."""
        return str(self.document.get("error", ""))

    @cached_property
    def result(self) -> Any:
        """The answer, None if it raised; without the positions in frames that HTA leaves as a nameless index."""
        return _without_positions(self.document["result"]) if "result" in self.document else None

    @property
    def is_rounding_off(self) -> bool:
        """Whether HTA was told not to round times."""
        return self.trace.endswith("__ns_rounding_off")

    @property
    def recording(self) -> str:
        """The name of the trace that was asked about."""
        return self.trace.removesuffix("__ns_rounding_off")


def _without_positions(part: Any) -> Any:
    if part["kind"] in ("dict", "tuple"):
        items = part["items"]
        own = {
            key: _without_positions(item)
            for key, item in (items.items() if isinstance(items, dict) else enumerate(items))
        }
        return part | {"items": own if isinstance(items, dict) else list(own.values())}
    if POSITION not in part.get("columns", [])[:1]:
        return part
    shorter = {key: [row[1:] for row in part[key]] for key in ("rows", "head", "tail") if key in part}
    return part | {"columns": part["columns"][1:]} | shorter


def golden_answers(folder: Path) -> Iterator[Golden]:
    """Return every call, trace by trace."""
    for path in sorted(folder.glob("*/*.json")):
        if not path.stem.startswith("independent"):
            yield Golden(path.parent.name, path.stem, path)
