"""Process groups: how much their ranks wait for each other, group by group and by what groups are for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analyses.matched_collectives import MatchedWindow
from analyses.tables import joined

__all__ = ["GROUPS", "GROUP_KINDS", "group_kinds", "groups"]

WAITS = ("waited_ns", "longest_wait_ns", "transfer_ns")
WORST = ("worst_rank", "worst_caused_ns")
GROUPS = ["group", "scope", "kind", "ranks", "collectives", *WAITS, *WORST]
GROUP_KINDS = ["kind", "scope", "ranks", "groups", "collectives", *WAITS, "worst_group", *WORST]


def groups(table: pd.DataFrame, matched: Sequence[MatchedWindow]) -> pd.DataFrame:
    """Add up :func:`collectives` by process group, where these are of several groups.

    Returns:
        group (its name and ranks), scope, kind (what it is for, such as "tp", if the trace describes it), ranks (how
        many are in it), collectives, waited_ns (by all ranks in all of them), longest_wait_ns, transfer_ns (added up),
        worst_rank (for which the others waited longest, as it came last), worst_caused_ns (for how long); the group
        that waits longest first.
    """
    rows = _of_several_groups(table, matched)
    frames = [_summed(own, ["group"]) for _, own in rows.groupby("scope", sort=False)]
    return joined(frames, GROUPS)


def group_kinds(table: pd.DataFrame, matched: Sequence[MatchedWindow]) -> pd.DataFrame:
    """Add up :func:`groups` by what they are for and how many ranks they have.

    Returns:
        kind (missing: the trace does not describe them), scope, ranks (of each group), groups (how many), collectives,
        waited_ns, longest_wait_ns, transfer_ns, worst_group (in which ranks waited longest), worst_rank and
        worst_caused_ns as of a group; the kind in which ranks wait longest first.
    """
    rows = _of_several_groups(table, matched)
    frames = [_summed(own, ["kind", "ranks"]) for _, own in rows.groupby("scope", sort=False)]
    return joined(frames, GROUP_KINDS)


def _of_several_groups(table: pd.DataFrame, matched: Sequence[MatchedWindow]) -> pd.DataFrame:
    """Return the collectives with what their groups are for and the groups' sizes; none if all are of one group."""
    if table["group"].nunique(dropna=False) < 2:
        table = table.iloc[:0]
    told = {item.label: _group_of_collectives(item) for item in matched}
    said = [told[label][number] for label, number in zip(table["scope"], table["number"], strict=True)]
    rows = table.assign(
        kind=pd.Series([kind for kind, _ in said], table.index, object),
        ranks=np.maximum(np.array([size for _, size in said], np.int64), table["ranks"].to_numpy(np.int64)),
    )
    # Messages are of two ranks, and need not tell how many their group has.
    rows["ranks"] = rows.groupby(["scope", "group"], dropna=False)["ranks"].transform("max")
    return rows


def _group_of_collectives(item: MatchedWindow) -> list[tuple[str | None, int]]:
    """Return what each collective's group is for and its size (0: unknown), as the rank says that came last."""
    found = item.found
    last = zip(found.rank[found.last].tolist(), found.place[found.last].tolist(), strict=True)
    return [item.ranks[rank].group_at(place) for rank, place in last]


def _summed(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Add up collectives of one stretch by keys, what was waited for longest first."""
    rows = rows.assign(key=rows.groupby(keys, sort=False, dropna=False).ngroup())
    by_key = rows.groupby("key")
    frame = by_key[["scope", "group", "kind", "ranks"]].first()
    frame["groups"] = by_key["group"].nunique(dropna=False)
    frame["collectives"] = by_key.size()
    frame[["waited_ns", "transfer_ns"]] = by_key[["waited_ns", "transfer_ns"]].sum()
    frame["longest_wait_ns"] = by_key["longest_wait_ns"].max()
    frame["worst_group"] = _most_waited(rows, "group")["group"]
    frame[["worst_rank", "worst_caused_ns"]] = _most_waited(rows, "last_rank")
    return frame.sort_values("waited_ns", ascending=False, kind="stable")


def _most_waited(rows: pd.DataFrame, of: str) -> pd.DataFrame:
    """Return for each key what was waited for longest, and how long."""
    sums = rows.groupby(["key", of], sort=False, dropna=False)["waited_ns"].sum().reset_index()
    most = sums.sort_values("waited_ns", ascending=False, kind="stable").drop_duplicates("key")
    return most.set_index("key").sort_index()
