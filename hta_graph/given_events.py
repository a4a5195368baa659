"""A DataFrame of events as a trace: kinds, lanes and one canonical order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hta_graph.arrays import distinct, freeze
from hta_graph.dataframe_import import FrameColumns
from hta_graph.errors import QueryError
from hta_graph.graph.validate import far_from_first, repeated_rows
from hta_graph.model import GPU_KINDS, LONGEST_NS, Bools, Codes, EventKind, Ids, Ints
from hta_graph.trace.lanes import named_lanes
from hta_graph.trace.order import canonical_order
from hta_graph.trace.profiler_names import STEP_NAME
from hta_graph.trace.table import READING_DIAGNOSTICS, CopyTable, EventTable, Flows, SyncTable, Trace

__all__ = ["trace_of_events"]

LARGEST_INDEX = 2**31 - 1
EVENT_KINDS = [kind.label for kind in EventKind if kind != EventKind.RENDEZVOUS]
"""Kinds of events that a frame can hold, in the order of their codes; ranks meet in jobs alone."""


def trace_of_events(events: FrameColumns, name: str, rank: int | None = None) -> Trace:
    """Make a trace of events.

    Args:
        events: the columns ``name``, ``lane``, ``start_ns`` and ``end_ns``; optional are ``event_index``, ``kind``,
            ``correlation``, ``external_id`` and ``rank``.
        name: what the graph is called in errors and outputs.
        rank: whose they are; None: what the column says.

    Raises:
        QueryError: a column is missing, or a row contradicts itself or another one.
    """
    if rank is not None and (isinstance(rank, bool) or not isinstance(rank, int | np.integer) or rank < 0):
        raise QueryError(f"the rank is {rank!r}; give a whole number of at least 0, or leave it out")
    known_rank = _only_rank(events)
    start, end = _checked_times(events)
    index = _checked_index(events)
    names, code = events.texts("name")
    lanes, lane = events.texts("lane")
    kind = events.codes("kind", EVENT_KINDS)
    on_stream = _are_streams(lanes, lane, kind)
    table = named_lanes(lanes, [label for label, is_stream in zip(lanes, on_stream, strict=True) if is_stream])
    columns: dict[str, Any] = {
        "index": index,
        "kind": _event_kinds(kind, names, code, on_stream[lane]),
        "name": _renumbered(names, sorted(names), code),
        "lane": _renumbered(lanes, table.labels, lane),
        "start": start,
        "end": end,
        "correlation": events.whole_numbers("correlation", blank=-1),
        "external_id": events.whole_numbers("external_id", blank=-1),
        "sequence": np.full(len(events), -1),
        "forward_thread": np.full(len(events), -1),
        "collective": np.zeros(len(events), np.bool_),
    }
    order = canonical_order(columns)
    return Trace(
        path=Path(name),
        events=EventTable.of(**{key: column[order] for key, column in columns.items()}),
        names=tuple(sorted(names)),
        lanes=table,
        syncs=SyncTable.empty(),
        copies=CopyTable.empty(),
        flows=Flows.empty(),
        rank=known_rank if rank is None else int(rank),
        world_size=None,
        gpu_names=(),
        diagnostics=dict.fromkeys(READING_DIAGNOSTICS, 0),
    )


def _checked_times(events: FrameColumns) -> tuple[Ints, Ints]:
    start, end = events.whole_numbers("start_ns"), events.whole_numbers("end_ns")
    events.refuse_any(end < start, "end_ns", "{} is before the row's start_ns", "an event ends at or after its start")
    apart = far_from_first(start, end, LONGEST_NS)
    events.refuse_any(apart, "end_ns", "{} is more than a year after the first start", "times are in ns")
    return start, end


def _checked_index(events: FrameColumns) -> Ints:
    if "event_index" not in events:
        return np.arange(len(events), dtype=np.int64)
    index = events.whole_numbers("event_index")
    outside = (index < 0) | (index > LARGEST_INDEX)
    events.refuse_any(outside, "event_index", "{} is not a number from 0 to 2³¹ − 1", "number the events from 0")
    events.refuse_any(repeated_rows(index), "event_index", "{} is there twice", "give each event a number of its own")
    return index


def _only_rank(events: FrameColumns) -> int | None:
    if "rank" not in events:
        return None
    ranks = distinct(events.whole_numbers("rank"))
    if len(ranks) > 1:
        raise QueryError(
            f"events: column 'rank' has {len(ranks)} ranks, but such a graph is of one; "
            "name lanes by rank and leave the column out, or take one rank's rows"
        )
    return int(ranks[0]) if len(ranks) else None


def _are_streams(lanes: list[str], lane: Ids, kind: Ids) -> Bools:
    """Mark the lanes that are streams: by their text, else by whether GPU work is on them."""
    has_work = np.zeros(len(lanes), np.bool_)
    has_work[lane[np.isin(kind, GPU_KINDS)]] = True
    begins = [(label.startswith("thread "), label.startswith("stream ")) for label in lanes]
    pairs = zip(begins, has_work.tolist(), strict=True)
    return np.array([stream or (works and not thread) for (thread, stream), works in pairs], np.bool_)


def _event_kinds(kind: Ids, names: list[str], name: Ids, on_stream: Bools) -> Codes:
    """Fill in the kinds that rows do not say: steps by their name, else by the lane."""
    is_step = np.array([STEP_NAME.fullmatch(text) is not None for text in names] or [False])[name]
    usual = np.where(on_stream, EventKind.KERNEL, np.where(is_step, EventKind.ANNOTATION, EventKind.CPU_OP))
    return np.where(kind >= 0, kind, usual).astype(np.int8)


def _renumbered(texts: list[str], ordered: list[str] | tuple[str, ...], code: Ids) -> Ids:
    """Let codes count the texts in another order."""
    place = {text: at for at, text in enumerate(ordered)}
    number: Ids = np.array([place[text] for text in texts], np.int32)[code]
    return freeze(number)
