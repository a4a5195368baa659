"""What could not be matched between ranks, and how their clocks were corrected."""

from __future__ import annotations

from collections.abc import Sequence

from analyses.display.sentence_format import counted
from hta_graph.base.text.formatting import milliseconds, signed_milliseconds

CLOCKS_NOTE = "Clocks were not corrected: no collective contradicts them."
NO_COMMUNICATION = "no communication found on any rank: neither communication kernels nor Gloo events"
NOT_ON_ALL_RANKS = (
    "no collective in this window was recorded on all ranks of its group; record the same steps on all ranks"
)
SINGLE_RANK = "the job has a single rank; there is no other rank to compare it with"
UNMATCHED = (
    "unmatched communications are left out: not every rank of their group recorded them in this order at this "
    "time. Traces may start or end at different times, lack events, or belong to different jobs"
)


def unmatched(count: int) -> str:
    """Report communications without a partner."""
    return f"{count:,} {UNMATCHED}"


def group_not_recorded(count: int) -> str:
    """Report collectives whose group is unknown."""
    return (
        f"{counted(count, 'collective')} left out: the traces do not record the process group, and the timing does not "
        "determine it; record flight recorder dumps"
    )


def implausible_clocks(count: int) -> str:
    """Report communications that match only with clocks that no host has."""
    return (
        f"{counted(count, 'communication')} left out: they match only if clocks of one host are more than 128 ms apart"
    )


def without_peer(count: int) -> str:
    """Report communications that do not record with whom."""
    return f"{count:,} sends, receives and rooted collectives record no peer; no waiting is attributed to them"


def clock_set_back(rank: int, offset_ns: int) -> str:
    """Report a clock that was corrected."""
    return f"rank {rank}: clock offset {signed_milliseconds(offset_ns)} ms from the first rank's; corrected"


def more_clocks_set_back(count: int, most_ns: int) -> str:
    """Report the corrected clocks that are not listed."""
    return f"{count:,} more ranks: clock offsets of at most {milliseconds(most_ns)} ms; the job's `clocks` lists all"


def misfit(name: str, events: Sequence[tuple[int, int]]) -> str:
    """Report a collective that contradicts all clock corrections."""
    listed = ", ".join(f"rank {rank} event {index}" for rank, index in events)
    return (
        f"{name} ({listed}) contradicts the clocks that all other collectives agree on; it is mismatched and left out"
    )


def silent_ranks(count: int, size: int) -> str:
    """Report ranks of a job whose traces are missing or hold no communication.

    >>> silent_ranks(1, 4)
    '1 of 4 ranks has no recorded communication; whether it delays the others is unknown.'
    """
    has, delay = ("has", "it delays") if count == 1 else ("have", "they delay")
    return f"{count:,} of {size:,} ranks {has} no recorded communication; whether {delay} the others is unknown."


def lone_rank(world_size: int) -> str:
    """Report that a single rank of a job was given."""
    given = f"only one rank of {world_size:,} is given" if world_size else "only one rank is given"
    return f"{given}; give the traces of all ranks (a folder) to compare them"
