"""Whether one run is slower than another: how far apart their lengths are, how much of that may be noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from analyses.diff.comparison import RepetitionNoise, repetition_noise
from analyses.diff.noise import ENOUGH_STEPS, band_of_steps
from analyses.diff.sides import Lengths, Side
from analyses.display.terminal import duration_text

__all__ = ["LEAST_OF_WINDOWS", "Comparison", "compare", "compare_lengths"]

SideT = TypeVar("SideT", bound=Lengths)
Side_co = TypeVar("Side_co", bound=Lengths, covariant=True)
"""What is compared: one rank of each run, or one job with another."""

LEAST_OF_WINDOWS = 0.05
"""With fewer than three steps on a side no smaller difference is believed."""
NORMAL_99 = 2.576
"""How many standard deviations hold 99 % of normal noise."""
MOSTLY_UNKNOWN = 0.5
"""First steps of which so much of the difference is unexplained are not compared."""
SAME_AMOUNT = 1.25
"""Windows with this many times as much of the same work are not compared by their lengths."""


@dataclass(frozen=True)
class Comparison(Generic[Side_co]):
    """Two runs' lengths: the difference and the noise band as shares of the control's median.

    ``refused`` says why the lengths must not be compared, else it is empty; ``repeats`` is what the noise was taken
    from where a side has too few steps, else ``None``.
    """

    control: Side_co
    test: Side_co
    noise_share: float
    repeats: RepetitionNoise | None
    refused: str

    @property
    def sides(self) -> dict[str, Side_co]:
        """Both sides by name."""
        return {"control": self.control, "test": self.test}

    @property
    def change_share(self) -> float:
        """By how much the test is longer, whether or not that may be compared."""
        return (self.test.median_ns - self.control.median_ns) / max(self.control.median_ns, 1)

    @property
    def difference_share(self) -> float | None:
        """By how much the test is longer; ``None`` where that must not be said."""
        return None if self.refused else self.change_share

    @property
    def beyond_noise(self) -> bool:
        """Whether one run is longer by more than the noise."""
        return not self.refused and abs(self.change_share) > self.noise_share

    @property
    def row_noise_share(self) -> float | None:
        """The noise of rows in tables, where no row has stretches enough to tell its own."""
        return None if self.repeats is None else self.noise_share


def compare(control: Side, test: Side) -> Comparison[Side]:
    """Compare two runs by their steps, or, where these are too few, by what repeats in them."""
    return compare_lengths(control, test, lambda: repetition_noise(control, test))


def compare_lengths(control: SideT, test: SideT, repeated: Callable[[], RepetitionNoise]) -> Comparison[SideT]:
    """Compare lengths; ``repeated`` tells what repeats in both runs, which is asked where their steps are too few."""
    sides = (control, test)
    if min(len(side.lengths_ns) for side in sides) >= ENOUGH_STEPS:
        noise = band_of_steps(control.lengths_ns, test.lengths_ns)
        return Comparison(control, test, noise, None, _why_refused(control, test, None))
    repeats = repeated()
    # Steps of one side are repetitions too: a difference as large as between them is none.
    own = max(float(side.lengths_ns.max() - side.lengths_ns.min()) / max(side.median_ns, 1) for side in sides)
    noise = max(LEAST_OF_WINDOWS, NORMAL_99 * repeats.noise_share, own)
    return Comparison(control, test, noise, repeats, _why_refused(control, test, repeats))


def _why_refused(control: Lengths, test: Lengths, repeats: RepetitionNoise | None) -> str:
    """Say why lengths say nothing about speed; empty where they do."""
    if "whole trace" in (control.measure, test.measure) and control.has_steps != test.has_steps:
        with_steps, without = ("control", "test") if control.has_steps else ("test", "control")
        return f"the {with_steps} has profiler steps and the {without} has none"
    if control.warms_up != test.warms_up:
        first, other = ("control", "test") if control.warms_up else ("test", "control")
        return f"the {first}'s step is the first of its recording, a warm-up, and the {other}'s is not"
    if control.measure != test.measure:
        return f"one length is a {control.measure}, the other a {test.measure}"
    unknown = test.unexplained_ns - control.unexplained_ns
    change = test.median_ns - control.median_ns
    # A first step's work may stand behind work that was enqueued before anything was recorded.
    large = abs(change) > LEAST_OF_WINDOWS * control.median_ns
    if control.warms_up and large and unknown / change >= MOSTLY_UNKNOWN:
        return (
            f"{duration_text(abs(unknown))} of the difference are unexplained, such as work from before the recording"
        )
    amount = repeats.amount if repeats is not None and control.measure != "iteration" else None
    if amount is not None and not 1 / SAME_AMOUNT <= amount <= SAME_AMOUNT:
        return f"the test's window holds {amount:.2g} times as much of the same work"
    return ""
