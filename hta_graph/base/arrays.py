"""Tables of NumPy columns and vectorized operations on them: runs, ranges, intervals, look-ups, sums per group.

Hashes of texts and of rows are the same in every process and on every machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import numpy as np

from hta_graph.model import Bools, Codes, Floats, Ids, Ints

FEW_RANGES = 8
"""Up to this many ranges are searched one by one; more all at once."""
PIECE = 1 << 14
"""Rows."""

Array = TypeVar("Array", bound="np.ndarray[Any, Any]")
Rows = Ids | Ints | Bools | slice


def freeze(array: Array) -> Array:
    """Make an array read-only and return it."""
    array.flags.writeable = False
    return array


def memory_of(array: np.ndarray[Any, Any]) -> memoryview:
    r"""Return the bytes of an array, which are copied only where they do not lie one behind the other.

    >>> bytes(memory_of(np.arange(4, dtype=np.int8)[::2]))
    b'\x00\x02'
    """
    return np.ascontiguousarray(array).data.cast("B") if len(array) else memoryview(b"")


class Columns:
    """Base of frozen dataclasses whose fields are arrays of one length: a table, one entry per row.

    They are declared with ``eq=False``: whole arrays have no one truth, and the methods for it would only cost time.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, eq=False)
    ... class Spans(Columns):
    ...     start: Ints
    ...     lane: Ids
    >>> spans = Spans.join([Spans.of(start=[5, 7], lane=3), Spans.empty()])
    >>> spans.take(np.array([1])), len(spans)
    (Spans(start=array([7]), lane=array([3], dtype=int32)), 2)
    """

    __slots__ = ()

    def __len__(self) -> int:
        return len(getattr(self, next(iter(column_types(type(self))))))

    def take(self, rows: Rows) -> Self:
        """Select rows by their places or by a mask, in that order.

        A column is copied when it is first asked for: of most tables some never are. Places become
        read-only.
        """
        if isinstance(rows, np.ndarray) and rows.dtype == np.bool_:
            # A mask is searched once and not once per column; one that keeps every row (the usual case of many) costs
            # nothing, since tables never change.
            rows = np.flatnonzero(rows)
            if len(rows) == len(self):
                return self
        if isinstance(rows, np.ndarray):
            freeze(rows)
        taken = object.__new__(type(self))
        vars(taken)["_taken_from"] = self, rows
        return taken

    if not TYPE_CHECKING:  # else any attribute would be one

        def __getattr__(self, name: str) -> Any:
            """Copy a column of the table that this one was taken from."""
            known = vars(self)
            if name in column_types(type(self)):
                if (taken := known.get("_taken_from")) is not None:
                    table, rows = taken
                    known.setdefault(name, freeze(getattr(table, name)[rows]))
                    if known.keys() >= column_types(type(self)).keys():
                        known.pop("_taken_from", None)
                if name in known:  # another thread may have been faster
                    return known[name]
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in column_types(type(self))}

    def pieces(self, size: int = PIECE) -> Iterator[tuple[int, Self]]:
        """Yield the rows in turn, ``size`` at once, with the place of the first one.

        What is computed of a piece stays in the processor's cache: several times faster than of a whole large table.
        """
        for first in range(0, len(self), size):
            yield first, self.take(slice(first, first + size))

    @classmethod
    def of(cls, **values: Any) -> Self:
        """Make a table of lists, arrays and single values, which are repeated; each gets its column's type."""
        size = max((len(value) for value in values.values() if np.ndim(value)), default=1)
        types = column_types(cls)
        return cls(**{name: freeze(np.broadcast_to(np.asarray(values[name], types[name]), size)) for name in types})

    @classmethod
    def empty(cls) -> Self:
        """Make a table without rows."""
        return cls(**{name: freeze(np.empty(0, dtype)) for name, dtype in column_types(cls).items()})

    @classmethod
    def join(cls, parts: Iterable[Self]) -> Self:
        """Concatenate tables; of none the empty one."""
        every = list(parts)
        if not every:
            return cls.empty()
        return cls(
            **{name: freeze(np.concatenate([getattr(part, name) for part in every])) for name in column_types(cls)}
        )


