"""What is advised about a graph, by rule."""

from __future__ import annotations

import hta_graph as hg
from analyses.advice.facts import PathFacts
from analyses.advice.rule import PathFinding
from analyses.judgement.verdict import replayed_advice


def advice(graph: hg.DependencyGraph, window: hg.Window | None = None) -> dict[str, PathFinding]:
    """Return the advice on a window, by its rules; the whole trace without one."""
    facts = PathFacts(hg.critical_path(graph, window or hg.whole()))
    return {finding.rule: finding for finding in replayed_advice(facts)}
