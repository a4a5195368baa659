"""The verdict of a job: the same sentence in every command, and its record in JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from analyses.display.labels import SHORT, SHORT_IN_JOBS
from analyses.display.sentence_format import brief_duration, brief_share, enumerated, outside_operators, quoted
from hta_graph.base.text.sanitize import one_line
from hta_graph.base.text.shorten import short_name

if TYPE_CHECKING:
    from hta_graph.multi_rank.job_verdict import Cause, JobVerdict, LateRank

STEPS_NAMED = 4
"""More steps than this are counted."""

UNEXPLAINED = "unexplained"
"""The class of time without a recorded cause: its name is what it delays."""

RANKS_NAMED = 3
"""More ranks than this are counted."""

ABOUT_AS_MUCH = 0.9
"""Ranks that cause at least this share of the most that one causes are named together."""

NOTHING_SAVED = 0.1
"""Of what all late ranks save together a smaller share than this is nothing: steps differ by as much."""

NEARLY_ALL, MUCH = 0.8, 0.1
"""Who causes this share of the waiting is not one of several; delays below this share of a step are small."""

REASONS: Mapping[str, str] = {
    "no_waiting": "no rank waits for another",
    "no_cause_known": "most of the waiting has no recorded cause",
    "no_causes_in_summary": "the summaries of the ranks contain no causes of waiting",
    "mostly_unmatched": "most communication has no partner on another rank",
    "several_ranks": "other ranks cause much of the waiting, too",
    "little": "the delay is a small share of a step, or close to the clock error",
    "by_chance": "the delays may be chance: too few steps, or no single cause",
}
"""Why a verdict is not firm."""
WHY_NONE = {
    **REASONS, "several_ranks": "several ranks cause the waiting", "little": "each delay is a small share of a step",
    "by_chance": "the delays may be chance",
}  # fmt: skip
"""Why no rank is named."""


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
    others = "".join(_so_does(one, found, hosts) for one in found.late_ranks if one.rank != found.rank)
    return f"{rank}{doubt} delays {_whom(found)} {size} {_when(found, window)} {share}{cause}{others}"


def _so_does(late: LateRank, found: JobVerdict, hosts: Mapping[int, str]) -> str:
    """Name a further rank that delays a job, and its steps where they are others."""
    steps = replace(found, steps=late.steps, pattern=None)
    when = "" if late.steps == found.steps else f" {_when(steps, '')}"
    delay = brief_duration(late.median_caused_ns)
    return (
        f"; so does rank {late.rank}{on_host(hosts.get(late.rank))}, by {delay}{when}{_cause(late.cause, is_one=True)}"
    )


def saved_on_time(found: JobVerdict) -> list[str]:
    """Say what each of several late ranks would save on its own, and what all of them would; nothing of one."""
    if not found.late_ranks:
        return []
    least, ranks = NOTHING_SAVED * found.late_ranks_save_ns, [one.rank for one in found.late_ranks]
    alone = [one for one in found.late_ranks if one.saves_ns >= least]
    total = f"{ranks_named(ranks)} on time would save {brief_duration(found.late_ranks_save_ns)} of a step"
    if not alone:
        return [f"{total}; one of them alone would save nothing."]
    named = [f"rank {one.rank} alone {brief_duration(one.saves_ns)}" for one in alone]
    named += [f"rank {one.rank} alone nothing" for one in found.late_ranks if one not in alone]
    return [f"{total}; {', '.join(named)}."]


def _whom(found: JobVerdict) -> str:
    """Name the ranks that are delayed where others do not communicate with the late one."""
    if not found.delayed:
        return "the others"
    if len(found.delayed) > RANKS_NAMED:
        return f"the {len(found.delayed)} ranks that it communicates with"
    return f"{'rank' if len(found.delayed) == 1 else 'ranks'} {enumerated(found.delayed)}"


def _when(found: JobVerdict, window: str) -> str:
    """Name the steps: the first one of a recording, which warms up, is not among those that are compared."""
    a_step = f"{found.phase} step".lstrip()
    if found.pattern == "since":
        return f"in every {a_step} since step {found.since_step}"
    if found.pattern == "once":
        return f"in step {found.steps[0]} alone"
    if found.pattern == "every_step" and 2 < len(found.steps) == found.compared:
        return f"in every {a_step} from {found.steps[0]} to {found.steps[-1]}"
    if len(found.steps) > STEPS_NAMED:
        return f"in {len(found.steps)} of {found.compared} {a_step}s"
    if not found.steps:
        return f"in {window}"
    return f"in {'step' if len(found.steps) == 1 else 'steps'} {enumerated(found.steps)}"


def other_step(shown: int, found: JobVerdict) -> str:
    """Say that what follows is about a step that the verdict does not name, and how to ask for one that it names."""
    rank, step = found.ranks[0], found.steps[0]
    return f"The details below are of step {shown}; use --step {step} for a step that rank {rank} delays."


def _cause(done: Cause | None, *, is_one: bool) -> str:
    if done is None:
        return ""
    name = short_name(done.name)
    if done.bound_by == UNEXPLAINED:
        return f", mostly before {name}, without a recorded cause" if is_one else ", in many operations"
    said = _meanwhile(name, SHORT_IN_JOBS[done.bound_by])
    return f", {said}" if is_one else f", in many operations, {said.replace('mostly in', 'the largest', 1)}"


def _meanwhile(name: str | None, what: str) -> str:
    """Say what the late rank does while the others wait."""
    if name and what == SHORT["cpu_gap"]:
        return f"mostly in {outside_operators(name)}"
    return f"mostly in {quoted(name)} ({what})" if name else f"mostly in unrecorded work ({what})"


def on_host(host: str | None) -> str:
    """Name a host behind a rank."""
    return "" if host is None else f" on host {one_line(host)}"


def waiting_caused(found: JobVerdict) -> str:
    """Say how much of the waiting the named ranks cause; as a share, since waits of collectives may overlap."""
    who = "It causes" if len(found.ranks) == 1 else "They cause"
    return f"{who} {_part(found)} of the waiting with a known cause."


def nobody(found: JobVerdict, host: str) -> str:
    """Say that no rank delays a job, or that the recording does not show one, and why; a rank is not named."""
    why = WHY_NONE[found.reason or "no_cause_known"]
    if not found.ranks or not found.share_of_waiting:
        return f"no rank delays the others: {why}" if found.reason == "no_waiting" else f"no rank is named: {why}"
    size = f"{brief_duration(found.median_caused_ns)}, {brief_share(found.share_of_step)} of a step"
    if found.share_of_waiting >= NEARLY_ALL and found.median_caused_ns and found.share_of_step < MUCH:
        return f"no rank delays the others by much: the largest delay is small ({size}){host}"
    if found.share_of_waiting >= NEARLY_ALL and found.reason == "by_chance":
        steps = "one step" if found.compared == 1 else f"{found.compared} steps"
        return f"no rank clearly delays the others: the largest delay ({size}) may be chance in {steps}{host}"
    return f"no rank alone delays the others: {why}{host}"


def most_of_the_waiting(found: JobVerdict, caused_ns: Mapping[int, int]) -> list[str]:
    """Name the rank that causes most waiting with a known cause, or those that cause about as much; or the last one.

    Args:
        found: the verdict, which names no rank.
        caused_ns: the waiting that each rank causes.
    """
    if not found.ranks:
        return []
    most, total = max(caused_ns.values(), default=0), sum(caused_ns.values())
    if not found.share_of_waiting or not most:
        return [f"Rank {found.ranks[0]} mostly arrives last."]
    ranks = sorted(rank for rank, ns in caused_ns.items() if ns >= ABOUT_AS_MUCH * most)
    share = brief_share(most / total)
    of = "of the waiting with a known cause"
    if len(ranks) > 1:
        return [f"{ranks_named(ranks)} each cause about the same, {share} {of}."]
    return [f"Rank {ranks[0]} causes the most, {'all' if most == total else share} {of}."]


def job_sentences(
    found: JobVerdict, window: str, hosts: Mapping[int, str], caused_ns: Mapping[int, int], host: str = ""
) -> list[str]:
    """Say which rank delays a job and how much of the waiting it causes; or that none does and which causes most."""
    if found.firmness != "none":
        return [sentence(found, window, hosts), *saved_on_time(found), waiting_caused(found)]
    return [nobody(found, host), *most_of_the_waiting(found, caused_ns)]


def with_recording(
    said: Sequence[str], found: JobVerdict, late: Mapping[int, int], missing: Sequence[int]
) -> list[str]:
    """Add which recordings begin late, first if no rank is named, and which ranks have no trace."""
    begun = recorded_late(late)
    return [*said, *begun, *not_given(missing)] if found.firmness != "none" else [*begun, *said, *not_given(missing)]


def ranks_named(ranks: Sequence[int]) -> str:
    """Name ranks, or count many.

    >>> ranks_named([3]), ranks_named([0, 2]), ranks_named([0, 1, 2, 3])
    ('Rank 3', 'Ranks 0 and 2', '4 ranks')
    """
    if len(ranks) > RANKS_NAMED:
        return f"{len(ranks):,} ranks"
    return f"Rank{'s' * (len(ranks) > 1)} {enumerated(ranks)}"


def recorded_late(late: Mapping[int, int]) -> list[str]:
    """Say that recordings begin later than the first one (ns): what ranks did before is unknown.

    >>> recorded_late({7: 7_513_000})
    ["rank 7's recording starts 7.51 ms later than the first one; what the rank did before is unknown"]
    """
    said = [
        f"rank {rank}'s recording starts {brief_duration(ns)} later than the first one" for rank, ns in late.items()
    ]
    if len(late) > RANKS_NAMED:
        said = [f"{len(late):,} recordings start up to {brief_duration(max(late.values()))} later than the first one"]
    return [f"{', '.join(said)}; what {'the rank' if len(late) == 1 else 'these ranks'} did before is unknown"] * bool(
        late
    )


def not_given(ranks: Sequence[int]) -> list[str]:
    """Say that traces of ranks are missing.

    >>> not_given([3]), not_given(range(9)), not_given([])
    (['Rank 3 has no trace; whether it delays the others is unknown.'], \
['9 ranks have no trace; whether they delay the others is unknown.'], [])
    """
    has, delay = ("has", "it delays") if len(ranks) == 1 else ("have", "they delay")
    return [f"{ranks_named(ranks)} {has} no trace; whether {delay} the others is unknown."] if ranks else []


def _part(found: JobVerdict) -> str:
    return "all" if found.caused_ns == found.waiting_ns else brief_share(found.share_of_waiting)


def doubt(found: JobVerdict) -> str:
    """Say why the verdict is uncertain; empty where it is firm."""
    if found.reason is None or found.firmness == "firm":
        return ""
    return f"Uncertain: {REASONS[found.reason]}." if found.firmness == "hedged" else ""


def on_side(side: str, said: str) -> str:
    """Say the verdict of one of two jobs, ``before`` or ``after``."""
    return f"In the job {side}, {said}."


def path_on_rank(share: float, rank: int) -> str:
    """Say how much of the path is on the late rank; none where it delays only ranks that end early."""
    if not share:
        return f"Rank {rank} is not on the critical path; use --rank {rank} for its own."
    return f"{brief_share(share)} of the path is on rank {rank}."


def like_the_others(what: str, time: str, longer: str | None) -> str:
    """Say what the late rank would save at the others' speed, and in what it takes longer."""
    extra = f"; the extra time is in {longer}" if longer else ""
    return f"At the others' speed {what} would be {time} shorter{extra}."


def delay_next_to_saving(what: str, delay: str, *, more: bool | None) -> str:
    """Say by how much the late rank delays a step, and why more or less would be saved; ``more``: None if neither."""
    said = f"In {what} it delays the others by {delay}"
    if more is None:
        return f"{said}."
    if more:
        return f"{said}, the time that it works longer than they do; on a busy host they work longer, too."
    return f"{said}; without that, other work is the bottleneck."


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
        "late_ranks": [
            {**one._asdict(), "steps": list(one.steps), "cause": one.cause and one.cause._asdict()}
            for one in found.late_ranks
        ],
        "late_ranks_save_ns": found.late_ranks_save_ns,
    }
