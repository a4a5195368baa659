"""What ``stragglers`` says: which rank delays the others, by what, and how sure that is."""

from __future__ import annotations

from analyses.display.labels import SHORT
from analyses.display.sentence_format import brief_duration, brief_share, outside_operators, quoted
from hta_graph.base.errors import Remedy
from hta_graph.base.text.sanitize import one_line

TITLE = "Waiting that each rank causes, by what it does meanwhile"
NO_WAITING = "No rank waits for another."
CAUSED_AXIS = "ms, of all other ranks together"
NO_CAUSE = "no recorded cause"
COUNTED = "the other ranks and all collectives"
WHOLE = "the recording"
ESTIMATE = "Estimated saving at the others' speed"


def estimate(rank: int) -> Remedy:
    """Say how to estimate what the late rank costs."""
    return Remedy(
        f"hg.replay(job, hg.scenario('rank_like_others', '{rank}'))",
        f"hta-graph what-if DIR --scenario rank_like_others={rank}",
    )


def mostly_on_host(share: float, host: str) -> str:
    """Name the host that causes most, as the end of a headline."""
    return f"; {brief_share(share)} is caused on host {one_line(host)}"


def largest_cause(cause: str, share: float, rank: int | None = None) -> str:
    """Name the largest single cause."""
    of = (
        f" on rank {rank}, {brief_share(share)} of the waiting" if rank is not None else f", {brief_share(share)} of it"
    )
    return f"Largest single cause: {cause}{of}."


def propagated(share: float) -> str:
    """Say how much was passed on by ranks that had waited themselves."""
    return f"{brief_share(share)} of the waiting that it causes reaches the others through ranks that wait, too."


def unknown(time_ns: int) -> str:
    """Say how much has no recorded cause."""
    return f"{brief_duration(time_ns)} of the waiting has no recorded cause."


def cause(name: str, around: str, what: str) -> str:
    """Name what a rank did, in what, and its class."""
    if what == SHORT["cpu_gap"]:
        return outside_operators(name)
    return f"{quoted(name)}{f' in {quoted(around)}' if around else ''} ({what})"


def inside(name: str, around: str) -> str:
    """Name what a rank did in one of several places."""
    return f"{name} in {quoted(around)}" if around else name


# -- figures -----------------------------------------------------------------------------------------------------------


def waiting_over_time(ranks: int, together: int) -> str:
    """Title the heat map of waiting."""
    return f"When each of {ranks:,} ranks waits for others{f' ({together} ranks per row)' if together > 1 else ''}"


def band(first: int, last: int) -> str:
    """Name ranks that share a row.

    >>> band(3, 3), band(4, 6)
    ('rank 3', 'ranks 4 to 6')
    """
    return f"rank {first}" if first == last else f"ranks {first} to {last}"
