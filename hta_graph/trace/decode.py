"""JSON text → header and rows: a typed decoder that skips unneeded fields, a tolerant one where that fails."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from hta_graph.errors import TraceError
from hta_graph.trace.source import FileBytes

__all__ = ["Args", "Decoded", "Number", "Row", "decode", "exact_times", "paused_gc"]

Number = int | float | str | None
SALVAGE_TRIES = 64
"""How many closing braces to try from the end: an event nests only a few objects."""


class Args(msgspec.Struct, gc=False):
    """The arguments that decide edges; all others stay in the file."""

    correlation: Number = None
    stream: Number = None
    device: Number = None
    context: Number = None
    external_id: Number = msgspec.field(default=None, name="External id")
    old_external_id: Number = msgspec.field(default=None, name="external id")
    sequence: Number = msgspec.field(default=None, name="Sequence number")
    forward_thread: Number = msgspec.field(default=None, name="Fwd thread id")
    wait_on_stream: Number = None
    record_correlation: Number = msgspec.field(default=None, name="wait_on_cuda_event_record_corr_id")
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
    rows: list[Row] = msgspec.field(default_factory=list, name="traceEvents")
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


def _decode_strict(raw: bytes) -> Decoded:
    if raw.lstrip()[:1] == b"[":
        return Decoded(msgspec.json.decode(raw, type=list[Row]), raw=raw)
    document = msgspec.json.decode(raw, type=_Document)
    if not document.rows and b'"traceEvents"' not in raw:
        raise msgspec.ValidationError("no traceEvents")
    return Decoded(document.rows, document.base, document.distributed, document.devices, raw=raw)


def _decode_tolerant(path: Path, raw: bytes, *, salvage: bool) -> Decoded:
    """Read what a strict decoder refuses: NaN, control characters, huge integers, rows with fields of other types."""
    text = raw.decode("utf-8", errors="replace").lstrip("\ufeff")
    try:
        with paused_gc():
            document = json.loads(text, strict=False, parse_float=Decimal)
    except json.JSONDecodeError as error:
        at = len(text[: error.pos].encode())
        if not text[error.pos :].strip():
            return _recover(path, raw, f"the JSON breaks off at byte {at:,}", salvage=salvage)
        return _recover(path, raw, f"is not JSON: {error.msg} at byte {at:,}", salvage=salvage, limit=at)
    except RecursionError:
        raise TraceError(path, "nests JSON values too deeply to be a trace") from None
    except ValueError:
        raise TraceError(path, "holds a number with too many digits") from None
    return _from_document(path, document)


def _from_document(path: Path, document: object) -> Decoded:
    rows, header = _shape(path, document)
    kept = [_lenient_row(row) for row in rows if isinstance(row, dict)]
    if rows and not kept:
        raise TraceError(path, "is a list without event objects, not a trace", "give a Kineto trace")
    base, distributed, devices = (header.get(key) for key in _HEADER_KEYS)
    return Decoded(kept, base, distributed, devices, not_rows=len(rows) - len(kept), tolerant=True)


def _shape(path: Path, document: object) -> tuple[list[Any], dict[str, Any]]:
    if isinstance(document, list):
        return document, {}
    if not isinstance(document, dict):
        raise TraceError(path, f"holds a JSON {type(document).__name__}, not a trace")
    if "traceEvents" not in document:
        keys = ", ".join(list(document)[:5]) or "none"
        kind = "a host execution trace" if "nodes" in document else "JSON"
        raise TraceError(path, f"is {kind} without traceEvents (its keys: {keys})", "give a Kineto trace")
    rows = document["traceEvents"]
    if not isinstance(rows, list):
        raise TraceError(path, f"has traceEvents of type {type(rows).__name__}, not a list")
    return rows, document


def _lenient_row(row: dict[str, Any]) -> Row:
    args = row.get("args")
    values = {name: _plain(row.get(name)) for name in ("pid", "tid", "ts", "dur", "id")}
    texts = {name: row[name] for name in ("ph", "cat", "name") if isinstance(row.get(name), str)}
    return Row(args=_lenient_args(args) if isinstance(args, dict) else None, **texts, **values)


def _lenient_args(args: dict[str, Any]) -> Args:
    return Args(**{f.name: _plain(args.get(f.encode_name)) for f in msgspec.structs.fields(Args)})


def _plain(value: object) -> Any:
    """Keep numbers and text; a value of another type counts as absent."""
    return value if isinstance(value, (int, float, str, Decimal)) and not isinstance(value, bool) else None


def _recover(path: Path, raw: bytes, cause: str, *, salvage: bool, limit: int | None = None) -> Decoded:
    found = _whole_events(raw[:limit])
    count = len(found.rows) if found else 0
    if found is None or not salvage:
        remedy = "--salvage reads those" if count else "record the trace again"
        raise TraceError(path, f"{cause}, after {count:,} whole events", remedy)
    return Decoded(
        found.rows, found.base, found.distributed, found.devices, salvaged=f"{cause}, {count:,} whole events read"
    )


def _whole_events(raw: bytes) -> Decoded | None:
    """Decode the part up to the last whole event: cut behind a closing brace and close what is open."""
    opening = raw.find(b'"traceEvents"')
    is_array = raw.lstrip()[:1] == b"["
    if opening < 0 and not is_array:
        return None
    end = len(raw)
    for _ in range(SALVAGE_TRIES):
        end = raw.rfind(b"}", 0, end)
        if end < opening or end < 0:
            break
        text = raw[: end + 1] + (b"]" if is_array else b"]}")
        try:
            return _decode_strict(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
    return None


def exact_times(decoded: Decoded) -> list[Decimal | None]:
    """Decode the timestamps once more as decimal text, for a dialect whose fractions a float cannot hold."""
    with paused_gc():
        if decoded.raw.lstrip()[:1] == b"[":
            return [row.ts for row in msgspec.json.decode(decoded.raw, type=list[_TimeRow])]
        return [row.ts for row in msgspec.json.decode(decoded.raw, type=_TimeDocument).rows]