# Spelled out: what an array type of ``hta_graph.model`` is made of cannot be asked the same way of every NumPy.
_DTYPES = {
    "Bools": np.dtype(np.bool_),
    "Codes": np.dtype(np.int8),
    "Floats": np.dtype(np.float64),
    "Ids": np.dtype(np.int32),
    "Ints": np.dtype(np.int64),
}
_DECLARED: dict[type[Any], dict[str, np.dtype[Any]]] = {}


def column_types(table: type[Any]) -> dict[str, np.dtype[Any]]:
    """Return the type of each column, by the name of the array type that the class declares: ``Ids`` is int32.

    What else a class declares, such as labels, is no column.
    """
    if table not in _DECLARED:
        # By its name in the source: evaluating the annotations of every table takes milliseconds at each start.
        _DECLARED[table] = {f.name: _DTYPES[kind] for f in fields(table) if (kind := str(f.type)) in _DTYPES}
    return _DECLARED[table]


def first_of_runs(*columns: np.ndarray[Any, Any]) -> Bools:
    """Mark the rows that differ from the row before in any column.

    >>> first_of_runs(np.array([4, 4, 5, 4])).tolist()
    [True, False, True, True]
    """
    new = np.ones(len(columns[0]), np.bool_)
    if len(new):
        new[1:] = False
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return new


def last_of_runs(*columns: np.ndarray[Any, Any]) -> Bools:
    """Mark the rows that differ from the row after in any column.

    >>> last_of_runs(np.array([4, 4, 5, 4])).tolist()
    [False, True, True, True]
    """
    return np.append(first_of_runs(*columns)[1:], np.ones(min(len(columns[0]), 1), np.bool_))


def distinct(values: Array) -> Array:
    """Return the values that occur, ascending; ``np.unique`` would load numpy's masked arrays for that (9 ms).

    >>> distinct(np.array([5, 3, 5])).tolist()
    [3, 5]
    """
    ordered = np.sort(values)
    return cast("Array", ordered[first_of_runs(ordered)])


def run_numbers(*columns: np.ndarray[Any, Any]) -> Ints:
    """Number the runs of rows that are equal in all columns, from 0.

    >>> run_numbers(np.array([4, 4, 5, 4])).tolist()
    [0, 0, 1, 2]
    """
    return np.cumsum(first_of_runs(*columns)) - 1


def occurrence_numbers(*columns: np.ndarray[Any, Any]) -> Ints:
    """Number equal rows from 0 in their order.

    >>> occurrence_numbers(np.array([5, 7, 5, 5])).tolist()
    [0, 0, 1, 2]
    """
    order = np.lexsort(columns)
    new = first_of_runs(*(column[order] for column in columns))
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order)) - np.flatnonzero(new)[np.cumsum(new) - 1]
    return number


def expand_ranges(first: Ids | Ints, count: Ids | Ints) -> tuple[Ints, Ints]:
    """Lay ranges of numbers end to end: return for each number the place of its range, and the number.

    >>> [part.tolist() for part in expand_ranges(np.array([3, 7, 9]), np.array([2, 0, 1]))]
    [[0, 0, 2], [3, 4, 9]]
    """
    ends = np.cumsum(count, dtype=np.int64)
    place = np.repeat(np.arange(len(count)), count)
    return place, np.arange(len(place)) + (first - ends + count)[place]


def split_intervals(start: Ints, end: Ints, cuts: Ints) -> tuple[Ints, Ints, Ints]:
    """Cut intervals at sorted times; return for each part the interval that it comes from, its start and its end.

    >>> split_intervals(np.array([0, 10]), np.array([5, 20]), np.array([3, 10, 12]))
    (array([0, 0, 1, 1]), array([ 0,  3, 10, 12]), array([ 3,  5, 12, 20]))
    """
    low = np.searchsorted(cuts, start, side="right")
    return split_at_own_cuts(start, end, cuts, low, np.searchsorted(cuts, end, side="left"))


def split_at_own_cuts(start: Ints, end: Ints, cuts: Ints, low: Ints, past: Ints) -> tuple[Ints, Ints, Ints]:
    """Cut each interval at its own cuts, those from ``low`` to before ``past``, as :func:`split_intervals` does."""
    count = np.maximum(past - low, 0) + 1
    interval = np.repeat(np.arange(len(count)), count)
    part_start, part_end = start[interval], end[interval]
    inner = np.flatnonzero(interval[1:] == interval[:-1]) + 1  # few parts begin at a cut
    of = interval[inner]
    part_start[inner] = part_end[inner - 1] = cuts[low[of] + inner - (np.cumsum(count) - count)[of] - 1]
    return interval, part_start, part_end


