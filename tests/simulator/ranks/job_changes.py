"""What may be changed about a job besides what may be changed about any program: who waits, who is slow."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

from tests.simulator.changes import Asked, slower
from tests.simulator.program import Backward, Body, Lagging, Launch, Program, Statement
from tests.simulator.ranks.arguments import kernel_name
from tests.simulator.ranks.communication_statements import JobProgram, Meet
from tests.simulator.rewriting import Around, Change, rewritten, statements

JobEdit = tuple[JobProgram, tuple[Asked, ...]]
JobKind = Callable[[JobProgram, random.Random], JobEdit | None]
FACTORS = (0.25, 0.5, 0.8, 1.25, 2.0)
Place = tuple[str, int, int]
NUMBERS = ("ns", "call_ns", "scope_ns")


def of_some(job: JobProgram, ranks: frozenset[int], change: Change) -> JobProgram:
    """Return a job with the programs of some ranks changed."""
    return replace(
        job, ranks={rank: rewritten(own, change) if rank in ranks else own for rank, own in job.ranks.items()}
    )


def rank_scaled(job: JobProgram, rng: random.Random) -> JobEdit:
    """All that one rank does by itself takes so many times as long: kernels, the host, every effect's lag."""
    rank, factor = rng.choice(sorted(job.ranks)), rng.choice(FACTORS)

    def change(own: Statement, _: Around) -> Body:
        if isinstance(own, Meet):
            return (replace(own, call_ns=round(own.call_ns * factor)),)
        if isinstance(own, Lagging):
            return (replace(own, latencies=_times(own.latencies, factor)),)
        return (slower(own, factor),)

    edited = of_some(job, frozenset({rank}), change)
    slow = edited.ranks[rank]
    ranks = edited.ranks | {rank: replace(slow, latencies=_times(slow.latencies, factor))}
    return replace(edited, ranks=ranks), (("scale", f"rank:{rank}", factor),)


def _times(latencies: Any, factor: float) -> Any:
    return replace(latencies, **{name: round(ns * factor) for name, ns in vars(latencies).items()})


def nobody_waits(job: JobProgram, rng: random.Random) -> JobEdit | None:
    """Every rank does its own part of each communication as soon as it comes to it."""
    del rng
    if job.backend != "nccl":
        return None

    def change(own: Statement, _: Around) -> Body:
        return (Launch(own.stream, own.ns, kernel_name(own.kind), own.call_ns) if isinstance(own, Meet) else own,)

    return of_some(job, frozenset(job.ranks), change), (("scenario", "no_waiting"),)


def rank_like_others(job: JobProgram, rng: random.Random) -> JobEdit | None:
    """One rank takes the median time that the others take at the same place of their steps."""
    rank = rng.choice(sorted(job.ranks))
    others: dict[Place, list[Statement]] = defaultdict(list)
    for other, program in job.ranks.items():
        if other != rank:
            for place, (own, _) in zip(_places(program), statements(program), strict=True):
                others[place].append(own)
    places = iter(_places(job.ranks[rank]))

    def change(own: Statement, _: Around) -> Body:
        return (_median_of(own, others.get(next(places), [own])),)

    return of_some(job, frozenset({rank}), change), (("scenario", "rank_like_others", rank),)


def _places(program: Program) -> list[Place]:
    """Return for every statement what it is, and that it is the n-th of m such in its step."""
    every = [(_label(own), around[0] if around else own) for own, around in statements(program)]
    seen: Counter[tuple[str, int]] = Counter()
    nth = []
    for label, step in every:
        seen[label, id(step)] += 1
        nth.append(seen[label, id(step)])
    return [(label, at, seen[label, id(step)]) for (label, step), at in zip(every, nth, strict=True)]


def _label(own: Statement) -> str:
    inner = own.statement if isinstance(own, Lagging) else own
    name = "step" if getattr(inner, "name", "").startswith("ProfilerStep") else getattr(inner, "name", "")
    return f"{type(own).__name__} {type(inner).__name__} {name}"


def _median_of(own: Statement, others: list[Any]) -> Statement:
    """Return a statement that takes what others take in the median; a transfer is not its rank's alone."""
    names = {item.name for item in fields(own)} & set(NUMBERS)  # type: ignore[arg-type]
    if isinstance(own, Meet):
        names = {"call_ns"}
    if isinstance(own, Backward):
        return own
    if isinstance(own, Lagging):
        found = {name: _median(getattr(other.latencies, name) for other in others) for name in vars(own.latencies)}
        return replace(own, latencies=replace(own.latencies, **found))
    found = {
        name: _median(getattr(other, name) for other in others) for name in names if getattr(own, name) is not None
    }
    return replace(own, **found)  # type: ignore[type-var]


def _median(numbers: Iterator[int]) -> int:
    ordered = sorted(numbers)
    return ordered[(len(ordered) - 1) // 2]


OF_JOBS: dict[str, JobKind] = {
    "one rank × factor": rank_scaled,
    "no waiting between ranks": nobody_waits,
    "one rank like the others": rank_like_others,
}
"""Kinds of change that need several ranks."""
