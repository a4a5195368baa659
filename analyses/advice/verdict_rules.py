"""The verdict: what a path's time is bound by, what is largest on it, what is not known, whether clocks agree."""

from __future__ import annotations

from typing import Any

import numpy as np

from analyses.advice.facts import Confidence, PathFacts, PathFinding
from analyses.advice.host_rules import gpu_busy_meanwhile, host_may_poll
from analyses.display.labels import REASON, class_meanings, short_labels
from analyses.display.sentence_format import brief_class, brief_duration, brief_share, counted, window_name
from analyses.display.text_layout import clipped, duration_text, percent
from analyses.window_report import clock_lines, has_iteration
from hta_graph.arrays import distinct, summed_by
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.job_graph import JobGraph
from hta_graph.model import BoundBy, Ids, Reason
from hta_graph.paths.critical_path import CriticalPath

SECOND_CLASS = 0.1
"""Another class is named beside the largest one from this share of the window on."""

LONGEST_SENTENCE = 160
"""The sentence to forward fits a line of a message."""


def bound_by(facts: PathFacts) -> PathFinding:
    """Say how long the window takes and for how much of it what: the sentence to forward."""
    path, window = facts.path, facts.path.window
    # Of equal classes the one that comes first in the order of the table.
    ordered = sorted(path.by_bound_ns.items(), key=lambda item: -item[1])
    named = [(bound, ns) for bound, ns in ordered[:1] + ordered[1:3] if ns >= SECOND_CLASS * facts.length_ns]
    who = "" if path.graph.rank is None else f"rank {path.graph.rank}: "
    if not path.length_ns:
        return PathFinding(f"{who}{window_name(window)} takes no time", {"window_ns": 0})
    shares = [
        (brief_share(facts.share(ns)), brief_class(bound, class_meanings(path.graph)))
        for bound, ns in named or ordered[:1]
    ]
    parts = [f"for {share}{'' if at else ' of it'} {what}" for at, (share, what) in enumerate(shares)]
    evidence: dict[str, Any] = {
        "window_ns": path.length_ns, "bound_by": ordered[0][0], "time_ns": ordered[0][1],
        "share": ordered[0][1] / facts.length_ns, "gpu_idle_ns": facts.gpu_idle_ns if facts.has_gpu_rows else None,
    }  # fmt: skip
    lead = f"{who}{window_name(window)} takes {brief_duration(path.length_ns)}{_iteration_text(path)}; "
    while len(parts) > 1 and len(lead + ", ".join(parts)) > LONGEST_SENTENCE:
        parts.pop()
    return PathFinding(lead + ", ".join(parts), evidence, _confidence(facts))


def _iteration_text(path: CriticalPath) -> str:
    """Tell the iteration beside a latency that is not as long."""
    if not has_iteration(path.window, path.graph):
        return ""
    return f" until its last work ends (an iteration takes {brief_duration(path.window.gpu_ns)})"


def _confidence(facts: PathFacts) -> Confidence:
    """Rate the largest class: low where the host may wait unseen, medium where the unknown could overturn it."""
    ordered = sorted((ns for bound, ns in facts.path.by_bound_ns.items() if bound != "unexplained"), reverse=True)
    unknown = facts.path.by_bound_ns["unexplained"]
    if host_may_poll(facts) or unknown > ordered[0]:
        return "low"
    return "medium" if gpu_busy_meanwhile(facts) or ordered[1] + unknown > ordered[0] > ordered[1] else "high"


def largest_item(facts: PathFacts) -> PathFinding:
    """Name what takes most of the path."""
    graph, pieces, classes = facts.graph, facts.path.segment_table, len(BoundBy)
    owned = np.flatnonzero(pieces.event >= 0)
    if not len(owned):
        return PathFinding("nothing that was recorded lies on the critical path", {})
    key = graph.event_table.name[pieces.event[owned]].astype(np.int64) * classes + pieces.bound[owned]
    sums = summed_by(key, facts.lengths[owned], classes * len(facts.graph.names))
    largest = int(np.argmax(sums))
    name, bound, ns = graph.names[largest // classes], BoundBy(largest % classes).label, int(sums[largest])
    rows = distinct(pieces.event[owned[key == largest]])
    text = (
        f"the largest item on the critical path is {clipped(name, 80)} ({short_labels(graph)[bound]}): "
        f"{duration_text(ns)} in {counted(len(rows), 'call')}{_on_ranks(graph, rows)}"
    )
    return PathFinding(
        text, {"name": name, "bound_by": bound, "time_ns": ns, "calls": len(rows), **_rank_evidence(graph, rows)}
    )


def _rank_evidence(graph: DependencyGraph, rows: Ids) -> dict[str, list[int]]:
    """Return of a job the ranks whose rows these are, as evidence has them."""
    return {"ranks": distinct(graph.rank_of(rows)).tolist()} if isinstance(graph, JobGraph) else {}


def _on_ranks(graph: DependencyGraph, rows: Ids) -> str:
    """Say on which rank of a job rows are, or on how many."""
    ranks = _rank_evidence(graph, rows).get("ranks", [])
    if not ranks:
        return ""
    return f" on rank {ranks[0]}" if len(ranks) == 1 else f" on {len(ranks)} ranks"


def unexplained(facts: PathFacts) -> PathFinding:
    """Say how much has no cause, for which reasons, and of the largest stretch what the host stood in."""
    path = facts.path
    total = path.by_bound_ns["unexplained"]
    if not total:
        return PathFinding(
            "unexplained: nothing, every nanosecond has a cause", {"unexplained_ns": 0, "reasons_ns": {}}
        )
    text = f"unexplained: {duration_text(total)}, {percent(total / facts.length_ns)}; {largest_unexplained(path)}"
    evidence: dict[str, Any] = {"unexplained_ns": total, "reasons_ns": path.by_reason_ns}
    if node := path.by_reason_ns.get(Reason.MISSING_GRAPH_NODE.label):
        columns = path.unexplained_columns()
        most = np.argmax(np.where(columns["replays"] != None, columns["end_ns"] - columns["start_ns"], -1))  # noqa: E711
        evidence |= {key: int(columns[key][most]) for key in ("replays", "replays_with_hole")}
        text += (
            f"; {duration_text(node)} are nodes of graphs that were not recorded, "
            f"in {evidence['replays_with_hole']} of {evidence['replays']} replays"
        )
    return PathFinding(text, evidence)


def largest_unexplained(path: CriticalPath) -> str:
    """Say of the largest unexplained stretch what stood open and what is behind it, as far as the trace tells."""
    found = path.unexplained_columns()
    # One long stretch tells more than the sum of many short ones.
    at = int(np.argmax(found["end_ns"] - found["start_ns"]))
    size = duration_text(int(found["end_ns"][at] - found["start_ns"][at]))
    open_call, waiter = found["while_in"][at], found["before"][at]
    inside = f", while in {clipped(open_call, 40)}" if open_call else ""
    until = f", before {clipped(waiter, 40)}" if waiter else ", after the last work on the path"
    row = int(found["segment"][at])
    if path.before_rank_began[row]:
        return f"the largest stretch, {size}: the recording of rank {path.rank_of_segment(row)} begins only then"
    return f"the largest stretch, {size}{inside}{until}: {REASON[found['reason'][at]]}"


def clock_fault(facts: PathFacts) -> PathFinding | None:
    """Say it where the GPU's clock is behind the host's."""
    lines = clock_lines(facts.graph.diagnostics)
    behind = facts.graph.diagnostics["gpu_clock_behind_ns"]
    return PathFinding(lines[0], {"gpu_clock_behind_ns": behind}) if lines else None
