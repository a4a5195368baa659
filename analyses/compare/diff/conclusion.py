"""The conclusion about two runs: whether one is slower, how sure that is, and what changed most."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import ceil

import numpy as np
import pandas as pd

from analyses.compare.diff.length_comparison import ENOUGH_AROUND, LEAST_OF_WINDOWS, Comparison
from analyses.compare.diff.noise import ENOUGH_STEPS, LEAST_OF_STEPS
from analyses.compare.diff.sides import Lengths
from analyses.messages import diff as messages

FORM_OF_LABEL = re.compile(r" \((?:GPU|CPU) window\)$")
"""The measure states it already."""
CLASSES_NAMED = 3
CERTAIN_PART_SHARE = 1.5
"""Of many parts one leaves its band by chance: by how many bands a part must change where the whole does not."""
WORTH_SEEING = (0.05, 0.02, 0.01)
"""Differences that people look for, largest first: the next one that noise hides is what more steps would show."""
HALF = 0.5
LEAST_PART = 0.1
"""The share of the difference from which on a class of the critical path accounts for it."""


def conclusion_lines(
    found: Comparison[Lengths],
    by_class: pd.DataFrame,
    by_name: pd.DataFrame,
    caveats: Sequence[str] = (),
    *,
    together: pd.DataFrame,
    labels: Mapping[str, str],
    repeated_on: int | None = None,
) -> list[str]:
    """State whether the test is slower, how sure that is, and what accounts for most of it.

    Args:
        found: the lengths of both sides.
        by_class: what changed on the critical path, by class.
        by_name: the same by name.
        caveats: what else than the program differs, as :func:`caveats` lists it.
        together: the same with names that differ by numbers alone together.
        labels: of classes.
        repeated_on: the rank of a job whose repetitions give the noise of too few steps.
    """
    if is_same_recording(found):
        return [messages.SAME_RECORDING]
    return [
        _verdict_line(found, caveats),
        *_caveat_lines(found, caveats),
        *_level_lines(found),
        *_caution_lines(found, repeated_on),
        *_step_lines(found),
        *_cause_lines(found, by_class, (by_name, together), labels),
    ]


def _verdict_line(found: Comparison[Lengths], caveats: Sequence[str]) -> str:
    measure, change, noise = found.control.measure, found.change_share, found.noise_share
    lengths = _lengths_text(found)
    if found.refused:
        return messages.refused(found.refused, lengths)
    is_new = not any(level.beyond_noise for level in found.levels.earlier)
    since = messages.since(found.levels.since, is_new=is_new and found.beyond_noise)
    alone = [messages.steps_alone(*side) for side in _steps_alone(found)]
    if not found.beyond_noise:
        return messages.no_difference(measure, lengths, change, noise, since, alone)
    return messages.difference(measure, lengths, change, noise, [*caveats, *alone], since)


def _steps_alone(found: Comparison[Lengths]) -> Iterator[tuple[str, int, float]]:
    """Yield each side with steps without counterpart that would change its mean by more than noise explains.

    Yield also their number and their share of the side's time. What is compared then says little about the run.
    """
    for (name, side), kind in zip(found.sides.items(), found.kinds.by_side, strict=True):
        own, is_alone = side.lengths_ns, kind < 0
        if len(own) != len(kind) or not is_alone.any() or is_alone.all():
            continue
        if abs(float(own.mean() - own[~is_alone].mean())) > found.noise_ns:
            yield name, int(np.count_nonzero(is_alone)), float(own[is_alone].sum() / max(own.sum(), 1))


def is_same_recording(found: Comparison[Lengths]) -> bool:
    """Return whether both sides are the same windows of the same recording."""
    return not found.refused and found.control.is_same_as(found.test)


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
    kinds = len(found.change.kinds)
    return messages.lengths(
        found.lengths,
        _compared_counts(found),
        None if both_whole else labels,
        kinds=kinds,
        compared_by=found.compared_by,
    )


def label_without_form(label: str) -> str:
    """Return the label of a window without the form that the measure states.

    >>> label_without_form("step 2 (GPU window)")
    'step 2'
    """
    return FORM_OF_LABEL.sub("", label)


def _compared_counts(found: Comparison[Lengths]) -> tuple[int, int]:
    """Return how many lengths of each side are compared: those of steps that the other side has, too."""
    control, test = found.kinds.by_side
    counts = int(np.count_nonzero(control >= 0)), int(np.count_nonzero(test >= 0))
    return counts if (len(control), len(test)) == _counts(found) else _counts(found)


def _counts(found: Comparison[Lengths]) -> tuple[int, int]:
    return len(found.control.lengths_ns), len(found.test.lengths_ns)


def _caution_lines(found: Comparison[Lengths], repeated_on: int | None) -> list[str]:
    """Explain where the noise comes from, and what windows contain besides work."""
    if found.refused:
        return []
    said = []
    if found.repeats is not None:
        around = (len(found.control.neighbors.ns), len(found.test.neighbors.ns))
        around = around if min(around) >= ENOUGH_AROUND else (0, 0)
        said.append(messages.noise_source(_counts(found), found.repeats.units, repeated_on, around, LEAST_OF_WINDOWS))
    if found.control.warms_up:
        said.append(messages.WARMS_UP)
    if found.unlike is not None:
        said.append(messages.unlike_steps(*found.unlike))
    if found.control.measure == "whole trace":
        said.append(messages.SAME_WORK)
    more = more_steps(found)
    said.append(messages.visible_difference(found.noise_ns, found.noise_share, more, beyond=found.beyond_noise))
    return said


def _level_lines(found: Comparison[Lengths]) -> list[str]:
    """Compare the steps before the last change of level inside a run."""
    if found.refused:
        return []
    return [
        messages.earlier_level(
            level.side,
            (int(level.steps[0]), int(level.steps[-1])),
            (round(level.control_ns), round(level.test_ns)),
            level.noise_ns / max(level.control_ns, 1),
            beyond=level.beyond_noise,
        )
        for level in found.levels.earlier
    ]


def more_steps(found: Comparison[Lengths]) -> tuple[float, int] | None:
    """Return a difference (a share) that is not visible, and the number of steps of each run that would show it."""
    wanted = next((share for share in WORTH_SEEING if share < found.noise_share), None)
    steps = None if wanted is None or found.refused else steps_to_see(found, wanted)
    return None if wanted is None or steps is None else (wanted, steps)


def steps_to_see(found: Comparison[Lengths], share: float) -> int | None:
    """Return how many steps of each run would show a difference; ``None`` for windows that are no steps.

    The noise of a mean shrinks with the square root of its steps.
    """
    if any((side.numbers < 0).any() for side in found.sides.values()):
        return None
    counts = _counts(found)
    usual = 2 / (1 / counts[0] + 1 / counts[1])
    return max(
        ceil(usual * (found.noise_share / max(share, LEAST_OF_STEPS)) ** 2),
        *(count + 1 for count in counts),
        ENOUGH_STEPS,
    )


def _step_lines(found: Comparison[Lengths]) -> list[str]:
    """Compare steps kind by kind and pair by pair."""
    if found.refused:
        return []
    said = []
    kinds = [
        (found.kinds.names[kind.kind], kind.counts, (round(kind.control_ns), round(kind.test_ns)), kind.is_judged)
        for kind in found.change.kinds
    ]
    judged, rare = ([kind[:3] for kind in kinds if kind[3] == asked] for asked in (True, False))
    if len(kinds) > 1:
        said.append(messages.changes_of_kinds(judged))
    if rare:
        said.append(messages.kinds_seen_once(rare))
    for side, alone in zip(found.sides, found.kinds.alone, strict=True):
        if alone:
            said.append(messages.kinds_of_one_side(side, alone))
    differences = pair_differences(found)
    if found.beyond_noise and len(differences) > 1:
        said.append(messages.changes_of_pairs(differences, round(float(np.median(differences)))))
    if found.is_of_sums:
        said.append(messages.only_some_steps((round(found.change.control_ns), round(found.change.test_ns))))
    return said


def pair_differences(found: Comparison[Lengths]) -> list[int]:
    """Return by how much each step is longer than the same one of the control."""
    left, right = found.change.pairs
    differences: list[int] = (found.test.lengths_ns[right] - found.control.lengths_ns[left]).tolist()
    return differences


def _cause_lines(
    found: Comparison[Lengths],
    by_class: pd.DataFrame,
    names: tuple[pd.DataFrame, pd.DataFrame],
    labels: Mapping[str, str],
) -> list[str]:
    """Name what changed on the critical path beyond its own noise; within the noise of the whole only what is large."""
    if found.refused or (found.repeats is not None and not found.beyond_noise):
        return []
    by_class, by_name, together = map(beyond_noise, (by_class, *names))
    if not found.beyond_noise:
        return _hidden_change_lines(by_class, by_name, LEAST_OF_STEPS * found.lengths[0], labels)
    moved = by_class[by_class["diff_ns"].abs() >= LEAST_PART * abs(found.difference_ns)].head(CLASSES_NAMED)
    pairs = list(zip(moved["bound_by"].map(labels), moved["diff_ns"].tolist(), strict=True))
    said = [messages.class_changes(pairs)] if pairs else []
    return [*said, *_largest_change_lines(by_name, together, found.shared_names)]


def _largest_change_lines(by_name: pd.DataFrame, together: pd.DataFrame, shared: Mapping[str, str]) -> list[str]:
    """Name the largest change: that of several names that differ by numbers, if none of them is half of it."""
    one, several = _first_row(by_name), _first_row(together)
    if several and several[0][0] in shared.values() and not (one and abs(one[0][1]) >= HALF * abs(several[0][1])):
        count = sum(shared.get(name) == several[0][0] for name in set(by_name["name"]))
        return [messages.largest_change_of_several(several[0][0], count, several[0][1])]
    return [messages.largest_change(name, ns) for name, ns in one]


def _hidden_change_lines(
    by_class: pd.DataFrame, by_name: pd.DataFrame, least_ns: float, labels: Mapping[str, str]
) -> list[str]:
    """Count what changed, and name the largest, if a part changed by as much as the whole would have to."""
    size = by_name["diff_ns"].abs()
    large = by_name[(size > least_ns) & (size > CERTAIN_PART_SHARE * by_name["noise_ns"])]
    largest = list(zip(by_class["bound_by"].map(labels), by_class["diff_ns"].tolist(), strict=True))[:1]
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
    return [] if found.refused or is_same_recording(found) else [messages.NOISE]
