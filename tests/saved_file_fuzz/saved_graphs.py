"""Damage to saved graphs and jobs, bytes and records; a graph that is loaded obeys every invariant and answers."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import hta_graph as hg
from hta_graph.base.errors import DefectError, HtaGraphError
from hta_graph.export.picture.render import around_picture, path_picture
from hta_graph.store.entry_file import Entry, entry_pieces, read_entry
from hta_graph.store.save import NAME
from tests.job_fuzz import check_job
from tests.saved_file_fuzz.damage_cases import (
    OF_ANY_FOLDER,
    Family,
    Files,
    Harm,
    Rng,
    any_file,
    check_refusal,
    pipe_for_a_file,
    read_files,
)
from tests.support.foreign_traces import sound_ranks
from tests.support.invariants import check_graph, require, some_windows
from tests.trace_fuzz import seeds

SAVED = "graph.hta-graph"
JOBS = (0, 1, 4, 7)
"""Which simulated jobs are saved: of GPUs and of CPUs."""

# --- sound folders ----------------------------------------------------------------------------------------------------


@cache
def saved_graphs() -> tuple[tuple[str, Files], ...]:
    """Return small graphs of all dialects, a part of one and one of frames, each in a folder."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "trace.json")
        found = []
        for name, raw in seeds():
            path.write_bytes(raw)
            graph = hg.build_graph(hg.read_trace(path))
            found.append((name, _saved(graph)))
        found.append(("part", _saved(graph.filter(kind=["kernel", "runtime"]))))
        found.append(("frames", _saved(hg.from_dataframes(graph.events, graph.edges))))
        return tuple(found)


@cache
def saved_jobs() -> tuple[tuple[str, Files], ...]:
    """Return small simulated jobs, each in a folder."""
    found = []
    for number in JOBS:
        with tempfile.TemporaryDirectory() as scratch:
            for rank, raw in enumerate(sound_ranks(number)):
                Path(scratch, f"rank{rank}.json").write_bytes(raw)
            found.append((f"job {number}", _saved(hg.read_job(scratch, jobs=1))))
    return tuple(found)


def _saved(graph: hg.DependencyGraph) -> Files:
    with tempfile.TemporaryDirectory() as scratch:
        hg.save_graph(graph, Path(scratch, SAVED))
        return read_files(Path(scratch))


# --- damage to a record whose checksums fit ---------------------------------------------------------------------------

ODD_TEXTS = ("a\ud800b", "\udfff", "\u202e\u001b[31m", "", "x" * 5_000, "a\x00b", "ProfilerStep#99999999999999999999")
OTHER_TYPES = (np.int8, np.int16, np.int32, np.int64, np.uint64, np.float32, np.float64, np.bool_)


def _edit_entry(files: Files, rng: Rng, change: Callable[[dict[str, Any], list[Any]], object]) -> None:
    """Change a record and its columns if the file still holds them; a change that no file can hold is none."""
    name = any_file(files, rng)
    try:
        entry = read_entry(NAME, files[name])
        record, columns = json.loads(json.dumps(entry.record)), list(entry.columns)
        change(record, columns)
        files[name] = b"".join(map(bytes, entry_pieces(NAME, Entry(record, tuple(columns)))))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        return


def _any_object(record: dict[str, Any], rng: Rng) -> dict[str, Any]:
    """Choose an object of a record, or the record itself."""
    found, waiting = list[dict[str, Any]](), [record]
    while waiting:
        one = waiting.pop()
        found.append(one)
        inside = [item for value in one.values() for item in (value if isinstance(value, list) else [value])]
        waiting += [item for item in inside if isinstance(item, dict)]
    return rng.choice([one for one in found if one])


def retype_key(files: Files, rng: Rng) -> None:
    def change(record: dict[str, Any], _: list[Any]) -> None:
        one = _any_object(record, rng)
        one[rng.choice(sorted(one))] = rng.choice(("x", 0.5, {}, [[]], [{}], {"x": []}))

    _edit_entry(files, rng, change)


def drop_key(files: Files, rng: Rng) -> None:
    def change(record: dict[str, Any], _: list[Any]) -> None:
        one = _any_object(record, rng)
        one.pop(rng.choice(sorted(one)))

    _edit_entry(files, rng, change)


def odd_texts(files: Files, rng: Rng) -> None:
    def change(record: dict[str, Any], _: list[Any]) -> None:
        trace = record["graph"]["trace"]
        found = rng.choice((trace["values"]["names"], trace["tables"]["lanes"]["values"]["labels"]))
        found[rng.randrange(len(found))] = rng.choice((*ODD_TEXTS, rng.choice(found)))

    _edit_entry(files, rng, change)


def drop_column(files: Files, rng: Rng) -> None:
    _edit_entry(files, rng, lambda _, columns: columns.pop(rng.randrange(len(columns))))


