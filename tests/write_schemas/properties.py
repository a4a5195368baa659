"""The words of which schemas are made: a type, one sentence about it, its unit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hta_graph.model import BoundBy, Reason

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
OF_NUMBERS = {"pattern": "^-?[0-9]+$"}
"""Names of properties that are numbers of ranks or nodes."""


def whole(says: str, *, null: bool = False) -> Schema:
    """Describe an integer."""
    return _described("integer", says, null=null)


def ns(says: str, *, null: bool = False) -> Schema:
    """Describe a time in integer nanoseconds."""
    return whole(f"{says} (ns)", null=null)


def size(says: str, *, null: bool = False) -> Schema:
    """Describe a number of bytes."""
    return whole(f"{says} (bytes)", null=null)


def share(says: str, *, null: bool = False) -> Schema:
    """Describe a fraction of one."""
    return number(f"{says} (a fraction of one)", null=null)


def rate(says: str, *, null: bool = False) -> Schema:
    """Describe a rate in 10^9 bytes per second."""
    return number(f"{says} (GB/s, 10^9 bytes per second)", null=null)


def number(says: str, *, null: bool = False) -> Schema:
    """Describe a number that need not be an integer."""
    return _described("number", says, null=null)


def text(says: str, *, null: bool = False) -> Schema:
    """Describe a text."""
    return _described("string", says, null=null)


def flag(says: str) -> Schema:
    """Describe what is true or false."""
    return _described("boolean", says)


def one_of(labels: Iterable[str], says: str, *, null: bool = False) -> Schema:
    """Describe a word out of a list."""
    return {**text(says, null=null), "enum": [*labels, *([None] if null else [])]}


def bound_by(says: str, *, null: bool = False) -> Schema:
    """Describe a class of time on a critical path."""
    return one_of([kind.label for kind in BoundBy], says, null=null)


def reason(says: str, *, null: bool = False) -> Schema:
    """Describe why time is unexplained."""
    return one_of([kind.label for kind in Reason], says, null=null)


def listed(of: Schema, says: str) -> Schema:
    """Describe a list."""
    return {"type": "array", "description": says, "items": of}


def record(properties: Mapping[str, Schema], says: str, optional: Iterable[str] = ()) -> Schema:
    """Describe an object whose properties have names; those that are not optional are always there."""
    left_out = set(optional)
    if unknown := left_out - properties.keys():
        raise ValueError(f"no property: {sorted(unknown)}")
    required = [name for name in properties if name not in left_out]
    return {"type": "object", "description": says, "required": required, "properties": dict(properties)}


def by_key(of: Schema, says: str, names: Schema | None = None) -> Schema:
    """Describe an object whose keys are found in the trace."""
    return {
        "type": "object",
        "description": says,
        **({"propertyNames": names} if names else {}),
        "additionalProperties": of,
    }


def by_rank(says: str) -> Schema:
    """Describe times by rank, whose number is the key as text."""
    return by_key(ns("the time of the rank that the key names"), says, OF_NUMBERS)


def defined(name: str, says: str = "") -> Schema:
    """Refer to a definition of the same file."""
    return {"$ref": f"#/$defs/{name}", **({"description": says} if says else {})}


def document(
    name: str,
    says: str,
    properties: Mapping[str, Schema],
    optional: Iterable[str] = (),
    *,
    definitions: Mapping[str, Schema] | None = None,
    together: Mapping[str, list[str]] | None = None,
) -> Schema:
    """Make the schema of a whole document.

    ``together``: where the property is there, the listed ones are, too.
    """
    marked = {"schema": {"const": f"hta-graph/{name}/1", "description": "Names this schema."}, **properties}
    body = record(marked, says, optional)
    return {
        "$schema": DIALECT,
        "$id": f"urn:hta-graph:{name}:1",
        "title": f"hta-graph/{name}/1",
        **body,
        **({"dependentRequired": dict(together)} if together else {}),
        **({"$defs": dict(definitions)} if definitions else {}),
    }


def _described(kind: str, says: str, *, null: bool = False) -> Schema:
    return {"type": [kind, "null"] if null else kind, "description": says}
