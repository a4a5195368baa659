"""One table of two runs: what either side has, the median over its stretches, the difference and its noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analyses.two_runs.noise import LEAST_OF_STEPS, band_of_medians
from hta_graph.model import Floats

__all__ = ["SIDES", "largest_change_first", "medians_of_sides", "sums_of_sides"]

SIDES = ("control", "test")


def sums_of_sides(sides: Sequence[pd.DataFrame], keys: list[str], values: list[str]) -> pd.DataFrame:
    """Join a table of each side, largest change of ``ns`` first; what one lacks counts zero."""
    # What only one side has is a change too.
    frame = sides[0].merge(sides[1], on=keys, how="outer", suffixes=("_control", "_test"))
    for value in values:
        for side in SIDES:
            frame[f"{side}_{value}"] = frame.pop(f"{value}_{side}").fillna(0).astype(np.int64)
    return largest_change_first(frame)


def medians_of_sides(
    sides: Sequence[Sequence[pd.DataFrame]], keys: list[str], values: list[str], noise_share: float | None
) -> pd.DataFrame:
    """Join the tables of all stretches of both sides: medians, their difference, and how much of that is noise.

    Args:
        sides: of control and test the table of each stretch; what a stretch lacks counts zero.
        keys: the columns that name a row.
        values: the columns to take medians of, ``ns`` among them.
        noise_share: where the stretches are too few to tell, this share of the longer time is noise.

    Returns:
        the keys, both sides of each value, diff_ns, noise_ns; what is beyond its noise first, then by size.
    """
    rows, wide = _by_stretch(sides, keys, values)
    frame = rows.to_frame(index=False)
    for value in values:
        for side in SIDES:
            frame[f"{side}_{value}"] = np.median(wide[value, side], axis=1).round().astype(np.int64)
    longer = np.maximum(frame["control_ns"].to_numpy(), frame["test_ns"].to_numpy())
    if noise_share is None:
        band = band_of_medians(wide["ns", "control"], wide["ns", "test"])
        noise = np.maximum(band, LEAST_OF_STEPS * longer)
    else:
        noise = noise_share * longer
    return largest_change_first(frame, np.ceil(noise))


def _by_stretch(
    sides: Sequence[Sequence[pd.DataFrame]], keys: list[str], values: list[str]
) -> tuple[pd.Index, dict[tuple[str, str], Floats]]:
    """Return the rows that any stretch has, and each value of each side as a table of rows and stretches."""
    indexed = [[frame.set_index(keys) for frame in frames] for frames in sides]
    rows = pd.concat([frame for frames in indexed for frame in frames]).index.unique().sort_values()
    return rows, {
        (value, side): np.column_stack([frame[value].reindex(rows).fillna(0).to_numpy(float) for frame in frames])
        for value in values
        for side, frames in zip(SIDES, indexed, strict=True)
    }


def largest_change_first(frame: pd.DataFrame, noise_ns: Floats | None = None) -> pd.DataFrame:
    """Add the difference (and its noise) behind the times and sort by its size, what is beyond its noise first."""
    at = list(frame.columns).index("test_ns") + 1
    frame.insert(at, "diff_ns", frame["test_ns"] - frame["control_ns"])
    size, within = frame["diff_ns"].abs().to_numpy(), np.zeros(len(frame), np.bool_)
    if noise_ns is not None:
        frame.insert(at + 1, "noise_ns", noise_ns.astype(np.int64))
        within = size <= noise_ns
    # By the size of the change, whichever way it went.
    order = np.lexsort((-size, within))
    return frame.iloc[order].reset_index(drop=True)
