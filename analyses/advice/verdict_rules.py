"""The verdict: what bounds a path, what is largest on it, what has no recorded cause, whether clocks agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from analyses.advice import headline
from analyses.advice.facts import PathFacts
from analyses.advice.host_facts import gpu_busy_meanwhile, host_may_poll
from analyses.advice.rule import Confidence, Evidence, Fired, Rule
from analyses.display.sentence_format import quoted
from analyses.source.window_facts import short_labels
from analyses.source.window_report import clock_lines, headline_lengths, headline_subject
from hta_graph.attribution.replayed_names import replayed_names
from hta_graph.base.arrays import distinct, summed_by
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.event_names import row_labels, wrapped_frames
from hta_graph.model import BoundBy, Ids, Reason
from hta_graph.paths.critical_path import CriticalPath
from hta_graph.paths.unexplained_reasons import holding_calls


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
    return Fired(evidence, _confidence(facts), said={"headline": class_headline(facts, bound)})


def class_headline(facts: PathFacts, bound: str, gain: str = "") -> str:
    """Say what class a path is in for longest, of a job on which rank, and what is gained, as headlines begin that."""
    chosen = facts.segments_in_classes(next(one for one in BoundBy if one.label == bound))
    return headline.bound_by(
        headline_subject(facts.of_window), short_labels(facts.graph)[bound], facts.share(facts.path.by_bound_ns[bound]),
        facts.main_rank(chosen), headline_lengths(facts.of_window), gain,
        others=meanwhile(facts) if bound == BoundBy.UNEXPLAINED.label else (),
    )  # fmt: skip


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
    named = wrapped_frames(graph)[pieces.event[owned]]
    if not len(owned):
        return Fired({}, said=dict.fromkeys(SAID_OF_LARGEST) | {"is_nothing": True})
    codes, texts = row_labels(graph)
    key = codes[named].astype(np.int64) * classes + pieces.bound[owned]
    sums = summed_by(key, facts.lengths[owned], classes * len(texts))
    largest = int(np.argmax(sums))
    name, bound, ns = texts[largest // classes], BoundBy(largest % classes).label, int(sums[largest])
    rows = distinct(named[key == largest])
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
    said: dict[str, Any] = dict.fromkeys(("replays", "replays_with_hole", "node_ns", *MEANWHILE, *LONGEST))
    if not total:
        return Fired({"unexplained_ns": 0, "reasons_ns": {}}, said=said)
    said |= {"share": total / facts.length_ns, **largest_unexplained(path)}
    evidence: dict[str, Any] = {"unexplained_ns": total, "reasons_ns": path.by_reason_ns}
    if node := path.by_reason_ns.get(Reason.MISSING_GRAPH_NODE.label):
        columns = path.unexplained_columns()
        most = np.argmax(np.where(columns["replays"] != None, columns["end_ns"] - columns["start_ns"], -1))  # noqa: E711
        evidence |= {key: int(columns[key][most]) for key in ("replays", "replays_with_hole")}
        said["node_ns"] = node
    return Fired(evidence, said={**said, **work_meanwhile(facts)})


WORKS_MEANWHILE, MOSTLY_WORKS = 0.1, 0.5
"""Work in less of the unexplained time is not worth a sentence; in most of it the headline names it."""


def work_meanwhile(facts: PathFacts) -> Evidence:
    """Return what the GPU works on where the path has no cause, and how long: no idling, and perhaps what it waits for.

    Of a job nothing: where it holds rank summaries, the rows are not there.
    """
    holes = facts.segments_in_classes(BoundBy.UNEXPLAINED)
    busy = 0 if facts.graph.is_job else int(facts.gpu_busy_during(holes).sum())
    if not busy or busy < WORKS_MEANWHILE * facts.time_of(holes):
        return {}
    (name, ns), (other, other_ns) = [*facts.largest_work_during(holes), (None, 0)][:2]
    has_other = other_ns >= WORKS_MEANWHILE * busy
    return {"busy_ns": busy, "name": name, "name_ns": ns, "other": other if has_other else None, "other_ns": other_ns}


def meanwhile(facts: PathFacts) -> list[tuple[str, float]]:
    """Name what the GPU works on in most of the unexplained time, with its share of the window."""
    work = work_meanwhile(facts)
    mostly = work and work["name_ns"] >= MOSTLY_WORKS * facts.class_ns(BoundBy.UNEXPLAINED)
    return [(f"meanwhile the GPU works on {quoted(work['name'])} for", facts.share(work["name_ns"]))] if mostly else []


MEANWHILE = ("busy_ns", "name", "name_ns", "other", "other_ns")
LONGEST = ("share", "longest_ns", "inside", "before", "is_last", "reason", "held_by", "before_rank")

REASON_CLAUSE: Mapping[str, str] = {
    "before_recording": "probably waited for work that was enqueued before the recording started",
    "missing_graph_node": "is a CUDA graph node that no replay recorded",
    "wait_without_record": "is a wait that the trace does not record",
    "other_rank": "is a wait for another rank",
    "clock_fault": "has timestamps that contradict each other",
    "stream_held": "may be a host function, or a wait on memory, that held the stream",
    "unknown": "has no recorded cause",
    "not_recorded": "is launched work that was not recorded",
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
        "reason": REASON_CLAUSE[found["reason"][at]], "held_by": _holding_call(path, row, found["reason"][at]),
    }  # fmt: skip


def _holding_call(path: CriticalPath, segment: int, reason: str) -> str | None:
    """Name the call that may have held the stream of an unexplained part, where that is the reason."""
    if reason != Reason.STREAM_HELD.label:
        return None
    call = int(holding_calls(path.graph, path.segment_table.event[[segment]])[0])
    return path.graph.name_of(call) if call >= 0 else None


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
    "last work on the path}{reason:+) {reason}.}{held_by:+ {held_by:name} was called before it.}{before_rank:+) is "
    "before the recording of {before_rank} starts.}",
    detail="{node_ns:+{node_ns:exact} of it is CUDA graph nodes that were not recorded, in {replays_with_hole} of "
    "{replays:#replay}.{busy_ns:+ }}{busy_ns:+For {busy_ns:exact} of it the GPU works, mostly on {name:short name} "
    "({name_ns:exact})}{other:+ and {other:short name} ({other_ns:exact})}{busy_ns:+.}",
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
