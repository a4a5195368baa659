"""What a person may pass on about two runs: one or two plain sentences, with the numbers behind them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pandas as pd

from analyses.diff.length_comparison import LEAST_OF_WINDOWS, Comparison
from analyses.diff.noise import LEAST_OF_STEPS
from analyses.diff.sides import Lengths, Measure
from analyses.display.labels import SHORT
from analyses.display.text_layout import clipped, duration_text
from hta_graph.text.formatting import signed_milliseconds

SLOWER_IN: Mapping[Measure, str] = {
    "iteration": "per iteration",
    "latency": "by latency",
    "time on the CPU": "on the CPU",
    "window": "in its window",
}
LONGEST_NAME = 60
FORM_OF_LABEL = re.compile(r" \((?:GPU|CPU) window\)$")
"""The measure says it already."""
CLASSES_NAMED = 3
CERTAIN_PART_SHARE = 1.5
"""Of many parts one leaves its band by chance: so many bands have to be left where the whole does not differ."""
WIDE_NOISE = 0.1
"""A band above this is said to hide differences that people care for."""


def conclusion_lines(
    found: Comparison[Lengths],
    by_class: pd.DataFrame,
    by_name: pd.DataFrame,
    caveats: Sequence[str] = (),
    *,
    repeated_on: str = "",
) -> list[str]:
    """Say whether the test is slower, how sure that is, and what accounts for most of it.

    Args:
        found: the lengths of both sides.
        by_class: what changed on the critical path, by class.
        by_name: the same by name.
        caveats: what else than the program differs, as :func:`caveats` says it.
        repeated_on: on which rank of a job that repeats which tells the noise of too few steps.
    """
    return [
        _verdict_line(found, caveats),
        *_caveat_lines(found, caveats),
        *_caution_lines(found, repeated_on),
        *_cause_lines(found, by_class, by_name),
    ]


def _verdict_line(found: Comparison[Lengths], caveats: Sequence[str]) -> str:
    measure, change = found.control.measure, found.change_share
    lengths = _lengths_text(found)
    if found.refused:
        return f"Whether the test is slower cannot be said: {found.refused} ({lengths})."
    noise = f"noise ±{_percent(found.noise_share)}"
    if not found.beyond_noise:
        of = "" if measure == "window" else f" in {measure}"
        return f"No difference beyond noise{of}: {lengths} ({_percent(change, sign=True)}; {noise})."
    size = _percent(abs(change))
    but = f", {_enumerated(caveats)}," if caveats else ""
    if measure == "whole trace":
        word = "longer" if change > 0 else "shorter"
        return f"The whole trace of the test{but} is {size} {word} ({lengths}; {noise})."
    word = "slower" if change > 0 else "faster"
    return f"The test{but} is {size} {word} {SLOWER_IN[measure]} ({lengths}; {noise})."


def _enumerated(parts: Sequence[str]) -> str:
    """Join parts as a sentence does.

    >>> _enumerated(["on another GPU"]), _enumerated(["a", "b", "c"])
    ('on another GPU', 'a, b and c')
    """
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


def _caveat_lines(found: Comparison[Lengths], caveats: Sequence[str]) -> list[str]:
    """Say that a length must not be passed on as the effect of a change to the program."""
    if not caveats or found.refused:
        return []
    said = ["More than a change to one program is compared here: do not pass this on as the effect of one."]
    ranks = "Ranks of one job wait for each other: hta-graph stragglers, with all ranks, tells for which."
    return [*said, ranks] if list(caveats) == ["as another rank"] else said


def _lengths_text(found: Comparison[Lengths]) -> str:
    """Print both lengths: of several steps their medians, else what the single stretches are called."""
    control, test = found.control, found.test
    was, now = duration_text(control.median_ns), duration_text(test.median_ns)
    counts = [len(side.lengths_ns) for side in (control, test)]
    if max(counts) > 1:
        return f"median {was} → {now} over {counts[0]} and {counts[1]} steps"
    labels = [clipped(FORM_OF_LABEL.sub("", side.label), LONGEST_NAME) for side in (control, test)]
    if labels[0] == labels[1]:
        return f"{labels[0]}: {was} → {now}" if control.measure != "whole trace" else f"{was} → {now}"
    return f"{labels[0]} {was} → {labels[1]} {now}"


def _percent(share: float, *, sign: bool = False) -> str:
    """Print a share with one decimal.

    >>> _percent(0.031), _percent(-0.5, sign=True)
    ('3.1%', '-50.0%')
    """
    return f"{share:{'+' if sign else ''}.1%}"


def _caution_lines(found: Comparison[Lengths], repeated_on: str) -> list[str]:
    """Say what the reader should know about the noise, and about windows that hold whatever was recorded."""
    said = []
    if found.repeats is not None and not found.refused:
        counts = [len(side.lengths_ns) for side in (found.control, found.test)]
        only = "Only one window of each side was compared" if counts == [1, 1] else f"Only {_steps_text(counts)}"
        source = (
            f"estimated from {found.repeats.units:,} repetitions of kernels and operators in them{repeated_on}, "
            f"at least {_percent(LEAST_OF_WINDOWS)}"
            if found.repeats.units
            else f"taken to be {_percent(LEAST_OF_WINDOWS)}, for nothing repeats in them"
        )
        said.append(f"{only}: the noise is {source}.")
    if found.control.warms_up and not found.refused:
        said.append("Each step is the first of its recording and may hold a warm-up.")
    if found.control.measure == "whole trace" and not found.refused:
        said.append("That tells their speed only if both recorded the same amount of work.")
    return [*said, *_hidden_lines(found)]


def _hidden_lines(found: Comparison[Lengths]) -> list[str]:
    """Say that no difference beyond wide noise does not mean that there is none."""
    if found.refused or found.beyond_noise or found.noise_share <= WIDE_NOISE:
        return []
    unseen = f"A difference below {_percent(found.noise_share)} would not be seen, so the runs need not be equally fast"
    return [f"{unseen}: record ten steps or more of each."]


def _steps_text(counts: list[int]) -> str:
    return f"{counts[0]} and {counts[1]} steps were compared"


def _cause_lines(found: Comparison[Lengths], by_class: pd.DataFrame, by_name: pd.DataFrame) -> list[str]:
    """Name what changed on the critical path beyond its own noise; within the noise of the whole only what is large."""
    if found.refused or (found.repeats is not None and not found.beyond_noise):
        return []
    by_name = beyond_noise(by_name)
    if not found.beyond_noise:
        return _changed_rows_lines(by_name, LEAST_OF_STEPS * found.control.median_ns)
    moved = beyond_noise(by_class).head(CLASSES_NAMED)
    pairs = zip(moved["diff_ns"].tolist(), moved["bound_by"], strict=True)
    listed = "; ".join(f"{_class_words(bound)} {signed_milliseconds(ns)} ms" for ns, bound in pairs)
    said = [f"On the critical path: {listed}."] if listed else []
    return [*said, *(f"The largest single change there: {_first_row(by_name)}." for _ in by_name.index[:1])]


def _class_words(bound: str) -> str:
    return bound if SHORT[bound] == bound else f"{SHORT[bound]} ({bound})"


def _changed_rows_lines(by_name: pd.DataFrame, least_ns: float) -> list[str]:
    """Name what changed by as much as the whole would have to, although the whole did not."""
    size = by_name["diff_ns"].abs()
    large = by_name[(size > least_ns) & (size > CERTAIN_PART_SHARE * by_name["noise_ns"])]
    said = "Yet a part of the critical path changed by more than its own noise, which the whole does not show"
    return [f"{said}: {_first_row(large)}, noise ±{noise / 1e6:,.3f} ms." for noise in large["noise_ns"].tolist()[:1]]


def beyond_noise(frame: pd.DataFrame) -> pd.DataFrame:
    """Select the rows that changed by more than their noise."""
    return frame[frame["diff_ns"].abs() > frame["noise_ns"]]


def _first_row(by_name: pd.DataFrame) -> str:
    row = by_name.iloc[0]
    return f"{clipped(str(row['name']), LONGEST_NAME)}, {signed_milliseconds(int(row['diff_ns']))} ms"
