"""The conclusion about two runs: whether one is slower, how sure that is, and what changed most."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from analyses.compare.diff.differences import OF_THE_COURSE, course_lines, manner_of
from analyses.compare.diff.length_comparison import ENOUGH_AROUND, LEAST_OF_WINDOWS, Comparison
from analyses.compare.diff.noise import LEAST_OF_STEPS
from analyses.compare.diff.regression import counts_of, doubt, steps_to_record, steps_to_see
from analyses.compare.diff.sides import BEFORE_AFTER, LENGTH, LONGEST_NAME, OTHER_RANK, Lengths, side_name
from analyses.display.sentence_format import brief_share, counted, enumerated
from analyses.display.text_layout import clipped, duration_text
from hta_graph.base.text.formatting import signed_milliseconds
from hta_graph.base.text.shorten import short_name

SLOWER_IN = {"iteration": " per iteration", "latency": " by latency", "time on the CPU": " in CPU time"}
RANKS_WAIT = (
    "Ranks of a job wait for each other; run hta-graph stragglers on all ranks to see which one delays the others."
)
NOISE = (
    "Noise: how far runs of the same program can differ by chance, estimated from the spread of their steps or of "
    "repeated kernels and operators."
)
PAIRS_LISTED = 6
"""How many differences of pairs a sentence lists; of more it counts the longer ones."""

FORM_OF_LABEL = re.compile(r" \((?:GPU|CPU) window\)$")
"""The measure states it already."""
BASIS = {"means": "mean", "hangs": "mean", "trend": "first and last step by their trend"}
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
        return ["No difference: both sides are the same recording."]
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
        return f"No verdict: {found.refused} ({lengths})."
    is_new = not any(level.beyond_noise for level in found.levels.earlier)
    since = _since(found.levels.since, is_new=is_new and found.beyond_noise)
    is_usual = found.main.basis in ("medians", "pairs", "ranks", "means")
    since = (
        since if is_usual and found.main.steps == found.differences[0].steps else manner_of(found.main, found.course)
    )
    alone = [_without_steps(*side) for side in _steps_alone(found)]
    if why := doubt(found):
        return f"{why[0].upper()}{why[1:]}: {lengths} ({_percent(change, sign=True)}; noise ±{_percent(noise)})."
    if not found.beyond_noise:
        return _no_difference(measure, lengths, change, noise, since, alone)
    return _difference(measure, lengths, change, noise, [*caveats, *alone], since)


def _without_steps(side: str, count: int, share: float) -> str:
    """Say that steps of one side that are not compared take much of its time, as part of the verdict.

    >>> _without_steps("test", 2, 0.74)
    'without 2 steps of the run after that have no counterpart (74% of its time)'
    """
    have = "has" if count == 1 else "have"
    of_run = f"{counted(count, 'step')} of the run {BEFORE_AFTER[side]}"
    return f"without {of_run} that {have} no counterpart ({brief_share(share)} of its time)"


def _no_difference(
    measure: str, both: str, change: float, noise: float, since_step: str = "", caveats: Sequence[str] = ()
) -> str:
    """State that the difference is within the noise."""
    but = f", but {enumerated(caveats)}" if caveats else ""
    found = f"{both} ({_percent(change, sign=True)}; noise ±{_percent(noise)})"
    return f"No difference in {LENGTH[measure]} beyond noise{since_step}{but}: {found}."


def _since(first_steps: tuple[int | None, int | None], *, is_new: bool) -> str:
    """Name the steps since the last change of level inside either run; ``is_new``: before it nothing differed.

    >>> _since((None, 5), is_new=True), _since((None, 5), is_new=False)
    (' since step 5, before it no difference', ' since step 5')
    >>> _since((5, None), is_new=False), _since((4, 6), is_new=False)
    (' compared with the before run since step 5', ' since step 6 compared with the before run since step 4')
    """
    before, after = first_steps
    if before is None or before == after:
        return "" if after is None else f" since step {after}{', before it no difference' if is_new else ''}"
    return f"{'' if after is None else f' since step {after}'} compared with the before run since step {before}"


def _difference(
    measure: str, both: str, change: float, noise: float, caveats: Sequence[str], since_step: str = ""
) -> str:
    """State by how much the second run is slower or faster."""
    but = f", but {enumerated(caveats)}" if caveats else ""
    found = f"{both} (noise ±{_percent(noise)})"
    size = _percent(abs(change))
    if measure == "whole trace":
        return f"The whole trace is {size} {'longer' if change > 0 else 'shorter'}{but}: {found}."
    return f"{size} {'slower' if change > 0 else 'faster'}{SLOWER_IN.get(measure, '')}{since_step}{but}: {found}."


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
    return [
        "The runs differ in more than the program: do not report this as the effect of a code change.",
        *([RANKS_WAIT] if list(caveats) == [OTHER_RANK] else []),
    ]


def _lengths_text(found: Comparison[Lengths]) -> str:
    """Print both lengths: of several steps their medians, else with the labels of the windows."""
    control, test = found.control, found.test
    labels = (label_without_form(control.label), label_without_form(test.label))
    both_whole = labels[0] == labels[1] and control.measure == "whole trace"
    kinds = len(found.change.kinds)
    return _lengths(
        found.lengths,
        _compared_counts(found),
        None if both_whole else labels,
        kinds=kinds,
        compared_by=found.compared_by,
    )


def _lengths(
    both_ns: tuple[int, int],
    counts: tuple[int, int],
    labels: tuple[str, str] | None,
    *,
    kinds: int = 1,
    compared_by: str = "medians",
) -> str:
    """Print both lengths: medians of several steps, otherwise with the labels of the windows, if any are given.

    >>> _lengths((62_000_000, 70_000_000), (11, 12), None, kinds=2, compared_by="pairs")
    'median 62.000 ms → 70.000 ms over 11 and 12 steps of 2 kinds, compared in pairs'
    """
    was, now = map(duration_text, both_ns)
    if max(counts) > 1:
        of_kinds = f" of {kinds} kinds" if kinds > 1 else ""
        in_pairs = ", compared in pairs" if compared_by == "pairs" else ""
        figure = BASIS.get(compared_by, "median")
        return f"{figure} {was} → {now} over {counts[0]} and {counts[1]} steps{of_kinds}{in_pairs}"
    if labels is None:
        return f"{was} → {now}"
    before, after = (clipped(label, LONGEST_NAME) for label in labels)
    return f"{before}: {was} → {now}" if before == after else f"{before} {was} → {after} {now}"


def label_without_form(label: str) -> str:
    """Return the label of a window without the form that the measure states.

    >>> label_without_form("step 2 (GPU window)")
    'step 2'
    """
    return FORM_OF_LABEL.sub("", label)


def _compared_counts(found: Comparison[Lengths]) -> tuple[int, int]:
    """Return how many lengths of each side are compared: those of steps that the other side has, too."""
    if found.main.basis in OF_THE_COURSE:
        return found.course.counts
    control, test = found.kinds.by_side
    counts = int(np.count_nonzero(control >= 0)), int(np.count_nonzero(test >= 0))
    return counts if (len(control), len(test)) == counts_of(found) else counts_of(found)


def _caution_lines(found: Comparison[Lengths], repeated_on: int | None) -> list[str]:
    """Explain where the noise comes from, and what windows contain besides work."""
    if found.refused:
        return []
    said = []
    if found.repeats is not None:
        around = (len(found.control.neighbors.ns), len(found.test.neighbors.ns))
        around = around if min(around) >= ENOUGH_AROUND else (0, 0)
        said.append(_noise_source(counts_of(found), found.repeats.units, repeated_on, around, LEAST_OF_WINDOWS))
    if found.control.warms_up:
        said.append("Each step is the first of its trace and may include warm-up.")
    if found.unlike is not None:
        said.append(_unlike_steps(*found.unlike))
    if found.control.measure == "whole trace":
        said.append("The lengths compare speed only if both traces contain the same amount of work.")
    more = more_steps(found)
    said.append(_visible_difference(found.noise_ns, found.noise_share, more, beyond=found.beyond_noise))
    return said


def _noise_source(
    counts: tuple[int, int], units: int, on_rank: int | None, around: tuple[int, int], least: float
) -> str:
    """Explain what the noise of few steps is estimated from: of a named step the steps around it, else repetitions.

    >>> _noise_source((1, 1), 90, None, (5, 6), 0.05)
    'Only one window of each run: the noise is estimated from 5 and 6 steps around it and 90 repetitions of kernels \
and operators.'
    """
    only = "Only one window of each run" if counts == (1, 1) else f"Only {counts[0]} and {counts[1]} steps"
    where = "" if on_rank is None else f" on rank {on_rank}"
    repeated = f"{units:,} repetitions of kernels and operators{where}"
    if all(around):
        steps = f"{around[0]} and {around[1]} steps around it"
        return f"{only}: the noise is estimated from {steps}{f' and {repeated}' if units else ''}."
    if not units:
        return f"{only}, in which nothing repeats: the noise is assumed to be {_percent(least)}."
    return f"{only}: the noise is estimated from {repeated}, at least {_percent(least)}."


def _percent(share: float, *, sign: bool = False) -> str:
    """Print a share with one decimal.

    >>> _percent(0.031), _percent(-0.5, sign=True), _percent(210.442)
    ('3.1%', '-50.0%', '21,044.2%')
    """
    return f"{share:{'+' if sign else ''},.1%}"


def _unlike_steps(before: str, after: str) -> str:
    """Warn that two steps do different work.

    >>> _unlike_steps("without save", "with save")
    'The steps do different work: the before step is one without save, the after step one with save.'
    """
    one, other = map(_shortened, (before, after))
    return f"The steps do different work: the before step is one {one}, the after step one {other}."


def _visible_difference(noise_ns: int, share: float, more: tuple[float, int] | None, *, beyond: bool) -> str:
    """State the smallest difference that could have been found, and how many steps would show a smaller one.

    >>> _visible_difference(3_728_000, 0.059, (0.05, 16), beyond=False)
    'A difference below 3.728 ms (5.9%) would not be visible; to see 5.0%, record 16 steps of each run.'
    """
    size = f"{duration_text(noise_ns)} ({_percent(share)})"
    said = f"Differences above {size} are visible" if beyond else f"A difference below {size} would not be visible"
    advice = "" if more is None or beyond else f"; to see {_percent(more[0])}, {steps_to_record(more[1])}"
    return f"{said}{advice}."


def _level_lines(found: Comparison[Lengths]) -> list[str]:
    """Compare the steps before the last change of level inside a run."""
    if found.refused:
        return []
    return [
        _earlier_level(
            level.side,
            (int(level.steps[0]), int(level.steps[-1])),
            (round(level.control_ns), round(level.test_ns)),
            level.noise_ns / max(level.control_ns, 1),
            beyond=level.beyond_noise,
        )
        for level in found.levels.earlier
    ]


def _earlier_level(side: str, steps: tuple[int, int], both_ns: tuple[int, int], noise: float, *, beyond: bool) -> str:
    """Compare the steps of one run before a change of level with the other run.

    >>> _earlier_level("test", (3, 4), (95_000_000, 81_000_000), 0.23, beyond=False)
    'Steps 3 to 4 after: no difference, 95.000 ms → 81.000 ms (-14.7%; noise ±23.0%).'
    """
    change = both_ns[1] / max(both_ns[0], 1) - 1
    said = f"{_percent(abs(change))} {'slower' if change > 0 else 'faster'}" if beyond else "no difference"
    was, now = map(duration_text, both_ns)
    named = f"steps {steps[0]} to {steps[1]} {BEFORE_AFTER[side]}"
    which = named.capitalize() if side == "test" else f"Compared with {named}"
    return f"{which}: {said}, {was} → {now} ({_percent(change, sign=True)}; noise ±{_percent(noise)})."


def more_steps(found: Comparison[Lengths]) -> tuple[float, int] | None:
    """Return a difference (a share) that is not visible, and the number of steps of each run that would show it."""
    wanted = next((share for share in WORTH_SEEING if share < found.noise_share), None)
    steps = None if wanted is None or found.refused else steps_to_see(found, found.noise_share, wanted)
    return None if wanted is None or steps is None else (wanted, steps)


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
        said.append(_changes_of_kinds(judged))
    if rare:
        said.append(_kinds_seen_once(rare))
    for side, alone in zip(found.sides, found.kinds.alone, strict=True):
        if alone:
            said.append(_kinds_of_one_side(side, alone))
    differences = pair_differences(found)
    if found.beyond_noise and len(differences) > 1:
        said.append(_changes_of_pairs(differences, round(float(np.median(differences)))))
    said += course_lines(found.course, found.main)
    if found.main.basis == "means":
        said.append(_only_some_steps((round(found.change.control_ns), round(found.change.test_ns))))
    return said


def _changes_of_kinds(kinds: Sequence[tuple[str, tuple[int, int], tuple[int, int]]]) -> str:
    """List the medians of each kind of steps.

    >>> _changes_of_kinds([("with save", (3, 4), (80_000_000, 88_000_000))])
    'Kinds of steps: 3 and 4 with save, 80.000 ms → 88.000 ms (+8.000 ms).'
    """
    return f"Kinds of steps: {'; '.join(_change_of_kind(*kind) for kind in kinds)}."


def _kinds_seen_once(kinds: Sequence[tuple[str, tuple[int, int], tuple[int, int]]]) -> str:
    """List the kinds that are left out of the comparison, since nothing shows how much they vary."""
    listed = "; ".join(_change_of_kind(*kind) for kind in kinds)
    return f"Too rare to show their noise, left out of the comparison: {listed}."


def _change_of_kind(name: str, counts: tuple[int, int], both_ns: tuple[int, int]) -> str:
    was, now = map(duration_text, both_ns)
    change = f"{signed_milliseconds(both_ns[1] - both_ns[0])} ms"
    return f"{counts[0]} and {counts[1]} {_shortened(name)}, {was} → {now} ({change})"


def _kinds_of_one_side(side: str, kinds: Mapping[str, int]) -> str:
    """List the steps of kinds that the other side does not have.

    >>> _kinds_of_one_side("test", {"with save": 1})
    'After: 1 step with save has no counterpart and is left out of the comparison.'
    """
    count = sum(kinds.values())
    listed = " and ".join(f"{number} step{'s' * (number > 1)} {_shortened(name)}" for name, number in kinds.items())
    have = "has no counterpart and is" if count == 1 else "have no counterpart and are"
    return f"{side_name(side)}: {listed} {have} left out of the comparison."


def _shortened(kind: str) -> str:
    """Shorten the name in the description of a kind."""
    words = kind.split(" ")
    count = 2 if words[1:2] in (["more"], ["fewer"]) else 1
    return " ".join([*words[:count], short_name(" ".join(words[count:]))]) if kind else "others"


def _changes_of_pairs(differences_ns: Sequence[int], median_ns: int) -> str:
    """List the differences of the same steps, or count how many are longer.

    >>> _changes_of_pairs([-960_000, -503_000], -731_000)
    'Step by step: -0.960 and -0.503 ms.'
    >>> _changes_of_pairs([8_000_000] * 11, 8_000_000)
    'Step by step: 11 of 11 steps are longer, by +8.000 ms at the median.'
    """
    if len(differences_ns) <= PAIRS_LISTED:
        return f"Step by step: {enumerated([signed_milliseconds(ns) for ns in differences_ns])} ms."
    longer = sum(ns > 0 for ns in differences_ns)
    is_longer = 2 * longer >= len(differences_ns)
    count, word = (longer, "longer") if is_longer else (len(differences_ns) - longer, "shorter")
    by = f"by {signed_milliseconds(median_ns)} ms at the median"
    return f"Step by step: {count} of {len(differences_ns)} steps are {word}, {by}."


def _only_some_steps(pairs_ns: tuple[int, int]) -> str:
    """Explain a difference of means that the usual step does not show."""
    was, now = map(duration_text, pairs_ns)
    return f"Only some steps are longer or shorter: the median is {was} → {now}."


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
    said = [_class_changes(pairs)] if pairs else []
    return [*said, *_largest_change_lines(by_name, together, found.shared_names)]


def _class_changes(changes: Sequence[tuple[str, int]]) -> str:
    """List the classes of the critical path that changed most."""
    listed = "; ".join(f"{label} {signed_milliseconds(ns)} ms" for label, ns in changes)
    return f"On the critical path: {listed}."


def _largest_change_lines(by_name: pd.DataFrame, together: pd.DataFrame, shared: Mapping[str, str]) -> list[str]:
    """Name the largest change: that of several names that differ by numbers, if none of them is half of it."""
    one, several = _first_row(by_name), _first_row(together)
    if several and several[0][0] in shared.values() and not (one and abs(one[0][1]) >= HALF * abs(several[0][1])):
        count = sum(shared.get(name) == several[0][0] for name in set(by_name["name"]))
        return [_largest_change_of_several(several[0][0], count, several[0][1])]
    return [f"Largest change on the critical path: {_change_of_name(name, ns)}." for name, ns in one]


def _largest_change_of_several(name: str, count: int, ns: int) -> str:
    """Name the events that differ by numbers alone and whose time on the critical path changed most.

    >>> _largest_change_of_several("PP:#F#", 8, 242_450_000)
    'Largest change on the critical path: 8 annotations PP:#F#, +242.450 ms together.'
    """
    return f"Largest change on the critical path: {count:,} annotations {_change_of_name(name, ns)} together."


def _change_of_name(name: str, ns: int) -> str:
    return f"{clipped(name, LONGEST_NAME)}, {signed_milliseconds(ns)} ms"


def _hidden_change_lines(
    by_class: pd.DataFrame, by_name: pd.DataFrame, least_ns: float, labels: Mapping[str, str]
) -> list[str]:
    """Count what changed, and name the largest, if a part changed by as much as the whole would have to."""
    size = by_name["diff_ns"].abs()
    large = by_name[(size > least_ns) & (size > CERTAIN_PART_SHARE * by_name["noise_ns"])]
    largest = list(zip(by_class["bound_by"].map(labels), by_class["diff_ns"].tolist(), strict=True))[:1]
    counts = len(by_class), len(by_name)
    return [_hidden_changes(counts, largest, _first_row(by_name)[0])] if len(large) else []


def _hidden_changes(counts: tuple[int, int], of_class: Sequence[tuple[str, int]], of_name: tuple[str, int]) -> str:
    """Count the classes and names that changed although the whole did not, and name the largest of each.

    >>> _hidden_changes((1, 3), [("CPU work", 7_000_000)], ("aten::mm", 5_000_000))
    'On the critical path, 1 class and 3 names changed beyond noise; largest: CPU work +7.000 ms; aten::mm, +5.000 ms.'
    """
    kinds = zip(counts, (("class", "classes"), ("name", "names")), strict=True)
    counted = [f"{count:,} {words[count != 1]}" for count, words in kinds if count]
    largest = [f"{label} {signed_milliseconds(ns)} ms" for label, ns in of_class] + [_change_of_name(*of_name)]
    return f"On the critical path, {enumerated(counted)} changed beyond noise; largest: {'; '.join(largest)}."


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
    return [] if found.refused or is_same_recording(found) else [NOISE]
