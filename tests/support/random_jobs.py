"""Small jobs drawn from a seed: ranks that compute, meet in collectives and wait for each other."""

from __future__ import annotations

import random
from pathlib import Path

import hta_graph as hg
from tests.support.gloo_builder import MAIN, GlooRank

__all__ = ["random_job", "random_ranks"]


def random_ranks(seed: int) -> list[GlooRank]:
    """Draw two to four ranks with up to five all-reduces; whoever comes last lets the others go."""
    draw = random.Random(seed)
    count = draw.randint(2, 4)
    ranks = [GlooRank(rank, list(range(count))) for rank in range(count)]
    time = [draw.randint(0, 5) for _ in ranks]
    for at in range(draw.randint(1, 5)):
        elements = 8 + at
        for rank, trace in enumerate(ranks):
            for _ in range(draw.randint(0, 2)):
                length = draw.randint(2, 20)
                trace.op(f"aten::op{draw.randint(0, 2)}", time[rank], time[rank] + length, tid=MAIN)
                time[rank] += length + draw.randint(0, 3)
            trace.called("all_reduce", time[rank], time[rank] + 2, elements)
        last = max(time)
        for rank, trace in enumerate(ranks):
            end = last + draw.randint(5, 9)
            trace.worked("all_reduce", time[rank] + 3, end, elements=elements)
            time[rank] = end + draw.randint(1, 4)
    for rank, trace in enumerate(ranks):
        trace.op("aten::last", time[rank], time[rank] + 5, tid=MAIN)
    return ranks


def random_job(folder: Path, seed: int) -> hg.JobGraph:
    """Write the ranks of a seed and join them."""
    return hg.read_job([trace.write(folder / f"rank{at}.json") for at, trace in enumerate(random_ranks(seed))])
