"""The rule of ``gate`` and of ``diff --fail-above``: whether a run is slower, or why that cannot be known.

A run is slower if the lower bound of the difference is above zero and the difference itself above a limit. The
difference is that of usual steps (of pairs where these go up and down together) or of the means of all steps; the
bound is the difference without the noise of :mod:`analyses.compare.diff.step_change`. Each level inside the second run
counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from analyses.compare.diff.environment import LEAST_COMMON, common_share, facts_that_differ
from analyses.compare.diff.length_comparison import Comparison
from analyses.compare.diff.sides import Lengths
from analyses.compare.diff.step_change import KindChange
from analyses.display.sentence_format import counted
from hta_graph.base.errors import CannotCompareError

RANKS_LISTED = 8

FEWEST_PAIRS = 2
"""Of a single pair of steps nothing shows how much it differs by chance."""

FEWEST_OF_LEVEL = 4
"""With fewer steps a level is not judged: a step that hangs between two that are a little long looks like one."""
Basis = Literal["medians", "pairs", "ranks", "means"]
OF_ALL_STEPS = 3
"""How many differences are of all compared steps: by medians or pairs, by ranks, and of the mean."""
GateVerdict = Literal["pass", "regression", "cannot_compare"]
Obstacle = Literal["unreadable", "partial", "gpu", "world_size", "ranks", "model", "pytorch", "steps", "metric"]
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
class Difference:
    """A compared length (ns, or what a metric counts in): of the usual step, the mean, a level or a kind of steps."""

    control: float
    difference: float
    noise: float
    basis: Basis
    steps: tuple[int, int | None] | None = None
    """The first and the last step where not all are compared; without a last one, all since the first."""
    kind: str = ""

    @property
    def share(self) -> float:
        """The difference as a share of the control."""
        return self.difference / self.control if self.control else 0.0

    @property
    def noise_share(self) -> float:
        """The noise as a share of the control."""
        return self.noise / self.control if self.control else 0.0

    def exceeds(self, limit: float) -> bool:
        """Return whether the lower bound is above zero and the difference above a share of the control."""
        return self.difference > max(self.noise, limit * self.control)


@dataclass(frozen=True)
class Ruling:
    """What the rule says of a comparison: all differences that it looks at, and those that exceed noise and limit."""

    limit: float
    differences: tuple[Difference, ...]
    exceeding: tuple[Difference, ...]
    is_short: bool = False
    """Whether the last level of a run has too few steps to be judged."""

    @property
    def main(self) -> Difference:
        """The difference to report: the largest that exceeds, else that of the usual step."""
        return max(self.exceeding, key=lambda one: one.share) if self.exceeding else self.differences[0]

    @property
    def detectable_share(self) -> float | None:
        """The smallest slowdown that would have been called one; None where too few steps are left to call any."""
        return (
            None if self.is_short else max(self.limit, min(one.noise_share for one in self.differences[:OF_ALL_STEPS]))
        )

    @property
    def verdict(self) -> GateVerdict:
        """What the exit status is made of."""
        return "regression" if self.exceeding else "pass"


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
    looked_at = tuple(_differences(found, per_kind=per_kind))
    lasts = zip(found.levels.first, (found.control, found.test), strict=True)
    is_short = any(first and len(side.lengths_ns) < FEWEST_OF_LEVEL for first, side in lasts)
    judged = looked_at[OF_ALL_STEPS * is_short :]
    return Ruling(limit, looked_at, tuple(one for one in judged if one.exceeds(limit)), is_short)


def too_few_pairs(pairs: int) -> tuple[str, str]:
    """Refuse runs that have too few steps in common, with the remedy.

    >>> too_few_pairs(1)[0]
    'only 1 pair of steps can be compared, at least 2 are needed'
    """
    return (
        f"only {counted(pairs, 'pair')} of steps can be compared, at least 2 are needed",
        "compare all steps of recordings of at least three steps",
    )


def _differences(found: Comparison[Lengths], *, per_kind: bool) -> Iterator[Difference]:
    change, first = found.change, found.levels.since[1]
    since = None if first is None else (first, None)
    usual: Basis = "pairs" if change.is_paired else "medians"
    yield Difference(change.control_ns, change.difference_ns, change.noise_ns, usual, since)
    yield Difference(change.control_ns, change.shift_ns, change.shift_noise_ns, "ranks", since)
    yield Difference(change.means_ns[0], change.summed_ns, change.summed_noise_ns, "means", since)
    for level in found.levels.earlier:
        if level.side == "test" and len(level.steps) >= FEWEST_OF_LEVEL:
            steps = (int(level.steps[0]), int(level.steps[-1]))
            yield Difference(level.control_ns, level.difference_ns, level.noise_ns, "medians", steps)
    for kind in change.kinds if per_kind else ():
        if kind.is_judged:
            yield difference_of_kind(found, kind, since)


def difference_of_kind(
    found: Comparison[Lengths], kind: KindChange, steps: tuple[int, int | None] | None = None
) -> Difference:
    """Return the difference of a kind of steps; of very few steps with the noise of the parts of steps."""
    noise = max(kind.noise_ns, (found.row_noise_share or 0.0) * kind.control_ns)
    name = found.kinds.names[kind.kind] or "all"
    return Difference(kind.control_ns, kind.difference_ns, noise, "medians", steps, name)


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
