"""critical-path: the path of one window, for people and for programs."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analyses.advice import job_verdict
from analyses.display.phrases import NOT_RECORDED, whose
from analyses.display.sentence_format import and_more, as_sentence
from analyses.display.text_layout import Line, duration_text, percent, table
from analyses.judgement.kept_verdict import judgement_records, verdict_records, verdict_texts
from analyses.source.graph_names import naming_notes_of_rows
from analyses.source.window_facts import (
    DefaultWindow,
    RanksOnPath,
    StepFacts,
    WindowFacts,
    job_record,
    unknown_waits,
    verdict_of_job,
    window_record,
)
from analyses.source.window_report import (
    default_lines,
    missing_lines,
    rank_lines,
    rows_after_lines,
    steps_in_columns,
    unknown_wait_lines,
    window_lines,
)
from hta_graph.attribution.replayed_names import activity_owners_by_name, has_replayed_names, operator_columns
from hta_graph.base.errors import QueryError
from hta_graph.base.progress import begin_stage
from hta_graph.base.storage.location import Location
from hta_graph.base.text.json_text import Records
from hta_graph.base.text.sanitize import encodable_path
from hta_graph.base.text.shorten import suggest_known
from hta_graph.graph.conversion import texts_of_codes
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.paths.critical_path import CriticalPath
from hta_graph.paths.step_table import StepRow
from hta_graph.paths.windows import Window, step_lengths
from hta_graph.what_if.changes import Change

EVENTS_LISTED = 10
STEPS_LISTED = 1_000
"""How many steps of a rank ``--per-step`` prints."""


def path_document(
    path: CriticalPath, steps: Sequence[StepRow] = (), *, merge_runs: bool = False, replayed: bool = False
) -> dict[str, Any]:
    """Return the path as ``hta-graph/critical-path/1``: window, coverage, time per class, segments (times in ns).

    ``steps`` is the table of steps; it is listed where the window is a default. ``merge_runs`` lists long runs of equal
    class and stack as one segment each, and says how many there were. ``replayed`` adds to findings what they would
    save by replay.
    """
    window, unexplained = path.window, path.unexplained_columns()
    if merge_runs:
        unexplained["segment"] = path.runs.holding(unexplained["segment"])
    return {
        "schema": "hta-graph/critical-path/1",
        "file": encodable_path(path.graph.path),
        "rank": path.graph.rank,
        **({"judgement": judgement_records(path)} if path.length_ns and (replayed or path.graph.is_job) else {}),
        "verdict": verdict_records(path, replayed=replayed),
        "window": window_record(window, path.graph),
        "job_verdict": job_verdict.record(verdict_of_job(path)),
        **job_record(path),
        **({"steps": [one.record for one in StepFacts.of(steps)]} if window.is_default else {}),
        "coverage": path.coverage,
        "by_bound_ns": path.by_bound_ns,
        **({"segments_merged": len(path.segment_table)} if merge_runs else {}),
        "segments": Records(_columns_with_operators(path, merge_runs=merge_runs)),
        "unexplained": Records(unexplained),
        "diagnostics": path.graph.diagnostics_record,
    }


def _columns_with_operators(path: CriticalPath, *, merge_runs: bool) -> dict[str, Any]:
    """Return the columns of segments; where kernels of graph replays have names, with operator and module."""
    events = (path.runs if merge_runs else path.segment_table).event
    columns = path.run_columns() if merge_runs else path.segment_columns()
    return columns | operator_columns(path.graph, events)


@dataclass(frozen=True)
class RankSteps:
    """The table of the steps of a rank or of a job, and its trace; ``hidden`` counts the steps that are left out."""

    path: Location
    rank: int | None
    diagnostics: Mapping[str, Any]
    on_gpu: bool
    is_job: bool
    rows: Sequence[StepFacts]
    hidden: int = 0

    @classmethod
    def of(cls, graph: DependencyGraph, rows: Sequence[StepRow]) -> RankSteps:
        """Return a rank's steps with its trace."""
        on_gpu, hidden = bool(graph.is_gpu.any()), len(step_lengths(graph)) - len(rows)
        return cls(graph.path, graph.rank, graph.diagnostics_record, on_gpu, graph.is_job, StepFacts.of(rows), hidden)


