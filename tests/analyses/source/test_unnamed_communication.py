"""Kernels of unknown names that end together on several ranks are said to wait for them."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import hta_graph as hg
from analyses.declare.scope import Scope, whole
from analyses.source.unnamed_communication import FEWEST_RUNS, unnamed_communication
from tests.support.trace_builder import TraceBuilder

Runs = list[tuple[float, float]]
"""Start and end (µs) of each run of a kernel."""


def scopes(folder: Path, ranks: list[Runs], ahead: float = 0) -> list[Scope]:
    """Give each rank its runs of a kernel; the clock of later ranks is ahead."""
    found = []
    for rank, runs in enumerate(ranks):
        trace = TraceBuilder(distributedInfo={"rank": rank, "world_size": len(ranks)})
        for number, (start, end) in enumerate(runs):
            at = 1000 * number + ahead * rank
            trace.launch("exchange_v2", (at, at + 5), (at + start, at + end), number + 1)
        found.append(whole(rank, hg.build_graph(hg.read_trace(trace.write(folder / f"{rank}.json")))))
    return found


def meeting(count: int, spread: float = 200, ranks: int = 2) -> list[Runs]:
    """Make runs that begin when they like, and end when the last one has come."""
    random, found = Random(7), [Runs() for _ in range(ranks)]
    for _ in range(count):
        starts = [random.uniform(20, 20 + spread) for _ in range(ranks)]
        for runs, start in zip(found, starts, strict=True):
            runs.append((start, max(starts) + 50 + random.uniform(0, 3)))
    return found


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("ranks", "ahead"), [(2, 0), (2, 450.0), (4, 0)])
def test_a_rendezvous_is_told(tmp_path: Path, ranks: int, ahead: float) -> None:
    (note,) = unnamed_communication(scopes(tmp_path, meeting(30, ranks=ranks), ahead))
    assert note.startswith("exchange_v2: counted as computation, but its runs end at the same time on several ranks")


def test_too_few_runs_and_one_rank_are_not(tmp_path: Path) -> None:
    assert unnamed_communication(scopes(tmp_path, meeting(FEWEST_RUNS - 1))) == []
    assert unnamed_communication(scopes(tmp_path, meeting(30))[:1]) == []
    assert unnamed_communication(scopes(tmp_path, [meeting(30)[0], meeting(31)[0]])) == []


def test_ranks_that_begin_together_do_not_show_it(tmp_path: Path) -> None:
    assert unnamed_communication(scopes(tmp_path, meeting(30, spread=5))) == []


@pytest.mark.sampled(7)
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("usual", [50, 300])
def test_kernels_that_compute_are_never_told(tmp_path: Path, seed: int, usual: float) -> None:
    """They begin apart, and last as long as their work: their ends are as far apart as their starts."""
    random = Random(seed)
    ranks = [Runs() for _ in range(3)]
    for _ in range(40):
        for runs in ranks:
            start = random.uniform(20, 320)
            runs.append((start, start + usual * random.uniform(0.95, 1.3)))
    assert unnamed_communication(scopes(tmp_path, ranks)) == []
