"""Sentences as templates: texts with fields that name a value and say how it is printed.

    >>> facts = {"waits": 2, "time_ns": 1_200_000, "rank": 3, "name": None, "is_late": True}
    >>> filled("{waits:#wait} in {time_ns:part}{rank:rank}{name:+ in {name:name}}{is_late:+, late}.", facts, 4_000_000)
    '2 waits in 1.20 ms (30%) on rank 3, late.'

==============  ================================================================================
``{n:#wait}``   a number of things; ``{n:#copy|copies}`` with another plural
``{ns:time}``   a duration; ``{ns:exact}``: as tables print it
``{ns:part}``   a duration with its share of the whole
``{x:share}``   a share; ``{x:percent}``: as tables print it
``{x:name}``    a name of the trace; ``{x:short name}`` and ``{x:long name}`` keep less and more of it
``{n:bytes}``   a number of bytes
``{n:times}``   "once", "2 times"
``{x:rank}``    "on rank 3", as the end of a clause; nothing without a rank
``{x:+text}``   the text, in which fields may stand, where the value is true; ``{x:-text}``: where it is not
==============  ================================================================================

What is None prints as nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from string import Formatter
from typing import Any

from analyses.display.sentence_format import (
    brief_duration,
    brief_share,
    counted,
    gigabytes,
    on_rank,
    quoted,
    time_and_share,
)
from analyses.display.text_layout import clipped, duration_text, percent

WORDS: Mapping[str, Callable[[Any], str]] = {
    "time": brief_duration,
    "share": brief_share,
    "name": quoted,
    "short name": lambda name: clipped(name, 40),
    "long name": lambda name: clipped(name, 80),
    "exact": duration_text,
    "percent": percent,
    "rank": on_rank,
    "bytes": gigabytes,
    "times": lambda count: "once" if count == 1 else f"{count:,} times",
}


class _Filling(Formatter):
    """How fields are printed; shares of times are those of ``whole_ns``."""

    def __init__(self, whole_ns: int) -> None:
        self._whole_ns = whole_ns

    def format_field(self, value: Any, format_spec: str) -> str:
        how, text = format_spec[:1], format_spec[1:]
        if how in ("+", "-"):
            return text if bool(value) == (how == "+") else ""
        if value is None:
            return ""
        if how == "#":
            one, _, many = text.partition("|")
            return counted(value, one, many)
        if format_spec == "part":
            return time_and_share(value, self._whole_ns)
        return WORDS[format_spec](value) if format_spec in WORDS else format(value, format_spec)


def filled(template: str, values: Mapping[str, Any], whole_ns: int) -> str:
    """Return a template with its fields filled; ``whole_ns`` is what shares of times are of."""
    return _Filling(whole_ns).vformat(template, (), values)
