"""serving: the steps of an inference engine by phase, what bounds them, and why the GPU is idle between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analyses.advice.facts import PathFacts
from analyses.declare.analysis import Analysis
from analyses.declare.answer import Answer, Note
from analyses.declare.columns import Table, integer, ns, share, text
from analyses.declare.scope import Scope
from analyses.declare.tables import table_of
from analyses.display.charts import empty_figure, new_figure
from analyses.display.phrases import batch_sizes, counted_steps, engine_idle, median_length, other_phase
from analyses.display.sentence_format import brief_duration, brief_share, counted, quoted
from analyses.judgement.findings import leading
from analyses.source.window_report import window_name
from hta_graph.base.arrays import rows_by_value, take_or
from hta_graph.base.colours import BOUND_COLOUR, IDLE_COLOUR
from hta_graph.base.errors import Remedy
from hta_graph.graph.event_names import wrapped_frames
from hta_graph.model import EventKind
from hta_graph.paths.critical_path import critical_path
from hta_graph.paths.engine_gaps import StepGapCause, StepGaps, engine_gaps
from hta_graph.paths.engine_step_table import EngineStepRow, engine_step_table
from hta_graph.paths.intervals import union
from hta_graph.paths.windows import main_phase, median_step
from hta_graph.trace.engine_steps import read_step_name

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from hta_graph.model import Ints

__all__ = ["TABLES", "answer", "engine_phases", "engine_steps", "figure", "graph_sizes", "step_gaps"]

TITLE = "Engine steps: iteration by part"
CAUSES = {
    "scheduler": "the scheduler",
    "tokenizer": "the tokenizer or detokenizer",
    "sampling": "sampling on the CPU",
    "output": "processing of results",
    "requests": "receiving requests",
    "preparation": "preparing the step's inputs",
    "in_step": "host code in the step",
    "sync": "a synchronizing call",
    "host_code": "other host code",
    "waiting": "the engine's thread waits",
    "launching": "launching",
    "not_started": "launched work that does not start",
    "unrecorded": "no recorded cause",
    "other_ranks": "waiting for other ranks",
    "no_requests": "no requests to compute",
}
"""What each cause of an idle GPU is called in a sentence."""
BOUND_LABELS = {
    "gpu_compute": "GPU compute",
    "exposed_communication": "exposed communication",
    "host_between_steps": "the host between steps",
    "host_in_steps": "the host in the steps",
    "cpu_compute": "operators on the CPU",
    "too_few_requests": "too few requests",
    "not_recorded": "launched work that was not recorded",
}
"""What bounds a phase, as a sentence says it."""
PARTS = {
    "gpu_work_ns": "GPU compute and copies",
    "exposed_communication_ns": "exposed communication",
    "idle_before_ns": "GPU idle before the step's work",
    "idle_inside_ns": "GPU idle in the step's work",
}
"""What a figure calls the parts of an iteration."""
ONLY_REQUESTS = "only more requests use that time"
"""Where an engine has nothing to compute."""
NAME_STEPS = Remedy(
    "read_graphs(…, step_patterns=[…]) names the annotations that are steps",
    "--step-pattern names the annotations that are steps",
)
"""How to name some."""

RUNS_AS = ("graph", "partly graph", "eager", "no GPU work")
BOUNDS = tuple(BOUND_LABELS)
PHASE = Table(
    *("rank", "scope"),
    text("phase", "What the engine does in it: prefill, decode, mixed, verify, draft, image, idle, or how it runs."),
)
TOKENS = integer("tokens", "Tokens that are computed; null if no name contains it.", null=True)
TOKENS_PER_S = integer("tokens_per_s", "Tokens per second of iterations; null if tokens are not known.", null=True)
NUMBER_OF_STEPS = integer("steps", "Number of steps.")
TIME = ns("time_ns", "Total iteration time of its steps")
STEPS = Table(
    *("rank", "scope", integer("step", "Number of the step."), PHASE.columns[-1]),
    integer("requests", "Requests in the batch; null if no name contains it.", null=True),
    *(TOKENS, text("runs_as", "Whether graphs launch most of its GPU activities.", values=RUNS_AS)),
    ns("latency_ns", "From the start of its call to the end of its GPU work"),
    ns("waits_ns", "The part of the latency until earlier GPU work has ended"),
    ns("iteration_ns", "From the end of the GPU work before it to the end of its own"),
    ns("busy_ns", "Time with at least one of its GPU activities running"),
    ns("exposed_communication_ns", "Time with only communication of its GPU work running"),
    ns("idle_before_ns", "GPU idle before its first GPU work: the host between steps"),
    ns("idle_inside_ns", "GPU idle after its first GPU work"),
    ns("not_recorded_ns", "Time in which launched work that was not recorded may run"),
    *(integer("graph_launches", "Graphs that it launches."), "activities"),
    integer("padded_requests", "Batch size of the graph; null if no name contains it.", null=True),
    TOKENS_PER_S,
)
SHARES = Table(
    share("gpu_work_share", "Time with GPU compute or copies, of the phase's time", null=True),
    share("exposed_communication_share", "Exposed communication, of the phase's time", null=True),
    share("idle_before_share", "GPU idle before the steps' work, of the phase's time", null=True),
    share("idle_inside_share", "GPU idle in the steps' work, of the phase's time", null=True),
    share("not_recorded_share", "Time that was not recorded, of the phase's time", null=True),
)
PHASES = Table(
    *(PHASE, NUMBER_OF_STEPS, TIME),
    share("time_share", "The same, of all steps of the window", null=True),
    ns("median_ns", "Median iteration"),
    text("bound_by", "Largest part of its time.", values=BOUNDS),
    *(SHARES, TOKENS, TOKENS_PER_S),
)
GAPS = Table(
    PHASE,
    text("place", "Before the step's first GPU work, or after that.", values=["before", "inside"]),
    text("cause", "Part of the engine that works meanwhile.", values=[cause.label for cause in StepGapCause]),
    *("idle_ns", share("idle_share", "The same, of the idle time of all steps", null=True)),
    ns("per_step_ns", "The same, by step of the phase (before: without the first of the recording)"),
    "name",
)
SIZES = Table(
    *(PHASE, integer("padded_requests", "Batch size of the graph."), NUMBER_OF_STEPS),
    integer("requests", "Requests of all these steps."),
    *(share("padding_share", "Padding: requests that the graphs compute without need"), TIME),
)
UNKNOWN_NUMBERS = ("requests", "tokens", "padded_requests", "tokens_per_s")
MOSTLY = 0.5


@STEPS.returned
def engine_steps(scopes: Sequence[Scope]) -> pd.DataFrame:
    """List the steps of an inference engine.

    A step's GPU work is what is launched from its start to that of the next step. Its iteration reaches from the end of
    the GPU work before it to the end of its own.
    """
    found = table_of(scopes, lambda scope: [_step_record(row) for row in _steps_of(scope)], STEPS)
    return found.astype(dict.fromkeys(UNKNOWN_NUMBERS, "Int64"))


def _steps_of(scope: Scope) -> list[EngineStepRow]:
    """Return the engine steps that start in a window."""
    every = engine_step_table(scope.graph)
    inside = scope.holds(np.array([row.event for row in every], np.int64))
    return [row for row, is_inside in zip(every, inside.tolist(), strict=True) if is_inside]


def _step_record(row: EngineStepRow) -> dict[str, Any]:
    return {
        "step": row.number,
        "phase": row.phase,
        "requests": _known(row.engine.requests),
        "tokens": _known(row.engine.tokens),
        "runs_as": _runs_as(row),
        "latency_ns": row.latency_ns,
        "waits_ns": row.waits_ns + row.before_recording_ns,
        "iteration_ns": row.own_ns,
        "busy_ns": row.busy_ns,
        "exposed_communication_ns": row.exposed_ns,
        **_idle_of(row),
        "not_recorded_ns": row.not_recorded_ns,
        "graph_launches": row.graph_launches,
        "activities": row.activities,
        "padded_requests": _known(row.engine.padded_requests),
        "tokens_per_s": _known(None if row.tokens_per_s is None else round(row.tokens_per_s)),
    }


def _idle_of(row: EngineStepRow) -> dict[str, int]:
    """Return how long the GPU is idle before a step's work and after its begin, without unrecorded earlier work."""
    before = max(row.idle_before_ns - row.before_recording_ns, 0)
    return {"idle_before_ns": before, "idle_inside_ns": row.idle_ns - before}


