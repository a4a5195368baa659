"""Lanes: CPU threads (pid, tid) and GPU streams (device, context, stream), told apart by their labels."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import compress
from operator import attrgetter
from typing import Any

import numpy as np

from hta_graph.model import Bools, Ids
from hta_graph.trace.decode import Args, Number, Row
from hta_graph.trace.table import LaneTable, freeze

__all__ = ["LaneKeys", "build_lanes"]

NO_STREAM = 2**32 - 1
"""How an unsigned writer prints stream -1."""

StreamKey = tuple[Any, Any, Any]


@dataclass(frozen=True)
class LaneKeys:
    """The ids that name each row's lane: (pid, tid), or (device, context, stream) where ``on_stream``."""

    threads: list[tuple[Number, Number]]
    streams: list[StreamKey]
    on_stream: Bools

    @classmethod
    def of(cls, rows: list[Row], args: list[Args], on_stream: Bools) -> LaneKeys:
        """Collect the ids of rows."""
        chosen = on_stream.tolist()
        on_cpu = list(compress(rows, (~on_stream).tolist()))
        threads = list(zip(map(attrgetter("pid"), on_cpu), map(attrgetter("tid"), on_cpu), strict=True))
        streams = [
            (pid if a.device is None else a.device, a.context, tid if a.stream is None else a.stream)
            for pid, tid, a in (
                (row.pid, row.tid, a) for row, a in zip(compress(rows, chosen), compress(args, chosen), strict=True)
            )
        ]
        return cls(threads, streams, on_stream)


def build_lanes(keys: LaneKeys) -> tuple[LaneTable, Ids, Callable[[Number, Number], int]]:
    """Number the lanes; return the table, each row's lane, and a look-up from (pid, tid) to lane (-1 if unknown)."""
    parsed = _parse_streams(dict.fromkeys(keys.streams))
    thread_label = {key: f"thread {_text(key[0])}:{_text(key[1])}" for key in dict.fromkeys(keys.threads)}
    stream_label = {
        key: "stream " + ":".join("-" if part == -1 else str(part) for part in p) for key, p in parsed.items()
    }
    known = dict.fromkeys(thread_label.values()), {stream_label[key]: parsed[key] for key in parsed}
    labels = sorted(known[0], key=_natural) + sorted(known[1], key=_natural)
    number = {label: code for code, label in enumerate(labels)}
    lane = np.empty(len(keys.on_stream), np.int32)
    lane[~keys.on_stream] = [number[thread_label[key]] for key in keys.threads]
    lane[keys.on_stream] = [number[stream_label[key]] for key in keys.streams]
    parts = [known[1].get(label, (-1, -1, -1)) for label in labels]
    device, context, stream = (freeze(np.array([_number(part[i]) for part in parts], np.int64)) for i in range(3))
    table = LaneTable(
        tuple(labels), freeze(np.array([label in known[1] for label in labels], np.bool_)), device, context, stream
    )
    return table, lane, lambda pid, tid: number.get(f"thread {_text(pid)}:{_text(tid)}", -1)


def _parse_streams(keys: dict[StreamKey, None]) -> dict[StreamKey, StreamKey]:
    """Normalise ids; a row without a context belongs to the only context in which its stream is known."""
    parsed = {key: (_part(key[0]), _part(key[1]), _part(key[2])) for key in keys}
    contexts: dict[tuple[Any, Any], set[Any]] = defaultdict(set)
    for device, context, stream in parsed.values():
        if context != -1:
            contexts[device, stream].add(context)
    for key, (device, context, stream) in parsed.items():
        if context == -1 and len(contexts[device, stream]) == 1:
            parsed[key] = (device, next(iter(contexts[device, stream])), stream)
    return parsed


def _part(value: Any) -> int | str:
    """Read an id: the oldest traces write ``stream 7``; -1 stands for none.

    >>> _part("stream 7"), _part(4294967295), _part(None), _part("queue a")
    (7, -1, -1, 'queue a')
    """
    if value is None or value == "":
        return -1
    match = re.fullmatch(r"(?:stream )?(-?\d{1,18})", str(value).strip())
    if match:
        number = int(match[1])
        return -1 if number == NO_STREAM else number
    return _text(value)


def _text(value: Any) -> str:
    r"""Print an id on one line.

    >>> _text("a b\n"), _text(None), _text(3.0)
    ('a b', '-', '3')
    """
    if value is None or value == "":
        return "-"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return " ".join(str(value)[:80].split())


def _number(part: int | str) -> int:
    return part if isinstance(part, int) else -1


def _natural(label: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() and len(part) < 19 else (-1, part) for part in re.split(r"(\d+)", label)]
