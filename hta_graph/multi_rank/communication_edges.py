r"""Edges of communication: within a rank from its call to its work on the CPU, and between ranks.

On the CPU, from the call to the work, from work to work of one worker, and from its end to the thread that waited:

    thread      [c10d::allreduce_]  [c10d::allreduce_]  [aten::mul]       (wait: no row)       [aten::add]
    \\ hand-off              \\                                                            ▲
        worker          [=== gloo:all_reduce ===][=== gloo:all_reduce ===================]

Between ranks, of a collective: start of each member that others need → the rendezvous → end of each member that waits
(n in, n out, never n²); start of a member that takes → end of the one that waits until it does (at most log n each, but
for a root's). Of a message: start of a send → end of its receive; start of the receive → end of a send that
outlived it:

    send       [====]                     buffered: it did not wait
    receive        [~~~====]
    send       [~~~~~~~====]              large: it left when it was received
    receive           [====]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.base.arrays import Columns, distinct, summed_by, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.edges import EdgeTable
from hta_graph.model import Bools, Codes, EdgeKind, EdgeRule, Ids, Ints
from hta_graph.multi_rank.job_trace import RendezvousPoints
from hta_graph.multi_rank.matching.collectives import Collectives, needed_by_others
from hta_graph.multi_rank.matching.communications import ALL_RANKS, MESSAGE_KINDS, RankCommunications
from hta_graph.multi_rank.matching.match_ranks import ORDER
from hta_graph.multi_rank.matching.message_waits import message_waits
from hta_graph.trace.profiler_names import PROCESS_GROUP_CALL


@dataclass(frozen=True, eq=False)
class HostCommunications(Columns):
    """What a rank did with others on its CPU: the row of the work, its call (-1: not in the file), when it arrived."""

    row: Ids
    call: Ids
    arrival: Ints
    is_message: Bools


def host_work_of(members: RankCommunications) -> HostCommunications:
    """Select what ran on the CPU of a rank's communications."""
    is_message = np.array(members.is_message, np.bool_)
    work = HostCommunications.of(row=members.row, call=members.call, arrival=members.arrival, is_message=is_message)
    return work.take(~members.on_gpu)


def host_communication_edges(graph: DependencyGraph, work: HostCommunications) -> EdgeTable:
    """Return the edges inside one rank to, of and between the rows of its communication on the CPU (canonical rows)."""
    rows = work.row
    runs = EdgeTable.between(EdgeKind.EXECUTION, rows, rows, from_end=False, to_end=True)
    ways = _edges_from_calls(graph, work), _edges_along_workers(graph, work), _edges_to_message_waits(graph, work)
    return EdgeTable.join([runs, *ways])


def arrival_points(graph: DependencyGraph, known: HostCommunications) -> tuple[Ids, Bools]:
    """Return the event inside each call with which the rank arrived, and whether it did so with its end."""
    calls, at = graph.calls, np.zeros(len(known), np.int64)
    lanes = graph.event_table.lane[known.call]
    for lane in distinct(lanes).tolist():
        part, here = calls.lane_slice(lane), np.flatnonzero(lanes == lane)
        at[here] = part.start + np.searchsorted(calls.time[part], known.arrival[here], side="right") - 1
    return calls.event[at], calls.is_end[at]


def _edges_from_calls(graph: DependencyGraph, work: HostCommunications) -> EdgeTable:
    """Lead from where the rank arrived to the start of the work: of a message's row on the same thread."""
    found = []
    for is_message, kind, rule in (
        (False, EdgeKind.THREAD_HANDOFF, EdgeRule.CALL_OF_WORKER),
        (True, EdgeKind.THREAD_ORDER, EdgeRule.RECORDED),
    ):
        known = work.take((work.call >= 0) & (work.is_message == is_message))
        event, at_end = arrival_points(graph, known)
        found.append(EdgeTable.between(kind, event, known.row, from_end=at_end, to_end=False, rule=rule))
    return EdgeTable.join(found)


def _edges_along_workers(graph: DependencyGraph, work: HostCommunications) -> EdgeTable:
    """Lead from each worker's row to its next one; messages have no worker."""
    events, rows = graph.event_table, work.row[~work.is_message]
    rows = rows[np.lexsort((events.start[rows], events.lane[rows]))]
    follows = np.flatnonzero(events.lane[rows[1:]] == events.lane[rows[:-1]])
    return EdgeTable.to_events(EdgeKind.THREAD_ORDER, rows[follows], rows[follows + 1], to_end=False)