def _known(number: int | None) -> Any:
    return pd.NA if number is None else number


def _runs_as(row: EngineStepRow) -> str:
    """Say whether most of a step's GPU activities are launched by graphs."""
    if not row.activities or row.is_on_cpu:
        return "no GPU work"
    if not row.activities_in_graphs:
        return "eager"
    return "graph" if row.activities_in_graphs > MOSTLY * row.activities else "partly graph"


@PHASES.returned
def engine_phases(scopes: Sequence[Scope]) -> pd.DataFrame:
    """Sum up the steps of each phase, most time first; the recording's first is in the median only if it is alone."""
    found = table_of(scopes, lambda scope: _phase_records(_steps_of(scope), _times_without_requests(scope)), PHASES)
    return found.astype(dict.fromkeys(("tokens", "tokens_per_s"), "Int64"))


def _times_without_requests(scope: Scope) -> Counter[int]:
    """Return how long (ns) the GPU is idle before each step, by its number, because no request was to be computed."""
    table, gaps, found = engine_step_table(scope.graph), engine_gaps(scope.graph), Counter[int]()
    gaps = gaps.take(gaps.cause == StepGapCause.NO_REQUESTS)
    for step, length in zip(gaps.step.tolist(), gaps.length.tolist(), strict=True):
        found[table[step].number] += length
    return found


