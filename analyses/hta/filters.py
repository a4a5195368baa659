"""Filters over trace frames under HTA's names: each is called with a frame and gives the rows that it keeps."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import pandas as pd

from analyses.hta.filter_columns import Filter, column_of, ends_of, names_of, texts_of
from analyses.hta.frame import SymbolTable
from analyses.hta.operator_filters import (
    AfterOperatorFilter,
    BeforeOperatorFilter,
    CombinedOperatorFilter,
    UnderOperatorFilter,
)
from hta_graph.errors import UsageError
from hta_graph.safe_regex import names_matching

__all__ = [
    "AfterOperatorFilter",
    "BeforeOperatorFilter",
    "CPUOperatorFilter",
    "CombinedOperatorFilter",
    "CompositeFilter",
    "Filter",
    "FirstIterationFilter",
    "GPUKernelFilter",
    "IterationFilter",
    "IterationIndexFilter",
    "MemCopyEventFilter",
    "NameFilter",
    "QueryFilter",
    "RankFilter",
    "TimeRangeFilter",
    "UnderOperatorFilter",
    "ZeroDurationFilter",
]

SYNC_WITHOUT_STREAM = ("Event Sync", "Context Sync")
COPY = "gpu_memcpy"


def _as_list(values: int | Iterable[int]) -> list[int]:
    """Return one number or several as a list."""
    return [values] if isinstance(values, int) else list(values)


class QueryFilter(Filter):
    """Keeps the rows for which a condition on the frame holds, such as ``lambda df: df["dur"] > 5``.

    HTA takes a text and evaluates it; text is not evaluated here.
    """

    def __init__(self, condition: Callable[[pd.DataFrame], pd.Series]) -> None:
        if not callable(condition):
            raise UsageError("a text is not evaluated; give a function of the frame, such as lambda df: df['dur'] > 5")
        self.condition = condition

    def _kept_rows(self, df: pd.DataFrame, symbols: SymbolTable | None) -> pd.DataFrame:
        return df[self.condition(df).to_numpy()]


ZeroDurationFilter = QueryFilter(lambda df: column_of(df, "dur") > 0)
"""Drops the rows of length zero (as in HTA it is a filter, not a class)."""


class IterationFilter(Filter):
    """Keeps the rows of one or several profiler steps, by their numbers."""

    def __init__(self, iterations: int | list[int]) -> None:
        self.iterations = _as_list(iterations)

    def _kept_rows(self, df: pd.DataFrame, symbols: SymbolTable | None) -> pd.DataFrame:
        return df[column_of(df, "iteration").isin(self.iterations)]


class IterationIndexFilter(Filter):
    """Keeps the rows of steps by their place among the steps; nothing beyond the last, all of a trace without steps."""

    def __init__(self, iteration_index: int | list[int]) -> None:
        self.iteration_index = _as_list(iteration_index)

    def _kept_rows(self, df: pd.DataFrame, symbols: SymbolTable | None) -> pd.DataFrame:
        column = column_of(df, "iteration")
        steps = sorted(int(number) for number in column.unique() if number >= 0)
        # Places may count from the end; one beyond the steps keeps nothing.
        wanted = [steps[at] for at in self.iteration_index if -len(steps) <= at < len(steps)]
        return df[column.isin(wanted)] if steps else df


class FirstIterationFilter(IterationIndexFilter):
    """Keeps the rows of the first step."""

    def __init__(self) -> None:
        super().__init__(0)


class RankFilter(Filter):
    """Keeps the rows of one or several ranks, by a column ``rank``."""

    def __init__(self, ranks: int | list[int]) -> None:
        self.ranks = _as_list(ranks)

    def _kept_rows(self, df: pd.DataFrame, symbols: SymbolTable | None) -> pd.DataFrame:
        return df[column_of(df, "rank").isin(self.ranks)]


class TimeRangeFilter(Filter):
    """Keeps the rows that start at or after the first time and end at or before the second (µs)."""

    def __init__(self, time_range: tuple[float, float]) -> None:
        if len(time_range) != 2:
            raise UsageError("a time range is a pair of times in µs")
        self.time_range = time_range

    def _kept_rows(self, df: pd.DataFrame, symbols: SymbolTable | None) -> pd.DataFrame:
        first, last = self.time_range
        return df[(column_of(df, "ts") >= first) & (ends_of(df) <= last)]


class NameFilter(Filter):
    """Keeps the rows whose name a regular expression matches from its start."""

    def __init__(
        self, name_pattern: str, symbol_table: SymbolTable | None = None, name_column: str | None = None
    ) -> None:
        self.name_pattern = name_pattern
        self.symbol_table = symbol_table
        self.name_column = name_column

    def _kept_rows(self, df: pd.DataFrame, symbols: SymbolTable | None) -> pd.DataFrame:
        names = names_of(df, self.name_column, symbols or self.symbol_table)
        codes, distinct = names.factorize()
        matched = names_matching([self.name_pattern], list(map(str, distinct)), by=re.Pattern[str].match)
        kept: pd.DataFrame = df[matched[codes] & (codes >= 0)]
        return kept


class GPUKernelFilter(Filter):
    """Keeps the rows that ran on a GPU: activities, and records of synchronisation."""

    def _kept_rows(self, df: pd.DataFrame, symbols: SymbolTable | None) -> pd.DataFrame:
        return df[on_gpu(df, symbols)]


class CPUOperatorFilter(Filter):
    """Keeps the rows that :class:`GPUKernelFilter` drops."""

    def _kept_rows(self, df: pd.DataFrame, symbols: SymbolTable | None) -> pd.DataFrame:
        return df[~on_gpu(df, symbols)]


def on_gpu(df: pd.DataFrame, symbol_table: SymbolTable | None) -> pd.Series:
    """Mark the rows that ran on a GPU, and syncs, which HTA counts with them."""
    on_stream = column_of(df, "stream") >= 0
    # Frames without texts cannot tell synchronisations: the stream alone decides, as in HTA.
    if symbol_table is None and "s_name" not in df:
        return on_stream
    return on_stream | texts_of(df, "name", symbol_table).isin(SYNC_WITHOUT_STREAM)


class CompositeFilter(Filter):
    """Applies filters one after the other."""

    def __init__(self, filters: Sequence[Filter]) -> None:
        self.filters = list(filters)

    def _kept_rows(self, df: pd.DataFrame, symbols: SymbolTable | None) -> pd.DataFrame:
        for chosen in self.filters:
            df = chosen(df, symbols)
        return df


class MemCopyEventFilter(Filter):
    """Keeps the GPU copies of one kind, by their whole name such as ``Memcpy HtoD (Pinned -> Device)``.

    Where there is none, the frame is empty but keeps its columns; HTA's loses them.
    """

    def __init__(self, memory_copy_type: str, symbol_table: SymbolTable | None = None) -> None:
        self.memory_copy_type = memory_copy_type
        self.symbol_table = symbol_table

    def _kept_rows(self, df: pd.DataFrame, symbols: SymbolTable | None) -> pd.DataFrame:
        table = symbols or self.symbol_table
        return df[(texts_of(df, "name", table) == self.memory_copy_type) & (texts_of(df, "cat", table) == COPY)]
