"""What a picture prints: cut names, times, and where a trace comes from."""

from __future__ import annotations

from hta_graph.text.shorten import elided
from hta_graph.trace.table import Trace

__all__ = ["NAME_SIZE", "clean", "duration", "file_and_rank"]

NAME_SIZE = 44
"""Longest name in a box, in characters."""


def clean(text: str, size: int) -> str:
    r"""Cut the middle out of a text, on one line, without characters that XML forbids.

    >>> clean("triton_poi_fused_add_mul_12", 16), clean("a\0b", 9)
    ('triton_po…mul_12', 'a\ufffdb')
    """
    return elided(text, size) or "(no name)"


def duration(ns: int, digits: int = 3) -> str:
    """Print a time with three digits, or with another number of them.

    >>> duration(950), duration(96_000), duration(1_234_567), duration(12_345_678_900)
    ('950 ns', '96 µs', '1.23 ms', '12.3 s')
    """
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size * 0.9995:
            return f"{float(f'{ns / size:.{digits}g}'):,.{max(digits, 4)}g} {unit}"
    return f"{ns} ns"


def file_and_rank(trace: Trace) -> str:
    """Print the name of a trace's file and its rank."""
    return clean(trace.path.name, 80) + (f", rank {trace.rank}" if trace.rank is not None else "")
