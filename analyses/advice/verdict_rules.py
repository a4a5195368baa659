"""The verdict: what bounds a path, what is largest on it, what has no recorded cause, whether clocks agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from analyses.advice import headline
from analyses.advice.facts import PathFacts
from analyses.advice.host_facts import gpu_busy_meanwhile, host_may_poll
from analyses.advice.rule import Confidence, Evidence, Fired, Rule
from analyses.source.window_facts import short_labels
from analyses.source.window_report import clock_lines, headline_lengths, headline_subject
from hta_graph.attribution.replayed_names import replayed_names
from hta_graph.base.arrays import distinct, summed_by
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.event_names import row_labels
from hta_graph.model import BoundBy, Ids, Reason
from hta_graph.paths.critical_path import CriticalPath


def bound_by(facts: PathFacts) -> Fired:
    """Say what bounds the window: the sentence to forward."""
    path = facts.path
    if not path.length_ns:
        empty = f"{headline_subject(facts.of_window)}: empty (0 ms)"
        return Fired({"window_ns": 0}, said={"headline": empty})
    # Of equal classes the one that comes first in the order of the table.
    bound, time_ns = max(path.by_bound_ns.items(), key=lambda item: item[1])
    evidence: dict[str, Any] = {
        "window_ns": path.length_ns, "bound_by": bound, "time_ns": time_ns, "share": time_ns / facts.length_ns,
        "gpu_idle_ns": facts.gpu_idle_ns if facts.has_gpu_rows else None,
    }  # fmt: skip
    chosen = facts.segments_in_classes(next(one for one in BoundBy if one.label == bound))
    text = headline.bound_by(
        headline_subject(facts.of_window), short_labels(path.graph)[bound], evidence["share"],
        facts.main_rank(chosen), headline_lengths(facts.of_window),
    )  # fmt: skip
    return Fired(evidence, _confidence(facts), said={"headline": text})


def _confidence(facts: PathFacts) -> Confidence:
    """Rate the largest class: low where the host may wait unseen, medium where the unknown could overturn it."""
    ordered = sorted((ns for bound, ns in facts.path.by_bound_ns.items() if bound != "unexplained"), reverse=True)
    unknown = facts.path.by_bound_ns["unexplained"]
    if host_may_poll(facts) or unknown > ordered[0]:
        return "low"
    return "medium" if gpu_busy_meanwhile(facts) or ordered[1] + unknown > ordered[0] > ordered[1] else "high"


def largest_item(facts: PathFacts) -> Fired:
    """Name what takes most of the path."""
    graph, pieces, classes = facts.graph, facts.path.segment_table, len(BoundBy)
    owned = np.flatnonzero(pieces.event >= 0)
    if not len(owned):
        return Fired({}, said=dict.fromkeys(SAID_OF_LARGEST) | {"is_nothing": True})
    codes, texts = row_labels(graph)
    key = codes[pieces.event[owned]].astype(np.int64) * classes + pieces.bound[owned]
    sums = summed_by(key, facts.lengths[owned], classes * len(texts))
    largest = int(np.argmax(sums))
    name, bound, ns = texts[largest // classes], BoundBy(largest % classes).label, int(sums[largest])
    rows = distinct(pieces.event[owned[key == largest]])
    ranks = _rank_evidence(graph, rows)
    passed = ranks.get("ranks", [])
    said = {
        "is_nothing": False, "what": short_labels(graph)[bound], "rank": passed[0] if len(passed) == 1 else None,
        "several": len(passed) if len(passed) > 1 else 0, "operator": None, "operator_evidence": None,
    }  # fmt: skip
    operator = _operator_evidence(graph, rows)
    return Fired({"name": name, "bound_by": bound, "time_ns": ns, "calls": len(rows), **ranks, **operator}, said=said)


def _operator_evidence(graph: DependencyGraph, rows: Ids) -> dict[str, str]:
    """Return the operator that all of some kernels of graph replays belong to, and how that is known."""
    names = replayed_names(graph, "operator")
    codes, known = distinct(names.innermost[rows]), names.evidence_of(rows)
    if len(codes) != 1 or codes[0] < 0 or known is None:
        return {}
    return {"operator": names.texts[int(codes[0])], "operator_evidence": known}


def _rank_evidence(graph: DependencyGraph, rows: Ids) -> dict[str, list[int]]:
    """Return of a job the ranks whose rows these are, as evidence has them."""
    return {"ranks": distinct(graph.rank_of(rows)).tolist()} if graph.is_job else {}


def unexplained(facts: PathFacts) -> Fired:
    """Say how much has no cause, for which reasons, and what is known of its longest part."""
    path = facts.path
    total = path.by_bound_ns["unexplained"]
    said: dict[str, Any] = dict.fromkeys(("replays", "replays_with_hole", "node_ns", *LONGEST))
    if not total:
        return Fired({"unexplained_ns": 0, "reasons_ns": {}}, said=said)
    said |= {"share": total / facts.length_ns, **largest_unexplained(path)}
    evidence: dict[str, Any] = {"unexplained_ns": total, "reasons_ns": path.by_reason_ns}
    if node := path.by_reason_ns.get(Reason.MISSING_GRAPH_NODE.label):
        columns = path.unexplained_columns()
        most = np.argmax(np.where(columns["replays"] != None, columns["end_ns"] - columns["start_ns"], -1))  # noqa: E711
        evidence |= {key: int(columns[key][most]) for key in ("replays", "replays_with_hole")}
        said["node_ns"] = node
    return Fired(evidence, said=said)


LONGEST = ("share", "longest_ns", "inside", "before", "is_last", "reason", "before_rank")

REASON_CLAUSE: Mapping[str, str] = {
    "before_recording": "probably waited for work that was enqueued before the recording started",
    "missing_graph_node": "is a CUDA graph node that no replay recorded",
    "wait_without_record": "is a wait that the trace does not record",
    "other_rank": "is a wait for another rank",
    "clock_fault": "has timestamps that contradict each other",
    "unknown": "has no recorded cause",
}
"""Each reason for being unexplained, as the verb of a sentence."""


def largest_unexplained(path: CriticalPath) -> Evidence:
    """Return of the longest unexplained part which call was open, what follows, and why it is unexplained."""
    found = path.unexplained_columns()
    # One long part says more than the sum of many short ones.
    length = found["end_ns"] - found["start_ns"]
    at = int(np.argmax(length))
    row = int(found["segment"][at])
    if path.before_rank_began[row]:
        return {"longest_ns": int(length[at]), "before_rank": f"rank {path.rank_of_segment(row)}"}
    inside, before = found["while_in"][at], found["before"][at]
    return {
        "longest_ns": int(length[at]), "inside": inside, "before": before, "is_last": not before,
        "reason": REASON_CLAUSE[found["reason"][at]],
    }  # fmt: skip


def clock_fault(facts: PathFacts) -> Fired | None:
    """Say where the GPU clock is not the host clock."""
    lines = clock_lines(facts.graph.gpu_clock)
    behind = facts.graph.diagnostics["gpu_clock_behind_ns"]
    return Fired({"gpu_clock_behind_ns": behind}, said={"line": lines[0]}) if lines else None


BOUND_BY = Rule("bound_by", "verdict", bound_by, why="{headline}")

SAID_OF_LARGEST = ("name", "time_ns", "calls", "what", "rank", "several", "operator", "operator_evidence")
LARGEST_ITEM = Rule(
    "largest_item", "verdict", largest_item,
    why="{is_nothing:+No recorded event is on the critical path.}{is_nothing:-Largest item on the critical path: "
    "{name:long name}}{operator:+ of {operator:name} ({operator_evidence})}{is_nothing:- ({what}), {time_ns:exact} in "
    "{calls:#call}}{rank:rank}{several:+ on {several} ranks}{is_nothing:-.}",
)  # fmt: skip

UNEXPLAINED = Rule(
    "unexplained", "verdict", unexplained,
    why="Unexplained: {share:-0 ms}{share:+{unexplained_ns:exact} ({share:percent}); the longest part "
    "({longest_ns:exact}}{inside:+, in {inside:short name}}{before:+, before {before:short name}}{is_last:+, after the "
    "last work on the path}{reason:+) {reason}.}{before_rank:+) is before the recording of {before_rank} starts.}",
    detail="{node_ns:+{node_ns:exact} of it is CUDA graph nodes that were not recorded, in {replays_with_hole} of "
    "{replays:#replay}.}",
)  # fmt: skip

CLOCK_FAULT = Rule("clock_fault", "verdict", clock_fault, why="{line}")

HOST_MAY_POLL = Rule(
    "host_may_poll", "verdict", host_may_poll,
    why="The path is on the host for {covered_silence_ns:part} in which no operator or call is open and the GPU works "
    "the whole time. The host may be polling, or waiting without a record; in that case the time belongs to the GPU.",
)  # fmt: skip

GPU_BUSY_MEANWHILE = Rule(
    "gpu_busy_meanwhile", "verdict", gpu_busy_meanwhile,
    why="The path is on the host for {share:share} of the time, but the GPU is idle for only {gpu_idle_ns:part}: the "
    "host is barely slower than the GPU, or a wait for the GPU is missing from the trace.",
)  # fmt: skip
