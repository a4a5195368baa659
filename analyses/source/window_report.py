"""What answers say about a window, for people and for programs: its steps, ranks, hosts and near-critical work.

Lines of the command line and records of JSON are next to each other, so that both say the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from analyses.display.labels import short_labels
from analyses.display.phrases import (
    LATENCY,
    NOT_RECORDED,
    OTHER_STEP,
    RANKS_LISTED,
    batch_sizes,
    counted_steps,
    engine_idle,
    median_length,
    more_ranks,
    other_phase,
    short_label,
)
from analyses.display.sentence_format import and_more, brief_duration, brief_share, counted, enumerated, headline_name
from analyses.display.text_layout import Line, clipped, duration_text, percent, table
from hta_graph.base.arrays import distinct, summed_by
from hta_graph.base.text.sanitize import one_line
from hta_graph.base.text.shorten import short_names
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.rank_summary import RankSummary
from hta_graph.model import BoundBy, EdgeKind, EdgeRule, EventKind
from hta_graph.paths.critical_path import CriticalPath
from hta_graph.paths.engine_step_table import EngineStepRow, engine_step_table
from hta_graph.paths.rank_crossings import crossings, held_up_by
from hta_graph.paths.step_table import OUTLIER_FACTOR, StepRow, kinds_of_unlike_length, notable_steps, step_rows
from hta_graph.paths.windows import StepLength, Window, step_lengths
from hta_graph.trace.engine_steps import BY_GRAPH_LAUNCH

if TYPE_CHECKING:
    from hta_graph.multi_rank.job_verdict import JobVerdict
    from hta_graph.what_if.slack import NearCritical

NO_GPU = "no GPU activity in the trace"
LONGER_NAMED = 3
"""More longer steps than this are counted."""
KINDS_NAMED = 3
"""More kinds of steps than this are counted."""
ALTERNATIVES = "alternative paths to the end of the window: the longest of each kind that is not on the critical path"

EACH_GRAPH_LAUNCH = (
    "No annotation names a step: each graph launch is taken as one, because the host waits for the GPU between them."
)


NOISE_SAID_NS = 5_000
"""Where bounds contradict each other by less, no answer depends on it."""


def clock_lines(clocks: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say of the clocks (``graph.gpu_clock``) that are not the host's how far they are ahead or behind, in one line."""
    told = [
        _gpu_clock(offsets, clock["pieces"][0]["drift_ppm"], noise)
        for clock in clocks
        for noise in [clock["noise_ns"] if clock["noise_ns"] >= NOISE_SAID_NS else 0]
        if any(offsets := [piece["offset_ns"] or 0 for piece in clock["pieces"]]) or noise
    ]
    return told if len(told) < 2 else [f"{told[0]} The clocks of {counted(len(told) - 1, 'other device')} also differ."]


def _gpu_clock(offsets_ns: Sequence[int], drift_ppm: float, noise_ns: int) -> str:
    """Say how far a GPU clock is ahead of the host clock, in each part of the trace, and that this is corrected."""
    if noise_ns:
        return f"The GPU and host clocks contradict each other by up to {brief_duration(noise_ns)}."
    if len(offsets_ns) > 1:
        jumps = "once" if len(offsets_ns) == 2 else f"{len(offsets_ns) - 1} times"
        low, high = _ahead_or_behind(min(offsets_ns)), _ahead_or_behind(max(offsets_ns))
        return f"The GPU clock jumps {jumps} ({low} to {high} the host clock); GPU times are corrected."
    drift = f" and drifts by {drift_ppm:.0f} ppm" if drift_ppm else ""
    return f"The GPU clock is {_ahead_or_behind(offsets_ns[0])} the host clock{drift}; GPU times are corrected."


def _ahead_or_behind(offset_ns: int) -> str:
    return f"{brief_duration(abs(offset_ns))} {'ahead of' if offset_ns > 0 else 'behind'}"


def sync_record_lines(diagnostics: Mapping[str, int]) -> list[str]:
    """Warn where the file's synchronization records contradict its times and are set aside."""
    contradicted = diagnostics["sync_records_contradicted"]
    if contradicted:
        return [
            (
                f"Synchronization records were not used: {counted(contradicted, 'record')} name work that ended after "
                "the call returned. Waits are inferred instead."
            )
        ]
    return []


