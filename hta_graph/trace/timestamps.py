"""Printed microseconds → integer nanoseconds, exactly, also where a float cannot hold what is printed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from hta_graph.model import Bools, Ints
from hta_graph.trace.json_reader import is_array, parse_leniently

INVALID = np.iinfo(np.int64).min
"""Marks a time that is missing, not a number, or does not fit 64 bits."""

EXACT_FLOAT_LIMIT_US = 2.0**43
"""Below this a float64 holds three decimals: its spacing is under a thousandth, so rounding gives the printed ns."""

LIMIT_US = 2**62 // 1000
"""Times beyond ±146 years do not fit after a base time is added."""


def plain_numbers(values: Sequence[Any]) -> NDArray[Any] | None:
    """Return integers as int64, and floats, or both, as float64; None where others are among them, or larger ones.

    The values are a decoder's, without booleans.

    >>> plain_numbers([1, 2]), plain_numbers([1, 2.5]), plain_numbers([1, "2"]), plain_numbers([1, None])
    (array([1, 2]), array([1. , 2.5]), None, None)
    """
    try:
        # What a sum is says what its terms are, in a fifth of the time in which their types can be looked at.
        kind = type(sum(values))
        if kind is int or kind is float:
            return np.fromiter(values, np.int64 if kind is int else np.float64, len(values))
    except (TypeError, ArithmeticError):
        pass
    return None


def nanoseconds(values: Sequence[Any], exact: Callable[[], Ints] | None = None) -> Ints:
    """Convert printed microseconds (numbers or text) to int64 ns; :data:`INVALID` where that is impossible.

    ``exact`` gives the times where floats have lost decimals, as of epoch microseconds that are printed with three.

    >>> nanoseconds([1, 2.5, "1704161511420306.491"]).tolist()
    [1000, 2500, 1704161511420306491]
    >>> nanoseconds([float("nan"), None, "soon"]).tolist() == [INVALID] * 3
    True
    >>> [nanoseconds([time], lambda: "read again") for time in (1712195495519689.125, 6322354305173.787)]
    ['read again', array([6322354305173787])]
    """
    numbers = plain_numbers(values)
    if exact is not None and _loses_nanoseconds(values, numbers):
        return exact()
    # The sorts that nearly all traces hold, without a Python call per value.
    if numbers is not None:
        with np.errstate(invalid="ignore"):
            return _scaled_to_ns(numbers, np.abs(numbers) < LIMIT_US)
    if None in values:
        found = np.full(len(values), INVALID)
        found[[value is not None for value in values]] = nanoseconds([value for value in values if value is not None])
        return found
    return np.fromiter((_exact_ns(value) for value in values), np.int64, len(values))


def _loses_nanoseconds(values: Sequence[Any], numbers: NDArray[Any] | None) -> bool:
    if numbers is None:
        numbers = np.array([value for value in values if isinstance(value, float)], np.float64)
    if numbers.dtype != np.float64:
        return False
    with np.errstate(invalid="ignore"):
        return bool((np.abs(numbers) >= EXACT_FLOAT_LIMIT_US).any())


def _scaled_to_ns(array: NDArray[Any], fits: Bools) -> Ints:
    # Nearly always all fit, and no second array is made.
    usable = array if fits.all() else np.where(fits, array, 0)
    whole = usable * 1000 if array.dtype.kind == "i" else _float_nanoseconds(usable)
    return whole if fits.all() else np.where(fits, whole, INVALID)


def _float_nanoseconds(microseconds: NDArray[np.float64]) -> Ints:
    """Scale whole and fraction apart: the product of both would need more bits than a float64 has."""
    whole = np.floor(microseconds)
    return whole.astype(np.int64) * 1000 + np.rint((microseconds - whole) * 1000).astype(np.int64)


def _exact_ns(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        return INVALID
    try:
        number = Decimal(value)
        # Text and huge numbers go this slow way, which is exact for all of them.
        return int((number * 1000).to_integral_value()) if abs(number) < LIMIT_US else INVALID
    except (ArithmeticError, ValueError):
        return INVALID


def base_time(value: object) -> int | None:
    """Read ``baseTimeNanoseconds``: 0 if absent, ``None`` if it is not a time.

    >>> base_time("1719853884000000000"), base_time(None), base_time([1])
    (1719853884000000000, 0, None)
    """
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, (int, str, Decimal)):
        return None
    try:
        number = Decimal(value)
        return int(number) if abs(number) < 2**62 else None
    except (ArithmeticError, ValueError):
        return None


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
