"""Verdicts of jobs, made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hta_graph.multi_rank.job_verdict import Cause, JobVerdict

FIRM = JobVerdict(
    scope="all_steps", rank=2, ranks=(2,), firmness="firm", caused_ns=9_000_000, median_caused_ns=1_500_000,
    share_of_waiting=0.9, share_of_step=0.25, cause=Cause("cpu_bound", "aten::mm", "forward"), pattern="every_step",
    since_step=None, steps=(3, 4), reason=None, waiting_ns=10_000_000, compared=2,
)  # fmt: skip


def verdict_like(**changes: Any) -> JobVerdict:
    """Return a verdict that names rank 2, with changes."""
    return replace(FIRM, **changes)


def nobody_named(**changes: Any) -> JobVerdict:
    """Return a verdict that names no rank."""
    return verdict_like(rank=None, firmness="none", cause=None, pattern=None, steps=(), reason="by_chance", **changes)
