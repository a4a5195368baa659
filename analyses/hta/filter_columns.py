"""What filters over trace frames share: what a filter is, and how the columns of a frame are found."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pandas as pd

from analyses.hta.frame import SymbolTable
from hta_graph.errors import QueryError

__all__ = ["Filter", "column_of", "ends_of", "names_of", "texts_of"]


class Filter(ABC):
    """What can be called with a frame, and with a symbol table if the frame has no texts."""

    def __call__(self, df: pd.DataFrame, symbol_table: SymbolTable | None = None) -> pd.DataFrame:
        """Return the rows that are kept.

        Raises:
            QueryError: the frame lacks a column that decides; HTA then returns it unfiltered.
        """
        return self._kept_rows(df, symbol_table)

    @abstractmethod
    def _kept_rows(self, df: pd.DataFrame, symbols: SymbolTable | None) -> pd.DataFrame: ...


def column_of(df: pd.DataFrame, name: str) -> pd.Series:
    """Return a column.

    Raises:
        QueryError: there is none of that name.
    """
    if name not in df:
        raise QueryError(f"the frame has no column {name!r}; take it from get_trace() or hta_trace_frame()")
    return df[name]


def texts_of(df: pd.DataFrame, what: str, symbol_table: SymbolTable | None) -> pd.Series:
    """Return names or categories as texts: the column of texts, else looked up in the symbol table.

    Raises:
        QueryError: there is neither.
    """
    if f"s_{what}" in df:
        return df[f"s_{what}"]
    column = column_of(df, what)
    # A frame decoded by hand holds texts where symbols used to be.
    if pd.api.types.is_string_dtype(column.dtype) and not pd.api.types.is_numeric_dtype(column.dtype):
        return column
    if symbol_table is None:
        raise QueryError(f"the frame holds {what}s as symbols only; give its symbol table too")
    table = symbol_table.get_sym_table()
    return column.map(lambda number: table[number] if 0 <= number < len(table) else "")


def ends_of(df: pd.DataFrame) -> pd.Series:
    """Return when rows end (µs)."""
    return df["end"] if "end" in df else column_of(df, "ts") + column_of(df, "dur")


def names_of(df: pd.DataFrame, name_column: str | None, symbol_table: SymbolTable | None) -> pd.Series:
    """Return names as texts, from a column of its own if one is named."""
    return column_of(df, name_column) if name_column else texts_of(df, "name", symbol_table)
