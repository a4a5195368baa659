"""Filters by what is under, after or before an operator or annotation, under HTA's names."""

from __future__ import annotations

import re
from abc import abstractmethod

import pandas as pd

from analyses.hta.filter_columns import Filter, column_of, ends_of, names_of, texts_of
from analyses.hta.frame import SymbolTable

__all__ = ["AfterOperatorFilter", "BeforeOperatorFilter", "CombinedOperatorFilter", "UnderOperatorFilter"]

CALL_CATEGORY = re.compile(r".*(_runtime|_driver)$")


class _OperatorFilter(Filter):
    """Rows by their place in time relative to one occurrence of an operator or annotation.

    The ``position``-th row of that name by start counts (negative: from the end). Rows on the same ``stream`` are
    compared, which for the CPU means: of all threads. ``include_gpu_kernels`` adds what the kept calls launched. Where
    the operator does not occur so often, nothing is kept.
    """

    def __init__(
        self,
        op_name: str,
        position: int,
        include_gpu_kernels: bool = False,
        name_column: str | None = None,
    ) -> None:
        self.op_name = op_name
        self.position = position
        self.include_gpu_kernels = include_gpu_kernels
        self.name_column = name_column

    def _kept_rows(self, df: pd.DataFrame, symbols: SymbolTable | None) -> pd.DataFrame:
        named = names_of(df, self.name_column, symbols) == self.op_name
        rows = df[named.to_numpy()].sort_values("ts", kind="stable")
        if not -len(rows) <= self.position < len(rows):
            return df.iloc[:0]
        found = rows.iloc[self.position]
        kept = df[(df["stream"] == found["stream"]) & self._by_time(df, found)]
        return _with_launched(df, kept, symbols) if self.include_gpu_kernels else kept

    @abstractmethod
    def _by_time(self, df: pd.DataFrame, found: pd.Series) -> pd.Series: ...


class UnderOperatorFilter(_OperatorFilter):
    """Keeps what starts and ends within the operator, itself included."""

    def _by_time(self, df: pd.DataFrame, found: pd.Series) -> pd.Series:
        keeps: pd.Series = (df["ts"] >= found["ts"]) & (ends_of(df) <= found["ts"] + found["dur"])
        return keeps


class AfterOperatorFilter(_OperatorFilter):
    """Keeps what starts when the operator ends, or later."""

    def _by_time(self, df: pd.DataFrame, found: pd.Series) -> pd.Series:
        keeps: pd.Series = df["ts"] >= found["ts"] + found["dur"]
        return keeps


class BeforeOperatorFilter(_OperatorFilter):
    """Keeps what ends when the operator starts, or earlier."""

    def _by_time(self, df: pd.DataFrame, found: pd.Series) -> pd.Series:
        keeps: pd.Series = ends_of(df) <= found["ts"]
        return keeps


def _with_launched(df: pd.DataFrame, kept: pd.DataFrame, symbol_table: SymbolTable | None) -> pd.DataFrame:
    """Add the GPU rows whose calls are kept."""
    # Rows of a call's category launch; what they launched names them in index_correlation.
    calls = kept[texts_of(kept, "cat", symbol_table).str.match(CALL_CATEGORY).to_numpy(bool)]
    launched = (df["stream"] >= 0) & df["index_correlation"].isin(calls["index"]) & ~df["index"].isin(kept["index"])
    return pd.concat([kept, df[launched]])


class CombinedOperatorFilter(Filter):
    """Keeps, in the first step, what is under a root, after the last ``preceding`` and before the first ``following``.

    A name that does not occur is no condition. ``stack_depths`` keeps CPU rows of some depths, by a column ``depth``.
    """

    def __init__(
        self,
        root_op_name: str,
        preceding_op_name: str,
        following_op_name: str,
        include_gpu_kernels: bool = False,
        stack_depths: list[int] | None = None,
    ) -> None:
        self.include_gpu_kernels = include_gpu_kernels
        self.stack_depths = stack_depths or []
        self._steps: list[_OperatorFilter] = [
            UnderOperatorFilter(root_op_name, 0),
            AfterOperatorFilter(preceding_op_name, -1),
            BeforeOperatorFilter(following_op_name, 0),
        ]

    def _kept_rows(self, df: pd.DataFrame, symbols: SymbolTable | None) -> pd.DataFrame:
        steps = column_of(df, "iteration")
        kept = df[steps == steps[steps >= 0].min()] if (steps >= 0).any() else df
        # In turn, each looking at what the one before has left: the last preceding one under the root counts.
        for chosen in self._steps:
            if (texts_of(kept, "name", symbols) == chosen.op_name).any():
                kept = chosen(kept, symbols)
        if self.include_gpu_kernels:
            kept = _with_launched(df, kept, symbols)
        if self.stack_depths:
            kept = kept[(kept["stream"] >= 0) | column_of(kept, "depth").isin(self.stack_depths)]
        return kept
