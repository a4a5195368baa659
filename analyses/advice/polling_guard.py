"""A guard: the path is on the host while the GPU works. Either the host is just ahead of it, or it waits unseen.

host     |op|launch|........ silence ........|op|launch|      no operator, no call: Python, or a wait without a row
stream          [kernel ~~~~~~~~~~~~~~~~~~~~]       [kernel    the GPU works all the while; the host goes on at its end
"""

from __future__ import annotations

import numpy as np

from analyses.advice.facts import HOST_CLASSES, PathFacts
from analyses.advice.finding import PathFinding
from analyses.advice.format import brief_share
from hta_graph.arrays import first_of_runs, last_of_runs
from hta_graph.graph.memo import memoized
from hta_graph.model import BoundBy

__all__ = ["gpu_busy_meanwhile", "host_may_poll", "may_poll"]

SHORTEST_SILENCE_NS = 100_000
"""Python between two operators of a loop takes less, mostly 2 to 50 µs."""

COVERED = 0.9
"""A silence is covered where the GPU works during so much of it: a host that waits goes on at the work's end, so that
only its own return is outside."""

POLLING_SHARE = 0.1
"""Covered silences are told from so much of the window on."""

FEWEST_SILENCES = 3
"""One may be chance."""

HOST_SHARE = 0.3
"""The GPU's idle time is compared with that of the host from so much of the window on the host on."""

IDLE_OF_HOST = 1 / 3
"""The GPU is idle "for far less" where that is less than a third of the host's time on the path."""


@memoized
def host_may_poll(facts: PathFacts) -> PathFinding | None:
    """Long silences of the host end with the GPU's work, again and again: it may wait in a way that leaves no row."""
    silent_ns, covered_ns, count = _silences(facts)
    if not facts.is_worth(covered_ns, POLLING_SHARE) or 2 * covered_ns < silent_ns or count < FEWEST_SILENCES:
        return None
    evidence = {
        "covered_silence_ns": covered_ns, "covered_silences": count, "silence_ns": silent_ns,
        "gpu_idle_ns": facts.gpu_idle_ns,
    }  # fmt: skip
    text = (
        f"The path is on the host for {facts.told(covered_ns)} in which no "
        "operator or call is open and the GPU works all the time: the host may be polling, or wait in a way that was "
        "not recorded. That time is then the GPU's, not the host's."
    )
    return PathFinding(text, evidence, "low")


def may_poll(facts: PathFacts) -> bool:
    """Tell whether advice about the host's own work would be doubtful."""
    return host_may_poll(facts) is not None


@memoized
def gpu_busy_meanwhile(facts: PathFacts) -> PathFinding | None:
    """The path is on the host, and yet the GPU is idle for far less: a faster host gains that much only."""
    host_ns, idle_ns = facts.host_ns, facts.gpu_idle_ns
    if not facts.is_worth(host_ns, HOST_SHARE) or idle_ns >= IDLE_OF_HOST * host_ns or host_may_poll(facts):
        return None
    beside_ns = int(facts.beside_gpu(facts.in_classes(*HOST_CLASSES)).sum())
    evidence = {
        "host_ns": host_ns, "gpu_busy_meanwhile_ns": beside_ns, "gpu_idle_ns": idle_ns,
    }  # fmt: skip
    text = (
        f"The path is on the host for {brief_share(facts.share(host_ns))} of the time, but the GPU works "
        f"all the while but for {facts.told(idle_ns)}: the host is hardly slower than "
        "the GPU, or a wait for the GPU was missed."
    )
    return PathFinding(text, evidence, "medium")


def _silences(facts: PathFacts) -> tuple[int, int, int]:
    """Return how long the host's long silences on the path are, those during which the GPU works, and their number."""
    pieces = facts.path.pieces
    is_silent = facts.in_classes(BoundBy.CPU_GAP)
    # Its owner may change in the middle: it is one silence as long as nothing else comes between.
    first = np.flatnonzero(first_of_runs(is_silent) & is_silent)
    last = np.flatnonzero(last_of_runs(is_silent) & is_silent)
    start, end = pieces.start[first], pieces.end[last]
    is_long = end - start >= SHORTEST_SILENCE_NS
    start, end = start[is_long], end[is_long]
    covered = facts.busy.covered_until(end) - facts.busy.covered_until(start) >= COVERED * (end - start)
    return int((end - start).sum()), int((end - start)[covered].sum()), int(covered.sum())
