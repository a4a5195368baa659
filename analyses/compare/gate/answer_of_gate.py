"""The answer of gate: its JSON document, and what causes a difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analyses.advice import job_verdict
from analyses.compare.diff.differences import OF_THE_COURSE, Difference, course_lines
from analyses.compare.diff.environment import LOST_WORK
from analyses.compare.diff.job_diff import job_classes, job_names
from analyses.compare.diff.lost_time import lost_time
from analyses.compare.diff.regression import Ruling, notes_on
from analyses.compare.gate.causes import DOMINANT_SHARE, causes, machine_note
from analyses.compare.gate.compare_profiles import ProfileComparison, numbered_alike
from analyses.compare.gate.run_profile import IN_CALL_PATH, NO_VERDICT
from analyses.display.sentence_format import brief_share, counted
from hta_graph.attribution.sequence_alignment import align
from hta_graph.base.errors import CannotCompareError

SCHEMA = "hta-graph/gate/1"
BYTES = "bytes"


@dataclass(frozen=True)
class GivenFiles:
    """What was given for a side, as named."""

    baseline: tuple[str, ...]
    new: tuple[str, ...]


def document_of_ruling(found: ProfileComparison, ruled: Ruling, metric: str, given: GivenFiles) -> dict[str, Any]:
    """Return the document of a comparison that was possible."""
    main = ruled.main
    why = {"code": "noise", "text": ruled.doubt} if ruled.doubt and not ruled.exceeding else None
    return {
        **_heading(ruled.verdict, why, metric, ruled.limit, found.lengths.control.measure),
        "baseline": _side(found, main, 0, given.baseline),
        "new": _side(found, main, 1, given.new),
        **_verdict_of_new(found),
        **_numbers(main, found.offset),
        "detectable_share": ruled.detectable_share,
        "judgement": _judgement(found) if metric in TIMES_OF_PATH else [],
        "exceeding": [_numbers(one, found.offset) for one in ruled.exceeding],
        "hangs": _hangs(found),
        "phases": _phases(found),
        "causes": causes(found, main) if metric in TIMES_OF_PATH else [],
        "classes": _classes(found) if metric in TIMES_OF_PATH else [],
        "work": work_changes(found),
        "environment": [dict(zip(("what", "baseline", "new"), fact, strict=True)) for fact in found.environment],
        "notes": _notes(found, ruled, is_time=metric in TIMES_OF_PATH),
    }


def _verdict_of_new(found: ProfileComparison) -> dict[str, Any]:
    """Return which rank delays the new run; null of one rank, and of a file, which holds who causes most waiting."""
    verdict = found.test.side.verdict
    if verdict is NO_VERDICT:
        caused = found.test.side.rows.ranks.groupby("rank")["caused_ns"].sum()
        if not caused.sum() or (share := caused.max() / caused.sum()) < DOMINANT_SHARE:
            return {"job_verdict": None, "late_rank": None}
        most = f"In the new run, rank {caused.idxmax()} causes {brief_share(share)} of the waiting with a known cause"
        return {"job_verdict": None, "late_rank": f"{most}; whether that delays a step is not in a baseline file."}
    said = job_verdict.sentence(verdict, found.test.side.label, {})
    return {"job_verdict": job_verdict.record(verdict), "late_rank": f"In the new run, {said}." if said else None}


def _judgement(found: ProfileComparison) -> list[dict[str, Any]]:
    return lost_time(job_names(found.lengths), found.lengths.control.median_ns - found.offset)


TIMES_OF_PATH = ("iteration", "critical-path", "gpu-idle", "exposed-communication", "gpu-busy")
"""Metrics that a change of the critical path can explain."""


def document_of_refusal(why: str, text: str, metric: str, limit: float, given: GivenFiles) -> dict[str, Any]:
    """Return the document of a comparison that was not possible."""
    nothing = dict.fromkeys(_numbers(Difference(0, 0, 0, "medians")))
    sides = [
        {"inputs": list(own), "recordings": None, "steps": None, "ranks": None} for own in (given.baseline, given.new)
    ]
    return {
        **_heading("cannot_compare", {"code": why, "text": text}, metric, limit),
        "baseline": sides[0],
        "new": sides[1],
        **nothing,
        "job_verdict": None,
        "late_rank": None,
        "detectable_share": None,
        "hangs": None,
        **{
            name: []
            for name in ("judgement", "exceeding", "phases", "causes", "classes", "work", "environment", "notes")
        },
    }


def _heading(
    verdict: str, reason: Mapping[str, str] | None, metric: str, limit: float, measure: str | None = None
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "verdict": verdict,
        "reason": reason,
        "metric": metric,
        "measure": measure,
        "unit": BYTES if metric == "memory" else "ns",
        "limit_share": limit,
    }


def _side(found: ProfileComparison, main: Difference, at: int, given: Sequence[str]) -> dict[str, Any]:
    side = (found.lengths.control, found.lengths.test)[at]
    return {
        "inputs": list(given),
        "recordings": found.recordings[at],
        "steps": found.lengths.course.counts[at] if main.basis in OF_THE_COURSE else len(side.lengths_ns),
        "ranks": sorted(side.files),
    }


def _numbers(one: Difference, offset: int = 0) -> dict[str, Any]:
    noise = one.noise if np.isfinite(one.noise) else None
    return {
        "compared_by": one.basis,
        "phase": one.kind or None,
        "first_step": one.steps[0] if one.steps else None,
        "last_step": one.steps[1] if one.steps else None,
        "baseline_value": round(one.control) - offset,
        "new_value": round(one.control + one.difference) - offset,
        "difference": round(one.difference),
        "difference_share": one.share,
        "noise": None if noise is None else round(noise),
        "noise_share": None if noise is None else one.noise_share,
        "lower_bound": None if noise is None else round(one.difference - noise),
    }


def _phases(found: ProfileComparison) -> list[dict[str, Any]]:
    """List the phases, or kinds of steps, where there are several."""
    change = found.lengths.change
    if len(change.kinds) < 2:
        return []
    return [
        {
            "baseline_steps": kind.counts[0],
            "new_steps": kind.counts[1],
            **_numbers(found.lengths.of_kind(kind), found.offset),
        }
        for kind in change.kinds
    ]


def _classes(found: ProfileComparison) -> list[dict[str, Any]]:
    """List the classes of the path that changed."""
    rows = job_classes(found.lengths)
    rows = rows[rows["diff_ns"] != 0]
    return [
        {
            "bound_by": row["bound_by"],
            "baseline_ns": int(row["control_ns"]),
            "new_ns": int(row["test_ns"]),
            "diff_ns": int(row["diff_ns"]),
            "noise_ns": int(row["noise_ns"]),
        }
        for row in rows.to_dict("records")
    ]


def work_changes(found: ProfileComparison) -> list[dict[str, Any]]:
    """List the kernels and collectives of the usual step that are new, gone or moved, by name, most first."""
    left, right = found.control.kernels, found.test.kernels
    codes = numbered_alike(left, right)
    names = list(dict.fromkeys([*left.units, *right.units]))
    tells = dict(
        zip(
            (*left.units, *right.units),
            (*left.is_communication.tolist(), *right.is_communication.tolist()),
            strict=True,
        )
    )
    matched = align(*codes)
    alone = [Counter(np.delete(code, places).tolist()) for code, places in zip(codes, matched, strict=True)]
    changed: Counter[tuple[str, str, bool]] = Counter()
    by_name = [_by_kernel(own, names, tells) for own in alone]
    for kernel, is_communication in by_name[0].keys() | by_name[1].keys():
        gone, new = (own[kernel, is_communication] for own in by_name)
        changed["moved", kernel, is_communication] = min(gone, new)
        changed["new", kernel, is_communication] = max(new - gone, 0)
        changed["gone", kernel, is_communication] = max(gone - new, 0)
    return [
        {"change": change, "kind": "collective" if is_communication else "kernel", "name": name, "times": times}
        for (change, name, is_communication), times in sorted(changed.items(), key=lambda one: (-one[1], one[0]))
        if times
    ]


def _by_kernel(alone: Counter[int], names: Sequence[str], tells: Mapping[str, bool]) -> Counter[tuple[str, bool]]:
    found: Counter[tuple[str, bool]] = Counter()
    for code, count in alone.items():
        found[names[code].partition(IN_CALL_PATH)[0], tells[names[code]]] += count
    return found


def _notes(found: ProfileComparison, ruled: Ruling, *, is_time: bool) -> list[str]:
    return [*(_notes_on_steps(found, ruled) if is_time else ()), *_each_note(found, ruled)]


def _notes_on_steps(found: ProfileComparison, ruled: Ruling) -> Iterator[str]:
    """Say which steps hang or grow, and whether all operators are slower in them."""
    if ruled.main.difference > 0:
        yield from course_lines(found.lengths.course, ruled.main)
        if (ruled.exceeding or ruled.doubt) and (machine := machine_note(found, ruled.main)):
            yield machine


def _each_note(found: ProfileComparison, ruled: Ruling) -> Iterator[str]:
    lengths = found.lengths
    yield from notes_on(lengths, ruled)
    for side, profile in (("the baseline", found.control), ("the new run", found.test)):
        if lost := profile.facts.get(LOST_WORK):
            yield f"Not all of {side} was recorded: {lost}."
    if max(found.recordings) > 1:
        both = f"{counted(found.recordings[0], 'recording')} of the baseline and {found.recordings[1]:,} new"
        yield f"Compared: {both}, with the noise between them."
    lacking = lengths.test.world_size or 0
    if lacking > len(lengths.test.files):
        yield f"{len(lengths.test.files):,} of {lacking:,} ranks were recorded and are compared."
    yield from found.trust


def _hangs(found: ProfileComparison) -> dict[str, Any] | None:
    """Return the events in which steps hang, on both sides; null of too few steps."""
    if (tail := found.lengths.course.tail) is None:
        return None
    return {
        "baseline_events": tail.counts[0],
        "new_events": tail.counts[1],
        "new_steps": list(tail.numbers),
        "excess": round(tail.excess_ns),
    }


def share(value: float | None, *, sign: bool = False) -> str:
    """Print a share; an unknown one is larger than any.

    >>> share(0.031), share(37.6, sign=True), share(None)
    ('3.1%', '+3,760.0%', 'unknown')
    """
    return "unknown" if value is None else f"{value:{'+' if sign else ''},.1%}"


def refusal_of(error: Exception) -> str:
    """Return why an error keeps runs from being compared."""
    return error.why if isinstance(error, CannotCompareError) else "unreadable"