def last_at_most(values: Ints, first: Ids | Ints, past: Ids | Ints, wanted: Ints) -> Ints:
    """Return the place of the last value that is at most a wanted one, each in its own range of ``values``.

    The values of a range are sorted; where all are larger it is the place before the range.

    >>> last_at_most(np.array([2, 4, 9, 1, 5]), np.array([0, 3, 3]), np.array([3, 5, 5]), np.array([4, 9, 0])).tolist()
    [1, 4, 2]
    """
    low, high = np.array(first, np.int64), np.array(past, np.int64)
    # Both ends name a range: one without values begins where the next one does.
    key = pair_key(low, high)
    ranges = distinct(key)
    if len(ranges) <= FEW_RANGES:
        for of in ranges.tolist():
            begin, end, here = of >> 32, of & 0xFFFF_FFFF, key == of
            low[here] = begin + np.searchsorted(values[begin:end], wanted[here], side="right")
        return low - 1
    # All at once, by halves: there may be as many ranges as questions.
    while (open_ := low < high).any():
        middle = np.where(open_, (low + high) >> 1, 0)
        is_before = open_ & (values[middle] <= wanted)
        low, high = np.where(is_before, middle + 1, low), np.where(open_ & ~is_before, middle, high)
    return low - 1


def take_or(values: np.ndarray[Any, Any] | Sequence[Any], rows: Ids | Ints, otherwise: Any = -1) -> Any:
    """Take values by their places; another value where the place is -1.

    >>> take_or(np.array([5, 6]), np.array([1, -1])).tolist()
    [6, -1]
    """
    column = np.asarray(values)
    if not len(column):
        return np.full(len(rows), otherwise, column.dtype)
    if len(rows) > len(column):
        # The place -1 is then the last one.
        padded = np.empty(len(column) + 1, column.dtype)
        padded[:-1], padded[-1] = column, otherwise
        return padded[rows]
    missing = rows < 0
    found = column[np.where(missing, 0, rows)]
    found[missing] = otherwise
    return found


def find_sorted(values: Ids | Ints, ordered: Ids | Ints) -> Ints:
    """Return the place of each value among sorted ones; -1 where it is not among them.

    >>> find_sorted(np.array([7, 4]), np.array([2, 7])).tolist()
    [1, -1]
    """
    if not len(ordered):
        return np.full(len(values), -1, np.int64)
    at = np.searchsorted(ordered, values).clip(max=len(ordered) - 1)
    return np.where(ordered[at] == values, at, -1)


def is_among(values: Ids | Ints, others: Ids | Ints) -> Bools:
    """Mark the values that are among others; ``np.isin`` may load what ``np.unique`` does.

    >>> is_among(np.array([7, 4]), np.array([9, 7])).tolist()
    [True, False]
    """
    ordered: Ints = np.sort(others)
    found: Bools = find_sorted(values, ordered) >= 0
    return found


def stable_order(values: np.ndarray[Any, Any]) -> Ints:
    """Return the places of whole numbers in their order; equal ones stay as they stand."""
    # Of 16 bits the stable sort is a radix sort, several times faster than of more; lanes, walks and the like are few.
    is_small = values.max(initial=0) < 1 << 15 and values.min(initial=0) >= -(1 << 15)
    return np.argsort(values.astype(np.int16) if is_small else values, kind="stable")


def unique_rows(*columns: Codes | Ids | Ints) -> tuple[Ints, Ints]:
    """Number the rows that occur, in order; return where each occurs first, and the number of each row.

    ``np.unique`` by columns compares rows as bytes, which takes twenty times as long.

    >>> [found.tolist() for found in unique_rows(np.array([2, 1, 2, 1]), np.array([0, 9, 0, 3]))]
    [[3, 1, 0], [2, 1, 2, 0]]
    """
    order = stable_order(columns[-1])
    for column in reversed(columns[:-1]):
        order = order[stable_order(column[order])]
    is_first = first_of_runs(*(column[order] for column in columns))
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(is_first) - 1
    return order[is_first], number


