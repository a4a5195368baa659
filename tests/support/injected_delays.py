"""What is known of a recorded job: the delays that were injected, in the time of each rank's own recording."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Injection", "Interval", "injections_of", "intervals_of"]


@dataclass(frozen=True)
class Interval:
    """When (ns, as its recording shows times) a rank was delayed, and in which phase of which step."""

    rank: int
    step: int
    phase: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class Injection:
    """A delay of a rank (ns, as its recording shows times); ``has_slack``: others were later, at every meeting after.

    ``phase`` is where it was put: forward, backward, data, …
    """

    rank: int
    step: int
    phase: str
    start_ns: int
    end_ns: int
    has_slack: bool


def intervals_of(folder: Path) -> list[Interval]:
    """Read when a job was delayed."""
    truth = json.loads((folder / "truth.json").read_text())
    return [
        Interval(item["rank"], item["step"], item["phase"], *_recorded_span(truth, item))
        for item in truth["injections"]
    ]  # fmt: skip


def _recorded_span(truth: dict[str, Any], item: dict[str, Any]) -> tuple[int, int]:
    perf, unix = truth["clock"][str(item["rank"])][0]
    start, end = (
        _as_recorded(truth.get("clock_skew"), item["rank"], item[name] - perf + unix) for name in ("start_ns", "end_ns")
    )
    return start, end


def injections_of(folder: Path) -> list[Injection]:
    """Read the injected delays of a job."""
    truth = json.loads((folder / "truth.json").read_text())
    oracle = json.loads((folder / "oracle.json").read_text())
    found = []
    for item in truth["injections"]:
        rank = item["rank"]
        perf, unix = truth["clock"][str(rank)][0]
        end = item["end_ns"] - perf + unix
        step_end = next(own["end_ns"] for own in truth["steps"][str(rank)] if own["step"] == item["step"]) - perf + unix
        after = [own for own in oracle["collectives"] if _comes_between(own, rank, end, step_end)]
        has_slack = bool(after) and all(own["last_rank"] != rank for own in after)
        found.append(Injection(rank, item["step"], item["phase"], *_recorded_span(truth, item), has_slack))
    return found


def _comes_between(collective: dict[str, Any], rank: int, start: int, end: int) -> bool:
    return any(own["rank"] == rank and start <= own["at_ns"] <= end for own in collective["ranks"])


def _as_recorded(skew: dict[str, Any] | None, rank: int, time: int) -> int:
    """Return a true time as the rank's clock showed it (ns)."""
    if not skew:
        return time
    own = skew["ranks"][str(rank)]
    return int(time + own["offset_ns"] + round(own["drift_ppm"] * 1e-6 * (time - skew["anchor_unix_ns"])))
