"""What is said about a path by replay, which may be kept with the graph of its file: then nothing is replayed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from json import loads
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hta_graph.store.trace_cache import IsSound, kept_answer, sources_version

if TYPE_CHECKING:
    from hta_graph.paths.critical_path import CriticalPath


def verdict_records(path: CriticalPath, *, replayed: bool) -> list[dict[str, Any]]:
    """Return the findings about a path as JSON lists them (:func:`analyses.advice.verdict.verdict_records`)."""

    def compute() -> Any:
        from analyses.advice import verdict
        from hta_graph.base.text.json_text import to_json

        found = verdict.verdict_records(path, replayed=replayed)
        return loads(b"".join(to_json({"found": found})))["found"]

    records: list[dict[str, Any]] = _kept(path, ["verdict records", replayed], compute, _are_records)
    return records


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


@cache
def _version() -> list[str]:
    return sources_version(Path(__file__).parent)
