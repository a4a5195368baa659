"""Types of command-line arguments: each reader checks its range or choices, and names them in its error."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import TypeVar

Number = TypeVar("Number", int, float)
GREATEST_INTEGER = 10**18 - 1
"""The largest step or event number; it fits 64 bits, as does the sum of nine of them."""
LARGEST_SIZE = 1 << 60
LARGEST_FACTOR = 10**6
INTEGER = re.compile(r"[+-]?[0-9]{1,30}")
REAL = re.compile(r"[+-]?([0-9]{1,30}(\.[0-9]{0,30})?|\.[0-9]{1,30})([eE][+-]?[0-9]{1,3})?")
SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)([KMGT]?)(?:i?B)?", re.IGNORECASE)
SHARE = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,9})?|\.[0-9]{1,9})( ?%)?")


def whole_number(least: int = -GREATEST_INTEGER, most: int = GREATEST_INTEGER) -> Callable[[str], int]:
    """Return a reader of whole numbers in a range.

    >>> whole_number(0, 99)("7"), whole_number()("-1")
    (7, -1)
    """
    return _number(INTEGER, int, f"a whole number from {least:,} to {most:,}", least, most)


def real_number(least: float, most: float) -> Callable[[str], float]:
    """Return a reader of numbers in a range, with or without a fraction.

    >>> real_number(0, 10**6)("1.5"), real_number(0, 1)("1e-3")
    (1.5, 0.001)
    """
    return _number(REAL, float, f"a number from {least:,} to {most:,}", least, most)


def _number(
    written: re.Pattern[str], made: Callable[[str], Number], what: str, least: Number, most: Number
) -> Callable[[str], Number]:
    def read(text: str) -> Number:
        value = made(text) if written.fullmatch(text) else None
        if value is None or not least <= value <= most:
            raise expected(what, text)
        return value

    return read


RANK = whole_number(0, 10**9 - 1)
STEP = _number(INTEGER, int, "a step number, such as 11", -GREATEST_INTEGER, GREATEST_INTEGER)


def one_of(*allowed: str) -> Callable[[str], str]:
    """Return a reader of an option that takes one of some words.

    >>> one_of("operator", "module")("module")
    'module'
    """

    def read_word(text: str) -> str:
        if text not in allowed:
            from hta_graph.base.text.shorten import closest_names

            close, listed = closest_names(text, allowed, 1), ", ".join(allowed[:-1])
            hint = f"; did you mean {close[0]}?" if close else ""
            raise argparse.ArgumentTypeError(f"{expected(f'{listed} or {allowed[-1]}', text)}{hint}")
        return text

    return read_word


def factor_text(text: str) -> str:
    """Check a factor and return its text: a float would represent 0.1 less exactly."""
    real_number(0, LARGEST_FACTOR)(text)
    return text


def size_in_bytes(text: str) -> int:
    """Read a number of bytes.

    >>> size_in_bytes("4G"), size_in_bytes("1.5g"), size_in_bytes("300MiB")
    (4294967296, 1610612736, 314572800)
    """
    match = SIZE.fullmatch(text)
    size = int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " ")) if match else -1
    if not 0 <= size <= LARGEST_SIZE:
        raise expected("a size such as 4G or 500M, up to 1048576T", text)
    return size


def share_of_one(text: str) -> float:
    """Read a share as a percentage or a fraction of one.

    >>> share_of_one("5%"), share_of_one("0.05")
    (0.05, 0.05)
    """
    match = SHARE.fullmatch(text.strip())
    value = float(match[1]) / (100 if match[2] else 1) if match else -1.0
    # 5 could mean five percent or five times: the unit is required.
    if not match or (not match[2] and value >= 1):
        raise expected("a share such as 5% or 0.05", text)
    return value


def expected(what: str, text: str) -> argparse.ArgumentTypeError:
    """Return the error of an argument that is something else than expected."""
    shown = text if len(text) <= 60 else f"{text[:59]}…"
    return argparse.ArgumentTypeError(f"expected {what}, got {shown!r}")
