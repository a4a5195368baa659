"""Rules about the recording itself, only where another recording would change the answer."""

from __future__ import annotations

from analyses.advice.facts import UNRECORDED_SHARE, PathFacts
from analyses.advice.host_facts import may_be_polling
from analyses.advice.rule import HOW_TO_RECORD, RECORD_FEWER_STEPS, Evidence, Fired, Rule
from analyses.declare.missing_work import rows_of_a_gpu_program
from hta_graph.base.arrays import distinct
from hta_graph.model import BoundBy, Reason
from hta_graph.paths.start_up import start_up_calls

SILENT_SHARE = 0.1
"""Time without an operator is reported from this share of the window on."""

LEAST_SILENT_NS = 1_000_000
"""Less than 1 ms is not worth another recording."""


def no_python_stacks(facts: PathFacts) -> Fired | None:
    """Much time passes outside of operators, and there are no Python stacks."""
    silent = facts.segments_in_classes(BoundBy.CPU_GAP)
    if facts.has_stacks or not facts.is_notable(facts.time_of(silent), SILENT_SHARE) or may_be_polling(facts):
        return None
    # On the path's own thread no operator is open then: what is open is another one's.
    time_ns = facts.time_of(silent) - facts.other_threads_ns
    if not facts.is_notable(time_ns, SILENT_SHARE) or time_ns < LEAST_SILENT_NS:
        return None
    largest = facts.largest_records(silent)
    under = largest[0]["name"] if largest and 2 * largest[0]["time_ns"] > time_ns else None
    return Fired({"cpu_gap_ns": time_ns, "largest": largest}, said={"under": under})


def no_sync_records(facts: PathFacts) -> Fired | None:
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
    return Fired({"unexplained_ns": time_ns, "waits": int(waits.sum())})


def begun_too_late(facts: PathFacts) -> Fired | None:
    """The window begins with work that was enqueued before the recording."""
    # A rank of a job whose recording begins later may have had nothing to wait for.
    head_ns = int(facts.path.segment_table.length[facts.path.before_rank_began].sum())
    time_ns = facts.path.by_reason_ns.get(Reason.BEFORE_RECORDING.label, 0) - head_ns
    if not facts.is_notable(time_ns):
        return None
    return Fired({"unexplained_ns": time_ns})


def causes_not_recorded(facts: PathFacts) -> Fired | None:
    """Much time has no cause, and no other rule says how to record it."""
    if not facts.is_largely_unexplained or no_sync_records(facts) or begun_too_late(facts):
        return None
    reason, time_ns = max(facts.path.by_reason_ns.items(), key=lambda item: item[1])
    if reason == Reason.NOT_RECORDED.label and work_not_recorded(facts):
        return None
    evidence = {"unexplained_ns": facts.path.by_bound_ns[BoundBy.UNEXPLAINED.label], "reason": reason}
    return Fired(evidence, said={"time_ns": time_ns, "how": HOW_TO_RECORD[reason]})


def no_gpu_rows(facts: PathFacts) -> Fired | None:
    """The host launches work, and the trace holds no row of a GPU."""
    shown_by = "" if facts.has_gpu_rows else rows_of_a_gpu_program(facts.graph)
    if not shown_by:
        return None
    return Fired({"enqueueing_calls": int(facts.graph.event_flags.enqueueing_call.sum())}, said={"shown_by": shown_by})


def work_not_recorded(facts: PathFacts) -> Fired | None:
    """For much of the window launched work is not recorded, while other work is."""
    time_ns = facts.not_recorded_ns
    if not facts.is_notable(time_ns, UNRECORDED_SHARE):
        return None
    return Fired({"not_recorded_ns": time_ns})


def start_up_recorded(facts: PathFacts) -> Fired | None:
    """Most of a recording without warm-up is what programs do once: contexts, code that is loaded."""
    path, graph = facts.path, facts.graph
    steps = graph.steps()
    if steps and path.window.step != steps[0].number and not path.window.is_whole:
        return None
    chosen = facts.segments_in_classes(BoundBy.CPU_BOUND) & facts.owned_by(facts.event_mask(start_up_calls(graph)))
    time_ns = facts.time_of(chosen)
    if not facts.is_notable(time_ns):
        return None
    calls = len(distinct(path.segment_table.event[chosen]))
    return Fired({"time_ns": time_ns, "calls": calls, "largest": facts.largest_records(chosen)}, "medium")


def mostly_start_up_ns(evidence: Evidence, length_ns: int) -> int:
    """Return the time (ns) of :func:`start_up_recorded` where that is most of a window: then nothing else matters."""
    time_ns = int(evidence["time_ns"])
    return time_ns if 2 * time_ns >= length_ns else 0


RECORDING = (
    Rule(
        "no_python_stacks", "recording", no_python_stacks,
        action="Record with with_stack=True",
        why="No operator is open for {cpu_gap_ns:part}{under:+, mostly under {under:name}}, and the trace has no "
        "Python stacks. Stacks show whether that time is Python, the framework or a wait.",
    ),
    Rule(
        "no_sync_records", "recording", no_sync_records,
        action="Record with enable_cuda_sync_events=True (torch._C._profiler._ExperimentalConfig)",
        why="Calls wait {unexplained_ns:part} for work that the trace does not identify.",
    ),
    Rule(
        "begun_too_late", "recording", begun_too_late,
        action="Start the profiler on an idle GPU (call torch.cuda.synchronize() first), or analyze a later window",
        why="For {unexplained_ns:part}, the window probably waits for work that was enqueued before the recording "
        "started.",
    ),
    Rule(
        "causes_not_recorded", "recording", causes_not_recorded,
        action="{how}",
        why="{time_ns:part} of the path has no recorded cause, so any of the causes that are known could be the wrong "
        "one to fix.",
    ),
    Rule(
        "no_gpu_rows", "recording", no_gpu_rows,
        action="Record with ProfilerActivity.CUDA and without hardware counters",
        why="The trace has {shown_by}, but no GPU activity. Without it, there are "
        "no results about the GPU.",
    ),
    Rule(
        "work_not_recorded", "recording", work_not_recorded,
        action=RECORD_FEWER_STEPS,
        why="Launched work is not recorded for {not_recorded_ns:part}: whether the GPU worked or was idle is unknown.",
    ),
    Rule(
        "start_up_recorded", "recording", start_up_recorded,
        action="Record later: pass schedule(wait=…, warmup=…) to the profiler and call prof.step()",
        why="One-time start-up takes {time_ns:part}, mostly {largest[0][name]:name} ({largest[0][time_ns]:time}).",
    ),
)  # fmt: skip
"""Rules of advice about the recording, in the order in which they are asked."""
