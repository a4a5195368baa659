"""Trace: columns of events in one canonical order, lanes, synchronization records, copies and flows.

Lanes are CPU threads (pid, tid) and GPU streams (device, context, stream), numbered by their labels. The order of
events depends on what they are and not on where they stand in the file.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hta_graph.base.arrays import Columns, freeze, take_or
from hta_graph.base.storage.location import Location
from hta_graph.base.text.formatting import html_table
from hta_graph.model import GPU_KINDS, ON_STREAMS, Bools, Codes, EventKind, Floats, Ids, Ints, kind_mask
from hta_graph.trace.engine_steps import (
    STEP_PATTERNS,
    EngineStep,
    FoundStep,
    find_engine_steps,
    own_pattern,
    read_step_name,
)
from hta_graph.trace.profiler_names import STEP_NAME
from hta_graph.trace.recordings import Recording

if TYPE_CHECKING:
    from hta_graph.trace.json_reader import Number

MOST_CYCLES_NAMED = 10
"""How many of the cycles that repeat numbers get a line each: a damaged trace may have thousands."""

READING_DIAGNOSTICS: dict[str, str] = {
    "rows_dropped_not_an_object": "elements of traceEvents that are not JSON objects",
    "rows_dropped_no_name": "events without a name",
    "rows_dropped_bad_time": "events without a valid start and duration, such as a missing or out-of-range number",
    "rows_dropped_negative_duration": "events that end before they start",
    "rows_dropped_no_stamp": "events without a time stamp (ts 0 and dur 0), long before all others",
    "rows_dropped_absurd_time": "events longer than 30 days or more than a year from the median start",
    "rows_dropped_bad_id": "events with a correlation, External id or sequence number that does not fit 64 bits",
    "rows_dropped_unpaired": "B events without an E event on their thread, and E events without a B event",
    "rows_ended_with_caller": "Python frames that outlived the frame that called them, ended with it",
    "damaged_events_skipped": "events of a damaged file that could not be recovered",
    "rows_without_duration": "complete events without dur, kept with length zero",
    "bad_header_base_time": "1 if baseTimeNanoseconds is not a time and was ignored",
    "tolerant_json": "1 if the file is not strict JSON and a tolerant parser read it",
    "salvaged": "1 if the file is truncated and only its complete events were recovered",
    "copies_among_kernels": "kernels that are copies, sets or marks of events, by their launching calls",
    "late_ends": "GPU activities that outlive later ones of their stream; they end when the next one starts",
    "calls_moved_into_operators": "calls stamped up to 10 µs before the operator with their External id",
    "graph_arrows": "recorded arrows between nodes of CUDA graphs",
    "graph_arrows_unresolved": "recorded arrows whose ends are not two nodes of one graph launch; left out",
    "launches_by_arrow": "launches found by the arrows from calls to GPU activities, without a correlation",
    "launches_by_external_id": "launches matched by a unique External id and the kernel name, without a correlation",
    "launches_by_order": "launches matched by the kernel name and the order of calls, without a correlation",
}
"""What reading repaired or dropped: key → meaning of its count."""


@dataclass(frozen=True, eq=False)
class EventTable(Columns):
    """One entry per event, in canonical order (:func:`hta_graph.trace.table.canonical_order`).

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


@dataclass(frozen=True, eq=False)
class NodeOrder(Columns):
    """Recorded arrows between nodes of CUDA graphs: ``target`` begins after ``source`` has ended."""

    source: Ids
    target: Ids

    def renumbered(self, place: Ids) -> NodeOrder:
        """Return the same where events have other rows; those of which one is left out (-1) go."""
        moved = NodeOrder(freeze(place[self.source]), freeze(place[self.target]))
        return moved.take((moved.source >= 0) & (moved.target >= 0))


def activity_mask(events: EventTable, lanes: LaneTable) -> Bools:
    """Mark the rows with points on no thread: GPU activities, graph nodes, communication on CPUs, rendezvous."""
    activities = kind_mask(events.kind, (*ON_STREAMS, EventKind.RENDEZVOUS))
    if lanes.is_communication.any():
        activities |= lanes.is_communication[events.lane]
    return activities


ClockModel = Literal["constant", "steps", "noisy", "one_sided", "unknown"]
PARTS_PER_MILLION = 1e6


