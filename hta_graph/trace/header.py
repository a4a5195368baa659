"""A file's header, and the length of its text, without its events being decoded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from io import SEEK_END, BufferedReader
from itertools import chain
from typing import Any

import msgspec

from hta_graph.base.errors import HtaGraphError, TooLargeError
from hta_graph.base.storage.location import Location, is_remote, open_to_peek
from hta_graph.trace.decompress import Decompression, frame_length, is_gzip, is_zstd, text_head
from hta_graph.trace.formats import HEAD_BYTES, layer_of
from hta_graph.trace.json_reader import EVENT_ROWS, Header
from hta_graph.trace.memory_limit import TextLimit

ENDS_BYTES = 1 << 20
"""How much text before and behind the events may be header."""
FIRST_EVENT = re.compile(rb'"traceEvents"\s*:\s*\[(?=\s*\{)')
BARE_LIST = re.compile(rb"\s*\[\s*\{")
DISTRIBUTED = b'"distributedInfo"'
TEXT_PER_BYTE = {"zip": 12, "sqlite": 2}
"""How long a trace's text is for each byte of a zip archive (8 to 20, measured with gzip) or a database."""
SAMPLE = 1 << 16
SAMPLE_TEXT = 1 << 22
WORTH_SAMPLING = 1 << 18
"""How long a file is (bytes) for whose beginning it pays to be unpacked only to know how long the rest is."""
GZIP_MODULUS = 1 << 32


