"""ASTRA-sim's log read: what ran when, what the log does not tell, and logs that are none."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from hta_graph.base.errors import TraceError
from hta_graph.chakra.astra_sim_executor import DELAY, rank_programs
from hta_graph.chakra.et_files import read_folder
from hta_graph.chakra.log_statistics import LogStatistics, log_statistics, read_log
from tests.support.astra_log import STAMP, Ran, finished_line, log_text, write_workload
from tests.support.command_line import command_json, run_command
from tests.support.deep_tests import for_all

NODES = [
    Ran(1, 0, 20, "aten::mm", on_cpu=True),
    Ran(2, 10, 40, "gemm"),
    Ran(3, 30, 70, "all-reduce", "COMM_COLL_NODE"),
    Ran(4, 40, 50, DELAY),
    Ran(5, 60, 90, "gemm"),
    Ran(6, 90, 95, DELAY, on_cpu=True),
    Ran(7, 80, 100, "recv", "COMM_RECV_NODE"),
]
"""Times in ns: the GPU computes for 60, 60 are communication, of which 20 are hidden; 10 at the beginning are idle."""


def statistics(tmp_path: Path, *ranks: list[Ran], text: str = "", workload: bool = True) -> LogStatistics:
    (tmp_path / "log.log").write_text(text or log_text(ranks))
    programs = rank_programs(read_folder(write_workload(tmp_path / "work", ranks))) if workload else None
    return log_statistics(read_log(tmp_path), programs)


def test_delays_and_cpu_work_are_no_gpu_time(tmp_path: Path) -> None:
    (found,) = statistics(tmp_path, NODES).ranks
    assert (found.nodes, found.issued, found.called_back, found.is_complete) == (7, 7, 7, True)
    assert (found.end_ns, found.gpu_ns, found.communication_ns) == (100, 60, 60)
    assert (found.overlap_ns, found.exposed_communication_ns, found.idle_ns) == (30, 30, 10)
    assert (found.cpu_ns, found.delay_ns) == (20, 15)


def test_copies_are_work_of_the_gpu_and_hide_no_communication(tmp_path: Path) -> None:
    nodes = [*NODES, Ran(8, 40, 50, "Memcpy DtoD (Device -> Device)"), Ran(9, 50, 60, "Memset (Device)")]
    (found,) = statistics(tmp_path, nodes).ranks
    assert (found.gpu_ns, found.memory_ns, found.overlap_ns, found.exposed_communication_ns) == (80, 20, 30, 30)
    assert found.idle_ns == 10


def test_without_the_workload_nobody_knows_what_is_work_of_the_gpu(tmp_path: Path) -> None:
    found = statistics(tmp_path, NODES, workload=False)
    (rank,) = found.ranks
    assert (rank.end_ns, rank.communication_ns, rank.delay_ns, rank.issued) == (100, 60, 15, 7)
    assert {rank.nodes, rank.gpu_ns, rank.overlap_ns, rank.exposed_communication_ns, rank.idle_ns, rank.cpu_ns} == {
        None
    }
    assert "the workload does" in found.notes[0]


def test_where_no_two_nodes_compute_at_once_they_are_those_of_the_gpu(tmp_path: Path) -> None:
    """So it is in workloads of the profile gpu, in which the host is delays."""
    host = Ran(1, 0, 20, DELAY, on_cpu=True)
    found = statistics(tmp_path, [host, *NODES[1:]], workload=False)
    (rank,) = found.ranks
    assert (rank.gpu_ns, rank.communication_ns, rank.overlap_ns, rank.exposed_communication_ns) == (60, 60, 30, 30)
    assert (rank.nodes, rank.cpu_ns, rank.idle_ns) == (None, None, 10)
    assert "so all count as GPU work" in found.notes[0]


HOSTILE = [
    "gemm<float, 4>, node->type=5", "two\nlines", "a, node->name=delay", "sys[0] finished, 5 cycles", "", "ä\r\n",
    f"x\n{STAMP} [workload] [debug] issue,sys->id=0, tick=3, node->id=1, node->name=delay, node->type=4",
    f"y\n{finished_line(0, 7)}", "delay, node->type=4\n",
]  # fmt: skip


def test_names_may_hold_anything(tmp_path: Path) -> None:
    nodes = [Ran(at + 1, 10 * at, 10 * at + 5, name) for at, name in enumerate(HOSTILE)]
    (found,) = statistics(tmp_path, nodes).ranks
    assert (found.issued, found.called_back, found.gpu_ns, found.delay_ns) == (len(HOSTILE), len(HOSTILE), 45, 0)
    assert found.end_ns == 85


SPANS = st.tuples(
    st.integers(0, 60),
    st.integers(0, 20),
    st.sampled_from(["gemm", DELAY, HOSTILE[0]]),
    st.sampled_from(["COMP_NODE", "COMM_COLL_NODE", "COMM_SEND_NODE", "COMM_RECV_NODE"]),
    st.booleans(),
)


@for_all(st.lists(st.lists(SPANS, min_size=1, max_size=12), min_size=1, max_size=3), examples=400)
def test_times_are_those_of_a_count_of_instants(tmp_path_factory: pytest.TempPathFactory, ranks: Any) -> None:
    drawn = [
        [Ran(1, 0, 1), *(Ran(at, start, start + more, *rest) for at, (start, more, *rest) in enumerate(spans, 2))]
        for spans in ranks
    ]
    found = statistics(tmp_path_factory.mktemp("log"), *drawn).ranks
    for nodes, rank in zip(drawn, found, strict=True):
        compute = [node for node in nodes if node.kind == "COMP_NODE"]
        work = [node for node in compute if node.name != DELAY]
        gpu = instants([node for node in work if not node.on_cpu])
        talk = instants([node for node in nodes if node.kind != "COMP_NODE"])
        assert (rank.gpu_ns, rank.communication_ns, rank.overlap_ns) == (len(gpu), len(talk), len(gpu & talk))
        assert rank.exposed_communication_ns == len(talk - gpu)
        assert rank.cpu_ns == len(instants([node for node in work if node.on_cpu]))
        assert rank.delay_ns == len(instants([node for node in compute if node.name == DELAY]))
        assert rank.end_ns == max(node.end for node in nodes)
        assert rank.gpu_ns + rank.exposed_communication_ns + rank.idle_ns == rank.end_ns  # type: ignore[operator]


def instants(nodes: list[Ran]) -> set[int]:
    return {instant for node in nodes for instant in range(node.start, node.end)}


def rotated(tmp_path: Path, text: str, files: int) -> None:
    """Write a log as several files of whole lines, the oldest with the highest number."""
    lines = text.splitlines(keepends=True)
    size = -(-len(lines) // files)
    for number in range(files):
        name = f"log.{files - 1 - number}.log" if number < files - 1 else "log.log"
        (tmp_path / name).write_text("".join(lines[number * size : (number + 1) * size]))


def test_a_rotated_log_is_one(tmp_path: Path) -> None:
    nodes = [Ran(at + 1, at, at + 2) for at in range(40)]
    rotated(tmp_path, log_text([nodes]), 12)
    for path in (tmp_path, tmp_path / "log.log", tmp_path / "log.3.log"):
        (found,) = log_statistics(read_log(path)).ranks
        assert (found.issued, found.called_back, found.end_ns) == (40, 40, 41)


def test_a_log_that_lost_its_beginning_says_so_and_tells_no_times(tmp_path: Path) -> None:
    programs = rank_programs(read_folder(write_workload(tmp_path / "work", [NODES])))
    rotated(tmp_path, log_text([NODES]), 4)
    (tmp_path / "log.3.log").unlink()
    found = log_statistics(read_log(tmp_path), programs)
    assert "lost its oldest entries" in found.notes[0]
    assert [note for note in found.notes if "never started" in note] == []
    (rank,) = found.ranks
    assert (rank.end_ns, rank.nodes, rank.gpu_ns, rank.communication_ns, rank.is_complete) == (
        100,
        7,
        None,
        None,
        False,
    )


def test_nodes_that_never_began_or_ended_are_counted(tmp_path: Path) -> None:
    text = log_text([[*NODES[:3], Ran(4, 40, -1)]]).replace("sys[0] finished", "sys[0] stopped")
    found = statistics(tmp_path, NODES, text=text)
    assert found.notes == [
        "npu 0 never ended",
        "npu 0: nodes that never ended: 1, such as node 4",
        "npu 0: nodes that never started: 3, such as node 5",
    ]
    (rank,) = found.ranks
    assert (rank.end_ns, rank.idle_ns, rank.gpu_ns, rank.issued, rank.called_back) == (None, None, 30, 4, 3)


def test_a_rank_without_a_line_is_listed(tmp_path: Path) -> None:
    found = statistics(tmp_path, NODES, NODES, text=log_text([NODES]))
    assert [(rank.npu, rank.issued, rank.end_ns) for rank in found.ranks] == [(0, 7, 100), (1, 0, None)]


REFUSED = {
    "": "logs no simulated nodes",
    "\x00\xff": "logs no simulated nodes",
    log_text([NODES]) * 2: "holds more than one run: node 1 of rank 0 appears twice",
    log_text([[Ran(99, 0, 5)]]): "in which rank 0 has no such node 99",
    log_text([[Ran(1, 0, 5, kind="COMM_COLL_NODE")]]): "in which rank 0 has no such node 1",
    log_text([[Ran(1, 0, 5)], [Ran(1, 0, 5)]]): "which has no rank 1",
    log_text([[Ran(10**20 - 1, 0, 5)]]): "does not fit 64 bits",
    f"{STAMP} [workload] [debug] issue,sys->id=0, tick=0, node->id=1, node->name=" * 50_000: "logs no simulated nodes",
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("text", REFUSED, ids=REFUSED.values())
def test_what_is_no_log_of_the_workload_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "log.log").write_text(text)
    write_workload(tmp_path / "work", [NODES])
    status, out, err = run_command(capsys, "chakra", "statistics", tmp_path / "log", "--workload", tmp_path / "work")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert REFUSED[text] in err


def test_files_of_a_log_that_are_missing_are_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such file or folder"):
        read_log(tmp_path / "log")
    with pytest.raises(TraceError, match=re.escape("holds no log.log")):
        read_log(tmp_path)
    rotated(tmp_path, log_text([NODES]), 3)
    (tmp_path / "log.1.log").unlink()
    with pytest.raises(TraceError, match=re.escape("log.1.log is missing")):
        read_log(tmp_path)


def test_the_command_prints_and_writes_what_is_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "log.log").write_text(log_text([NODES]))
    arguments = "chakra", "statistics", tmp_path / "log", "--workload", write_workload(tmp_path / "work", [NODES])
    document = command_json(capsys, *arguments)
    assert document["schema"] == "hta-graph/chakra-statistics/1"
    assert document["notes"] == []
    assert document["ranks"][0] == {
        "npu": 0, "rank": 0, "end_ns": 100, "nodes": 7, "issued": 7, "called_back": 7, "unanswered": 0,
        "gpu_ns": 60, "memory_ns": 0,
        "communication_ns": 60, "overlap_ns": 30, "exposed_communication_ns": 30, "idle_ns": 10,
        "cpu_ns": 20, "delay_ns": 15,
    }  # fmt: skip
    status, out, _ = run_command(capsys, *arguments)
    assert status == 0
    assert max(map(len, out.splitlines())) <= 100


def test_a_run_that_did_not_end_fails_after_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "log.log").write_text(log_text([NODES[:3]]))
    work = write_workload(tmp_path / "work", [NODES])
    status, out, err = run_command(capsys, "chakra", "statistics", tmp_path / "log", "--workload", work)
    assert status == 1
    assert "3/7" in out
    assert "nodes that never started: 4, such as node 4" in err
    assert err.endswith("ASTRA-sim did not complete all nodes\n")


def test_a_log_is_never_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.log"
    log.write_text(log_text([NODES]))
    status, _, err = run_command(capsys, "chakra", "statistics", tmp_path, "--json", log)
    assert status != 0
    assert "is an input" in err
    assert log.read_text() == log_text([NODES])


@pytest.mark.parametrize(
    ("without", "status"), [("", 0), ("finished", 1), ("callback,sys->id=0, tick=100", 1)], ids=["whole", "end", "node"]
)
def test_what_a_log_without_its_beginning_shows_can_still_fail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], without: str, status: int
) -> None:
    (tmp_path / "log").mkdir()
    lines = log_text([NODES]).splitlines(keepends=True)[3:]
    kept = [line for line in lines if not without or without not in line]
    (tmp_path / "log" / "log.log").write_text("".join(kept))
    work = write_workload(tmp_path / "work", [NODES])
    found, _, err = run_command(capsys, "chakra", "statistics", tmp_path / "log", "--workload", work)
    assert "lost its oldest entries" in err
    assert found == status, err
