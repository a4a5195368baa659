"""Which ranks of a large job represent it: the one that matters, and a typical one to compare it with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hta_graph.paths.rank_crossings import straggler_index

if TYPE_CHECKING:
    import pandas as pd

    from hta_graph.paths.critical_path import CriticalPath


WHY_REPRESENTATIVE: Mapping[str, str] = {
    "holds_up_the_job": "which holds up the job",
    "first_cause": "which makes the others wait most by one thing",
    "most_of_the_path": "which most of the job's path is on",
    "typical": "a typical one: half of the others wait no longer for other ranks",
}
"""Why a rank is shown, in words."""


def representative_ranks(path: CriticalPath, causes: pd.DataFrame, waits: pd.DataFrame) -> dict[int, str]:
    """Choose two ranks that have a job's window, and say as what, by keys of :data:`WHY_REPRESENTATIVE`.

    Args:
        path: the job's.
        causes: the table of what ranks made others wait with, the largest first.
        waits: the table of how long each rank waited itself.
    """
    ranks = [part.rank for part in path.graph.rank_graphs if part.rank not in path.window.missing]
    rank, shown_as = _rank_that_matters(path, ranks, causes)
    waited = dict(zip(waits["rank"].tolist(), waits["wait_ns"].tolist(), strict=True))
    others = sorted((one for one in ranks if one != rank), key=lambda one: (waited.get(one, 0), one))
    typical = {others[(len(others) - 1) // 2]: "typical"} if others else {}
    return {rank: shown_as, **typical}


def _rank_that_matters(path: CriticalPath, ranks: list[int], causes: pd.DataFrame) -> tuple[int, str]:
    part = straggler_index(path)
    if part >= 0 and path.graph.rank_graphs[part].rank in ranks:
        return path.graph.rank_graphs[part].rank, "holds_up_the_job"
    known = causes[causes["name"].notna() & causes["rank"].isin(ranks)]
    if len(known):
        return int(known["rank"].iloc[0]), "first_cause"
    return max(ranks, key=path.by_rank_ns.__getitem__), "most_of_the_path"
