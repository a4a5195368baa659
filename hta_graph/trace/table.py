"""What a trace is: columns of events in one canonical order, lanes, records of synchronisation, flows."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from hta_graph.arrays import Columns, freeze
from hta_graph.model import GPU_KINDS, Bools, Codes, EventKind, Floats, Ids, Ints, kind_mask
from hta_graph.storage.location import Location
from hta_graph.text.formatting import html_table
from hta_graph.trace.profiler_names import STEP_NAME

__all__ = [
    "READING_DIAGNOSTICS",
    "CopyTable",
    "EventTable",
    "Flows",
    "LaneTable",
    "Step",
    "SyncTable",
    "Trace",
    "activity_mask",
]

READING_DIAGNOSTICS: dict[str, str] = {
    "rows_dropped_not_an_object": "elements of traceEvents that are not JSON objects",
    "rows_dropped_no_name": "rows without a name",
    "rows_dropped_bad_time": "rows whose start or duration is missing, not a number or out of range",
    "rows_dropped_negative_duration": "rows that end before they start",
    "rows_dropped_absurd_time": "rows longer than 30 days, or more than a year away from the median start",
    "rows_dropped_bad_id": "rows with a correlation, External id or sequence number that does not fit 64 bits",
    "rows_dropped_unpaired": "B rows without an E row on their thread, and E rows without a B row",
    "rows_without_duration": "complete rows without dur, kept with length zero",
    "bad_header_base_time": "1 if baseTimeNanoseconds is not a time and was ignored",
    "tolerant_json": "1 if the file is not strict JSON and a tolerant parser read it",
    "salvaged": "1 if the file breaks off and only its whole events were read",
    "launches_by_external_id": "launches found by a unique External id and the kernel's name, without any correlation",
}
"""What reading repaired or dropped: key → meaning of its count."""


@dataclass(frozen=True, eq=False)
class EventTable(Columns):
    """One entry per event, in canonical order (:func:`hta_graph.trace.order.canonical_order`).

    ``index`` is the position in ``traceEvents``; ``name`` and ``lane`` are codes into :class:`Trace`; times are
    absolute nanoseconds; ids are -1 where absent.
    """

    index: Ids
    kind: Codes
    name: Ids
    lane: Ids
    start: Ints
    end: Ints
    correlation: Ints
    external_id: Ints
    sequence: Ints
    forward_thread: Ids
    collective: Bools


@dataclass(frozen=True)
class LaneTable:
    """CPU threads and GPU streams; device, context and stream are -1 where absent.

    Of a job there are lanes besides for what CPU threads did with other ranks (``is_communication``).
    """

    labels: tuple[str, ...]
    is_stream: Bools
    device: Ints
    context: Ints
    stream: Ints
    is_communication: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))

    def __post_init__(self) -> None:
        if not len(self.is_communication):
            object.__setattr__(self, "is_communication", freeze(np.zeros(len(self.labels), np.bool_)))


@dataclass(frozen=True, eq=False)
class SyncTable(Columns):
    """The arguments of the ``sync_record`` events: -1 where absent or unresolved."""

    event: Ids
    wait_on_stream: Ints
    record_correlation: Ints


@dataclass(frozen=True, eq=False)
class CopyTable(Columns):
    """What the copies and sets moved: bytes (-1 where absent) and the recorded GB/s (NaN where absent)."""

    event: Ids
    bytes: Ints
    bandwidth: Floats


FASTEST_GBPS = 1e6
"""Nothing copies at a petabyte a second: a rate above is none, and so are bytes that imply one."""


@dataclass(frozen=True, eq=False)
class Flows(Columns):
    """Forward-backward arrows: where each starts and ends."""

    start_time: Ints
    start_lane: Ids
    end_time: Ints
    end_lane: Ids


def activity_mask(events: EventTable, lanes: LaneTable) -> Bools:
    """Mark the rows with points that are on no thread: GPU activities, communication on CPUs, rendezvous."""
    activities = kind_mask(events.kind, (*GPU_KINDS, EventKind.RENDEZVOUS))
    if lanes.is_communication.any():
        activities |= lanes.is_communication[events.lane]
    return activities


@dataclass(frozen=True)
class Step:
    """One ``ProfilerStep#N`` annotation on the CPU; times in ns."""

    number: int
    event: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, repr=False)
