"""Sentences on the kernels of CUDA graphs and their names."""

from __future__ import annotations

from hta_graph.attribution.captured_launches import COUNTS, EDITS, POSITION, QUEUES, UNCHECKED
from hta_graph.base.errors import Remedy
from hta_graph.base.text.formatting import milliseconds

RULES = {
    POSITION: "launch order is equal",
    COUNTS: "as many launches of each kernel",
    QUEUES: "launch order is equal on each stream",
    EDITS: "launch order is equal",
    UNCHECKED: "unchecked: the capture records no kernel names, only as many launches",
}
"""How a replay was aligned → what that says."""

NOT_IN_SUMMARIES = "captures are not used: rank summaries lack the kernels; use --summaries never"
LAUNCHED_BY_GRAPH = "launched by a CUDA graph"
NAME_THEM = Remedy(
    "record the capture of the graphs and pass captures=[…]", "record the capture of the graphs and use --capture"
)


def _replays(count: int) -> str:
    return "1 graph replay" if count == 1 else f"{count:,} graph replays"


def _rows(count: int) -> str:
    return "1 launch or kernel has" if count == 1 else f"{count:,} launches or kernels have"


def named(rank: int, label: str, named: int, every: int, replays: int, captures: str, rule: str, edits: int) -> str:
    """Say how many kernels of replays a capture names, and how they were matched."""
    but = f" but for {edits:,}: {_rows(edits)} no counterpart" if edits else ""
    counts = f"{named:,} of {every:,} kernels of {_replays(replays)}"
    return f"rank {rank}, {label}: {counts} inferred by capture ({captures}): {RULES[rule]}{but}"


def recorded(rank: int, label: str, named: int, every: int) -> str:
    """Say of how many kernels of replays the trace, or a file of annotations, records the module."""
    return f"rank {rank}, {label}: the module of {named:,} of {every:,} kernels of graph replays is recorded"


def not_named(rank: int, label: str, count: int, ns: int, replays: int) -> str:
    """Say how many kernels of replays no capture names."""
    what = f"{count:,} kernels ({milliseconds(ns)} ms) of {_replays(replays)}"
    return f"rank {rank}, {label}: {what} not named: no captured graph launches the same kernels"


def unsure_shapes(rank: int, label: str, replays: int) -> str:
    """Say of how many replays shapes are not sure."""
    return (
        f"rank {rank}, {label}: shapes of {_replays(replays)} are unchecked: graphs of several batch sizes launch the "
        "same kernels, and no annotation gives the tokens of the step"
    )