def _edges_to_message_waits(graph: DependencyGraph, work: HostCommunications) -> EdgeTable:
    """Lead to the end of each message's row, where ``wait()`` returns, from what its thread did last until then.

    So what came late, the thread or the other rank, is seen, however long the row is: see :class:`MessageWaits`.
    """
    messages = work.take(work.is_message)
    found = message_waits(graph, messages.row, messages.call)
    to_marks = found.take(found.before >= 0)
    kind = EdgeKind.THREAD_ORDER
    return EdgeTable.join([
        EdgeTable.between(
            kind, to_marks.before, to_marks.event, from_end=to_marks.before_at_end, to_end=to_marks.at_end
        ),
        EdgeTable.between(kind, found.event, found.row, from_end=found.at_end, to_end=True),
    ])  # fmt: skip


MIN_STALL_NS = 5_000
"""Between the rows of a thread that works lie up to a few µs; of 1,947 waits with stamped calls none was shorter."""

MIN_WAKE_UP_NS = 2_000
"""A thread that sleeps takes some µs to go on, of 4,600 recorded waits the quickest 4: later ends are no cause."""

MOST_EARLY_NS = 100_000
"""How much sooner than the row a thread's wait can end: PyTorch first completes the future, then ends the row.

Of 22,305 recorded waits 28 end 4 to 100 µs too soon, of which chance explains 3, and all that end sooner still.
Source: ``finishWorkGloo`` in ProcessGroupGloo.cpp.
"""


def collective_wait_edges(graph: DependencyGraph, work: HostCommunications) -> EdgeTable:
    """Lead from the end of work to the next point of the thread that called for it, if that stood still until then.

    ``wait()`` leaves no row. That a thread waited is inferred: the work ended while the thread had stood between two
    rows, in no ``aten::`` operator, for more than a moment; it continues with the next one, however much later that is.
    Or it stood still until just before that end, and continues with what usually comes after a wait.
    """
    known = work.take(work.call >= 0)
    found, at = _until_the_end(graph, known)
    soon, early = _until_just_before(graph, known, at)
    calls, row, at = graph.calls, known.row[np.append(found, soon)], np.append(at, early)
    return EdgeTable.between(
        EdgeKind.COLLECTIVE_WAIT, row, calls.event[at], from_end=True, to_end=calls.is_end[at],
        rule=EdgeRule.SILENCE_UNTIL_WORK_END,
    )  # fmt: skip


def _next_points(graph: DependencyGraph, work: HostCommunications, times: Ints) -> Ints:
    """Return the place of the caller's first point from a time on, for each work; -1 where it has none or only such."""
    calls, lanes = graph.calls, graph.event_table.lane[work.call]
    found = np.full(len(work), -1, np.int64)
    for lane in distinct(lanes).tolist():
        part, here = calls.lane_slice(lane), np.flatnonzero(lanes == lane)
        after = np.searchsorted(calls.time[part], times[here], side="left")
        inside = (after > 0) & (after < part.stop - part.start)
        found[here[inside]] = part.start + after[inside]
    return found


def _until_the_end(graph: DependencyGraph, known: HostCommunications) -> tuple[Ints, Ints]:
    """Return which work threads stood still for until it ended, and the places of the points they continue with."""
    calls, ends = graph.calls, graph.event_table.end[known.row]
    goes_on = _next_points(graph, known, ends)
    found = np.flatnonzero(goes_on >= 0)
    at = goes_on[found]
    stood, awakening = ends[found] - calls.time[at - 1], calls.time[at] - ends[found]
    # A message's row ends where ``wait()`` returns: that needs no proof.
    is_moment = ((stood < MIN_STALL_NS) | (awakening < MIN_WAKE_UP_NS)) & ~known.is_message[found]
    found = found[_is_stalled(graph, calls.owner[at - 1]) & ~is_moment]
    return found, goes_on[found]


