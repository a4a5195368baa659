"""Filters over trace frames under HTA's names: each is called with a frame and returns the rows that it keeps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence

import pandas as pd

from analyses.hta.frame import SymbolTable
from hta_graph.base.errors import QueryError, UsageError
from hta_graph.base.safe_regex import names_matching


class Filter(ABC):
    """A filter, called with a frame, and with a symbol table if the frame has no texts."""

    def __call__(self, df: pd.DataFrame, symbol_table: SymbolTable | None = None) -> pd.DataFrame:
        """Return the rows that are kept.

        Raises:
            QueryError: the frame lacks a column that the filter needs; HTA then returns it unfiltered.
        """
        return self._kept_rows(df, symbol_table)

    @abstractmethod
    def _kept_rows(self, df: pd.DataFrame, symbols: SymbolTable | None) -> pd.DataFrame: ...


def column_of(df: pd.DataFrame, name: str) -> pd.Series:
    """Return a column.

    Raises:
        QueryError: the frame has no such column.
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
        raise QueryError(f"the frame has {what}s as symbols only; pass its symbol table too")
    table = symbol_table.get_sym_table()
    return column.map(lambda number: table[number] if 0 <= number < len(table) else "")


def ends_of(df: pd.DataFrame) -> pd.Series:
    """Return when rows end (µs)."""
    return df["end"] if "end" in df else column_of(df, "ts") + column_of(df, "dur")


def names_of(df: pd.DataFrame, name_column: str | None, symbol_table: SymbolTable | None) -> pd.Series:
    """Return names as texts, from the given column if there is one."""
    return column_of(df, name_column) if name_column else texts_of(df, "name", symbol_table)


CALL_CATEGORY = r".*(_runtime|_driver)$"


class _OperatorFilter(Filter):
    """Rows by their place in time relative to one occurrence of an operator or annotation.

    The occurrence is the ``position``-th row of that name by start (negative: from the end). Rows on the same
    ``stream`` are compared; for the CPU that is all threads. ``include_gpu_kernels`` adds what the kept calls launched.
    If there is no such occurrence, nothing is kept.
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
    """Keeps rows that start and end within the operator, including itself."""

    def _by_time(self, df: pd.DataFrame, found: pd.Series) -> pd.Series:
        keeps: pd.Series = (df["ts"] >= found["ts"]) & (ends_of(df) <= found["ts"] + found["dur"])
        return keeps


class AfterOperatorFilter(_OperatorFilter):
    """Keeps rows that start when the operator ends, or later."""

    def _by_time(self, df: pd.DataFrame, found: pd.Series) -> pd.Series:
        keeps: pd.Series = df["ts"] >= found["ts"] + found["dur"]
        return keeps


class BeforeOperatorFilter(_OperatorFilter):
    """Keeps rows that end when the operator starts, or earlier."""

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
    """Keeps rows of the first step under a root, after the last ``preceding`` and before the first ``following``.

    A name that does not occur is ignored. ``stack_depths`` keeps CPU rows of some depths, by a column ``depth``.
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
        # In turn, each on the rows that the one before has kept: the last preceding one under the root counts.
        for chosen in self._steps:
            if (texts_of(kept, "name", symbols) == chosen.op_name).any():
                kept = chosen(kept, symbols)
        if self.include_gpu_kernels:
            kept = _with_launched(df, kept, symbols)
        if self.stack_depths:
            kept = kept[(kept["stream"] >= 0) | column_of(kept, "depth").isin(self.stack_depths)]
        return kept


SYNC_WITHOUT_STREAM = ("Event Sync", "Context Sync")
COPY = "gpu_memcpy"


def _as_list(values: int | Iterable[int]) -> list[int]:
    """Return one number or several as a list."""
    return [values] if isinstance(values, int) else list(values)


class QueryFilter(Filter):
    """Keeps the rows for which a condition on the frame is true, such as ``lambda df: df["dur"] > 5``.

    Unlike in HTA, the condition is a function; text is not evaluated.
    """

    def __init__(self, condition: Callable[[pd.DataFrame], pd.Series]) -> None:
        if not callable(condition):
            raise UsageError("text is not evaluated; pass a function of the frame, such as lambda df: df['dur'] > 5")
        self.condition = condition

    def _kept_rows(self, df: pd.DataFrame, symbols: SymbolTable | None) -> pd.DataFrame:
        return df[self.condition(df).to_numpy()]


ZeroDurationFilter = QueryFilter(lambda df: column_of(df, "dur") > 0)
"""Drops rows of length zero (as in HTA, a filter and not a class)."""


class IterationFilter(Filter):
    """Keeps the rows of one or several profiler steps, by their numbers."""

    def __init__(self, iterations: int | list[int]) -> None:
        self.iterations = _as_list(iterations)

    def _kept_rows(self, df: pd.DataFrame, symbols: SymbolTable | None) -> pd.DataFrame:
        return df[column_of(df, "iteration").isin(self.iterations)]


class IterationIndexFilter(Filter):
    """Keeps the rows of steps by position: none beyond the last step, all rows of a trace without steps."""

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
            raise UsageError("time_range must be a pair of times in µs")
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
        matched = names_matching([self.name_pattern], list(map(str, distinct)), by="match")
        kept: pd.DataFrame = df[matched[codes] & (codes >= 0)]
        return kept


class GPUKernelFilter(Filter):
    """Keeps the rows that ran on a GPU: activities and synchronization records."""

    def _kept_rows(self, df: pd.DataFrame, symbols: SymbolTable | None) -> pd.DataFrame:
        return df[on_gpu(df, symbols)]


class CPUOperatorFilter(Filter):
    """Keeps the rows that :class:`GPUKernelFilter` drops."""

    def _kept_rows(self, df: pd.DataFrame, symbols: SymbolTable | None) -> pd.DataFrame:
        return df[~on_gpu(df, symbols)]


def on_gpu(df: pd.DataFrame, symbol_table: SymbolTable | None) -> pd.Series:
    """Mark the rows that ran on a GPU, and synchronization records, which HTA counts with them."""
    on_stream = column_of(df, "stream") >= 0
    # Frames without texts cannot identify synchronization records: the stream alone decides, as in HTA.
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
    """Keeps the GPU copies of one kind, by their full name such as ``Memcpy HtoD (Pinned -> Device)``.

    Without any, the frame is empty but keeps its columns; HTA's loses them.
    """

    def __init__(self, memory_copy_type: str, symbol_table: SymbolTable | None = None) -> None:
        self.memory_copy_type = memory_copy_type
        self.symbol_table = symbol_table

    def _kept_rows(self, df: pd.DataFrame, symbols: SymbolTable | None) -> pd.DataFrame:
        table = symbols or self.symbol_table
        return df[(texts_of(df, "name", table) == self.memory_copy_type) & (texts_of(df, "cat", table) == COPY)]