def per_step_document(every: Sequence[RankSteps]) -> dict[str, Any]:
    """Return ``hta-graph/critical-path-per-step/1``: file, rank, every step with its coverage (times in ns).

    With multiple ranks, file and rank are null and ``ranks`` has them; steps are in order of their number, then of
    ranks; ``job_steps`` are the iterations of all ranks together.
    """
    ranks, job = [of for of in every if not of.is_job], [of for of in every if of.is_job]
    steps = [{**one.record, "coverage": one.row.coverage, "rank": of.rank} for of, one in _by_step(ranks)]
    each = [{"file": encodable_path(of.path), "rank": of.rank, "diagnostics": of.diagnostics} for of in ranks]
    top: dict[str, Any] = each[0] if len(each) == 1 else {"file": None, "rank": None, "ranks": each, "diagnostics": {}}
    of_job = [{**one.record, "coverage": one.row.coverage} for own in job for one in own.rows]
    return {
        "schema": "hta-graph/critical-path-per-step/1",
        **top,
        **({"job_steps": of_job} if job else {}),
        "steps": steps,
    }


def per_step_lines(every: Sequence[RankSteps]) -> list[Line]:
    """Render every step: its lengths, the class that bounds it, how much of it has a cause, what is unusual.

    With multiple ranks, those of the job come first.
    """
    ranks, more = [of for of in every if not of.is_job], and_more(sum(of.hidden for of in every), "usual step")
    of_job = [
        line
        for own in every
        if own.is_job
        for line in ("job", *steps_in_columns(own.rows, on_gpu=own.on_gpu, coverage=True), "")
    ]
    if not ranks:
        return [*of_job[:-1], *more]
    shown = _by_step(ranks)
    rows, on_gpu = [row for _, row in shown], any(of.on_gpu for of in ranks)
    if len(ranks) == 1:
        return [
            f"{ranks[0].path.name}{whose(ranks[0].rank, 1)}",
            *steps_in_columns(rows, on_gpu=on_gpu, coverage=True),
            *more,
        ]
    return [
        *of_job,
        _ranks(len(ranks), [of.rank for of in ranks if not of.rows]),
        *steps_in_columns(rows, on_gpu=on_gpu, coverage=True, ranks=[str(of.rank) for of, _ in shown]),
        *more,
    ]


def _ranks(count: int, without: Sequence[int | None]) -> str:
    """Count the ranks of a table of steps, and name those without steps."""
    named = ", ".join(map(str, without))
    return f"{count} ranks" + (f"; no steps on {'rank' if len(without) == 1 else 'ranks'} {named}" if without else "")


def _by_step(ranks: Sequence[RankSteps]) -> list[tuple[RankSteps, StepFacts]]:
    """Put the same step of all ranks next to each other."""
    return sorted(
        ((of, row) for of in ranks for row in of.rows), key=lambda pair: (pair[1].row.step, pair[0].rank or 0)
    )


@dataclass(frozen=True, kw_only=True)
class PathText:
    """All that the text about a path is made of: nothing is computed once its first line is written.

    ``trace`` is the name of the file; ``sentences`` is the verdict, ``advice`` its lines; ``items`` are the columns of
    the largest items, ``notes`` are on the names of kernels of graph replays, ``unknown_waits`` are counted and named.
    """

    trace: str
    facts: WindowFacts
    choice: DefaultWindow | None
    steps: Sequence[StepFacts]
    sentences: Sequence[str]
    advice: Sequence[str]
    unknown_waits: tuple[int, list[str]]
    by_bound_ns: Mapping[str, int]
    ranks: RanksOnPath | None
    items: Mapping[str, Any]
    notes: Sequence[str]

    @classmethod
    def of(cls, path: CriticalPath, steps: Sequence[StepRow] = ()) -> PathText:
        """Ask a path; ``steps`` are those to list with a default window."""
        window, graph = path.window, path.graph
        choice, listed = DefaultWindow.of(window, graph), StepFacts.of(steps)
        begin_stage("replaying the advice")
        sentences, advice = verdict_texts(path, lambda: _replayed_texts(path))
        return cls(
            trace=f"{graph.path.name}{whose(graph.rank, len(graph.rank_graphs))}",
            facts=WindowFacts.of(window, graph) if choice is None else choice.facts,
            choice=choice,
            steps=listed,
            sentences=sentences,
            advice=advice,
            unknown_waits=unknown_waits(graph),
            by_bound_ns=path.by_bound_ns,
            ranks=RanksOnPath.of(path),
            items=_items_of(path),
            notes=naming_notes_of_rows(graph, path.segment_table.event, window.label),
        )


