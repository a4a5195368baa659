"""Lanes: CPU threads (pid, tid) and GPU streams (device, context, stream), told apart by their labels."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from hta_graph.arrays import freeze
from hta_graph.model import Ids
from hta_graph.trace.rows import Number
from hta_graph.trace.table import LaneTable

__all__ = ["NO_STREAM", "StreamKey", "ThreadKey", "build_lanes", "named_lanes"]

NO_STREAM = 2**32 - 1
"""How an unsigned writer prints stream -1, and an unknown record."""

ThreadKey = tuple[Any, Any]
StreamKey = tuple[Any, Any, Any]


def build_lanes(
    threads: list[ThreadKey], streams: list[StreamKey]
) -> tuple[LaneTable, Ids, Ids, Callable[[Number, Number], int]]:
    """Number the lanes.

    Args:
        threads: the distinct (pid, tid).
        streams: the distinct (device, context, stream).

    Returns:
        the table, the lane of each thread and of each stream, and a look-up from (pid, tid) to lane (-1 if unknown).
    """
    parsed = _parse_streams(dict.fromkeys(streams))
    thread_labels = [f"thread {_id_text(pid)}:{_id_text(tid)}" for pid, tid in threads]
    # Keys that print alike are one lane: ids are written as numbers or as text, with or without a context.
    label_of = {key: "stream " + ":".join("-" if part == -1 else str(part) for part in parsed[key]) for key in parsed}
    parts_of = {label_of[key]: parsed[key] for key in parsed}
    table = _table_of_lanes(thread_labels, parts_of)
    number = {label: code for code, label in enumerate(table.labels)}
    lane_of_thread = np.array([number[label] for label in thread_labels], np.int32)
    lane_of_stream = np.array([number[label_of[key]] for key in streams], np.int32)
    return (
        table,
        lane_of_thread,
        lane_of_stream,
        lambda pid, tid: number.get(f"thread {_id_text(pid)}:{_id_text(tid)}", -1),
    )


def named_lanes(labels: Iterable[str], streams: Iterable[str]) -> LaneTable:
    """Make the table of lanes that have their labels; ``streams`` are those that are no threads."""
    parts = {label: _parts_of_label(label) for label in streams}
    return _table_of_lanes([label for label in labels if label not in parts], parts)


def _parts_of_label(label: str) -> StreamKey:
    """Read the ids of a stream from its label.

    >>> _parts_of_label("stream 0:-:7"), _parts_of_label("copies")
    ((0, '-', 7), (-1, -1, -1))
    """
    first, *others = label.removeprefix("stream ").split(":")
    return (_lane_part(first), *map(_lane_part, others)) if len(others) == 2 else (-1, -1, -1)  # type: ignore[return-value]


def _table_of_lanes(threads: Iterable[str], streams: Mapping[str, StreamKey]) -> LaneTable:
    """Number labels; sorted by what they are, so that a lane's number does not depend on the order of rows."""
    labels = sorted(dict.fromkeys(threads), key=_by_number) + sorted(streams, key=_by_number)
    parts = [streams.get(label, (-1, -1, -1)) for label in labels]
    device, context, stream = (
        freeze(np.array([part[i] if isinstance(part[i], int) else -1 for part in parts], np.int64)) for i in range(3)
    )
    is_stream = freeze(np.array([label in streams for label in labels], np.bool_))
    return LaneTable(tuple(labels), is_stream, device, context, stream)


def _parse_streams(keys: dict[StreamKey, None]) -> dict[StreamKey, StreamKey]:
    """Normalise ids; a row without a context belongs to the only context in which its stream is known."""
    parsed = {key: (_lane_part(key[0]), _lane_part(key[1]), _lane_part(key[2])) for key in keys}
    contexts: dict[tuple[Any, Any], set[Any]] = defaultdict(set)
    # Some rows of a stream lack their context (memory sets of old profilers): they are on the same stream all the same.
    for device, context, stream in parsed.values():
        if context != -1:
            contexts[device, stream].add(context)
    for key, (device, context, stream) in parsed.items():
        if context == -1 and len(contexts[device, stream]) == 1:
            parsed[key] = (device, next(iter(contexts[device, stream])), stream)
    return parsed


def _lane_part(value: Any) -> int | str:
    """Read an id: the oldest traces write ``stream 7``; -1 stands for none.

    >>> _lane_part("stream 7"), _lane_part(4294967295), _lane_part(None), _lane_part("queue a")
    (7, -1, -1, 'queue a')
    """
    if value is None or value == "":
        return -1
    match = re.fullmatch(r"(?:stream )?(-?\d{1,18})", str(value).strip())
    if match:
        number = int(match[1])
        return -1 if number == NO_STREAM else number
    return _id_text(value)


def _id_text(value: Any) -> str:
    r"""Print an id on one line.

    >>> _id_text("a b\n"), _id_text(None), _id_text(3.0)
    ('a b', '-', '3')
    """
    if value is None or value == "":
        return "-"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return " ".join(str(value)[:80].split())


def _by_number(label: str) -> tuple[list[tuple[int, str]], str]:
    parts = re.split(r"(\d+)", label)
    return [(int(part), "") if part.isdigit() and len(part) < 19 else (-1, part) for part in parts], label
