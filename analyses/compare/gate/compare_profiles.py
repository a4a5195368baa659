"""Compare profiles of a baseline with those of a new run: several recordings of a side are one, with their noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from analyses.compare.diff.environment import Fact, facts_that_differ, inputs_of_sides
from analyses.compare.diff.job_side import JobRows, JobSide
from analyses.compare.diff.length_comparison import (
    Codes,
    Comparison,
    RepetitionNoise,
    compare_lengths,
    last_levels,
    matched_units,
    noise_of_units,
    share_on_gpu,
)
from analyses.compare.diff.noise import NORMAL, FewSteps, Repetitions
from analyses.compare.diff.regression import obstacles, refuse, too_few_pairs
from analyses.compare.diff.step_change import StepLengths, dependence, paired_steps
from analyses.compare.diff.step_kinds import StepKinds, kinds_of_contents
from analyses.compare.gate.run_profile import METRIC_LABELS, RunProfile, UnitsInOrder
from analyses.display.sentence_format import enumerated
from analyses.display.text_layout import duration_text
from hta_graph.base.errors import CannotCompareError
from hta_graph.model import Floats, Ints

FIRST_DIFFERS = 0.2
"""First steps that differ less are not worth a sentence: nothing shows how much they vary."""
FEWEST_THAT_CREEP = 4
"""Four recordings that each take longer than the one before are hardly chance: 1 of 24 orders."""
UNDER_THE_PROGRAM = ("CUDA", "CUDA driver", "HIP", "HIP driver", "NCCL")
MEDIAN_OF_NORMAL = 1.2533
"""By how much the median of normal noise varies more than its mean."""


@dataclass(frozen=True)
class ProfileComparison:
    """Two runs, each pooled from its recordings, and their lengths compared."""

    control: RunProfile
    test: RunProfile
    lengths: Comparison[JobSide]
    environment: tuple[Fact, ...]
    recordings: tuple[int, int]
    offset: int = 0
    """What was added to each value where some are zero, so that shares are of the step."""
    trust: tuple[str, ...] = ()
    """Sentences on how far the recordings of the baseline can be trusted."""


def compare_profiles(
    control: Sequence[RunProfile], test: Sequence[RunProfile], metric: str = "iteration", allowed: Sequence[str] = ()
) -> ProfileComparison:
    """Compare a new run with a baseline.

    Args:
        control: the recordings of the baseline.
        test: those of the new run.
        metric: what is compared, ``iteration``, ``critical-path``, one of ``METRICS`` or ``memory``.
        allowed: the obstacles that are accepted.

    Raises:
        CannotCompareError: the environments differ, or a metric was not recorded.
    """
    sides = (control, test)
    for own in (*control[1:], *test):
        refuse(list(obstacles(control[0].setting, own.setting, allowed)))
    measured = [[_by_metric(own, metric) for own in side] for side in sides]
    lowest = min(int(own.side.lengths_ns.min()) for side in measured for own in side)
    offset = 0 if lowest > 0 else max(control[0].side.median_ns, 1)
    measured = [[_shifted(own, offset) for own in side] for side in measured]
    spreads = [_Pooled.of(side) for side in measured]
    found = _compared(spreads[0].profile, spreads[1].profile)
    run_noise = _noise_between_runs(spreads)
    found = replace(found, change=found.change.with_run_noise(run_noise), run_noise=run_noise)
    if metric == "memory":  # which no step hangs in
        found = replace(found, course=replace(found.course, tail=None))
    one, other = (spread.profile for spread in spreads)
    around = facts_that_differ(one.facts, other.facts, inputs_of_sides(one.inputs, other.inputs))
    trust = (
        *_first_steps([[run.first_ns for run in side if run.first_ns] for side in sides]),
        *_trust_in_facts(one.facts, other.facts),
        *_trust_in_recordings(measured[0], other),
    )
    return ProfileComparison(one, other, found, tuple(around), (len(control), len(test)), offset, trust)


def _first_steps(lengths_ns: Sequence[Sequence[int]]) -> Iterator[str]:
    """Compare the first steps, which warm up, where they differ visibly."""
    if all(lengths_ns):
        was, now = (float(np.median(own)) for own in lengths_ns)
        if abs(now / was - 1) > FIRST_DIFFERS:
            yield first_steps(duration_text(round(was)), duration_text(round(now)), now / was - 1)


def first_steps(was: str, now: str, share: float) -> str:
    """Say by how much the first step changed, which fails nothing.

    >>> first_steps("9.000 ms", "12.000 ms", 1 / 3)
    'The first step, a warm-up that is not judged: 9.000 ms → 12.000 ms (+33.3%).'
    """
    return f"The first step, a warm-up that is not judged: {was} → {now} ({share:+,.1%})."


def _trust_in_facts(control: Mapping[str, str | None], test: Mapping[str, str | None]) -> Iterator[str]:
    """Say which versions of what a program runs on differ, and where PyTorch's is unknown on one side."""
    moved = [what for what in UNDER_THE_PROGRAM if control.get(what) and test.get(what) and control[what] != test[what]]
    if moved:
        yield f"Part of the difference may come from another {enumerated(moved)}; record the baseline again with it."
    if bool(control.get("PyTorch")) != bool(test.get("PyTorch")):
        yield unknown_version("the new run" if control.get("PyTorch") else "the baseline")


