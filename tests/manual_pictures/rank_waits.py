"""A job for each way in which waiting for a rank is charged."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import hta_graph as hg
from tests.manual_pictures.programs import Drawing, job_path
from tests.support.gloo_builder import MAIN, GlooRank
from tests.support.gloo_collectives import ranks_with_a_propagated_wait, take_part

__all__ = ["RANK_WAITS"]


def direct(folder: Path) -> hg.CriticalPath:
    """Two ranks meet twice; before the second time rank 1 does something that rank 0 does not."""
    ranks = []
    for rank in range(2):
        trace = GlooRank(rank, [0, 1])
        take_part(trace, 10, 20)
        trace.op("aten::mm", 30, 40, tid=MAIN)
        if rank:
            trace.op("aten::bmm", 45, 95, tid=MAIN)
        take_part(trace, 50 + 50 * rank, 130)
        ranks.append(trace)
    return job_path(ranks, folder)


def passed_on(folder: Path) -> hg.CriticalPath:
    """Rank 0 is slow, rank 1 waits for it, and rank 2 for rank 1."""
    return job_path(ranks_with_a_propagated_wait(), folder)


def not_charged(folder: Path) -> hg.CriticalPath:
    """The first meeting in a recording: what kept rank 1 came before."""
    ranks = []
    for rank in range(2):
        trace = GlooRank(rank, [0, 1])
        trace.op("aten::mm", 1, 5 + 50 * rank, tid=MAIN)
        take_part(trace, 10 + 50 * rank, 90)
        ranks.append(trace)
    return job_path(ranks, folder)


RANK_WAITS: Mapping[str, tuple[Drawing, str]] = {
    "direct": (direct, "direct_ns: rank 0 waits for what rank 1 did more of"),
    "passed_on": (passed_on, "propagated_ns: rank 2 waits for rank 1, which waited for rank 0"),
    "not_charged": (not_charged, "no name: nothing in the recording shows why rank 1 was late"),
}
"""What ``stragglers`` charges to a cause at once, what it passes on, and what it charges to none."""
