"""The second reader of JSON: for what a strict decoder refuses, such as NaN, control characters and huge integers."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from hta_graph.errors import NotATraceError, TraceError
from hta_graph.storage.location import Location
from hta_graph.text.sanitize import replace_surrogates
from hta_graph.trace.rows import Header, RowShape, header_of_object

__all__ = ["FaultError", "LenientRows", "replace_half_escapes", "parse_leniently", "read_leniently"]

CUT_LITERAL = re.compile(r"t(r(ue?)?)?|f(a(l(se?)?)?)?|n(u(ll?)?)?|N(aN?)?|-?I(n(f(i(n(i(ty?)?)?)?)?)?)?|-?[\d.eE+-]*")


class FaultError(Exception):
    """A text is no JSON from a byte on; without a cause, because it ends there."""

    def __init__(self, byte: int, cause: str = "") -> None:
        super().__init__(byte, cause)
        self.byte = byte
        self.cause = cause


@dataclass(frozen=True)
class LenientRows:
    """The rows of a text, how many of them are no objects (they are kept as empty rows), and its header."""

    rows: list[Any]
    non_objects: int
    header: Header


def read_leniently(path: Location, raw: bytes, shape: RowShape[Any]) -> LenientRows:
    """Read a trace's document or a list of rows.

    Raises:
        FaultError: it is no JSON.
        TraceError: it is JSON of another shape, or beyond what can be read.
    """
    text = _text_of_bytes(raw)
    try:
        document = parse_leniently(text)
    except json.JSONDecodeError as error:
        raise _fault_in_text(text, raw, error) from None
    except RecursionError:
        raise TraceError(path, "nests JSON values too deeply to be a trace") from None
    except ValueError:
        raise TraceError(path, "holds a number with too many digits") from None
    rows, header = _rows_and_header(path, document)
    kept = [shape.from_object(row if isinstance(row, dict) else {}) for row in rows]
    non_objects = sum(not isinstance(row, dict) for row in rows)
    return LenientRows(kept, non_objects, header_of_object(header))


def _text_of_bytes(raw: bytes) -> str:
    """Decode UTF-8; a bad byte becomes one character of its own, so that places in the text stay places in the file."""
    return raw.decode("utf-8", errors="surrogateescape").lstrip("\ufeff")


def parse_leniently(text: str | bytes) -> Any:
    """Parse JSON, keeping every number exact.

    Raises:
        ValueError: it is no JSON.
    """
    whole = replace_half_escapes(_text_of_bytes(text) if isinstance(text, bytes) else text)
    return json.loads(whole, strict=False, parse_float=_exact_decimal)


def replace_half_escapes(text: str) -> str:
    r"""Replace in JSON text what no encoding can write: bytes that were not UTF-8, and lone halves of characters.

    Places in the text stay what they are.

    >>> replace_half_escapes(r'["\ud83d", "\ud83d\ude00", "\\ud83d", "' + "\udcff" + '"]')
    '["\\ufffd", "\\ud83d\\ude00", "\\\\ud83d", "\ufffd"]'
    """
    text = replace_surrogates(text)
    return _ESCAPE.sub(_whole_escape, text) if _HALF_ESCAPE.search(text) else text


_HALF_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)", re.DOTALL)
"""Escapes in JSON text; the group is half a character, which strict JSON cannot hold."""


def _whole_escape(escape: re.Match[str]) -> str:
    return r"\ufffd" if escape[1] else escape[0]


def _exact_decimal(text: str) -> Any:
    """Keep a number exact; one with an absurd exponent is no number."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return math.nan


def _fault_in_text(text: str, raw: bytes, error: json.JSONDecodeError) -> FaultError:
    """Say where a text stops being JSON; a token that the end of the text cuts off is a break."""
    rest = text[error.pos :].strip()
    if not rest or error.msg.startswith("Unterminated string") or CUT_LITERAL.fullmatch(rest):
        return FaultError(len(raw))
    byte = len(text[: error.pos].encode("utf-8", errors="surrogateescape"))
    return FaultError(byte, error.msg.removesuffix(" at"))


def _rows_and_header(path: Location, document: object) -> tuple[list[Any], dict[str, Any]]:
    if isinstance(document, list):
        return document, {}
    if not isinstance(document, dict):
        raise NotATraceError(path, f"holds a JSON {type(document).__name__}, not a trace")
    if "traceEvents" not in document:
        keys = ", ".join(list(document)[:5]) or "none"
        kind = "a host execution trace" if "nodes" in document else "JSON"
        raise NotATraceError(path, f"is {kind} without traceEvents (its keys: {keys})", "give a Kineto trace")
    rows = document["traceEvents"]
    if not isinstance(rows, list):
        raise TraceError(path, f"has traceEvents of type {type(rows).__name__}, not a list")
    return rows, document
