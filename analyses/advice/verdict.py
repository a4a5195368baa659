"""The verdict as answers print it: what a run is bound by, what is doubtful, what an expert would do about it.

Of a large job it also chooses the ranks that represent it: the one that matters, and a typical one to compare it with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from analyses.advice.facts import PathFacts, PathFinding
from analyses.advice.rules import advice_of, verdict_of
from analyses.display.labels import short_labels
from analyses.display.sentence_format import brief_duration, brief_share, quoted
from analyses.window_report import job_record
from hta_graph.paths.critical_path import CriticalPath
from hta_graph.paths.rank_crossings import straggler_index
from hta_graph.text.sanitize import encodable_path

if TYPE_CHECKING:
    import pandas as pd


ADVICE_LISTED = 3
"""A text gives so much advice; JSON holds all."""

SAME_LENGTH_SHARE = 0.05
"""Ranks are alike where their windows differ by less than this."""


def verdict_records(path: CriticalPath, *, replayed: bool = True) -> list[dict[str, Any]]:
    """Return the findings as JSON lists them: first the verdict, then advice, what saves most first.

    ``replayed`` also tells what each would save by replay, which takes longer than the path.
    """
    facts = PathFacts(path)
    if not replayed:
        return [finding.as_record() for finding in (*verdict_of(facts), *advice_of(facts))]
    return [finding.as_record() for finding in (*_replayed_verdict(facts), *_replayed_advice(facts))]


def _replayed_verdict(facts: PathFacts) -> list[PathFinding]:
    """Return the verdict, with what it would save if the rank that holds up the job were like the others."""
    from analyses.advice.savings import with_savings  # late: paths as JSON do without replay

    return [_finding_text(finding, facts) for finding in with_savings(facts, verdict_of(facts))]


def _finding_text(finding: PathFinding, facts: PathFacts) -> PathFinding:
    if not finding.saves_ns or not facts.is_notable(finding.saves_ns):
        return finding
    gain = f"as fast as the others it would save {facts.timed(finding.saves_ns)}"
    return replace(finding, text=f"{finding.text}; {gain}{takes_longer_text(finding, facts)}")


def takes_longer_text(finding: PathFinding, facts: PathFacts) -> str:
    """Say what the late rank takes longer for, where it does something else when the others have come.

    A rank that loads data for too long computes as long as the others do, and later: they wait while it computes.
    """
    if finding.takes_longer is None:
        return ""
    name, bound = finding.takes_longer
    meanwhile = [(done["name"], done["bound_by"]) for done in finding.evidence["meanwhile"][:1]]
    if name is None or finding.takes_longer in meanwhile:
        return ""
    return f", for it takes longer in {quoted(name)} ({short_labels(facts.graph)[bound]})"


def _replayed_advice(facts: PathFacts) -> list[PathFinding]:
    """Return the advice with what each piece would save by replay, what saves most first."""
    from analyses.advice.savings import with_savings

    found = with_savings(facts, advice_of(facts))
    return sorted(found, key=lambda one: -((one.saves_at_most_ns or 0) if one.saves_ns is None else one.saves_ns))


def verdict_document(
    paths: Mapping[int, CriticalPath], job: CriticalPath | None = None, shown_as: Mapping[int, str] | None = None
) -> dict[str, Any]:
    """Return the verdict of each rank as ``hta-graph/report/1``.

    In front stands that of the job; without its path that of the rank that takes longest. Of a job of many ranks
    ``shown_as`` tells why each of ``paths`` is among the few that are given.
    """
    return {
        "schema": "hta-graph/report/1",
        "verdict": verdict_records(job or paths[representative_rank(paths)]),
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
    """Return the verdict, a sentence each; the first one says it all in plain words."""
    return [finding.text for finding in _replayed_verdict(PathFacts(path))]


def advice_lines(path: CriticalPath) -> list[str]:
    """Return what an expert would do, at most three pieces, what saves most first."""
    every = _replayed_advice(PathFacts(path))
    hidden = len(every) - ADVICE_LISTED
    more = [f"and {hidden} more with --json"] if hidden > 0 else []
    shown = every[:ADVICE_LISTED]
    overlap = (
        ["what these would save overlaps: it does not add up"] if sum(bool(one.saves_ns) for one in shown) > 1 else []
    )
    return [*(f"{finding.text} [{_saving_text(finding, path)}]" for finding in shown), *overlap, *more]


def _saving_text(finding: PathFinding, path: CriticalPath) -> str:
    """Say what following a piece of advice would save, by replay and at most, and how sure it is."""
    sure = f"{finding.confidence} confidence"
    if finding.saves_at_most_ns is None:
        return sure
    most = f"at most {_saved_text(finding.saves_at_most_ns, path)}"
    if finding.saves_ns is None:
        return f"saves {most}; {sure}"
    return f"would save {_saved_text(finding.saves_ns, path)} by replay, {most}; {sure}"


def _saved_text(saved_ns: int, path: CriticalPath) -> str:
    return f"{brief_duration(saved_ns)} ({brief_share(saved_ns / max(path.length_ns, 1))})"


def verdict(paths: Mapping[int, CriticalPath], job: CriticalPath | None = None) -> list[str]:
    """Say what bounds the job, what is unknown, what to do.

    Without the job's path: how long the ranks take, then that of the slowest one.
    """
    path = job or paths[representative_rank(paths)]
    among = _ranks_sentence(paths) if len(paths) > 1 and job is None else []
    return [*among, *(f"{text[0].upper()}{text[1:]}." for text in verdict_sentences(path)), *advice_lines(path)]


def representative_rank(paths: Mapping[int, CriticalPath], job: CriticalPath | None = None) -> int:
    """Return the rank that holds up the job, if one does, else that whose window is the longest."""
    part = straggler_index(job) if job else -1
    if job and part >= 0 and job.graph.rank_graphs[part].rank in paths:
        return job.graph.rank_graphs[part].rank
    return max(paths, key=lambda rank: paths[rank].length_ns)


def _ranks_sentence(paths: Mapping[int, CriticalPath]) -> list[str]:
    """Say whether the ranks are alike; one is called the slowest only where it is so beyond 5%."""
    lengths = sorted(path.length_ns for path in paths.values())
    shortest, second, longest = lengths[0], lengths[-2], lengths[-1]
    between = f"{brief_duration(shortest)} to {brief_duration(longest)}"
    if longest - shortest <= SAME_LENGTH_SHARE * longest:
        return [f"The {len(paths)} ranks are alike: {between}."]
    if longest - second > SAME_LENGTH_SHARE * longest:
        others = brief_duration(lengths[(len(lengths) - 2) // 2])
        slowest = f"Rank {representative_rank(paths)} is the slowest of {len(paths)}"
        return [f"{slowest}: {brief_duration(longest)}, the others {others} (median)."]
    return [f"The {len(paths)} ranks take {between}; none stands out as the slowest."]


WHY_REPRESENTATIVE: Mapping[str, str] = {
    "holds_up_the_job": "which holds up the job",
    "first_cause": "which makes the others wait most by one thing",
    "most_of_the_path": "which most of the job's path is on",
    "typical": "a typical one: half of the others wait no longer for other ranks",
}
"""Why a rank is shown, in words."""


def representative_ranks(path: CriticalPath, causes: pd.DataFrame, waits: pd.DataFrame) -> dict[int, str]:
    """Choose two ranks that have a job's window, and say as what, by keys of :data:`WHY_REPRESENTATIVE`.

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
    part = straggler_index(path)
    if part >= 0 and path.graph.rank_graphs[part].rank in ranks:
        return path.graph.rank_graphs[part].rank, "holds_up_the_job"
    known = causes[causes["name"].notna() & causes["rank"].isin(ranks)]
    if len(known):
        return int(known["rank"].iloc[0]), "first_cause"
    return max(ranks, key=path.by_rank_ns.__getitem__), "most_of_the_path"