def _replayed_texts(path: CriticalPath) -> tuple[list[str], list[str]]:
    """Return the verdict in sentences, the headline first, and the advice in lines."""
    from analyses.judgement.verdict import listed_advice, verdict_sentences  # late: what is known is not replayed

    sentences, found = verdict_sentences(path), listed_advice(path)
    advice = [line for one in found.shown for line in (f"  {as_sentence(one.action)}", f"    {one.why} {one.saving}")]
    why_title = "why nothing else is suggested" if advice else "why nothing is suggested"
    return sentences, [
        *(["what to try", *advice, *(f"  {note}" for note in found.notes)] if advice else []),
        *([""] if advice and found.why_nothing else []),
        *([why_title, f"  {found.why_nothing}"] if found.why_nothing else []),
    ]


@dataclass(frozen=True)
class EventsBehind:
    """A finding of a judgement as JSON lists it, the command that replays it, and the events that its change touches.

    ``columns`` are those of :func:`analyses.judgement.follow.evidence_columns`.
    """

    file: str
    finding: Mapping[str, Any]
    command: str
    columns: Mapping[str, Any]

    @classmethod
    def of(cls, path: CriticalPath, finding: Mapping[str, Any], changes: Iterable[Change]) -> EventsBehind:
        """Find the events on which the changes of a finding on a path's window act."""
        from analyses.advice.facts import PathFacts  # late: most questions list no events
        from analyses.judgement.follow import evidence_columns

        file = encodable_path(path.graph.path)
        words = ["hta-graph", "what-if", file, *_window_flags(path.window), *finding["change"]]
        return cls(file, finding, shlex.join(words), evidence_columns(PathFacts.of(path), changes))


def _window_flags(window: Window) -> list[str]:
    """Return the options that name a window again."""
    if window.step is not None:
        return ["--step", str(window.step), *["--cpu-window"] * (window.form == "cpu")]
    return ["--whole"] if window.is_whole else ["--window", f"{window.start_ns}:{window.end_ns}"]


def finding_of(path: CriticalPath, name: str) -> Mapping[str, Any]:
    """Return a finding on a path's window by its id, as JSON lists it.

    Raises:
        QueryError: there is no such finding, or no change of events stands for it.
    """
    every = {one["id"]: one for one in judgement_records(path)}
    of = f"{path.graph.path}: {path.window.label}"
    if name not in every:
        raise QueryError(f"{of} has no finding {name!r}; {suggest_known(name, every)}")
    if not every[name]["change"]:
        raise QueryError(f"{of}: {name} stands for no change of events; name another of {', '.join(every)}")
    return every[name]


def evidence_document(found: EventsBehind) -> dict[str, Any]:
    """Return the events behind a finding as ``hta-graph/critical-path-evidence/1`` (times in ns)."""
    return {
        "schema": "hta-graph/critical-path-evidence/1",
        "file": found.file,
        "finding": found.finding,
        "events": Records(found.columns),
    }


EVIDENCE_LISTED = 40


