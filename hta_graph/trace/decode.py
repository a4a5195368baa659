"""JSON text → header and rows: a typed decoder that skips unneeded fields, a tolerant one where that fails."""

from __future__ import annotations

import gc
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hta_graph.errors import NotATraceError, TraceError
from hta_graph.trace.parts import Part, Parts, is_array
from hta_graph.trace.rows import EVENT_ROWS, HEADER_KEYS, Header, RowShape
from hta_graph.trace.source import FileBytes

__all__ = ["Decoded", "decode", "exact_times", "paused_gc", "with_fallback"]

Result = TypeVar("Result")

SALVAGE_TRIES = 1_000
"""How many closing braces to try from the end: an event nests a few objects, its name may hold many braces."""


class _TimeRow(msgspec.Struct, gc=False):
    ts: Decimal | None = None


class _TimeDocument(msgspec.Struct):
    rows: list[_TimeRow] = msgspec.field(default_factory=list, name="traceEvents")


@dataclass(frozen=True)
class Decoded:
    """Rows in file order, in parts; the header is known when all parts have been taken."""

    parts: Iterable[Part]
    known_header: Header | None = None
    not_rows: int = 0
    tolerant: bool = False
    salvaged: str | None = None

    @property
    def header(self) -> Header:
        """What the file says about itself."""
        return self.parts.header if isinstance(self.parts, Parts) else self.known_header or Header()

    @property
    def raw(self) -> bytes:
        """The strict text that the rows were decoded from; empty where a tolerant parser read them."""
        return b"".join(part.text for part in self.parts)

    @property
    def rows(self) -> list[Any]:
        """All rows at once."""
        return [row for part in self.parts for row in part.rows]


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
    """Decode a trace as a whole.

    Raises:
        TraceError: not JSON, JSON of another shape, or broken off (with ``salvage`` the whole events are read).
    """
    return with_fallback(path, content, _all_parts, salvage=salvage)


def _all_parts(decoded: Decoded) -> Decoded:
    parts = list(decoded.parts)
    return replace(decoded, parts=parts, known_header=decoded.header)


def with_fallback(
    path: Path,
    content: FileBytes,
    use: Callable[[Decoded], Result],
    *,
    salvage: bool,
    shape: RowShape[Any] = EVENT_ROWS,
) -> Result:
    """Use a trace decoded strictly, in parts; where it is not strict or breaks off, decoded tolerantly.

    Args:
        path: the file.
        content: its bytes.
        use: what to do with the rows.
        salvage: read the whole events of a file that breaks off.
        shape: what to read of each row.

    Raises:
        TraceError: as :func:`decode`.
    """
    with paused_gc():
        if not content.broken:
            try:
                return use(Decoded(Parts(content.data, shape)))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                pass
        return use(_Lenient(path, shape, salvage=salvage).decode(content))


@dataclass(frozen=True)
class _Lenient:
    """The second reader: for what a strict decoder refuses, and for files that break off."""

    path: Path
    shape: RowShape[Any]
    salvage: bool

    def decode(self, content: FileBytes) -> Decoded:
        if content.broken:
            return self._recover(content.data, content.broken)
        return self._decode_tolerant(content.data)

    def _decode_tolerant(self, raw: bytes) -> Decoded:
        """Read NaN, control characters, huge integers, rows with fields of other types."""
        text = _text(raw)
        try:
            document = _parse(text)
        except json.JSONDecodeError as error:
            return self._recover(raw, _json_fault(text, raw, error), limit=_byte(text, error.pos))
        except RecursionError:
            raise TraceError(self.path, "nests JSON values too deeply to be a trace") from None
        except ValueError:
            raise TraceError(self.path, "holds a number with too many digits") from None
        return self._from_document(document)

    def _from_document(self, document: object) -> Decoded:
        rows, header = _rows_and_header(self.path, document)
        strangers = sum(not isinstance(row, dict) for row in rows)
        if rows and strangers == len(rows):
            raise NotATraceError(self.path, "is a list without event objects, not a trace", "give a Kineto trace")
        kept = [self.shape.from_object(row if isinstance(row, dict) else {}) for row in rows]
        base, distributed, devices = (header.get(key) for key in HEADER_KEYS)
        return Decoded([Part(kept, b"")], Header(base, distributed, devices), not_rows=strangers, tolerant=True)

    def _recover(self, raw: bytes, cause: str, limit: int | None = None) -> Decoded:
        found = self._whole_events(raw[:limit])
        count = len(found.rows) if found else 0
        if found is None or not self.salvage:
            remedy = "--salvage reads those" if count else "record the trace again"
            raise TraceError(self.path, f"{cause}, after {count:,} whole events", remedy)
        return replace(found, salvaged=f"{cause}, {count:,} whole events read")

    def _whole_events(self, raw: bytes) -> Decoded | None:
        """Decode the part up to the last whole event: cut behind a closing brace and close what is open."""
        opening = raw.find(b'"traceEvents"')
        bare = is_array(raw)
        if opening < 0 and not bare:
            return None
        end = len(raw)
        for _ in range(SALVAGE_TRIES):
            end = raw.rfind(b"}", 0, end)
            if end < max(opening, 0):
                break
            found = self._closed(raw[: end + 1] + (b"]" if bare else b"]}"))
            if found is not None:
                return found
        return None

    def _closed(self, raw: bytes) -> Decoded | None:
        """Decode a text that was cut and closed; ``None`` if the cut was inside an event."""
        try:
            return _decode_strict(raw, self.shape)
        except msgspec.ValidationError:
            pass
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if _is_at_the_end(str(error), len(raw)):
                return None
        try:
            return self._from_document(_parse(_text(raw)))
        except (ValueError, RecursionError, TraceError):
            return None


def _decode_strict(raw: bytes, shape: RowShape[Any]) -> Decoded:
    if is_array(raw):
        return Decoded([Part(msgspec.json.decode(raw, type=shape.listed), raw)])
    document = msgspec.json.decode(raw, type=shape.document)
    return Decoded([Part(document.rows, raw)], document.header)


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


def _rows_and_header(path: Path, document: object) -> tuple[list[Any], dict[str, Any]]:
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


def _is_at_the_end(fault: str, size: int) -> bool:
    """Tell whether the strict decoder failed at the cut, and not at a value before it that a tolerant one reads."""
    place = re.search(r"byte (\d+)", fault)
    return "truncated" in fault or (place is not None and int(place[1]) >= size - 2)


def exact_times(part: Part) -> Sequence[object]:
    """Decode a part's timestamps once more as decimal text, for a dialect whose fractions a float cannot hold."""
    try:
        if is_array(part.text):
            return [row.ts for row in msgspec.json.decode(part.text, type=list[_TimeRow])]
        return [row.ts for row in msgspec.json.decode(part.text, type=_TimeDocument).rows]
    except msgspec.ValidationError:
        document = _parse(_text(part.text))
        return [row.get("ts") for row in (document if isinstance(document, list) else document["traceEvents"])]
