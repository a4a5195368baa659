"""A rank's communications on the CPU (Gloo): which event did the work of which call, of which group, since when.

No id links the two. A group has two workers, which take its collectives in turn, so its events in order of start are
its collectives in their order. Messages have their event on the thread that called, from within the call:

    thread     c10d::allreduce_  c10d::broadcast_   c10d::send
                                                        |= gloo:send =|
    worker 1      |== gloo:all_reduce ==|
    worker 2                        |= gloo:broadcast =|  the work: it may begin late, the rank arrived with the call
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hta_graph.base.arrays import run_numbers
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Bools, EventKind, Ids, Ints
from hta_graph.multi_rank.matching.communications import (
    ALL_RANKS,
    GROUP_DESCRIPTION,
    NO_RANK,
    ROOT,
    THREADS_PER_GROUP,
    UNKNOWN_RANK,
    WORKER,
    ProcessGroup,
    RankCommunications,
    RankRecording,
    count_elements,
    gloo_process_groups,
    group_descriptions,
    groups_by_worker_lane,
    integer_argument,
    workers_in_order,
)
from hta_graph.multi_rank.matching.message_waits import message_waits
from hta_graph.trace.event_args import EventArgs, read_event_args
from hta_graph.trace.profiler_names import MESSAGE_ROWS, PROCESS_GROUP_CALL

_Value = tuple[str, int]
"""The name and the number of elements of a row or a call."""


@dataclass(frozen=True)
class GlooEvents:
    """Rows of work and calls (canonical rows, in order of start), and per row and per call what was recorded on it.

    ``inputs`` are ``Concrete Inputs`` and ``sizes`` the elements (-1: not recorded), by canonical row; ``tensors`` are
    the elements that a call may hand on: of all its tensors or of one of them; ``types`` one per row of work;
    ``distributed`` is the header's part about the job.
    """

    graph: DependencyGraph
    rows: Ids
    calls: Ids
    names: list[str]
    inputs: dict[int, Any]
    sizes: dict[int, int]
    tensors: dict[int, set[int]]
    types: list[Any]
    distributed: dict[str, Any]

    def in_order(self, order: Ints) -> GlooEvents:
        """Put the rows of work into another order."""
        at = order.tolist()
        names, types = [self.names[one] for one in at], [self.types[one] for one in at]
        return replace(self, rows=self.rows[order], names=names, types=types)


def read_gloo_events(graph: DependencyGraph, calls: Collection[str]) -> GlooEvents | None:
    """Return Gloo's rows and the calls of some names; None if there are no such rows.

    Raises:
        TraceError: the file, which is read once more where there are such rows, is gone or has changed.
    """
    rows = _rows_by_start(graph, graph.event_flags.gloo_collective)
    if not len(rows):
        return None
    is_call = np.array([name in calls for name in graph.names])[graph.event_table.name]
    asked = _rows_by_start(graph, is_call & (graph.event_table.kind == EventKind.CPU_OP))
    both = np.concatenate((rows, asked))
    details = read_event_args(graph.trace, ("Concrete Inputs", "Input Dims", "Input type"), both)
    return GlooEvents(
        graph,
        rows,
        asked,
        [graph.name_of(row) for row in rows.tolist()],
        dict(zip(both.tolist(), details["Concrete Inputs"], strict=True)),
        dict(zip(both.tolist(), map(count_elements, details["Input Dims"]), strict=True)),
        dict(zip(asked.tolist(), map(_tensor_sizes, details["Input Dims"][len(rows) :]), strict=True)),
        _input_types(details, len(rows)),
        details.distributed,
    )


def _rows_by_start(graph: DependencyGraph, mask: np.ndarray[Any, np.dtype[np.bool_]]) -> Ids:
    found = np.flatnonzero(mask).astype(np.int32)
    return found[np.argsort(graph.event_table.start[found], kind="stable")]


def _tensor_sizes(dims: Any) -> set[int]:
    """Return the elements of all tensors of a call and of each (``_reduce_scatter_base_`` has an output and an input).

    >>> sorted(_tensor_sizes([[4], [8], []])), _tensor_sizes(None)
    ([4, 8, 12], {-1})
    """
    listed = dims if isinstance(dims, list) else []
    return {count_elements(dims), *(count_elements([own]) for own in listed if own)}


def _input_types(details: EventArgs, rows: int) -> list[Any]:
    return [own[0] if isinstance(own, list) and own else None for own in details["Input type"][:rows]]


LATEST_CALL_FACTOR = 2
"""By what factor rows must begin sooner after their calls, taken together, for a row to count as lost."""

SIZE_DIFFERS_BY_RANK = ("all_to_all", "gather", "scatter")
"""Collectives whose recorded sizes may differ from rank to rank."""


def read_gloo_communications(graph: DependencyGraph) -> RankCommunications:
    """Return what ran on the CPU, in order of its rows' start or, where sizes show that from their calls, of these.

    A rank arrives when the last operator inside the call that lies before the work has ended (a reduce-scatter copies
    first), else when the call began; without a call, and where the whole rank stood still, when the work begins.

    Raises:
        TraceError: the file, which is read once more where there are such rows, is gone or has changed.
    """
    found = read_gloo_events(graph, PROCESS_GROUP_CALL.keys())
    if found is None:
        return RankCommunications.empty()
    groups = gloo_process_groups(found.distributed)
    is_message = np.array([name in MESSAGE_ROWS for name in found.names])
    threads = workers_in_order(graph, found.rows[~is_message])
    of_lane = groups_by_worker_lane(threads, groups)
    queue = _queues_of_lanes(threads, of_lane)
    lanes = graph.event_table.lane[found.rows]
    queues = [queue.get(lane, -1) for lane in lanes.tolist()]
    work = _calls_of_rows(found, queues, ~is_message)
    order = _order_of_calls(found, np.array(queues), lanes, work)
    found, is_message, lanes = found.in_order(order), is_message[order], lanes[order]
    call = np.where(is_message, _enclosing_calls(found), work)
    # A message's group is written nowhere; peers are numbered as in the first one, which is the whole job.
    group = [
        (groups[0] if groups else None) if message else of_lane.get(lane)
        for message, lane in zip(is_message.tolist(), lanes.tolist(), strict=True)
    ]
    root = [_recorded_other(graph, at, found.inputs.get(at)) for at in call.tolist()]
    needed = [
        awaited_rank(name, graph.rank, other, None if own is None else own.ranks)
        for name, own, other in zip(found.names, group, root, strict=True)
    ]
    numbers = {lane: number for number, (_, lane) in enumerate(threads) if lane not in of_lane} if groups else {}
    opened = {
        WORKER: [numbers.get(lane) for lane in lanes.tolist()],
        ROOT: [other if lane in numbers else None for other, lane in zip(root, lanes.tolist(), strict=True)],
    }
    events, arrival = graph.event_table, _arrival_times(graph, found.rows, call)
    made = RankCommunications(
        found.rows,
        call,
        arrival,
        _busy_times(graph, found.rows, call, arrival, is_message),
        events.start[found.rows],
        events.end[found.rows],
        np.array(needed, np.int64),
        np.zeros(len(found.rows), np.bool_),
        found.names,
        _group_texts(group, str),
        _recorded_arguments(found, group) | opened,
    )
    made = replace(made, arrival=_with_delayed_arrivals(made, lanes, is_message))
    if not numbers:
        return made
    told = tuple(group_descriptions(found.distributed, [own.name for own in groups]))
    return replace(made, recording=RankRecording(groups=tuple(map(str, groups)), group_descriptions=told))


def _queues_of_lanes(threads: Sequence[tuple[int, int]], groups: Mapping[int, ProcessGroup]) -> dict[int, int]:
    """Number the queue that each worker's lane takes its work from: its group's, else neighbors share one.

    Of an odd number of workers the one stands alone that leaves the smallest distances between the others' numbers.
    """
    if groups:
        place = {group: at for at, group in enumerate(dict.fromkeys(groups.values()))}
        return {lane: place[group] for lane, group in groups.items()}
    numbers = [number for number, _ in threads]
    alone = range(0, len(threads), THREADS_PER_GROUP) if len(threads) % THREADS_PER_GROUP else [len(threads)]

    def distance(single: int) -> int:
        kept = numbers[:single] + numbers[single + 1 :]
        return sum(later - sooner for sooner, later in zip(kept[::2], kept[1::2], strict=True))

    single = min(alone, key=distance)
    return {lane: (at + (at > single)) // THREADS_PER_GROUP for at, (_, lane) in enumerate(threads)}


def _calls_of_rows(found: GlooEvents, queue: Sequence[int], is_work: np.ndarray[Any, Any]) -> Ids:
    """Return the call whose work each worker's row is (-1: none in the file).

    Calls are taken in their order; each takes, of the queues' next rows, one that fits it and begins after it. Where a
    row was lost that shifts the later ones, which then seem to begin long after they were asked for: there each row
    takes the latest call instead.
    """
    calls = _calls_in_order(found, queue, is_work)
    queues = np.array(queue)
    start = found.graph.event_table.start
    for number in np.unique(queues[is_work]).tolist():
        works = np.flatnonzero(is_work & (queues == number))
        own = calls[works]
        others = np.setdiff1d(calls, own)
        latest = _latest_calls(found, works, found.calls[~np.isin(found.calls, others)])
        both = (own >= 0) & (latest >= 0)
        lag, least = (np.where(both, start[found.rows[works]] - start[taken], 0) for taken in (own, latest))
        # Between two rows for which both ways agree one of them is right throughout.
        run = run_numbers(own != latest)
        sooner = LATEST_CALL_FACTOR * np.bincount(run, least) < np.bincount(run, lag)
        calls[works] = np.where(sooner[run], latest, own)
    return calls


def _order_of_calls(found: GlooEvents, queue: Ints, lane: Ids, calls: Ids) -> Ints:
    """Return the order of rows in which each is the work of the call at its place.

    Two workers take work in its order, but the one that took the first may be the second to begin. That shows where
    what was done differs: of two neighbors each then does what is usual for the call of the other one.

        calls     |a||b|
        worker 1          |== a ==|     took a first, but was kept waiting
        worker 2        |== b ==|
    """
    order = np.arange(len(found.rows))
    start = found.graph.event_table.start
    for number in np.unique(queue[calls >= 0]).tolist():
        works = np.flatnonzero((queue == number) & (calls >= 0)).tolist()
        does = [(found.names[at], found.sizes[int(found.rows[at])]) for at in works]
        asked = [(found.graph.name_of(call), found.sizes[call]) for call in calls[works].tolist()]
        usual = _usual_values(asked, does)
        for one in range(len(works) - 1):
            at, after = works[one], works[one + 1]
            crossed = usual[asked[one]] == does[one + 1] != does[one] == usual[asked[one + 1]]
            if crossed and lane[at] != lane[after] and start[calls[after]] <= start[found.rows[at]]:
                order[[at, after]] = order[[after, at]]
                does[one], does[one + 1] = does[one + 1], does[one]
    return order


def _usual_values(keys: Sequence[_Value], values: Sequence[_Value]) -> dict[_Value, _Value]:
    """Return the value that each key occurs with most often."""
    values_of: dict[_Value, Counter[_Value]] = defaultdict(Counter)
    for key, value in zip(keys, values, strict=True):
        values_of[key][value] += 1
    return {key: found.most_common(1)[0][0] for key, found in values_of.items()}


def _latest_calls(found: GlooEvents, works: Ints, calls: Ids) -> Ids:
    """Return for each row of work the latest call that fits and began before it, rows and calls in the same order."""
    chosen = np.full(len(works), -1, np.int32)
    start = found.graph.event_table.start
    begins = start[calls].tolist()
    does = [PROCESS_GROUP_CALL[found.graph.name_of(call)].rows for call in calls.tolist()]
    free, used_up = len(begins), set[str]()
    for place in range(len(works) - 1, -1, -1):
        began, name = int(start[found.rows[works[place]]]), found.names[works[place]]
        if name in used_up:
            continue
        at = next((at for at in range(free - 1, -1, -1) if begins[at] <= began and name in does[at]), -1)
        if at >= 0:
            chosen[place], free = calls[at], at
        else:
            # Nothing that fits is left for earlier rows either.
            used_up.add(name)
    return chosen


def _calls_in_order(found: GlooEvents, queue: Sequence[int], is_work: np.ndarray[Any, Any]) -> Ids:
    """Return the call that takes each row in its turn; see :func:`_calls_of_rows`."""
    start = found.graph.event_table.start
    calls = np.full(len(found.rows), -1, np.int32)
    waiting: dict[int, list[int]] = defaultdict(list)
    for place in np.flatnonzero(is_work)[::-1].tolist():
        waiting[queue[place]].append(place)
    begins = start[found.rows].tolist()
    for call, begin in zip(found.calls.tolist(), start[found.calls].tolist(), strict=True):
        for rows in waiting.values():
            # What began before this call belongs to one from before the recording.
            while rows and begins[rows[-1]] < begin:
                rows.pop()
        does = PROCESS_GROUP_CALL[found.graph.name_of(call)].rows
        fitting = [rows for rows in waiting.values() if rows and found.names[rows[-1]] in does]
        if fitting:
            sizes = found.tensors[call]
            best = min(
                fitting, key=lambda rows: (found.sizes[int(found.rows[rows[-1]])] not in sizes, begins[rows[-1]])
            )
            calls[best.pop()] = call
    return calls


def _enclosing_calls(found: GlooEvents) -> Ids:
    """Return the call of the row's own thread within which each row begins (-1: none)."""
    events, calls = found.graph.event_table, found.calls
    if not len(calls):
        return np.full(len(found.rows), -1, np.int32)
    order = np.lexsort((events.start[calls], events.lane[calls]))
    own = calls[order]
    lanes = events.lane[own].astype(np.int64)
    # The last call on the row's lane that began before it.
    first = np.searchsorted(lanes, events.lane[found.rows])
    last = np.searchsorted(lanes, events.lane[found.rows], side="right")
    at = np.array([
        int(low + np.searchsorted(events.start[own[low:high]], begin, side="right") - 1) if high > low else -1
        for low, high, begin in zip(first.tolist(), last.tolist(), events.start[found.rows].tolist(), strict=True)
    ])  # fmt: skip
    inside = (at >= first) & (events.end[own[at.clip(min=0)]] >= events.start[found.rows])
    return np.where(inside, own[at.clip(min=0)], -1).astype(np.int32)


