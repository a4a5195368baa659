"""Rules about the recording itself, only where another recording would change the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from analyses.advice.facts import Confidence, PathFacts, PathFinding
from analyses.advice.host_rules import may_be_polling
from analyses.messages import advice
from hta_graph.base.arrays import distinct
from hta_graph.model import BoundBy, EventKind, Reason

SILENT_SHARE = 0.1
"""Time without an operator is reported from this share of the window on."""

LEAST_SILENT_NS = 1_000_000
"""Less than 1 ms is not worth another recording."""

START_UP_CALL_NS = 10_000_000
"""No call of a running program takes 10 ms but for waits and launches: it makes a context or loads code."""


def _finding(
    facts: PathFacts, said: advice.Advice, evidence: Mapping[str, Any], confidence: Confidence = "high"
) -> PathFinding:
    """Make a finding that says what to record in the words of the profiler that recorded."""
    is_export = "recorder" in facts.graph.trace.settings
    return PathFinding.of_advice(advice.in_words_of_nsight(said) if is_export else said, evidence, confidence)


def no_python_stacks(facts: PathFacts) -> PathFinding | None:
    """Much time passes outside of operators, and there are no Python stacks."""
    silent = facts.segments_in_classes(BoundBy.CPU_GAP)
    if facts.has_stacks or not facts.is_notable(facts.time_of(silent), SILENT_SHARE) or may_be_polling(facts):
        return None
    # On the path's own thread no operator is open then: what is open is another one's.
    time_ns = facts.time_of(silent) - facts.other_threads_ns
    if not facts.is_notable(time_ns, SILENT_SHARE) or time_ns < LEAST_SILENT_NS:
        return None
    largest = facts.largest_names(silent)
    evidence = {"cpu_gap_ns": time_ns, "largest": facts.largest_records(silent)}
    under = largest[0][0] if largest and 2 * largest[0][1] > time_ns else None
    return _finding(facts, advice.no_python_stacks(facts.timed(time_ns), under), evidence)


def no_sync_records(facts: PathFacts) -> PathFinding | None:
    """Calls wait for something that the trace does not name, and it holds no records of synchronisation."""
    waits = facts.path.segment_table.reason == Reason.WAIT_WITHOUT_RECORD
    if not facts.is_notable(facts.time_of(waits)):
        return None
    waits &= ~facts.owned_by(facts.graph.is_gpu)
    time_ns = facts.time_of(waits)
    # Counted, since a job's graph has no rows of records.
    has_records = facts.graph.diagnostics["sync_records"] > 0
    if not facts.is_notable(time_ns) or has_records or facts.graph.event_flags.amd_call.any():
        return None
    evidence = {"unexplained_ns": time_ns, "waits": int(waits.sum())}
    return _finding(facts, advice.no_sync_records(facts.timed(time_ns)), evidence)


def begun_too_late(facts: PathFacts) -> PathFinding | None:
    """The window begins with work that was enqueued before the recording."""
    # A rank of a job whose recording begins later may have had nothing to wait for.
    head_ns = int(facts.path.segment_table.length[facts.path.before_rank_began].sum())
    time_ns = facts.path.by_reason_ns.get(Reason.BEFORE_RECORDING.label, 0) - head_ns
    if not facts.is_notable(time_ns):
        return None
    return _finding(facts, advice.begun_too_late(facts.timed(time_ns)), {"unexplained_ns": time_ns})


def causes_not_recorded(facts: PathFacts) -> PathFinding | None:
    """Much time has no cause, and no other rule says how to record it."""
    if not facts.is_largely_unexplained or no_sync_records(facts) or begun_too_late(facts):
        return None
    reason, time_ns = max(facts.path.by_reason_ns.items(), key=lambda item: item[1])
    evidence = {"unexplained_ns": facts.path.by_bound_ns[BoundBy.UNEXPLAINED.label], "reason": reason}
    return _finding(facts, advice.causes_not_recorded(reason, facts.timed(time_ns)), evidence)


def no_gpu_rows(facts: PathFacts) -> PathFinding | None:
    """The host launches work, and the trace holds no row of a GPU."""
    calls = 0 if facts.has_gpu_rows else int(facts.graph.event_flags.enqueueing_call.sum())
    if not calls:
        return None
    return _finding(facts, advice.no_gpu_rows(calls), {"enqueueing_calls": calls})


def start_up_recorded(facts: PathFacts) -> PathFinding | None:
    """Most of a recording without warm-up is what programs do once: contexts, code that is loaded."""
    path, graph = facts.path, facts.graph
    steps = graph.steps()
    if steps and path.window.step != steps[0].number and not path.window.is_whole:
        return None
    events, flags = graph.event_table, graph.event_flags
    once = np.flatnonzero(events.end - events.start >= START_UP_CALL_NS)
    once = once[events.kind[once] == EventKind.RUNTIME]
    once = once[~(flags.blocking_call[once] | flags.enqueueing_call[once])]
    if not len(once):
        return None
    chosen = facts.segments_in_classes(BoundBy.CPU_BOUND) & facts.owned_by(facts.event_mask(once))
    time_ns = facts.time_of(chosen)
    if not facts.is_notable(time_ns):
        return None
    largest = facts.largest_names(chosen)
    evidence = {
        "time_ns": time_ns, "calls": len(distinct(path.segment_table.event[chosen])),
        "largest": facts.largest_records(chosen),
    }  # fmt: skip
    said = advice.start_up_recorded(facts.timed(time_ns), largest[0][0], largest[0][1])
    return _finding(facts, said, evidence, "medium")


def mostly_start_up_ns(finding: PathFinding, length_ns: int) -> int:
    """Return the time (ns) of :func:`start_up_recorded` where that is most of a window: then nothing else matters."""
    time_ns = int(finding.evidence["time_ns"])
    return time_ns if 2 * time_ns >= length_ns else 0
