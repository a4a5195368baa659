"""What is known of a window before anything is written about it: plain data, asked of the graph once.

Sentences (:mod:`analyses.source.window_report`) and documents are made of it and ask no graph.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Any

import numpy as np

from analyses.display.labels import MEANING, MEANING_IN_JOBS, MEANING_ON_CPU, SHORT, SHORT_IN_JOBS
from analyses.display.text_layout import clipped
from hta_graph.base.arrays import distinct, summed_by
from hta_graph.base.text.sanitize import one_line
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.rank_summary import RankSummary
from hta_graph.model import BoundBy, EdgeRule, EventKind
from hta_graph.paths.critical_path import CriticalPath
from hta_graph.paths.engine_step_table import EngineStepRow, engine_step_table
from hta_graph.paths.rank_crossings import crossings, held_up_by
from hta_graph.paths.step_table import OUTLIER_FACTOR, StepRow, kinds_of_unlike_length, notable_steps, step_rows
from hta_graph.paths.windows import StepLength, Window, step_lengths
from hta_graph.trace.engine_steps import EngineStep

if TYPE_CHECKING:
    from hta_graph.multi_rank.job_verdict import JobVerdict
    from hta_graph.what_if.slack import NearCritical

STEPS_LISTED = 24
ALIKE = 0.05
"""Latency and iteration are both given where they differ by more than this."""
LONGER_SHARE = 0.5
"""Where longer steps add more than this share of the time of all, the median step shows the smaller part of a run."""

DIGITS = re.compile(r"\d+")


def short_labels(graph: DependencyGraph) -> Mapping[str, str]:
    """Return what classes on a path of a graph, that of a rank or of a job, are called in two or three words."""
    return SHORT if not graph.is_job and graph.is_gpu.any() else SHORT_IN_JOBS


def class_meanings(graph: DependencyGraph) -> Mapping[str, str]:
    """Return what each of them means."""
    if graph.is_job:
        return MEANING_IN_JOBS
    return MEANING if graph.is_gpu.any() else MEANING_ON_CPU


@dataclass(frozen=True)
class WindowFacts:
    """A window: ``words`` are what classes on its path are called, ``meanings`` what they mean.

    ``steps`` are all steps of the trace. ``row`` is the step of an inference engine that the window is, ``engine`` are
    all of its steps; of a job those of its first rank with all rows.
    """

    window: Window
    is_job: bool
    has_gpu: bool
    steps: Sequence[StepLength]
    engine: Sequence[EngineStepRow]
    row: EngineStepRow | None
    words: Mapping[str, str]
    meanings: Mapping[str, str]

    @classmethod
    def of(cls, window: Window, graph: DependencyGraph) -> WindowFacts:
        """Ask a graph."""
        engine = () if window.step is None or window.form == "cpu" else engine_rows(graph)
        row = next((row for row in engine if row.number == window.step), None)
        named = short_labels(graph), class_meanings(graph)
        return cls(window, graph.is_job, bool(graph.is_gpu.any()), step_lengths(graph), engine, row, *named)

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

    @property
    def longer_steps(self) -> tuple[list[int], float, int] | None:
        """The steps that take most of the time where the median step, chosen by default, is not one of them.

        Their numbers, their share of the time of all, and how many are compared. A checkpoint or an evaluation in every
        third step may cost more than all steps between, and no median shows it.
        """
        found = [one for one in self.steps if one.is_candidate] if self.window.is_default else []
        usual_ns = next((one.iteration_ns for one in found if one.number == self.window.step), None)
        if usual_ns is None:
            return None
        longer = [one for one in found if one.iteration_ns > OUTLIER_FACTOR * usual_ns]
        total_ns, longer_ns = (sum(one.iteration_ns for one in some) for some in (found, longer))
        if longer_ns - len(longer) * usual_ns <= LONGER_SHARE * total_ns:
            return None
        return [one.number for one in longer], longer_ns / total_ns, len(found)


def engine_rows(graph: DependencyGraph) -> Sequence[EngineStepRow]:
    """Return the steps of an inference engine, of a job those of its first rank with all rows; none of other traces."""
    known = (part.graph for part in graph.rank_graphs if part.graph.attached(RankSummary) is None)
    rank = next(known, None)
    return () if rank is None else engine_step_table(rank)


@dataclass(frozen=True)
class DefaultWindow:
    """Among what a window was chosen, where none was named.

    ``dropped_calls`` are an engine's calls at the end that are no steps; ``kinds`` the name, number and median
    iteration (ns) of steps of unlike length; ``repeated`` the annotation that is repeated most in a trace without
    steps: how often, its name, and flags that choose it.
    """

    facts: WindowFacts
    dropped_calls: int = 0
    kinds: Sequence[tuple[str, int, int]] = ()
    repeated: tuple[int, str, str] = (0, "", "")

    @classmethod
    def of(cls, window: Window, graph: DependencyGraph) -> DefaultWindow | None:
        """Ask a graph; None for a window that was named."""
        if not window.is_default:
            return None
        facts = WindowFacts.of(window, graph)
        if not facts.steps:
            return cls(facts, repeated=_most_repeated_annotation(graph))
        has_kinds = len(facts.steps) > 1 and facts.row is None
        return cls(facts, graph.trace.calls_without_work, kinds_of_unlike_length(graph) if has_kinds else ())


def _most_repeated_annotation(graph: DependencyGraph) -> tuple[int, str, str]:
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


def listed_steps(path: CriticalPath) -> list[StepRow]:
    """Return the steps that are printed with the path of a default window; none with a window that was named."""
    if not path.window.is_default:
        return []
    return step_rows(path.graph, path.data_load, notable_steps(path.graph, path.window.step, STEPS_LISTED), path)


@dataclass(frozen=True)
class StepFacts:
    """A row of the table of steps: ``largest`` is what its class is called, ``delayed_by`` the rank that delays it."""

    row: StepRow
    is_job: bool
    is_first: bool
    largest: str
    delayed_by: int | None

    @classmethod
    def of(cls, rows: Sequence[StepRow]) -> list[StepFacts]:
        """Ask the graphs of some steps."""
        return [
            cls(row, graph.is_job, row.step == _first_step(graph), short_labels(graph)[row.bound_by],
                delaying_rank(row.path))
            for row, graph in ((row, row.path.graph) for row in rows)
        ]  # fmt: skip

    @property
    def record(self) -> dict[str, Any]:
        """The step as JSON lists it (times in ns); that of a job with the rank that delays it, or null."""
        shown = {key: getattr(self.row, key) for key in ("step", "iteration_ns", "latency_ns", "bound_by", "outlier")}
        return {**shown, **engine_record(self.row), **({"held_up_by": self.delayed_by} if self.is_job else {})}


def _first_step(graph: DependencyGraph) -> int:
    return next((one.number for one in step_lengths(graph)), -1)


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


def engine_record(step: StepRow | EngineStep | None) -> dict[str, Any]:
    """Return what JSON adds to a step of an inference engine: phase, batch (``requests``) and tokens; else nothing."""
    if step is None or step.phase is None:
        return {}
    return {"phase": step.phase, "requests": step.requests, "tokens": step.tokens}


def delaying_rank(path: CriticalPath) -> int | None:
    """Return the rank that delays a step of a job, given by its path, if one does."""
    job, number = path.graph, path.window.step
    if number is None or not job.is_job:
        return None
    from hta_graph.multi_rank.job_verdict import delays_by_step, job_verdict, knows_causes  # late: one rank needs none

    late = [one.rank for one in job_verdict(job).late_ranks]
    return delays_by_step(job).leading_rank(number, late) if knows_causes(job) else None


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


def time_by_host(graph: DependencyGraph, by_rank_ns: Mapping[int, int]) -> dict[str, int]:
    """Add up times (ns) by host, the longest first; none where a rank's host is unknown, or all are on one."""
    hosts, found = graph.hosts, dict[str, int]()
    for rank, host in hosts.items():
        found[host] = found.get(host, 0) + by_rank_ns[rank]
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


