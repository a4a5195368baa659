"""Where ranks meet, and when they would: jobs of two and three ranks, numbers worked out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hta_graph as hg
from hta_graph.base.arrays import column_types
from hta_graph.base.errors import QueryError
from hta_graph.multi_rank.what_if.boundary_longest_paths import ORIGIN, BoundaryLongestPaths
from hta_graph.multi_rank.what_if.job_longest_paths import (
    Arrivals,
    IncomingTimes,
    JobBoundary,
    JobLongestPaths,
    job_boundary,
)
from hta_graph.multi_rank.what_if.rank_replay import WINDOW_END
from hta_graph.what_if.predict import JobPrediction, summary_replay
from hta_graph.what_if.replay import replay
from tests.support.gloo_builder import MAIN, GlooRank, late_ranks
from tests.support.summary_job import summary_job

US = 1000


def few_rows(paths: list[Path]) -> hg.JobGraph:
    return summary_job(hg.read_graphs(paths, communications=True))


def rows_of(table: Arrivals | IncomingTimes) -> list[tuple[int, ...]]:
    return list(zip(*(getattr(table, name).tolist() for name in column_types(type(table))), strict=True))


# -- where ---------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("arrivals", "order"), [((10, 20, 35), [2, 1, 0]), ((35, 10, 20), [0, 2, 1]), ((20, 35, 20), [1, 2, 0])]
)
def test_who_comes_last_stands_first(tmp_path: Path, arrivals: tuple[int, ...], order: list[int]) -> None:
    points = job_boundary(few_rows(late_ranks(tmp_path, *arrivals)))
    assert rows_of(points.arrivals) == [(0, rank, 0) for rank in order]
    assert [rows_of(own) for own in points.incoming] == [[(0, -1, -1, 38 * US)]] * 3
    # Each is asked when its work begins, the fourth row of its file, and told of the meeting at the end of that.
    assert [(own.awaited_rows.tolist(), own.at_end.tolist()) for own in points.ranks] == [([3], [False])] * 3
    assert [(own.edges.instant.tolist(), own.edges.row.tolist()) for own in points.ranks] == [([0], [3])] * 3


def messages(folder: Path) -> list[Path]:
    """Write two ranks of which one sends to the other, which calls late and is waited for.

    µs      10        20        30        40        50
    rank 0  [call][== gloo:send ==================]  [add]
    rank 1  [mul                     ]  [call~~~~][gloo:recv]  [add]
    """
    sender, receiver = GlooRank(0, [0, 1]), GlooRank(1, [0, 1])
    sender.called("send", 10, 12)
    sender.worked("send", 11, 45, tid=MAIN)
    sender.op("aten::add", 60, 70, tid=MAIN)
    receiver.op("aten::mul", 10, 35, tid=MAIN)
    receiver.called("recv", 39, 44)
    receiver.worked("recv", 43, 46, tid=MAIN)
    receiver.op("aten::add", 60, 70, tid=MAIN)
    return [rank.write(folder / f"rank{place}.json") for place, rank in enumerate((sender, receiver))]


def test_a_message_is_no_rendezvous_but_a_point_of_the_other_rank(tmp_path: Path) -> None:
    points = job_boundary(few_rows(messages(tmp_path)))
    assert len(points.rendezvous) == len(points.arrivals) == 0
    # The receive waits for the beginning of the send, the send for that of the receive.
    assert [rows_of(own) for own in points.incoming] == [[(-1, 1, 0, 43 * US)], [(-1, 0, 0, 11 * US)]]
    assert [own.awaited_rows.tolist() for own in points.ranks] == [[1], [2]]
    assert [own.edges.is_message.tolist() for own in points.ranks] == [[True], [True]]


# -- when ----------------------------------------------------------------------------------------------------------


def predictions(paths: list[Path], *changes: hg.Change) -> tuple[JobPrediction, hg.Replayed]:
    """Predict the whole trace, asked rank by rank and as one graph."""
    graphs = list(hg.read_graphs(paths, communications=True))
    few = summary_job(graphs)
    elsewhere = summary_replay(few)
    assert elsewhere is not None
    asked = elsewhere(hg.whole()(few), hg.whole().asked).predict(changes)
    return asked, replay(hg.build_job(graphs), changes, hg.whole())


def test_the_next_one_holds_up_a_meeting_whose_last_one_comes_early(tmp_path: Path) -> None:
    """Without rank 2 the meeting is at 20 + 3 µs, not at 35 + 3."""
    few, whole = predictions(late_ranks(tmp_path, 10, 20, 35), hg.scale("rank:2", 0.0))
    assert (few.measured_ns, few.identity_ns, few.predicted_ns) == (54 * US, 54 * US, 39 * US)
    assert few.path_before.by_rank_ns == {0: 17 * US, 1: 0, 2: 37 * US}
    assert few.path_after.by_rank_ns == whole.path_after.by_rank_ns == {0: 17 * US, 1: 22 * US, 2: 0}


@pytest.mark.slow
def test_of_equally_late_ranks_the_one_that_was_later_is_preferred(tmp_path: Path) -> None:
    """Where nobody multiplies, and rank 2 does nothing at all, 0 and 1 come 1 + 3 µs after the start; 1 was later."""
    for at, arrivals in enumerate([(19, 35, 50), (35, 19, 50)]):
        (folder := tmp_path / str(at)).mkdir()
        paths = late_ranks(folder, *arrivals)
        few, whole = predictions(paths, hg.scale("operator:aten::mul", 0.0), hg.scale("rank:2", 0.0))
        assert few.predicted_ns == whole.predicted_ns == 21 * US
        expected = {0: 17 * US, 1: 4 * US, 2: 0} if at == 0 else {0: 21 * US, 1: 0, 2: 0}
        assert few.path_after.by_rank_ns == whole.path_after.by_rank_ns == expected


def test_of_a_ranks_equally_late_ends_the_first_is_preferred_unless_the_job_ended_there(tmp_path: Path) -> None:
    """Rank 1 ends last as recorded; without it both threads of rank 0 end at 60, one of them twice as long as it was.

    µs       0     10        20        30        40        50        60        70
    rank 0   call  [add                                             ]
                   [side                  ]
    rank 1   call  [add                                                        ]
    """
    paths = []
    for rank in (0, 1):
        trace = GlooRank(rank, [0, 1])
        trace.called("all_reduce", 1, 3)
        trace.worked("all_reduce", 4, 8)
        if rank == 0:
            trace.op("aten::side", 10, 35, tid=300)
        trace.op("aten::add", 12, 60 + 10 * rank, tid=MAIN)
        paths.append(trace.write(tmp_path / f"rank{rank}.json"))
    few, whole = predictions(paths, hg.scale("operator:aten::side", 2.0), hg.scale("rank:1", 0.0))
    assert few.predicted_ns == whole.predicted_ns == 59 * US
    for path in (few.path_after, whole.path_after):
        names = dict(zip(path.by_name()["name"], path.by_name()["time_ns"], strict=True))
        assert (names["aten::side"], "aten::add" in names) == (50 * US, False)


def test_a_pattern_that_is_a_name_on_one_rank_is_one_on_all(tmp_path: Path) -> None:
    """Only rank 0 has an operator of that name; on rank 1 alone it would be an expression, which the other fits."""
    paths = []
    for rank, name in enumerate(("aten::mul", "aten::mul_out")):
        trace = GlooRank(rank, [0, 1])
        trace.op(name, 0, 19 + 10 * rank, tid=MAIN)
        trace.called("all_reduce", 20 + 10 * rank, 22 + 10 * rank)
        trace.worked("all_reduce", 23 + 10 * rank, 40)
        trace.op("aten::add", 50, 60, tid=MAIN)
        paths.append(trace.write(tmp_path / f"rank{rank}.json"))
    few, whole = predictions(paths, hg.scale("operator:aten::mul", 0.0))
    assert few.measured_ns == few.predicted_ns == whole.predicted_ns == 60 * US


# -- joined --------------------------------------------------------------------------------------------------------


def ways(given: int, asked: int, drafts: int, *edges: tuple[int, int, list[int], list[int]]) -> BoundaryLongestPaths:
    """Return ways of a rank without nodes in between: edges as source, target, weights and orders."""
    source, target, weight, order = zip(*edges, strict=True)
    return BoundaryLongestPaths(
        given, asked, drafts, 2 + given + asked, np.array(source, np.int32), np.array(target, np.int32),
        np.array(weight).ravel(), np.array(order, np.int32).ravel(),
    )  # fmt: skip


def met_once() -> JobLongestPaths:
    """Two ranks that come to a meeting after 10 and after 20, 8 and 10 ns, and go on for 5 and for 7.

    origin ─10────────▶ came ──┐         rank 0
           ─12 (or 15)─────────┼──▶ end
                             met ─5─▶ end
    origin ─20, 8, 10─▶ came ──┘         rank 1: as recorded last
                             met ─7─▶ end
    """
    comes = Arrivals.of(rendezvous=[0, 0], rank_index=[1, 0], awaited=[0, 0])
    met = IncomingTimes.of(rendezvous=[0], rank_index=[-1], awaited=[-1], time=[1020])
    points = JobBoundary(np.array([99], np.int32), comes, [met, met], [])
    zero = [0, 0, 0]
    ranks = [
        ways(1, 1, 3, (0, 2, [10, 10, 10], zero), (0, 3, [12, 12, 15], [1, 1, 0]), (1, 3, [5, 5, 5], [0, 0, 1])),
        ways(1, 1, 3, (0, 2, [20, 8, 10], zero), (1, 3, [7, 7, 7], zero)),
    ]
    return JobLongestPaths(points, ranks, [np.array([0], np.int32)] * 2, [np.arange(3, dtype=np.int32)] * 2)


def test_a_meeting_is_when_the_last_one_comes_under_each_draft() -> None:
    job = met_once()
    assert [job.values(draft)[ORIGIN] for draft in range(3)] == [0, 0, 0]
    assert [job.values(draft)[1] for draft in range(3)] == [20, 10, 10]
    assert job.ends.tolist() == [[25, 15, 15], [27, 17, 17]]
    recorded = np.array([1020])
    assert [job.incoming_times(0, draft, recorded, 1000).tolist() for draft in range(3)] == [[1020], [1010], [1010]]


def test_a_way_back_leads_by_who_came_last_of_equals_by_who_did_as_recorded() -> None:
    job = met_once()
    by_rank_1 = [(0, (WINDOW_END, 0)), (1, (0, -1))]
    assert list(job.legs_back(0, 0)) == by_rank_1
    assert list(job.legs_back(0, 1)) == [(0, (WINDOW_END, 0)), (0, (0, -1))]
    assert list(job.legs_back(1, 2)) == [(1, (WINDOW_END, 0)), (1, (0, -1))]


def test_of_equally_late_ways_on_a_rank_the_preferred_one_leads_back() -> None:
    """Under the third draft the end of rank 0 is by 15 from the origin, and by 10 + 5 from the meeting."""
    assert list(met_once().legs_back(0, 2)) == [(0, (WINDOW_END, -1))]


def test_ranks_that_wait_for_each_others_points_form_a_cycle() -> None:
    comes = Arrivals.empty()
    other = [IncomingTimes.of(rendezvous=[-1], rank_index=[1 - own], awaited=[0], time=[5]) for own in (0, 1)]
    points = JobBoundary(np.array([], np.int32), comes, other, [])
    own = ways(1, 1, 1, (1, 2, [1], [0]), (0, 3, [9], [0]))
    with pytest.raises(QueryError, match="form a cycle"):
        JobLongestPaths(points, [own, own], [np.array([0], np.int32)] * 2, [np.array([0], np.int32)] * 2).values(0)
