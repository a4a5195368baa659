"""Numbers and names as sentences print them, shorter than in tables, and sentences as templates.

A template is a text with fields that name a value and say how it is printed:

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

from collections.abc import Callable, Mapping, Sequence
from string import Formatter
from typing import Any

from analyses.display.text_layout import clipped, duration_text, percent

UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))
NAME_SIZE = 60


ROWS_NAMED = 5


def brief_duration(ns: int) -> str:
    """Print a duration with three digits or more.

    >>> brief_duration(43_424_320_000), brief_duration(110_212_345), brief_duration(1_165_000), brief_duration(420)
    ('43.4 s', '110.2 ms', '1.17 ms', '0.42 µs')
    """
    size, unit = next(((size, unit) for size, unit in UNITS if ns >= size), UNITS[-1])
    return f"{ns / size:,.{1 if ns >= 10 * size else 2}f} {unit}"


def brief_share(share: float) -> str:
    """Print a share in whole percent; a share above zero never prints as 0%.

    >>> brief_share(0.604), brief_share(0.004), brief_share(0.9996), brief_share(0)
    ('60%', '<1%', '>99%', '0%')
    """
    if 0 < share < 0.005:
        return "<1%"
    return ">99%" if 0.995 <= share < 1 else f"{share:.0%}"


def time_and_share(ns: int, whole_ns: int, of: str = "") -> str:
    """Print a time with its share of a whole, which ``of`` may name.

    >>> time_and_share(11_200_000, 42_700_000), time_and_share(120_000, 1_000_000, " of the iteration")
    ('11.2 ms (26%)', '120.0 µs (12% of the iteration)')
    """
    return f"{brief_duration(ns)} ({brief_share(ns / max(whole_ns, 1))}{of})"


def counted(count: int, one: str, many: str = "") -> str:
    """Print a number of things.

    >>> counted(1, "wait"), counted(1200, "wait"), counted(2, "copy", "copies")
    ('1 wait', '1,200 waits', '2 copies')
    """
    return f"1 {one}" if count == 1 else f"{count:,} {many or one + 's'}"


def gigabytes(count: int) -> str:
    """Print a number of bytes.

    >>> gigabytes(77_910_000_000), gigabytes(3_300_000)
    ('77.9 GB', '3.3 MB')
    """
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def as_sentence(text: str) -> str:
    """Return a text with a capital in front and a period behind; a name in front keeps its case.

    >>> as_sentence("step 2: bound by CPU work"), as_sentence("Set num_workers > 0.")
    ('Step 2: bound by CPU work.', 'Set num_workers > 0.')
    >>> as_sentence("aten::_softmax takes 5 ms")
    'aten::_softmax takes 5 ms.'
    """
    first = text.split(" ", 1)[0].rstrip(",;:.")
    front = text[:1].upper() if first.isalpha() and first.islower() else text[:1]
    return f"{front}{text[1:]}{'' if text.endswith(('.', '?', '!')) else '.'}" if text else ""


def enumerated(parts: Sequence[object]) -> str:
    """Join parts as a sentence does.

    >>> enumerated(["on a different GPU"]), enumerated([3, 4]), enumerated(["a", "b", "c"])
    ('on a different GPU', '3 and 4', 'a, b and c')
    """
    *first, last = map(str, parts)
    return f"{', '.join(first)} and {last}" if first else last


def steps_named(numbers: Sequence[int]) -> str:
    """Name steps, those in a row by the first and the last; of many rows the first ones.

    >>> steps_named([4]), steps_named([4, 5, 6, 11]), steps_named(range(0, 20, 2))
    ('step 4', 'steps 4 to 6 and 11', 'steps 0, 2, 4, 6, 8 and 5 more')
    """
    rows: list[list[int]] = []
    for number in numbers:
        if rows and number == rows[-1][-1] + 1:
            rows[-1].append(number)
        else:
            rows.append([number])
    named = [f"{row[0]} to {row[-1]}" if len(row) > 1 else f"{row[0]}" for row in rows]
    if hidden := len(named[ROWS_NAMED:]) > 1:
        named = [*named[:ROWS_NAMED], f"{sum(map(len, rows[ROWS_NAMED:])):,} more"]
    return f"{'step' if len(numbers) == 1 and not hidden else 'steps'} {enumerated(named)}"


def and_more(hidden: int, one: str) -> list[str]:
    """Count the rows that a list leaves out, as the line below it.

    >>> and_more(12, "host"), and_more(0, "host")
    (['  … and 12 more hosts; --json FILE lists all'], [])
    """
    what = one if hidden == 1 else f"{one}s"
    return [f"  … and {hidden:,} more {what}; --json FILE lists all"] * (hidden > 0)


def quoted(name: str) -> str:
    """Return a name of the trace as a sentence holds it."""
    return clipped(name, NAME_SIZE)


def on_rank(rank: int | None) -> str:
    """Name the rank, as the end of a clause."""
    return "" if rank is None else f" on rank {rank}"


def outside_operators(name: str) -> str:
    """Name what the host does in an annotation or a frame while no operator is open."""
    return f"Python or framework code in {quoted(name)}, outside operators"


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