@dataclass(frozen=True)
class ClockPiece:
    """By how much (ns) a GPU clock is ahead of the host's from a time of its own on, within an interval.

    ``offset_ns`` holds at ``from_ns`` (that time of the file where the piece begins) and grows by ``drift_ppm``; a
    bound that nothing shows is None, and so is an offset without any. ``launches`` and ``returns`` are how many bounds
    it rests on.
    """

    from_ns: int
    offset_ns: int | None
    low_ns: int | None
    high_ns: int | None
    drift_ppm: float = 0.0
    launches: int = 0
    returns: int = 0


@dataclass(frozen=True)
class GpuClock:
    """The clock of one device relative to the host's; ``noise_ns`` is how much its own bounds contradict each other."""

    device: int
    how: ClockModel
    noise_ns: int
    pieces: tuple[ClockPiece, ...]

    @property
    def is_host_time(self) -> bool:
        """Whether its events are taken as recorded."""
        return not any(piece.offset_ns or piece.drift_ppm for piece in self.pieces)

    def ahead(self, times: Ints, piece: Ints) -> Ints:
        """Return by how much the clock is ahead at times of its own (ns), by the piece in which each lies."""
        origin = np.array([one.from_ns for one in self.pieces], np.int64)
        offset = np.array([one.offset_ns or 0 for one in self.pieces], np.int64)
        drift = np.array([one.drift_ppm for one in self.pieces]) / PARTS_PER_MILLION
        found = offset[piece]
        return found + np.rint((times - origin[piece]) * drift[piece]).astype(np.int64) if drift.any() else found

    def offset_at(self, time_ns: int) -> int:
        """Return by how much the clock is ahead at one time of its own (ns)."""
        time = np.array([time_ns], np.int64)
        return int(self.ahead(time, self.piece_of(time))[0])

    def error_ns(self, most_ns: int) -> tuple[int, int]:
        """Return by how much more, and less, than its offsets the clock may be ahead (ns), up to a limit."""
        known = [one for one in self.pieces if one.offset_ns is not None]
        more = [one.high_ns - one.offset_ns for one in known if one.high_ns is not None]  # type: ignore[operator]
        less = [one.offset_ns - one.low_ns for one in known if one.low_ns is not None]  # type: ignore[operator]
        most = [min(max(side), most_ns) if len(side) == len(self.pieces) else 0 for side in (more, less)]
        return most[0], most[1]

    def piece_of(self, times: Ints) -> Ints:
        """Return the piece in which each time of its own (ns) lies."""
        begins = [piece.from_ns for piece in self.pieces[1:]]
        found: Ints = np.searchsorted(np.array(begins, np.int64), times, side="right")
        return found

    @classmethod
    def of_json(cls, record: Mapping[str, Any]) -> GpuClock:
        """Return the clock of :meth:`exact_json`."""
        return cls(**{**record, "pieces": tuple(ClockPiece(**piece) for piece in record["pieces"])})

    def as_json(self) -> dict[str, Any]:
        """Return the clock as ``diagnostics.gpu_clock`` has it."""
        pieces = [vars(piece) | {"drift_ppm": round(piece.drift_ppm, 3)} for piece in self.pieces]
        return {**vars(self), "pieces": pieces}

    def exact_json(self) -> dict[str, Any]:
        """Return the clock as JSON from which :meth:`of_json` makes an equal one."""
        return {**vars(self), "pieces": [vars(piece) for piece in self.pieces]}


@dataclass(frozen=True, eq=False)
class FileTimes(Columns):
    """When each event begins and ends by its file (ns), where its trace is in host time."""

    start: Ints
    end: Ints


