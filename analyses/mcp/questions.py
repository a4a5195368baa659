"""The questions: how the answer of each tool is made of a command's JSON document."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from analyses.advice.rule import how_to_record
from analyses.cli.commands.what_if import read_changes
from analyses.cli.window_args import WindowArgs
from analyses.declare.answer import answer_document, records
from analyses.display.labels import REASON
from analyses.display.phrases import untrusted
from analyses.display.sentence_format import counted
from analyses.mcp.answers import ROWS_SHOWN, Draft, Page, Rows, cannot_answer, cannot_answer_text
from analyses.mcp.held_traces import HeldTrace, HeldTraces
from analyses.mcp.served_files import ServedFiles
from analyses.questions.catalogue import analysis
from analyses.source.matched_collectives import SINGLE_RANK
from hta_graph.base.errors import UsageError
from hta_graph.model import EventKind
from hta_graph.paths.critical_path import critical_path

if TYPE_CHECKING:
    from analyses.declare.scope import Scope
    from analyses.questions.what_if.answer import WhatIf
    from hta_graph.graph.dependency_graph import DependencyGraph, EventName
    from hta_graph.paths.critical_path import CriticalPath

WITH_KERNELS = "Record with ProfilerActivity.CUDA and without hardware counters"
TO_PREDICT: Mapping[str, str] = {
    "gpu_not_recorded": WITH_KERNELS,
    "kernels_not_recorded": WITH_KERNELS,
    "not_started": "Record all ranks and analyze them together; let no other process use the GPU",
    "waiting": "Record all ranks and analyze them together",
    "steps_differ": "Record more steps of equal work",
}
"""By reason for which a prediction is not reliable what the next trace should hold."""
RECORD_BOTH = "Record both runs in the same way: same GPU, ranks, model and batch; at least two steps each."
WINDOW = ("step", "annotation", "whole")


@dataclass(frozen=True)
class Question:
    """A call of a tool: its arguments, and what the server has."""

    files: ServedFiles
    traces: HeldTraces
    given: Mapping[str, Any]
    used: list[HeldTrace] = field(default_factory=list)

    def __getitem__(self, name: str) -> Any:
        return self.given.get(name)

    @property
    def page(self) -> Page:
        """Which rows are wanted."""
        return Page(self["table"], self["limit"], self.given.get("offset", 0))

    @property
    def window(self) -> WindowArgs:
        """The window.

        Raises:
            UsageError: several are named.
        """
        if sum(bool(self[name]) or self[name] == 0 for name in WINDOW) > 1:
            raise UsageError("step, annotation and whole exclude each other; omit all but one")
        return WindowArgs(step=self["step"], annotation=self["annotation"], whole=bool(self["whole"]))

    def held(self, argument: str = "trace") -> HeldTrace:
        """Return a trace from memory, or read it."""
        return self._read(self.files.trace(self[argument]), self["rank"])

    def _read(self, place: Path, rank: int | None) -> HeldTrace:
        found = self.traces.get(place, rank)
        self.used.append(found)
        return found

    def graph_of_event(self) -> tuple[HeldTrace, DependencyGraph, EventName]:
        """Return the graph that has the event, and its name: that of the job, with edges between ranks.

        Raises:
            HtaGraphError: there is no such rank; or there are too many to hold, and none is named.
        """
        place, rank, index = self.files.trace(self["trace"]), self["rank"], self["event_index"]
        held = self._read(place, None)
        if not held.inputs.many_ranks and len(held.ranks) > 1:
            return held, held.graph(WindowArgs()), index if rank is None else (rank, index)
        held = held if rank is None else self._read(place, rank)
        held.check_not_many()
        return held, held.graph(WindowArgs()), index

    def command(self, name: str, *more: str) -> str:
        """Return the command line that writes the whole document."""
        inputs = [self[name] for name in ("trace", "before", "after") if self[name] is not None]
        given = {option: self[option] for option in ("rank", "step", "annotation") if self[option] is not None}
        whole = ["--whole"] if self["whole"] else []
        return shlex.join(["hta-graph", name, *inputs, *_flag_words(given), *whole, *more, "--json", "-"])

    def unread(self, held: HeldTrace) -> list[str]:
        """Say which files could not be read."""
        errors = dict.fromkeys(error.on_command_line for error in held.left_out)
        return [text.replace(f"{self.files.root}/", "") for text in errors]


# -- what is there -----------------------------------------------------------------------------------------------------


def open_trace(asked: Question) -> Draft:
    """Describe a trace, or list the files that are served."""
    if asked["trace"] is None:
        files = Rows.of(asked.files.listing())
        said = (
            f"{counted(len(files), 'file')} that may be a trace; open one of them, or a folder with one file per rank"
        )
        return Draft([said], tables={"files": files})
    from analyses.questions.info import info_document

    held = asked.held()
    if count := held.inputs.many_ranks:
        said = f"a job of {count} ranks, held as summaries; pass rank=N for one of them"
        return Draft([said], {"command": asked.command("info")})
    ranks = [info_document(graph) for graph in held.ranks.values()]
    counts = {"rank": len(ranks), "event": sum(one["events"] for one in ranks), "step": len(ranks[0]["steps"])}
    lines = [", ".join(counted(count, of) for of, count in counts.items())]
    facts = {
        "gpus": list(dict.fromkeys(gpu for one in ranks for gpu in one["gpus"]))[:4],
        "kinds": {kind: count for kind, count in ranks[0]["kinds"].items() if count},
        "diagnostics": {key: n for key, n in ranks[0]["diagnostics"].items() if n and isinstance(n, int)},
        "command": asked.command("info"),
        "server": asked.traces.summary,
    }
    shown = ("file", "rank", "world_size", "recorder", "events", "start_ns", "end_ns")
    each = [{**{key: one[key] for key in shown}, "file": asked.files.relative(one["file"])} for one in ranks]
    tables = {
        "ranks": Rows.of(each),
        "steps": Rows.of(ranks[0]["steps"]),
        "lanes": Rows.of(sorted(ranks[0]["lanes"], key=lambda lane: -int(lane["events"]))),
    }
    return Draft(lines, facts, tables, asked.unread(held))


# -- paths and predictions ---------------------------------------------------------------------------------------------


def overview(asked: Question) -> Draft:
    """Say what bounds a step, what to do about it, and how steps differ."""
    path, document, held = _path(asked)
    kept = ("rule", "text", "confidence", "saves_ns", "saves_at_most_ns", "bound_ns")
    first, *findings = [{key: finding[key] for key in kept} for finding in document["verdict"]]
    tables = {"findings": Rows.of(findings), "steps": Rows.of(document.get("steps", []))}
    return Draft(
        [first.pop("text")],
        {**_leading(document.get("judgement", ())), "headline": first, **_path_facts(asked, path, document)},
        {name: rows for name, rows in tables.items() if len(rows)},
        asked.unread(held),
        cannot=_not_explained(path, document),
    )


def path_of_window(asked: Question) -> Draft:
    """List the segments of a critical path, and what is unexplained."""
    path, document, held = _path(asked)
    segments = Rows(_with_duration(document["segments"].columns))
    unexplained = Rows(_with_duration(document["unexplained"].columns))
    if asked["order"] != "time":
        segments, unexplained = segments.largest_first("duration_ns"), unexplained.largest_first("duration_ns")
    return Draft(
        [document["verdict"][0]["text"]],
        {**_leading(document.get("judgement", ())), **_path_facts(asked, path, document)},
        {"segments": segments, **({"unexplained": unexplained} if len(unexplained) else {})},
        asked.unread(held),
        cannot=_not_explained(path, document),
        evidence=lambda name, rows: held.with_event_offsets(rows, "event_index") if name == "segments" else rows,
    )


def _path(asked: Question) -> tuple[CriticalPath, dict[str, Any], HeldTrace]:
    from analyses.questions.critical_path import path_document
    from hta_graph.paths.step_table import step_rows

    held, window = asked.held(), asked.window

    def find() -> tuple[CriticalPath, dict[str, Any]]:
        path = critical_path(held.graph(window), window.window())
        steps = step_rows(path.graph) if path.window.is_default else []
        return path, path_document(path, steps, replayed=not path.graph.is_job)

    return *held.once(("path", window), find), held


def _path_facts(asked: Question, path: CriticalPath, document: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("window", "coverage", "job_verdict", "by_rank_ns", "held_up_ns")
    return {
        "length_ns": path.length_ns,
        **{key: document.get(key) for key in kept},
        "by_bound_ns": {key: ns for key, ns in document["by_bound_ns"].items() if ns},
        "command": asked.command("critical-path"),
    }


def _with_duration(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return segments with their lengths instead of their ends."""
    if "end_ns" not in columns:
        return dict(columns)
    rest = {key: column for key, column in columns.items() if key != "end_ns"}
    return {"duration_ns": columns["end_ns"] - columns["start_ns"], **rest}


