"""Tables of two runs: the median of each side over its windows, the difference and its noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analyses.compare.diff.noise import LEAST_OF_STEPS, band_of_spreads, spread_of_rows
from hta_graph.model import Floats, Ints

SIDES = ("control", "test")
LARGEST_TABLE = 1 << 22
"""How many numbers are laid out at once: a run can have very many names in very many steps."""


@dataclass(frozen=True)
class SideRows:
    """The rows of the windows of a side: a column ``window`` (from 0), keys, values; each key once per window.

    ``kind`` are the kinds of the windows where there are several; those of -1 are left out.
    """

    count: int
    rows: pd.DataFrame
    kind: Ints | None = None

    def counts(self) -> dict[int, int]:
        """Return how many windows each kind has."""
        if self.kind is None:
            return {0: self.count}
        kinds, counts = np.unique(self.kind[self.kind >= 0], return_counts=True)
        return dict(zip(kinds.tolist(), counts.tolist(), strict=True))

    def of_kind(self, kind: int, place: Ints) -> tuple[SideRows, Ints]:
        """Select the windows of a kind, numbered from 0, and the places of their rows."""
        if self.kind is None:
            return self, place
        windows = np.flatnonzero(self.kind == kind)
        kept = np.isin(self.rows["window"].to_numpy(), windows)
        rows = self.rows[kept]
        return SideRows(len(windows), rows.assign(window=np.searchsorted(windows, rows["window"]))), place[kept]


def merge_sums(sides: Sequence[pd.DataFrame], keys: list[str], values: list[str]) -> pd.DataFrame:
    """Join a table of each side, largest change of ``ns`` first; missing rows count zero."""
    # What only one side has is a change too.
    frame = sides[0].merge(sides[1], on=keys, how="outer", suffixes=("_control", "_test"))
    for value in values:
        for side in SIDES:
            frame[f"{side}_{value}"] = frame.pop(f"{value}_{side}").fillna(0).astype(np.int64)
    return largest_change_first(frame)


def merge_medians(
    sides: Sequence[SideRows], keys: list[str], values: list[str], noise_share: float | None, least_ns: float = 0.0
) -> pd.DataFrame:
    """Join the tables of all windows of both sides: medians, their difference, and its noise.

    Args:
        sides: control and test; rows that a window lacks count zero.
        keys: the columns that name a row.
        values: the columns to take medians of, ``ns`` among them.
        noise_share: with too few windows, the noise as a share of the longer time.
        least_ns: the smallest noise.

    Returns:
        the keys, both sides of each value, diff_ns, noise_ns; largest difference first.
    """
    indexes = [pd.MultiIndex.from_frame(side.rows[keys]) for side in sides]
    rows = indexes[0].append(indexes[1]).unique().sort_values()
    places = [rows.get_indexer(index) for index in indexes]
    frame = rows.to_frame(index=False)
    weights = _weights_of_kinds(sides)
    for value in values:
        for name, side, place in zip(SIDES, sides, places, strict=True):
            found = np.zeros(len(rows))
            for kind, weight in weights.items():
                own = side.of_kind(kind, place)
                found += weight * _row_statistic(*own, value, len(rows), lambda table: np.median(table, axis=1))
            frame[f"{name}_{value}"] = found.round().astype(np.int64)
    longer = np.maximum(frame["control_ns"].to_numpy(), frame["test_ns"].to_numpy())
    if noise_share is None:
        noise = np.maximum(_noise_of_rows(sides, places, weights, len(rows)), LEAST_OF_STEPS * longer)
    else:
        noise = noise_share * longer
    return largest_change_first(frame, np.ceil(np.maximum(noise, least_ns)))


def _weights_of_kinds(sides: Sequence[SideRows]) -> dict[int, float]:
    """Return how often each kind that both sides have occurs, as a share."""
    counts = [side.counts() for side in sides]
    common = {kind: counts[0][kind] + counts[1][kind] for kind in counts[0].keys() & counts[1].keys()}
    return {kind: count / sum(common.values()) for kind, count in sorted(common.items())}


def _noise_of_rows(sides: Sequence[SideRows], places: Sequence[Ints], weights: dict[int, float], rows: int) -> Floats:
    """Return the noise of each row from the spread of its kinds."""
    squares = np.zeros(rows)
    for kind, weight in weights.items():
        selected = [side.of_kind(kind, place) for side, place in zip(sides, places, strict=True)]
        spreads = [(_row_statistic(*own, "ns", rows, spread_of_rows), own[0].count) for own in selected]
        squares += (weight * band_of_spreads(spreads[0], spreads[1])) ** 2
    found: Floats = np.sqrt(squares)
    return found


def _row_statistic(side: SideRows, place: Ints, value: str, rows: int, figure: Callable[[Floats], Floats]) -> Floats:
    """Return a median or a spread of each row over all windows.

    Both are 0 for rows that fewer than half of the windows have (of n deviations the spread leaves out the smallest
    one): such rows are not laid out, so that a different name in each of many steps costs its rows, not their square.
    """
    found = np.zeros(rows)
    often = np.bincount(place, minlength=rows) > side.count - 2 - (side.count - 1) // 2
    kept = np.flatnonzero(often[place])
    kept = kept[np.argsort(place[kept], kind="stable")]
    row, number = np.flatnonzero(often), (np.cumsum(often) - 1)[place[kept]]
    window, values = side.rows["window"].to_numpy()[kept], side.rows[value].to_numpy(float)[kept]
    at_once = max(LARGEST_TABLE // max(side.count, 1), 1)
    for first in range(0, len(row), at_once):
        own = slice(*np.searchsorted(number, (first, first + at_once)))
        table = np.zeros((len(row[first : first + at_once]), side.count))
        table[number[own] - first, window[own]] = values[own]
        found[row[first : first + at_once]] = figure(table)
    return found


def largest_change_first(frame: pd.DataFrame, noise_ns: Floats | None = None) -> pd.DataFrame:
    """Add the difference (and its noise) after the times and sort by its size, whichever way it went."""
    at = list(frame.columns).index("test_ns") + 1
    frame.insert(at, "diff_ns", frame["test_ns"] - frame["control_ns"])
    if noise_ns is not None:
        frame.insert(at + 1, "noise_ns", noise_ns.astype(np.int64))
    order = np.argsort(-frame["diff_ns"].abs().to_numpy(), kind="stable")
    return frame.iloc[order].reset_index(drop=True)