@dataclass(frozen=True)
class Step:
    """One ``ProfilerStep#N`` annotation on the CPU, or a step of an inference engine; times in ns.

    The work of an engine's step is what is launched ``until_ns``, where the next step starts; ``engine`` is what its
    name says, ``call_ns`` when its annotation starts and ends.
    """

    number: int
    event: int
    start_ns: int
    end_ns: int
    until_ns: int = -1
    engine: EngineStep | None = None
    call_ns: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        if self.engine is None:
            object.__setattr__(self, "until_ns", self.end_ns)

    @property
    def phase(self) -> str | None:
        """What an engine does in it; None of a step that is no engine's."""
        return None if self.engine is None else self.engine.phase

    @property
    def label(self) -> str:
        """What a person calls it."""
        if self.engine is None or self.engine.is_inside:
            return f"ProfilerStep#{self.number}"
        return f"{self.engine.phase} step {self.number}"


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
    gpu_clock: tuple[GpuClock, ...] = ()
    """How far the clock of each device is ahead of the host's, where that was estimated: of a graph's trace."""
    notes: tuple[str, ...] = ()
    """What single events say that cannot be, and what is believed instead."""
    moved_from: FileTimes | None = None
    """What the file says of each event, where GPU events were moved into host time; None where all are as recorded."""
    recording: Recording | None = None
    """Which rows of its file are this rank's, where several ranks were merged into the file."""
    launches_by_order: tuple[int, ...] = ()
    """Correlations of the calls whose kernels are theirs by name and order, ascending."""
    step_patterns: tuple[str, ...] = ()
    """Regular expressions of annotations that are steps besides the known ones."""
    node_order: NodeOrder = field(default_factory=NodeOrder.empty)
    is_excerpt: bool = False
    """Whether rows were left out: a step without GPU work may have had some."""

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
        """What was recovered or dropped from the file, one line each."""
        lines = [f"{self.path}: {self.salvaged}"] if self.salvaged else []
        found = {key: count for key, count in self.diagnostics.items() if count and key.startswith("rows_")}
        if found:
            listed = [f"{READING_DIAGNOSTICS[key].split(',')[0]}: {count:,} ({key})" for key, count in found.items()]
            lines.append(f"{self.path}: {', '.join(listed)}")
        return lines + [f"{self.path}: {line}" for line in (*self.notes, *self.repeated_steps)]

    @property
    def file_times(self) -> FileTimes:
        """When each event begins and ends by the file: in host time a GPU's events may stand elsewhere."""
        return self.moved_from or FileTimes(self.events.start, self.events.end)

    def in_file_time(self, rows: Ids | Ints, times: Ints, side: Literal["start", "end"] = "start") -> Ints:
        """Return times (ns) near the starts or ends of events as the clocks of their file show them; row -1: as is."""
        if self.moved_from is None:
            return times
        ahead = getattr(self.moved_from, side) - getattr(self.events, side)
        found: Ints = times + take_or(ahead, rows, otherwise=0)
        return found

    @cached_property
    def is_gpu(self) -> Bools:
        """Mark the GPU activities."""
        return freeze(kind_mask(self.events.kind, GPU_KINDS))

    @cached_property
    def is_activity(self) -> Bools:
        """Mark what runs outside threads: GPU activities, nodes of graphs, and in a job the work with other ranks."""
        return freeze(activity_mask(self.events, self.lanes))

    def without_records(self) -> Trace:
        """Return the trace without what recorders say of waits: synchronization records and arrows between graph nodes.

        The dependencies of its graph are then inferred, to be compared with the recorded ones.
        """
        rows = np.flatnonzero(self.events.kind != EventKind.SYNC_RECORD)
        kept = self.select(rows) if len(rows) < len(self.events) else self
        return replace(kept, node_order=NodeOrder.empty(), is_excerpt=self.is_excerpt)

    def select(self, rows: Ids | Ints) -> Trace:
        """Return a trace of some events (canonical rows, ascending); lanes and names keep their codes."""
        number = np.full(len(self.events), -1, np.int32)
        # Side tables name events by their rows, which change when rows are left out.
        number[rows] = np.arange(len(rows), dtype=np.int32)
        syncs = replace(self.syncs, event=freeze(number[self.syncs.event]))
        copies = replace(self.copies, event=freeze(number[self.copies.event]))
        return replace(
            self,
            events=replace(self.events.take(rows)),  # all columns, so that the other rows can be let go
            syncs=syncs.take(syncs.event >= 0),
            copies=copies.take(copies.event >= 0),
            node_order=self.node_order.renumbered(number),
            is_excerpt=True,
            moved_from=self.moved_from and self.moved_from.take(rows),
        )

    def name_of(self, event: int) -> str:
        """Return an event's name."""
        return self.names[int(self.events.name[event])]

    def matching_names(self, pattern: re.Pattern[str], kind: EventKind | None = None) -> Bools:
        """Mark the name codes in which a compiled pattern finds a match; index the result with ``events.name``.

        Only names of events of a ``kind`` are looked at, if one is given: there may be very many others.
        """
        return self._names_marked(pattern, "search", kind)

    def names_starting_with(self, pattern: re.Pattern[str], kind: EventKind | None = None) -> Bools:
        """Mark the name codes that a compiled pattern matches from the start, of events of a ``kind`` or of all."""
        return self._names_marked(pattern, "match", kind)

    def _names_marked(self, pattern: re.Pattern[str], method: str, kind: EventKind | None) -> Bools:
        asked = pattern, method, kind
        if asked not in self._known_marks:
            codes = range(len(self.names)) if kind is None else self._names_of_kind(kind)
            marks = np.zeros(max(len(self.names), 1), np.bool_)
            if codes:  # else the pattern need not be compiled
                matches = getattr(pattern, method)
                marks[[code for code in codes if matches(self.names[code]) is not None]] = True
            self._known_marks[asked] = freeze(marks)
        return self._known_marks[asked]

    def _names_of_kind(self, kind: EventKind) -> list[int]:
        if kind not in self._known_names:
            used = np.zeros(len(self.names), np.bool_)
            used[self.events.name[self.events.kind == kind]] = True
            self._known_names[kind] = np.flatnonzero(used).tolist()
        return self._known_names[kind]

    @cached_property
    def _known_names(self) -> dict[EventKind, list[int]]:
        """Return the codes of the names of each kind that was asked for."""
        return {}

    @cached_property
    def _known_marks(self) -> dict[tuple[re.Pattern[str], str, EventKind | None], Bools]:
        """Return what is known of the names already."""
        return {}

    def steps(self) -> list[Step]:
        """List the profiler steps on the CPU in time order, or those of an inference engine.

        Where a profiler's second cycle repeats the numbers of the first one, its steps are numbered on from there.
        An engine's steps are numbered from 0; profiler steps are preferred unless one has several of them in it.
        """
        return list(self._find_steps)

    @cached_property
    def _find_steps(self) -> tuple[Step, ...]:
        profiled, found = [step for cycle in self._cycles for step in cycle], self._engine_calls
        if profiled and found:
            starts = [item.start_ns for item in profiled]
            of = np.searchsorted(starts, [one.start_ns for one in found], side="right") - 1
            inside = [at >= 0 and one.start_ns < profiled[at].end_ns for at, one in zip(of, found, strict=True)]
            within = of[inside]
            if len(np.unique(within)) == len(within):
                said = {at: one for at, one, there in zip(of.tolist(), found, inside, strict=True) if there}
                return tuple(_with_engine(step, said.get(at)) for at, step in enumerate(profiled))
        if profiled and not found:
            return tuple(profiled)
        kept = found[: len(found) - self.calls_without_work]
        return tuple(
            Step(number, one.event, one.start_ns, one.end_ns, one.until_ns, one.step, (one.start_ns, one.end_ns))
            for number, one in enumerate(kept)
        )

    @cached_property
    def _engine_calls(self) -> list[FoundStep]:
        """Return the calls of an inference engine's steps, the last ones perhaps without work."""
        return find_engine_steps(self.events, self.names, self.step_patterns)

    def engine_step_of(self, event: int) -> Step | None:
        """Return the step of an engine that an event names, as its annotation or as one of those in it."""
        start, name = int(self.events.start[event]), self.name_of(event)
        found = next((one for one in self._find_steps if one.engine and one.start_ns <= start < one.until_ns), None)
        patterns = [*map(own_pattern, self.step_patterns), *STEP_PATTERNS]
        return found if found is not None and read_step_name(name, patterns) is not None else None

    @property
    def calls_without_work(self) -> int:
        """How many calls of an engine at the end are no steps: the recording ended before their GPU work began."""
        works = [one.launches_work for one in self._engine_calls]
        return works[::-1].index(True) if any(works) and not self.is_excerpt else 0

    @cached_property
    def _cycles(self) -> list[list[Step]]:
        """Return the steps of each cycle; a cycle ends where a step's number is not above the one before."""
        numbers = [m and int(m[1]) for m in map(STEP_NAME.fullmatch, self.names)]
        is_step = np.array([n is not None for n in numbers] or [False])
        found = np.flatnonzero((self.events.kind == EventKind.ANNOTATION) & is_step[self.events.name])
        cycles: list[list[Step]] = []
        known: dict[int, Step] = {}
        for event in found.tolist():
            start, end = int(self.events.start[event]), int(self.events.end[event])
            step = Step(numbers[self.events.name[event]] or 0, event, start, end)
            first = known.get(step.number)
            if first and start < first.end_ns:
                continue  # one step is written twice: on two threads, or as an operator too
            if not cycles or step.number <= cycles[-1][-1].number:
                cycles.append([])
            cycles[-1].append(step)
            known[step.number] = step
        return _numbered_on(cycles)

    @property
    def repeated_steps(self) -> list[str]:
        """What the steps are called whose numbers another cycle of the profiler had before, one line each."""
        lines = []
        for cycle in self._cycles:
            own = [STEP_NAME.fullmatch(self.name_of(step.event)) for step in (cycle[0], cycle[-1])]
            first, last = (int(match[1]) if match else -1 for match in own)
            if first != cycle[0].number:
                again = "in another cycle of the profiler"
                number, last_number = cycle[0].number, cycle[-1].number
                lines.append(
                    f"ProfilerStep#{first} occurs again {again}; there it is step {number}"
                    if last == first
                    else f"ProfilerStep#{first} to #{last} occur again {again}; "
                    f"there they are steps {number} to {last_number}"
                )
        more = len(lines) - MOST_CYCLES_NAMED
        return lines if more <= 0 else [*lines[:MOST_CYCLES_NAMED], f"… and {more:,} more cycles"]