def _not_explained(path: CriticalPath, document: Mapping[str, Any]) -> dict[str, Any]:
    """Say that a path cannot be explained where most of it is without a cause."""
    by_bound = document["by_bound_ns"]
    if not by_bound["unexplained"] or max(by_bound, key=by_bound.get) != "unexplained":
        return {}
    reasons = dict[str, int]()
    unexplained = document["unexplained"].columns
    lengths = unexplained["end_ns"] - unexplained["start_ns"]
    for reason, length in zip(unexplained["reason"].tolist(), lengths.tolist(), strict=True):
        reasons[reason] = reasons.get(reason, 0) + length
    first = max(reasons, key=lambda reason: reasons[reason])
    return cannot_answer(
        f"Only {document['coverage']:.0%} of the window has a known cause; the longest part {REASON[first]}.",
        _recorded(path.graph, first),
    )


def _recorded(graph: DependencyGraph, reason: str) -> str:
    return how_to_record(reason, with_nsight=bool(graph.trace.settings.get("recorder")))


def what_if(asked: Question) -> Draft:
    """Predict a window's length after changes, or list the largest savings."""
    from analyses.questions.what_if.answer import what_if as replay
    from analyses.questions.what_if.answer import what_if_document
    from analyses.questions.what_if.headline import what_if_headline

    words = [tuple(one.split(" ", 1)) for one in asked["changes"] or ()]
    changes = read_changes([(option, text) for option, text in words])
    held, window = asked.held(), asked.window
    graph = held.graph(window)

    def predict() -> tuple[WhatIf, dict[str, Any], list[str]]:
        found = replay(graph, window.window(), changes)
        return found, what_if_document(found), what_if_headline(found)

    found, document, headline = held.once(("what-if", window, *words), predict)
    kept = (
        "reliable", "window", "measured_ns", "predicted_ns", "saved_ns", "latency", "of_steps", "frozen_share",
        "inferred_share",
    )  # fmt: skip
    flags = [word for option, text in words for word in (f"--{option}", text)]
    tables = {name: document[name] for name in ("changes", "opportunities", "scenarios")}
    tables["path_after"] = document["path_after"]["events"] if changes else []
    cannot = {}
    if not document["reliable"]:
        why = document["reason"]
        said = f"The prediction is not reliable: {untrusted(why, found.reliability.share)}."
        cannot = cannot_answer(said, TO_PREDICT.get(why) or _recorded(found.graph, "unknown"))
    return Draft(
        [*headline, *found.replayed.remarks],
        {
            **_leading(document.get("judgement", ())),
            **{key: document.get(key) for key in kept},
            "command": asked.command("what-if", *flags),
        },
        {name: Rows.of(rows) for name, rows in tables.items() if rows},
        asked.unread(held),
        cannot=cannot,
    )


