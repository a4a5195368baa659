"""Messages on the CPU: a receiver takes what was sent from its call on, even if its own row begins late."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hta_graph as hg
from hta_graph.graph.points import event_of
from hta_graph.model import BoundBy, EdgeKind
from hta_graph.multi_rank.job_verdict import job_verdict
from hta_graph.multi_rank.wait_causes import WaitCauses
from hta_graph.paths.binding_edges import binding_edges
from tests.simulator.ranks import Fault, JobShape, Recording, record_job, ring, simulate_job
from tests.support.gloo_builder import MAIN, GlooRank
from tests.support.trace_builder import PID


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


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("send_end", "expected"),
    [(30, []), (41, [("c10d::recv_", 2.0)]), (45, [("gloo:recv", 2.0)])],
    ids=["before the call", "before the row", "after both"],
)
def test_a_send_that_outlives_the_call_of_its_receive_waited_for_it(
    tmp_path: Path, send_end: float, expected: list[tuple[str, float]]
) -> None:
    assert edges_into_send(tmp_path, send_end) == expected


def pair_of(folder: Path, send_end: float, *, with_sender: bool = True) -> hg.JobGraph:
    """Read two ranks of which the first computes until it waits for two sends, and the second receives them.

    µs      10        20        30        40        50        60
    rank 0  [call][call]     [==== aten::mul =====]    |[add]
             [== gloo:send ==========================]           waits at 50
                [== gloo:send =========================]         waits for the second one until it comes
    rank 1  [call][recv]                                [call][recv]
    """
    sender, receiver = GlooRank(0, [0, 1]), GlooRank(1, [0, 1])
    for rank in (sender, receiver):
        rank.annotation("ProfilerStep#1", 0, 200, tid=MAIN)
    for start in (10, 14):
        sender.called("send", start, start + 2)
    sender.worked("send", 11, send_end, tid=MAIN)
    sender.worked("send", 15, 90, tid=MAIN)
    sender.op("aten::mul", 20, 48, tid=MAIN)
    sender.op("aten::add", 95, 110, tid=MAIN)
    receiver.called("recv", 9, 12)
    receiver.worked("recv", 11, 16, tid=MAIN)
    receiver.op("aten::mm", 17, 80, tid=MAIN)
    receiver.called("recv", 82, 84)
    receiver.worked("recv", 83, 92, tid=MAIN)
    receiver.op("aten::add", 95, 100, tid=MAIN)
    ranks = (sender, receiver) if with_sender else (receiver,)
    return hg.read_job([rank.write(folder / f"rank{place}.json") for place, rank in enumerate(ranks)])


def causes_of_sends(job: hg.JobGraph) -> list[tuple[str, str, int]]:
    """Return what lets the ends of sends happen: the edge, what it comes from, and on which rank."""
    bound_by, edges = binding_edges(job), job.edge_table
    rows = [row for row in range(len(job.event_table)) if job.name_of(row) == "gloo:send"]
    found = [bound_by[2 * row + 1] for row in rows]
    return [
        (
            EdgeKind(edges.kind[edge]).label,
            job.name_of(edges.source[edge] >> 1),
            int(job.rank_index_of(edges.source[[edge]] >> 1)[0]),
        )
        for edge in found
    ]


def test_who_comes_late_to_a_message_lets_it_end(tmp_path: Path) -> None:
    """The thread for the first one, which it waits for late; the receiver for the second one."""
    job = pair_of(tmp_path, 50)
    assert causes_of_sends(job) == [("thread_order", "aten::mul", 0), ("point_to_point", "gloo:recv", 1)]


def test_a_thread_that_waits_at_once_came_with_its_call(tmp_path: Path) -> None:
    """It does nothing in between that lets a receive end, even if its call is open longer than the sender needs."""
    job = pair_of(tmp_path, 50)
    edges = job.edge_table
    ends = [2 * row + 1 for row in range(len(job.event_table)) if job.name_of(row) == "gloo:recv"]
    into = edges.kind[np.isin(edges.target, ends)]
    assert len(ends) == 2
    assert EdgeKind.THREAD_ORDER not in into.tolist()


def test_a_thread_waits_for_one_message_after_the_other(tmp_path: Path) -> None:
    """The wait for the second send begins when that for the first one is over."""
    job = pair_of(tmp_path, 88)
    bound_by, edges, times = binding_edges(job), job.edge_table, job.timeline.times
    first, second = (2 * row + 1 for row in range(len(job.event_table)) if job.name_of(row) == "gloo:send")
    on_thread = edges.source[(edges.target == second) & (edges.kind == EdgeKind.THREAD_ORDER)]
    assert on_thread.tolist() == [first]
    assert times[second] - times[first] == 2_000
    assert EdgeKind(edges.kind[bound_by[second]]) == EdgeKind.THREAD_ORDER


def test_time_until_a_wait_is_its_threads_and_of_its_annotation(tmp_path: Path) -> None:
    job = pair_of(tmp_path, 88)
    path = hg.critical_path(job, hg.whole()).segment_table
    gap = path.take(path.bound == BoundBy.CPU_GAP)
    assert {job.lanes.labels[lane] for lane in gap.lane.tolist()} <= {f"thread {PID}:{MAIN}"}
    assert {job.name_of(row) for row in gap.event.tolist()} == {"ProfilerStep#1"}


def test_silence_before_a_message_without_a_partner_may_be_waiting(tmp_path: Path) -> None:
    job = pair_of(tmp_path, 50, with_sender=False)
    path = hg.critical_path(job, hg.whole())
    # It waits for both at once, so their rows are communication from their beginning on.
    assert path.by_bound_ns["gpu_communication_bound"] == 5_000 + 9_000
    assert hg.replay(job, [], hg.whole()).waiting_share > 0.1


def asked_for_before(folder: Path, *, work: str) -> hg.JobGraph:
    """Read two ranks: one asks for a message before its work and awaits it afterwards, the other sends late.

    µs      10        20        30        40        50        60        70
    rank 0  [call][mul]..........annotation..]~~~~ waits ~~~~~~~[==]|[add]     its row: 11 to 66
    rank 1  [============================ mul ==================][call][gloo:send]
    """
    receiver, sender = GlooRank(0, [0, 1]), GlooRank(1, [0, 1])
    for rank in (receiver, sender):
        rank.annotation("ProfilerStep#1", 0, 200, tid=MAIN)
        rank.called("all_reduce", 1, 3)
        rank.worked("all_reduce", 4, 8)
    receiver.op("c10d::recv_", 10, 12, tid=MAIN, **{"Concrete Inputs": ["", "", "1", "0"], "Input Dims": [[[8]]]})
    receiver.worked("recv", 11, 66, tid=MAIN)
    if work == "operator":
        receiver.op("aten::mul", 13, 40, tid=MAIN)
    else:
        receiver.annotation("attention", 13, 40, tid=MAIN)
        receiver.op("aten::mul", 13, 16, tid=MAIN)
    sender.op("aten::mul", 10, 60, tid=MAIN)
    sender.op("c10d::send", 60, 62, tid=MAIN, **{"Concrete Inputs": ["", "", "0", "0"], "Input Dims": [[[8]]]})
    sender.worked("send", 61, 65, tid=MAIN)
    for rank in (receiver, sender):
        rank.op("aten::add", 90, 100, tid=MAIN)
    return hg.read_job([rank.write(folder / f"rank{place}.json") for place, rank in enumerate((receiver, sender))])


@pytest.mark.parametrize("work", ["operator", "annotation"])
def test_a_wait_lasts_from_when_its_thread_came_to_wait(tmp_path: Path, work: str) -> None:
    """From the end of the work at 40, not from the call at 10; the transfer is what is left."""
    job = asked_for_before(tmp_path, work=work)
    members = job.members
    receive = np.flatnonzero(members.is_message & (members.part == 0))
    assert members.busy[receive].tolist() == [30_000]
    assert members.wait[receive].tolist() == [20_000]
    assert members.transfer[receive].tolist() == [6_000]
    assert (members.waits_since + members.wait + members.transfer).tolist() == job.event_table.end[members.row].tolist()


@pytest.mark.parametrize("work", ["operator", "annotation"])
def test_what_a_late_sender_does_is_the_cause(tmp_path: Path, work: str) -> None:
    job = asked_for_before(tmp_path, work=work)
    causes = WaitCauses(job)
    first = causes.columns_of(causes.attribute())
    assert (first["rank"][0], first["name"][0], first["caused_ns"][0] > 15_000) == (1, "aten::mul", True)


def test_who_comes_late_to_wait_waited_for_nobody(tmp_path: Path) -> None:
    """The receiver took the first send at 11, long before its sender came to wait for it."""
    members = pair_of(tmp_path, 50).members
    sends = np.flatnonzero(members.is_message & (members.part == 0))
    assert members.busy[sends].tolist() == [38_000, 36_000]
    assert members.wait[sends].tolist() == [0, 32_000]  # from 50, when the first wait is over, to the call at 82


@pytest.mark.parametrize("seed", range(3))
def test_a_late_rank_of_a_ring_delays_the_others_by_its_delay(tmp_path: Path, seed: int) -> None:
    """Each part is asked for before the work: the senders' own work is no communication."""
    late = 1 + seed
    faults = [Fault(late, number, "forward", 8_000_000) for number in range(8)]
    shape = JobShape(ranks=4, steps=8, backend="gloo", seed=seed, faults=faults)
    with_fault, without = (
        job_verdict(hg.read_job(record_job(simulate_job(ring(own)), Recording(), tmp_path / name).paths))
        for name, own in (("fault", shape), ("base", replace(shape, faults=())))
    )
    assert (with_fault.firmness, with_fault.rank, without.firmness) == ("firm", late, "none")
    assert with_fault.median_caused_ns == pytest.approx(8_000_000, rel=0.03)


def test_a_job_in_which_an_annotation_shows_when_a_thread_came_to_wait_is_saved_and_converted(tmp_path: Path) -> None:
    job = asked_for_before(tmp_path, work="annotation")
    edges = job.edge_table
    pairs = {tuple(map(job.name_of, pair)) for pair in zip(event_of(edges.source), event_of(edges.target), strict=True)}
    assert {("aten::mul", "attention"), ("attention", "gloo:recv")} <= pairs
    hg.save_graph(job, tmp_path / "saved")
    again = hg.load_graph(tmp_path / "saved")
    assert hg.critical_path(again).segments.equals(hg.critical_path(job).segments)
    graph, same = job.to_rustworkx(), job.to_networkx()
    assert (graph.num_edges(), len(same), same.number_of_edges()) == (len(edges), graph.num_nodes(), len(edges))
