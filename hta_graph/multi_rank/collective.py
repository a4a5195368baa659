"""Start of each member that others need → the rendezvous → end of each member that waits: n in, n out, never n²."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hta_graph.arrays import summed_by
from hta_graph.graph.edges import EdgeTable
from hta_graph.model import EdgeKind, Ints
from hta_graph.multi_rank.communication_edges import MatchedCommunications
from hta_graph.multi_rank.job_trace import RendezvousPoints

__all__ = ["collective_edges", "rendezvous_points"]


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
