"""The rule of ``gate`` and of ``diff --fail-above``: whether a run is slower, or why that cannot be known.

A run is slower if the lower bound of any of its :mod:`analyses.compare.diff.differences` is above zero and that
difference itself above a limit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal

import numpy as np

from analyses.compare.diff.differences import OF_ALL_STEPS, OF_THE_COURSE, Basis, Difference, main_of, suspicious_of
from analyses.compare.diff.environment import LEAST_COMMON, common_share, facts_that_differ
from analyses.compare.diff.length_comparison import Comparison
from analyses.compare.diff.noise import ENOUGH_STEPS, LEAST_OF_STEPS
from analyses.compare.diff.sides import Lengths
from analyses.compare.diff.step_tail import BY_SIZE
from analyses.display.sentence_format import counted
from hta_graph.base.errors import CannotCompareError

RANKS_LISTED = 8

FEWEST_PAIRS = 2
"""Of a single pair of steps nothing shows how much it differs by chance."""
SUSPECTED: Mapping[Basis, str] = {
    "medians": "the usual step is longer by less than its noise",
    "pairs": "the usual step is longer by less than its noise",
    "ranks": "most steps are longer by less than their noise",
    "means": "the mean step is longer by less than its noise",
    "hangs": "what hanging steps add is less than its noise",
    "trend": "steps grow by less than the noise of their trend",
}
MOST_STEPS = 1_000
"""More steps than anybody records of one run."""

GateVerdict = Literal["pass", "regression", "cannot_compare"]
Obstacle = Literal[
    "unreadable", "partial", "gpu", "world_size", "ranks", "model", "pytorch", "steps", "metric", "noise"
]
"""Why two runs cannot be compared."""
OF_ENVIRONMENT: Mapping[str, Obstacle] = {"GPU": "gpu", "world size": "world_size", "PyTorch": "pytorch"}
"""The recorded facts that must be equal."""


@dataclass(frozen=True)
class Setting:
    """What two runs must share to be compared: recorded facts, the time of operators by name, and the ranks."""

    facts: Mapping[str, str | None]
    operators: Mapping[str, int]
    ranks: frozenset[int]
    world_size: int | None


def obstacles(
    control: Setting, test: Setting, allowed: Collection[str] = ()
) -> Iterator[tuple[Obstacle, tuple[str, str]]]:
    """Yield what keeps two runs from being compared, with both values; a fact that one side lacks is none."""
    recorded = [side.world_size for side in (control, test)]
    sizes = [len(side.ranks) for side in (control, test)] if recorded == [None, None] else recorded
    found: list[tuple[Obstacle, tuple[str, str]]] = []
    if sizes[0] != sizes[1] and None not in sizes:
        found.append(("world_size", (str(sizes[0]), str(sizes[1]))))
    elif control.ranks != test.ranks:
        found.append(("ranks", (_listed(control.ranks), _listed(test.ranks))))
    for what, was, now in facts_that_differ(control.facts, test.facts):
        if what in OF_ENVIRONMENT and OF_ENVIRONMENT[what] != "world_size":
            found.append((OF_ENVIRONMENT[what], (was, now)))
    if (share := common_share(control.operators, test.operators)) < LEAST_COMMON:
        found.append(("model", (f"{share:.0%}", f"{LEAST_COMMON:.0%}")))
    yield from (one for one in found if one[0] not in allowed)


def _listed(ranks: Collection[int]) -> str:
    """List ranks.

    >>> _listed({2, 0}), _listed(range(20))
    ('0, 2', '0, 1, 2, 3, 4, 5, 6, 7 and 12 more')
    """
    first = ", ".join(map(str, sorted(ranks)[:RANKS_LISTED]))
    return first if len(ranks) <= RANKS_LISTED else f"{first} and {len(ranks) - RANKS_LISTED} more"


@dataclass(frozen=True)
class Ruling:
    """What the rule says of a comparison: all differences that it looks at, and those that exceed noise and limit.

    ``doubt`` says why it cannot be known whether the run is slower; empty where it is, or where it certainly is not.
    """

    limit: float
    main: Difference
    differences: tuple[Difference, ...]
    exceeding: tuple[Difference, ...]
    doubt: str = ""

    @property
    def detectable_share(self) -> float:
        """The smallest slowdown of all steps that would have been called one."""
        return max(self.limit, min(one.noise_share for one in self.differences[:OF_ALL_STEPS]))

    @property
    def verdict(self) -> GateVerdict:
        """What the exit status is made of."""
        return "regression" if self.exceeding else "cannot_compare" if self.doubt else "pass"


def ruling(found: Comparison[Lengths], limit: float, *, per_kind: bool = False) -> Ruling:
    """Apply the rule to a comparison.

    Args:
        found: the lengths of both sides.
        limit: the share of the control that a difference must exceed.
        per_kind: look at each phase, or kind of steps, by itself, too.

    Raises:
        CannotCompareError: the lengths are not comparable, or there are fewer than two pairs of steps.
    """
    if found.refused:
        raise CannotCompareError("steps", found.refused)
    if (pairs := len(found.change.pairs[0])) < FEWEST_PAIRS:
        raise CannotCompareError("steps", *too_few_pairs(pairs))
    looked_at = found.differences
    if per_kind:
        looked_at = (*(one for one in looked_at if not one.kind), *found.of_kinds(every=True))
    exceeding = tuple(one for one in looked_at if one.exceeds(limit))
    main = main_of(exceeding, found.change) if exceeding else found.main
    return Ruling(limit, main, looked_at, exceeding, "" if exceeding else doubt(found, limit))


def doubt(found: Comparison[Lengths], limit: float = 0.0) -> str:
    """Say what of a comparison cannot be known, and what would show it; empty where all that matters is known.

    Equal programs seldom differ by more than half of what noise explains: a larger difference may be one.
    """
    if found.refused or (found.beyond_noise and found.main.share > limit):
        return ""
    if (one := suspicious_of(found.differences, limit)) is not None:
        steps = steps_to_see(found, one.noise_share, one.share)
        counts, tail = counts_of(found), found.course.tail
        if one.basis in OF_THE_COURSE:
            counts = found.course.counts
            steps = tail.enough_steps if one.basis == "hangs" and tail is not None else steps
        return cannot_tell(one, counts, steps, _spread(found))
    return _not_compared(found, limit)


def cannot_tell(one: Difference, counts: tuple[int, int], steps: int | None, spread: float) -> str:
    """Say that a suspicious difference is within the noise, how many steps would show it, and which spread hides it.

    >>> cannot_tell(Difference(100, 4, 6, "medians"), (12, 12), 30, 0.021)
    'cannot tell a change of 4.0% with 12 and 12 steps, 30 would do: the usual step is longer by less than its noise \
(±6.0%); equal steps spread by 2.1%'
    """
    more = "" if steps is None else f", {steps:,} would do" if steps <= MOST_STEPS else ", nor with 1,000"
    many = f"{one.share:.1%} with {counts[0]:,} and {counts[1]:,} steps{more}"
    why = f"{SUSPECTED[one.basis]} (±{one.noise_share:.1%})"
    return f"cannot tell a change of {many}: {why}; equal steps spread by {spread:.1%}"


def _not_compared(found: Comparison[Lengths], limit: float) -> str:
    """Say that steps which are not compared make a run longer, as those of a kind that only one side has."""
    was, now = found.course.means_ns
    alone = sum(found.kinds.alone[1].values())
    rare = sum(kind.counts[1] for kind in found.change.kinds if not kind.is_judged)
    if not was or not alone + rare or now / was - 1 <= max(limit, BY_SIZE):
        return ""
    return steps_without_partner(alone + rare, now / was - 1)


def steps_without_partner(count: int, share: float) -> str:
    """Say that the run takes longer by steps that cannot be compared.

    >>> steps_without_partner(2, 0.75)
    'the mean step is 75.0% longer, and 2 steps after have no counterpart that shows how much they vary'
    """
    have = "has" if count == 1 else "have"
    return (
        f"the mean step is {share:.1%} longer, and {counted(count, 'step')} after {have} no counterpart that shows how "
        + ("much it varies" if count == 1 else "much they vary")
    )


def _spread(found: Comparison[Lengths]) -> float:
    """Return the standard deviation of steps of one kind, on the side where it is larger, as a share."""
    spreads = []
    for side, kind in zip((found.control, found.test), found.kinds.by_side, strict=True):
        own = [side.lengths_ns[kind == one] for one in np.unique(kind[kind >= 0])]
        away = np.concatenate([of / max(float(np.median(of)), 1.0) - 1 for of in own] or [np.zeros(1)])
        spreads.append(float(np.sqrt((away**2).mean())))
    return max(spreads)


def notes_on(found: Comparison[Lengths], ruled: Ruling) -> Iterator[str]:
    """Yield what limits a verdict: steps that are not judged, and noise that hides the limit."""
    if (alone := sum(found.kinds.alone[1].values())) and not ruled.doubt:
        have = "has" if alone == 1 else "have"
        yield f"{counted(alone, 'step')} of the run after {have} no counterpart and cannot fail."
    least = ruled.detectable_share
    if ruled.verdict == "pass" and least > ruled.limit and f"{least:.1%}" != f"{ruled.limit:.1%}":
        steps = steps_to_see(found, least, max(ruled.limit, LEAST_OF_STEPS))
        remedy = "record more steps" if steps is None else steps_to_record(steps)
        yield f"Noise hides a change of {ruled.limit:.1%}; {remedy}."


def counts_of(found: Comparison[Lengths]) -> tuple[int, int]:
    """Return how many steps each side has."""
    return len(found.control.lengths_ns), len(found.test.lengths_ns)


def steps_to_see(found: Comparison[Lengths], noise: float, share: float) -> int | None:
    """Return how many steps of each run would show a difference; ``None`` for windows that are no steps.

    The noise (a share) of a mean shrinks with the square root of its steps.
    """
    if any((side.numbers < 0).any() for side in found.sides.values()):
        return None
    counts = counts_of(found)
    usual = 2 / (1 / counts[0] + 1 / counts[1])
    return max(ceil(usual * (noise / max(share, LEAST_OF_STEPS)) ** 2), *(count + 1 for count in counts), ENOUGH_STEPS)


def steps_to_record(steps: int) -> str:
    """Advise to record as many steps as show a difference.

    >>> steps_to_record(40), steps_to_record(39_675)
    ('record 40 steps of each run', 'more than 1,000 steps of each run are needed')
    """
    if steps > MOST_STEPS:
        return f"more than {MOST_STEPS:,} steps of each run are needed"
    return f"record {steps:,} steps of each run"


def too_few_pairs(pairs: int) -> tuple[str, str]:
    """Refuse runs that have too few steps in common, with the remedy.

    >>> too_few_pairs(1)[0]
    'only 1 pair of steps can be compared, at least 2 are needed'
    """
    return (
        f"only {counted(pairs, 'pair')} of steps can be compared, at least 2 are needed",
        "compare all steps of recordings of at least three steps",
    )


def refuse(found: Sequence[tuple[Obstacle, tuple[str, str]]]) -> None:
    """Refuse to compare runs if anything keeps them from it.

    Raises:
        CannotCompareError: something does.
    """
    for why, both in found[:1]:
        raise CannotCompareError(why, *_obstacle(why, *both))


def _obstacle(why: str, before: str, after: str) -> tuple[str, str]:
    """Say what keeps two runs from being compared, with the remedy.

    >>> _obstacle("gpu", "A100", "H100")[0]
    'another GPU: A100 before, H100 after'
    """
    words = {
        "gpu": f"another GPU: {before} before, {after} after",
        "world_size": f"another world size: {before} before, {after} after",
        "ranks": f"partial input: ranks {before} before, ranks {after} after",
        "model": f"another model: only {before} of the operators' time is common, at least {after} is needed",
        "pytorch": f"another version of PyTorch: {before} before, {after} after",
    }
    remedies = {
        "ranks": "give the same ranks of both runs",
        "model": "record a new baseline with gate --update",
    }
    return words[why], remedies.get(why, "record both runs in the same environment")