def _arrival_times(graph: DependencyGraph, rows: Ids, calls: Ids) -> Ints:
    """Return when the rank came to each (ns): see :func:`read_gloo_communications`."""
    events = graph.event_table
    arrival = events.start[rows].copy()
    children = _operators_inside(graph, calls)
    for place, call in enumerate(calls.tolist()):
        if call >= 0:
            ends = events.end[children.get(call, [])]
            arrival[place] = max(int(events.start[call]), int(ends[ends <= arrival[place]].max(initial=0)))
    return arrival


def _busy_times(graph: DependencyGraph, rows: Ids, calls: Ids, arrival: Ints, is_message: Bools) -> Ints:
    """Return how long (ns) the thread of each message did other things before it waited for it."""
    found = message_waits(graph, rows[is_message], calls[is_message])
    order, busy = np.argsort(rows), np.zeros(len(rows), np.int64)
    place = order[np.searchsorted(rows[order], found.row)]
    busy[place] = (found.since - arrival[place]).clip(min=0)
    return busy


LONGEST_START_NS = 100_000_000
"""How long a worker that is free may take to begin: the scheduler may keep it waiting (in 12,672 rows of up to eight
ranks on two cores 62 ms at most; a quota of CPU time makes it wait for a period of 100 ms)."""


def _with_delayed_arrivals(own: RankCommunications, lane: Ids, is_message: Bools) -> Ints:
    """Return arrivals, later where the rank stood still: then the others wait for its row, whenever it called.

    A thread that holds Python's lock (garbage collection, for example) keeps the workers from continuing. Such a row
    begins very long after its call although a worker of its queue was free; the rank then comes with the row.

        call      |c10d::allreduce_|
        worker 1  |= before =|                 |= gloo:all_reduce =|
        arrival                                 here, not at the call
    """
    arrival = own.arrival.copy()
    for at in np.flatnonzero((own.start - arrival > LONGEST_START_NS) & (own.call >= 0) & ~is_message).tolist():
        # The row's own worker had done what it did before.
        before = own.end[(lane == lane[at]) & (own.start < own.start[at])]
        if len(before) and own.start[at] - max(int(arrival[at]), int(before.max())) > LONGEST_START_NS:
            arrival[at] = own.start[at]
    return arrival


