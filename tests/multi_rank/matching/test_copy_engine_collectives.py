"""Collectives that copy engines run: which copies do their work, and how those of the ranks belong together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hta_graph as hg
from hta_graph.multi_rank.matching.collectives import match_graphs
from hta_graph.multi_rank.matching.match_ranks import SEQUENCE
from hta_graph.multi_rank.matching.read_communications import read_communications
from hta_graph.paths.gpu_activity import WorkType, activities
from tests.support.copy_engines import ALL_GATHER, WAYS, Copy, copy_engine_step
from tests.support.rank_builder import inputs_of

TWO: list[Copy] = [(WAYS[0], 120, 20), (WAYS[1], 141, 20)]
ALL_TO_ALL = ALL_GATHER | {"Collective name": "all_to_all", "In msg nelems": 2_000}


def communicating(tmp_path: Path, copies: list[Copy], said: dict[str, Any] | None = None, **how: Any) -> int:
    """Return how many of a rank's copies count as communication, in every question alike."""
    graph = copy_engine_step(0, copies, said, **how).graph(tmp_path)
    work = activities(graph)
    talks = work.row[work.type == WorkType.COMMUNICATION]
    assert talks.tolist() == np.flatnonzero(graph.event_flags.communicates).tolist()
    assert np.count_nonzero(work.type == WorkType.MEMORY) == len(copies) - len(talks)
    path = hg.critical_path(graph)
    assert (path.by_bound_ns.get("gpu_communication_bound", 0) > 0) == (len(talks) > 0)
    return len(talks)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [*WAYS, "CopyDeviceToDevice", "Memcpy Unknown", "Memory_Copy D2D"])
@pytest.mark.parametrize("said", [ALL_GATHER, ALL_TO_ALL, ALL_GATHER | {"Collective name": "scatter"}])
def test_copies_between_devices_of_a_record_are_its_collective(tmp_path: Path, name: str, said: dict[str, Any]) -> None:
    assert communicating(tmp_path, [(name, 120, 20), (name, 141, 20)], said) == 2


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("name", "said", "inner"),
    [
        ("Memcpy HtoD (Pinned -> Device)", ALL_GATHER, ""),  # what a library sets up when it is first called
        ("Memcpy DtoH (Device -> Pinned)", ALL_GATHER, ""),
        ("CopyHostToDevice", ALL_GATHER, ""),
        (WAYS[0], ALL_GATHER, "aten::copy_"),  # into a list of tensors
        (WAYS[0], ALL_GATHER | {"Group size": 1, "Process Group Ranks": "[0]"}, ""),  # NCCL copies within the device
        (WAYS[0], ALL_GATHER | {"Collective name": "barrier"}, ""),
        (WAYS[0], ALL_GATHER | {"Collective name": "init"}, ""),
        (WAYS[0], {key: value for key, value in ALL_GATHER.items() if key != "Seq"}, ""),
        (WAYS[0], {}, ""),
    ],
)
def test_other_copies_inside_a_record_are_copies(tmp_path: Path, name: str, said: dict[str, Any], inner: str) -> None:
    assert communicating(tmp_path, [(name, 120, 20)], said, inner=inner) == 0


def test_an_external_id_that_is_a_copys_own_correlation_names_no_record(tmp_path: Path) -> None:
    trace = copy_engine_step(0, TWO)
    trace.copy(WAYS[0], 200, 210, 90, **{"External id": 90})  # no call, and numbered as the record is by chance
    trace.call("cudaMemcpyAsync", 300, 302, 500)
    trace.copy(WAYS[0], 310, 320, 500, **{"External id": 90})  # the call is elsewhere
    assert np.count_nonzero(trace.graph(tmp_path).event_flags.communicates) == 2


def test_copies_without_calls_are_known_by_their_external_id(tmp_path: Path) -> None:
    trace = copy_engine_step(0, TWO)
    trace.rows = [row for row in trace.rows if row["name"] != "cudaMemcpyAsync"]
    members = read_communications(trace.graph(tmp_path))
    assert (members.group, members.arguments["Seq"]) == (["0 [0, 1]"], [1])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("said", [ALL_GATHER, ALL_TO_ALL])
@pytest.mark.parametrize("others", [TWO[::-1], [(WAYS[1], 121, 40)], [("CopyDeviceToDevice", 121, 9)] * 4])
def test_the_copies_of_one_collective_are_one_member_of_it(
    tmp_path: Path, said: dict[str, Any], others: list[Copy]
) -> None:
    # Ranks copy in another order, and in as many parts as they like.
    others = [(name, 121 + 10 * at, length) for at, (name, _, length) in enumerate(others)]
    given = inputs_of(tmp_path, copy_engine_step(0, TWO, said), copy_engine_step(1, others, said))
    graphs = {one.rank: one.graph for one in given}
    members, found = match_graphs(graphs)
    assert [len(own) for own in members.values()] == [1, 1]
    assert (len(found), found.by.tolist(), found.missing.tolist()) == (1, [SEQUENCE], [0])
    ends = [max(start + length for _, start, length in copies) for copies in (TWO, others)]
    spans = [(int(own.start[0]), int(own.end[0])) for own in members.values()]
    assert spans == [(120_000, int(1_000 * ends[0])), (121_000, int(1_000 * ends[1]))]
    job = hg.build_job(graphs.values())
    assert not job.without_partner.any()
    came = sum(int(own.arrival[0]) for own in members.values())
    assert sum(job.members.transfer + job.members.wait) == sum(end for _, end in spans) - came


def test_a_rank_comes_with_what_its_first_copy_waits_for_and_the_late_one_is_named(tmp_path: Path) -> None:
    copies = [(name, start + 300, length) for name, start, length in TWO]
    given = inputs_of(tmp_path, copy_engine_step(0, copies), copy_engine_step(1, copies, late=300))
    _, found = match_graphs({one.rank: one.graph for one in given})
    assert found.rank[found.last].tolist() == [1]
    assert found.wait.tolist() == [300_000, 0]
