"""Numbers and names as sentences print them: shorter than in tables, for what is forwarded."""

from __future__ import annotations

import re
from collections.abc import Mapping

from analyses.display.text_layout import clipped
from hta_graph.paths.windows import Window

UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))
NAME_SIZE = 60


def brief_duration(ns: int) -> str:
    """Print a duration with three digits or more.

    >>> brief_duration(43_424_320_000), brief_duration(110_212_345), brief_duration(1_165_000), brief_duration(420)
    ('43.4 s', '110.2 ms', '1.17 ms', '0.42 µs')
    """
    size, unit = next(((size, unit) for size, unit in UNITS if ns >= size), UNITS[-1])
    return f"{ns / size:,.{1 if ns >= 10 * size else 2}f} {unit}"


def brief_share(share: float) -> str:
    """Print a share in whole per cent; what is not nothing never prints as 0%.

    >>> brief_share(0.604), brief_share(0.004), brief_share(0.9996), brief_share(0)
    ('60%', '<1%', '>99%', '0%')
    """
    if 0 < share < 0.005:
        return "<1%"
    return ">99%" if 0.995 <= share < 1 else f"{share:.0%}"


def brief_class(bound: str, meanings: Mapping[str, str]) -> str:
    """Return what a class means, without what may be behind it: "the GPU communicates"."""
    return re.split("[:;]", meanings[bound])[0]


def counted(count: int, one: str, many: str = "") -> str:
    """Print a number of things.

    >>> counted(1, "wait"), counted(1200, "wait"), counted(2, "copy", "copies")
    ('1 wait', '1,200 waits', '2 copies')
    """
    return f"1 {one}" if count == 1 else f"{count:,} {many or one + 's'}"


def quoted(name: str) -> str:
    """Return a name of the trace as a sentence holds it."""
    return clipped(name, NAME_SIZE)


def window_name(window: Window) -> str:
    """Name a window as a sentence does."""
    if window.step is not None:
        return f"step {window.step}"
    if window.is_whole:
        return "the whole trace"
    return quoted(window.label) if window.is_named else "the window"
