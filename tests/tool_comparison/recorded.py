"""Recorded jobs and runs: those of the tests, and shared ones where their folder is there.

A recorded job had a rank sleep or compute more; its truth is in its ``truth.json``. Delays below 60 ms drown in what
two shared processors do to a job, and have no questions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Literal

from tests.job_verdict_accuracy import FEWEST_MS, recorded_faults
from tests.rerun_accuracy import MISS, base_runs, lengths_of_steps
from tests.support.shared_traces import SHARED
from tests.tool_comparison.question import HEALTHY, UNKNOWN, Posed, Question, Truth

OWN = Path(__file__).parents[1] / "multi_rank" / "recorded"
CLOCKS, REPORTED = SHARED / "clock_and_graph", SHARED / "reported"
BEFORE_RECORDING = ("first_node", "one_graph", "stream_first", "stream_only", "two_graphs")
"""Small traces most of whose time waits for work that is not in them; in the others the GPU computes."""
Source = Literal["recorded", "shared"]


def _job(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted(folder.glob("rank*.json.gz")))


def job_questions(folder: Path, source: Source) -> Iterator[Question]:
    """Ask which rank delays a recorded job, or whether one does, and what one of its files alone shows."""
    faults = recorded_faults(folder)
    late = {rank for _, rank in faults}
    name, recipe = folder.name, f"recorded job {folder.name}"
    if not faults:
        yield Question(
            f"healthy/{name}", "healthy", "any_late_rank", "Does a rank delay the others?", recipe,
            lambda _: Posed(_job(folder), HEALTHY), source,
        )  # fmt: skip
        return
    if max(faults.values()) < FEWEST_MS:
        return
    yield Question(
        f"rank/{name}", "rank", "late_rank", "Which rank delays the others?", recipe,
        lambda _: Posed(_job(folder), Truth(frozenset(late), all_of_them=True)), source,
    )  # fmt: skip
    if source == "recorded":
        yield Question(
            f"unknown/one-rank-{name}", "unknown", "late_rank", "Which rank delays the others?",
            f"{recipe}, the file of one rank", lambda _: Posed(_job(folder)[:1], UNKNOWN), source,
        )  # fmt: skip
    base = next((one for one in base_runs(folder) if (one / "truth.json").exists()), None)
    if base is not None and len(late) == 1 and not name.endswith("_skew") and _settings(base) == _settings(folder):
        yield Question(
            f"gain/{name}", "gain", "new_length", "How long is the median step if the late rank is like the others?",
            f"{recipe} and {base.name}", partial(_rerun, folder, base, min(late)), source,
        )  # fmt: skip


def _settings(folder: Path) -> object:
    """Return how a job was set up: one with Python stacks runs at another speed than one without."""
    settings = json.loads((folder / "truth.json").read_text(encoding="utf-8")).get("job", {})
    return {name: value for name, value in settings.items() if name != "seed"} if isinstance(settings, dict) else None


def _rerun(folder: Path, base: Path, late: int, _: Path) -> Posed:
    true, measured = (median(lengths_of_steps(own)) for own in (base, folder))
    given = {"change": ["--scenario", f"rank_like_others={late}"], "measured_ns": measured}
    return Posed(_job(folder), Truth(number=true, tolerance=MISS * true), given)


def clock_questions() -> Iterator[Question]:
    """Ask what small traces with faults of clocks, records and graphs spend their time on."""
    for path in sorted(CLOCKS.glob("*.json")):
        known = path.stem not in BEFORE_RECORDING
        given = {"window": ["--whole"]}
        kernels = {row["name"] for row in json.loads(path.read_bytes())["traceEvents"] if row.get("cat") == "kernel"}
        truth = Truth(frozenset(kernels), frozenset({"gpu_compute_bound"})) if known else UNKNOWN
        kind: Literal["cause", "unknown"] = "cause" if known else "unknown"
        yield Question(
            f"{kind}/{path.stem}", kind, "bound", "What takes the time?", f"made trace {path.name}",
            lambda _, path=path, truth=truth, given=given: Posed((path,), truth, given), "shared",  # type: ignore[misc]
        )  # fmt: skip


def alternating_questions() -> Iterator[Question]:
    """Ask about recordings of steps of two kinds in turn: a slower one, and a repetition."""
    for other, slower in (("alt_b", True), ("alt_a2", False)):
        inputs = REPORTED / "alt_a.json.gz", REPORTED / f"{other}.json.gz"
        if not all(path.exists() for path in inputs):
            continue
        yield Question(
            f"regression/{other}", "regression", "slower", "Is the second run slower by more than 5%?",
            f"recordings alt_a and {other}",
            lambda _, inputs=inputs, slower=slower: Posed(inputs, Truth(frozenset({slower})), {"limit": "5%"}),  # type: ignore[misc]
            "shared",
        )  # fmt: skip


def questions(_: int) -> Iterator[Question]:
    """Return the questions about recordings; no seed decides about them."""
    folders: tuple[tuple[Path, Source], ...] = (
        (OWN, "recorded"), (SHARED / "gloo", "shared"), (SHARED / "gloo_more", "shared"),
    )  # fmt: skip
    for folder, source in folders:
        for truth in sorted(folder.glob("*/truth.json")):
            yield from job_questions(truth.parent, source)
    yield from clock_questions()
    yield from alternating_questions()
