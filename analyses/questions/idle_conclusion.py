"""The conclusion of idle-time: how long the GPU does nothing, mostly why, and what is behind that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analyses.advice.format import brief_share, quoted
from analyses.display.labels import CAUSE
from analyses.headline import outlier, rows_at_outlier, sums_per_scope
from hta_graph.text.shorten import short_name

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["_headline"]

IN_TIME = "launched in time: "
CAUSE_CLAUSES = {
    "other_rank": f"it {CAUSE['other_rank']}",
    **{cause: says.removeprefix(IN_TIME) for cause, says in CAUSE.items() if says.startswith(IN_TIME)},
}
"""Causes whose words are no whole clause."""


def _headline(causes: pd.DataFrame, waits: pd.DataFrame) -> list[str]:
    """Say for how much of the time the GPU is idle where it is most so, and what most of that is.

    Args:
        causes: idle time by cause, as :func:`analyses.questions.idle_time.idle_time` lists it.
        waits: the same by what is behind it.
    """
    found = outlier(sums_per_scope(causes), "window_share") if len(causes) else None
    if found is None or not found["idle_ns"]:
        return []
    cause = rows_at_outlier(causes, found).iloc[0]
    says = CAUSE_CLAUSES.get(cause["cause"], CAUSE[cause["cause"]])
    idle = f"the GPU is idle for {brief_share(found['window_share'])} of the time{found.where}{found.typical}"
    behind = rows_at_outlier(waits, found)
    return [f"{idle}; for {brief_share(cause['idle_share'])} of that {says}{_largest_wait(behind, cause['cause'])}"]


def _largest_wait(waits: pd.DataFrame, cause: str) -> str:
    """Name what is behind most of a cause, if there is something."""
    own = waits[(waits["cause"] == cause) & waits["name"].notna()]
    if not len(own):
        return ""
    sums = own.groupby("name", sort=False)["idle_ns"].sum()
    most = "mostly " if len(sums) > 1 else ""
    return f" ({most}{quoted(short_name(str(sums.idxmax())))})"