def unknown_version(side: str) -> str:
    """Say that a side does not record PyTorch's version, and how to record it.

    >>> unknown_version("the baseline")
    "PyTorch's version is not recorded in the baseline: call prof.add_metadata while the profiler records."
    """
    return f"PyTorch's version is not recorded in {side}: call prof.add_metadata while the profiler records."


def _trust_in_recordings(recordings: Sequence[RunProfile], test: RunProfile) -> Iterator[str]:
    """Say by how much the recordings of a baseline differ, and how the new run compares with the first and the last."""
    if len(recordings) < 2:
        return
    usual = [float(np.median(own.side.lengths_ns)) for own in recordings]
    now, middle = float(np.median(test.side.lengths_ns)), float(np.median(usual))
    yield spread_of_recordings(
        float(np.std(usual, ddof=1)) / max(middle, 1), now / max(usual[0], 1) - 1, now / max(usual[-1], 1) - 1
    )


def spread_of_recordings(spread: float, oldest: float, newest: float) -> str:
    """State how far recordings differ, and how a new run compares with the first and the last one: losses may add up.

    >>> spread_of_recordings(0.008, 0.05, 0.01)
    "The baseline's recordings differ by 0.8%; the new run is +5.0% from the oldest and +1.0% from the newest."
    """
    both = f"{oldest:+.1%} from the oldest and {newest:+.1%} from the newest"
    return f"The baseline's recordings differ by {spread:.1%}; the new run is {both}."


def _shifted(profile: RunProfile, by: int) -> RunProfile:
    side = profile.side
    return replace(profile, side=replace(side, lengths_ns=side.lengths_ns + by))


def _by_metric(profile: RunProfile, metric: str) -> RunProfile:
    """Return a profile whose lengths are those of a metric.

    Raises:
        CannotCompareError: it was not recorded.
    """
    side = profile.side
    if metric == "iteration":
        return profile
    if metric == "critical-path":
        return replace(
            profile, side=replace(side, lengths_ns=np.array(profile.latencies_ns, np.int64), measure="latency")
        )
    if metric not in profile.metrics:
        raise CannotCompareError("metric", *_not_recorded(metric))
    place = {number: at for at, number in enumerate(side.numbers.tolist())}
    contents = profile.contents.take([place[number] for number in side.path_numbers])
    lengths, numbers = (np.array(of, np.int64) for of in (profile.metrics[metric], side.path_numbers))
    values = replace(side, lengths_ns=lengths, numbers=numbers)
    return replace(profile, side=values, contents=contents)


def _not_recorded(metric: str) -> tuple[str, str]:
    """Refuse a metric that a recording does not show, with the remedy.

    >>> _not_recorded("memory")
    ('peak memory is not recorded in every step', 'record with profile_memory=True')
    """
    remedy = "record with profile_memory=True" if metric == "memory" else "record with ProfilerActivity.CUDA"
    return f"{METRIC_LABELS[metric]} is not recorded in every step", remedy


