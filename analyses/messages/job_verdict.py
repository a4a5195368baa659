"""The verdict of a job: the same sentence in every command, and its record in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analyses.display.labels import SHORT_IN_JOBS
from analyses.display.sentence_format import brief_duration, brief_share
from analyses.messages.verdict import meanwhile
from hta_graph.text.sanitize import one_line
from hta_graph.text.shorten import short_name

if TYPE_CHECKING:
    from hta_graph.multi_rank.job_verdict import Cause, JobVerdict

STEPS_NAMED = 4
"""More steps than this are counted."""

REASONS: Mapping[str, str] = {
    "no_waiting": "no rank waits for another",
    "no_cause_known": "the waiting has no recorded cause",
    "no_causes_in_summary": "the summaries of the ranks contain no causes of waiting",
    "mostly_unmatched": "most communication has no partner on another rank",
    "several_ranks": "other ranks cause much of the waiting, too",
    "little": "the delay is a small share of a step, or close to the clock error",
    "by_chance": "the delays may be chance: too few steps, and no single cause",
}
"""Why a verdict is not firm."""


def sentence(found: JobVerdict, window: str, hosts: Mapping[int, str]) -> str:
    """Name the rank that delays a job, or the ranks that do so in turn; empty where no rank alone does.

    Args:
        found: the verdict.
        window: the name of the window that was asked for.
        hosts: each rank's host, where these differ.
    """
    if found.firmness == "none":
        return ""
    size = f"by {brief_duration(found.median_caused_ns)}"
    share = f"({brief_share(found.share_of_step)} of {'a step' if found.steps else window})"
    cause = _cause(found.cause, is_one=found.is_one_cause)
    if found.pattern == "rotating":
        turns = [f"rank {rank} in step {step}" for rank, step in zip(found.ranks, found.steps, strict=True)]
        named = ", ".join([*turns[:STEPS_NAMED], *["…"] * (len(turns) > STEPS_NAMED)])
        return f"a different rank delays the others in each step, {size} {share}: {named}{cause}"
    rank = f"rank {found.rank}{on_host(hosts.get(found.rank or 0))}"
    doubt = " probably" if found.firmness == "hedged" else ""
    return f"{rank}{doubt} delays the others {size} {_when(found, window)} {share}{cause}"


def _when(found: JobVerdict, window: str) -> str:
    if found.pattern == "every_step":
        return "in every step"
    if found.pattern == "since":
        return f"in every step since step {found.since_step}"
    if found.pattern == "once":
        return f"in step {found.steps[0]} alone"
    if len(found.steps) > STEPS_NAMED:
        return f"in {len(found.steps)} of {found.compared} steps"
    if not found.steps:
        return f"in {window}"
    *first, last = map(str, found.steps)
    return f"in steps {', '.join(first)} and {last}" if first else f"in step {last}"


def _cause(done: Cause | None, *, is_one: bool) -> str:
    if done is None:
        return ""
    said = meanwhile(short_name(done.name), SHORT_IN_JOBS[done.bound_by])
    return f", {said}" if is_one else f", in many operations, {said.replace('mostly in', 'the largest', 1)}"


def on_host(host: str | None) -> str:
    """Name a host behind a rank."""
    return "" if host is None else f" on host {one_line(host)}"


def waiting_caused(found: JobVerdict) -> str:
    """Say how much of the waiting the named ranks cause."""
    who = "It causes" if found.rank is not None else "They cause"
    waiting = f"{brief_duration(found.waiting_ns)} of waiting with a known cause"
    if found.caused_ns == found.waiting_ns:
        return f"{who} all {waiting}."
    return f"{who} {brief_duration(found.caused_ns)} of {waiting}."


def nobody(found: JobVerdict, host: str) -> str:
    """Say that no rank alone delays a job, and which one causes most."""
    if not found.ranks or not found.share_of_waiting:
        last = f"; rank {found.ranks[0]} mostly arrives last" if found.ranks else ""
        return f"no rank alone delays the others: {REASONS[found.reason or 'no_cause_known']}{last}"
    waiting = f"{brief_duration(found.waiting_ns)} of waiting with a known cause"
    most = f"rank {found.ranks[0]} causes the most, {brief_share(found.share_of_waiting)} of {waiting}"
    return f"no rank alone delays the others: {most}{host}"


def doubt(found: JobVerdict) -> str:
    """Say why the verdict is uncertain; empty where it is firm."""
    if found.reason is None or found.firmness == "firm":
        return ""
    return f"Uncertain: {REASONS[found.reason]}." if found.firmness == "hedged" else ""


def on_side(side: str, said: str) -> str:
    """Say the verdict of one of two jobs."""
    return f"In the {side}, {said}."


def record(found: JobVerdict | None) -> dict[str, Any] | None:
    """Return the verdict as JSON has it (times in ns); null for one rank."""
    if found is None:
        return None
    return {
        "scope": found.scope,
        "rank": found.rank,
        "ranks": list(found.ranks),
        "firmness": found.firmness,
        "caused_ns": found.caused_ns,
        "median_caused_ns": found.median_caused_ns,
        "share_of_waiting": found.share_of_waiting,
        "share_of_step": found.share_of_step,
        "cause": None if found.cause is None else found.cause._asdict(),
        "pattern": found.pattern,
        "since_step": found.since_step,
        "steps": list(found.steps),
        "reason": found.reason,
    }
