"""Headlines of answers: the rank or step that stands out, where that is, and the median of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analyses.display.sentence_format import brief_duration, brief_share, counted, quoted

SCOPE = ["rank", "scope"]


@dataclass(frozen=True)
class Outlier:
    """The row that stands out; its place and the median of all, as parts of a sentence: empty for a single window."""

    row: pd.Series[Any]
    where: str
    typical: str

    def __getitem__(self, column: str) -> Any:
        """Return a value of the row."""
        return self.row[column]


def outlier(frame: pd.DataFrame, by: str, said: Callable[[Any], str] = brief_share) -> Outlier | None:
    """Return the row with the largest value of a table with a row per rank and scope; none of an empty table.

    The median is a value that occurs: half of the windows do not exceed it.

    >>> frame = pd.DataFrame({"rank": [0, 1, 2], "scope": "whole trace", "idle_share": [0.05, 0.06, 0.2]})
    >>> found = outlier(frame, "idle_share")
    >>> int(found["rank"]), found.where, found.typical
    (2, ' on rank 2', ' (median of 3 ranks: 6%)')
    """
    known = frame[frame[by].notna()]
    if not len(known):
        return None
    row = known.iloc[int(np.argmax(known[by].to_numpy(np.float64)))]
    ranks, labels = known["rank"].nunique(), known["scope"].nunique()
    on = f" on rank {row['rank']}" if ranks > 1 else ""
    inside = f" in {quoted(str(row['scope']))}" if labels > 1 else ""
    if len(known) < 2:
        return Outlier(row, on + inside, "")
    median = np.sort(known[by].to_numpy())[(len(known) + 1) // 2 - 1]
    of = counted(len(known), "rank" if labels == 1 else "window")
    return Outlier(row, on + inside, f" (median of {of}: {said(median)})")


def largest_item(
    frame: pd.DataFrame, things: Sequence[str], by: str, said: Callable[[Any], str] = brief_duration
) -> Outlier | None:
    """Return the item with the largest value in one window, where that is; none where all are zero.

    ``things`` are the columns that identify an item across windows.

    >>> frame = pd.DataFrame({"rank": [0, 0, 1], "scope": "all", "name": ["a", "b", "b"], "gpu_ns": [5, 6, 9]})
    >>> found = largest_item(frame, ["name"], "gpu_ns", str)
    >>> found["name"], found.where, found.typical
    ('b', ' on rank 1', ' (median of 2 ranks: 6)')
    """
    having = frame[frame[by] > 0]
    if not len(having):
        return None
    columns = list(things)
    largest = having.iloc[int(having[by].argmax())]
    return outlier(having[(having[columns] == largest[columns]).all(axis=1)], by, said)


def rows_at_outlier(frame: pd.DataFrame, found: Outlier) -> pd.DataFrame:
    """Return the rows of a table that belong to the window that stands out."""
    own: pd.DataFrame = frame[(frame["rank"] == found["rank"]) & (frame["scope"] == found["scope"])]
    return own


def sums_per_scope(frame: pd.DataFrame) -> pd.DataFrame:
    """Add up the numbers of each rank and scope."""
    return frame.groupby(SCOPE, sort=False).sum(numeric_only=True).reset_index()


def sequence_headline(found: Outlier) -> str:
    """Name the operator and sequence with the most GPU time."""
    size = counted(found["kernels"], "GPU activity", "GPU activities") + (" each" if found["count"] > 1 else "")
    times = f"{brief_duration(found['gpu_ns'])} in {counted(found['count'], 'occurrence')} ({size}){found.typical}"
    return f"sequence with the most GPU time{found.where}: {quoted(found['operator'])}, {times}"