def _operators_inside(graph: DependencyGraph, calls: Ids) -> dict[int, list[int]]:
    """Return the operators directly inside each call."""
    children: dict[int, list[int]] = defaultdict(list)
    around = graph.operator_around
    for row in np.flatnonzero(np.isin(around, calls[calls >= 0])).tolist():
        children[int(around[row])].append(row)
    return children


def _recorded_other(graph: DependencyGraph, call: int, inputs: Any) -> int | None:
    """Return the root or peer that a call records: its number in the group."""
    return integer_argument(inputs, PROCESS_GROUP_CALL[graph.name_of(call)].other) if call >= 0 else None


def awaited_rank(name: str, rank: int | None, other: int | None, ranks: Sequence[int] | None) -> int:
    """Return which ranks a rank waits for: all, none, or one by its number.

    Args:
        name: the row's, such as ``gloo:gather``.
        rank: who waits.
        other: the root's or the peer's number in the group.
        ranks: the group's.
    """
    kind = name.partition(":")[2]
    if kind not in ("broadcast", "scatter", "gather", "send", "recv"):
        # Gloo's reduce is a ring: nobody leaves before the last one came.
        return ALL_RANKS
    if other is None or ranks is None or not other < len(ranks):
        return UNKNOWN_RANK
    if kind == "gather":
        return ALL_RANKS if ranks[other] == rank else NO_RANK
    return ranks[other]