def pair_key(upper: Ids | Ints, lower: Ids | Ints) -> Ints:
    """Make one number of two that fit 32 bits each: it sorts by the upper one, then by the lower; ``>> 32`` undoes it.

    >>> np.argsort(pair_key(np.array([2, 1, 1]), np.array([0, 9, 3]))).tolist()
    [2, 1, 0]
    """
    key: Ints = (upper.astype(np.int64) << 32) + lower
    return key


def percentiles_by(group: Codes | Ids | Ints, values: Ints, groups: int, percent: int) -> Ints:
    """Return per group the least value that some percent of its values do not exceed; 0 where it has none.

    50 is the lower median. These are values that occurred: nothing is interpolated.

    >>> percentiles_by(np.array([0, 0, 0, 0, 2]), np.array([7, 5, 6, 9, -4]), 3, 50).tolist()
    [6, 0, -4]
    """
    least, most = (int(extreme) for extreme in (values.min(initial=0), values.max(initial=0)))
    if groups * (most - least + 1) < 1 << 63:
        # One number for both sorts several times faster than two.
        key = group.astype(np.int64) * (most - least + 1) + (values - least)
        key.sort()
        ordered = key % (most - least + 1) + least
    else:
        ordered = values[np.lexsort((values, group))]
    count = np.bincount(group, minlength=groups)
    # In whole numbers: 0.95 × 20 may be a little more than 19.
    place = np.cumsum(count) - count + np.maximum(-(-count * percent // 100) - 1, 0)
    found: Ints = np.where(count > 0, np.append(ordered, 0)[np.minimum(place, len(ordered))], 0)
    return found


def medians_by(group: Codes | Ids | Ints, values: Ints | Floats, groups: int) -> Floats:
    """Return the median of each group's values, as ``np.median`` does; 0 where it has none.

    >>> medians_by(np.array([0, 0, 2, 2, 2]), np.array([7, 4, 6, 9, 1]), 3).tolist()
    [5.5, 0.0, 6.0]
    """
    ordered = np.append(values[np.lexsort((values, group))], 0).astype(np.float64)
    count = np.bincount(group, minlength=groups)
    first = np.cumsum(count) - count
    return np.where(count > 0, (ordered[first + np.maximum(count - 1, 0) // 2] + ordered[first + count // 2]) / 2, 0.0)


def rows_by_value(values: Ids | Ints) -> dict[int, Ints]:
    """Return the places of each value that occurs, ascending; values in their order.

    >>> {value: at.tolist() for value, at in rows_by_value(np.array([7, 2, 7])).items()}
    {2: [1], 7: [0, 2]}
    """
    order = np.argsort(values, kind="stable")
    first = np.flatnonzero(first_of_runs(values[order]))
    return dict(zip(values[order[first]].tolist(), np.split(order, first[1:]), strict=False))


def summed_by(group: Codes | Ids | Ints, values: Ints, groups: int) -> Ints:
    """Sum values per group.

    >>> summed_by(np.array([1, 0, 1]), np.array([5, 6, 7]), 3).tolist()
    [6, 12, 0]
    """
    sums = np.zeros(groups, np.int64)
    np.add.at(sums, group, values)
    return sums


def hash_rows(*columns: np.ndarray[Any, Any]) -> Ints:
    """Make one number of several for each row: other numbers make another one, for all practical purposes; none is < 0.

    >>> one, other = hash_rows(np.array([1, 2]), np.array([2, 1])).tolist()
    >>> one != other and min(one, other) >= 0
    True
    """
    mixed = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        # Each round spreads every bit over all others (the finalizer of SplitMix64, Steele et al., OOPSLA 2014).
        mixed = (mixed ^ column.astype(np.int64).view(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(1)).astype(np.int64)


def hash_texts(texts: Iterable[str]) -> Ints:
    """Return for each text a number that is its own wherever it occurs.

    >>> first, second, again = hash_texts(["mm", "add", "mm"]).tolist()
    >>> first == again != second
    True
    """
    digests = [blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest() for text in texts]
    return np.frombuffer(b"".join(digests), np.int64)
