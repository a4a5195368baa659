"""Peaks that somebody gives: a device of the table by its name, or a file of JSON with one device's numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any, NoReturn

from hta_graph.errors import TraceError, UsageError
from hta_graph.roofline.operators_devices import TYPES, Device, device_from_entry, find_device, known_devices
from hta_graph.storage.location import Location
from hta_graph.storage.named_places import resolve_location
from hta_graph.text.sanitize import one_line
from hta_graph.trace.source import read_bytes

__all__ = ["resolve_peaks"]

PEAK_TABLES = ("matrix_tflops", "vector_tflops")
RATE_KEYS = ("memory_gb_per_s", "link_gb_per_s")
TEXT_KEYS = ("name", "link", "source", "note")
MAX_TEXT = 200
MAX_FILE_BYTES = 1 << 20
PEAK_PER_BYTE = 16
MAX_PEAK = 10**9
"""A larger number is no TFLOP/s and no GB/s."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
TRACE_REMEDY = "; record the trace again"
REMEDY = (
    "peaks are given as a device's name, such as H100 SXM or MI300X, or as a JSON file such as "
    '{"matrix_tflops": {"bfloat16": 989}, "memory_gb_per_s": 3350}'
)


def resolve_peaks(text: str) -> Device:
    """Return the device that ``--peaks`` names: one of the table, or the one that a file or URL describes.

    Raises:
        UsageError: it is neither, or the file holds something else.
    """
    found = _device_from_table(text)
    return found if found is not None else _device_from_file(resolve_location(text))


def _device_from_table(text: str) -> Device | None:
    wanted = " ".join(text.lower().split())
    return next((one for one in known_devices() if one.name.lower() == wanted), None) or find_device(text)


def _device_from_file(path: Location) -> Device:
    """Read a device from a file."""
    try:
        content = read_bytes(path, per_byte=PEAK_PER_BYTE)
    except TraceError as error:
        raise UsageError(str(error).removesuffix(TRACE_REMEDY), REMEDY) from None
    except ValueError:  # a zero byte
        raise UsageError(f"{path}: is no file's name", REMEDY) from None
    if content.broken:
        _refuse(path, content.broken)
    if len(content.data) > MAX_FILE_BYTES:
        _refuse(path, f"holds more than {MAX_FILE_BYTES:,} bytes")
    entry = _decode_object(path, content.data)
    _check_entry(path, entry)
    named = {key: one_line(entry[key]) for key in TEXT_KEYS if key in entry}
    return device_from_entry({"name": "given peaks", **entry, **named})


def _decode_object(path: Location, data: bytes) -> dict[str, Any]:
    """Decode the file's object, in which no key may stand twice."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            _refuse(path, "has a key twice")
        return found

    try:
        found = json.loads(data.removeprefix(BYTE_ORDER_MARK), object_pairs_hook=unique)
    except (ValueError, RecursionError):
        _refuse(path, "is not JSON")
    if not isinstance(found, dict):
        _refuse(path, "is no JSON object")
    return found


def _check_entry(path: Location, entry: Mapping[str, Any]) -> None:
    """Refuse what is not a device's: nothing of it is left out silently."""
    _check_keys(path, "", entry, (*PEAK_TABLES, *RATE_KEYS, *TEXT_KEYS))
    for key in TEXT_KEYS:
        if not isinstance(entry.get(key, ""), str) or len(entry.get(key, "")) > MAX_TEXT:
            _refuse(path, f"{key} is no text of at most {MAX_TEXT} characters")
    for key in RATE_KEYS:
        if key in entry:
            _check_number(path, key, entry[key])
    for key in PEAK_TABLES:
        _check_table(path, key, entry.get(key, {}))


def _check_table(path: Location, key: str, table: Any) -> None:
    if not isinstance(table, dict):
        _refuse(path, f"{key} is no object of types and numbers")
    _check_keys(path, f"{key}.", table, TYPES)
    for name, value in table.items():
        _check_number(path, f"{key}.{name}", value)


def _check_keys(path: Location, within: str, found: Mapping[str, Any], known: tuple[str, ...]) -> None:
    unknown = [key for key in found if key not in known]
    if unknown:
        _refuse(path, f"{within}{unknown[0][:MAX_TEXT]} is not known there", f"known are: {', '.join(known)}")


def _check_number(path: Location, key: str, value: Any) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 < value <= MAX_PEAK or not isfinite(value):
        _refuse(path, f"{key} is no number above 0 and up to {MAX_PEAK:,}")


def _refuse(path: Location, cause: str, remedy: str = "") -> NoReturn:
    raise UsageError(f"{path}: {cause}", remedy or REMEDY)