def _with_engine(step: Step, found: FoundStep | None) -> Step:
    """Let a profiler step say what the engine's step in it says."""
    if found is None:
        return step
    engine = replace(found.step, is_inside=True)
    return replace(step, engine=engine, until_ns=step.end_ns, call_ns=(found.start_ns, found.end_ns))


def _numbered_on(cycles: list[list[Step]]) -> list[list[Step]]:
    """Number the steps of a cycle on from those before, where it repeats one of their numbers."""
    taken: set[int] = set()
    largest = -1
    found = []
    for cycle in cycles:
        repeats = not taken.isdisjoint(step.number for step in cycle)
        shift = largest + 1 - cycle[0].number if repeats else 0
        found.append([replace(step, number=step.number + shift) for step in cycle])
        taken.update(step.number for step in found[-1])
        largest = max(largest, found[-1][-1].number)
    return found


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


def lane_ids(lanes: LaneTable, pid: Number, tid: Number) -> frozenset[int]:
    """Return the lanes that an arrow's process and thread mean: a thread, or the streams of a number on a device."""
    label = f"thread {_id_text(pid)}:{_id_text(tid)}"
    device, stream = _lane_part(pid), _lane_part(tid)
    threads = [at for at, known in enumerate(lanes.labels) if known == label]
    streams = np.flatnonzero(lanes.is_stream & (lanes.device == device) & (lanes.stream == stream)).tolist()
    return frozenset([*threads, *streams])


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


