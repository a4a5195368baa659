"""What answers say about a window, for people and for programs: its steps, ranks, hosts and near-critical work.

Lines of the command line and records of JSON are next to each other, so that both say the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from shlex import quote
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from analyses.display.dataframe_text import RANKS_LISTED, more_ranks
from analyses.display.labels import short_labels
from analyses.display.screen_columns import LATENCY
from analyses.display.sentence_format import and_more, headline_name
from analyses.display.text_layout import Line, clipped, duration_text, percent, table
from analyses.messages import engine_steps as engine_messages
from analyses.messages import window as messages
from hta_graph.base.arrays import distinct, summed_by
from hta_graph.base.text.sanitize import one_line
from hta_graph.base.text.shorten import short_names
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.job_graph import JobGraph
from hta_graph.graph.rank_summary import RankSummary
from hta_graph.model import BoundBy, EdgeKind, EventKind, Rule
from hta_graph.paths.critical_path import CriticalPath
from hta_graph.paths.engine_step_table import EngineStepRow, engine_step_table
from hta_graph.paths.rank_crossings import crossings, held_up_by
from hta_graph.paths.step_table import OUTLIER_FACTOR, StepRow, kinds_of_unlike_length, notable_steps, step_rows
from hta_graph.paths.windows import Window, step_lengths
from hta_graph.trace.engine_steps import BY_GRAPH_LAUNCH

if TYPE_CHECKING:
    from hta_graph.multi_rank.job_verdict import JobVerdict
    from hta_graph.what_if.slack import NearCritical


NOISE_SAID_NS = 5_000
"""Where bounds contradict each other by less, no answer depends on it."""


def clock_lines(clocks: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say of the clocks (``graph.gpu_clock``) that are not the host's how far they are ahead or behind, in one line."""
    told = [
        messages.gpu_clock(offsets, clock["pieces"][0]["drift_ppm"], noise)
        for clock in clocks
        for noise in [clock["noise_ns"] if clock["noise_ns"] >= NOISE_SAID_NS else 0]
        if any(offsets := [piece["offset_ns"] or 0 for piece in clock["pieces"]]) or noise
    ]
    return told if len(told) < 2 else [messages.several_gpu_clocks(told[0], len(told))]


def sync_record_lines(diagnostics: Mapping[str, int]) -> list[str]:
    """Warn where the file's synchronization records contradict its times and are set aside."""
    contradicted = diagnostics["sync_records_contradicted"]
    return [messages.sync_records_contradicted(contradicted)] if contradicted else []


def unknown_wait_lines(graph: DependencyGraph) -> list[str]:
    """Name the calls that no vocabulary knows and that are taken as waits for the GPU."""
    edges = graph.edges_of(EdgeKind.STREAM_SYNC)
    calls = distinct(edges.target[graph.edge_table.rule[edges.row] == Rule.RETURNED_WITH_WORK])
    names = list(dict.fromkeys(one_line(graph.name_of(call)) for call in calls.tolist()))
    return [messages.unknown_waits(short_names(names[:NAMES_LISTED]), len(calls))] if names else []