@dataclass(frozen=True)
class RankOnPath:
    """A rank that a job's path is on: for how long (ns), how long the others wait for it alone, its largest class."""

    rank: int
    time_ns: int
    held_ns: int
    bound_by: str


@dataclass(frozen=True)
class RanksOnPath:
    """The ranks on a job's path, longest first, the path's time (ns) by host, and how often it switches ranks."""

    ranks: Sequence[RankOnPath]
    by_host_ns: Mapping[str, int]
    switches: int

    @classmethod
    def of(cls, path: CriticalPath) -> RanksOnPath | None:
        """Ask the graph of a path; None for one rank."""
        parts, pieces = path.graph.rank_graphs, path.segment_table
        if len(parts) < 2:
            return None
        held = [found.total for found in held_up_by(path)]
        key = pieces.part.astype(np.int64) * len(BoundBy) + pieces.bound
        by_class = summed_by(key, pieces.length, len(parts) * len(BoundBy)).reshape(len(parts), len(BoundBy))
        total = by_class.sum(axis=1)
        ranks = [
            RankOnPath(parts[at].rank, int(total[at]), held[at], BoundBy(int(by_class[at].argmax())).label)
            for at in np.argsort(-total, kind="stable").tolist()
            if total[at]
        ]
        return cls(ranks, time_by_host(path.graph, path.by_rank_ns), len(crossings(path)))


def slack_record(near: NearCritical) -> dict[str, Any]:
    """Return near-critical work as JSON has it (times in ns)."""
    from analyses.declare.answer import records  # late: most answers are without slack

    return {
        "threshold_ns": near.threshold_ns,
        "by_rank": records(near.by_rank),
        "alternatives": records(near.alternatives),
    }


def unknown_waits(graph: DependencyGraph) -> tuple[int, list[str]]:
    """Count the calls that are taken as waits for the GPU by their times alone; return also their names."""
    edges = graph.edges_of()
    calls = distinct(edges.target[graph.edge_table.rule == EdgeRule.RETURNED_WITH_WORK])
    return len(calls), list(dict.fromkeys(one_line(graph.name_of(call)) for call in calls.tolist()))