def _phase_records(rows: Sequence[EngineStepRow], unused: Mapping[int, int]) -> list[dict[str, Any]]:
    every = sum(row.own_ns for row in rows)
    found = [
        _phase_record(phase, [row for row in rows if row.phase == phase], every, unused) for phase in _phases(rows)
    ]
    return sorted(found, key=lambda record: -record["time_ns"])


def _phases(rows: Sequence[EngineStepRow]) -> list[str]:
    return list(dict.fromkeys(row.phase for row in rows))


def _phase_record(
    phase: str, rows: Sequence[EngineStepRow], every_ns: int, unused: Mapping[int, int]
) -> dict[str, Any]:
    time_ns, parts = sum(row.own_ns for row in rows), _parts_of_time(rows)
    tokens = [row.engine.tokens for row in rows if row.engine.tokens is not None]
    known = len(tokens) == len(rows)
    bounds = "cpu_compute" if rows[0].is_on_cpu else "gpu_compute", *BOUNDS[1:4], "not_recorded"
    shares = dict(zip(bounds, parts, strict=True))
    shares["too_few_requests"] = sum(unused.get(row.number, 0) for row in rows)
    shares["host_between_steps"] -= shares["too_few_requests"]
    return {
        "phase": phase,
        "steps": len(rows),
        "time_ns": time_ns,
        "time_share": time_ns / every_ns if every_ns else None,
        "median_ns": _median_step(rows).own_ns,
        "bound_by": max(shares, key=lambda bound: shares[bound]),
        **{column: part / time_ns if time_ns else None for column, part in zip(SHARES, parts, strict=True)},
        "tokens": sum(tokens) if known else pd.NA,
        "tokens_per_s": round(sum(tokens) / time_ns * 1e9) if known and time_ns else pd.NA,
    }


def _whole(rows: Sequence[EngineStepRow]) -> Sequence[EngineStepRow]:
    """Leave out the recording's first step, where there are others: no end of the work before it is known."""
    return [row for row in rows if not row.is_first] or rows