def evidence_lines(found: EventsBehind, *, all_rows: bool = False) -> list[Line]:
    """Render the finding, how to replay it, and the events that its change touches."""
    columns, finding = found.columns, found.finding
    limit = None if all_rows else EVIDENCE_LISTED
    with_rank = "rank" in columns
    keys = ["time_ns", "path_ns", "event_index", *["rank"] * with_rank, "bound_by", "name"]
    rows = [
        [duration_text(int(of[0])), duration_text(int(of[1])), *map(str, of[2:])]
        for of in zip(*(columns[key][:limit] for key in keys), strict=True)
    ]
    header = ["time", "on path", "event", *["rank"] * with_rank, "class", "name"]
    hidden = len(columns["time_ns"]) - len(rows)
    return [
        f"{finding['window']['label']}: {finding['text']}",
        f"replay it: {found.command}",
        "",
        f"events behind it ({len(columns['time_ns']):,})",
        *table(rows, header, left=[len(header) - 2, len(header) - 1], names=[len(header) - 1]),
        *([f"  … {hidden:,} more with --all"] if hidden else []),
    ]


def _items_of(path: CriticalPath) -> Mapping[str, Any]:
    """Return what takes most of a path; where kernels of graph replays have names, with their operators."""
    if not has_replayed_names(path.graph):
        return path.event_totals(None)
    codes, operators = activity_owners_by_name(path.graph, "operator")
    totals = path.event_totals(codes)
    return {**totals, "owner": texts_of_codes(operators, totals["owner"], "")}


def path_lines(found: PathText, *, all_rows: bool = False) -> list[Line]:
    """Render the path: what bounds the window, what to try, the steps with a default one, the largest items or all."""
    chosen = default_lines(found.choice, found.steps)
    return [
        *_verdict_lines(found),
        *(["", *chosen] if chosen else []),
        "",
        "critical path by class",
        *_class_lines(found),
        "",
        *(line for line in (*rank_lines(found.ranks, found.facts), "") if found.facts.is_job),
        *_event_lines(found, None if all_rows else EVENTS_LISTED),
    ]


def _verdict_lines(found: PathText) -> list[str]:
    """Say what bounds the window in a headline, then the rest of the verdict and advice."""
    first, *rest = found.sentences
    return [
        first,
        "",
        found.trace,
        *window_lines(found.facts),
        *missing_lines(found.facts.window),
        *rest,
        *unknown_wait_lines(*found.unknown_waits),
        *rows_after_lines(found.facts.window),
        "",
        *found.advice,
    ]


def _class_lines(found: PathText) -> list[Line]:
    """List the classes, longest first."""
    length, meanings, words = max(found.facts.length_ns, 1), found.facts.meanings, found.facts.words
    shown = sorted(((ns, bound) for bound, ns in found.by_bound_ns.items() if ns), key=lambda item: -item[0])
    rows = [[duration_text(ns), percent(ns / length), words[bound], meanings[bound]] for ns, bound in shown]
    return table(rows, left=[2, 3], words=[3])


def _event_lines(found: PathText, limit: int | None) -> list[Line]:
    """List what takes most of the path."""
    length, words, totals = max(found.facts.length_ns, 1), found.facts.words, found.items
    rows = [
        [
            duration_text(int(ns)), percent(ns / length), f"{calls:,}" if name else "-", *map(str, rank),
            words[bound], *owner, name or NOT_RECORDED,
        ]
        for name, bound, ns, calls, rank, owner in _largest_items(totals)[:limit]
    ]  # fmt: skip
    header = [
        "time", "share", "calls", *(["rank"] if "rank" in totals else []), "class",
        *(["operator"] if "owner" in totals else []), "name",
    ]  # fmt: skip
    texts = [*range(header.index("class"), len(header))]
    return [
        "largest items on the critical path",
        *table(rows, header, left=texts, names=texts[1:]),
        *(["", *found.notes] if found.notes else []),
    ]


def _largest_items(totals: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Return the items of a path: name, class, time, calls, and, in lists, rank and operator where there are any."""
    further = [
        [[one] for one in totals[key]] if key in totals else [[]] * len(totals["name"]) for key in ("rank", "owner")
    ]
    return list(zip(*(totals[key] for key in ("name", "bound_by", "time_ns", "calls")), *further, strict=True))
