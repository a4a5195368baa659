"""Schemas as tests take them: every object is closed, so that a key which no schema describes is an error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.validators import extend

from analyses.schemas import schema

__all__ = ["described_places", "schema_errors", "schema_name", "written_places"]

LIKE_ENOUGH = 3
"""Of records that differ in nothing a schema speaks of so many are looked at."""

WHOLE = Draft202012Validator.TYPE_CHECKER.redefine(
    "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
)
"""For JSON Schema 1.0 is an integer; a time that passed through a float is none here."""
StrictValidator = extend(Draft202012Validator, type_checker=WHOLE)


def schema_name(document: Mapping[str, Any]) -> str:
    """Return the name in a document's schema."""
    begin, name, version = str(document["schema"]).split("/")
    assert (begin, version) == ("hta-graph", "1")
    return name


def schema_errors(document: Mapping[str, Any]) -> list[str]:
    """Return where a document is not what its schema says, and how."""
    found = _validator(schema_name(document)).iter_errors(_thinned(document))
    return [f"{'/'.join(map(str, error.absolute_path))}: {error.message:.300}" for error in found]


@cache
def _validator(name: str) -> Any:
    closed = _closed(schema(name))
    StrictValidator.check_schema(closed)
    return StrictValidator(closed)


def _closed(part: Any) -> Any:
    """Close every object of a schema that lists its properties."""
    if isinstance(part, list):
        return [_closed(item) for item in part]
    if not isinstance(part, dict):
        return part
    closed = {"additionalProperties": False} if part.get("type") == "object" and "properties" in part else {}
    return {**closed, **{key: _closed(value) for key, value in part.items()}}


def _thinned(value: Any) -> Any:
    """Leave out of long lists records that are like others: a graph's edges would take minutes."""
    if isinstance(value, dict):
        return {key: _thinned(item) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    seen: Counter[Any] = Counter()
    kept = []
    for item in value:
        like = _likeness(item)
        seen[like] += 1
        if seen[like] <= LIKE_ENOUGH:
            kept.append(_thinned(item))
    return kept


def _likeness(value: Any) -> Any:
    """Return what makes a value different for a schema: its keys and types, and short words, which may be of a list."""
    if isinstance(value, dict):
        return tuple((key, _likeness(item)) for key, item in value.items())
    if isinstance(value, list):
        return tuple(sorted({str(_likeness(item)) for item in value}))
    return value if isinstance(value, str) and len(value) < 30 and value.islower() else type(value)


def described_places(name: str) -> set[str]:
    """Return the places of all properties that a schema describes, such as ``segments[].edge``."""
    return set(_described(schema(name), schema(name), ""))


def _described(part: Mapping[str, Any], whole: Mapping[str, Any], at: str) -> Iterator[str]:
    if "$ref" in part:
        part = whole["$defs"][part["$ref"].rpartition("/")[2]]
    for key, item in part.get("properties", {}).items():
        yield f"{at}.{key}".lstrip(".")
        yield from _described(item, whole, f"{at}.{key}")
    if "items" in part:
        yield from _described(part["items"], whole, f"{at}[]")


def written_places(value: Any, at: str = "") -> set[str]:
    """Return the places of a document that hold something, as :func:`described_places` names them."""
    found: set[str] = set()
    if isinstance(value, dict):
        for key, item in value.items():
            place = f"{at}.{key}".lstrip(".")
            found |= {place} if item is not None else set()
            found |= written_places(item, place)
    elif isinstance(value, list):
        for item in _thinned(value):
            found |= written_places(item, f"{at}[]")
    return found
