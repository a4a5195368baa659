"""Which ranks stand for a job: who holds it up, else who causes most, else where the path is; and a typical one."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

import hta_graph as hg
from analyses.judgement import verdict as shown_ranks_module
from analyses.judgement.verdict import WHY_REPRESENTATIVE, representative_ranks
from hta_graph.paths.critical_path import CriticalPath
from tests.support.samples import FOUR_RANKS

CAUSES = pd.DataFrame({"rank": pd.array([1, 3, None], "Int64"), "name": ["loads", "adds", None]})
WAITS = pd.DataFrame({"rank": [0, 1, 2, 3], "wait_ns": [30, 20, 0, 10]})


@pytest.fixture(scope="module")
def path() -> CriticalPath:
    return hg.critical_path(hg.read_job(FOUR_RANKS), hg.step(2))


@pytest.fixture
def nobody_holds_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown_ranks_module, "verdict_of_job", lambda _: None)


def test_who_holds_up_the_job_stands_first(path: CriticalPath) -> None:
    assert representative_ranks(path, CAUSES, WAITS) == {2: "holds_up_the_job", 1: "typical"}
    assert list(representative_ranks(path, CAUSES, WAITS)) == [2, 1]


@pytest.mark.usefixtures("nobody_holds_up")
def test_else_the_first_cause_or_where_the_path_is(path: CriticalPath) -> None:
    assert representative_ranks(path, CAUSES, WAITS) == {1: "first_cause", 3: "typical"}
    assert representative_ranks(path, CAUSES.iloc[2:], WAITS) == {2: "most_of_the_path", 1: "typical"}
    assert set(WHY_REPRESENTATIVE) == {"holds_up_the_job", "first_cause", "most_of_the_path", "typical"}


@pytest.mark.usefixtures("nobody_holds_up")
def test_a_rank_without_the_window_is_never_shown(path: CriticalPath) -> None:
    lacks = CriticalPath(path.graph, replace(path.window, missing=(1, 2)), path.chain, path.segment_table)
    assert representative_ranks(lacks, CAUSES, WAITS) == {3: "first_cause", 0: "typical"}
    alone = CriticalPath(path.graph, replace(path.window, missing=(0, 1, 2)), path.chain, path.segment_table)
    assert representative_ranks(alone, CAUSES, WAITS.iloc[:0]) == {3: "first_cause"}
