"""JSON text → rows, part by part: memory holds only one part's rows; of a damaged file its complete events.

Rows hold only the fields that decide something. The array of events is cut between events. Each part is decoded
strictly, or by a lenient parser where that fails: for NaN, ``inf``, control characters and huge integers. Behind an
event that is no JSON, such as a name with quotes in it, reading continues where the next event begins.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from itertools import islice
from typing import Any, Generic, TypeVar

import msgspec

from hta_graph.base.errors import NotATraceError, Remedy, TraceError
from hta_graph.base.progress import advance_stage, begin_stage
from hta_graph.base.storage.location import Location
from hta_graph.base.text.sanitize import replace_surrogates
from hta_graph.trace.decompress import FileBytes, TextStream
from hta_graph.trace.formats import foreign_trace_error, writer_of
from hta_graph.trace.memory_limit import GrowthCheck, check_decoded, paused_gc

Number = int | float | str | None
AnyRow = TypeVar("AnyRow")


class Args(msgspec.Struct, gc=False):
    """The arguments that decide edges, and what a copy moved; all others stay in the file."""

    correlation: Number = -1
    stream: Number = None
    original_stream: Number = None
    device: Number = None
    context: Number = None
    external_id: Number = msgspec.field(default=-1, name="External id")
    old_external_id: Number = msgspec.field(default=-1, name="external id")
    sequence: Number = msgspec.field(default=-1, name="Sequence number")
    forward_thread: Number = msgspec.field(default=-1, name="Fwd thread id")
    wait_on_stream: Number = -1
    record_correlation: Number = msgspec.field(default=-1, name="wait_on_cuda_event_record_corr_id")
    collective: Number = msgspec.field(default=None, name="Collective name")
    number_in_group: Number = msgspec.field(default=-1, name="Seq")
    group_size: Number = msgspec.field(default=-1, name="Group size")
    bytes: Any = None
    bandwidth: Any = msgspec.field(default=None, name="memory bandwidth (GB/s)")


class _Timed(msgspec.Struct, gc=False):
    """What rows of events have."""

    cat: str | None = None
    name: str | None = None
    pid: Number = None
    tid: Number = None
    ts: Number = None
    dur: Number = None
    args: Args | None = None


class Row(_Timed):
    """One element of ``traceEvents``."""

    ph: str | None = None
    id: Number = None


class Complete(_Timed, tag_field="ph", tag="X"):
    """A complete event as a :class:`Row` of a known phase, which takes less time to decode."""


class Instant(Complete, tag="i"):
    """An instant."""


class Begin(Complete, tag="B"):
    """The begin of an event that is bracketed by two rows."""


class End(Complete, tag="E"):
    """Its end."""


class ArrowStart(msgspec.Struct, gc=False, tag_field="ph", tag="s"):
    """Where an arrow starts."""

    id: Number = None
    pid: Number = None
    tid: Number = None
    ts: Number = None
    cat: str | None = None
    name: str | None = None


class ArrowEnd(ArrowStart, tag="f"):
    """Where it ends."""


class Metadata(msgspec.Struct, gc=False, tag_field="ph", tag="M"):
    """A row that names a process or a thread."""


class Counter(Metadata, tag="C"):
    """A row that counts."""


@dataclass(frozen=True)
class Header:
    """What the file says about itself; any field may be absent or of any type."""

    base: Any = None
    distributed: Any = None
    devices: Any = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Versions and the profiler's options, by their keys in the file; only those that it has."""


