"""The words of the timeline, as a page of its own and as a part of the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from analyses.display.sentence_format import window_name
from analyses.display.text_layout import clipped
from analyses.messages.report import capitalized, length_name

if TYPE_CHECKING:
    from hta_graph.graph.dependency_graph import DependencyGraph
    from hta_graph.paths.windows import Window

EVENT_LABELS: Mapping[str, str] = {
    "cpu_op": "operator",
    "runtime": "runtime call",
    "memcpy": "copy",
    "memset": "memset",
    "waiting": "waiting for other ranks",
}
"""Labels of the kinds of events that are not called by their keys."""

PATH_LINE = "critical path"


def page_title(label: str, ranks: int, rank: int | None) -> str:
    """Name the page."""
    of_whom = f", {ranks:,} ranks" if ranks > 1 else f", rank {rank}" if rank is not None else ""
    return f"Timeline of {label}{of_whom}"


def step_summary(
    window: Window, graph: DependencyGraph, *, length: str, bound: str, bound_share: str, explained: str
) -> str:
    """Sum up a window above its bar."""
    name = capitalized(window_name(window))
    return (
        f"{name}: {length_name(window, graph)} {length}; largest class: {bound} ({bound_share}); {explained} explained"
    )


def merged(resolution: str, events: int, bars: int) -> str:
    """Say that short events are merged."""
    return (
        f"Events shorter than {resolution} are merged with neighbors of the same kind to keep the page small: "
        f"{events:,} events in {bars:,} bars."
    )


def ranks_shown(ranks: Sequence[int], total: int) -> str:
    """Say which ranks of a job have lanes."""
    listed = ", ".join(map(str, ranks))
    return f"Lanes of {len(ranks)} of {total:,} ranks ({listed}): those with most of the path, then the lowest."


def lanes_shown(shown: int, total: int) -> str:
    """Say how many threads and streams are drawn."""
    return f"{shown:,} of {total:,} threads and streams: those with most of the path, then the busiest."


def too_deep(events: int) -> str:
    """Say that deeply nested events are left out."""
    return f"{events:,} deeply nested events are left out."


def of_operator(kernel: str, operator: str, evidence: str) -> str:
    """Name a kernel of a graph replay with its operator, and how that is known."""
    return f"{clipped(operator, 40)} ({evidence}) ▸ {clipped(kernel, 60)}"