def _until_just_before(graph: DependencyGraph, known: HostCommunications, usual: Ints) -> tuple[Ints, Ints]:
    """Return the same of threads that were woken before the work's row ended, given where the others continue.

    worker    [== gloo:all_reduce ====|==]     | the future is complete
    thread        (wait: no row)        [aten::as_strided]
    """
    calls, events, ends = graph.calls, graph.event_table, graph.event_table.end[known.row]
    goes_on = _next_points(graph, known, ends - MOST_EARLY_NS)
    found = np.flatnonzero((goes_on >= 0) & ~known.is_message)
    found = found[np.argsort(ends[found], kind="stable")]
    at = goes_on[found]
    stood = calls.time[at] - np.maximum(calls.time[at - 1], events.start[known.row[found]])
    comes_usually = np.isin(events.name[calls.event[at]], events.name[calls.event[usual]])
    kept = (stood >= MOST_EARLY_NS) & comes_usually & ~np.isin(at, usual) & _is_stalled(graph, calls.owner[at - 1])
    # Of several that end soon the first one woke it.
    at, first = np.unique(at[kept], return_index=True)
    return found[kept][first], at


def _is_stalled(graph: DependencyGraph, around: Ids) -> Bools:
    """Mark gaps in which a thread may wait: in no row, or in one that is no ``aten::`` operator and no call."""
    works = np.array([name.startswith("aten::") or name in PROCESS_GROUP_CALL for name in graph.names] or [False])
    busy: Bools = take_or(works, take_or(graph.event_table.name, around), otherwise=False)
    return ~busy


@dataclass(frozen=True, eq=False)
class MatchedCommunications(Columns):
    """Members that met others, collectives in order of number: whose row, when it began and ended (job time, ns).

    ``part`` is the place of its rank, ``row`` its row in that rank's graph. The rank came with the start, or the end
    (``arrived_at_end``), of the row ``came``: its own, but for messages on the CPU, whose row begins late in their
    call; ``arrival`` is when that was. ``waits``: for others, ``is_needed``: others wait for it, at the rendezvous.
    ``rule`` is how they were found to belong together.
    """

    number: Ints
    part: Ids
    row: Ids
    came: Ids
    arrived_at_end: Bools
    arrival: Ints
    start: Ints
    end: Ints
    waits: Bools
    is_needed: Bools
    is_message: Bools
    sends: Bools
    rule: Codes


def matched_communications(
    found: Collectives,
    ranks: Mapping[int, RankCommunications],
    graphs: Sequence[DependencyGraph],
    host: Sequence[HostCommunications],
) -> MatchedCommunications:
    """Describe matched members, given each rank's communications, graph in job time, and work on the CPU."""
    part, row, came, start, end, needed = (np.zeros(len(found.rank), np.int64) for _ in range(6))
    at_end, is_message, sends, by_copies = (np.zeros(len(found.rank), np.bool_) for _ in range(4))
    for number, (rank, own) in enumerate(ranks.items()):
        at = found.of_rank(rank)
        place, events = found.place[at], graphs[number].event_table
        part[at], row[at], needed[at] = number, own.row[place], own.needed[place]
        start[at], end[at] = events.start[row[at]], events.end[row[at]]
        came[at], at_end[at] = _arrival_events(row[at], graphs[number], host[number])
        says = [own.arguments["Collective name"][one] for one in place.tolist()]
        by_copies[at] = graphs[number].event_flags.moves_memory[row[at]]
        is_message[at], sends[at] = [one in MESSAGE_KINDS for one in says], [one == "send" for one in says]
    return MatchedCommunications.of(
        number=found.number,
        part=part,
        row=row,
        came=came,
        arrived_at_end=at_end,
        arrival=found.arrival,
        start=start,
        end=end,
        # Copies wait for no rank: that was before them, and not on their rows.
        waits=((needed == ALL_RANKS) | (needed >= 0)) & ~by_copies,
        is_needed=needed_by_others(found.number, found.rank, needed) & ~by_copies,
        is_message=is_message,
        sends=sends,
        rule=np.where(found.by[found.number] == ORDER, EdgeRule.ALIGNED_SEQUENCES, EdgeRule.RECORDED),
    )


