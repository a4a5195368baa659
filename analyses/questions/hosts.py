"""Hosts of a job: how much waiting the ranks of each cause and suffer, where the traces name several hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from analyses.matched_collectives import MatchedWindow
from analyses.tables import joined
from hta_graph.graph.job_graph import distinct_hosts

__all__ = ["HOSTS", "host_names", "hosts"]

HOSTS = [
    *("host", "scope", "ranks", "worst_rank", "times_last"),
    *("wait_caused_ns", "wait_caused_share", "caused_ns", "wait_ns"),
]
BY_HOST = ["scope", "host"]


def host_names(matched: Sequence[MatchedWindow]) -> dict[int, str]:
    """Return each rank's host; of none if a rank does not tell it, or all are on one."""
    ranks = matched[0].ranks if matched else {}
    return distinct_hosts({rank: own.recording.host for rank, own in ranks.items()})


def hosts(caused: pd.DataFrame, charged: pd.DataFrame, matched: Sequence[MatchedWindow]) -> pd.DataFrame:
    """Add up :func:`stragglers` and :func:`causes` by host, where every rank's trace names its host and these differ.

    Returns:
        host, scope, ranks (how many), worst_rank (of them, by the waiting that it causes), times_last, wait_caused_ns
        and wait_caused_share (the waiting in collectives to which ranks of the host come last; share of all ranks'),
        caused_ns (the waiting that is charged to what ranks of the host did), wait_ns (its own ranks' waiting); the
        worst first.
    """
    names = host_names(matched)
    if not names:
        return joined([], HOSTS)
    frame = (
        _with_hosts(caused, names)
        .groupby(BY_HOST, sort=False)
        .agg(
            ranks=("rank", "count"),
            # Ranks stand in order of what they cause.
            worst_rank=("rank", "first"),
            times_last=("times_last", "sum"),
            wait_caused_ns=("wait_caused_ns", "sum"),
            wait_caused_share=("wait_caused_share", "sum"),
        )
    )
    for name, rows in (("caused_ns", charged), ("wait_ns", _own_waits(matched))):
        sums = _with_hosts(rows, names).groupby(BY_HOST)[name].sum()
        frame[name] = sums.reindex(frame.index, fill_value=0)
    stretches = [own for _, own in frame.reset_index().groupby("scope", sort=False)]
    return joined([own.sort_values("wait_caused_ns", ascending=False, kind="stable") for own in stretches], HOSTS)


def _with_hosts(rows: pd.DataFrame, names: Mapping[int, str]) -> pd.DataFrame:
    """Name the host in each row of a rank; what is of no rank is left out."""
    known = rows[rows["rank"].notna()]
    return known.assign(host=known["rank"].map(names))


def _own_waits(matched: Sequence[MatchedWindow]) -> pd.DataFrame:
    """List how long each member waited."""
    return pd.concat(
        pd.DataFrame({"rank": item.found.rank, "scope": item.label, "wait_ns": item.found.wait}) for item in matched
    )
