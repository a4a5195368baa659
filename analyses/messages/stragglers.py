"""What ``stragglers`` says: which rank delays the others, by what, and how sure that is."""

from __future__ import annotations

from analyses.display.labels import SHORT
from analyses.display.sentence_format import brief_duration, brief_share, outside_operators, quoted
from hta_graph.errors import Remedy
from hta_graph.text.sanitize import one_line

TITLE = "Waiting that each rank causes, by what it does meanwhile"
NO_WAITING = "No rank waits for another."
CAUSED_AXIS = "ms, of all other ranks together"
NO_CAUSE = "no recorded cause"
COUNTED = "the other ranks and all collectives; without waits that are passed on, unlike the headline and causes"
ESTIMATE = "Estimated saving at the others' speed"


def estimate(rank: int) -> Remedy:
    """Say how to estimate what the late rank costs."""
    return Remedy(
        f"hg.replay(job, hg.scenario('rank_like_others', '{rank}'))",
        f"hta-graph what-if DIR --scenario rank_like_others={rank}",
    )


def delays_the_others(rank: int, host: str | None, caused_ns: int, waited_ns: int, cause: str) -> str:
    """Name the rank that causes most of the waiting."""
    of_all = (
        f"all {brief_duration(waited_ns)}" if caused_ns == waited_ns
        else f"{brief_duration(caused_ns)} of {brief_duration(waited_ns)}"
    )  # fmt: skip
    return f"rank {rank}{on_host(host)} delays the others: it causes {of_all} of waiting{cause}"


def no_rank_stands_out(rank: int, share: float, waited_ns: int, host: str) -> str:
    """Say that no rank causes most of the waiting."""
    most = f"rank {rank} causes the most, {brief_share(share)} of {brief_duration(waited_ns)}"
    return f"no rank causes most of the waiting: {most}{host}"


SINGLE_STEPS = "A rank may still delay a single step; see critical-path."


def mostly_on_host(share: float, host: str) -> str:
    """Name the host that causes most, as the end of a headline."""
    return f"; {brief_share(share)} is caused on host {one_line(host)}"


def on_host(host: str | None) -> str:
    """Name a host behind a rank."""
    return "" if host is None else f" on host {one_line(host)}"


def by_cause(share: float, cause: str) -> str:
    """Name the cause of most of a rank's waiting, as the end of a headline."""
    return f", {brief_share(share)} of it by {cause}"


def by_place(share: float, place: str, cause: str) -> str:
    """Name the operator around most of the causes, as the end of a headline."""
    return f", {brief_share(share)} of it in {quoted(place)}, mostly {cause}"


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
