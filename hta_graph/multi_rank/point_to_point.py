"""Start of a send → end of its receive; start of the receive → end of a send that outlived it.

send       [====]                     buffered: it waited for nobody
receive        [~~~====]
send       [~~~~~~~====]              large: it left when it was received
receive           [====]
"""

from __future__ import annotations

import numpy as np

from hta_graph.graph.edges import EdgeTable
from hta_graph.model import EdgeKind, Ints
from hta_graph.multi_rank.communication_edges import MatchedCommunications

__all__ = ["message_edges"]


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
