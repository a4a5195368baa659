"""The verdict as answers print it: what bounds a run, what is doubtful, what an expert would do about it.

Of a large job it also chooses the ranks that represent it: the one that matters, and a typical one to compare it with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from analyses.advice import job_verdict
from analyses.advice.facts import NOTABLE_SHARE, PathFacts
from analyses.advice.host_facts import captures_graph, may_be_polling
from analyses.advice.rule import PathFinding
from analyses.advice.rules import advice_of, verdict_of
from analyses.display.phrases import SAVINGS_OVERLAP, untrusted
from analyses.display.sentence_format import as_sentence, brief_duration, brief_share, counted, quoted
from analyses.judgement.findings import (
    LEAST_SHARE,
    LONGEST_NAME,
    bound_by_start_up,
    cause_words,
    is_mostly_start_up,
    judged_advice,
    judgement_record,
    priced_verdict,
    with_gain,
)
from analyses.judgement.pricing import HOST_WORK, Gain, Gains, priced_advice, priced_items
from analyses.source.window_facts import delay_in_step, job_record, short_labels, verdict_of_job
from analyses.source.window_report import window_name
from hta_graph.base.text.sanitize import encodable_path
from hta_graph.base.text.shorten import short_name, shorten_middle
from hta_graph.graph.memo import memoized
from hta_graph.paths.critical_path import CriticalPath
from hta_graph.what_if.opportunities import Opportunity
from hta_graph.what_if.reliability import reliability

if TYPE_CHECKING:
    import pandas as pd


ADVICE_LISTED = 3
"""How many pieces of advice a text gives; JSON holds all."""

MUCH_OF_DELAY = 0.25
"""What a late rank would save in one step and by how much it delays the others are one thing up to this difference."""

SAME_LENGTH_SHARE = 0.05
"""Ranks are alike where their windows differ by less than this."""


def verdict_records(path: CriticalPath, *, replayed: bool = True) -> list[dict[str, Any]]:
    """Return the findings as JSON lists them: first the verdict, then advice, what saves most first.

    ``replayed`` adds what each would save by replay, which takes longer than the path.
    """
    facts = PathFacts.of(path)
    if not replayed:
        return [finding.as_record() for finding in (*verdict_of(facts), *advice_of(facts))]
    return [finding.as_record() for finding in (*replayed_verdict(facts), *replayed_advice(facts))]


def replayed_verdict(facts: PathFacts) -> list[PathFinding]:
    """Return the verdict, with what is gained: without what bounds the window, or if the late rank were like others."""
    return [_with_gain(finding, facts) for finding in priced_verdict(facts)]


def _with_gain(finding: PathFinding, facts: PathFacts) -> PathFinding:
    if finding.rule == "bound_by":
        once = next((one for one in priced_advice(facts) if is_mostly_start_up(facts, one)), None)
        gained = with_gain(facts, finding)
        return gained if once is None or gained.evidence.get("missing") else bound_by_start_up(facts, gained, once)
    if not finding.saves_ns or not facts.is_worth(finding.saves_ns):
        return finding
    window, saved = window_name(facts.path.window), facts.saving(finding.saves_ns)
    saved = f"at most {saved}" if finding.is_cut else saved
    gain = job_verdict.like_the_others(window, saved, takes_longer_text(finding, facts))
    return replace(finding, detail=" ".join([finding.detail, gain, *_next_to_delay(finding, facts)]))


def _next_to_delay(finding: PathFinding, facts: PathFacts) -> list[str]:
    """Say what a late rank delays a step by where that, or the delay of the verdict, is much unlike what it would save.

    Delays by messages are capped by what the rank works longer than the others in all, replay compares operations.
    """
    said, saved = verdict_of_job(facts.path), finding.saves_ns or 0
    if said is None or said.rank != finding.evidence.get("rank"):
        return []
    delay_ns = delay_in_step(facts.path, said)
    if delay_ns is None:
        return []
    differs = [_much_unlike(ns, saved) for ns in (delay_ns, said.median_caused_ns)]
    more = saved > delay_ns if differs[0] else None
    text = job_verdict.delay_next_to_saving(window_name(facts.path.window), brief_duration(delay_ns), more=more)
    return [text] if any(differs) else []


def _much_unlike(one: int, other: int) -> bool:
    return abs(one - other) > MUCH_OF_DELAY * max(one, other)


def takes_longer_text(finding: PathFinding, facts: PathFacts) -> str:
    """Name what takes the late rank longer than the others, unless that is what it does while they wait.

    A rank that loads data for too long computes as long as the others do, and later: they wait while it computes.
    """
    if finding.takes_longer is None:
        return ""
    name, bound = finding.takes_longer
    meanwhile = [(done["name"], done["bound_by"]) for done in finding.evidence["meanwhile"][:1]]
    if name is None or finding.takes_longer in meanwhile:
        return ""
    return f"{quoted(name)} ({short_labels(facts.graph)[bound]})"


@memoized
def replayed_advice(facts: PathFacts) -> list[PathFinding]:
    """Return the advice in the order of the judgement on the window; without any that saves, the last says why."""
    found = [one.advice for one in judged_advice(facts) if one.advice]
    is_enough = any(one.saving[0] or is_mostly_start_up(facts, one) for one in found)
    return found if is_enough else [*found, nothing_suggested(facts)]


def verdict_document(
    paths: Mapping[int, CriticalPath], job: CriticalPath | None = None, shown_as: Mapping[int, str] | None = None
) -> dict[str, Any]:
    """Return the verdict of each rank as ``hta-graph/report/1``.

    The first one is that of the job; without its path that of the rank that takes longest. Of a job of many ranks
    ``shown_as`` says why each of ``paths`` is among the few that are given.
    """
    return {
        "schema": "hta-graph/report/1",
        "judgement": judgement_record(job or paths[representative_rank(paths)]),
        "verdict": verdict_records(job or paths[representative_rank(paths)]),
        "job_verdict": job_verdict.record(verdict_of_job(job) if job else None),
        **(
            {"job": {"file": encodable_path(job.graph.path), "window": _window_record(job), **job_record(job)}}
            if job
            else {}
        ),
        "ranks": [
            {
                "file": encodable_path(path.graph.path),
                "rank": rank,
                **({"shown_as": shown_as[rank]} if shown_as else {}),
                "window": _window_record(path),
                "verdict": verdict_records(path),
            }
            for rank, path in paths.items()
        ],
    }


def _window_record(path: CriticalPath) -> dict[str, Any]:
    window = path.window
    return {"start_ns": window.start_ns, "end_ns": window.end_ns, "label": window.label}


def verdict_sentences(path: CriticalPath) -> list[str]:
    """Return the verdict: the headline, then the sentences behind it."""
    found = replayed_verdict(PathFacts.of(path))
    return [line for finding in found for line in (finding.text, finding.detail) if line]


@dataclass(frozen=True)
class AdviceLine:
    """A piece of advice as answers print it: what to do, in one line without a period, why, and what it saves."""

    action: str
    why: str
    saving: str

    def __str__(self) -> str:
        return f"{as_sentence(self.action)} {self.why} {self.saving}"


@dataclass(frozen=True)
class ListedAdvice:
    """The first pieces of advice, what saves most first; whether their savings overlap; how many more there are.

    ``why_nothing``: why none of them saves anything; empty where one does.
    """

    shown: list[AdviceLine]
    overlap: bool
    hidden: int
    why_nothing: str = ""

    @property
    def notes(self) -> list[str]:
        """The sentences behind the advice."""
        hidden = f"--json FILE lists {counted(self.hidden, 'more finding')}."
        return [*[SAVINGS_OVERLAP] * self.overlap, *[hidden] * (self.hidden > 0)]


def listed_advice(path: CriticalPath) -> ListedAdvice:
    """Return what an expert would do, at most three pieces, or why there is nothing."""
    facts = PathFacts.of(path)
    every = replayed_advice(facts)
    actions = [finding for finding in every if finding.action]
    why = " ".join(finding.text for finding in every if not finding.action)
    shown = actions[:ADVICE_LISTED]
    lines = [AdviceLine(finding.action, finding.text, _saving_text(finding, facts)) for finding in shown]
    return ListedAdvice(lines, sum(bool(one.saves_ns) for one in shown) > 1, len(actions) - len(shown), why)


def _saving_text(finding: PathFinding, facts: PathFacts) -> str:
    """Say what following a piece of advice would save of an iteration, by replay and at most, and how sure it is.

    A bound stands only where it says more.
    """
    saved, is_bound = finding.saving
    most = saved if finding.is_cut else finding.saves_at_most_ns
    replayed = "" if is_bound else facts.saving(saved)
    bound = "" if most is None else facts.saving(most)
    shares = {reason: finding.evidence.get(f"{reason}_share", 0.0) for reason in ("contended", "unusual")}
    doubt = next((untrusted(reason, share) for reason, share in shares.items() if share), "")
    amounts = [f"{replayed} by replay"] * bool(replayed) + [f"at most {bound}"] * (bound not in ("", replayed))
    saves = f"saves {', '.join(amounts)}; " if amounts else ""
    return f"[{saves}{finding.sure}{f': {doubt}' if doubt else ''}]"


def verdict(paths: Mapping[int, CriticalPath], job: CriticalPath | None = None) -> list[str]:
    """Say what bounds the job, what is unknown, what to do.

    Without the job's path: how long the ranks take, then that of the slowest one.
    """
    rank = representative_rank(paths)
    path = job or paths[rank]
    among = len(paths) > 1 and job is None
    first, *rest = verdict_sentences(path)
    found = listed_advice(path)
    return [
        *([_ranks_sentence(paths)] if among else []),
        as_sentence(f"rank {rank}, {first}" if among else first),
        *map(as_sentence, rest),
        *map(str, found.shown),
        *found.notes,
        *([found.why_nothing] if found.why_nothing else []),
    ]


def representative_rank(paths: Mapping[int, CriticalPath]) -> int:
    """Return the rank with the longest window."""
    return max(paths, key=lambda rank: paths[rank].length_ns)


def _ranks_sentence(paths: Mapping[int, CriticalPath]) -> str:
    """Say whether the ranks are alike; one is called the slowest only where it is so beyond 5%."""
    lengths = sorted(path.length_ns for path in paths.values())
    shortest, second, longest = lengths[0], lengths[-2], lengths[-1]
    between = f"{brief_duration(shortest)} to {brief_duration(longest)}"
    if longest - shortest <= SAME_LENGTH_SHARE * longest:
        return f"The {len(paths)} ranks take about the same time: {between}."
    if longest - second > SAME_LENGTH_SHARE * longest:
        median = lengths[(len(lengths) - 2) // 2]
        times = f"{brief_duration(longest)}, the others {brief_duration(median)} (median)"
        return f"Rank {representative_rank(paths)} is the slowest of {len(paths)}: {times}."
    return f"The {len(paths)} ranks take {between}; none stands out as the slowest."


WHY_REPRESENTATIVE: Mapping[str, str] = {
    "holds_up_the_job": "which delays the job",
    "first_cause": "which has the largest single cause of waiting",
    "most_of_the_path": "which holds most of the job's path",
    "typical": "a typical rank: its waiting for other ranks is the median",
}
"""Why a rank is shown."""


def representative_ranks(path: CriticalPath, causes: pd.DataFrame, waits: pd.DataFrame) -> dict[int, str]:
    """Choose two ranks that have a job's window, and say why, by keys of :data:`WHY_REPRESENTATIVE`.

    Args:
        path: the job's.
        causes: the table of what ranks made others wait with, the largest first.
        waits: the table of how long each rank waited itself.
    """
    ranks = [part.rank for part in path.graph.rank_graphs if part.rank not in path.window.missing]
    rank, shown_as = _rank_that_matters(path, ranks, causes)
    waited = dict(zip(waits["rank"].tolist(), waits["wait_ns"].tolist(), strict=True))
    others = sorted((one for one in ranks if one != rank), key=lambda one: (waited.get(one, 0), one))
    typical = {others[(len(others) - 1) // 2]: "typical"} if others else {}
    return {rank: shown_as, **typical}


def _rank_that_matters(path: CriticalPath, ranks: list[int], causes: pd.DataFrame) -> tuple[int, str]:
    found = verdict_of_job(path)
    if found is not None and found.rank in ranks:
        return int(found.rank or 0), "holds_up_the_job"
    known = causes[causes["name"].notna() & causes["rank"].isin(ranks)]
    if len(known):
        return int(known["rank"].iloc[0]), "first_cause"
    return max(ranks, key=path.by_rank_ns.__getitem__), "most_of_the_path"


# -- where nothing is suggested ----------------------------------------------------------------------------------------

NOTHING_SUGGESTED = "nothing_suggested"
"""The name of the finding that says why there is no advice."""

CANDIDATES_NAMED = 3


def nothing_suggested(facts: PathFacts) -> PathFinding:
    """Say why no advice is given that saves time, and what would save most if it were faster."""
    gains = Gains.of(facts)
    if gains is None:
        return PathFinding(
            "No rule fires; run hta-graph what-if for estimated savings.", {"candidates": []}, rule=NOTHING_SUGGESTED
        )
    candidates = (
        [] if reliability(gains.base).reason else [pair for pair in priced_items(facts) if not pair[0].may_be_waiting]
    )
    named = [pair for pair in candidates if pair[1].ns >= LEAST_SHARE * facts.priced.length_ns]
    # Of one name, the largest stands for all: an operator's instances, an operator and its kernel.
    first = {_candidate_name(one): at for at, (one, _) in reversed([*enumerate(named)])}
    named = [named[at] for at in sorted(first.values())]
    shown = [
        f"{_candidate_name(one)}, {'at most ' * gain.is_cut}{facts.saving_of(gain.ns)}"
        for one, gain in named[:CANDIDATES_NAMED]
    ]
    said = [
        *_why_nothing(facts, gains, named),
        *([f"Largest savings at 2x speed: {'; '.join(shown)}."] if shown else []),
    ]
    listed = [{"what": one.what, "saves_ns": gain.ns, "bound_ns": gain.bound_ns} for one, gain in named]
    return PathFinding(" ".join(said), {"candidates": listed}, rule=NOTHING_SUGGESTED)


def _candidate_name(one: Opportunity) -> str:
    return f"{one.kind} {shorten_middle(short_name(one.name), LONGEST_NAME)}"


POLLING = "The host may be polling, so nothing about its own work is suggested."


def _why_nothing(facts: PathFacts, gains: Gains, named: Sequence[tuple[Opportunity, Gain]]) -> list[str]:
    largest = gains.largest
    polls = [POLLING] if may_be_polling(facts) else []
    trusted = gains.trusted(None if largest is None else largest.cause)
    if trusted.reason:
        return [*polls, f"What changes would save is unknown, because {untrusted(trusted.reason, trusted.share)}."]
    if largest is None or not facts.is_worth(largest.ns):
        return [*polls, _too_little(facts, named)]
    if polls and largest.cause == HOST_WORK:
        return polls
    if largest.cause == HOST_WORK and captures_graph(facts):
        return ["A graph is captured here: what the host does for that happens once, and replays do not repeat it."]
    if not gains.consists_of(largest.cause):
        return [*polls, _no_remedy(facts, largest)]
    if not facts.has_gpu_rows:
        return [*polls, "No GPU work is recorded; only less work of the host helps."]
    others = [gain for gain in gains.claims.values() if not gains.consists_of(gain.cause)]
    other = max(others, key=lambda gain: gain.ns, default=None)
    if other is not None and facts.is_worth(other.ns):
        return [*polls, _no_remedy(facts, other)]
    computes = brief_share(facts.priced.computing_ns / max(facts.priced.length_ns, 1))
    what = f"{cause_words(facts, largest.cause)} is {computes} of {facts.priced_name}"
    return [*polls, f"{what}; only faster kernels or less work help."]


def _too_little(facts: PathFacts, named: Sequence[tuple[Opportunity, Gain]]) -> str:
    """Say that nothing saves a notable share, or nothing but what is faster on the host and on the GPU.

    Where host and GPU take equally long, neither saves anything alone, but what is shorter on both does.
    """
    least = f"{brief_share(NOTABLE_SHARE)} of {facts.priced_name}"
    if facts.has_gpu_rows and any(facts.is_worth(gain.ns) for _, gain in named):
        return f"No cause alone saves {least}; less work for both the host and the GPU does."
    return f"No change saves {least}; steps of one program differ by as much."


def _no_remedy(facts: PathFacts, gain: Gain) -> str:
    """Say that a cause is known and no rule has a remedy."""
    what, saved = cause_words(facts, gain.cause), facts.saving_of(gain.ns)
    return f"No rule has a remedy for {what}, without which {saved} would be saved."
