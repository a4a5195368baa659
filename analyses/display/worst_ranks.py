"""Tables of many ranks on a terminal: the worst ones, then what is typical of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MANY_RANKS", "RANKS_LISTED", "more_ranks", "worst_and_typical"]

MANY_RANKS = 32
"""Of more ranks than this nobody reads one line each."""
RANKS_LISTED = 10
TYPICAL = {"median": 50, "p95": 95}
"""What stands for all ranks: what half, and 95 %, of them do not exceed."""


def worst_and_typical(frame: pd.DataFrame, by: str) -> tuple[pd.DataFrame, int]:
    """Return the rows of the worst ranks, then what is typical, and how many ranks are not among them.

    Each stretch has its own, where the table tells of several. What is typical is told column by column: values that
    occurred, nothing is interpolated.

    >>> import pandas as pd
    >>> of_ranks = pd.DataFrame({"rank": range(40), "scope": "step 1", "wait_ns": range(40)})
    >>> shown, hidden = worst_and_typical(of_ranks, "wait_ns")
    >>> shown[["rank", "wait_ns"]].to_numpy().tolist()[-3:], hidden
    ([[30, 30], ['median', 19], ['p95', 37]], 30)
    """
    import pandas as pd

    frame = frame.astype({"rank": object})
    stretches = [own for _, own in frame.groupby("scope", sort=False)] if "scope" in frame else [frame]
    each = max(RANKS_LISTED // len(stretches), 1)
    parts, named = [], set()
    for own in stretches:
        worst = own.sort_values(by, ascending=False, kind="stable").head(each)
        named |= set(worst["rank"])
        parts += [worst, _typical_rows(own)]
    return pd.concat(parts, ignore_index=True), frame["rank"].nunique() - len(named)


def _typical_rows(own: pd.DataFrame) -> pd.DataFrame:
    """Make a row for each percentage, which has its name in place of a rank."""
    import pandas as pd

    numbers = own.select_dtypes("number")
    places = [-(-len(own) * percent // 100) - 1 for percent in TYPICAL.values()]
    columns = {str(name): np.sort(numbers[name].to_numpy())[places] for name in numbers}
    frame = pd.DataFrame({"rank": list(TYPICAL), **columns}).astype({"rank": object})
    if "scope" in own:
        frame.insert(1, "scope", own["scope"].iloc[0])
    return frame


def more_ranks(hidden: int) -> list[str]:
    """Say how many ranks are not listed, and where they are.

    >>> more_ranks(1014), more_ranks(0)
    (['  and 1,014 ranks more; --json FILE lists all'], [])
    """
    return [f"  and {hidden:,} ranks more; --json FILE lists all"] if hidden else []
