"""Why the GPU is idle in and between the steps of an inference engine: which part of the engine works meanwhile.

```
CPU   |schedule|--- step 1 ---|sample|detokenize|schedule|--- step 2 --|
GPU                |== 1 ==|                                  |== 2 ==|
gap                        |- s -|- detokenize -|schedule|prep|
```

A gap is divided by what is open on the thread that launches next, or on a rank without GPU work that of the step: its
innermost row whose name shows a part of an engine, else the outermost one between the steps. While that thread waits,
another one that makes tokens is the cause, or another rank.
Sources of the names: the code of vLLM, SGLang, TensorRT-LLM, LightLLM and ATOM.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from hta_graph.base.arrays import Columns, pair_key, rows_by_value, split_intervals, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.graph.timeline import nearest_around
from hta_graph.model import Bools, Codes, EventKind, Ids, Ints, kind_mask
from hta_graph.paths.engine_step_table import LAUNCH_NS, busy_or_unknown, engine_step_table, working_rows
from hta_graph.paths.intervals import Intervals, union


class StepGapCause(IntEnum):
    """What keeps the GPU idle in or before a step."""

    SCHEDULER = 0
    TOKENIZER = 1
    SAMPLING = 2
    OUTPUT = 3
    REQUESTS = 4
    PREPARATION = 5
    IN_STEP = 6
    SYNC = 7
    HOST_CODE = 8
    WAITING = 9
    LAUNCHING = 10
    NOT_STARTED = 11
    UNRECORDED = 12
    OTHER_RANKS = 13
    NO_REQUESTS = 14

    @property
    def label(self) -> str:
        """The name in output: lower case."""
        return self.name.lower()


ENGINE_PARTS: tuple[tuple[StepGapCause, re.Pattern[str]], ...] = (
    (StepGapCause.TOKENIZER, re.compile(r"(?i)tokeniz")),
    (
        StepGapCause.SAMPLING,
        re.compile(
            r"(?i)^(?:gpu_model_runner: )?(?:sample|bookkeep)$|\bsampl\w*\.py\(\d+\): "
            r"|\.py\(\d+\): _?(?:sample\w*|bookkeeping\w*|compute_logprobs|apply_penalties|apply_logits\w*)$"
        ),
    ),
    (
        StepGapCause.REQUESTS,
        re.compile(
            r"^scheduler\.(?:recv_requests|process_input_requests)$"
            r"|\.py\(\d+\): _?(?:recv_requests|process_input_\w+|add_request|fetch_new_requests)$"
        ),
    ),
    (
        StepGapCause.OUTPUT,
        re.compile(
            r"^(?:scheduler\.process_batch_result|gpu_model_runner: ModelRunnerOutput|llm_engine step: get_output)$"
            r"|\.py\(\d+\): _?(?:update_from_output|process_batch_result\w*|process_outputs|stream_output\w*)$"
        ),
    ),
    (
        StepGapCause.SCHEDULER,
        re.compile(
            r"^scheduler\.get_next_batch_to_run$|^schedule: "
            r"|\.py\(\d+\): _?(?:schedule|schedule_\w+|prepare_and_schedule\w*|get_next_batch\w*|get_new_batch\w*"
            r"|generate_new_batch|update_running_batch|allocate_slots)$"
        ),
    ),
    (
        StepGapCause.PREPARATION,
        re.compile(
            r"(?i)^(?:gpu_model_runner: )?preprocess$"
            r"|\.py\(\d+\): _?(?:prepare_inputs?\w*|update_states|init_forward_metadata\w*)$"
        ),
    ),
)
"""Names of annotations and Python frames that show a part of an engine, in the order in which they are tried."""

POLL = re.compile(
    r"^scheduler\.recv_requests$|\.py\(\d+\): _?(?:recv_requests|process_input_queue|fetch_new_requests)$"
)
"""What an engine does once in each turn of its loop, also where no request is to be computed."""

WAITS = re.compile(
    r".*\b(?:queue|threading|selectors|connection|socket|asyncio)\.py\(\d+\): "
    r"_?(?:get|wait\w*|select|acquire|recv\w*|poll|join)"
    r"|<built-in (?:method|function) (?:acquire|select|poll|epoll_wait|sleep|recv)\b.*"
)
"""Frames in which a thread waits for another one."""

NAMED_KINDS = (EventKind.ANNOTATION, EventKind.PYTHON_FUNCTION)
NESTED_KINDS = (*NAMED_KINDS, EventKind.CPU_OP, EventKind.RUNTIME)
RELEASED_SHARE = 0.1
"""A part of an engine that waits continues when another thread's work ends: at most this share of it follows."""
FEWEST_WAITS = 3
"""Of fewer parts that end as another thread's work does some do so by chance."""
MOST_STEPS_AROUND = 3
"""A row that is open over more steps, or over all, is a thread's loop, and no work for one step."""


