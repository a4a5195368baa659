"""The columns of a DataFrame that somebody else made: whole numbers, texts and names of kinds, or one clear error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from hta_graph.errors import QueryError
from hta_graph.model import Bools, Ids, Ints
from hta_graph.text.sanitize import replace_surrogates

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FrameColumns"]

SHOWN_CHARACTERS = 60
"""How much of a wrong value an error shows."""


class FrameColumns:
    """A DataFrame's columns, checked when they are asked for; rows are named by their places, from 0."""

    def __init__(self, frame: pd.DataFrame, what: str) -> None:
        """Take a DataFrame.

        Args:
            frame: the DataFrame.
            what: what it holds, for errors.

        Raises:
            QueryError: it is none, or two columns have one name.
        """
        import pandas as pd

        if not isinstance(frame, pd.DataFrame):
            raise QueryError(f"{what}: is a {type(frame).__name__}, not a pandas DataFrame; make one of it")
        if not frame.columns.is_unique:
            twice = frame.columns[frame.columns.duplicated()][0]
            raise QueryError(f"{what}: two columns are called {twice!r}; keep one")
        self._frame = frame
        self._what = what

    def __len__(self) -> int:
        return len(self._frame)

    def __contains__(self, name: str) -> bool:
        return name in self._frame.columns

    def refuse(self, row: int, name: str, says: str, remedy: str) -> NoReturn:
        """Raise the error of one row.

        Raises:
            QueryError: always.
        """
        raise QueryError(f"{self._what}: row {row}, column {name!r}: {says}", remedy)

    def refuse_any(self, bad: Bools, name: str, says: str, remedy: str) -> None:
        """Raise the error of the first bad row, if there is one; ``{}`` in what it says is that row's value.

        Raises:
            QueryError: a row is bad.
        """
        if bad.any():
            row = int(np.argmax(bad))
            value = self._frame[name].iloc[row]
            self.refuse(row, name, says.format(_shortened_value(value)), remedy)

    def _column(self, name: str) -> pd.Series[Any]:
        if name not in self:
            there = ", ".join(map(str, self._frame.columns[:12])) or "none"
            raise QueryError(f"{self._what}: there is no column {name!r}; add it (there are: {there})")
        return self._frame[name]

    def whole_numbers(self, name: str, blank: int | None = None) -> Ints:
        """Return a column of whole numbers.

        Args:
            name: the column's name.
            blank: what stands for a row without a value, or for a whole column that is not there; None: neither may be.

        Raises:
            QueryError: the column is missing, or holds something else than whole numbers of 64 bits.
        """
        if name not in self and blank is not None:
            return np.full(len(self), blank, np.int64)
        column = self._column(name)
        absent = column.isna().to_numpy(np.bool_)
        if blank is None:
            self.refuse_any(absent, name, "has no value", "give it a whole number")
        kept = column[~absent]
        found = np.full(len(column), 0 if blank is None else blank, np.int64)
        found[~absent] = self._as_integers(kept, np.flatnonzero(~absent), name)
        return found

    def _as_integers(self, kept: pd.Series[Any], rows: Ints, name: str) -> Ints:
        import pandas as pd

        kinds = pd.api.types
        if kinds.is_integer_dtype(kept.dtype) and not kinds.is_unsigned_integer_dtype(kept.dtype):
            return kept.to_numpy(np.int64)
        if kinds.is_float_dtype(kept.dtype):
            return self._from_floats(kept, rows, name)
        # Columns of Python's own objects are read one by one: nothing else tells whole numbers from what looks so.
        values = kept.tolist()
        for row, value in zip(rows.tolist(), values, strict=True):
            if not _is_integer(value):
                self.refuse(row, name, f"{_shortened_value(value)} is no whole number of 64 bits", _remedy_for(value))
        return np.array([int(value) for value in values], np.int64)

    def _from_floats(self, kept: pd.Series[Any], rows: Ints, name: str) -> Ints:
        values = kept.to_numpy(np.float64)
        digits = 24 if kept.to_numpy().dtype == np.float32 else 53
        whole = np.isfinite(values) & (np.floor(values) == values)
        exact = np.abs(values) < 2.0**digits
        for bad, says, remedy in (
            (~whole, "{} is no whole number", "round it"),
            (~exact, "{} is a float too large to be exact", "keep such numbers as int64 from the start"),
        ):
            if bad.any():
                at = int(np.argmax(bad))
                self.refuse(int(rows[at]), name, says.format(values[at]), remedy)
        return values.astype(np.int64)

    def texts(self, name: str, *, may_be_blank: bool = False) -> tuple[list[str], Ids]:
        """Return the different texts of a column, and the code of each row's; -1 for a row without one.

        Args:
            name: the column's name.
            may_be_blank: whether rows, or the whole column, may be without a text.

        Raises:
            QueryError: the column is missing, or holds something else.
        """
        import pandas as pd

        if name not in self and may_be_blank:
            return [], np.full(len(self), -1, np.int32)
        column = self._column(name)
        codes, values = pd.factorize(column)
        if not may_be_blank:
            self.refuse_any(codes < 0, name, "has no value", "give it a text")
        texts = list(values)
        for code, text in enumerate(texts):
            if says := _why_no_name(text):
                self.refuse(int(np.argmax(codes == code)), name, f"{_shortened_value(text)} {says}", "give it a name")
        return texts, codes.astype(np.int32)

    def codes(self, name: str, labels: Sequence[str]) -> Ids:
        """Return the places of a column's texts among labels; -1 for rows without one, and where there is no column.

        Raises:
            QueryError: a text is no label.
        """
        texts, codes = self.texts(name, may_be_blank=True)
        for code, text in enumerate(texts):
            if text not in labels:
                says = f"there is no {name} {_shortened_value(text)}"
                self.refuse(int(np.argmax(codes == code)), name, says, f"there are: {', '.join(labels)}")
        place = np.array([*(labels.index(text) for text in texts), -1], np.int32)
        return place[codes]


def _why_no_name(text: Any) -> str:
    if not isinstance(text, str) or not text:
        return "is no text"
    return "" if replace_surrogates(text) == text else "holds half of a pair of surrogates, which no encoding can write"


def _is_integer(value: Any) -> bool:
    is_number = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return is_number and -(2**63) <= int(value) < 2**63


def _shortened_value(value: Any) -> str:
    return repr(value.item() if isinstance(value, np.generic) else value)[:SHOWN_CHARACTERS]


def _remedy_for(value: Any) -> str:
    if hasattr(value, "timestamp") or hasattr(value, "total_seconds"):
        return "times are whole nanoseconds, as .astype('int64') makes them of datetime64[ns]"
    return "give whole numbers, as int64"
