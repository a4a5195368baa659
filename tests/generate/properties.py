"""The words of which schemas are made: a type, one sentence about it, its unit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from analyses.declare import columns
from analyses.declare.columns import Column
from hta_graph.model import Reason

__all__ = [
    "Schema",
    "boolean",
    "bound_by",
    "by_key",
    "by_rank",
    "byte_count",
    "defined",
    "document",
    "integer",
    "list_of",
    "ns",
    "number",
    "of_column",
    "one_of",
    "rate",
    "reason",
    "record",
    "share",
    "text",
]

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
OF_NUMBERS = {"pattern": "^-?[0-9]+$"}
"""Names of properties that are numbers of ranks or nodes."""


def of_column(column: Column) -> Schema:
    """Describe the values of a column."""
    return {
        "type": [column.type, "null"] if column.null else column.type,
        "description": column.description,
        **({"enum": [*column.values, *([None] if column.null else [])]} if column.values else {}),
        **({"items": of_column(column.items)} if column.items else {}),
    }


def _property(described: Callable[..., Column]) -> Callable[..., Schema]:
    """Describe a property, whose name its object has, as a column of such values is described."""
    return lambda says, *, null=False: of_column(described("", says, null=null))


integer, number, text, ns = map(_property, (columns.integer, columns.number, columns.text, columns.ns))
boolean, bound_by, byte_count = map(_property, (columns.boolean, columns.bound_by, columns.byte_count))
rate, share = map(_property, (columns.rate, columns.share))


def one_of(labels: Iterable[str], says: str, *, null: bool = False) -> Schema:
    """Describe a value from a list."""
    return of_column(columns.text("", says, null=null, values=[*labels]))


def list_of(of: Schema, says: str) -> Schema:
    """Describe a list."""
    return {"type": "array", "description": says, "items": of}


def reason(says: str, *, null: bool = False) -> Schema:
    """Describe why time is unexplained."""
    return one_of([kind.label for kind in Reason], says, null=null)


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