def retype_column(files: Files, rng: Rng) -> None:
    def change(_: dict[str, Any], columns: list[Any]) -> None:
        at = rng.randrange(len(columns))
        with np.errstate(all="ignore"):
            columns[at] = columns[at].astype(rng.choice(OTHER_TYPES))

    _edit_entry(files, rng, change)


def shorter_column(files: Files, rng: Rng) -> None:
    def change(_: dict[str, Any], columns: list[Any]) -> None:
        at = rng.randrange(len(columns))
        columns[at] = columns[at][: rng.randrange(len(columns[at]))]

    _edit_entry(files, rng, change)


def numbers_beyond(files: Files, rng: Rng) -> None:
    """Let a number refer to nothing."""

    def change(_: dict[str, Any], columns: list[Any]) -> None:
        at = rng.randrange(len(columns))
        columns[at] = columns[at].copy()
        columns[at][rng.randrange(len(columns[at]))] = np.iinfo(columns[at].dtype).min

    _edit_entry(files, rng, change)


def file_of_another(files: Files, rng: Rng) -> None:
    """Take the end of another file."""
    name, other = any_file(files, rng), rng.choice(saved_graphs())[1]
    at = rng.randrange(len(files[name]) + 1)
    files[name] = files[name][:at] + next(iter(other.values()))[at:]


SAVED_HARMS: dict[str, Harm] = {
    **{name: harm for name, harm in OF_ANY_FOLDER.items() if name != "exchange_two_files"},
    **{
        harm.__name__: harm
        for harm in (
            retype_key, drop_key, odd_texts, drop_column, retype_column, shorter_column, numbers_beyond,
            file_of_another, pipe_for_a_file,
        )
    },
}  # fmt: skip


# --- questions --------------------------------------------------------------------------------------------------------


def ask_loaded(folder: Path, rng: Rng, _: str) -> str:
    """Load a file; question what was loaded, or check why it was refused.

    Raises:
        BrokenRuleError: the graph or the error is not what it must be; whatever else goes wrong is raised as it is.
    """
    try:
        graph = hg.load_graph(folder / SAVED)
    except DefectError:
        raise
    except HtaGraphError as error:
        check_refusal(str(error), folder)
        require(
            "save it again" in str(error) or str(error).endswith(("is missing", "is no file")), f"no remedy: {error}"
        )
        return "refused"
    check_graph(graph, some_windows(graph, rng))
    if isinstance(graph, hg.JobGraph) and len(graph.event_table):
        check_job(graph)
    _ask_questions(graph, rng)
    _check_saved_again(graph, folder)
    return "answered"


QUESTIONS: tuple[Callable[[hg.DependencyGraph, Any], Any], ...] = (
    lambda graph, _: graph.edges.to_json(),
    lambda graph, _: graph.events.to_json(),
    lambda graph, _: hg.critical_path(graph).segments.to_json(),
    lambda graph, _: hg.sync_dependencies(graph),
    lambda graph, _: hg.opportunities(graph),
    lambda graph, _: hg.slack(graph, hg.whole()),
    lambda graph, _: hg.replay(graph, hg.scale("kernel:.", 0.5), hg.whole()),
    lambda graph, _: graph.filter(kind=["kernel", "runtime"]),
    lambda graph, event: graph.subgraph([event]),
    lambda graph, event: graph.descendants(event),
    lambda graph, event: graph.predecessors(event),
    lambda graph, _: graph.steps(),
    lambda graph, _: repr(graph) + graph._repr_html_(),
    lambda graph, _: graph.to_networkx(),
    lambda graph, _: hg.build_graph(graph.trace),
    around_picture,
    lambda graph, _: path_picture(hg.critical_path(graph)),
)


def _ask_questions(graph: hg.DependencyGraph, rng: Rng) -> None:
    """Ask what a person asks; that a graph cannot answer is an answer, anything else that is raised a failure."""
    events = graph.events
    rows = len(events)
    names = events[["rank", "event_index"]] if "rank" in events else events["event_index"]
    chosen = names.iloc[rng.randrange(rows)] if rows else 0
    event = tuple(map(int, chosen)) if "rank" in events else int(chosen)
    for question in QUESTIONS:
        try:
            question(graph, event)
        except DefectError:
            raise
        except HtaGraphError as error:
            require("\n" not in str(error) and len(str(error)) <= 500, "not one clear line")


def _check_saved_again(graph: hg.DependencyGraph, folder: Path) -> None:
    again = folder / "saved again"
    hg.save_graph(graph, again)
    loaded = hg.load_graph(again)
    pd.testing.assert_frame_equal(loaded.events, graph.events)
    pd.testing.assert_frame_equal(loaded.edges, graph.edges)
    require(np.array_equal(loaded.doubtful_edges, graph.doubtful_edges), "doubts differ")


SAVED_GRAPHS = Family("graph", saved_graphs, SAVED_HARMS, ask_loaded)
JOBS_SAVED = Family("job", saved_jobs, SAVED_HARMS, ask_loaded)
