"""Advice about a host that waits for the GPU: values that are read, pageable copies, explicit synchronisation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from analyses.advice.facts import PathFacts
from analyses.advice.finding import Confidence, PathFinding
from analyses.advice.format import brief_duration, counted, quoted
from analyses.advice.host_waits import (
    HostWaits,
    holds_upload,
    host_waits,
    saved_by_running_ahead,
    saved_without_waits,
)
from analyses.advice.polling_guard import may_poll
from hta_graph.arrays import distinct
from hta_graph.model import Bools, BoundBy

__all__ = ["explicit_synchronisation", "pageable_copies", "values_read", "waits_of_all_kinds"]


def values_read(facts: PathFacts) -> PathFinding | None:
    """The host reads what the GPU computed (``.item()``, ``nonzero``, ``.cpu()``) and cannot launch ahead meanwhile."""
    every = host_waits(facts)
    return _waiting_finding(
        facts,
        every,
        every.reads,
        "reads values from the GPU",
        "Keep them there: masks and torch.where instead of boolean indices and nonzero, .item() and .cpu() less often",
    )


def explicit_synchronisation(facts: PathFacts) -> PathFinding | None:
    """Synchronising calls of the program itself keep the host from launching ahead."""
    every = host_waits(facts)
    return _waiting_finding(
        facts,
        every,
        ~every.reads & ~every.copies,
        "synchronises with the GPU",
        "Leave that out where nothing on the host needs the result, or let streams wait for events",
    )


def waits_of_all_kinds(facts: PathFacts) -> PathFinding | None:
    """No kind of wait alone costs much, since the others stay, but all together do."""
    every = host_waits(facts)
    kinds = (every.reads, every.copies, ~every.reads & ~every.copies)
    if any(facts.is_worth(saved_by_running_ahead(facts, kind)) for kind in kinds):
        return None
    return _waiting_finding(
        facts,
        every,
        np.ones(len(every), np.bool_),
        "waits for the GPU",
        "Read values less often, pin memory and copy with non_blocking=True, leave synchronisation out",
    )


def pageable_copies(facts: PathFacts) -> PathFinding | None:
    """Copies to the GPU from pageable memory hold the host: pinned memory and ``non_blocking=True`` let both go on."""
    graph, pieces, every = facts.graph, facts.path.pieces, host_waits(facts)
    copies = np.flatnonzero(graph.marks.pageable_upload)
    calls = graph.launching_call[copies]
    involved = facts.marked(np.append(copies, calls))
    # A lag of the launch is no copying.
    copying = facts.in_classes(BoundBy.GPU_MEMORY_BOUND, BoundBy.CPU_BOUND, BoundBy.SYNC_OVERHEAD)
    copying &= facts.owned_by(involved)
    held = every.copies & holds_upload(facts, every.call)
    waits, copying_ns = every.take(held), facts.time_of(copying)
    worth = min(copying_ns + saved_by_running_ahead(facts, held), facts.standing_ns)
    if not facts.is_worth(worth) or may_poll(facts):
        return None
    host_ns = int(waits.host.sum())
    # A copy and its call are one copy; calls that are not in the file are -1.
    passed = distinct(pieces.event[copying])
    count = max(int(np.count_nonzero(np.isin(copies, passed) | np.isin(calls, passed[passed >= 0]))), len(waits))
    evidence = {
        "copies": count, "copying_ns": copying_ns, "waits": len(waits), "host_ns": host_ns,
        "largest": facts.largest_records(copying), "sites": facts.sites(waits.call, waits.host),
    }  # fmt: skip
    text = (
        f"{counted(count, 'copy', 'copies')} to the GPU from pageable memory{_site_text(evidence)}: "
        f"{brief_duration(copying_ns)} of copying, and {brief_duration(host_ns)} in which the GPU then waits for "
        "the host, which had to wait for the copy. Pin the memory and copy with non_blocking=True, or keep the data "
        "on the GPU."
    )
    saved = min(copying_ns + saved_without_waits(facts, held), facts.standing_ns)
    return PathFinding(text, evidence, _confidence(waits), saved)


def _waiting_finding(facts: PathFacts, every: HostWaits, chosen: Bools, what: str, remedy: str) -> PathFinding | None:
    """Tell of waits without which the host could launch ahead, where that would hide enough of its work."""
    if not facts.is_worth(saved_by_running_ahead(facts, chosen)) or may_poll(facts):
        return None
    waits = every.take(chosen)
    host_ns = int(waits.host.sum())
    evidence = {
        "waits": len(waits), "host_ns": host_ns, "gpu_idle_ns": int(waits.idle.sum()),
        "sites": facts.sites(waits.call, waits.host),
    }  # fmt: skip
    times = "once" if len(waits) == 1 else f"{len(waits):,} times"
    text = (
        f"The host {what} {times}{_site_text(evidence)} and so cannot launch ahead: for {facts.told(host_ns)}"
        f" the GPU then waits for the host. {remedy}."
    )
    return PathFinding(text, evidence, _confidence(waits), saved_without_waits(facts, chosen))


def _site_text(evidence: Mapping[str, Any]) -> str:
    """Name the place where most of the time is lost."""
    sites = evidence["sites"]
    if not sites:
        return ""
    mostly = ", mostly in" if len(sites) > 1 else " in"
    return f"{mostly} {quoted(sites[0]['site'])} ({sites[0]['calls']:,} ×)"


def _confidence(waits: HostWaits) -> Confidence:
    """Rate what rests on waits: those that a rule inferred are right nearly always, but not recorded."""
    return "medium" if waits.inferred.any() else "high"