def unknown_wait_lines(graph: DependencyGraph) -> list[str]:
    """Name the calls that no vocabulary knows and that are taken as waits for the GPU."""
    edges = graph.edges_of(EdgeKind.STREAM_SYNC)
    calls = distinct(edges.target[graph.edge_table.rule[edges.row] == EdgeRule.RETURNED_WITH_WORK])
    names = list(dict.fromkeys(one_line(graph.name_of(call)) for call in calls.tolist()))
    if names:
        return [
            (
                f"{', '.join(short_names(names[:NAMES_LISTED]))}: {counted(len(calls), 'call')} taken as waits. The "
                "name is not in the vocabulary, but they return when the GPU runs out of work."
            )
        ]
    return []


def clock_notes(clocks_of: Mapping[int, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Name the ranks whose GPU clock is not the host's."""
    return [
        f"Rank {rank}: {line[0].lower()}{line[1:]}"
        for rank, clocks in clocks_of.items()
        for line in clock_lines(clocks)
    ]


NAMES_LISTED = 3
STEPS_LISTED = 24
ALIKE = 0.05
"""Latency and iteration are both given where they differ by more than this."""

DIGITS = re.compile(r"\d+")


@dataclass(frozen=True)
class WindowFacts:
    """What a graph knows of a window, asked once, so that the sentences about it ask no graph.

    ``steps`` are all steps of the trace. ``row`` is the step of an inference engine that the window is, ``engine`` are
    all of its steps; of a job those of its first rank with all rows.
    """

    window: Window
    is_job: bool
    has_gpu: bool
    steps: Sequence[StepLength]
    engine: Sequence[EngineStepRow]
    row: EngineStepRow | None

    @classmethod
    def of(cls, window: Window, graph: DependencyGraph) -> WindowFacts:
        """Ask a graph."""
        engine = () if window.step is None or window.form == "cpu" else engine_rows(graph)
        row = next((row for row in engine if row.number == window.step), None)
        return cls(window, graph.is_job, bool(graph.is_gpu.any()), step_lengths(graph), engine, row)

    @property
    def length_ns(self) -> int:
        """The length of the window."""
        return self.window.end_ns - self.window.start_ns

    @property
    def alike(self) -> list[EngineStepRow]:
        """The engine's steps of the same phase."""
        row = self.row
        return [one for one in self.engine if row and one.phase == row.phase and (len(one.rows) or one is row)]

    @property
    def represents_phase(self) -> bool:
        """Whether the window was chosen as the median of several engine steps of one phase."""
        return self.window.is_default and len(self.alike) > 1

    @property
    def has_iteration(self) -> bool:
        """Whether a step's latency is analyzed and its iteration is of another length: only these tile the run."""
        if self.window.step is None or self.window.form != "usual" or not self.has_gpu:
            return False
        return abs(self.window.gpu_ns - self.length_ns) > ALIKE * self.length_ns

    @property
    def is_first_step(self) -> bool:
        """Whether the window is the first step of the trace: its iteration begins before what is recorded."""
        return self.window.step is not None and self.window.step == next((one.number for one in self.steps), -1)


def window_lines(facts: WindowFacts) -> list[str]:
    """Name a window and its lengths: iteration, latency and time on the CPU are different things."""
    window, length, has_gpu, is_first = facts.window, facts.length_ns, facts.has_gpu, facts.is_first_step
    label, on_cpu = short_label(window.label), f"{duration_text(window.cpu_ns)} on the CPU"
    if not window.is_named:
        # The recording may be longer on both sides: events without work before it, polls behind it.
        return [_part_of_trace(label, length, is_whole=window.label == "whole trace", has_gpu=has_gpu)]
    if window.step is not None and window.form == "gpu" and (facts.is_job or (is_first and has_gpu)):
        if is_first and facts.row is not None and not facts.is_job:
            from_first = "from its first GPU work (no previous step) to the end of that work"
            return [f"{label}: {duration_text(length)}, {from_first}"]
        return [_job_iteration(label, length, is_first=is_first)]
    if not has_gpu:
        follows = [_iteration(window.gpu_ns)] if window.form == "gpu" and not is_first else []
        return [f"{label}: {'; '.join([*follows, on_cpu, NO_GPU])}"]
    latency = f"latency {duration_text(length)}, from its start to the end of its last work"
    iteration = "iteration: not recorded (no previous step)" if is_first else _iteration(window.gpu_ns)
    if window.step is None:
        return [f"{label}: {latency}; {on_cpu}" if window.form == "usual" else f"{label}: {on_cpu}"]
    if window.form == "usual":
        of_latency = (
            ["  Percentages are of the latency; use --gpu-window for the iteration."] if facts.has_iteration else []
        )
        return [f"{label}: {latency}", f"  {iteration}; {on_cpu}", *of_latency]
    return (
        [f"{label}: {on_cpu}", f"  {iteration}"] if window.form == "cpu" else [f"{label}: {iteration}", f"  {on_cpu}"]
    )


def _part_of_trace(label: str, length_ns: int, *, is_whole: bool, has_gpu: bool) -> str:
    """Name a window without a name of its own, or the whole trace."""
    extent = ", from the first operator, call or GPU activity to the end of the last work" if is_whole else ""
    return f"{label}: {duration_text(length_ns)}{extent}{'' if has_gpu else f'; {NO_GPU}'}"


def _job_iteration(label: str, length_ns: int, *, is_first: bool) -> str:
    """Name the iteration of a job; before the first step nothing is recorded."""
    if is_first:
        return f"{label}: {duration_text(length_ns)}, from its start (no previous step) to the end of its work"
    return (
        f"{label}: iteration {duration_text(length_ns)}, from the end of the previous step's work on all ranks to the "
        "end of this step's work"
    )


def _iteration(gpu_ns: int) -> str:
    """Name an iteration."""
    return f"iteration {duration_text(gpu_ns)}, from the end of the previous step's work to the end of this step's work"


def engine_rows(graph: DependencyGraph) -> Sequence[EngineStepRow]:
    """Return the steps of an inference engine, of a job those of its first rank with all rows; none of other traces."""
    known = (part.graph for part in graph.rank_graphs if part.graph.attached(RankSummary) is None)
    rank = next(known, None)
    return () if rank is None else engine_step_table(rank)


def headline_subject(facts: WindowFacts) -> str:
    """Name a window in front of a colon; of an engine's steps phase, count and batch."""
    row, alike = facts.row, facts.alike
    if row is None:
        return headline_name(facts.window)
    if not facts.window.is_default:
        return f"{row.label}{_sizes([row])}"
    return counted_steps(len(alike), row.phase, _sizes(alike), [one.graph_launches for one in alike])


def measured_subject(facts: WindowFacts) -> str:
    """Name a window as :func:`headline_subject` does; where it is the median of an engine's steps, with its length."""
    subject = headline_subject(facts)
    return f"{subject}, {median_length(facts.length_ns)}" if facts.represents_phase else subject


def _sizes(rows: Sequence[EngineStepRow]) -> str:
    requests = [row.engine.requests for row in rows if row.engine.requests is not None]
    tokens = [row.engine.tokens for row in rows if row.engine.tokens is not None]
    return batch_sizes(requests, tokens, rows[0].engine.image_size)


PHASES_NAMED = 3
"""How many other phases a headline names, those that take most time first."""


def _engine_lengths(row: EngineStepRow, facts: WindowFacts) -> list[str]:
    """Name the iteration of an engine's step, what of it the GPU is idle, what the latency waits for, other phases."""
    is_job, length = facts.is_job, facts.length_ns
    named = [median_length(length)] if facts.represents_phase else _lengths(None, length, None, None)
    if not is_job:
        before_first = max(row.idle_before_ns - row.before_recording_ns, 0)
        named.append(engine_idle(before_first, row.idle_ns - before_first, length, on_cpu=row.is_on_cpu))
    if (before_ns := row.unrecorded_ns) and not is_job:
        named.append(f"it first waits {brief_duration(before_ns)} for GPU work from before the recording")
    earlier = [one for one in facts.engine if one.number < row.number and len(one.rows)]
    if earlier and row.waits_ns > ALIKE * row.latency_ns and not is_job:
        what = f"{earlier[-1].label}{_sizes([earlier[-1]])}"
        named.append(f"{brief_duration(row.waits_ns)} of its {brief_duration(row.latency_ns)} latency waits for {what}")
    return ["; ".join(named + (_other_phases(row, facts.engine) if facts.window.is_default else []))]


def _other_phases(row: EngineStepRow, rows: Sequence[EngineStepRow]) -> list[str]:
    counts = Counter(one.phase for one in rows)
    time = {phase: sum(one.own_ns for one in rows if one.phase == phase) for phase in counts}
    others = sorted((phase for phase in counts if phase != row.phase), key=lambda phase: -time[phase])
    total = max(sum(time.values()), 1)
    return [other_phase(counts[one], one, time[one] / total) for one in others[:PHASES_NAMED]]


def headline_lengths(facts: WindowFacts) -> list[str]:
    """Name the lengths of a window as a headline gives them."""
    if facts.row is not None:
        return _engine_lengths(facts.row, facts)
    *others, last = _own_lengths(facts)
    return [*others, "; ".join([last, *_longer_steps(facts)])]


LONGER_SHARE = 0.5
"""Where longer steps add more than this share of the time of all, the median step shows the smaller part of a run."""


def _longer_steps(facts: WindowFacts) -> list[str]:
    """Name the steps that take most of the time where the median step, chosen by default, is not one of them.

    A checkpoint or an evaluation in every third step may cost more than all steps between, and no median shows it.
    """
    found = [one for one in facts.steps if one.is_candidate] if facts.window.is_default else []
    usual_ns = next((one.iteration_ns for one in found if one.number == facts.window.step), None)
    if usual_ns is None:
        return []
    longer = [one for one in found if one.iteration_ns > OUTLIER_FACTOR * usual_ns]
    total_ns, longer_ns = (sum(one.iteration_ns for one in some) for some in (found, longer))
    if longer_ns - len(longer) * usual_ns <= LONGER_SHARE * total_ns:
        return []
    return [_longer_steps_sentence([one.number for one in longer], longer_ns / total_ns, len(found))]


def _longer_steps_sentence(numbers: Sequence[int], share: float, steps: int) -> str:
    """Say which steps take most of the time of all: a headline that is about a usual one does not speak of them.

    >>> _longer_steps_sentence([4], 0.61, 9)
    'step 4 takes 61% of the time of 9 steps'
    >>> _longer_steps_sentence([4, 7], 0.93, 5)
    'steps 4 and 7 take 93% of the time of 5 steps'
    >>> _longer_steps_sentence([4, 14, 24, 34], 0.93, 40)
    '4 longer steps take 93% of the time of 40 steps'
    """
    if len(numbers) > LONGER_NAMED:
        named = f"{len(numbers)} longer steps take"
    else:
        named = f"steps {enumerated(numbers)} take" if len(numbers) > 1 else f"step {numbers[0]} takes"
    return f"{named} {brief_share(share)} of the time of {counted(steps, 'step')}"


def _own_lengths(facts: WindowFacts) -> list[str]:
    window, length = facts.window, facts.length_ns
    if window.is_named and (window.form == "cpu" or not (facts.has_gpu or facts.is_job)):
        return _lengths(None, None, length, None)
    if not window.is_named:
        return _lengths(None, None, None, length)
    if window.step is not None and window.form == "gpu":
        return _lengths(None, length, None, None)
    return _lengths(length, window.gpu_ns if facts.has_iteration else None, None, None)


def _lengths(latency_ns: int | None, iteration_ns: int | None, cpu_ns: int | None, length_ns: int | None) -> list[str]:
    """Name the lengths of a window for a headline, those that there are."""
    named = (("latency ", latency_ns, ""), ("iteration ", iteration_ns, ""), ("", cpu_ns, " on the CPU"),
             ("length ", length_ns, ""))  # fmt: skip
    return [f"{kind}{brief_duration(ns)}{behind}" for kind, ns, behind in named if ns is not None]


def _first_step(graph: DependencyGraph) -> int:
    return next((one.number for one in step_lengths(graph)), -1)


def rows_after_lines(window: Window) -> list[str]:
    """Say what was recorded after the end of the work, if anything was."""
    begin = counted(window.rows_after, "event begins", "events begin")
    after = f"The window ends with its last work; {begin} later, up to {duration_text(window.after_ns)} after it."
    return [after] if window.rows_after else []


def default_lines(window: Window, graph: DependencyGraph, steps: Sequence[StepRow]) -> list[Line]:
    """Say which window was chosen by default, with the table of steps; nothing about a window that was named.

    ``steps`` are those to list, at least :func:`listed_steps`; without any the table is left out.
    """
    if not window.is_default:
        return []
    facts = WindowFacts.of(window, graph)
    found, row = facts.steps, facts.row
    if not found:
        return [_no_steps(*_suggested_annotation(graph))]
    dropped = graph.trace.calls_without_work
    notes = [_dropped_calls(dropped)] if dropped else []
    if row is not None and row.engine.engine == BY_GRAPH_LAUNCH:
        of_one = (
            "No annotation names a step: the only graph launch is taken as one."
            if len(found) == 1
            else EACH_GRAPH_LAUNCH
        )
        notes = [of_one, *notes]
    if len(found) == 1:
        return [f"{window.label} is the only step.", *notes]
    listed = _steps_table(steps, graph, window.step, len(found)) if steps else []
    if row is not None:
        return [_chosen(window.label, len(facts.alike), row.phase, len(found)), *notes, *listed]
    candidates, only_first = sum(one.is_candidate for one in found), all(one.is_candidate for one in found[1:])
    return [
        _median_step(window.label, candidates, len(found), only_first=only_first),
        *([_kinds_of_steps(kinds)] if (kinds := kinds_of_unlike_length(graph)) else []),
        *listed,
    ]


def _no_steps(count: int, name: str, flags: str) -> str:
    """Say that the whole trace is analyzed, and offer the annotation that is repeated most."""
    said = "No profiler steps in this trace; the whole trace is analyzed."
    return f"{said} Use --annotation {flags} --instance I to select one of {count:,} × {name}." if count > 1 else said


def _median_step(label: str, candidates: int, steps: int, *, only_first: bool) -> str:
    """Say of how many steps one is the median, and which are excluded."""
    if candidates == steps:
        of = counted(steps, "step")
    else:
        excluded = "the first is" if only_first else "the first, and steps without GPU work or on few ranks, are"
        of = f"{candidates} of {counted(steps, 'step')} ({excluded} excluded)"
    return f"{label} is the median of {of}; {OTHER_STEP}."


def _kinds_of_steps(kinds: Sequence[tuple[str, int, int]]) -> str:
    """Say which kinds of steps there are, how often, and how long they take (ns)."""
    named = [f"{count} {name} ({duration_text(ns)})" for name, count, ns in kinds[:KINDS_NAMED]]
    more = [f"{len(kinds) - KINDS_NAMED} more"] * (len(kinds) > KINDS_NAMED)
    return (
        f"Steps of {len(kinds)} kinds, by median iteration: {', '.join([*named, *more])}. Outliers are within a kind."
    )


def _chosen(label: str, count: int, phase: str, steps: int) -> str:
    """Say of which steps one is the median."""
    if count == 1:
        return f"{label} is the only {phase} step of {counted(steps, 'step')}; use --step N for another."
    of = counted(count, f"{phase} step")
    among = f" ({counted(steps, 'step')} in all)" if steps > count else ""
    return f"{label} is the median of {of}{among}; use --step N for another."


def _dropped_calls(count: int) -> str:
    """Say which calls at the end are no steps."""
    calls = counted(count, "call of the engine", "calls of the engine")
    return f"The last {calls} launched no GPU work in the recording and {'is' if count == 1 else 'are'} not counted."


def listed_steps(path: CriticalPath) -> list[StepRow]:
    """Return the steps that are printed with the path of a default window; none with a window that was named."""
    if not path.window.is_default:
        return []
    return step_rows(path.graph, path.data_load, notable_steps(path.graph, path.window.step, STEPS_LISTED), path)


def _steps_table(steps: Sequence[StepRow], graph: DependencyGraph, chosen: int | None, count: int) -> list[Line]:
    """List the steps, of many the chosen one, the outliers and the first others."""
    shown = notable_steps(graph, chosen, STEPS_LISTED)
    kept = [row for row in steps if row.step in shown]
    more = and_more(count - len(kept), "usual step")
    return [*steps_in_columns(kept, on_gpu=bool(graph.is_gpu.any()), chosen=chosen), *more]


def steps_in_columns(
    steps: Sequence[StepRow],
    *,
    on_gpu: bool,
    chosen: int | None = None,
    coverage: bool = False,
    ranks: Sequence[str] = (),
) -> list[Line]:
    """List steps: their lengths (without GPU work there is one, on the CPU), what bounds them, what is unusual.

    ``ranks`` names each step's rank where there are multiple.
    """
    of_job = any(row.path.graph.is_job for row in steps)
    lengths = ["iteration", "latency"] if on_gpu or of_job else ["on the CPU"]
    columns: dict[str, list[str]] = {
        # Of right-aligned numbers only the chosen one has a mark.
        "step": [f"{row.step}" + (" *" if row.step == chosen else "  " * (chosen is not None)) for row in steps],
        "rank": list(ranks),
        "phase": [row.phase or "" for row in steps],
        "batch": ["-" if row.requests is None else f"{row.requests:,}" for row in steps],
        "tokens": ["-" if row.tokens is None else f"{row.tokens:,}" for row in steps],
        "iteration": [
            "-" if row.step == _first_step(row.path.graph) else duration_text(row.iteration_ns) for row in steps
        ],
        "latency": [duration_text(row.latency_ns) for row in steps],
        "on the CPU": [duration_text(row.latency_ns) for row in steps],
        "explained": [percent(row.coverage) for row in steps],
        "largest class": [short_labels(row.path.graph)[row.bound_by] for row in steps],
        "delayed by": ["" if rank is None else f"rank {rank}" for rank in (delaying_rank(row.path) for row in steps)],
        "outlier": [row.outlier or "" for row in steps],
    }
    sizes = ["batch", "tokens"] if any(row.phase for row in steps) else []
    numbers = [
        *(["rank"] if ranks else []),
        *(["phase"] if sizes else []),
        *sizes,
        *lengths,
        *(["explained"] if coverage else []),
    ]
    texts_shown = [
        name for name in ("delayed by", "largest class", "outlier") if name == "largest class" or any(columns[name])
    ]
    header = ["step", *numbers, *texts_shown]
    rows = list(zip(*(columns[name] for name in header), strict=True))
    texts = [at for at, name in enumerate(header) if name in ("phase", "largest class", "outlier")]
    caption = LATENCY if "latency" in header else ""
    return table(rows, header, left=texts, words=texts[1:], caption=caption)


def _suggested_annotation(graph: DependencyGraph) -> tuple[int, str, str]:
    """Return the top-level annotation of the CPU that is repeated most: how often, its name, and flags that choose it.

    Of equals the first one. Names that differ by numbers only are one: a server writes the sizes of a batch into them.
    """
    events = graph.event_table
    rows = np.flatnonzero(events.kind == EventKind.ANNOTATION)
    top = events.name[rows[graph.nesting(EventKind.ANNOTATION).parent[rows] < 0]].tolist()
    spelled = {code: DIGITS.sub("#", graph.names[code]) for code in dict.fromkeys(top)}
    (name, count), *_ = Counter(spelled[code] for code in top).most_common(1) or [("", 0)]
    if count < 2:
        return 0, "", ""
    exact = [graph.names[code] for code in spelled if spelled[code] == name]
    if len(exact) == 1:
        return count, clipped(exact[0], 60), quote(exact[0])
    return count, clipped(name, 60), f"{quote(_with_any_number(exact[0]))} --regex"


def _with_any_number(name: str) -> str:
    r"""Return an expression of a name and of those that differ from it by their numbers.

    >>> _with_any_number("execute_3(sq17)")
    'execute_\\d+\\(sq\\d+\\)'
    """
    return r"\d+".join(re.escape(part) for part in DIGITS.split(name))


def window_record(window: Window, graph: DependencyGraph) -> dict[str, Any]:
    """Return a window as JSON has it (times in ns); that of a job with the ranks that have none."""
    return {
        "start_ns": window.start_ns,
        "end_ns": window.end_ns,
        "label": window.label,
        "cpu_ns": window.cpu_ns,
        "gpu_ns": window.gpu_ns,
        "rows_after": window.rows_after,
        **({"missing_ranks": list(window.missing)} if graph.is_job else {}),
    }


def step_records(steps: Sequence[StepRow]) -> list[dict[str, Any]]:
    """Return the steps as JSON lists them (times in ns); those of a job with the rank that delays each, or null."""
    shown = ("step", "iteration_ns", "latency_ns", "bound_by", "outlier")
    records = [{key: getattr(row, key) for key in shown} | engine_record(row) for row in steps]
    of_job = [row.path.graph.is_job for row in steps]
    return [
        {**record, **({"held_up_by": delaying_rank(row.path)} if several else {})}
        for record, row, several in zip(records, steps, of_job, strict=True)
    ]


class _EngineSizes(Protocol):
    """What a step of an inference engine says of itself."""

    @property
    def phase(self) -> str | None:
        """What it does; None of other steps."""

    @property
    def requests(self) -> int | None:
        """The batch; None where its name does not say."""

    @property
    def tokens(self) -> int | None:
        """The tokens that it computes; None where its name does not say."""


def engine_record(step: _EngineSizes | None) -> dict[str, Any]:
    """Return what JSON adds to a step of an inference engine: phase, batch (``requests``) and tokens; else nothing."""
    if step is None or step.phase is None:
        return {}
    return {"phase": step.phase, "requests": step.requests, "tokens": step.tokens}


def delaying_rank(path: CriticalPath) -> int | None:
    """Return the rank that delays a step of a job, given by its path, if one does."""
    job, number = path.graph, path.window.step
    if number is None or not job.is_job:
        return None
    from hta_graph.multi_rank.job_verdict import delays_by_step, knows_causes  # late: one rank does without it

    return delays_by_step(job).leading_rank(number) if knows_causes(job) else None


def delay_in_step(path: CriticalPath, verdict: JobVerdict) -> int | None:
    """Return by how much (ns) the late rank of a verdict delays the step of a path; None if it does not."""
    from hta_graph.multi_rank.job_verdict import delays_by_step  # late, as above

    job, number = path.graph, path.window.step
    if number not in verdict.steps or verdict.rank is None:
        return None
    if verdict.steps == (number,):
        return verdict.median_caused_ns
    return delays_by_step(job).delay_ns(number, verdict.rank)


def verdict_of_job(path: CriticalPath) -> JobVerdict | None:
    """Return which rank delays the job of a path, as every command says it; None for one rank."""
    job = path.graph
    if not job.is_job:
        return None
    from hta_graph.multi_rank.job_verdict import job_verdict  # late, as above

    return job_verdict(job, path.window)


LONGEST_HOST = 60


def job_record(path: CriticalPath) -> dict[str, Any]:
    """Return the keys that only the document of a job's path has (times in ns).

    ``ranks``; ``clocks``: how far each rank's are ahead; ``by_rank_ns``: the path's time on each; ``held_up_ns``: how
    long the job waited for each alone; ``crossings``: how often the path switches ranks, and how much later than their
    effects causes are stamped there, in total.
    """
    job = path.graph
    if not job.is_job:
        return {}
    passed, held = crossings(path), held_up_by(path)
    return {
        "ranks": [part.rank for part in job.rank_graphs],
        "clocks": _clock_records(job),
        "by_rank_ns": {str(rank): ns for rank, ns in path.by_rank_ns.items()},
        **({"by_host_ns": time_by_host(job, path.by_rank_ns)} if job.hosts else {}),
        "held_up_ns": {str(part.rank): own.total for part, own in zip(job.rank_graphs, held, strict=True)},
        "crossings": {"count": len(passed), "corrected_ns": int(passed.corrected.sum())},
    }


def _clock_records(job: DependencyGraph) -> list[dict[str, Any]]:
    clocks = job.clock_table
    columns = {
        "rank": clocks.rank, "offset_ns": clocks.offset, "gpu_offset_ns": clocks.gpu_offset,
        "drift_ppm": clocks.drift_ppm, "error_ns": clocks.error, "collectives": clocks.collectives,
    }  # fmt: skip
    return [
        dict(zip(columns, row, strict=True))
        for row in zip(*(column.tolist() for column in columns.values()), strict=True)
    ]


def rank_lines(path: CriticalPath) -> list[Line]:
    """List the ranks on the path: its time there, how long the job waited for each alone, and its largest class."""
    parts, length = path.graph.rank_graphs, max(path.length_ns, 1)
    if len(parts) < 2:
        return []
    held, words = [found.total for found in held_up_by(path)], short_labels(path.graph)
    sums = summed_by(
        path.segment_table.part.astype(np.int64) * len(BoundBy) + path.segment_table.bound,
        path.segment_table.length,
        len(parts) * len(BoundBy),
    )
    by_class = sums.reshape(len(parts), len(BoundBy))
    total = by_class.sum(axis=1)
    order = np.argsort(-total, kind="stable")
    shown = [at for at in order.tolist() if total[at]][:RANKS_LISTED]
    rows = [
        [duration_text(int(total[at])), percent(int(total[at]) / length), duration_text(held[at]),
         str(parts[at].rank), words[BoundBy(int(by_class[at].argmax())).label]]
        for at in shown
    ]  # fmt: skip
    hidden = int(np.count_nonzero(total)) - len(shown)
    head = f"critical path by rank ({counted(len(crossings(path)), 'switch', 'switches')} between ranks)"
    listed = table(rows, ["time", "share", "others wait", "rank", "mostly"], left=[4])
    return [
        head,
        "  others wait: the time that all other ranks wait for this rank alone",
        *listed,
        *more_ranks(hidden),
        *_host_lines(path),
    ]


def _host_lines(path: CriticalPath) -> list[Line]:
    """List the hosts that most of the path is on, where the ranks are on several."""
    times, length = time_by_host(path.graph, path.by_rank_ns), max(path.length_ns, 1)
    shown = [(host, ns) for host, ns in times.items() if ns][:RANKS_LISTED]
    if not shown:
        return []
    rows = [[duration_text(ns), percent(ns / length), clipped(host, LONGEST_HOST)] for host, ns in shown]
    more = and_more(len([ns for ns in times.values() if ns]) - len(shown), "host")
    return ["", "critical path by host", *table(rows, ["time", "share", "host"], left=[2]), *more]


def time_by_host(graph: DependencyGraph, by_rank_ns: Mapping[int, int]) -> dict[str, int]:
    """Add up times (ns) by host, the longest first; none where a rank's host is unknown, or all are on one."""
    hosts, found = graph.hosts, dict[str, int]()
    for rank, host in hosts.items():
        found[host] = found.get(host, 0) + by_rank_ns[rank]
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def missing_lines(window: Window) -> list[str]:
    """Say which ranks have no such window."""
    missing = window.missing
    if not missing:
        return []
    ranks, (have, contribute) = (
        rank_names(missing),
        ("has", "contributes") if len(missing) == 1 else ("have", "contribute"),
    )
    return [f"{ranks[0].upper()}{ranks[1:]} {have} no {window.label} and {contribute} nothing."]


def rank_names(ranks: tuple[int, ...]) -> str:
    """Name some ranks, of many the first ones.

    >>> rank_names((3,)), rank_names((0, 2)), rank_names(tuple(range(20)))
    ('rank 3', 'ranks 0, 2', 'ranks 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 10 more')
    """
    listed = ", ".join(map(str, ranks[:RANKS_LISTED]))
    hidden = len(ranks) - RANKS_LISTED
    return ("rank " if len(ranks) == 1 else "ranks ") + listed + (f" and {hidden} more" if hidden > 0 else "")


ALTERNATIVES_SHOWN = 10


def slack_record(near: NearCritical) -> dict[str, Any]:
    """Return near-critical work as JSON has it (times in ns)."""
    from analyses.declare.answer import records  # late: most answers are without slack

    return {
        "threshold_ns": near.threshold_ns,
        "by_rank": records(near.by_rank),
        "alternatives": records(near.alternatives),
    }


def slack_lines(near: NearCritical, graph: DependencyGraph) -> list[Line]:
    """Say how much work is near-critical, and which alternative paths lead to the end of the window."""
    ranks = near.by_rank.to_dict("records")
    if not graph.is_job:
        slack = duration_text(near.threshold_ns)
        head = (
            f"near-critical work (slack below {slack}): {duration_text(ranks[0]['near_ns'])}, "
            f"{percent(ranks[0]['share'])} of the window"
        )
        return [head, *_alternative_lines(near, graph)]
    rows = [[duration_text(row["near_ns"]), percent(row["share"]), str(row["rank"])] for row in ranks]
    return [
        f"near-critical work (slack below {duration_text(near.threshold_ns)}), by rank",
        *table(rows, ["time", "share", "rank"]),
        "",
        *_alternative_lines(near, graph),
    ]


def _alternative_lines(near: NearCritical, graph: DependencyGraph) -> list[Line]:
    from analyses.declare.answer import records

    ways, words = records(near.alternatives), short_labels(graph)
    if not ways:
        return ["No other rank or class of work is near-critical."]
    several = graph.is_job
    rows = [
        [
            duration_text(way["slack_ns"]), duration_text(way["near_ns"]), *([str(way["rank"])] if several else []),
            words[way["bound_by"]], way["name"] or NOT_RECORDED,
        ]
        for way in ways[:ALTERNATIVES_SHOWN]
    ]  # fmt: skip
    header = [name for name in ("slack", "near-critical", "rank", "class", "through") if several or name != "rank"]
    texts = [len(header) - 2, len(header) - 1]
    more = and_more(len(ways) - ALTERNATIVES_SHOWN, "path")
    return [
        ALTERNATIVES,
        *table(rows, header, left=texts, names=texts[1:]),
        *more,
    ]
