"""How many steps of each run show a given change, by the noise of a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from analyses.compare.diff.noise import ENOUGH_STEPS
from analyses.compare.diff.regression import MOST_STEPS
from analyses.compare.diff.step_change import StepLengths, noise_of_medians
from analyses.compare.diff.step_kinds import kinds_of_contents
from analyses.compare.gate.compare_profiles import noise_between_runs, pooled
from analyses.compare.gate.run_profile import RunProfile

CHANGES = (0.01, 0.02, 0.03, 0.05, 0.1)
FEWEST = 4
"""With fewer steps on a side nothing shows how much they depend on each other, nor which of them hang."""


def plan_lines(baseline: Sequence[RunProfile]) -> list[str]:
    """Say how many steps each run needs for changes of 1 to 10% to be seen.

    Raises:
        CannotCompareError: the recordings have no steps in common.
    """
    profile = pooled(baseline)
    side, kind = profile.side, kinds_of_contents(profile.contents, profile.contents).control
    steps = StepLengths(side.lengths_ns.astype(float), side.numbers, kind)
    count, noise = len(steps.ns), noise_of_medians(steps) / max(float(steps.ns.mean()), 1.0)
    said = [_noise_of(count, noise)]
    if count < ENOUGH_STEPS:
        return said
    runs = noise_between_runs(baseline)
    needed = {change: max(ceil(count * (noise / change) ** 2), FEWEST) for change in CHANGES}
    return [*said, *(_steps_for(change, steps, runs) for change, steps in needed.items())]


def _noise_of(count: int, noise: float) -> str:
    """State what a baseline has, and what its noise is.

    >>> _noise_of(24, 0.021)
    'With 24 steps of each run, noise explains up to 2.1% of the usual step.'
    """
    if count < ENOUGH_STEPS:
        return f"{count} steps show no noise; record at least 20 in addition to the warm-up."
    return f"With {count:,} steps of each run, noise explains up to {noise:.1%} of the usual step."


def _steps_for(change: float, steps: int, runs: float) -> str:
    """Say how many steps show a change, and whether whole runs differ by more.

    >>> _steps_for(0.01, 106, 0.0), _steps_for(0.01, 106, 0.02), _steps_for(0.01, 5_000, 0.0)
    ('1%: record 106 steps of each run', '1%: record 106 steps of each run; whole runs differ by 2.0%, so compare more \
recordings', '1%: more than 1,000 steps of each run are needed')
    """
    if steps > MOST_STEPS:
        return f"{change:.0%}: more than {MOST_STEPS:,} steps of each run are needed"
    more = f"; whole runs differ by {runs:.1%}, so compare more recordings" if runs > change else ""
    return f"{change:.0%}: record {steps:,} steps of each run{more}"
