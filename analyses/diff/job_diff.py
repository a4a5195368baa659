"""Where two jobs differ: on their paths by class, name, rank and host, and in who made whom wait; medians of steps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd

from analyses.diff.change_tables import changed_rows
from analyses.diff.job_rows import CAUSE_KEYS, GROUP_KEYS, JobRows
from analyses.diff.job_side import JobSide
from analyses.diff.merge_tables import SIDES, SideRows, merge_medians
from analyses.diff.two_runs_comparison import Comparison
from hta_graph.graph.conversion import none_where

__all__ = [
    "JobComparison",
    "common_ranks",
    "job_causes",
    "job_classes",
    "job_groups",
    "job_hosts",
    "job_names",
    "job_ranks",
]

JobComparison = Comparison[JobSide]


def job_classes(found: JobComparison) -> pd.DataFrame:
    """Compare the classes of the jobs' paths.

    Returns:
        bound_by, control_ns, test_ns (medians over the steps of a side), diff_ns, noise_ns (how much of that chance may
        do); what is beyond its noise first, then by size.
    """
    return _medians(found, lambda rows: rows.classes, ["bound_by"], ["ns"])


def job_names(found: JobComparison) -> pd.DataFrame:
    """Compare what the jobs' paths ran through, on whichever rank.

    Returns:
        name, bound_by, control_calls, test_calls, control_ns, test_ns, diff_ns, noise_ns; as in the table of classes.
    """
    return changed_rows(_medians(found, lambda rows: rows.names, ["name", "bound_by"], ["calls", "ns"]))


def job_ranks(found: JobComparison) -> pd.DataFrame:
    """Compare the ranks that both jobs have, by their numbers.

    Returns:
        rank, host (of the test's) and control_host where traces name them, control_ns, test_ns (time of the job's path
        on the rank), diff_ns, noise_ns, control_caused_ns, test_caused_ns (waiting of others that it causes); as in the
        table of classes.
    """
    kept = common_ranks(found)
    frame = _caused_last(_medians(found, lambda rows: _of_ranks(rows.ranks, kept), ["rank"], ["ns", "caused_ns"]))
    for name, side in (("control_host", found.control), ("host", found.test)):
        frame.insert(1, name, _texts([side.hosts.get(rank) for rank in frame["rank"].tolist()]))
    return frame


def job_hosts(found: JobComparison) -> pd.DataFrame:
    """Add up the ranks by the hosts of the test, where its traces name several: the same ranks, wherever they ran.

    Returns:
        host, control_host (where the control's same ranks ran, if on one), ranks (how many), control_ns, test_ns (time
        of the job's path on them), diff_ns, noise_ns, control_caused_ns, test_caused_ns (waiting that they cause,
        within the host too); as in the table of classes.
    """
    hosts = {rank: found.test.hosts[rank] for rank in common_ranks(found) if rank in found.test.hosts}
    ranks: dict[str, list[int]] = {}
    for rank, host in hosts.items():
        ranks.setdefault(host, []).append(rank)
    kept = hosts if len(ranks) > 1 else {}
    frame = _caused_last(_medians(found, lambda rows: _by_host(rows, kept), ["host"], ["ns", "caused_ns"]))
    before = [{found.control.hosts.get(rank) for rank in ranks[host]} for host in frame["host"]]
    frame.insert(1, "control_host", _texts([names.pop() if len(names) == 1 else None for names in before]))
    frame.insert(2, "ranks", np.array([len(ranks[host]) for host in frame["host"]], np.int64))
    return frame


def _by_host(rows: JobRows, hosts: Mapping[int, str]) -> pd.DataFrame:
    own = _of_ranks(rows.ranks, hosts)
    own = own.assign(host=own["rank"].map(hosts).astype(object))
    return own.groupby(["stretch", "host"])[["ns", "caused_ns"]].sum().reset_index()


def job_groups(found: JobComparison) -> pd.DataFrame:
    """Compare how long ranks waited for each other in process groups, by what these are for and their size.

    Returns:
        kind (such as ``tp``; missing: the traces do not describe them), ranks (of each group), groups (how many),
        control_ns, test_ns (waiting of all ranks in all of them), diff_ns, noise_ns, worst_group (whose waiting changed
        most) and worst_diff_ns (by how much); as in the table of classes.
    """
    keys, least_ns = GROUP_KEYS[:2], _least_wait_ns(found)
    frame = _medians(found, _by_kind, keys, ["ns"], least_ns)
    each = _medians(found, lambda rows: rows.groups, GROUP_KEYS, ["ns"])
    each = each.loc[each["diff_ns"].abs().sort_values(ascending=False, kind="stable").index]
    worst = each.groupby(keys).agg(
        groups=("group", "size"), worst_group=("group", "first"), worst_diff_ns=("diff_ns", "first")
    )
    frame = frame.merge(worst.reset_index(), on=keys, how="left")
    frame.insert(2, "groups", frame.pop("groups"))
    return frame.assign(kind=_none_for_nothing(frame, "kind", frame["kind"]))


def _by_kind(rows: JobRows) -> pd.DataFrame:
    return rows.groups.groupby(["stretch", *GROUP_KEYS[:2]])["ns"].sum().reset_index()


def job_causes(found: JobComparison) -> pd.DataFrame:
    """Compare what made other ranks wait, on the ranks that both jobs have.

    Returns:
        rank, name (what it did; missing: nothing shows it), call_path (around that, outermost first), bound_by,
        control_ns, test_ns (waiting of others that it causes), diff_ns, noise_ns; as in the table of classes.
    """
    kept = common_ranks(found)
    rows = _medians(found, lambda rows: _of_ranks(rows.causes, kept), CAUSE_KEYS, ["ns"], _least_wait_ns(found))
    frame = changed_rows(rows)
    return frame.assign(**{key: _none_for_nothing(frame, key, frame["name"]) for key in ("call_path", "name")})


def common_ranks(found: JobComparison) -> list[int]:
    """Return the ranks that both jobs have."""
    return sorted(found.control.files.keys() & found.test.files.keys())


def _least_wait_ns(found: JobComparison) -> float:
    """Return the waiting of all ranks but one, where each waits for as long as iterations differ by chance.

    Of thousands of causes some leave their own bands by chance; who holds up a job makes all others wait.
    """
    return found.noise_share * found.control.median_ns * max(len(common_ranks(found)) - 1, 1)


def _medians(
    found: JobComparison,
    rows_of: Callable[[JobRows], pd.DataFrame],
    keys: list[str],
    values: list[str],
    least_ns: float = 0.0,
) -> pd.DataFrame:
    """Make one table of the rows of all steps."""
    sides = [SideRows(side.rows.count, rows_of(side.rows)) for side in (found.control, found.test)]
    return merge_medians(sides, keys, values, found.row_noise_share, least_ns)


def _of_ranks(rows: pd.DataFrame, ranks: Collection[int]) -> pd.DataFrame:
    return rows[rows["rank"].isin(list(ranks))]


def _caused_last(frame: pd.DataFrame) -> pd.DataFrame:
    """Put the waiting that is caused behind the times of the path."""
    caused = [f"{side}_caused_ns" for side in SIDES]
    return frame[[*(name for name in frame if name not in caused), *caused]]


def _texts(values: list[str | None]) -> pd.Series[Any]:
    return pd.Series(values, dtype=object)


def _none_for_nothing(frame: pd.DataFrame, column: str, text: pd.Series[Any]) -> Any:
    """Return a column with None where a text is empty."""
    return none_where(frame[column].to_numpy(object, copy=True), (text == "").to_numpy(np.bool_))