# -- tables of analyses ------------------------------------------------------------------------------------------------

NAMED_BY = ("kernel", "name", "operator")
"""Columns with the name of an event, the most telling first."""


def answer_of(name: str, asked: Question, **flags: Any) -> Draft:
    """Return the answer of an analysis of the catalogue."""
    held, window = asked.held(), asked.window
    question = analysis(name)
    graphs = held.ranks_with_causes(window) if question.from_summaries else held.ranks
    job = list(graphs.values())
    scopes = [scope for rank, graph in graphs.items() for scope in window.scopes(rank, graph, job)]
    found = held.once((name, window, *flags.items()), lambda: question.answer_about(scopes, **flags).on_command_line())
    judged = held.once(("judgement", window), lambda: _judgement(held, window)) if question.judges else []
    document = answer_document(name, found, [])
    notes = [note for note in document["notes"] if note not in found.headline]
    tables = {key: Rows.of(rows) for key, rows in document["tables"].items() if rows}
    # A note with a remedy says what is missing; without one it is the answer, such as that there is no idle time.
    first = notes[0] if notes else "The trace holds nothing that answers this."
    has_none = not found.conclusion and not len(found.main)
    return Draft(
        found.headline or [first],
        {
            **_leading(judged),
            "window": scopes[0].label,
            **found.keys,
            "command": asked.command(name, *_flag_words(flags)),
        },
        tables,
        [*(notes if found.headline else notes[1:]), *asked.unread(held)],
        only_named=tuple(found.series),
        cannot=cannot_answer_text(first) if has_none and "; " in first and first != SINGLE_RANK else {},
        evidence=partial(_with_longest_event, held, scopes),
    )


def _judgement(held: HeldTrace, window: WindowArgs) -> list[dict[str, Any]]:
    from analyses.judgement.kept_verdict import judgement_of_ranks

    return judgement_of_ranks([held.graph(window)], window.window())


