"""The files of all schemas in this folder: their names, and their contents."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from hta_graph.base.errors import UsageError

FOLDER = "analyses.schemas"
ENDING = ".json"


def schema_names() -> list[str]:
    """Return the names of all schemas, in alphabetical order.

    >>> [name for name in schema_names() if name.startswith("critical")]
    ['critical-path', 'critical-path-evidence', 'critical-path-per-step']
    """
    found = (item.name for item in files(FOLDER).iterdir())
    return sorted(name.removesuffix(ENDING) for name in found if name.endswith(ENDING))


def schema(name: str) -> dict[str, Any]:
    """Return a schema as an object for validators.

    >>> schema("info")["$id"]
    'urn:hta-graph:info:1'

    Raises:
        UsageError: there is no such schema.
    """
    found: dict[str, Any] = json.loads(schema_text(name))
    return found


def schema_text(name: str) -> str:
    """Return a schema as the text of its file.

    Raises:
        UsageError: there is no such schema.
    """
    known = schema_names()
    if name not in known:
        raise UsageError(f"there is no schema {name!r}; available: {', '.join(known)}")
    return (files(FOLDER) / f"{name}{ENDING}").read_text(encoding="utf-8")