@dataclass(frozen=True, eq=False)
class StepGaps(Columns):
    """Parts of the time (ns) in which the GPU is idle in an engine's iterations, each with one cause.

    ``step`` is the place in :func:`engine_step_table`; ``is_inside``: some of the step's work has run; ``event`` is the
    row that names the cause (canonical; -1: none).
    """

    step: Ints
    is_inside: Bools
    start: Ints
    end: Ints
    cause: Codes
    event: Ids

    @property
    def length(self) -> Ints:
        """Durations (ns)."""
        return self.end - self.start


@memoized
def engine_gaps(graph: DependencyGraph) -> StepGaps:
    """Divide the GPU's idle time in an engine's iterations by cause; the parts add up to it."""
    gaps, events = _idle_gaps(graph), graph.event_table
    if not graph.is_gpu.any():
        return _divided_on_cpu(graph, gaps)
    call = take_or(graph.launching_call, gaps.event)
    lanes, called, returned = (take_or(column, call) for column in (events.lane, events.start, events.end))
    known = call >= 0
    parts = [gaps.take(~known)]
    parts += [
        _HostParts(graph, lane).divide(_until(gaps, called).take(known & (lanes == lane)))
        for lane in np.unique(lanes[known]).tolist()
    ]
    # Until the call has returned, and a little after, the launch is under way, that of a graph's later kernels too.
    began, ready = np.maximum(gaps.start, called), returned + LAUNCH_NS
    launched = _until(replace(gaps, event=call.astype(np.int32)), np.where(returned > gaps.start, ready, gaps.start))
    parts.append(_with_cause(replace(launched, start=began).take(known), StepGapCause.LAUNCHING))
    waiting = replace(gaps, start=np.maximum(began, launched.end))
    parts.append(_with_cause(waiting.take(known), StepGapCause.NOT_STARTED))
    found = StepGaps.join(parts)
    return found.take(found.end > found.start)


def _divided_on_cpu(graph: DependencyGraph, gaps: StepGaps) -> StepGaps:
    """Divide the times without an operator of a step by what its thread does."""
    lanes = graph.event_table.lane[np.array([row.event for row in engine_step_table(graph)], np.int64)[gaps.step]]
    parts = [_HostParts(graph, lane).divide(gaps.take(lanes == lane)) for lane in np.unique(lanes).tolist()]
    return StepGaps.join([StepGaps.empty(), *parts])


def _idle_gaps(graph: DependencyGraph) -> StepGaps:
    """Return the idle times of all iterations, each with the activity that starts next (-1: none) as its event."""
    events, table = graph.event_table, engine_step_table(graph)
    works = working_rows(graph)
    if not len(works):
        return StepGaps.empty()
    busy = busy_or_unknown(graph, events.start[works], events.end[works])
    ends = np.array([row.gpu_end_ns for row in table])
    begins = ends - [row.own_ns for row in table]
    firsts = np.array([row.gpu_start_ns for row in table])
    start, end = np.append(begins.min(), busy.end), np.append(busy.start, ends.max())
    _, start, end = split_intervals(start[end > start], end[end > start], np.unique([begins, ends]))
    order = np.argsort(begins, kind="stable")
    step = order[np.searchsorted(begins[order], start, side="right") - 1]
    inside = (start >= begins[step]) & (end <= ends[step])
    start, end, step = start[inside], end[inside], step[inside]
    # Each gap ends where an activity starts, or may start that was not recorded, or the last step ends.
    following = works[np.searchsorted(events.start[works], end).clip(max=len(works) - 1)]
    return StepGaps.of(
        step=step, is_inside=start >= firsts[step], start=start, end=end, cause=StepGapCause.UNRECORDED,
        event=following,
    )  # fmt: skip


def _with_cause(gaps: StepGaps, cause: StepGapCause) -> StepGaps:
    return replace(gaps, cause=np.full(len(gaps), cause, np.int8))


def _until(gaps: StepGaps, times: Ints) -> StepGaps:
    """Return the parts of gaps before some times, perhaps without length."""
    return replace(gaps, end=np.clip(times, gaps.start, gaps.end))


