"""Start of a send → end of its receive; start of the receive → end of a send that outlived it.

send       [====]                     buffered: it waited for nobody
receive        [~~~====]
send       [~~~~~~~====]              large: it left when it was received
receive           [====]
"""

from __future__ import annotations

import numpy as np

from hta_graph.graph.edges import EdgeTable
from hta_graph.job.joining.met_members import MetMembers
from hta_graph.model import EdgeKind, Ints

__all__ = ["point_to_point"]


def point_to_point(met: MetMembers, row: Ints, begin: Ints) -> EdgeTable:
    """Return the edges of messages, given the members' rows in the job and those with which they begin."""
    send, receive = _paired_messages(met)
    outlives = met.end[send] >= met.start[receive]
    ways = (send, receive), (receive[outlives], send[outlives])
    return EdgeTable.join([_from_begins(met, begin[first], row[then], first) for first, then in ways])


def _from_begins(met: MetMembers, begin: Ints, row: Ints, place: Ints) -> EdgeTable:
    kind, at_end = EdgeKind.POINT_TO_POINT, met.begins_at_end[place]
    return EdgeTable.between(kind, begin, row, from_end=at_end, to_end=True, rule=met.rule[place])


def _paired_messages(met: MetMembers) -> tuple[Ints, Ints]:
    """Return the places of each send and of its receive."""
    place = np.flatnonzero(met.is_message)
    place = place[np.lexsort((~met.sends[place], met.number[place]))]
    number = met.number[place]
    pair = np.flatnonzero((number[1:] == number[:-1]) & met.sends[place[:-1]] & ~met.sends[place[1:]])
    return place[pair], place[pair + 1]
