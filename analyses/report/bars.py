"""Bars of parts, as rows of a table carry them: widths in percent, a colour and words for each part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analyses.display.labels import SHORT
from analyses.display.terminal import duration_text, percent
from hta_graph.colours import BOUND_COLOUR

__all__ = ["Bar", "BarPart", "class_bar", "time_bar"]


@dataclass(frozen=True)
class BarPart:
    """A part: its width in percent of the whole bar, its colour, what it says where the pointer is."""

    width: float
    colour: str
    text: str


@dataclass(frozen=True)
class Bar:
    """Parts side by side from the left; what they do not fill stays empty."""

    parts: Sequence[BarPart]

    @property
    def text(self) -> str:
        """All parts in words, for those who do not see them."""
        return ", ".join(part.text for part in self.parts)


def time_bar(parts: Sequence[tuple[str, int, str]], whole_ns: int) -> Bar:
    """Return a bar of (words, time in ns, colour); parts without time are left out.

    >>> time_bar([("idle", 250, "grey"), ("copies", 0, "gold")], 1000).text
    'idle 0.000 ms, 25.0 %'
    """
    whole = max(whole_ns, 1)
    return Bar([
        BarPart(round(100 * ns / whole, 3), colour, f"{words} {duration_text(ns)}, {percent(ns / whole)}")
        for words, ns, colour in parts
        if ns > 0
    ])  # fmt: skip


def class_bar(by_bound_ns: Mapping[str, int], whole_ns: int = 0) -> Bar:
    """Return the classes of a path as a bar; as long as the longest one, where several are compared."""
    whole = whole_ns or sum(by_bound_ns.values())
    return time_bar([(SHORT[bound], by_bound_ns[bound], colour) for bound, colour in BOUND_COLOUR.items()], whole)