class Trace:
    """One rank's trace: read-only columns and what the header says."""

    path: Location
    events: EventTable
    names: tuple[str, ...]
    lanes: LaneTable
    syncs: SyncTable
    copies: CopyTable
    flows: Flows
    rank: int | None
    world_size: int | None
    gpu_names: tuple[str, ...]
    diagnostics: dict[str, int]
    salvaged: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    """Versions and the profiler's options as the header has them, by key; what it does not say is absent."""

    def __repr__(self) -> str:
        rank = "" if self.rank is None else f", rank {self.rank}"
        return f"<Trace {self.path.name}: {len(self.events):,} events on {len(self.lanes.labels)} lanes{rank}>"

    def _repr_html_(self) -> str:
        """Show in a notebook how many events of each kind there are."""
        counts = np.bincount(self.events.kind, minlength=len(EventKind)).tolist()
        rows = [(kind.label, counts[kind]) for kind in EventKind if counts[kind]]
        return html_table(repr(self), ["kind", "events"], rows)

    @property
    def repairs(self) -> list[str]:
        """What of the file was salvaged or dropped, a line each."""
        lines = [f"{self.path}: {self.salvaged}"] if self.salvaged else []
        found = {key: count for key, count in self.diagnostics.items() if count and key.startswith("rows_")}
        if found:
            listed = [f"{count:,} {READING_DIAGNOSTICS[key].split(',')[0]} ({key})" for key, count in found.items()]
            lines.append(f"{self.path}: {', '.join(listed)}")
        return lines

    @cached_property
    def is_gpu(self) -> Bools:
        """Mark the GPU activities."""
        return freeze(kind_mask(self.events.kind, GPU_KINDS))

    @cached_property
    def is_activity(self) -> Bools:
        """Mark what runs beside the threads: GPU activities, and of a job what workers did with other ranks."""
        return freeze(activity_mask(self.events, self.lanes))

    def select(self, rows: Ids | Ints) -> Trace:
        """Return a trace of some events (canonical rows, ascending); lanes and names keep their codes."""
        number = np.full(len(self.events), -1, np.int32)
        # Side tables name events by their rows, which change when rows are left out.
        number[rows] = np.arange(len(rows), dtype=np.int32)
        syncs = replace(self.syncs, event=freeze(number[self.syncs.event]))
        copies = replace(self.copies, event=freeze(number[self.copies.event]))
        return replace(
            self,
            events=self.events.take(rows),
            syncs=syncs.take(syncs.event >= 0),
            copies=copies.take(copies.event >= 0),
        )

    def name_of(self, event: int) -> str:
        """Return an event's name."""
        return self.names[int(self.events.name[event])]

    def matching_names(self, pattern: re.Pattern[str]) -> Bools:
        """Mark the name codes in which a compiled pattern finds something; index it with ``events.name``."""
        return self._names_marked(pattern.search)

    def names_starting_with(self, pattern: re.Pattern[str]) -> Bools:
        """Mark the name codes that a compiled pattern matches from the start."""
        return self._names_marked(pattern.match)

    def _names_marked(self, matches: Callable[[str], object]) -> Bools:
        if matches not in self._known_marks:
            found = [match is not None for match in map(matches, self.names)]
            self._known_marks[matches] = freeze(np.array(found or [False], np.bool_))
        return self._known_marks[matches]

    @cached_property
    def _known_marks(self) -> dict[Callable[[str], object], Bools]:
        """Return what is known of the names already: there may be very many."""
        return {}

    def steps(self) -> list[Step]:
        """List the profiler steps on the CPU in time order; of equal numbers the first."""
        return list(self._find_steps)

    @cached_property
    def _find_steps(self) -> tuple[Step, ...]:
        numbers = [m and int(m[1]) for m in map(STEP_NAME.fullmatch, self.names)]
        is_step = np.array([n is not None for n in numbers] or [False])
        found = np.flatnonzero((self.events.kind == EventKind.ANNOTATION) & is_step[self.events.name])
        steps: dict[int, Step] = {}
        for event in found.tolist():
            number = numbers[self.events.name[event]] or 0
            steps.setdefault(number, Step(number, event, int(self.events.start[event]), int(self.events.end[event])))
        return tuple(steps.values())
