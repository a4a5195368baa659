"""The causes of waits of several ranks' scopes: the job's graph is built once, each stretch's waits are charged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from analyses.advice.format import brief_class, brief_duration, brief_share, quoted
from analyses.display.labels import MEANING_IN_JOBS
from analyses.matched_collectives import MatchedWindow
from analyses.tables import joined
from hta_graph.graph.job_graph import JobGraph
from hta_graph.model import Bools, Ints
from hta_graph.multi_rank.join_ranks import join_ranks
from hta_graph.multi_rank.wait_causes import WaitCauses
from hta_graph.text.sanitize import one_line
from hta_graph.text.shorten import short_name

__all__ = ["CAUSES", "causes", "_headline"]

NOTABLE = 0.1
"""A share of a rank's waiting that is worth saying."""

CAUSE_COLUMNS = ("call_path", "name", "bound_by")
"""The columns that say what a rank did."""

BETWEEN = " / "
"""What stands between the names of a call path."""

CAUSES = [
    *("rank", "scope", "name", "call_path", "bound_by"),
    *("caused_ns", "direct_ns", "propagated_ns", "collectives"),
]


def causes(matched: Sequence[MatchedWindow]) -> pd.DataFrame:
    """Charge the waiting to what the late ranks did more of than those that waited, since they last met.

    A wait is divided in proportion to what the late rank did more of, by call path, name and class, and to its own
    waits in that time, which are charged to their causes in turn. All waiting is charged, to the nanosecond.

    Returns:
        rank, scope, name (what it did; an operator, kernel, frame or annotation), call_path (around that, outermost
        first), bound_by, caused_ns (waiting of others), direct_ns (of those that waited for this rank), propagated_ns
        (passed on to others by ranks that had waited for it), collectives (where they waited); largest first. A row of
        a rank without a name, last, is what cannot be charged: the ranks had not met before in the recording, nothing
        shows what the rank did more of, or the wait is below the error of clocks.
    """
    if not matched or not any(len(item.found) for item in matched):
        return joined([], CAUSES)
    job = _joined_job(matched)
    found = WaitCauses(job)
    return joined([_causes_in_window(item, job, found) for item in matched if len(item.found)], CAUSES)


def _joined_job(matched: Sequence[MatchedWindow]) -> JobGraph:
    """Build the job's graph, of what is matched already if the files tell the ranks."""
    # Ranks need not have all stretches: a step may be missing.
    found = {rank: scope.graph for item in matched for rank, scope in item.scopes.items()}
    graphs = {rank: found[rank] for rank in sorted(found)}
    is_numbered = all(graph.rank == rank for rank, graph in graphs.items()) and graphs.keys() == matched[0].ranks.keys()
    return join_ranks(graphs.values(), matched=matched[0].every if is_numbered else None)


def _causes_in_window(item: MatchedWindow, job: JobGraph, found: WaitCauses) -> pd.DataFrame:
    """List the causes of one stretch's waits."""
    charges = found.attribute(_members_in_window(item, job))
    frame = pd.DataFrame({**found.columns_of(charges), "scope": item.label})
    return frame.astype({"rank": "Int64"})


def _members_in_window(item: MatchedWindow, job: JobGraph) -> Bools:
    """Mark the members of the job that take part in a stretch's collectives."""
    first_row = {part.rank: part.first_row for part in job.parts}
    first = np.array([first_row[rank] for rank in item.found.rank.tolist()], np.int64)
    every: Ints = np.arange(len(item.found.number))
    return np.isin(job.members.row, first + item.rows(every))


