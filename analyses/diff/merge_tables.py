"""Tables of two runs: the median of each side over its windows, the difference and its noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analyses.diff.noise import LEAST_OF_STEPS, band_of_spreads, spread_of_rows
from hta_graph.model import Floats, Ints

SIDES = ("control", "test")
LARGEST_TABLE = 1 << 22
"""How many numbers are laid out at once: a run can have very many names in very many steps."""


@dataclass(frozen=True)
class SideRows:
    """The rows of the windows of a side: a column ``window`` (from 0), keys, values; each key once per window."""

    count: int
    rows: pd.DataFrame


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
    for value in values:
        for name, side, place in zip(SIDES, sides, places, strict=True):
            found = _row_statistic(side, place, value, len(rows), lambda table: np.median(table, axis=1))
            frame[f"{name}_{value}"] = found.round().astype(np.int64)
    longer = np.maximum(frame["control_ns"].to_numpy(), frame["test_ns"].to_numpy())
    if noise_share is None:
        control, test = (
            (_row_statistic(side, place, "ns", len(rows), spread_of_rows), side.count)
            for side, place in zip(sides, places, strict=True)
        )
        noise = np.maximum(band_of_spreads(control, test), LEAST_OF_STEPS * longer)
    else:
        noise = noise_share * longer
    return largest_change_first(frame, np.ceil(np.maximum(noise, least_ns)))


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