class Document(msgspec.Struct, Generic[AnyRow]):
    """A trace: its rows and the header's fields that matter."""

    rows: list[AnyRow] = msgspec.field(name="traceEvents")
    base: Any = msgspec.field(default=None, name="baseTimeNanoseconds")
    distributed: Any = msgspec.field(default=None, name="distributedInfo")
    devices: Any = msgspec.field(default=None, name="deviceProperties")
    schema_version: Any = msgspec.field(default=None, name="schemaVersion")
    record_shapes: Any = None
    with_stack: Any = None
    with_flops: Any = None
    with_modules: Any = None
    profile_memory: Any = None
    pytorch_version: Any = None
    cuda_runtime_version: Any = None
    cuda_driver_version: Any = None
    cupti_version: Any = None
    hip_runtime_version: Any = None
    hip_driver_version: Any = None
    host_name: Any = None
    recorder: Any = None
    process: Any = None

    @property
    def header(self) -> Header:
        """The header's fields apart."""
        return header_of_object({key: getattr(self, name) for key, name in _HEADER_FIELDS.items()})


_HEADER_FIELDS = {item.encode_name: item.name for item in msgspec.structs.fields(Document)[1:]}


def header_of_object(document: Mapping[str, Any]) -> Header:
    """Pick the header's fields from the keys of a document."""
    base, distributed, devices, *settings = ((key, document.get(key)) for key in _HEADER_FIELDS)
    said = {key: value for key, value in settings if value is not None}
    return Header(base[1], distributed[1], devices[1], said)


@dataclass(frozen=True)
class RowShape(Generic[AnyRow]):
    """What is read of each row: the decoder's type, and how a tolerant parser's object becomes one.

    ``by_phase`` is tried before: a union of types, of which ``ph`` chooses one.
    """

    type: type[AnyRow]
    from_object: Callable[[dict[str, Any]], AnyRow]
    by_phase: RowShape[Any] | None = None

    @property
    def document(self) -> Any:
        """The decoder's type of a whole document."""
        return Document[self.type]  # type: ignore[name-defined]

    @property
    def listed(self) -> Any:
        """The decoder's type of a list of rows."""
        return list[self.type]  # type: ignore[name-defined]


def number_or_text(value: object) -> Any:
    """Keep numbers and text; a value of another type counts as absent."""
    return value if isinstance(value, (int, float, Decimal, str)) and not isinstance(value, bool) else None


_ARG_KEYS = [(item.name, item.encode_name) for item in msgspec.structs.fields(Args)]


def _tolerant_row(row: dict[str, Any]) -> Row:
    args = row.get("args")
    values = {name: number_or_text(row[name]) for name in ("pid", "tid", "ts", "dur", "id") if name in row}
    texts = {name: number_or_text(row[name]) for name in ("ph", "cat", "name") if isinstance(row.get(name), str)}
    if not isinstance(args, dict):
        return Row(**texts, **values)
    found = Args(**{name: number_or_text(args.get(key)) for name, key in _ARG_KEYS})
    return Row(args=found, **texts, **values)


EVENT_ROWS = RowShape(Row, _tolerant_row)
"""What decides the graph."""
_KNOWN_PHASES: Any = Complete | Instant | Begin | End | ArrowStart | ArrowEnd | Metadata | Counter
ROWS_BY_PHASE = RowShape(Row, _tolerant_row, RowShape(_KNOWN_PHASES, _tolerant_row))
"""The same in less time; a row of no known phase makes all rows from its part on a :class:`Row`."""
PHASE_OF_TYPE: dict[type, str] = {kind: kind.__struct_config__.tag for kind in _KNOWN_PHASES.__args__}


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
    rows, header = _rows_and_header(path, document, raw)
    kept = [shape.from_object(row if isinstance(row, dict) else {}) for row in rows]
    non_objects = sum(not isinstance(row, dict) for row in rows)
    return LenientRows(kept, non_objects, header_of_object(header))


def _text_of_bytes(raw: bytes) -> str:
    """Decode UTF-8; a bad byte becomes one character of its own, so that places in the text stay places in the file."""
    return raw.decode("utf-8", errors="surrogateescape").lstrip("\ufeff")


def parse_plainly(raw: bytes) -> Any:
    """Parse a trace's JSON as Python's own parser gives it: numbers are integers and floats.

    Raises:
        ValueError: it is no JSON, or truncated.
    """
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return json.loads(replace_half_escapes(_text_of_bytes(raw)), strict=False)


