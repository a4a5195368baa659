"""Sentences of attribution."""

from __future__ import annotations

from analyses.display.headline import Outlier
from analyses.display.sentence_format import brief_duration, brief_share, quoted
from hta_graph.base.errors import Remedy
from hta_graph.base.text.formatting import milliseconds

NO_ACTIVITY = "no GPU activity to attribute"
NOT_DRAWN = Remedy("pass by='operator', …", "use --by operator, …")
BARS = {"gpu_self_ns": "self", "gpu_total_ns": "total"}
LAUNCHED_EARLIER = "no launch call in the trace (launched before recording started)"
RECORD = {
    "frame": "record with with_stack=True",
    "module": "record with with_stack=True (or with_modules=True)",
    "annotation": "put torch.profiler.record_function(...) around parts of the program",
}
"""How to record what an attribution needs."""


def headline(found: Outlier, by: str, unknown_share: float) -> str:
    """Name the owner with the most GPU time of its own, and how much has no owner."""
    kind = by.replace("-", " ")
    own = (
        f"{brief_duration(found['gpu_self_ns'])}{found.typical}, {brief_share(found['gpu_self_share'])} of all GPU work"
    )
    lost = f"; {brief_share(unknown_share)} belongs to no {kind}" if unknown_share else ""
    return f"{kind} {quoted(found['name'])} has the most self GPU time{found.where}: {own}{lost}"


def no_owner(by: str) -> str:
    """Say that no GPU work has an owner."""
    return f"no GPU work belongs to any {by.replace('-', ' ')}"


def launched_outside(kind: str, *, record: bool) -> str:
    """Explain activities that were launched where no owner was open."""
    remedy = f"; {RECORD[kind]}" if record and kind in RECORD else ""
    return f"launched while no {kind} was open{remedy}"


def not_attributed(rank: int, label: str, count: int, every: int, ns: int, why: str) -> str:
    """Report how many activities have no owner, and why."""
    counts = f"{count:,} of {every:,} GPU activities ({milliseconds(ns)} ms)"
    return f"rank {rank}, {label}: {counts} not attributed: {why}"
