"""A Kineto trace's events as an export of Nsight Systems: the same program, as if the other profiler had recorded it.

An export has no Python frames, arrows, memory reports nor annotations on GPUs; its threads have numbers of 24 bits, and
only operators have external ids. :func:`as_recorded_by_nsys` is the trace without what an export cannot hold.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import hta_graph as hg
from hta_graph.base.arrays import freeze
from hta_graph.model import EventKind, kind_mask
from hta_graph.trace.event_args import read_event_args
from hta_graph.trace.table import Flows, Trace
from tests.support.made_nsys import MEMORY_KINDS, NO_EVENT, NsysBuilder

HELD = (
    EventKind.CPU_OP, EventKind.ANNOTATION, EventKind.RUNTIME, EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET,
    EventKind.SYNC_RECORD,
)  # fmt: skip
"""Kinds of events that an export has."""

COPY = re.compile(r"Memcpy (HtoD|DtoH|DtoD|PtoP) \((\w+) -> (\w+)\)")
SYNC_TYPES = {"Event Sync": 1, "Stream Wait Event": 2, "Stream Sync": 3, "Context Sync": 4}
SINCE_1970_NS = 10**17
BEFORE_NS = 10**9
"""How long before the first event the session begins."""


def can_be_exported(trace: Trace) -> bool:
    """Return whether a trace is of CUDA: its copies and streams are named as CUPTI does."""
    copies = {trace.name_of(event) for event in trace.copies.event.tolist()}
    calls = {trace.names[code] for code in np.unique(trace.events.name[trace.events.kind == EventKind.RUNTIME])}
    is_cuda = not any(name.startswith(("hip", "runFunction")) for name in calls)
    named = all(COPY.fullmatch(name) or name.startswith("Memset") for name in copies)
    streams = np.unique(trace.events.lane[trace.is_gpu])
    return bool(len(streams)) and is_cuda and named and bool((trace.lanes.device[streams] >= 0).all())


def as_recorded_by_nsys(trace: Trace) -> Trace:
    """Return a trace without what an export cannot hold."""
    trace = trace.select(np.flatnonzero(kind_mask(trace.events.kind, HELD)).astype(np.int32))
    events = trace.events
    own = np.where(events.kind == EventKind.CPU_OP, events.external_id, -1)
    nothing = np.zeros(0, np.int64)
    flows = Flows(nothing, nothing.astype(np.int32), nothing, nothing.astype(np.int32))
    return replace(trace, events=replace(events, external_id=freeze(own)), flows=flows)


def write_as_nsys(trace: Trace, path: Path, *, schema: str = "3.25", reverse: bool = False) -> Path:
    """Write a trace (as read, of any Kineto file) as an export."""
    trace = as_recorded_by_nsys(trace)
    first = int(trace.events.start.min()) if len(trace.events) else 0
    session = first - BEFORE_NS if first > SINCE_1970_NS else 0
    builder = NsysBuilder(schema=schema, pid=1000, utc_ns=session or None)
    _Export(trace, builder, session).add_events()
    if trace.rank is not None:
        builder.environment(RANK=str(trace.rank), WORLD_SIZE=str(trace.world_size or trace.rank + 1))
    return builder.write(path, reverse=reverse)


class _Export:
    """Adds a trace's events to a builder."""

    def __init__(self, trace: Trace, builder: NsysBuilder, session: int) -> None:
        self.trace, self.builder, self.session = trace, builder, session
        self.grids = read_event_args(trace, ["grid", "block", "Input Dims"])
        self.bytes = dict(zip(trace.copies.event.tolist(), trace.copies.bytes.tolist(), strict=True))
        syncs = trace.syncs
        waits = zip(syncs.wait_on_stream.tolist(), syncs.record_correlation.tolist(), strict=True)
        self.waits = dict(zip(syncs.event.tolist(), waits, strict=True))
        self.records: dict[tuple[int, int], int] = {}
        threads = [lane for lane, is_stream in enumerate(trace.lanes.is_stream.tolist()) if not is_stream]
        self.threads = {lane: number for number, lane in enumerate(threads, start=1001)}

    def add_events(self) -> None:
        """Add all events, in the order of the file."""
        events = self.trace.events
        for event in np.argsort(events.index, kind="stable").tolist():
            kind = EventKind(int(events.kind[event]))
            start, end = (int(times[event]) - self.session for times in (events.start, events.end))
            lane, number = int(events.lane[event]), int(events.correlation[event])
            if self.trace.lanes.is_stream[lane]:
                self.builder.device = int(self.trace.lanes.device[lane])
                self.builder.context = max(int(self.trace.lanes.context[lane]), 0)
                self._add_gpu_event(event, kind, (start, end), number if number > 0 else None)
            else:
                self._add_host_event(event, kind, (start, end), number if number > 0 else None)

    def _add_gpu_event(self, event: int, kind: EventKind, times: tuple[int, int], corr: int | None) -> None:
        name, stream = self.trace.name_of(event), int(self.trace.lanes.stream[self.trace.events.lane[event]])
        if kind == EventKind.KERNEL:
            self.builder.kernel(name, *times, corr, stream=stream, **self._launch_geometry(event))
        elif kind == EventKind.MEMSET:
            memory = MEMORY_KINDS.get(name[8:-1], 7)
            self.builder.memset(*times, corr, stream=stream, size=max(self.bytes[event], 0), memKind=memory)
        elif kind == EventKind.MEMCPY:
            self._add_copy(name, times, corr, stream, max(self.bytes[event], 0))
        else:
            self._add_sync(event, name, times, corr, stream)

    def _launch_geometry(self, event: int) -> Mapping[str, Any]:
        found = {key: self.grids[key][event] for key in ("grid", "block")}
        return {key: value for key, value in found.items() if isinstance(value, list) and len(value) == 3}

    def _add_copy(self, name: str, times: tuple[int, int], corr: int | None, stream: int, size: int) -> None:
        found = COPY.fullmatch(name)
        assert found is not None, name
        self.builder.copy(found[1], *times, corr, stream=stream, size=size, source=found[2], target=found[3])

    def _add_sync(self, event: int, name: str, times: tuple[int, int], corr: int | None, stream: int) -> None:
        wait = self.waits.get(event, (-1, -1))
        ids = {}
        if min(wait) >= 0:
            if wait not in self.records:
                self.records[wait] = len(self.records) + 1
                self.builder.cuda_event(wait[1], self.records[wait], self.records[wait], stream=wait[0])
            ids = {"event": self.records[wait], "event_sync": self.records[wait]}
        self.builder.sync(SYNC_TYPES[name], *times, corr, stream=stream if stream >= 0 else NO_EVENT, **ids)

    def _add_host_event(self, event: int, kind: EventKind, times: tuple[int, int], corr: int | None) -> None:
        name, thread = self.trace.name_of(event), self.threads[int(self.trace.events.lane[event])]
        if kind == EventKind.RUNTIME:
            version = "_v11030" if name.startswith("cuda") else ""
            self.builder.call(name + version, *times, corr, tid=thread)
        elif kind == EventKind.CPU_OP:
            number, sequence = (int(column[event]) for column in (self._ids(), self.trace.events.sequence))
            sizes = self.grids["Input Dims"][event]
            self.builder.op(
                name, *times, op_id=number if number > 0 else None, seq=sequence if sequence >= 0 else None, tid=thread,
                sizes=sizes if isinstance(sizes, list) else [],
            )  # fmt: skip
        else:
            self.builder.range(name, *times, tid=thread)

    def _ids(self) -> Any:
        return self.trace.events.external_id


def path_of(graph: hg.DependencyGraph) -> list[tuple[Any, ...]]:
    """Return the segments of a graph's critical path, without what names lanes and places in the file."""
    segments = hg.critical_path(graph).segments
    columns = [name for name in segments.columns if name not in ("event_index", "lane")]
    found = segments[columns].astype(object)
    return list(map(tuple, found.where(found.notna(), None).to_numpy().tolist()))
