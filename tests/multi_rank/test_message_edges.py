"""Messages on the CPU: a receiver takes what was sent from its call on, even if its own row begins late."""

from __future__ import annotations

from pathlib import Path

import pytest

import hta_graph as hg
from tests.support.gloo_builder import MAIN, GlooRank


def edges_into_send(folder: Path, send_end: float) -> list[tuple[str, float]]:
    """Return what the end of a send waited for on the other rank, by name and lag (µs).

    µs      10        20        30        40
    rank 0  [call][== gloo:send =============] send_end
    rank 1                              [call~~~][gloo:recv]
    """
    sender, receiver = GlooRank(0, [0, 1]), GlooRank(1, [0, 1])
    sender.called("send", 10, 12)
    sender.worked("send", 11, send_end, tid=MAIN)
    sender.op("aten::add", 60, 70, tid=MAIN)
    receiver.op("aten::mul", 10, 35, tid=MAIN)
    receiver.called("recv", 39, 44)
    receiver.worked("recv", 43, 46, tid=MAIN)
    receiver.op("aten::add", 60, 70, tid=MAIN)
    paths = [rank.write(folder / f"rank{place}.json") for place, rank in enumerate((sender, receiver))]
    job = hg.read_job(paths)
    edges = job.edges
    found = edges[(edges.kind == "point_to_point") & (edges.source_rank == 1)]
    names = job.events.set_index(["rank", "event_index"]).name
    return [
        (names[row.source_rank, row.source_index], row.lag_ns / 1000) for row in found.itertuples(index=False)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("send_end", "expected"),
    [(30, []), (41, [("c10d::recv_", 2.0)]), (45, [("gloo:recv", 2.0)])],
    ids=["before the call", "before the row", "after both"],
)
def test_a_send_that_outlives_the_call_of_its_receive_waited_for_it(
    tmp_path: Path, send_end: float, expected: list[tuple[str, float]]
) -> None:
    assert edges_into_send(tmp_path, send_end) == expected
