"""What differs around two jobs besides a change to the program: how many ranks, which ones, on how many hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import pandas as pd

from analyses.diff.caveats import OF_ENVIRONMENT
from analyses.diff.job_rows import GROUP_KEYS
from analyses.diff.job_side import JobSide
from analyses.display.worst_ranks import RANKS_LISTED

__all__ = ["job_caveats", "job_environment", "missing_rank_lines"]


def job_environment(control: JobSide, test: JobSide, around: pd.DataFrame) -> pd.DataFrame:
    """List what differs around two jobs, their ranks first, then what does around one rank of each.

    Args:
        control: the job to compare with.
        test: the job that changed.
        around: what differs around the rank of each job that is compared beside them.

    Returns:
        what, control, test.
    """
    sides = ((control, test), (test, control))
    ranks = ("ranks", *(_ranks_text(own, other) for own, other in sides))
    hosts = ("hosts", *(_hosts_text(own) for own, _ in sides))
    groups = ("process groups", *(_groups_text(own) for own, _ in sides))
    first = [row for row in (ranks, groups, hosts) if row[1] != row[2] and all(row)]
    return pd.concat([pd.DataFrame(first, columns=around.columns, dtype=object), around], ignore_index=True)


def _ranks_text(own: JobSide, other: JobSide) -> str:
    """Say how many ranks of how many there are, and which the other job lacks."""
    count, size = len(own.files), own.world_size
    said = f"{count} of {size}" if size is not None and size > count else f"{count}"
    alone = sorted(own.files.keys() - other.files.keys())
    # The ranks that make a job larger than another one need no list.
    return f"{said} with {_listed(alone)}" if alone and _job_size(own) == _job_size(other) else said


def _job_size(side: JobSide) -> int:
    return side.world_size or len(side.files)


def _listed(ranks: Sequence[int]) -> str:
    hidden = len(ranks) - RANKS_LISTED
    return ", ".join(map(str, ranks[:RANKS_LISTED])) + (f" and {hidden} more" if hidden > 0 else "")


def _hosts_text(side: JobSide) -> str:
    """Say on how many hosts a job ran; nothing if a rank does not tell its own."""
    return str(len(set(side.hosts.values()))) if len(side.hosts) == len(side.files) else ""


def _groups_text(side: JobSide) -> str:
    """Say how many groups of which kind and size met, largest kinds first."""
    kinds = Counter(side.rows.groups.drop_duplicates(GROUP_KEYS)[GROUP_KEYS[:2]].itertuples(index=False, name=None))
    listed = sorted(((ranks, kind, count) for (kind, ranks), count in kinds.items()), reverse=True)
    return ", ".join(f"{count} × {kind + ' of ' if kind else ''}{ranks}" for ranks, kind, count in listed)


def job_caveats(control: JobSide, test: JobSide, of_rank: Collection[str]) -> list[str]:
    """Say why a difference of jobs is more than the effect of a change: other ranks, and what is said of one rank."""
    said = [words for words in of_rank if words != OF_ENVIRONMENT["rank"]]
    sizes = [_job_size(side) for side in (control, test)]
    if sizes[0] != sizes[1]:
        return [f"of {sizes[1]} ranks instead of {sizes[0]}", *said]
    return ["with other ranks recorded", *said] if control.files.keys() != test.files.keys() else said


def missing_rank_lines(control: JobSide, test: JobSide) -> list[str]:
    """Say which ranks are not given, or lack a step that is compared: what they did is not known."""
    said = []
    for name, side in (("control", control), ("test", test)):
        lacking = max((side.world_size or 0) - len(side.files), 0)
        if lacking:
            given = f"Of the {name}'s {side.world_size:,} ranks {lacking:,} {'is' if lacking == 1 else 'are'} not given"
            said.append(f"{given}: what others waited for there is not known.")
        if side.missing:
            who = f"{'rank' if len(side.missing) == 1 else 'ranks'} {_listed(side.missing)}"
            said.append(f"Of the {name} {who} did not record all that is compared, and contribute nothing there.")
    return said