def _headline(frame: pd.DataFrame, hosts: Mapping[int, str]) -> list[str]:
    """Say which rank holds up the others and by what, if one does so more than all others together; and which host."""
    waited = int(frame["caused_ns"].sum())
    if not waited:
        return []
    by_rank = frame.groupby("rank")["caused_ns"].sum().sort_values(ascending=False, kind="stable")
    rank, caused = int(by_rank.index[0]), int(by_rank.iloc[0])
    of_all = f"{brief_duration(waited)} of waiting"
    if 2 * caused > waited:
        own = frame[frame["rank"] == rank]
        begins = (
            f"rank {rank}{_on_host(rank, hosts)} holds up the others: it causes {brief_duration(caused)} of {of_all}"
        )
        return ["".join([begins, _main_cause(own, caused), _propagated_text(own, caused), _unknown_text(own, caused)])]
    most = f"of {of_all} rank {rank} causes {brief_share(caused / waited)}, more than any other"
    begins = f"no rank alone causes most of the waiting, though one may hold up a step (critical-path): {most}"
    named = frame[frame["name"].notna()]
    largest = _largest_cause(named, waited) if len(named) else ""
    return [begins + _main_host(by_rank, hosts, waited) + largest + _unknown_text(frame, waited)]


def _on_host(rank: int, hosts: Mapping[int, str]) -> str:
    return f" on host {one_line(hosts[rank])}" if rank in hosts else ""


def _main_host(by_rank: pd.Series[int], hosts: Mapping[int, str], waited: int) -> str:
    """Name the host whose ranks cause more than those of all other hosts together, if there is one."""
    by_host = by_rank.groupby([hosts.get(int(rank), "") for rank in by_rank.index]).sum().drop("", errors="ignore")
    if not len(by_host) or 2 * int(by_host.max()) <= waited:
        return ""
    host = by_host.idxmax()
    share = brief_share(int(by_host.max()) / waited)
    return f"; but {share} is caused on host {one_line(str(host))}"


def _largest_cause(named: pd.DataFrame, waited: int) -> str:
    """Name what causes more than anything else, on whichever rank."""
    (rank, *what), most = _largest_sum(named, ["rank", *CAUSE_COLUMNS])
    return f"; the largest single cause is {_cause_text(what)} on rank {rank}, {brief_share(most / waited)}"


def _propagated_text(own: pd.DataFrame, caused: int) -> str:
    passed = int(own["propagated_ns"].sum())
    said = f"; {brief_share(passed / caused)} of it reached others through ranks that had waited too"
    return said if passed >= NOTABLE * caused else ""


def _unknown_text(rows: pd.DataFrame, caused: int) -> str:
    lost = int(rows.loc[rows["name"].isna(), "caused_ns"].sum())
    return f"; of {brief_duration(lost)} the recording shows no cause" if lost >= NOTABLE * caused else ""


def _main_cause(own: pd.DataFrame, caused: int) -> str:
    """Say what causes most of a rank's waiting, and how much of it; if that is little, inside of what most lies."""
    named = own[own["name"].notna()].assign(outermost=lambda rows: rows["call_path"].map(_outermost))
    if not len(named):
        return ""
    what, most = _largest_sum(named, CAUSE_COLUMNS)
    (where,), inside = _largest_sum(named, ["outermost"])
    if 2 * most >= caused or not where:
        return f", {brief_share(most / caused)} of that by {_cause_text(what)}"
    there, _ = _largest_sum(named[named["outermost"] == where], CAUSE_COLUMNS)
    largest = f"; the largest single cause is {_cause_text(what)}, {brief_share(most / caused)}"
    said = f", {brief_share(inside / caused)} of that in {quoted(where)}, most by {_cause_text(there, where)}"
    return said if there == what else said + largest


def _largest_sum(rows: pd.DataFrame, keys: Sequence[str]) -> tuple[list[str], int]:
    """Return the values of some columns that cause most together, and how much (ns)."""
    sums = rows.groupby(list(keys), sort=False)["caused_ns"].sum().sort_values(ascending=False, kind="stable")
    largest = next(sums.reset_index().itertuples(index=False))
    return list(map(str, largest[:-1])), int(largest[-1])


def _outermost(call_path: str) -> str:
    return call_path.partition(BETWEEN)[0]


def _cause_text(what: Sequence[str], said: str = "") -> str:
    """Say what was done, and in what if that is not said already."""
    call_path, name, bound = what
    around = call_path.rpartition(BETWEEN)[2]
    inside = f" in {quoted(around)}" if around not in ("", said) else ""
    return f"{quoted(short_name(name))}{inside} ({brief_class(bound, MEANING_IN_JOBS)})"