def peek_header(path: Location) -> Header | None:
    """Read the header alone; ``None`` where it is not plain to see, or the file not plainly a trace.

    The profiler writes ``distributedInfo`` before the events or behind them. Only where it does not stand before them
    is the rest looked through, without being decoded.
    """
    try:
        chunks = _text_chunks(path)
        found = _header_and_rest(chunks)
        if found is None:
            return None
        header, rest = found
        # A bare list has no header at all, and a rank that stands in front needs no look behind.
        if header.distributed is not None or BARE_LIST.match(rest):
            return header
        return _with_tail(header, chain([rest], chunks))
    except (OSError, HtaGraphError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _header_and_rest(chunks: Iterator[bytes]) -> tuple[Header, bytes] | None:
    """Return what the header says before the first event, and the text from there on."""
    text = b""
    for chunk in chunks:
        text += chunk
        if BARE_LIST.match(text):
            return Header(), text
        if found := FIRST_EVENT.search(text):
            document = msgspec.json.decode(text[: found.end()] + b"]}", type=EVENT_ROWS.document)
            return document.header, text[found.end() :]
        if len(text) > ENDS_BYTES:
            break
    return None


def _with_tail(head: Header, chunks: Iterator[bytes]) -> Header | None:
    """Add what stands behind the events; ``None`` where the key is met in another place than the document's end."""
    before = b""
    for chunk in chunks:
        text = before + chunk
        at = text.find(DISTRIBUTED)
        if at >= 0:
            tail = _end_of(text[at:], chunks)
            # The key may also be text of some event's: it counts only near the document's end.
            return None if tail is None else replace(head, distributed=tail["distributedInfo"])
        # The key may lie across two chunks.
        before = text[1 - len(DISTRIBUTED) :]
    return head


def _end_of(text: bytes, chunks: Iterator[bytes]) -> dict[str, Any] | None:
    """Read the keys from the last ``distributedInfo`` to the document's end, if that is near."""
    for chunk in chunks:
        text += chunk
        if len(text) > ENDS_BYTES:
            return None
    keys: dict[str, Any] = msgspec.json.decode(b"{" + text[text.rindex(DISTRIBUTED) :], type=dict[str, Any])
    return keys


def _text_chunks(path: Location) -> Iterator[bytes]:
    """Yield the text as far as it can be unpacked, and no further than it could be read."""
    limit, size = TextLimit(path), 0
    with open_to_peek(path) as file, suppress(TooLargeError):
        for piece in Decompression(path, file):
            yield piece
            size += len(piece)
            limit.check(size)


GPU_CATEGORY = re.compile(rb'"cat"\s*:\s*"(?:gpu_)?(?:kernel|memcpy|memset)"', re.IGNORECASE)
LONGEST_CATEGORY = 64
"""How far such a key and its value may lie across two pieces of a text (bytes)."""


WORK_CATEGORY = re.compile(
    rb'"cat"\s*:\s*"(?:cpu_op|operator|\w{0,20}(?:runtime|driver)|(?:gpu_)?(?:kernel|memcpy|memset))"', re.IGNORECASE
)
"""Rows of a program that computes: operators, calls of a runtime, work of a GPU."""


def has_gpu_rows(path: Location) -> bool | None:
    """Return whether a trace has GPU activities, by its text; None where it is not whole, or has no events."""
    return _has_category(path, GPU_CATEGORY)


def has_work_rows(path: Location) -> bool | None:
    """Return whether a trace has operators, calls or GPU activities, in the same way."""
    return _has_category(path, WORK_CATEGORY)


def _has_category(path: Location, category: re.Pattern[bytes]) -> bool | None:
    before, has_events, is_found = b"", False, False
    try:
        for chunk in _text_chunks(path):
            text = before + chunk
            is_found = is_found or category.search(text) is not None
            has_events = has_events or b'"cat"' in text
            before = text[-LONGEST_CATEGORY:]
    except (OSError, HtaGraphError):
        return None
    is_whole = before.rstrip().endswith((b"}", b"]"))
    return is_found if has_events and is_whole else None


CAPTURE_BOUNDS = tuple(re.compile(rb'"(?:cuda|hip|cu)Stream' + end) for end in (rb"BeginCapture", rb"EndCapture"))
"""The calls that begin and end the capture of a graph, in a trace's text."""


def has_captures(path: Location) -> bool:
    """Return whether a trace records the capture of a graph from begin to end, by its text."""
    before, missing = b"", set(CAPTURE_BOUNDS)
    try:
        for chunk in _text_chunks(path):
            text = before + chunk
            missing -= {bound for bound in missing if bound.search(text)}
            if not missing:
                return True
            before = text[-LONGEST_CATEGORY:]
    except (OSError, HtaGraphError):
        pass
    return False


NODE_NAMES = re.compile(rb'\s*\{\s*"[1-9]\d{0,19}"\s*:\s*[\[{"]')
"""How a file begins that gives names to the numbers of graph nodes."""


def has_node_names(path: Location) -> bool:
    """Return whether a file gives names to the nodes of CUDA graphs (``kernel_annotations_rank0_….json``)."""
    return NODE_NAMES.match(text_head(path, ENDS_BYTES)) is not None


LABELLED_PROCESS = re.compile(rb'"pid"\s*:\s*"\[[A-Z]{2}\d{2}[^"\]]{0,80}\] -?\d')
"""A process id with the label of a rank, as SGLang's merger writes it."""


def has_labelled_processes(path: Location) -> bool:
    """Return whether a file begins with rows to whose process ids a merger has added the rank."""
    return LABELLED_PROCESS.search(text_head(path, ENDS_BYTES)) is not None


def text_size(path: Location) -> int:
    """Estimate how long a file's text is (bytes), from its beginning and what compression notes; 0 if it is not there.

    Of several gzip members or zstd frames one's length is noted: the beginning decides whether that is believed.
    """
    return _size_of_version(path, path.version) if is_remote(path) else _text_size(path)


@lru_cache(maxsize=1 << 14)
def _size_of_version(path: Location, version: str) -> int:
    """Ask the network once, although the size is needed several times."""
    del version
    return _text_size(path)


def _text_size(path: Location) -> int:
    try:
        packed = path.stat().st_size
        with open_to_peek(path) as file:
            begin = file.read(HEAD_BYTES)
            if not is_gzip(begin) and not is_zstd(begin):
                return packed * TEXT_PER_BYTE.get(layer_of(begin), 1)
            noted = max(_length_of_last_member(file) if is_gzip(begin) else frame_length(begin), packed)
            if packed < WORTH_SAMPLING:
                return noted
            file.seek(0)
            return _likely_length(noted, _sampled_length(Decompression(path, file), packed))
    except (OSError, HtaGraphError):
        return 0


def _length_of_last_member(file: BufferedReader) -> int:
    file.seek(-4, SEEK_END)
    return int.from_bytes(file.read(4), "little")


def _likely_length(noted: int, sampled: int) -> int:
    """Choose between what is noted, modulo 2^32 by gzip, and what is sampled, from which a text may well differ.

    >>> _likely_length(2_000, 1_500), _likely_length(2_000, 10**9), _likely_length(2_000, 5 * 10**9)
    (2000, 1000000000, 4294969296)
    """
    whole = noted + max(round((sampled - noted) / GZIP_MODULUS), 0) * GZIP_MODULUS
    return whole if sampled < 2 * whole and whole < 4 * sampled else sampled


def _sampled_length(unpacking: Decompression, packed: int) -> int:
    """Estimate the length of a text from how far its beginning is packed."""
    size = 0
    for piece in unpacking:
        size += len(piece)
        if unpacking.used >= SAMPLE or (unpacking.used and size >= SAMPLE_TEXT):
            return size * packed // unpacking.used
    return size