@dataclass(frozen=True)
class _Pooled:
    """The recordings of a side as one, and by how much the length of each differs from it, as a share.

    ``within`` is the variance of that which the steps of a recording explain.
    """

    profile: RunProfile
    away: Floats
    within: float

    @classmethod
    def of(cls, recordings: Sequence[RunProfile]) -> _Pooled:
        """Take the median of each step over the recordings."""
        first = recordings[0]
        if len(recordings) == 1:
            return cls(first, np.zeros(0), 0.0)
        if not first.side.has_steps:
            return cls._of_whole_runs(recordings)
        places, lengths = _common_steps(recordings)
        pooled = np.median(lengths, axis=0)
        ratios = lengths / np.maximum(pooled, 1)
        usual = np.median(ratios, axis=1)
        rest = ratios - usual[:, None]
        freedom = max(rest.size - len(usual), 1)
        within = float((rest**2).sum()) / freedom * (MEDIAN_OF_NORMAL * dependence(list(rest))) ** 2 / lengths.shape[1]
        return cls(_joined(recordings, places, pooled), _without_creep(usual - usual.mean()), within)

    @classmethod
    def _of_whole_runs(cls, recordings: Sequence[RunProfile]) -> _Pooled:
        """Take recordings without steps as the steps of a run."""
        first, count = recordings[0], len(recordings)
        lengths = [own.side.lengths_ns[0] for own in recordings]
        rows = _stacked([(own.side.rows, {0: at}) for at, own in enumerate(recordings)], count)
        side = replace(
            first.side,
            lengths_ns=np.array(lengths),
            numbers=np.arange(count),
            path_numbers=tuple(range(count)),
            rows=rows,
        )
        contents = replace(first.contents, phases=(None,) * count, contents=())
        return cls(replace(first, side=side, contents=contents), np.zeros(0), 0.0)


def _without_creep(away: Floats) -> Floats:
    """Return how recordings differ without what grows steadily from one to the next: that is no noise."""
    if len(away) < FEWEST_THAT_CREEP or (np.diff(away) <= 0).any():
        return away
    place = np.arange(len(away)) - (len(away) - 1) / 2
    found: Floats = away - place * float((place * away).sum() / (place**2).sum())
    return found


def _common_steps(recordings: Sequence[RunProfile]) -> tuple[list[Ints], Floats]:
    """Return the places of the same steps in each recording, and their lengths: a row for each recording."""
    first = _steps(recordings[0], np.zeros(len(recordings[0].side.numbers), np.int64))
    places = [np.arange(len(first.ns))]
    for own in recordings[1:]:
        kinds = kinds_of_contents(recordings[0].contents, own.contents)
        left, right = paired_steps(replace(first, kind=kinds.control), _steps(own, kinds.test))
        partner = np.full(len(first.ns), -1)
        partner[left] = right
        places.append(partner)
    kept = np.flatnonzero(np.all([own >= 0 for own in places], axis=0))
    if not len(kept):
        raise CannotCompareError("steps", *too_few_pairs(0))
    found = [own[kept] for own in places]
    lengths = [own.side.lengths_ns[at].astype(float) for own, at in zip(recordings, found, strict=True)]
    return found, np.array(lengths)


def _steps(profile: RunProfile, kind: Ints) -> StepLengths:
    return StepLengths(profile.side.lengths_ns.astype(float), profile.side.numbers, kind)


def _joined(recordings: Sequence[RunProfile], places: Sequence[Ints], pooled: Floats) -> RunProfile:
    """Return the recordings as one: steps of the first one, and the rows of all of them."""
    first = recordings[0]
    numbers = first.side.numbers[places[0]]
    order: list[tuple[int, int, int]] = []
    for at, (own, place) in enumerate(zip(recordings, places, strict=True)):
        named = dict(zip(own.side.numbers[place].tolist(), numbers.tolist(), strict=True))
        order += [(named[of], at, window) for window, of in enumerate(own.side.path_numbers) if of in named]
    order.sort()
    window_of = [{of: new for new, (_, at, of) in enumerate(order) if at == which} for which in range(len(recordings))]
    side = replace(
        first.side,
        lengths_ns=pooled.round().astype(np.int64),
        numbers=numbers,
        path_numbers=tuple(number for number, _, _ in order),
        rows=_stacked([(own.side.rows, new) for own, new in zip(recordings, window_of, strict=True)], len(order)),
        missing=tuple(sorted({rank for own in recordings for rank in own.side.missing})),
    )
    return replace(first, side=side, contents=first.contents.take(places[0].tolist()))


