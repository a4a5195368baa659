"""Tables as CSV text, in which no cell is a formula to a spreadsheet.

Text that a spreadsheet would take for a formula (first of all ``=``, ``+``, ``-``, ``@``, a tab or a line break) has an
apostrophe in front, and so has text that begins with an apostrophe: who reads the table takes one off each text that
begins with one, and has the names of the trace again. Numbers are left as they are.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from typing import Any

# Blanks are skipped by some spreadsheets; signs of double width are signs to those of East Asia.
RISKY = re.compile(r"[\t\r\n']|\s*[=+\-@\uff1d\uff0b\uff0d\uff20]")


class CsvText(io.StringIO):
    """What a writer of CSV writes to, row by row: lines end in a line feed alone."""

    def write(self, row: str) -> int:
        """Take one row."""
        # A writer that was told to end lines so would not quote a name with a carriage return (before Python 3.13).
        return super().write(row.removesuffix("\r\n") + "\n")

    def encoded(self) -> bytes:
        """Return the rows as UTF-8; what that cannot hold becomes a question mark."""
        return self.getvalue().encode("utf-8", "replace")


def harmless_cell(cell: Any) -> Any:
    """Return a cell that is no formula; what is no text stays as it is.

    >>> harmless_cell("=1+2"), harmless_cell("aten::add"), harmless_cell(-1)
    ("'=1+2", 'aten::add', -1)
    """
    return f"'{cell}" if isinstance(cell, str) and RISKY.match(cell) else cell


def harmless_cells(column: Sequence[Any]) -> Sequence[Any]:
    """Return a column whose text is no formula."""
    return [harmless_cell(cell) for cell in column] if str in set(map(type, column)) else column


def csv_line(cells: Sequence[Any]) -> bytes:
    r"""Return one row.

    >>> csv_line(["@SUM(A1)", -5, None])
    b"'@SUM(A1),-5,\n"
    """
    return csv_rows([[cell] for cell in cells])


def csv_rows(columns: Sequence[Sequence[Any]]) -> bytes:
    r"""Return rows, given as columns; what UTF-8 cannot hold becomes a question mark.

    >>> csv_rows([["gemm", "-x"], [-5, 7]])
    b"gemm,-5\n'-x,7\n"
    """
    text = CsvText()
    csv.writer(text).writerows(zip(*map(harmless_cells, columns), strict=True))
    return text.encoded()
