"""What is told of stretches of a job: its path by class, name and rank, and who made others wait, in which groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analyses.diff.change_tables import class_times, event_times
from hta_graph.arrays import summed_by, take_or
from hta_graph.graph.job_graph import JobGraph
from hta_graph.model import Bools, Ints
from hta_graph.multi_rank.matching.read_members import read_communications
from hta_graph.multi_rank.wait_causes import WaitCauses
from hta_graph.paths.critical_path import CriticalPath
from hta_graph.paths.windows import Window

__all__ = ["CAUSE_KEYS", "GROUP_KEYS", "JobRows", "rows_of_job"]

NEVER = int(np.iinfo(np.int64).min)
CAUSE_KEYS = ["rank", "name", "call_path", "bound_by"]
GROUP_KEYS = ["kind", "ranks", "group"]


@dataclass(frozen=True)
class JobRows:
    """Tables about some stretches of a job: each row has its ``stretch`` (from 0), keys and ``ns``, each key once.

    ``ranks`` also have ``caused_ns``, the waiting of others that they cause; the ``ns`` of ``causes`` and ``groups`` is
    waiting, added up over the ranks that wait. What is not known is -1 as a rank, else an empty text.
    """

    count: int
    classes: pd.DataFrame
    names: pd.DataFrame
    ranks: pd.DataFrame
    causes: pd.DataFrame
    groups: pd.DataFrame


def rows_of_job(job: JobGraph, paths: Sequence[CriticalPath]) -> JobRows:
    """Tell of the stretches of a job whose paths are known."""
    every = [_waits_in(job, path.window) for path in paths]
    causes = _cause_rows(job, every)
    return JobRows(
        len(paths), class_times(paths), event_times(paths), _rank_rows(paths, causes), causes, _group_rows(job, every)
    )


def _waits_in(job: JobGraph, window: Window) -> Bools:
    """Mark the members of what ranks did together whose last one came in a window: of that, all others wait for it.

    Iterations tile a job, so each belongs to one of them.
    """
    members, came = job.members, np.full(int(job.members.number.max(initial=-1)) + 1, NEVER)
    last = members.is_last & (members.number >= 0)
    came[members.number[last]] = members.arrival[last]
    when = take_or(came, members.number, otherwise=NEVER)
    found: Bools = (when > window.start_ns) & (when <= window.end_ns)
    return found


def _rank_rows(paths: Sequence[CriticalPath], causes: pd.DataFrame) -> pd.DataFrame:
    """Return each rank's time on each path, and the waiting that it causes there."""
    times = [(at, rank, ns) for at, path in enumerate(paths) for rank, ns in path.by_rank_ns.items()]
    frame = pd.DataFrame(times, columns=["stretch", "rank", "ns"])
    caused = causes.groupby(["stretch", "rank"])["ns"].sum().rename("caused_ns").reset_index()
    found = frame.merge(caused, how="left", on=["stretch", "rank"])
    return found.assign(caused_ns=found["caused_ns"].fillna(0).astype(np.int64))


def _cause_rows(job: JobGraph, every: Sequence[Bools]) -> pd.DataFrame:
    """Charge the waits of each stretch to what late ranks did."""
    found = WaitCauses(job)
    parts = [pd.DataFrame({"stretch": at, **found.columns_of(found.attribute(own))}) for at, own in enumerate(every)]
    frame = pd.concat(parts, ignore_index=True)
    texts = {key: frame[key].fillna("").astype(object) for key in CAUSE_KEYS[1:]}
    frame = frame.assign(rank=pd.to_numeric(frame["rank"]).fillna(-1).astype(np.int64), **texts)
    sums = frame.groupby(["stretch", *CAUSE_KEYS])["caused_ns"].sum()
    return sums.rename("ns").reset_index()


def _group_rows(job: JobGraph, every: Sequence[Bools]) -> pd.DataFrame:
    """Add up the waits of each stretch by process group: kind (what it is for), ranks (its size), group."""
    members = job.members
    last = np.flatnonzero(members.is_last & (members.number >= 0))
    groups, code = _groups_of(job, last)
    of_number = np.full(int(members.number.max(initial=-1)) + 1, -1)
    of_number[members.number[last]] = code
    parts = []
    for at, waits in enumerate(every):
        own = members.take(waits)
        waited = summed_by(of_number[own.number], own.wait, len(groups))
        met = np.unique(of_number[own.number])
        parts.append(groups.iloc[met].assign(stretch=at, ns=waited[met]))
    return pd.concat(parts, ignore_index=True)


def _groups_of(job: JobGraph, last: Ints) -> tuple[pd.DataFrame, Ints]:
    """Return the groups of what ranks did together, as the rank says that came last, and the row of each."""
    members = job.members
    first = np.searchsorted(members.part, np.arange(len(job.parts)))
    part = members.part[last]
    said = {place: read_communications(job.graph(job.parts[place].rank)) for place in np.unique(part).tolist()}
    told = [
        (*said[of].group_at(place), said[of].group[place] or "")
        for of, place in zip(part.tolist(), (last - first[part]).tolist(), strict=True)
    ]
    frame = pd.DataFrame(told, columns=GROUP_KEYS)
    size = np.bincount(members.number[members.number >= 0], minlength=len(last))[members.number[last]]
    frame = frame.assign(kind=frame["kind"].fillna("").astype(object), ranks=np.maximum(frame["ranks"], size))
    # Messages are of two ranks, and need not tell how many their group has.
    frame["ranks"] = frame.groupby("group")["ranks"].transform("max")
    code = frame.groupby(GROUP_KEYS, sort=False).ngroup()
    return frame.drop_duplicates(GROUP_KEYS, ignore_index=True), np.array(code, np.int64)
