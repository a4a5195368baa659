"""What a picture prints: cut names, times, and where a trace comes from."""

from __future__ import annotations

from hta_graph.text.shorten import shorten_middle
from hta_graph.trace.table import Trace

__all__ = ["MAX_NAME_LENGTH", "short_label", "format_duration", "trace_label"]

MAX_NAME_LENGTH = 44
"""Longest name in a box, in characters."""


def short_label(text: str, size: int) -> str:
    r"""Cut the middle out of a text, on one line, without characters that XML forbids.

    >>> short_label("triton_poi_fused_add_mul_12", 16), short_label("a\0b", 9)
    ('triton_po…mul_12', 'a\ufffdb')
    """
    return shorten_middle(text, size) or "(no name)"


def format_duration(ns: int, digits: int = 3) -> str:
    """Print a time with three digits, or with another number of them.

    >>> format_duration(950), format_duration(96_000), format_duration(1_234_567), format_duration(12_345_678_900)
    ('950 ns', '96 µs', '1.23 ms', '12.3 s')
    """
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size * 0.9995:
            return f"{float(f'{ns / size:.{digits}g}'):,.{max(digits, 4)}g} {unit}"
    return f"{ns} ns"


def trace_label(trace: Trace) -> str:
    """Print the name of a trace's file and its rank."""
    return short_label(trace.path.name, 80) + (f", rank {trace.rank}" if trace.rank is not None else "")