def _median_step(rows: Sequence[EngineStepRow]) -> EngineStepRow:
    """Return the step of median iteration, as the critical path's default window does."""
    whole = _whole(rows)
    return sorted(whole, key=lambda row: row.own_ns)[(len(whole) - 1) // 2]


def _parts_of_time(rows: Sequence[EngineStepRow]) -> tuple[int, int, int, int, int]:
    """Return how long the GPU works, only communicates, is idle before and in steps, and what is not recorded (ns)."""
    exposed, idle = sum(row.exposed_ns for row in rows), [_idle_of(row) for row in rows]
    before, inside = (sum(one[place] for one in idle) for place in ("idle_before_ns", "idle_inside_ns"))
    unknown = sum(row.not_recorded_ns for row in rows)
    return sum(row.own_ns for row in rows) - exposed - before - inside - unknown, exposed, before, inside, unknown


@GAPS.returned
def step_gaps(scopes: Sequence[Scope]) -> pd.DataFrame:
    """Divide the GPU's idle time in steps and between them by the part of the engine that works meanwhile.

    The name is that of the annotation, frame, operator or call with most of it. Most idle time comes first.
    """
    return table_of(scopes, _gap_records, GAPS)


def _gap_records(scope: Scope) -> list[dict[str, Any]]:
    table, rows, gaps = engine_step_table(scope.graph), _steps_of(scope), engine_gaps(scope.graph)
    chosen = {row.number for row in rows}
    gaps = gaps.take(np.isin(gaps.step, [at for at, row in enumerate(table) if row.number in chosen]))
    # A user's pattern reads phases that no engine names.
    phases = _phases(table)
    phase_of = np.array([phases.index(row.phase) for row in table], np.int64)
    every = int(gaps.length.sum())
    steps = Counter((row.phase, True) for row in rows) + Counter((row.phase, False) for row in rows if not row.is_first)
    key = (phase_of[gaps.step] * 2 + gaps.is_inside) * len(StepGapCause) + gaps.cause
    found = [_gap_record(scope, gaps.take(at), table, steps, every) for at in rows_by_value(key).values()]
    return sorted(found, key=lambda record: (-record["idle_ns"], record["phase"], record["cause"]))


def _gap_record(
    scope: Scope, gaps: StepGaps, table: Sequence[EngineStepRow], steps: Counter[tuple[str, bool]], every_ns: int
) -> dict[str, Any]:
    phase, idle_ns, is_inside = table[int(gaps.step[0])].phase, int(gaps.length.sum()), bool(gaps.is_inside[0])
    return {
        "phase": phase,
        "place": "inside" if is_inside else "before",
        "cause": StepGapCause(int(gaps.cause[0])).label,
        "idle_ns": idle_ns,
        "idle_share": idle_ns / every_ns if every_ns else None,
        # Before the first step of a recording no end of earlier work is known.
        "per_step_ns": round(idle_ns / max(steps[phase, is_inside], 1)),
        "name": _most_idle_name(scope, gaps),
    }


def _most_idle_name(scope: Scope, gaps: StepGaps) -> str | None:
    """Return the name of the rows that have most of some idle time; None where no row has."""
    sums: Counter[str | None] = Counter()
    events = take_or(wrapped_frames(scope.graph), gaps.event)
    for event, length in zip(events.tolist(), gaps.length.tolist(), strict=True):
        sums[scope.graph.name_of(event) if event >= 0 else None] += length
    return max(sums, key=lambda name: sums[name])


@SIZES.returned
def graph_sizes(scopes: Sequence[Scope]) -> pd.DataFrame:
    """List the batch sizes of the graphs that steps replay, where names of steps contain them."""
    return table_of(scopes, lambda scope: _size_records(_steps_of(scope)), SIZES)


def _size_records(rows: Sequence[EngineStepRow]) -> list[dict[str, Any]]:
    sized = [row for row in rows if row.engine.padded_requests and row.engine.requests is not None]
    found = []
    for phase, size in sorted({(row.phase, row.engine.padded_requests or 0) for row in sized}):
        alike = [row for row in sized if (row.phase, row.engine.padded_requests) == (phase, size)]
        requests = sum(row.engine.requests or 0 for row in alike)
        found.append(
            {
                "phase": phase,
                "padded_requests": size,
                "steps": len(alike),
                "requests": requests,
                "padding_share": 1 - requests / (size * len(alike)),
                "time_ns": sum(row.own_ns for row in alike),
            }
        )
    return found


def answer(scopes: Sequence[Scope]) -> Answer:
    """Return the tables ``engine_phases``, ``step_gaps``, ``engine_steps`` and ``graph_sizes``.

    Args:
        scopes: where to look.
    """
    tables = {
        "engine_phases": engine_phases(scopes),
        "step_gaps": step_gaps(scopes),
        "engine_steps": engine_steps(scopes),
        "graph_sizes": graph_sizes(scopes),
    }
    notes: list[str | Note] = [
        Note(f"rank {rank}: the window has no steps of an inference engine", NAME_STEPS)
        for rank in _ranks_without_steps(scopes)
    ]
    if on_cpu := [scope.rank for scope in scopes if any(row.is_on_cpu for row in _steps_of(scope))]:
        notes.append(_no_gpu_work(list(dict.fromkeys(on_cpu))))
    notes += [note for scope in scopes for note in [*_notes_on_threads(scope), *_notes_on_launches(scope)]]
    notes += [note for scope in scopes for note in _notes_on_waits(scope)]
    return Answer(tables, notes, conclusion=_conclusion(scopes, tables))


def _no_gpu_work(ranks: Sequence[int]) -> str:
    """Say of what the table speaks where ranks have no GPU work.

    >>> _no_gpu_work([0, 1])
    '2 ranks have no GPU work: "GPU work" is operators of the steps on the CPU, and "idle" is time outside them'
    """
    who = f"rank {ranks[0]} has" if len(ranks) == 1 else f"{len(ranks):,} ranks have"
    return f'{who} no GPU work: "GPU work" is operators of the steps on the CPU, and "idle" is time outside them'


def _ranks_without_steps(scopes: Sequence[Scope]) -> list[int]:
    return list(dict.fromkeys(scope.rank for scope in scopes if not _steps_of(scope)))


def _notes_on_threads(scope: Scope) -> list[str]:
    """Say where threads that launch GPU work name steps at the same time: two engines in one process."""
    events, names, on_gpu = scope.graph.event_table, scope.graph.names, scope.graph.launching_call
    launch = np.unique(events.lane[on_gpu[on_gpu >= 0]])
    rows = np.flatnonzero((events.kind == EventKind.ANNOTATION) & np.isin(events.lane, launch))
    rows = rows[scope.holds(rows)]
    steps = [code for code in np.unique(events.name[rows]).tolist() if read_step_name(names[code]) is not None]
    rows = rows[np.isin(events.name[rows], steps)]
    threads = [rows[of] for of in rows_by_value(events.lane[rows]).values()]
    times = [union(events.start[of], events.end[of]) for of in threads]
    apart = union(events.start[rows], events.end[rows]).total
    is_overlapping = sum(one.total for one in times) - apart > LEAST_IDLE * apart
    if is_overlapping:
        return [
            (
                f"rank {scope.rank}: {len(threads):,} threads name steps at the same time; overlapping steps count as "
                "one, with what all threads launch"
            )
        ]
    return []


def _notes_on_launches(scope: Scope) -> list[str]:
    """Say how much GPU work has no launch in the file, where that is not little of the steps' time."""
    rows, events = _steps_of(scope), scope.graph.event_table
    if not rows:
        return []
    begins, ends = min(row.gpu_start_ns for row in rows), max(row.gpu_end_ns for row in rows)
    lost = np.flatnonzero(scope.graph.is_gpu & (scope.graph.launching_call < 0))
    lost = lost[(events.start[lost] >= begins) & (events.end[lost] <= ends)]
    time_ns = union(events.start[lost], events.end[lost]).total
    is_notable = time_ns > LEAST_IDLE * (ends - begins)
    return [_without_launch(scope.rank, len(lost), time_ns)] if is_notable else []


def _without_launch(rank: int, activities: int, ns: int) -> str:
    """Say how much GPU work belongs to no step because its launch is not recorded.

    >>> _without_launch(0, 20, 20_000_000)
    'rank 0: 20 GPU activities (20.0 ms) have no recorded launch and count for no step'
    """
    return (
        f"rank {rank}: {counted(activities, 'GPU activity', 'GPU activities')} ({brief_duration(ns)}) "
        f"{'has' if activities == 1 else 'have'} no recorded launch and {'counts' if activities == 1 else 'count'} "
        "for no step"
    )


NOTES_ON_WAITS = 3
ALIKE = 0.05
"""A first step that waits for less than this share of its latency needs no note."""


def _notes_on_waits(scope: Scope) -> list[str]:
    """Name the steps most of whose latency is GPU work of the steps before, those that wait longest first."""
    rows = _steps_of(scope)
    late = [row for row in rows if not row.is_first and row.waits_ns > max(MOSTLY * row.latency_ns, 2 * row.own_ns)]
    late = sorted(late, key=lambda row: -row.waits_ns)[:NOTES_ON_WAITS]
    first = [row for row in rows if row.unrecorded_ns > ALIKE * row.latency_ns]
    return [
        *(
            f"{row.label}: {brief_duration(row.unrecorded_ns)} of its {brief_duration(row.latency_ns)} latency waits "
            "for GPU work from before the recording, which is not counted as its own"
            for row in first
        ),
        *(
            f"{row.label}: {brief_duration(row.waits_ns)} of its {brief_duration(row.latency_ns)} latency waits for "
            "GPU work of earlier steps, which is not counted as its own"
            for row in late
        ),
    ]


def _conclusion(scopes: Sequence[Scope], tables: dict[str, pd.DataFrame]) -> list[str]:
    """Return the headline: the phase with most time on the rank whose GPU is idle longest in it, and why it is.

    Where a rank waits for the others, they are looked at.
    """
    steps = [(scope, row) for scope in scopes for row in _steps_of(scope)]
    phase = main_phase([row.phase for _, row in steps], [row.own_ns for _, row in steps])
    if phase is None:
        return []
    of_phase = [(scope, row) for scope, row in steps if row.phase == phase]
    idle: Counter[int] = Counter({scope.rank: 0 for scope, _ in of_phase})
    for scope, row in of_phase:
        idle[scope.rank] += row.idle_ns
    gaps = tables["step_gaps"]
    for_others = gaps[(gaps["phase"] == phase) & (gaps["cause"] == StepGapCause.OTHER_RANKS.label)]
    for at, waits_ns in zip(for_others["rank"].tolist(), for_others["idle_ns"].tolist(), strict=True):
        idle[at] -= waits_ns
    rank = max(idle, key=lambda at: idle[at])
    rows = [row for scope, row in of_phase if scope.rank == rank]
    unused = sum((_times_without_requests(scope) for scope in scopes if scope.rank == rank), Counter[int]())
    record = _phase_record(phase, rows, 0, unused)
    usual = _median_step(rows)
    where = f" on rank {rank}" if len(idle) > 1 else ""
    subject, bound, on_cpu = f"{_subject(rows)}{where}", record["bound_by"], rows[0].is_on_cpu
    said = [_headline(subject, usual.own_ns, _idle_of(usual), bound, len(rows), on_cpu=on_cpu)]
    said += _judged(scopes[0]) if len(scopes) == 1 else []
    said += _longest(rows)
    others = [row for scope, row in steps if scope.rank == rank]
    own = gaps[gaps["rank"] == rank]
    largest = _largest_cause(own[own["phase"] == phase], rows, _steps_in_gaps(scopes, rank))
    said += largest or _idle_in_others(own, others)
    said += _other_phases(phase, others)
    return ["; ".join(said), *_padding(tables["graph_sizes"], rank)]


def _headline(subject: str, length_ns: int, idle_ns: Mapping[str, int], bound: str, steps: int, *, on_cpu: bool) -> str:
    """Say how long the steps of the main phase take, and what most of that is."""
    length = median_length(length_ns) if steps > 1 else brief_duration(length_ns)
    said = engine_idle(idle_ns["idle_before_ns"], idle_ns["idle_inside_ns"], length_ns, on_cpu=on_cpu)
    return f"{subject}: {length}, mostly {BOUND_LABELS[bound]}; {said}"


def _steps_in_gaps(scopes: Sequence[Scope], rank: int) -> Counter[tuple[str, int]]:
    """Return how long (ns) the GPU is idle by cause and step of a rank."""
    found: Counter[tuple[str, int]] = Counter()
    for scope in scopes:
        if scope.rank == rank:
            numbers = {row.number for row in _steps_of(scope)}
            table, gaps = engine_step_table(scope.graph), engine_gaps(scope.graph)
            for step, cause, length in zip(gaps.step.tolist(), gaps.cause.tolist(), gaps.length.tolist(), strict=True):
                if table[step].number in numbers:
                    found[StepGapCause(cause).label, table[step].number] += length
    return found


def _subject(rows: Sequence[EngineStepRow]) -> str:
    return counted_steps(len(rows), rows[0].phase, _sizes(rows), [row.graph_launches for row in rows])


def _sizes(rows: Sequence[EngineStepRow]) -> str:
    requests = [row.engine.requests for row in rows if row.engine.requests is not None]
    tokens = [row.engine.tokens for row in rows if row.engine.tokens is not None]
    return batch_sizes(requests, tokens, rows[0].engine.image_size)


def _longest(rows: Sequence[EngineStepRow]) -> list[str]:
    """Name the step that takes most of the time of at least three: a long prompt that all requests wait for."""
    longest, total = max(rows, key=lambda row: row.own_ns), sum(row.own_ns for row in rows)
    if len(rows) <= 2 or longest.own_ns <= MOSTLY * total:
        return []
    return [
        (
            f"{longest.label}{_sizes([longest])} alone takes {brief_duration(longest.own_ns)} "
            f"({brief_share(longest.own_ns / total)} of their time)"
        )
    ]


LEAST_IDLE = 0.05
"""Idle time below this share of a phase's time has no cause in the headline."""


def _judged(scope: Scope) -> list[str]:
    """Return the first finding on the step that stands for the others, or on the window that was asked for."""
    window = median_step() if scope.is_open else scope.window
    facts = PathFacts.of(critical_path(scope.graph, window))
    first = leading(facts)
    return [f"{window_name(facts.path.window)}: {first.lead}"] if first else []


def _largest_cause(gaps: pd.DataFrame, rows: Sequence[EngineStepRow], by_step: Counter[tuple[str, int]]) -> list[str]:
    total, time_ns = int(gaps["idle_ns"].sum()), sum(row.own_ns for row in rows)
    if not time_ns or total < LEAST_IDLE * time_ns:
        return []
    cause, name, cause_ns = _largest_of(gaps)
    in_steps = {row.number: by_step[cause, row.number] for row in rows}
    worst = max(in_steps, key=lambda number: in_steps[number])
    saving = _saves_per_step(cause_ns, len(_whole(rows)))
    if cause == StepGapCause.NO_REQUESTS.label:
        saving = ONLY_REQUESTS
    elif len(rows) > 2 and in_steps[worst] > MOSTLY * cause_ns:
        saving = (
            f"most of it is in step {worst} alone, where removing it saves at most {brief_duration(in_steps[worst])}"
        )
    named = f", {quoted(name)}" if name else ""
    of = "time outside operators" if rows[0].is_on_cpu else "idle time"
    return [f"largest cause of {of}: {CAUSES[cause]} ({brief_share(cause_ns / total)} of it{named}); {saving}"]


def _saves_per_step(ns: int, steps: int) -> str:
    """Bound what removing a cause saves, which is in many steps.

    >>> _saves_per_step(3_000_000, 12), _saves_per_step(3_000_000, 1)
    ('removing it saves at most 250.0 µs per step on average', 'removing it saves at most 3.00 ms')
    """
    return f"removing it saves at most {brief_duration(round(ns / steps))}{' per step on average' * (steps > 1)}"


def _largest_of(gaps: pd.DataFrame) -> tuple[str, str, int]:
    """Return the cause of most idle time, the name with most of it, and the time (ns)."""
    sums = gaps.groupby("cause")["idle_ns"].sum()
    cause = str(sums.idxmax())
    names = gaps[gaps["cause"] == cause].sort_values("idle_ns", ascending=False)["name"]
    return cause, names.iloc[0] if pd.notna(names.iloc[0]) else "", int(sums[cause])


def _idle_in_others(gaps: pd.DataFrame, rows: Sequence[EngineStepRow]) -> list[str]:
    """Name the phase in which the GPU is idle, where that is another one than the phase with most time."""
    total, time_ns = int(gaps["idle_ns"].sum()), sum(row.own_ns for row in rows)
    if not time_ns or total < LEAST_IDLE * time_ns or rows[0].is_on_cpu:
        return []
    sums = gaps.groupby("phase")["idle_ns"].sum()
    phase = str(sums.idxmax())
    cause, name, cause_ns = _largest_of(gaps[gaps["phase"] == phase])
    named = f", {quoted(name)}" if name else ""
    return [
        (
            f"over all steps the GPU is idle {brief_share(total / time_ns)} of the time, mostly in {phase} steps: "
            f"{CAUSES[cause]} ({brief_share(cause_ns / int(sums[phase]))} of that{named})"
        )
    ]


PHASES_NAMED = 3


def _other_phases(phase: str, rows: Sequence[EngineStepRow]) -> list[str]:
    """Say what share of the time the steps of other phases take."""
    others = [record for record in _phase_records(rows, {}) if record["phase"] != phase and record["time_share"]]
    return [other_phase(record["steps"], record["phase"], record["time_share"]) for record in others[:PHASES_NAMED]]


def _padding(sizes: pd.DataFrame, rank: int) -> list[str]:
    """Say what share of the requests of graphs is padding, where some is."""
    own = sizes[sizes["rank"] == rank]
    computed = int((own["padded_requests"] * own["steps"]).sum()) if len(own) else 0
    unused = computed - int(own["requests"].sum()) if len(own) else 0
    if unused:
        return [
            (
                f"padding to the batch sizes of CUDA graphs is {brief_share(unused / computed)} of the requests "
                f"computed in {counted(int(own['steps'].sum()), 'step')}"
            )
        ]
    return []


PART_COLOUR = {
    "gpu_work_ns": BOUND_COLOUR["gpu_compute_bound"],
    "exposed_communication_ns": BOUND_COLOUR["gpu_communication_bound"],
    "idle_before_ns": IDLE_COLOUR,
    "idle_inside_ns": BOUND_COLOUR["gpu_kernel_launch_overhead"],
}


def figure(found: Answer) -> Figure:
    """Draw the iteration of each step: GPU work, exposed communication, and idle time before and in its work."""
    frame = found.tables["engine_steps"]
    if not len(frame):
        return empty_figure(TITLE, "no steps of an inference engine")
    made = new_figure(title=TITLE, x="step", y="ms")
    several = len(set(frame["rank"])) > 1
    labels = [
        f"{f'rank {rank}, ' if several else ''}{step} {phase}"
        for rank, step, phase in zip(frame["rank"], frame["step"], frame["phase"], strict=True)
    ]
    for column, values in time_parts(frame).items():
        made.add_bar(name=PARTS[column], x=labels, y=values / 1e6, marker_color=PART_COLOUR[column])
    made.update_layout(barmode="stack", bargap=0.1)
    return made


def time_parts(frame: pd.DataFrame) -> dict[str, Ints]:
    """Return the parts of the iterations (ns) in a table of steps, in the order of :data:`PARTS`."""
    idle = frame["idle_before_ns"] + frame["idle_inside_ns"]
    work = frame["iteration_ns"] - frame["exposed_communication_ns"] - idle
    return {column: (work if column == "gpu_work_ns" else frame[column]).to_numpy(np.int64) for column in PARTS}


TABLES = {
    "engine_phases": PHASES,
    "step_gaps": GAPS,
    "engine_steps": STEPS,
    "graph_sizes": SIZES,
}

ANALYSIS = Analysis(
    name="serving",
    help="Steps of an inference engine: phases, what bounds them, and why the GPU is idle between them.",
    more="Steps are the annotations of vLLM, SGLang, TensorRT-LLM, ATOM and xDiT, or those that --step-pattern names.",
    question="which phase of serving takes the time, and why is the GPU idle between steps?",
    examples=("serving trace.json.gz", "serving job -o steps.csv"),
    tables=TABLES,
    answer=answer,
    figure=figure,
    judges=True,
)