class _HostParts:
    """What is open on a thread while the GPU waits for it to launch."""

    def __init__(self, graph: DependencyGraph, lane: int) -> None:
        self._events = graph.event_table
        self._blocks = graph.event_flags.blocking_call
        self._lane = lane
        self._nesting = graph.nesting(*NESTED_KINDS)
        self._part, self._waits = _parts_of_engine(graph)
        self._turns = _empty_turns(graph, lane)
        self._others = _work_of_threads(graph)
        self._is_step, self._is_loop = _steps_and_loops(graph)
        in_lane = self._events.lane == lane
        self._shows_waits = bool((in_lane & (self._events.kind == EventKind.PYTHON_FUNCTION)).any())
        self._waits_for_ranks, self._starts_talk = _gloo_times(graph), graph.event_flags.collective_operator

    def divide(self, gaps: StepGaps) -> StepGaps:
        """Divide gaps by what is open on the thread."""
        times, owners = self._nesting.changes(self._lane)
        talks = self._waits_for_ranks
        cuts = np.unique(np.concatenate([times, talks.start, talks.end, self._turns.start, self._turns.end]))
        gap, start, end = split_intervals(gaps.start, gaps.end, cuts)
        place = np.searchsorted(times, start, side="right") - 1
        owner = take_or(owners, place).astype(np.int32)
        owner = np.where(place >= 0, owner, np.int32(-1))
        cause, event = self._named(owner)
        found = StepGaps.of(
            step=gaps.step[gap], is_inside=gaps.is_inside[gap], start=start, end=end, cause=cause, event=event
        )
        has_length = end > start
        found = self._with_other_threads(found.take(has_length), owner[has_length])
        return self._with_other_ranks(found, owner[has_length])

    def _named(self, owner: Ids) -> tuple[Codes, Ids]:
        """Return the cause that each innermost row (-1: none) shows, and the row that names it."""
        parent = self._nesting.parent
        tells = nearest_around(parent, owner, self._part >= 0)
        step = nearest_around(parent, owner, self._is_step)
        around_is_loop = (parent < 0) | take_or(self._is_loop | self._is_step, parent)
        outermost = nearest_around(parent, owner, around_is_loop & ~self._is_loop & ~self._is_step)
        # A part of an engine that itself holds a step is not the cause of what happens in it.
        tells = np.where((tells >= 0) & ~take_or(self._is_loop, tells), tells, np.int32(-1))
        named = np.where(tells >= 0, tells, np.where(outermost >= 0, outermost, owner))
        blocks = (owner >= 0) & take_or(self._blocks, owner)
        cause = np.select(
            [tells >= 0, blocks, step >= 0, owner >= 0],
            [take_or(self._part, tells), StepGapCause.SYNC, StepGapCause.IN_STEP, StepGapCause.HOST_CODE],
            StepGapCause.UNRECORDED,
        )
        return cause.astype(np.int8), named.astype(np.int32)

    def _with_other_threads(self, found: StepGaps, owner: Ids) -> StepGaps:
        """Where the thread waits, or nothing is open on it, name the work of an engine's part on another thread.

        Without Python frames no wait is seen: there parts of the engine wait if they mostly continue when it ends.
        """
        waits = nearest_around(self._nesting.parent, owner, self._waits) >= 0
        cause = found.cause.copy()
        cause[waits & (cause == StepGapCause.HOST_CODE)] = StepGapCause.WAITING
        is_empty = self._turns.covered_until(found.end) - self._turns.covered_until(found.start) > 0
        cause[is_empty | (waits & (cause == StepGapCause.REQUESTS))] = StepGapCause.NO_REQUESTS
        event, most = found.event.copy(), found.length // 2
        kind = take_or(self._events.kind, owner, otherwise=EventKind.CPU_OP)
        may_wait = (kind == EventKind.ANNOTATION) & (cause != StepGapCause.IN_STEP) & (not self._shows_waits)
        for lane, part, row, busy in self._others:
            covered = busy.covered_until(found.end) - busy.covered_until(found.start)
            since = found.end - _last_end(busy, found.end)
            ends_in = may_wait & (since > 0) & (covered > most)
            released = since[ends_in] <= RELEASED_SHARE * found.length[ends_in]
            goes_on = len(released) >= FEWEST_WAITS and 2 * np.count_nonzero(released) > len(released)
            better = (waits | (owner < 0) | ends_in & goes_on) & (covered > most) & (lane != self._lane)
            cause[better], event[better] = part, row
            most = np.where(better, covered, most)
        return replace(found, cause=cause, event=event)

    def _with_other_ranks(self, found: StepGaps, owner: Ids) -> StepGaps:
        """Where Gloo communicates and the thread is in no operator of its own, name that."""
        talks, events = self._waits_for_ranks, self._events
        at = np.searchsorted(talks.start, found.start, side="right") - 1
        is_op = (owner >= 0) & (take_or(events.kind, owner) == EventKind.CPU_OP) & ~take_or(self._starts_talk, owner)
        waits = (at >= 0) & (found.end <= take_or(talks.end, at)) & ~is_op
        return replace(found, cause=np.where(waits, np.int8(StepGapCause.OTHER_RANKS), found.cause))