def canonical_order(columns: Mapping[str, Any]) -> Ints:
    """Order events: start, longer first, kind, correlation, external id, name, lane, sequence, position in the file.

    At equal times an operator stands before the call inside it, and calls and operators stand in the order in which
    they began, as the profiler counts their ids up: in 1,968 ties of public traces the id says the same as the file's
    order, outer first; names agree in half of them. GPU activities that start together stand as their calls do.
    """

    def keys() -> Iterator[Any]:
        yield columns["start"]
        length = columns["end"] - columns["start"]
        correlation, on_gpu = columns["correlation"], kind_mask(columns["kind"], ON_STREAMS)
        # The longer CPU row is outside; on a stream nothing nests, and work stands in the order of its calls.
        yield np.where(on_gpu, correlation, -length)
        yield columns["kind"]
        yield np.where(on_gpu, length, correlation)
        yield from (columns[key] for key in ("external_id", "name", "lane", "sequence", "index"))

    return refined_order(keys())


def refined_order(keys: Iterable[Any]) -> Ints:
    """Sort by several keys, most significant first, touching after the first key only rows that are still tied.

    >>> refined_order([np.array([2, 1, 1]), np.array([0, 5, 4])]).tolist()
    [2, 1, 0]
    """
    first, *others = keys
    order: Ints = np.argsort(first, kind="stable")
    tied_with_previous = first[order][1:] == first[order][:-1]
    for key in others:
        if not tied_with_previous.any():
            break
        # Only rows in a run of equal keys so far are sorted again, each within its run.
        group = np.concatenate([[0], np.cumsum(~tied_with_previous)])
        rows = np.flatnonzero(np.append(tied_with_previous, False) | np.append(False, tied_with_previous))
        order[rows] = order[rows][np.lexsort((key[order[rows]], group[rows]))]
        ordered = key[order]
        tied_with_previous &= ordered[1:] == ordered[:-1]
    return order
