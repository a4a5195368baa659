"""Members of different ranks that met, as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.columns import Columns
from hta_graph.job.matching.collective_times import Collectives
from hta_graph.job.matching.meeting_channels import ORDER
from hta_graph.job.matching.rank_members import ALL, MESSAGES, RankMembers
from hta_graph.model import Bools, Codes, Ids, Ints, Rule

__all__ = ["MetMembers", "met_members"]


@dataclass(frozen=True, eq=False)
class MetMembers(Columns):
    """Members that met others, collectives in order of number: whose row, when it began and ended (job time, ns).

    ``part`` is the place of its rank, ``row`` its row in that rank's graph. ``waits``: for others; ``is_needed``:
    others wait for it. ``rule`` is how they were found to belong together.
    """

    number: Ints
    part: Ids
    row: Ids
    start: Ints
    end: Ints
    waits: Bools
    is_needed: Bools
    is_message: Bools
    sends: Bools
    rule: Codes


def met_members(
    found: Collectives, ranks: Mapping[int, RankMembers], start: Sequence[Ints], end: Sequence[Ints]
) -> MetMembers:
    """Describe matched members; ``start`` and ``end`` are per rank those of all its rows in job time (ns)."""
    place_of = {rank: part for part, rank in enumerate(ranks)}
    part = np.array([place_of[rank] for rank in found.rank.tolist()], np.int32)
    own = list(ranks.values())
    pairs = list(zip(part.tolist(), found.place.tolist(), strict=True))
    row = np.array([own[at].row[place] for at, place in pairs], np.int32)
    needed = np.array([own[at].needed[place] for at, place in pairs], np.int64)
    says = [own[at].said["Collective name"][place] for at, place in pairs]
    return MetMembers.of(
        number=found.number,
        part=part,
        row=row,
        start=[start[at][own_row] for at, own_row in zip(part.tolist(), row.tolist(), strict=True)],
        end=[end[at][own_row] for at, own_row in zip(part.tolist(), row.tolist(), strict=True)],
        waits=(needed == ALL) | (needed >= 0),
        is_needed=found.is_needed,
        is_message=[text in MESSAGES for text in says],
        sends=[text == "send" for text in says],
        rule=np.where(found.by[found.number] == ORDER, Rule.ALIGNED_SEQUENCES, Rule.RECORDED),
    )