def _group_texts(groups: Sequence[ProcessGroup | None], text: Callable[[ProcessGroup], str]) -> list[str | None]:
    """Return a text of each group; equal groups share it, since those of thousands of ranks are long."""
    made = {own: text(own) for own in set(groups) if own is not None}
    return [None if own is None else made[own] for own in groups]


def _recorded_arguments(found: GlooEvents, groups: list[ProcessGroup | None]) -> dict[str, list[Any]]:
    """Return what kernels have as recorded arguments, as far as the rows show."""
    kinds = [name.partition(":")[2] for name in found.names]
    sizes = [found.sizes[row] for row in found.rows.tolist()]
    size = [None if own < 0 or kind in SIZE_DIFFERS_BY_RANK else own for kind, own in zip(kinds, sizes, strict=True)]
    return RankCommunications.no_arguments(len(kinds)) | {
        "Collective name": kinds,
        "Process Group Name": [own and own.name for own in groups],
        GROUP_DESCRIPTION: group_descriptions(found.distributed, [own and own.name for own in groups]),
        "Process Group Ranks": _group_texts(groups, lambda own: str(list(own.ranks))),
        "In msg nelems": size,
        # An all-gather's row shows what the rank gives; it gets that of all.
        "Out msg nelems": [
            own * len(group.ranks) if own is not None and group is not None and kind == "all_gather" else own
            for own, group, kind in zip(size, groups, kinds, strict=True)
        ],
        "dtype": found.types,
    }