def parse_leniently(text: str | bytes) -> Any:
    """Parse JSON, keeping every number exact.

    Raises:
        ValueError: it is no JSON.
    """
    whole = replace_half_escapes(_text_of_bytes(text) if isinstance(text, bytes) else text)
    try:
        return json.loads(whole, strict=False, parse_float=_exact_decimal)
    except json.JSONDecodeError as error:
        if not PRINTED_NAN.match(whole, error.pos):
            raise
    return json.loads(with_json_nan(whole), strict=False, parse_float=_exact_decimal)


PRINTED_NAN = re.compile(r"-?(?:inf|nan)\b")
"""How C++ prints what is no number: the profiler's rates and occupancies may be such."""
STRING_OR_NAN = re.compile(r'"(?:[^"\\]|\\.)*+"?|(?<![\w.+-])-?(?:inf|nan)(?![\w.])', re.DOTALL)


def with_json_nan(text: str) -> str:
    """Replace numbers as C++ prints them by what the parser knows; places in the text stay what they are.

    >>> with_json_nan('{"inf": inf, "a": "x, nan]", "b": [-nan]}')
    '{"inf": NaN, "a": "x, nan]", "b": [ NaN]}'
    """
    return STRING_OR_NAN.sub(lambda token: token[0] if token[0][0] == '"' else "NaN".rjust(len(token[0])), text)


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


def _json_type(value: object) -> str:
    """Name the type of a value as JSON calls it.

    >>> [_json_type(value) for value in (None, True, 7, 1.5, "x", {})]
    ['null', 'a boolean', 'a number', 'a number', 'a string', 'an object']
    """
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", dict: "an object"}
    return names.get(type(value), "null")


def _foreign_json_error(path: Location, raw: bytes, document: Mapping[str, Any], form: str) -> NotATraceError:
    """Return the error of JSON that is no trace: whose it is, or what keys it has."""
    if writer := writer_of(raw):
        return foreign_trace_error(path, raw, writer)
    keys = ", ".join(list(document)[:5]) or "none"
    return NotATraceError(path, f"is {form} without traceEvents (its keys: {keys})", "pass a Kineto trace")


def _rows_and_header(path: Location, document: object, raw: bytes) -> tuple[list[Any], dict[str, Any]]:
    if isinstance(document, list):
        return document, {}
    if not isinstance(document, dict):
        raise NotATraceError(path, f"holds {_json_type(document)} as JSON, not a trace", "pass a Kineto trace")
    if "traceEvents" not in document:
        raise _foreign_json_error(path, raw, document, "a host execution trace" if "nodes" in document else "JSON")
    rows = document["traceEvents"]
    if not isinstance(rows, list):
        raise TraceError(path, f"has {_json_type(rows)} as traceEvents, not a list", "pass a Kineto trace")
    return rows, document


PART_BYTES = 1 << 20
"""Small enough to stay in the processor's cache: a sixth less time than with parts of 16 MB."""
BOUNDARY = re.compile(rb"\}\s*,\s*(?=\{)")
EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
CUTS = 100
"""How many places to try: most of what looks like a boundary between events is one."""
WRONG_CUTS = 16
"""How often a text may be decoded in vain, on the whole; what is left is then one part."""
CLOSINGS = 1_000
"""How many closing braces to try from the end: an event nests a few objects, its name may hold many braces."""
CLOSING_BYTES = 1 << 31
"""How much text to decode for that: all tries, but for those of an event that is itself as long as a trace."""
EVENT_BOUNDARY = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:ph|cat|name|pid|tid|ts|dur|args|id|s|bp)"\s*:)')
"""Where one event ends and another begins, as far as the text around it shows."""
LAST_BRACE = re.compile(rb"\}(?=\s*\])")
"""Where the last event of an array may end."""
SEPARATORS = re.compile(rb"[\s,]*")
JOINED = 4
"""How many such pieces one event may be: its name or arguments may hold what looks like a boundary."""
LINE_HEAD = 256
"""Where the document of another line begins, at the latest."""
NOT_JSON = "is not JSON"
ADDED_BYTES = 2
"""A decoder that fails so close to the end of a text that was cut and closed failed at the cut."""


