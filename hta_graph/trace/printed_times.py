"""Timestamps as they are printed, for a dialect whose fractions a float cannot hold."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import msgspec

from hta_graph.trace.json_reader import is_array
from hta_graph.trace.tolerant import parse_leniently

__all__ = ["decimal_timestamps"]


class _TimeRow(msgspec.Struct, gc=False):
    ts: Decimal | None = None


class _TimeDocument(msgspec.Struct):
    rows: list[_TimeRow] = msgspec.field(default_factory=list, name="traceEvents")


def decimal_timestamps(text: bytes) -> Sequence[object]:
    """Decode the timestamps of a list of rows, or of a document that holds one, once more as decimal text."""
    try:
        if is_array(text):
            return [row.ts for row in msgspec.json.decode(text, type=list[_TimeRow])]
        return [row.ts for row in msgspec.json.decode(text, type=_TimeDocument).rows]
    except msgspec.ValidationError:
        document = parse_leniently(text)
        return [row.get("ts") for row in (document if isinstance(document, list) else document["traceEvents"])]