def _arrival_events(rows: Ints, graph: DependencyGraph, work: HostCommunications) -> tuple[Ints, Bools]:
    """Return with which event, and whether with its end, the rank came to what each row did: its own, if no message."""
    messages = _message_calls(graph, work)
    came = [messages.get(row, (row, False)) for row in rows.tolist()]
    event, at_end = np.array(came, np.int64).reshape(-1, 2).T
    return event, at_end.astype(np.bool_)


def _message_calls(graph: DependencyGraph, work: HostCommunications) -> dict[int, tuple[int, bool]]:
    """Return with which event, and whether with its end, the rank came to each message."""
    messages = work.take(work.is_message & (work.call >= 0))
    if not len(messages):
        return {}
    event, at_end = arrival_points(graph, messages)
    return dict(zip(messages.row.tolist(), zip(event.tolist(), at_end.tolist(), strict=True), strict=True))


def rendezvous_points(met: MatchedCommunications, names: Sequence[str]) -> RendezvousPoints:
    """Return the rendezvous of collectives that anybody needs: when the last needed member began.

    Args:
        met: the members.
        names: what each collective is called.
    """
    groups = len(names)
    last = np.full(groups, np.iinfo(np.int64).min)
    asked = met.take(met.is_needed & ~met.is_message)
    np.maximum.at(last, asked.number, asked.start)
    takes_part = summed_by(met.number, (~met.is_message).astype(np.int64), groups)
    number = np.flatnonzero((last > np.iinfo(np.int64).min) & (takes_part > 1))
    return RendezvousPoints(number, [names[at] for at in number.tolist()], last[number])


def collective_edges(met: MatchedCommunications, row: Ints, rendezvous: Mapping[int, int]) -> EdgeTable:
    """Return the edges of collectives.

    Args:
        met: the members.
        row: their rows in the job.
        rendezvous: the job's row of each collective's rendezvous.
    """
    point = np.full(int(met.number.max(initial=-1)) + 1, -1, np.int64)
    point[list(rendezvous)] = list(rendezvous.values())
    point = point[met.number]
    meets = (point >= 0) & ~met.is_message
    comes, goes = meets & met.is_needed, meets & met.waits
    kind = EdgeKind.COLLECTIVE
    return EdgeTable.join([
        EdgeTable.between(kind, row[comes], point[comes], from_end=False, to_end=False, rule=met.rule[comes]),
        EdgeTable.between(kind, point[goes], row[goes], from_end=False, to_end=True, rule=met.rule[goes]),
    ])  # fmt: skip


def further_edges(met: MatchedCommunications, found: Collectives, row: Ints) -> EdgeTable:
    """Return the edges of collectives from who takes, when that begins, to who waits for it, given rows in the job."""
    waiter, awaited = found.further.places(found.number, found.rank)
    rule = met.rule[waiter]
    kind = EdgeKind.COLLECTIVE
    return EdgeTable.between(kind, row[awaited], row[waiter], from_end=False, to_end=True, rule=rule)


def message_edges(met: MatchedCommunications, row: Ints, came: Ints) -> EdgeTable:
    """Return the edges of messages, given the members' rows in the job and those with which their ranks came."""
    send, receive = _paired_messages(met)
    # A receiver takes what was sent from its call on, also where its own row begins late.
    outlives = met.end[send] >= met.arrival[receive]
    ways = (send, receive), (receive[outlives], send[outlives])
    return EdgeTable.join([_edges_between(met, row, came, *way) for way in ways])


def _edges_between(met: MatchedCommunications, row: Ints, came: Ints, first: Ints, then: Ints) -> EdgeTable:
    # On the CPU a message may have arrived before the sender's row begins: it was on its way from the call on.
    late = met.start[first] > met.end[then]
    return EdgeTable.between(
        EdgeKind.POINT_TO_POINT,
        np.where(late, came[first], row[first]),
        row[then],
        from_end=late & met.arrived_at_end[first],
        to_end=True,
        rule=met.rule[first],
    )


def _paired_messages(met: MatchedCommunications) -> tuple[Ints, Ints]:
    """Return the places of each send and of its receive."""
    place = np.flatnonzero(met.is_message)
    place = place[np.lexsort((~met.sends[place], met.number[place]))]
    number = met.number[place]
    pair = np.flatnonzero((number[1:] == number[:-1]) & met.sends[place[:-1]] & ~met.sends[place[1:]])
    return place[pair], place[pair + 1]
