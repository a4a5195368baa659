"""What is nearly critical: the work that comes next if the path gets shorter, for people and for programs."""

from __future__ import annotations

from typing import Any

from analyses.answer import records
from analyses.display.labels import short_labels
from analyses.display.text_layout import Line, duration_text, percent, table
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.what_if.slack import NearCritical

ALTERNATIVES_SHOWN = 10


def slack_record(near: NearCritical) -> dict[str, Any]:
    """Return near-critical work as JSON has it (times in ns)."""
    return {
        "threshold_ns": near.threshold_ns,
        "by_rank": records(near.by_rank),
        "alternatives": records(near.alternatives),
    }


def slack_lines(near: NearCritical, graph: DependencyGraph) -> list[Line]:
    """Say how much work would be critical if it took a little longer, and which other ways lead to the window's end."""
    within = f"within {duration_text(near.threshold_ns)} of being critical"
    ranks = near.by_rank.to_dict("records")
    if len(graph.rank_graphs) == 1:
        head = f"{percent(ranks[0]['share'])} of the window, {duration_text(ranks[0]['near_ns'])}, has work {within}"
        return [head, *_alternative_lines(near, graph)]
    rows = [[duration_text(row["near_ns"]), percent(row["share"]), str(row["rank"])] for row in ranks]
    return [f"work {within}, by rank", *table(rows, ["time", "share", "rank"]), "", *_alternative_lines(near, graph)]


def _alternative_lines(near: NearCritical, graph: DependencyGraph) -> list[Line]:
    ways, words = records(near.alternatives), short_labels(graph)
    if not ways:
        return ["no other rank or class of work comes that close"]
    several = len(graph.rank_graphs) > 1
    rows = [
        [
            duration_text(way["slack_ns"]), duration_text(way["near_ns"]), *([str(way["rank"])] if several else []),
            words[way["bound_by"]], way["name"] or "(nothing recorded)",
        ]
        for way in ways[:ALTERNATIVES_SHOWN]
    ]  # fmt: skip
    header = ["spare", "such work", *(["rank"] if several else []), "class", "leads over"]
    texts = [len(header) - 2, len(header) - 1]
    hidden = len(ways) - ALTERNATIVES_SHOWN
    more = [f"  and {hidden} more; --json FILE lists all"] if hidden > 0 else []
    return [
        "other ways to the end of the window, of each kind that is not on the path the longest",
        *table(rows, header, left=texts, names=texts[1:]),
        *more,
    ]
