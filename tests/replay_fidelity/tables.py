"""The tables of fidelity as text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from tests.replay_fidelity.ab_pairs import Compared
from tests.replay_fidelity.held_out import HeldOut
from tests.replay_fidelity.injected_delays import Injected

Groups = dict[str, list[HeldOut]]

LARGE = 0.05
"""A prediction that is further off is a miss that wants an explanation."""


def spread(errors: Iterable[float]) -> tuple[float, float, float]:
    """Return the median, the 90th percentile and the largest of errors, whatever their sign."""
    size = np.abs(np.array(list(errors)))
    return float(np.median(size)), float(np.percentile(size, 90)), float(size.max())


def by_kind(found: Sequence[HeldOut]) -> Groups:
    """Group predictions: GPUs and CPUs, iterations and latencies, steps of one structure or of another."""
    groups: Groups = defaultdict(list)
    for one in found:
        groups[f"{one.where}, {one.length}, {'like' if one.is_like else 'other'} structure"].append(one)
    return dict(sorted(groups.items()))


def by_trace(found: Sequence[HeldOut]) -> Groups:
    """Group predictions of iterations from steps of like structure by trace."""
    groups: Groups = defaultdict(list)
    for one in found:
        if one.is_like and one.length == "iteration":
            groups[one.trace].append(one)
    return groups


def held_out_table(groups: Groups) -> Iterator[str]:
    """Print the errors of groups of held-out steps, as median / p90 / max."""
    yield "| steps | n | own durations | and lags | as the step before | frozen | edges with partner |"
    yield "|---|---|---|---|---|---|---|"
    errors: tuple[Callable[[HeldOut], float], ...] = (
        lambda one: one.error, lambda one: one.all_error, lambda one: one.trivial_error,
    )  # fmt: skip
    for name, found in groups.items():
        cells = [" / ".join(f"{value:.2%}" for value in spread(map(error, found))) for error in errors]
        frozen, partners = (
            float(np.median([getattr(one, key) for one in found])) for key in ("frozen_share", "partners")
        )
        yield f"| {name} | {len(found)} | {' | '.join(cells)} | {frozen:.1%} | {partners:.0%} |"


def misses(found: Iterable[HeldOut]) -> Iterator[str]:
    """Print the predictions of iterations that are far off."""
    yield "| trace | from → step | measured ms | own durations | and lags | as before | structure | partners |"
    yield "|---|---|---|---|---|---|---|---|"
    for one in found:
        if one.length == "iteration" and max(abs(one.error), abs(one.all_error)) > LARGE:
            structure = "like" if one.is_like else "other"
            yield (
                f"| {one.trace} | {one.structure} → {one.step} | {one.measured_ns / 1e6:.1f} | {one.error:+.1%} "
                f"| {one.all_error:+.1%} | {one.trivial_error:+.1%} | {structure} | {one.partners:.0%} |"
            )


def pairs_table(found: Iterable[Compared]) -> Iterator[str]:
    """Print the pairs."""
    yield "| A → B | step | A ms | predicted | B ms | error | error of “no change” | frozen |"
    yield "|---|---|---|---|---|---|---|---|"
    for one in found:
        times = " | ".join(f"{time / 1e6:.2f}" for time in (one.before_ns, one.predicted_ns, one.after_ns))
        yield (
            f"| {one.before} → {one.after} | {one.step}, {one.length} | {times} | {one.error:+.2%} "
            f"| {one.trivial_error:+.2%} | {one.frozen_share:.1%} |"
        )


def injected_table(found: Iterable[Injected]) -> Iterator[str]:
    """Print the injected delays: lengths in ms."""
    yield (
        "| job | rank, phase | step | injected | of it inside | measured | without it | like others | like median "
        "| other steps | steps of base runs | within |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|"
    for one in found:
        times = (
            one.injected_ns, one.inside_ns, one.measured_ns, one.removed_ns, one.like_others_ns, one.like_median_ns,
        )  # fmt: skip
        cells = " | ".join(f"{time / 1e6:.0f}" for time in times)
        yield (
            f"| {one.job} | {one.rank}, {one.phase} | {one.step} | {cells} | {_listed(one.unfaulted_ns)} "
            f"| {_listed(one.base_ns)} | {'yes' if one.is_within else 'no'} |"
        )


def _listed(times: Sequence[int]) -> str:
    if len(times) > 4:
        return f"{min(times) / 1e6:.0f}–{max(times) / 1e6:.0f}"
    return ", ".join(f"{time / 1e6:.0f}" for time in sorted(times)) or "–"


def _noise(found: Sequence[Injected]) -> list[float]:
    """Return how far steps without a delay, of each run and of the base runs of each kind, are from their median."""
    runs = {one.unfaulted_ns for one in found} | {one.base_ns for one in found if one.base_ns}
    return [length / float(np.median(run)) - 1 for run in sorted(runs) for length in run]


def injected_summary(found: Sequence[Injected]) -> Iterator[str]:
    """Print how far predictions without the delay are from steps without one, beside how far those lie apart."""
    rows = {
        "as measured, with the delay": [one.measured_ns / one.reference_ns - 1 for one in found],
        "without the injected interval": [one.removed_ns / one.reference_ns - 1 for one in found],
        "rank like the others": [one.like_others_ns / one.reference_ns - 1 for one in found],
        "everything like its median": [one.like_median_ns / one.reference_ns - 1 for one in found],
        "noise: steps without a delay": _noise(found),
    }
    yield "| against the median step without a delay | n | median | p90 | max | signed median |"
    yield "|---|---|---|---|---|---|"
    for name, errors in rows.items():
        cells = " | ".join(f"{value:.1%}" for value in spread(errors))
        yield f"| {name} | {len(errors)} | {cells} | {float(np.median(errors)):+.1%} |"