def _stacked(parts: Sequence[tuple[JobRows, dict[int, int]]], count: int) -> JobRows:
    """Return the rows of recordings under new numbers of windows."""
    frames = []
    for name in ("classes", "names", "ranks", "causes", "groups"):
        own = []
        for rows, number in parts:
            frame: pd.DataFrame = getattr(rows, name)
            kept = frame[frame["window"].isin(list(number))]
            own.append(kept.assign(window=kept["window"].map(number).astype(np.int64)))
        frames.append(pd.concat(own, ignore_index=True))
    return JobRows(count, *frames)


def pooled(recordings: Sequence[RunProfile]) -> RunProfile:
    """Return the recordings of a run as one.

    Raises:
        CannotCompareError: they have no steps in common.
    """
    return _Pooled.of(recordings).profile


def noise_between_runs(recordings: Sequence[RunProfile]) -> float:
    """Return how far two runs with as many recordings are apart by chance at most; 0 of a single recording."""
    return _noise_between_runs([_Pooled.of(recordings)] * 2)


def _noise_between_runs(sides: Sequence[_Pooled]) -> float:
    """Return how far the runs of both sides are apart by chance at most, as their repetitions show; 0 without any."""
    counts = [max(len(side.away), 1) for side in sides]
    repeated = [(side, count) for side, count in zip(sides, counts, strict=True) if count > 1]
    if not repeated:
        return 0.0
    within = float(np.mean([side.within for side, _ in repeated]))
    squares = sum(float((side.away**2).sum()) for side, _ in repeated)
    few = FewSteps(squares, sum(count - 1 for _, count in repeated), float(np.sqrt(2 * within)), (counts[0], counts[1]))
    return few.band(on_gpu=True)


def noise_of_recordings(recordings: Sequence[RunProfile]) -> tuple[float, float | None]:
    """Return the spread of steps of one kind, and that of whole recordings, as shares; None of a single recording."""
    away = []
    for own in recordings:
        kind = kinds_of_contents(own.contents, own.contents).control
        for one in np.unique(kind).tolist():
            lengths = own.side.lengths_ns[kind == one]
            away.append(lengths / max(float(np.median(lengths)), 1.0) - 1)
    steps = float(np.median(np.abs(np.concatenate(away)))) / NORMAL
    pooled = _Pooled.of(recordings)
    runs = float(np.sqrt((pooled.away**2).sum() / (len(pooled.away) - 1))) if len(pooled.away) > 1 else None
    return round(steps, 6), None if runs is None else round(runs, 6)


def _compared(control: RunProfile, test: RunProfile) -> Comparison[JobSide]:
    """Compare the lengths of two runs as diff does."""
    kinds = kinds_of_contents(control.contents, test.contents)
    one, other, kinds, course = last_levels(control.side, test.side, kinds)
    found = compare_lengths(one, other, lambda: _repetition_noise(control, test), kinds, StepKinds.one((0, 0)))
    return replace(found, course=course)


def _repetition_noise(control: RunProfile, test: RunProfile) -> RepetitionNoise:
    """Return the noise that repeated kernels and operators of the usual steps show."""
    is_job = len(control.side.files) > 1
    kernels = _matched(control.kernels, test.kernels, communication=not is_job)
    host = _matched(control.host, test.host, communication=True)
    sums = [side.rows.classes.groupby("bound_by")["ns"].sum() for side in (control.side, test.side)]
    classes = [dict(zip(map(str, own.index), own.tolist(), strict=True)) for own in sums]
    window_ns = min(control.side.median_ns, test.side.median_ns)
    return noise_of_units(kernels, host, window_ns, share_on_gpu(classes))


def _matched(control: UnitsInOrder, test: UnitsInOrder, *, communication: bool) -> tuple[Repetitions, Codes]:
    codes = numbered_alike(control, test)
    tells = np.full(len(control.code), communication) | ~control.is_communication[control.code]
    return matched_units(codes, (control.ns, test.ns), tells)


def numbered_alike(control: UnitsInOrder, test: UnitsInOrder) -> tuple[Ints, Ints]:
    """Number the units of two runs alike."""
    number = {name: at for at, name in enumerate(dict.fromkeys([*control.units, *test.units]))}
    left, right = (
        np.array([number[name] for name in side.units], np.int64)[side.code] if len(side.code) else side.code
        for side in (control, test)
    )
    return left, right
