"""What is said about a path by replay, which may be kept with the graph of its file: then nothing is replayed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cache
from json import loads
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hta_graph.base.errors import QueryError
from hta_graph.store.trace_cache import IsSound, kept_answer, sources_version

if TYPE_CHECKING:
    from hta_graph.graph.dependency_graph import DependencyGraph
    from hta_graph.paths.critical_path import CriticalPath
    from hta_graph.paths.windows import WindowQuery


def verdict_records(path: CriticalPath, *, replayed: bool) -> list[dict[str, Any]]:
    """Return the findings about a path as JSON lists them (:func:`analyses.judgement.verdict.verdict_records`)."""

    def compute() -> Any:
        from analyses.judgement import verdict
        from hta_graph.base.text.json_text import to_json

        found = verdict.verdict_records(path, replayed=replayed)
        return loads(b"".join(to_json({"found": found})))["found"]

    records: list[dict[str, Any]] = _kept(path, ["verdict records", replayed], compute, _are_records)
    return records


def judgement_records(path: CriticalPath) -> list[dict[str, Any]]:
    """Return the judgement on a path's window as JSON lists it (``findings.judgement_record``)."""

    def compute() -> Any:
        from analyses.judgement.findings import judgement_record
        from hta_graph.base.text.json_text import to_json

        return loads(b"".join(to_json({"found": judgement_record(path)})))["found"]

    records: list[dict[str, Any]] = _kept(path, ["judgement"], compute, _are_records)
    return records


def judgement_of_ranks(graphs: Sequence[DependencyGraph], window: WindowQuery) -> list[dict[str, Any]]:
    """Return the judgement on a window of a rank, or of the job of several; nothing where they have none."""
    from hta_graph.multi_rank.join_ranks import join_ranks
    from hta_graph.paths.critical_path import critical_path

    try:
        path = critical_path(graphs[0] if len(graphs) == 1 else join_ranks(graphs), window)
    except QueryError:
        return []
    return judgement_records(path) if path.length_ns else []


def verdict_texts(path: CriticalPath, texts: Callable[[], tuple[list[str], list[str]]]) -> tuple[list[str], list[str]]:
    """Return what ``texts`` returns about a path."""
    first, second = _kept(path, ["verdict texts"], texts, _are_texts)
    return first, second


def _kept(path: CriticalPath, question: list[Any], compute: Callable[[], Any], is_sound: IsSound) -> Any:
    window = {f.name: getattr(path.window, f.name) for f in fields(path.window) if f.name != "sink"}
    return kept_answer(path.graph, [*question, window, list(path.data_load or ()), _version()], compute, is_sound)


def _are_records(answer: Any) -> bool:
    return isinstance(answer, list) and all(isinstance(record, dict) for record in answer)


def _are_texts(answer: Any) -> bool:
    is_pair = isinstance(answer, list) and len(answer) == 2 and all(isinstance(part, list) for part in answer)
    return is_pair and bool(answer[0]) and all(isinstance(text, str) for part in answer for text in part)


SOURCES = Path(__file__).parents[1]
"""Rules of advice, their words and the judgement on them stand in several rooms of one package."""


@cache
def _version() -> list[str]:
    return sources_version(SOURCES)