def clock_notes(clocks_of: Mapping[int, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Name the ranks whose GPU clock is not the host's."""
    return [messages.on_rank(rank, line) for rank, clocks in clocks_of.items() for line in clock_lines(clocks)]


NAMES_LISTED = 3
STEPS_LISTED = 24
ALIKE = 0.05
"""Latency and iteration are both given where they differ by more than this."""

DIGITS = re.compile(r"\d+")


def window_lines(window: Window, graph: DependencyGraph) -> list[str]:
    """Name a window and its lengths: iteration, latency and time on the CPU are different things."""
    label, length = messages.short_label(window.label), window.end_ns - window.start_ns
    on_cpu, has_gpu = messages.on_cpu(window.cpu_ns), bool(graph.is_gpu.any())
    if not window.is_named:
        # The recording may be longer on both sides: events without work before it, polls behind it.
        return [messages.part_of_trace(label, length, is_whole=window.label == "whole trace", has_gpu=has_gpu)]
    is_first = is_first_step(window, graph)
    if window.step is not None and window.form == "gpu" and (len(graph.rank_graphs) > 1 or (is_first and has_gpu)):
        if is_first and _engine_row(window, graph) is not None and len(graph.rank_graphs) == 1:
            return [engine_messages.first_iteration(label, length)]
        return [messages.job_iteration(label, length, is_first=is_first)]
    if not has_gpu:
        follows = [messages.iteration(window.gpu_ns)] if window.form == "gpu" and not is_first else []
        return [f"{label}: {'; '.join([*follows, on_cpu, messages.NO_GPU])}"]
    latency = messages.latency(length)
    iteration = messages.NO_ITERATION if is_first else messages.iteration(window.gpu_ns)
    if window.step is None:
        return [f"{label}: {latency}; {on_cpu}" if window.form == "usual" else f"{label}: {on_cpu}"]
    if window.form == "usual":
        of_latency = [messages.SHARES_OF_LATENCY] if has_iteration(window, graph) else []
        return [f"{label}: {latency}", f"  {iteration}; {on_cpu}", *of_latency]
    return (
        [f"{label}: {on_cpu}", f"  {iteration}"] if window.form == "cpu" else [f"{label}: {iteration}", f"  {on_cpu}"]
    )


def engine_rows(graph: DependencyGraph) -> Sequence[EngineStepRow]:
    """Return the steps of an inference engine, of a job those of its first rank with all rows; none of other traces."""
    known = (part.graph for part in graph.rank_graphs if part.graph.attached(RankSummary) is None)
    rank = next(known, None)
    return () if rank is None else engine_step_table(rank)


def _engine_row(window: Window, graph: DependencyGraph) -> EngineStepRow | None:
    if window.step is None or window.form == "cpu":
        return None
    return next((row for row in engine_rows(graph) if row.number == window.step), None)


def headline_subject(window: Window, graph: DependencyGraph) -> str:
    """Name a window in front of a colon; of an engine's steps phase, count and batch."""
    row = _engine_row(window, graph)
    if row is None:
        return headline_name(window)
    if not window.is_default:
        return engine_messages.one(row.label, _sizes([row]))
    alike = _of_phase(row, graph)
    return engine_messages.several(len(alike), row.phase, _sizes(alike), [one.graph_launches for one in alike])


def measured_subject(window: Window, graph: DependencyGraph) -> str:
    """Name a window as :func:`headline_subject` does; where it is the median of an engine's steps, with its length."""
    subject = headline_subject(window, graph)
    if not represents_phase(window, graph):
        return subject
    return f"{subject}, {engine_messages.median(window.end_ns - window.start_ns)}"


def represents_phase(window: Window, graph: DependencyGraph) -> bool:
    """Return whether a window was chosen as the median of several engine steps of one phase."""
    row = _engine_row(window, graph)
    return row is not None and window.is_default and len(_of_phase(row, graph)) > 1


def _of_phase(row: EngineStepRow, graph: DependencyGraph) -> list[EngineStepRow]:
    return [one for one in engine_rows(graph) if one.phase == row.phase and (len(one.rows) or one is row)]


def _sizes(rows: Sequence[EngineStepRow]) -> str:
    requests = [row.engine.requests for row in rows if row.engine.requests is not None]
    tokens = [row.engine.tokens for row in rows if row.engine.tokens is not None]
    return engine_messages.sizes(requests, tokens, rows[0].engine.image_size)


PHASES_NAMED = 3
"""How many other phases a headline names, those that take most time first."""


def _engine_lengths(row: EngineStepRow, window: Window, graph: DependencyGraph) -> list[str]:
    """Name the iteration of an engine's step, what of it the GPU is idle, what the latency waits for, other phases."""
    is_job = len(graph.rank_graphs) > 1
    length = window.end_ns - window.start_ns
    is_median = represents_phase(window, graph)
    named = [engine_messages.median(length)] if is_median else messages.lengths(None, length, None, None)
    if not is_job:
        before_first = max(row.idle_before_ns - row.before_recording_ns, 0)
        named.append(engine_messages.idle(before_first, row.idle_ns - before_first, length, on_cpu=row.is_on_cpu))
    if (before_ns := row.unrecorded_ns) and not is_job:
        named.append(engine_messages.before_recording(before_ns))
    rows = engine_rows(graph)
    earlier = [one for one in rows if one.number < row.number and len(one.rows)]
    if earlier and row.waits_ns > ALIKE * row.latency_ns and not is_job:
        what = engine_messages.one(earlier[-1].label, _sizes([earlier[-1]]))
        named.append(engine_messages.waits(row.latency_ns, row.waits_ns, what))
    return ["; ".join(named + (_other_phases(row, rows) if window.is_default else []))]


def _other_phases(row: EngineStepRow, rows: Sequence[EngineStepRow]) -> list[str]:
    counts = Counter(one.phase for one in rows)
    time = {phase: sum(one.own_ns for one in rows if one.phase == phase) for phase in counts}
    others = sorted((phase for phase in counts if phase != row.phase), key=lambda phase: -time[phase])
    total = max(sum(time.values()), 1)
    return [engine_messages.other_phase(counts[one], one, time[one] / total) for one in others[:PHASES_NAMED]]


def headline_lengths(window: Window, graph: DependencyGraph) -> list[str]:
    """Name the lengths of a window as a headline gives them."""
    if (row := _engine_row(window, graph)) is not None:
        return _engine_lengths(row, window, graph)
    *others, last = _own_lengths(window, graph)
    return [*others, "; ".join([last, *_longer_steps(window, graph)])]


LONGER_SHARE = 0.5
"""Where longer steps add more than this share of the time of all, the median step shows the smaller part of a run."""


def _longer_steps(window: Window, graph: DependencyGraph) -> list[str]:
    """Name the steps that take most of the time where the median step, chosen by default, is not one of them.

    A checkpoint or an evaluation in every third step may cost more than all steps between, and no median shows it.
    """
    found = [one for one in step_lengths(graph) if one.is_candidate] if window.is_default else []
    usual_ns = next((one.iteration_ns for one in found if one.number == window.step), None)
    if usual_ns is None:
        return []
    longer = [one for one in found if one.iteration_ns > OUTLIER_FACTOR * usual_ns]
    total_ns, longer_ns = (sum(one.iteration_ns for one in some) for some in (found, longer))
    if longer_ns - len(longer) * usual_ns <= LONGER_SHARE * total_ns:
        return []
    return [messages.longer_steps([one.number for one in longer], longer_ns / total_ns, len(found))]


def _own_lengths(window: Window, graph: DependencyGraph) -> list[str]:
    length, has_gpu = window.end_ns - window.start_ns, bool(graph.is_gpu.any())
    if window.is_named and (window.form == "cpu" or not (has_gpu or len(graph.rank_graphs) > 1)):
        return messages.lengths(None, None, length, None)
    if not window.is_named:
        return messages.lengths(None, None, None, length)
    if window.step is not None and window.form == "gpu":
        return messages.lengths(None, length, None, None)
    return messages.lengths(length, window.gpu_ns if has_iteration(window, graph) else None, None, None)


def has_iteration(window: Window, graph: DependencyGraph) -> bool:
    """Return whether a step's latency is analyzed and its iteration is of another length: only these tile the run."""
    if window.step is None or window.form != "usual" or not graph.is_gpu.any():
        return False
    length_ns = window.end_ns - window.start_ns
    return abs(window.gpu_ns - length_ns) > ALIKE * length_ns


def is_first_step(window: Window, graph: DependencyGraph) -> bool:
    """Return whether a window is the first step of the trace: its iteration begins before what is recorded."""
    return window.step is not None and window.step == _first_step(graph)


def _first_step(graph: DependencyGraph) -> int:
    return next((one.number for one in step_lengths(graph)), -1)


def rows_after_lines(window: Window) -> list[str]:
    """Say what was recorded after the end of the work, if anything was."""
    return [messages.events_after(window.rows_after, window.after_ns)] if window.rows_after else []


def default_lines(window: Window, graph: DependencyGraph, steps: Sequence[StepRow]) -> list[Line]:
    """Say which window was chosen by default, with the table of steps; nothing about a window that was named.

    ``steps`` are those to list, at least :func:`listed_steps`; without any the table is left out.
    """
    if not window.is_default:
        return []
    found = step_lengths(graph)
    if not found:
        return [messages.no_steps(*_suggested_annotation(graph))]
    dropped = graph.trace.calls_without_work
    notes = [engine_messages.dropped_calls(dropped)] if dropped else []
    row = _engine_row(window, graph)
    if row is not None and row.engine.engine == BY_GRAPH_LAUNCH:
        of_one = engine_messages.ONE_GRAPH_LAUNCH if len(found) == 1 else engine_messages.BY_GRAPH_LAUNCH
        notes = [of_one, *notes]
    if len(found) == 1:
        return [messages.only_step(window.label), *notes]
    if row is not None:
        alike = _of_phase(row, graph)
        return [
            engine_messages.chosen(window.label, len(alike), row.phase, len(found)),
            *notes,
            *(_steps_table(steps, graph, window.step, len(found)) if steps else []),
        ]
    candidates, only_first = sum(one.is_candidate for one in found), all(one.is_candidate for one in found[1:])
    return [
        messages.median_step(window.label, candidates, len(found), only_first=only_first),
        *([messages.kinds_of_steps(kinds)] if (kinds := kinds_of_unlike_length(graph)) else []),
        *(_steps_table(steps, graph, window.step, len(found)) if steps else []),
    ]


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
    of_job = any(len(row.path.graph.rank_graphs) > 1 for row in steps)
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
        **({"missing_ranks": list(window.missing)} if len(graph.rank_graphs) > 1 else {}),
    }


def step_records(steps: Sequence[StepRow]) -> list[dict[str, Any]]:
    """Return the steps as JSON lists them (times in ns); those of a job with the rank that delays each, or null."""
    shown = ("step", "iteration_ns", "latency_ns", "bound_by", "outlier")
    records = [{key: getattr(row, key) for key in shown} | engine_record(row) for row in steps]
    of_job = [len(row.path.graph.rank_graphs) > 1 for row in steps]
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
    if number is None or not isinstance(job, JobGraph):
        return None
    from hta_graph.multi_rank.job_verdict import delays_by_step, knows_causes  # late: one rank does without it

    return delays_by_step(job).leading_rank(number) if knows_causes(job) else None


def delay_in_step(path: CriticalPath, verdict: JobVerdict) -> int | None:
    """Return by how much (ns) the late rank of a verdict delays the step of a path; None if it does not."""
    from hta_graph.multi_rank.job_verdict import delays_by_step  # late, as above

    job, number = path.graph, path.window.step
    if number not in verdict.steps or verdict.rank is None or not isinstance(job, JobGraph):
        return None
    if verdict.steps == (number,):
        return verdict.median_caused_ns
    return delays_by_step(job).delay_ns(number, verdict.rank)


def verdict_of_job(path: CriticalPath) -> JobVerdict | None:
    """Return which rank delays the job of a path, as every command says it; None for one rank."""
    job = path.graph
    if not isinstance(job, JobGraph) or len(job.rank_graphs) < 2:
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
    if not isinstance(job, JobGraph):
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


def _clock_records(job: JobGraph) -> list[dict[str, Any]]:
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
    head = messages.path_by_rank(len(crossings(path)))
    listed = table(rows, ["time", "share", "others wait", "rank", "mostly"], left=[4])
    return [head, f"  {messages.OTHERS_WAIT}", *listed, *more_ranks(hidden), *_host_lines(path)]


def _host_lines(path: CriticalPath) -> list[Line]:
    """List the hosts that most of the path is on, where the ranks are on several."""
    times, length = time_by_host(path.graph, path.by_rank_ns), max(path.length_ns, 1)
    shown = [(host, ns) for host, ns in times.items() if ns][:RANKS_LISTED]
    if not shown:
        return []
    rows = [[duration_text(ns), percent(ns / length), clipped(host, LONGEST_HOST)] for host, ns in shown]
    more = and_more(len([ns for ns in times.values() if ns]) - len(shown), "host")
    return ["", messages.PATH_BY_HOST, *table(rows, ["time", "share", "host"], left=[2]), *more]


def time_by_host(graph: DependencyGraph, by_rank_ns: Mapping[int, int]) -> dict[str, int]:
    """Add up times (ns) by host, the longest first; none where a rank's host is unknown, or all are on one."""
    hosts, found = graph.hosts if isinstance(graph, JobGraph) else {}, dict[str, int]()
    for rank, host in hosts.items():
        found[host] = found.get(host, 0) + by_rank_ns[rank]
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def missing_lines(window: Window) -> list[str]:
    """Say which ranks have no such window."""
    missing = window.missing
    return [messages.missing_ranks(rank_names(missing), window.label, len(missing))] if missing else []


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
    if len(graph.rank_graphs) == 1:
        head = messages.near_critical(ranks[0]["near_ns"], ranks[0]["share"], near.threshold_ns)
        return [head, *_alternative_lines(near, graph)]
    rows = [[duration_text(row["near_ns"]), percent(row["share"]), str(row["rank"])] for row in ranks]
    return [
        messages.near_critical_by_rank(near.threshold_ns),
        *table(rows, ["time", "share", "rank"]),
        "",
        *_alternative_lines(near, graph),
    ]


def _alternative_lines(near: NearCritical, graph: DependencyGraph) -> list[Line]:
    from analyses.declare.answer import records

    ways, words = records(near.alternatives), short_labels(graph)
    if not ways:
        return [messages.NO_ALTERNATIVES]
    several = len(graph.rank_graphs) > 1
    rows = [
        [
            duration_text(way["slack_ns"]), duration_text(way["near_ns"]), *([str(way["rank"])] if several else []),
            words[way["bound_by"]], way["name"] or messages.NOT_RECORDED,
        ]
        for way in ways[:ALTERNATIVES_SHOWN]
    ]  # fmt: skip
    header = [name for name in messages.ALTERNATIVE_COLUMNS if several or name != "rank"]
    texts = [len(header) - 2, len(header) - 1]
    more = and_more(len(ways) - ALTERNATIVES_SHOWN, "path")
    return [
        messages.ALTERNATIVES,
        *table(rows, header, left=texts, names=texts[1:]),
        *more,
    ]
