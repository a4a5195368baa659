"""How numbers, times, lists and tables of notebooks are formatted; all names of a trace are escaped."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

MOST_LISTED = 16
"""The most things that a line lists, such as ranks."""


def milliseconds(ns: int) -> str:
    """Print a duration without its unit.

    >>> milliseconds(1234567890)
    '1,234.568'
    """
    return f"{ns / 1e6:,.3f}"


def signed_milliseconds(ns: int) -> str:
    """Print a difference of times without its unit.

    >>> signed_milliseconds(1500), signed_milliseconds(-1234567890)
    ('+0.002', '-1,234.568')
    """
    return f"{ns / 1e6:+,.3f}"


def microseconds(ns: int) -> str:
    """Print nanoseconds as microseconds, exactly.

    >>> microseconds(1712195495519689125), microseconds(2000), microseconds(-1)
    ('1712195495519689.125', '2', '-0.001')
    """
    whole, rest = divmod(abs(ns), 1000)
    sign = "-" if ns < 0 else ""
    return f"{sign}{whole}.{rest:03d}" if rest else f"{sign}{whole}"


def join_first(said: Sequence[str], between: str = ", ") -> str:
    """Join the first of some texts; an ellipsis stands for the others.

    >>> join_first(["rank 0", "rank 1"])
    'rank 0, rank 1'
    """
    return between.join(said[:MOST_LISTED]) + (f"{between}…" if len(said) > MOST_LISTED else "")


def html_table(
    caption: str, headings: Sequence[str], rows: Iterable[Sequence[object]], *, right: Collection[int] = ()
) -> str:
    """Return a table as HTML; all texts are escaped, numbers get separators and stand on the right.

    ``right`` are columns of numbers that are texts already.

    >>> html_table("<b>", ["lane"], [("stream 0",)])
    '<table><caption>&lt;b&gt;</caption><tr><th>lane</th></tr><tr><td>stream 0</td></tr></table>'
    """
    # Needed in notebooks only: its table of entities would slow down the start of every command.
    from html import escape

    def cell(at: int, value: object) -> str:
        text = f"{value:,}" if isinstance(value, int) else escape(str(value))
        is_right = isinstance(value, int) or at in right
        return f'<td style="text-align:right">{text}</td>' if is_right else f"<td>{text}</td>"

    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join(f"<tr>{''.join(map(cell, range(len(row)), row))}</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption><tr>{head}</tr>{body}</table>"
