"""JSON text → header and rows: a typed decoder that skips unneeded fields, a tolerant one where that fails."""

from __future__ import annotations

import gc
import json
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import msgspec

from hta_graph.errors import NotATraceError, TraceError
from hta_graph.trace.source import FileBytes

__all__ = ["Args", "Decoded", "Number", "Row", "decode", "exact_times", "paused_gc"]

Number = int | float | str | None
SALVAGE_TRIES = 1_000
"""How many closing braces to try from the end: an event nests a few objects, its name may hold many braces."""


class Args(msgspec.Struct, gc=False):
    """The arguments that decide edges; all others stay in the file."""

    correlation: Number = -1
    stream: Number = None
    device: Number = None
    context: Number = None
    external_id: Number = msgspec.field(default=-1, name="External id")
    old_external_id: Number = msgspec.field(default=-1, name="external id")
    sequence: Number = msgspec.field(default=-1, name="Sequence number")
    forward_thread: Number = msgspec.field(default=-1, name="Fwd thread id")
    wait_on_stream: Number = -1
    record_correlation: Number = msgspec.field(default=-1, name="wait_on_cuda_event_record_corr_id")
    collective: Number = msgspec.field(default=None, name="Collective name")


class Row(msgspec.Struct, gc=False):
    """One element of ``traceEvents``."""

    ph: str | None = None
    cat: str | None = None
    name: str | None = None
    pid: Number = None
    tid: Number = None
    ts: Number = None
    dur: Number = None
    args: Args | None = None
    id: Number = None


class _Document(msgspec.Struct):
    rows: list[Row] = msgspec.field(name="traceEvents")
    base: Any = msgspec.field(default=None, name="baseTimeNanoseconds")
    distributed: Any = msgspec.field(default=None, name="distributedInfo")
    devices: Any = msgspec.field(default=None, name="deviceProperties")


class _TimeRow(msgspec.Struct, gc=False):
    ts: Decimal | None = None


class _TimeDocument(msgspec.Struct):
    rows: list[_TimeRow] = msgspec.field(default_factory=list, name="traceEvents")


_HEADER_KEYS = tuple(f.encode_name for f in msgspec.structs.fields(_Document))[1:]


@dataclass(frozen=True)
class Decoded:
    """Rows in file order, the header's fields that matter, and what was repaired on the way."""

    rows: list[Row]
    base: Any = None
    distributed: Any = None
    devices: Any = None
    not_rows: int = 0
    tolerant: bool = False
    salvaged: str | None = None
    raw: bytes = field(default=b"", repr=False)


@contextmanager
def paused_gc() -> Iterator[None]:
    """Keep the cyclic collector from scanning millions of new rows again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def decode(path: Path, content: FileBytes, *, salvage: bool = False) -> Decoded:
    """Decode a trace.

    Raises:
        TraceError: not JSON, JSON of another shape, or broken off (with ``salvage`` the whole events are read).
    """
    if content.broken:
        return _recover(path, content.data, content.broken, salvage=salvage)
    try:
        with paused_gc():
            return _decode_strict(content.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _decode_tolerant(path, content.data, salvage=salvage)


def _is_array(raw: bytes) -> bool:
    return re.match(rb"\s*\[", raw) is not None


def _decode_strict(raw: bytes) -> Decoded:
    if _is_array(raw):
        return Decoded(msgspec.json.decode(raw, type=list[Row]), raw=raw)
    document = msgspec.json.decode(raw, type=_Document)
    return Decoded(document.rows, document.base, document.distributed, document.devices, raw=raw)


def _decode_tolerant(path: Path, raw: bytes, *, salvage: bool) -> Decoded:
    """Read what a strict decoder refuses: NaN, control characters, huge integers, rows with fields of other types."""
    text = _text(raw)
    try:
        document = _parse(text)
    except json.JSONDecodeError as error:
        return _recover(path, raw, _json_fault(text, raw, error), salvage=salvage, limit=_byte(text, error.pos))
    except RecursionError:
        raise TraceError(path, "nests JSON values too deeply to be a trace") from None
    except ValueError:
        raise TraceError(path, "holds a number with too many digits") from None
    return _from_document(path, document)


def _text(raw: bytes) -> str:
    """Decode UTF-8; a bad byte becomes one character of its own, so that places in the text stay places in the file."""
    return raw.decode("utf-8", errors="surrogateescape").lstrip("\ufeff")


def _parse(text: str) -> Any:
    with paused_gc():
        return json.loads(text, strict=False, parse_float=_decimal)


def _decimal(text: str) -> Any:
    """Keep a number exact; one with an absurd exponent is no number."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return math.nan


def _byte(text: str, position: int) -> int:
    return len(text[:position].encode("utf-8", errors="surrogateescape"))


