"""The conclusion about two runs: whether one is slower, how sure that is, and what changed most."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pandas as pd

from analyses.diff.length_comparison import LEAST_OF_WINDOWS, Comparison
from analyses.diff.noise import LEAST_OF_STEPS
from analyses.diff.sides import Lengths
from analyses.messages import diff as messages

FORM_OF_LABEL = re.compile(r" \((?:GPU|CPU) window\)$")
"""The measure states it already."""
CLASSES_NAMED = 3
CERTAIN_PART_SHARE = 1.5
"""Of many parts one leaves its band by chance: by how many bands a part must change where the whole does not."""
WIDE_NOISE = 0.1
"""A wider band gets a warning that it hides differences."""


def conclusion_lines(
    found: Comparison[Lengths],
    by_class: pd.DataFrame,
    by_name: pd.DataFrame,
    caveats: Sequence[str] = (),
    *,
    repeated_on: int | None = None,
) -> list[str]:
    """State whether the test is slower, how sure that is, and what accounts for most of it.

    Args:
        found: the lengths of both sides.
        by_class: what changed on the critical path, by class.
        by_name: the same by name.
        caveats: what else than the program differs, as :func:`caveats` lists it.
        repeated_on: the rank of a job whose repetitions give the noise of too few steps.
    """
    return [
        _verdict_line(found, caveats),
        *_caveat_lines(found, caveats),
        *_caution_lines(found, repeated_on),
        *_cause_lines(found, by_class, by_name),
    ]


def _verdict_line(found: Comparison[Lengths], caveats: Sequence[str]) -> str:
    measure, change, noise = found.control.measure, found.change_share, found.noise_share
    lengths = _lengths_text(found)
    if found.refused:
        return messages.refused(found.refused, lengths)
    if not found.beyond_noise:
        return messages.no_difference(measure, lengths, change, noise)
    return messages.difference(measure, lengths, change, noise, caveats)


def _caveat_lines(found: Comparison[Lengths], caveats: Sequence[str]) -> list[str]:
    """Warn that a difference is more than the effect of a change to the program."""
    if not caveats or found.refused:
        return []
    return [messages.NOT_ONE_CHANGE, *([messages.RANKS_WAIT] if list(caveats) == [messages.OTHER_RANK] else [])]


def _lengths_text(found: Comparison[Lengths]) -> str:
    """Print both lengths: of several steps their medians, else with the labels of the windows."""
    control, test = found.control, found.test
    labels = (label_without_form(control.label), label_without_form(test.label))
    both_whole = labels[0] == labels[1] and control.measure == "whole trace"
    medians = (control.median_ns, test.median_ns)
    return messages.lengths(medians, _counts(found), None if both_whole else labels)


def label_without_form(label: str) -> str:
    """Return the label of a window without the form that the measure states.

    >>> label_without_form("step 2 (GPU window)")
    'step 2'
    """
    return FORM_OF_LABEL.sub("", label)


def _counts(found: Comparison[Lengths]) -> tuple[int, int]:
    return len(found.control.lengths_ns), len(found.test.lengths_ns)


def _caution_lines(found: Comparison[Lengths], repeated_on: int | None) -> list[str]:
    """Explain where the noise comes from, and what windows contain besides work."""
    if found.refused:
        return []
    said = []
    if found.repeats is not None:
        said.append(messages.noise_source(_counts(found), found.repeats.units, repeated_on, LEAST_OF_WINDOWS))
    if found.control.warms_up:
        said.append(messages.WARMS_UP)
    if found.control.measure == "whole trace":
        said.append(messages.SAME_WORK)
    if not found.beyond_noise and found.noise_share > WIDE_NOISE:
        said.append(messages.hidden_difference(found.noise_share))
    return said


def _cause_lines(found: Comparison[Lengths], by_class: pd.DataFrame, by_name: pd.DataFrame) -> list[str]:
    """Name what changed on the critical path beyond its own noise; within the noise of the whole only what is large."""
    if found.refused or (found.repeats is not None and not found.beyond_noise):
        return []
    by_class, by_name = beyond_noise(by_class), beyond_noise(by_name)
    if not found.beyond_noise:
        return _hidden_change_lines(by_class, by_name, LEAST_OF_STEPS * found.control.median_ns)
    moved = by_class.head(CLASSES_NAMED)
    pairs = list(zip(moved["bound_by"], moved["diff_ns"].tolist(), strict=True))
    said = [messages.class_changes(pairs)] if pairs else []
    return [*said, *(messages.largest_change(name, ns) for name, ns in _first_row(by_name))]


def _hidden_change_lines(by_class: pd.DataFrame, by_name: pd.DataFrame, least_ns: float) -> list[str]:
    """Count what changed, and name the largest, if a part changed by as much as the whole would have to."""
    size = by_name["diff_ns"].abs()
    large = by_name[(size > least_ns) & (size > CERTAIN_PART_SHARE * by_name["noise_ns"])]
    largest = list(zip(by_class["bound_by"], by_class["diff_ns"].tolist(), strict=True))[:1]
    counts = len(by_class), len(by_name)
    return [messages.hidden_changes(counts, largest, _first_row(by_name)[0])] if len(large) else []


def beyond_noise(frame: pd.DataFrame) -> pd.DataFrame:
    """Select the rows that changed by more than their noise."""
    return frame[frame["diff_ns"].abs() > frame["noise_ns"]]


def _first_row(by_name: pd.DataFrame) -> list[tuple[str, int]]:
    """Return name and change of the first row, if there is one."""
    first = by_name.head(1)
    return [(str(name), int(ns)) for name, ns in zip(first["name"], first["diff_ns"].tolist(), strict=True)]


def without_difference(found: Comparison[Lengths]) -> bool:
    """Return whether the verdict is that nothing differs, so that a terminal needs no details."""
    return not found.refused and not found.beyond_noise


def noise_lines(found: Comparison[Lengths]) -> list[str]:
    """Explain what noise is."""
    return [] if found.refused else [messages.NOISE]