def is_array(raw: bytes) -> bool:
    """Return whether a text is a bare list of events rather than a document that holds one."""
    return re.match(rb"\s*\[", raw) is not None


@dataclass(frozen=True)
class FilePart:
    """Consecutive elements of ``traceEvents`` and the JSON array or document that they were decoded from.

    Those that only the tolerant parser reads are exact already; of these ``non_objects`` are none.
    """

    rows: list[Any]
    text: bytes
    tolerant: bool = False
    non_objects: int = 0


class _Phase(msgspec.Struct, gc=False):
    ph: Any = None


def _event_length(raw: bytes) -> int:
    """Return how long the event is (bytes) with which a text begins; 0 where it begins with none."""
    text = raw.decode("utf-8", errors="surrogateescape")
    try:
        found, end = _SCANNER.raw_decode(with_json_nan(text), len(text) - len(text.lstrip()))
    except (ValueError, RecursionError):
        return 0
    is_event = isinstance(found, dict) and "ph" in found
    return len(text[:end].encode("utf-8", "surrogateescape")) if is_event else 0


_SCANNER = json.JSONDecoder(strict=False, parse_float=_exact_decimal)


class Parts:
    """Decode a trace in parts: strictly, or tolerantly where that fails; of a truncated text, its complete events.

    ``header``, ``count`` and ``non_objects`` (of rows), ``tolerant`` and ``fault`` (what is wrong with it, if anything
    is) are known when all parts have been taken; ``taken`` is how much of the text (bytes) the parts until now stood
    in. With ``salvage`` reading continues behind what is no JSON: ``skipped`` events of ``skipped_bytes``, and perhaps
    ``skipped_more`` where no event can be seen in these.

    Raises, while iterating, ``TraceError``: the text is JSON of another shape.
    """

    def __init__(self, path: Location, raw: bytes | TextStream, shape: RowShape[Any], *, salvage: bool = False) -> None:
        self._path = path
        self._stream = raw if isinstance(raw, TextStream) else None
        self._raw = b"" if isinstance(raw, TextStream) else raw
        self._gone = 0
        self._shape = shape
        self._by_phase = shape.by_phase
        self._salvage = salvage
        self._good: list[tuple[int, int]] = []
        self._behind = b""
        self.skipped = self.skipped_bytes = 0
        self.skipped_more = False
        self._whole = self._in_vain = 0
        self.header = Header()
        self.count = self.taken = 0
        self.non_objects = 0
        self.tolerant = False
        self.fault: str | None = None

    @property
    def closed_text(self) -> bytes:
        """The text itself; if truncated, up to the last complete event, with open brackets closed."""
        if self.fault is None:
            return self._raw
        if self.skipped:
            return self._without_skipped()
        return self._raw[: self._whole] + (b"]" if is_array(self._raw) else b"]}")

    @property
    def remedy_without_events(self) -> str:
        """What to do with a text without an event: record again what was a trace, pass one instead of another text."""
        is_trace = not self._raw or b'"ph"' in self._raw or EVENTS_KEY.search(self._raw)
        is_json = self.fault is None or not self.fault.startswith(NOT_JSON)
        return "record the trace again" if is_trace or is_json else "pass a Kineto trace"

    def refuse_lines(self) -> None:
        """Refuse JSON lines: a document that ends with its line, before another one.

        Raises:
            TraceError: the text is that.
        """
        line, _, rest = self._raw.partition(b"\n")
        if not rest[:LINE_HEAD].lstrip().startswith(b"{"):
            return
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            document = msgspec.json.decode(line.removeprefix(b"\xef\xbb\xbf"))
            if isinstance(document, dict):
                split, join = "split it into files, one per line", "join the events to a list: jq -s . FILE"
                if not {"traceEvents", "ph"} & set(document):
                    raise _foreign_json_error(self._path, self._raw, document, "JSON lines")
                remedy = split if "traceEvents" in document else join
                raise TraceError(self._path, "is JSON lines, one document per line", remedy)

    def __iter__(self) -> Iterator[FilePart]:
        for part in self._decoded_parts():
            self.count += len(part.rows)
            self.non_objects += part.non_objects
            self.tolerant |= part.tolerant
            yield part
            del part  # its rows are let go before the next ones are decoded

    @property
    def length(self) -> int:
        """How long the text is (bytes), as far as it has been read."""
        return self._gone + len(self._raw)

    def _read_more(self, size: int, kept: int, at: int) -> int:
        """Hold so much text from a place on, if there is so much; let go of what is before, except of the beginning.

        Return the place where that text is then.
        """
        if self._stream is None or len(self._raw) - at >= size:
            return at
        more = self._stream.read(size - len(self._raw) + at)
        if more:
            held = memoryview(self._raw)
            self._raw = b"".join((held[:kept], held[at:], *more))
            self._gone += at - kept
            at = kept
        if len(self._raw) - at < size:
            self._stream = None  # this is all
        return at

    def _read_all(self) -> bool:
        """Hold all text that is left; return whether there was more than is held."""
        if self._stream is None:
            return False
        self._raw = b"".join((self._raw, *self._stream.pieces()))
        self._stream = None
        return True

    def _decoded_parts(self) -> Iterator[FilePart]:
        self._read_more(PART_BYTES, 0, 0)
        begin = self._first_event()
        at = begin or 0
        try:
            while begin is not None:
                at = self._read_more(PART_BYTES + PART_BYTES // 4, begin, at)
                if self._stream is None and len(self._raw) - at <= 2 * PART_BYTES:
                    break
                cut = self._decode_next_part(at)
                if cut is None:
                    if self._read_all():  # an event is longer than what was held
                        continue
                    break
                at = cut[1]
                self.taken = self._gone + at
                yield cut[0]
                del cut
            self._read_all()
            self.taken = self.length
            last = self._decode_rest(begin, at)
        except FaultError as fault:
            self._read_all()
            self.fault = _fault_in_words(fault, self._gone)
            if self._salvage and fault.cause and begin is not None:
                yield from self._recovered_parts(begin, at)
                return
            # The parts before the break are out already; of the last one what is whole is saved.
            last = FilePart([], b"[]") if begin is None else self._whole_events(at, fault.byte)
        yield last

    def _first_event(self) -> int | None:
        """Return where the array's elements begin, if that is plain to see."""
        if is_array(self._raw):
            return self._raw.index(b"[") + 1
        key = EVENTS_KEY.search(self._raw)
        if key is None:
            return None
        check_decoded(self._path, key.end())
        try:
            self._decode_text(self._raw[: key.end()] + b"]}")
        except FaultError:  # the key is an inner one
            return None
        return key.end()

    def _decode_next_part(self, at: int) -> tuple[FilePart, int] | None:
        """Decode about one part from a place on; return it and where the next begins."""
        # `}, {` may stand inside an event too (nested arguments, names): a cut counts only if what it cuts off decodes.
        for boundary in islice(BOUNDARY.finditer(self._raw, at + PART_BYTES), CUTS):
            if self._in_vain > WRONG_CUTS * self.length + CUTS * PART_BYTES:
                break
            try:
                return self._decode_events(at, boundary.start() + 1), boundary.end()
            except FaultError as fault:
                if fault.cause:
                    raise  # no wrong cut but broken text
                self._in_vain += boundary.start() - at
        return None  # what looks like boundaries lies inside an event

    def _decode_rest(self, begin: int | None, at: int) -> FilePart:
        """Decode what is left from a place on, with the keys before and after the array."""
        if at == (begin or 0):
            return self._decode_text(self._raw)
        try:
            return self._decode_text(self._raw[:begin] + self._raw[at:])
        except FaultError as fault:
            raise FaultError(fault.byte + at - (begin or 0), fault.cause) from None

    def _whole_events(self, at: int, end: int) -> FilePart:
        """Decode from a place on to the last whole event before another: cut behind a closing brace and close."""
        for _ in range(min(CLOSINGS, CLOSING_BYTES // max(end - at, 1) + 1)):
            end = self._raw.rfind(b"}", at, end)
            if end < 0:
                break
            try:
                return self._decode_events(at, end + 1)
            except FaultError:
                continue  # this brace lies inside an event
        return FilePart([], b"[]")

    def _recovered_parts(self, begin: int, at: int) -> Iterator[FilePart]:
        """Decode from a place on part by part, leaving out the events that are no JSON."""
        self._good.append((begin, at))
        while at < len(self._raw):
            cut = EVENT_BOUNDARY.search(self._raw, at + PART_BYTES)
            end, following = (cut.start() + 1, cut.end()) if cut else (len(self._raw), len(self._raw))
            try:
                part = self._decode_events(at, end)
                self._good.append((at, end))
            except FaultError:
                part, past = self._decode_one_by_one(at, following)
                # The part's end may have been inside an event.
                following = max(following, past + len(SEPARATORS.match(self._raw, past)[0]))  # type: ignore[index]
            at = following
            self.taken = self._gone + at
            yield part
            del part

    def _decode_one_by_one(self, at: int, end: int) -> tuple[FilePart, int]:
        """Decode the events between two places that are JSON; return also where the last of them ends."""
        begins = [at, *(cut.end() for cut in EVENT_BOUNDARY.finditer(self._raw, at, end))]
        begins += [end] if begins[-1] < end else []
        own = len(begins) - 1
        begins += [cut.end() for cut in islice(EVENT_BOUNDARY.finditer(self._raw, end), JOINED)]
        # What follows an event, or stands where the first one should, is one of its own.
        first, past, is_new = len(self._good), at, len(self._good) == 1
        for place in range(own):
            begin, following = begins[place : place + 2]
            if following <= past:
                continue  # these boundaries lie inside an event
            # Behind an event others may follow without a comma; only a few, since each try decodes all that is left.
            for _ in range(JOINED):
                if not past <= begin < following:
                    break
                length = self._event_length(begin, begins[place + 1 : place + JOINED + 1])
                if not length:
                    break
                past, is_new = begin + length, True
                self._good.append((begin, past))
                begin = past + len(SEPARATORS.match(self._raw, past)[0])  # type: ignore[index]
            if past < following < len(self._raw):
                self._skip(max(begins[place], past), following, is_new=is_new)
                is_new = False
        if end == len(self._raw):
            self._take_end(max(past, begins[own - 1]), is_new=is_new)
        text = b",".join(self._raw[start:stop] for start, stop in self._good[first:])
        return self._decode_text(b"[" + text + b"]"), past

    def _event_length(self, at: int, ends: list[int]) -> int:
        """Return how long the event is that begins at a place and ends at the latest with some piece; 0 for none."""
        try:
            # Nearly every piece is an event, in strict JSON.
            piece = self._raw[at : ends[0]].rstrip(b", \r\n\t")
            return len(piece) if msgspec.json.decode(piece, type=_Phase).ph is not None else 0
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return _event_length(self._raw[at : ends[-1] if len(ends) == JOINED else None])

    def _skip(self, at: int, end: int, *, is_new: bool = False) -> None:
        """Note what is left out: an event, or part of one; what only separates events is not."""
        lost = self._raw[at:end].strip(b", \r\n\t")
        is_event = bool(lost) and (is_new or b'"ph"' in lost)
        self.skipped += is_event
        self.skipped_more |= is_event and (lost.count(b'"ph"') > 1 or b"\0" in lost)
        self.skipped_bytes += len(lost)

    def _take_end(self, at: int, *, is_new: bool) -> None:
        """Take the keys of the header behind the last event, which ends at a place or begins there and is no JSON."""
        begin = self._first_event() or 0
        tries = min(CLOSINGS, CLOSING_BYTES // max(len(self._raw) - at, 1) + 1)
        ends = [at, *(brace.end() for brace in islice(LAST_BRACE.finditer(self._raw, at), tries))]
        # What stands before the array is known to be JSON, and may be long: it is decoded once.
        before = b"[" if is_array(self._raw) else b'{"traceEvents":['
        for end in ends:
            try:
                self._decode_text(before + self._raw[end:])
            except FaultError:
                continue
            self._decode_text(self._raw[:begin] + self._raw[end:])
            self._behind = self._raw[end:]
            break
        else:
            end = len(self._raw)  # the file is truncated, too
        self._skip(at, end, is_new=is_new)

    def _without_skipped(self) -> bytes:
        begin = self._first_event() or 0
        kept = (self._raw[start:stop].rstrip(b", \r\n\t") for start, stop in self._good if stop > start)
        return self._raw[:begin] + b",".join(kept) + (self._behind or (b"]" if is_array(self._raw) else b"]}"))

    def _decode_events(self, at: int, end: int) -> FilePart:
        """Decode the events from one place to another."""
        try:
            # Joined from a view: the text is copied once, where slicing and adding would copy it three times.
            text = b"".join((b"[", memoryview(self._raw)[at:end], b"]"))
            part = self._decode_text(text, added=ADDED_BYTES)
        except FaultError as fault:
            raise FaultError(fault.byte + at - 1, fault.cause) from None
        self._whole = end
        return part

    def _decode_text(self, text: bytes, *, added: int = 0) -> FilePart:
        """Decode a list or a document, whose keys become the header.

        Raises:
            FaultError: it is no JSON, or ends early; with some bytes added to close it, the latter near its end.
            TooLargeError: it is long, and what it may hold takes more memory than there is.
        """
        check_decoded(self._path, len(text))
        try:
            # Several times faster than the tolerant one, and nearly every trace is strict JSON.
            return self._decode_strictly(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if _is_cut(str(error), len(text), added):
                raise FaultError(len(text)) from None
        try:
            found = read_leniently(self._path, text, self._shape)
        except FaultError as fault:
            raise FaultError(len(text)) if fault.byte >= len(text) - added > 0 else fault from None
        if not is_array(text):  # a list was cut from the middle of the file, which has no keys
            self.header = found.header
        return FilePart(found.rows, b"", tolerant=True, non_objects=found.non_objects)

    def _decode_strictly(self, text: bytes) -> FilePart:
        if self._by_phase:
            try:
                return self._decode_as(text, self._by_phase)
            except msgspec.ValidationError:
                self._by_phase = None
        return self._decode_as(text, self._shape)

    def _decode_as(self, text: bytes, shape: RowShape[Any]) -> FilePart:
        if is_array(text):
            return FilePart(msgspec.json.decode(text, type=shape.listed), text)
        document = msgspec.json.decode(text, type=shape.document)
        self.header = document.header
        return FilePart(document.rows, text)


def _fault_in_words(fault: FaultError, before: int) -> str:
    byte = before + fault.byte
    return f"{NOT_JSON}: {fault.cause} at byte {byte:,}" if fault.cause else f"the JSON is truncated at byte {byte:,}"


def _is_cut(error: str, size: int, added: int) -> bool:
    """Return whether the strict decoder failed at the end of a text, and not at what a tolerant one may read."""
    if "truncated" in error:
        return True
    place = re.search(r"byte (\d+)\)$", error)
    if place is None:
        return False
    if added:
        return "trailing characters" in error or int(place[1]) >= size - added
    return "invalid number" in error and int(place[1]) == size


MANY_ROWS = 1_000_000
SHORTEST_ROW = 16
"""Bytes: with a name, a time and a duration an event has more than 30."""
SALVAGE_REMEDY = Remedy("salvage=True recovers them", "--salvage recovers them")


@dataclass(frozen=True)
class FileFacts:
    """What is known of a file when all its rows have been taken.

    Attributes:
        header: what it says about itself.
        non_objects: how many of its elements are no objects.
        tolerant: whether it is not strict JSON.
        salvaged: how much of a damaged file was recovered; None for a complete one.
        skipped: how many of its events could not be.
    """

    header: Header
    non_objects: int
    tolerant: bool
    salvaged: str | None
    skipped: int = 0


class RowReader:
    """Iterates over a trace's rows, part by part: strictly decoded, or tolerantly where that fails.

    Args:
        path: the file, for errors.
        content: its bytes, or the stream of them: of these only what the next part needs is held.
        shape: what to read of each row.
        salvage: recover the complete events of a damaged file.

    Raises, while iterating, ``TraceError``: not JSON, JSON of another shape, broken off and not to be salvaged, or more
    events than there is memory for.
    """

    def __init__(
        self,
        path: Location,
        content: FileBytes | TextStream,
        shape: RowShape[Any] = EVENT_ROWS,
        *,
        salvage: bool = False,
    ) -> None:
        self._path = path
        self._salvage = salvage
        self._content = content
        text = content.data if isinstance(content, FileBytes) else content
        self._parts = Parts(path, text, shape, salvage=salvage)
        self._salvaged: str | None = None
        self._is_through = False

    def __iter__(self) -> Iterator[FilePart]:
        content, parts = self._content, self._parts
        growth = GrowthCheck(self._path, len(content.data) if isinstance(content, FileBytes) else 0)
        begin_stage(f"reading {self._path.name}")
        for part in self._parts:
            yield part
            del part
            advance_stage(*(content.progress if isinstance(content, TextStream) else (parts.taken, parts.length)))
            self._refuse_crumbs()
            growth.check(parts.length)
        self._salvaged = self._refused_or_salvaged()
        self._is_through = True

    def _refuse_crumbs(self) -> None:
        """Refuse what would take a hundred times as long as events do, and none of which can be one."""
        count, size = self._parts.count, self._parts.taken
        if count > MANY_ROWS and SHORTEST_ROW * count > size:
            cause = f"holds {count:,} elements in the first {size:,} bytes, too short for events"
            raise NotATraceError(self._path, cause, "pass a Kineto trace")

    def _refused_or_salvaged(self) -> str | None:
        """Reject what is not a trace or is truncated; return how much of a damaged file was recovered."""
        count = self._parts.count
        cause = self._content.broken or self._parts.fault
        if cause and not (self._salvage and count):
            self._parts.refuse_lines()
            remedy = SALVAGE_REMEDY if count else self._parts.remedy_without_events
            raise TraceError(self._path, f"{cause}, after {count:,} complete events", remedy)
        if count and self._parts.non_objects == count:
            raise NotATraceError(self._path, "is a list without event objects, not a trace", "pass a Kineto trace")
        if not cause:
            return None
        skipped, size = self._parts.skipped, self._parts.skipped_bytes
        least = "at least " if self._parts.skipped_more else ""
        lost = f", {least}{skipped:,} skipped ({size:,} of {self._parts.length:,} bytes)" if skipped else ""
        return f"{cause}; {count:,} complete events recovered{lost}"

    @property
    def facts(self) -> FileFacts:
        """What the file says about itself: parts of it may stand behind the rows, so these have to be taken first."""
        for _ in () if self._is_through else self:
            pass
        parts = self._parts
        return FileFacts(parts.header, parts.non_objects, parts.tolerant, self._salvaged, parts.skipped)

    @property
    def closed_text(self) -> bytes:
        """The text of the complete events, with open brackets closed."""
        for _ in () if self._is_through else self:
            pass
        return self._parts.closed_text


def has_plain_header(head: bytes) -> bool:
    """Return whether a text shows at its beginning where its events begin: it can be read without holding all of it."""
    return EVENTS_KEY.search(head) is not None


def closed_text(path: Location, content: FileBytes) -> bytes:
    """Return the text of a damaged file's complete events, with open brackets closed.

    Raises:
        TraceError: it holds none, or is no trace.
    """
    with paused_gc():
        return RowReader(path, content, salvage=True).closed_text