def _leading(judgement: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the first finding on a window, which answers lead with."""
    return {"judgement": judgement[:1]} if judgement else {}


def _flag_words(flags: Mapping[str, Any]) -> list[str]:
    return [word for key, value in flags.items() for word in (f"--{key.replace('_', '-')}", str(value))]


def _with_longest_event(held: HeldTrace, scopes: Sequence[Scope], _: str, rows: Rows) -> Rows:
    """Add to rows with names the longest event of that name, and where it is in the file."""
    if "event_index" in rows.columns:
        return held.with_event_offsets(rows, "event_index")
    column = next((key for key in NAMED_BY if key in rows.columns), None)
    if column is None or held.inputs.many_ranks:
        return rows
    spans = {scope.rank: (scope.start_ns, scope.end_ns) for scope in scopes}
    ranks = rows.columns.get("rank") or [scopes[0].rank] * len(rows)
    found: list[int | None] = [None] * len(rows)
    for rank in dict.fromkeys(ranks):
        graph = held.graph_of_rank(rank)
        here = [at for at, of in enumerate(ranks) if of == rank]
        if graph is not None and rank in spans:
            names = [rows.columns[column][at] for at in here]
            for at, index in zip(here, held.longest_events(graph, names, spans[rank]), strict=True):
                found[at] = index
    return held.with_event_offsets(Rows({**rows.columns, "longest_event": found}), "longest_event")


def kernels(asked: Question) -> Draft:
    """List the kernels that take most time."""
    shown = asked.page.offset + (asked.page.limit or ROWS_SHOWN)
    return answer_of("kernel-breakdown", asked, duration_ratio=1.0, num_kernels=shown)


def sync_dependencies(asked: Question) -> Draft:
    """List the waits for GPU work, the longest first."""
    from analyses.questions.sync_deps import sync_document, sync_headline
    from hta_graph.export.sync_dependencies import SyncDependencies

    held, window = asked.held(), asked.window
    held.check_not_many()
    found = SyncDependencies(held.graph(window), window.window(whole_by_default=True))
    document = sync_document(found)
    tables = {
        key: Rows(document[key].columns).largest_first("waited_ns")
        for key in ("dependencies", "gpu_dependencies")
        if len(next(iter(document[key].columns.values())))
    }
    index = {"dependencies": "sync_index", "gpu_dependencies": "target_index"}
    return Draft(
        [line for line in sync_headline(found) if line] or ["No call and no stream is known to wait for GPU work."],
        {"window": document["window"], "command": asked.command("sync-deps")},
        tables,
        asked.unread(held),
        evidence=lambda name, rows: held.with_event_offsets(rows, index[name]),
    )


# -- two runs ----------------------------------------------------------------------------------------------------------


def diff(asked: Question) -> Draft:
    """Compare two traces or jobs."""
    from analyses.compare.diff import job_diff, run_diff
    from analyses.compare.diff.job_side import side_of_job

    window, both = asked.window, [asked.held("before"), asked.held("after")]
    windows = (window.window(), window.window()) if window.names_window or window.whole else None
    graphs = [held.graph(window) for held in both]
    form: Literal["usual", "gpu"] = "usual" if windows else "gpu"
    jobs = [side_of_job(graph, window.window() if windows else None, (), form) for graph in graphs if graph.is_job]
    if len(jobs) == len(graphs):
        rank = job_diff.common_rank(*jobs)
        control, test = (held.one_of_job(job.files, rank) for held, job in zip(both, jobs, strict=True))
        ranks = run_diff.between_runs(control, test, windows, (), form)
        compared = job_diff.between_jobs(jobs[0], jobs[1], ranks)
        answer, refused = job_diff.answer_of_jobs(compared, ranks), compared.refused
    else:
        ranks = run_diff.between_runs(both[0].lowest_rank, both[1].lowest_rank, windows, (), form)
        answer, refused = run_diff.answer_of_comparison(ranks), ranks.refused
    document = answer_document("diff", answer.on_command_line(), [])
    conclusion = list(answer.conclusion)
    kept = (
        "measure", "control_ns", "test_ns", "difference_ns", "difference_share", "noise_ns", "noise_share",
        "beyond_noise", "compared_by", "cannot_tell", "hangs", "since_step",
        "control_job_verdict", "job_verdict", "environment", "caveats",
    )  # fmt: skip
    facts = {key: document.get(key) for key in kept if document.get(key) != []}
    return Draft(
        conclusion or document["notes"][:1],
        {**facts, "command": asked.command("diff")},
        {key: Rows.of(rows) for key, rows in document["tables"].items() if rows},
        [note for note in document["notes"] if note not in conclusion],
        cannot=cannot_answer(refused, RECORD_BOTH) if refused else {},
    )


# -- one event, and pictures -------------------------------------------------------------------------------------------


def explain_event(asked: Question) -> Draft:
    """Say what an event is, what it belongs to, and which dependencies it has."""
    held, graph, name = asked.graph_of_event()
    row = graph.row_of(name)
    event = records(graph.events_of(np.array([row])))[0]
    rank = event.get("rank", graph.rank)
    edges = {"before": graph.predecessors(name), "after": graph.successors(name)}
    sides = {side: _neighbours(graph, records(found), side) for side, found in edges.items()}
    own = held.graph_of_rank(rank)
    before = counted(len(edges["before"]), "dependency", "dependencies")
    return Draft(
        [f"{event['name']}: {before} before it, {len(edges['after'])} after it"],
        {
            "rank": rank,
            **{key: value for key, value in event.items() if value not in (None, -1) and key != "end_ns"},
            "byte_offset": held.byte_offsets(own, [event["event_index"]])[0] if own else None,
        },
        {key: rows for key, rows in {"around": _around(graph, row), **sides}.items() if len(rows)},
        evidence=lambda _, rows: held.with_event_offsets(rows, "event_index"),
    )


def _around(graph: DependencyGraph, row: int) -> Rows:
    """Return what an event belongs to, the innermost first: its launch, operator, frame and annotation."""
    call = int(graph.launching_call[row])
    on_cpu = np.array([call if call >= 0 else row])
    is_on_cpu = call >= 0 or not graph.is_gpu[row]
    found = {"launched_by": call, "operator": int(graph.operator_around[on_cpu[0]]) if is_on_cpu else -1}
    for kind in (EventKind.PYTHON_FUNCTION, EventKind.ANNOTATION) if is_on_cpu else ():
        found[kind.label] = int(graph.enclosing(on_cpu, kind)[0])
    listed = [{"relation": relation, **_event_name(graph, of)} for relation, of in found.items() if of not in (-1, row)]
    return Rows.of(listed)


def _event_name(graph: DependencyGraph, row: int) -> dict[str, Any]:
    columns = graph.event_columns(np.array([row]))
    named = {key: columns[key][0] for key in ("rank", "event_index", "name") if key in columns}
    return {key: value if isinstance(value, str) else int(value) for key, value in named.items()}


def _neighbours(graph: DependencyGraph, edges: Sequence[Mapping[str, Any]], side: str) -> Rows:
    """Return edges with the event at their other end, the shortest lag first: that one was binding."""
    end = "source" if side == "before" else "target"
    found = []
    for edge in sorted(edges, key=lambda edge: edge["lag_ns"]):
        index, rank = edge[f"{end}_index"], edge.get(f"{end}_rank")
        other: dict[str, Any] = {"event_index": None, "name": None}
        if index is not None:
            other = _event_name(graph, graph.row_of(index if rank is None else (rank, index)))
        kept = {key: edge[key] for key in ("kind", "evidence", "rule", "lag_ns", "rendezvous") if key in edge}
        points = {"from": edge["source_point"], "to": edge["target_point"]}
        found.append({**kept, **points, **other})
    return Rows.of(found)


def render_picture(asked: Question) -> Draft:
    """Draw a path, the lanes of a window or the surroundings of an event into the output folder."""
    from hta_graph.export import picture as drawn

    target = asked.files.picture(asked["name"])
    drawn.check_picture(target, lanes=asked["picture"] == "lanes")
    window = asked.window
    if asked["picture"] == "around" and asked["event_index"] is None:
        raise UsageError("picture=around needs an event; pass event_index")
    if asked["picture"] == "around":
        _, graph, event = asked.graph_of_event()
        picture = drawn.around_picture(graph, event, asked.given.get("depth", 2))
    else:
        path = critical_path(asked.held().graph(window), window.window())
        picture = drawn.lanes_picture(path) if asked["picture"] == "lanes" else drawn.path_picture(path)
    drawn.write_picture(picture, target)
    asked.files.written.add(target.name)
    said, facts = (
        f"{target.name} was written to the output folder",
        {"file": target.name, "bytes": target.stat().st_size},
    )
    return Draft([said], facts, notes=[picture.left_out] if picture.left_out else [])


ANSWERS: Mapping[str, Callable[[Question], Draft]] = {
    "open": open_trace,
    "overview": overview,
    "critical_path": path_of_window,
    "what_if": what_if,
    "stragglers": partial(answer_of, "stragglers"),
    "diff": diff,
    "roofline": partial(answer_of, "roofline"),
    "idle_causes": partial(answer_of, "idle-time"),
    "kernels": kernels,
    "sync_dependencies": sync_dependencies,
    "explain_event": explain_event,
    "render_picture": render_picture,
}
"""What answers each tool."""