def _json_fault(text: str, raw: bytes, error: json.JSONDecodeError) -> str:
    """Say where a text stops being JSON; a token that the end of the file cuts off is a break, not a fault."""
    rest = text[error.pos :].strip()
    if not rest or error.msg.startswith("Unterminated string") or _CUT_LITERAL.fullmatch(rest):
        return f"the JSON breaks off at byte {len(raw):,}"
    return f"is not JSON: {error.msg.removesuffix(' at')} at byte {_byte(text, error.pos):,}"


_CUT_LITERAL = re.compile(r"t(r(ue?)?)?|f(a(l(se?)?)?)?|n(u(ll?)?)?|N(aN?)?|-?I(n(f(i(n(i(ty?)?)?)?)?)?)?|-?[\d.eE+-]*")


def _from_document(path: Path, document: object) -> Decoded:
    rows, header = _shape(path, document)
    strangers = sum(not isinstance(row, dict) for row in rows)
    if rows and strangers == len(rows):
        raise NotATraceError(path, "is a list without event objects, not a trace", "give a Kineto trace")
    kept = [_lenient_row(row) if isinstance(row, dict) else Row() for row in rows]
    base, distributed, devices = (header.get(key) for key in _HEADER_KEYS)
    return Decoded(kept, base, distributed, devices, not_rows=strangers, tolerant=True)


def _shape(path: Path, document: object) -> tuple[list[Any], dict[str, Any]]:
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


def _lenient_row(row: dict[str, Any]) -> Row:
    args = row.get("args")
    values = {name: _plain(row.get(name)) for name in ("pid", "tid", "ts", "dur", "id")}
    texts = {name: _plain(row[name]) for name in ("ph", "cat", "name") if isinstance(row.get(name), str)}
    return Row(args=_lenient_args(args) if isinstance(args, dict) else None, **texts, **values)


def _lenient_args(args: dict[str, Any]) -> Args:
    return Args(**{f.name: _plain(args.get(f.encode_name)) for f in msgspec.structs.fields(Args)})


def _plain(value: object) -> Any:
    """Keep numbers and text, without what no encoding can write; a value of another type counts as absent."""
    if isinstance(value, str):
        return value if value.isascii() else _NOT_TEXT.sub("\ufffd", value)
    return value if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool) else None


_NOT_TEXT = re.compile("[\ud800-\udfff]+")
"""Bytes that were not UTF-8, and lone halves of surrogate pairs."""


def _recover(path: Path, raw: bytes, cause: str, *, salvage: bool, limit: int | None = None) -> Decoded:
    found = _whole_events(raw[:limit])
    count = len(found.rows) if found else 0
    if found is None or not salvage:
        remedy = "--salvage reads those" if count else "record the trace again"
        raise TraceError(path, f"{cause}, after {count:,} whole events", remedy)
    return replace(found, salvaged=f"{cause}, {count:,} whole events read")


def _whole_events(raw: bytes) -> Decoded | None:
    """Decode the part up to the last whole event: cut behind a closing brace and close what is open."""
    opening = raw.find(b'"traceEvents"')
    is_array = _is_array(raw)
    if opening < 0 and not is_array:
        return None
    end = len(raw)
    for _ in range(SALVAGE_TRIES):
        end = raw.rfind(b"}", 0, end)
        if end < max(opening, 0):
            break
        found = _closed(raw[: end + 1] + (b"]" if is_array else b"]}"))
        if found is not None:
            return found
    return None


def _closed(raw: bytes) -> Decoded | None:
    """Decode a text that was cut and closed; ``None`` if the cut was inside an event."""
    try:
        return _decode_strict(raw)
    except msgspec.ValidationError:
        pass
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if _is_at_the_end(str(error), len(raw)):
            return None
    try:
        return replace(_from_document(Path(), _parse(_text(raw))), raw=raw)
    except (ValueError, RecursionError, TraceError):
        return None


def _is_at_the_end(fault: str, size: int) -> bool:
    """Tell whether the strict decoder failed at the cut, and not at a value before it that a tolerant one reads."""
    place = re.search(r"byte (\d+)", fault)
    return "truncated" in fault or (place is not None and int(place[1]) >= size - 2)


def exact_times(decoded: Decoded) -> Sequence[object]:
    """Decode the timestamps once more as decimal text, for a dialect whose fractions a float cannot hold."""
    try:
        with paused_gc():
            if _is_array(decoded.raw):
                return [row.ts for row in msgspec.json.decode(decoded.raw, type=list[_TimeRow])]
            return [row.ts for row in msgspec.json.decode(decoded.raw, type=_TimeDocument).rows]
    except msgspec.ValidationError:
        document = _parse(_text(decoded.raw))
        return [row.get("ts") for row in (document if isinstance(document, list) else document["traceEvents"])]
