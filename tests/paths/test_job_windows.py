"""Windows of a job: iterations tile the run, from the latest end over the ranks to the next."""

from __future__ import annotations

from pathlib import Path

import pytest

import hta_graph as hg
from hta_graph.base.errors import QueryError
from hta_graph.paths.windows import step_lengths
from tests.support.gloo_builder import MAIN, GlooRank


def three_steps(tmp_path: Path) -> hg.JobGraph:
    """Join two ranks of which the first runs ahead; what is called in a step may end after it.

    µs       0        100        200        300
    rank 0   [1     ][2      ][3         ]
    rank 1   [1         ][2         ][3          ]
    worker         [=======]                            called in step 1, ends at 110 and 115
    """
    paths = []
    for rank, ends in enumerate(((80, 160, 270), (105, 200, 310))):
        trace = GlooRank(rank, [0, 1])
        for number, (begin, end) in enumerate(zip((0, *ends), ends, strict=False), start=1):
            trace.annotation(f"ProfilerStep#{number}", begin, end, tid=MAIN)
            trace.op("aten::mul", begin + 1, begin + 60, tid=MAIN)
        trace.called("all_reduce", 65, 67)
        trace.worked("all_reduce", 70, 110 + 5 * rank)
        paths.append(trace.write(tmp_path / f"rank{rank}.json"))
    return hg.read_job(paths)


def test_iterations_run_from_the_latest_end_to_the_next(tmp_path: Path) -> None:
    job = three_steps(tmp_path)
    spans = [(window.start_ns, window.end_ns) for window in (hg.step(number)(job) for number in (1, 2, 3))]
    assert spans == [(0, 115_000), (115_000, 200_000), (200_000, 310_000)]
    assert [(length.number, length.iteration_ns) for length in step_lengths(job)] == [
        (1, 115_000), (2, 85_000), (3, 110_000),
    ]  # fmt: skip


def test_a_step_on_the_cpu_runs_from_its_first_start_to_its_last_end(tmp_path: Path) -> None:
    window = hg.step(2, cpu_window=True)(three_steps(tmp_path))
    assert (window.start_ns, window.end_ns) == (80_000, 200_000)


def test_a_step_that_no_rank_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="there is no step 7"):
        hg.step(7)(three_steps(tmp_path))


@pytest.mark.parametrize("is_last", [False, True])
def test_a_step_ends_with_the_collective_that_its_thread_waits_for(tmp_path: Path, is_last: bool) -> None:
    """Nothing more is recorded of the last step's thread: its wait is a wait all the same.

    µs       0      10        20        30        40     50 55
    rank 0   [mul  ]call                                    |  [next step
    worker           [~~~~~~~~~~~~~~~~~~=================]
    rank 1   [mul                ]call                      |  [next step
    worker                         [=====================]
    """
    for rank, arrival in enumerate((10, 28)):
        trace = GlooRank(rank, [0, 1])
        trace.annotation("ProfilerStep#1", 0, 55, tid=MAIN)
        trace.op("aten::mul", 1, arrival - 1, tid=MAIN)
        trace.called("all_reduce", arrival, arrival + 2)
        trace.worked("all_reduce", arrival + 3, 50)
        if not is_last:
            trace.annotation("ProfilerStep#2", 56, 70, tid=MAIN)
            trace.op("aten::mul", 57, 69, tid=MAIN)
        trace.write(tmp_path / f"rank{rank}.json")
    path = hg.critical_path(hg.read_job(tmp_path), hg.step(1))
    path.self_check()
    assert path.by_bound_ns["gpu_communication_bound"] == 19_000
    assert path.by_rank_ns[1] > path.by_rank_ns[0]
