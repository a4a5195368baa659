"""The verdict: what bounds a path, what is largest on it, what has no recorded cause, whether clocks agree."""

from __future__ import annotations

from typing import Any

import numpy as np

from analyses.advice.facts import Confidence, PathFacts, PathFinding
from analyses.advice.host_rules import gpu_busy_meanwhile, host_may_poll
from analyses.display.labels import short_labels
from analyses.messages import verdict
from analyses.source.window_report import clock_lines, headline_lengths, headline_subject
from hta_graph.attribution.replayed_names import replayed_names
from hta_graph.base.arrays import distinct, summed_by
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.job_graph import JobGraph
from hta_graph.graph.numbered_names import row_labels
from hta_graph.model import BoundBy, Ids, Reason
from hta_graph.paths.critical_path import CriticalPath


def bound_by(facts: PathFacts) -> PathFinding:
    """Say what bounds the window: the sentence to forward."""
    path, window = facts.path, facts.path.window
    if not path.length_ns:
        return PathFinding(verdict.empty_window(headline_subject(window, path.graph)), {"window_ns": 0})
    # Of equal classes the one that comes first in the order of the table.
    bound, time_ns = max(path.by_bound_ns.items(), key=lambda item: item[1])
    evidence: dict[str, Any] = {
        "window_ns": path.length_ns, "bound_by": bound, "time_ns": time_ns, "share": time_ns / facts.length_ns,
        "gpu_idle_ns": facts.gpu_idle_ns if facts.has_gpu_rows else None,
    }  # fmt: skip
    chosen = facts.segments_in_classes(next(one for one in BoundBy if one.label == bound))
    text = verdict.bound_by(
        headline_subject(window, path.graph), short_labels(path.graph)[bound], evidence["share"],
        facts.main_rank(chosen), headline_lengths(window, path.graph),
    )  # fmt: skip
    return PathFinding(text, evidence, _confidence(facts))


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
        return PathFinding(verdict.NOTHING_OWNED, {})
    codes, texts = row_labels(graph)
    key = codes[pieces.event[owned]].astype(np.int64) * classes + pieces.bound[owned]
    sums = summed_by(key, facts.lengths[owned], classes * len(texts))
    largest = int(np.argmax(sums))
    name, bound, ns = texts[largest // classes], BoundBy(largest % classes).label, int(sums[largest])
    rows = distinct(pieces.event[owned[key == largest]])
    ranks = _rank_evidence(graph, rows)
    operator = _operator_evidence(graph, rows)
    said = verdict.of_operator(*operator.values()) if operator else ""
    text = verdict.largest_item(name, short_labels(graph)[bound], ns, len(rows), ranks.get("ranks", ()), said)
    return PathFinding(text, {"name": name, "bound_by": bound, "time_ns": ns, "calls": len(rows), **ranks, **operator})


def _operator_evidence(graph: DependencyGraph, rows: Ids) -> dict[str, str]:
    """Return the operator that all of some kernels of graph replays belong to, and how that is known."""
    names = replayed_names(graph, "operator")
    codes, known = distinct(names.innermost[rows]), names.evidence_of(rows)
    if len(codes) != 1 or codes[0] < 0 or known is None:
        return {}
    return {"operator": names.texts[int(codes[0])], "operator_evidence": known}


def _rank_evidence(graph: DependencyGraph, rows: Ids) -> dict[str, list[int]]:
    """Return of a job the ranks whose rows these are, as evidence has them."""
    return {"ranks": distinct(graph.rank_of(rows)).tolist()} if isinstance(graph, JobGraph) else {}


def unexplained(facts: PathFacts) -> PathFinding:
    """Say how much has no cause, for which reasons, and what is known of its longest part."""
    path = facts.path
    total = path.by_bound_ns["unexplained"]
    if not total:
        return PathFinding(verdict.NOTHING_UNEXPLAINED, {"unexplained_ns": 0, "reasons_ns": {}})
    text = verdict.unexplained(total, total / facts.length_ns, largest_unexplained(path))
    detail = ""
    evidence: dict[str, Any] = {"unexplained_ns": total, "reasons_ns": path.by_reason_ns}
    if node := path.by_reason_ns.get(Reason.MISSING_GRAPH_NODE.label):
        columns = path.unexplained_columns()
        most = np.argmax(np.where(columns["replays"] != None, columns["end_ns"] - columns["start_ns"], -1))  # noqa: E711
        evidence |= {key: int(columns[key][most]) for key in ("replays", "replays_with_hole")}
        detail = verdict.missing_graph_nodes(node, evidence["replays_with_hole"], evidence["replays"])
    return PathFinding(text, evidence, detail=detail)


def largest_unexplained(path: CriticalPath) -> str:
    """Say of the longest unexplained part which call was open, what follows, and why it is unexplained."""
    found = path.unexplained_columns()
    # One long part says more than the sum of many short ones.
    length = found["end_ns"] - found["start_ns"]
    at = int(np.argmax(length))
    row = int(found["segment"][at])
    if path.before_rank_began[row]:
        return verdict.before_rank_began(int(length[at]), path.rank_of_segment(row))
    inside, before = found["while_in"][at], found["before"][at]
    return verdict.longest_unexplained(int(length[at]), inside, before, found["reason"][at])


def clock_fault(facts: PathFacts) -> PathFinding | None:
    """Say where the GPU clock is not the host clock."""
    lines = clock_lines(facts.graph.gpu_clock)
    behind = facts.graph.diagnostics["gpu_clock_behind_ns"]
    return PathFinding(lines[0], {"gpu_clock_behind_ns": behind}) if lines else None
