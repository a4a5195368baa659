"""How often does ``diff`` see a slower kernel, and how often a difference between equal programs?

``python -m tests.diff_accuracy`` simulates pairs of noisy runs (:func:`noisy_run`), in one of each pair a kernel of 42
% of an iteration takes longer by a factor, and prints how many were called different, with the kernel named in how
many.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from analyses.diff.run_diff import answer_of_comparison, between_runs
from tests.support.noisy_runs import noisy_run

KERNEL = "ampere_sgemm_64x32_tn"
PAIRS = 24
ASKED = ((0.03, 8), (0.03, 3), (0.03, 1), (0.05, 8), (0.05, 2), (0.1, 8), (0.1, 4), (0.3, 8))
"""The noise of every piece of work, and how many steps are compared."""


def called_different(folder: Path, spread: float, steps: int, factor: float) -> tuple[int, int, int]:
    """Return how many pairs differ, in how many the kernel is named, and how many say that only a part changed."""
    different = named = only_a_part = 0
    for pair in range(PAIRS):
        seed = 1_000 * steps + 2 * pair
        control = noisy_run(folder, seed, steps=steps + 1, spread=spread)
        test = noisy_run(folder, seed + 1, steps=steps + 1, spread=spread, slower={KERNEL: factor})
        found = between_runs(control, test)
        said = " ".join(answer_of_comparison(found).opening)
        different += found.beyond_noise
        named += KERNEL in said
        only_a_part += "changed beyond noise" in said
    return different, named, only_a_part


def main() -> None:
    """Print a line for every noise, number of steps and factor."""
    with tempfile.TemporaryDirectory() as folder:
        for factor in (1.1, 1.0):
            for spread, steps in ASKED:
                different, named, part = called_different(Path(folder), spread, steps, factor)
                told = f"different {different}, kernel named {named}, only a part {part} of {PAIRS}"
                sys.stdout.write(f"kernel × {factor}, noise {spread:.0%}, {steps} steps: {told}\n")


if __name__ == "__main__":
    main()
