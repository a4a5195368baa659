"""What a page's script reads: the columns of its timeline, unpacked as the script unpacks them."""

from __future__ import annotations

import base64
import json
import re
import zlib
from dataclasses import dataclass
from typing import Any

__all__ = ["DrawnBar", "PageData", "page_data", "read_varints"]


@dataclass(frozen=True)
class DrawnBar:
    """A bar as the page draws it; times in ns after the page's first."""

    track: int
    group: str
    on_path: bool
    start: int
    end: int
    busy: int
    rows: int
    name: str
    index: int


@dataclass(frozen=True)
class PageData:
    """The head of the packed data, and the bars."""

    head: dict[str, Any]
    bars: list[DrawnBar]


def page_data(page: bytes) -> PageData:
    """Unpack a page's timeline."""
    found = re.search(r'id="timeline-data">([A-Za-z0-9+/=]*)<', page.decode())
    assert found
    data = zlib.decompress(base64.b64decode(found[1]))
    size = int.from_bytes(data[:4], "little")
    head = json.loads(data[4 : 4 + size])
    numbers = read_varints(data[4 + size :])
    total = sum(head["series"][3])
    assert len(numbers) == 6 * total
    columns = [numbers[at * total : (at + 1) * total] for at in range(6)]
    return PageData(head, drawn_bars(head, columns))


def drawn_bars(head: dict[str, Any], columns: list[list[int]]) -> list[DrawnBar]:
    """Add gaps and lengths up, series by series."""
    bars, at, index = [], 0, 0
    for track, group, on_path, count in zip(*head["series"], strict=True):
        before = 0
        for row in range(at, at + count):
            gap, length, empty, more, name, step = (column[row] for column in columns)
            start = before + signed(gap)
            before, index = start + length, index + signed(step)
            named = head["names"][name - 1] if name else ""
            said = head["groups"][group][0]
            bars.append(DrawnBar(track, said, bool(on_path), start, before, length - empty, more + 1, named, index))
        at += count
    return bars


def read_varints(data: bytes) -> list[int]:
    """Read numbers in groups of 7 bits."""
    found, value, place = [], 0, 0
    for byte in data:
        value += (byte & 127) << place
        place += 7
        if byte < 128:
            found.append(value)
            value = place = 0
    return found


def signed(value: int) -> int:
    """Undo the zigzag."""
    return -(value + 1) // 2 if value % 2 else value // 2
