"""Groups of values: count, mean, spread and quartiles in the shape of HTA's summaries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["STATISTICS", "describe", "describe_groups"]

STATISTICS = ("count", "mean", "std", "min", "25%", "50%", "75%", "max")


def describe(values: np.ndarray[Any, Any]) -> list[float]:
    """Return what pandas' ``describe`` does of at least one value: sample deviation, interpolated quartiles.

    >>> describe(np.array([3, 1, 2, 2]))
    [4.0, 2.0, 0.816496580927726, 1.0, 1.75, 2.0, 2.25, 3.0]
    """
    ordered = np.sort(values)
    count = len(ordered)
    mean = float(ordered.mean())
    spread = (
        math.sqrt(float(((ordered - mean) ** 2).sum()) / (count - 1)) if count > 1 else math.nan
    )  # of a sample: pandas' default
    quartiles = [_value_at(ordered, share) for share in (0.25, 0.5, 0.75)]
    return [float(count), mean, spread, float(ordered[0]), *quartiles, float(ordered[-1])]


def _value_at(ordered: np.ndarray[Any, Any], share: float) -> float:
    """Return a quantile of ordered values, interpolated between neighbours."""
    place = share * (len(ordered) - 1)
    # Linear interpolation, as pandas and NumPy do by default.
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return float(ordered[low] + (ordered[high] - ordered[low]) * (place - low))


def describe_groups(
    groups: Sequence[tuple[tuple[Any, ...], np.ndarray[Any, Any]]], names: Sequence[str], column: str
) -> pd.DataFrame | None:
    """Return one row of statistics per group of values, with the groups' keys as the index; None without groups.

    Args:
        groups: keys and values of each group; those without values are left out.
        names: the names of the keys.
        column: the name of what is described, above the statistics.
    """
    filled = [(key, describe(values)) for key, values in groups if len(values)]
    if not filled:
        return None
    index = pd.MultiIndex.from_arrays(list(zip(*(key for key, _ in filled), strict=True)), names=list(names))
    return pd.DataFrame(np.array([row for _, row in filled]), index=index, columns=_summary_columns(column))


@cache
def _summary_columns(column: str) -> pd.MultiIndex:
    """Return the headings of a summary: making them is half the time of a small one."""
    return pd.MultiIndex.from_product([[column], STATISTICS])