def _empty_turns(graph: DependencyGraph, lane: int) -> Intervals:
    """Return when the loop of an engine's thread turned without a step or a launch: it had no request to compute."""
    events, names = graph.event_table, graph.names
    codes = [code for code in np.unique(events.name[events.lane == lane]).tolist() if POLL.search(names[code])]
    calls = graph.launching_call[graph.launching_call >= 0]
    launches = events.start[calls[events.lane[calls] == lane]]
    works = np.sort(np.concatenate([[item.start_ns for item in graph.steps()], launches]))
    starts, ends = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for code in codes:
        polls = np.sort(events.start[(events.lane == lane) & (events.name == code)])
        is_empty = np.diff(np.searchsorted(works, polls)) == 0
        starts.append(polls[:-1][is_empty])
        ends.append(polls[1:][is_empty])
    return union(np.concatenate(starts), np.concatenate(ends))


def _last_end(busy: Intervals, times: Ints) -> Ints:
    """Return when the last interval before each time ended; the time itself where one is still open or none was."""
    ends: Ints = take_or(busy.end, np.searchsorted(busy.start, times) - 1, otherwise=np.iinfo(np.int64).max)
    return np.minimum(ends, times)


@memoized
def _gloo_times(graph: DependencyGraph) -> Intervals:
    """Return when Gloo communicates for a rank, on any thread."""
    events, rows = graph.event_table, np.flatnonzero(graph.event_flags.gloo_collective)
    return union(events.start[rows], events.end[rows])


@memoized
def _parts_of_engine(graph: DependencyGraph) -> tuple[Codes, Bools]:
    """Return the part of an engine that each row's name shows (-1: none), and whether it is a wait."""
    events, names = graph.event_table, graph.names
    named = kind_mask(events.kind, NAMED_KINDS)
    of_name, waits = np.full(len(names), -1, np.int8), np.zeros(len(names), np.bool_)
    for code in np.unique(events.name[named]).tolist():
        name = names[code]
        of_name[code] = next((part for part, pattern in ENGINE_PARTS if pattern.search(name)), -1)
        waits[code] = WAITS.fullmatch(name) is not None
    return np.where(named, of_name[events.name], np.int8(-1)), named & waits[events.name]


@memoized
def _steps_and_loops(graph: DependencyGraph) -> tuple[Bools, Bools]:
    """Mark the rows of steps, and the rows around steps on their thread."""
    events, steps = graph.event_table, [item.event for item in graph.steps()]
    is_step = np.zeros(len(events), np.bool_)
    is_step[steps] = True
    parent = graph.nesting(*NESTED_KINDS).parent
    is_loop = np.zeros(len(events), np.bool_)
    above = np.array(steps, np.int64)
    while len(above):
        above = np.unique(parent[above])
        above = above[(above >= 0) & ~is_loop[above]]
        is_loop[above] = True
    return is_step, is_loop & ~is_step


@memoized
def _work_of_threads(graph: DependencyGraph) -> list[tuple[int, int, int, Intervals]]:
    """Return when each thread works for a part of an engine: lane, part, a row that names it, and the times.

    Rows over several steps are loops of threads.
    """
    events, (part, _) = graph.event_table, _parts_of_engine(graph)
    starts = np.sort([item.start_ns for item in graph.steps()])
    rows = np.flatnonzero(part >= 0)
    over = np.searchsorted(starts, events.end[rows]) - np.searchsorted(starts, events.start[rows])
    rows = rows[(over <= MOST_STEPS_AROUND) & (over < len(starts))]
    found = []
    for same in rows_by_value(pair_key(events.lane[rows], events.name[rows])).values():
        own = rows[same]
        busy = union(events.start[own], events.end[own])
        found.append((int(events.lane[own[0]]), int(part[own[0]]), int(own[0]), busy))
    return found
