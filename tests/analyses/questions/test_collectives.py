"""Collectives of several ranks: matched by id, number or order; who came last; waiting and transfer; stragglers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import hta_graph as hg
from analyses.advice.facts import PathFacts
from analyses.advice.rules import verdict_of
from analyses.cli.main import main
from analyses.declare.scope import Scope, per_step, whole
from analyses.hta.breakdowns import hta_potential_stragglers, hta_profiler_steps
from analyses.hta.frame import hta_scopes
from analyses.questions import collectives as collectives_module
from analyses.questions import stragglers as stragglers_module
from analyses.questions.collectives import collective_members, collectives, waits_by_rank
from analyses.questions.stragglers import stragglers
from analyses.source.matched_collectives import matched_collectives, matching_notes
from hta_graph.base.errors import QueryError
from hta_graph.multi_rank.matching.collectives import match_collectives
from hta_graph.multi_rank.matching.match_ranks import MATCHED_BY
from hta_graph.multi_rank.matching.read_communications import read_communication_kernels
from tests.simulator.ranks import Fault, JobShape, Recording, ddp, record_job, simulate_job
from tests.support.gloo_builder import GlooRank, late_ranks
from tests.support.golden_graphs import graphs
from tests.support.reference_percentile import percentile
from tests.support.shared_traces import SHARED
from tests.support.trace_builder import TraceBuilder

KERNEL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
Runs = list[tuple[float, float]]


def rank_trace(rank: int, runs: Runs, *, world: int = 2, name: str = KERNEL, **args: Any) -> TraceBuilder:
    """Make a rank with one collective per run; ``args`` may hold a list of values, one for each."""
    trace = TraceBuilder(distributedInfo={"rank": rank, "world_size": world})
    for at, (start, end) in enumerate(runs):
        own = {key.replace("_", " "): value[at] if isinstance(value, list) else value for key, value in args.items()}
        trace.call("cudaLaunchKernel", at, at + 0.5, at + 1)
        trace.kernel(name, start, end, at + 1, stream=9, **own)
    return trace


def scopes_of(tmp_path: Path, *traces: TraceBuilder) -> list[Scope]:
    found = []
    for at, trace in enumerate(traces):
        graph = hg.build_graph(hg.read_trace(trace.write(tmp_path / f"rank{at}.json")))
        found.append(whole(graph.trace.rank or 0, graph))
    return found


def members(scopes: list[Scope]) -> list[tuple[list[tuple[int, int]], str]]:
    """Return (rank, place) of each collective's kernels, and by what they were matched."""
    found = match_collectives({scope.rank: read_communication_kernels(scope.graph) for scope in scopes})
    pairs = list(zip(found.number.tolist(), found.rank.tolist(), found.place.tolist(), strict=True))
    return [
        ([(rank, place) for number, rank, place in pairs if number == at], MATCHED_BY[found.by[at]])
        for at in range(len(found))
    ]


def test_the_last_rank_makes_the_others_wait(tmp_path: Path) -> None:
    scopes = scopes_of(
        tmp_path,
        rank_trace(0, [(10, 31), (40, 45)], world=3),
        rank_trace(1, [(25, 30), (41, 45)], world=3),
        rank_trace(2, [(12, 30), (38, 45)], world=3),
    )
    matched = matched_collectives(scopes)
    kernels = collective_members(matched)
    assert (kernels["wait_ns"] + kernels["transfer_ns"]).tolist() == kernels["duration_ns"].tolist()
    assert kernels["wait_ns"].tolist() == [15_000, 0, 13_000, 1_000, 0, 3_000]
    assert kernels["is_last"].tolist() == [False, True, False] * 2
    frame = collectives(matched)
    assert frame[
        ["number", "ranks", "last_rank", "waited_ns", "longest_wait_ns", "transfer_ns"]
    ].to_numpy().tolist() == [
        [0, 3, 1, 28_000, 15_000, 6_000],
        [1, 3, 1, 4_000, 3_000, 4_000],
    ]
    ranks = waits_by_rank(kernels)
    assert ranks[["rank", "wait_ns", "times_last", "wait_caused_ns"]].to_numpy().tolist() == [
        [0, 16_000, 0, 0],
        [1, 0, 2, 32_000],
        [2, 16_000, 0, 0],
    ]
    assert stragglers(matched)["rank"].tolist() == [1, 0, 2]
    assert hta_potential_stragglers(scopes, num_candidates=5, profiler_steps=None) == [1]


def test_waiting_is_caused_by_the_rank_that_was_waited_for(tmp_path: Path) -> None:
    """Rank 1 gives to rank 3, which is late, and to rank 2, which hands on to rank 0: these have what they need."""
    ranks = hg.read_graphs(late_ranks(tmp_path, 10, 10, 10, 35, kind="broadcast"))
    matched = matched_collectives([whole(at, graph) for at, graph in enumerate(ranks)])
    parts = collective_members(matched)
    assert parts["wait_ns"].tolist() == [0, 25_000, 0, 0]
    assert parts["awaited_rank"].fillna(-1).tolist() == [-1, 3, -1, -1]
    assert waits_by_rank(parts)["wait_caused_ns"].tolist() == [0, 0, 0, 25_000]
    assert dict(stragglers(matched)[["rank", "wait_caused_ns"]].to_numpy().tolist()) == {0: 0, 1: 0, 2: 0, 3: 25_000}


def test_a_rank_that_lacks_a_step_is_part_of_its_collectives(tmp_path: Path) -> None:
    runs = [(10, 30), (45, 50)], [(20, 30), (41, 50)]
    lacking = rank_trace(1, runs[1])
    lacking.annotation("ProfilerStep#9", 0, 3)
    scopes = scopes_of(tmp_path, with_steps(0, runs[0]), lacking)
    stepwise = [item for scope in scopes for item in per_step(scope.rank, scope.graph)]
    first = collective_members(matched_collectives(stepwise)).query("scope == 'ProfilerStep#4'")
    assert first[["rank", "start_ns", "is_last"]].to_numpy().tolist() == [[0, 45_000, True], [1, 41_000, False]]


@pytest.mark.parametrize("is_given", [True, False])
def test_a_rank_without_communication_is_like_one_without_a_trace(tmp_path: Path, *, is_given: bool) -> None:
    group = {"Collective_name": "allreduce", "Process_Group_Name": "0", "Process_Group_Ranks": "[0, 1, 2]"}
    talking = [rank_trace(rank, [(10 + rank, 20)], world=3, **group) for rank in (0, 1)]
    silent = rank_trace(2, [(5, 20)], world=3, name="gemm")
    scopes = scopes_of(tmp_path, *talking, *[silent] * is_given)
    matched = matched_collectives(scopes)
    assert collectives(matched)[["ranks", "last_rank", "missing"]].to_numpy().tolist() == [[2, 1, 1]]
    unknown = "1 of 3 ranks has no recorded communication; whether it delays the others is unknown."
    assert matching_notes(scopes, matched)[0] == unknown
    job = hg.read_job([tmp_path / f"rank{rank}.json" for rank in range(len(scopes))])
    told = verdict_of(PathFacts(hg.critical_path(job, hg.whole())))
    found = {finding.rule: finding for finding in told}["ranks_matched"]
    assert found.text == f"Matched between ranks: 1 collective. {unknown}"


def test_order_counts_from_the_end(tmp_path: Path) -> None:
    scopes = scopes_of(tmp_path, rank_trace(0, [(10, 20), (30, 40), (50, 60)]), rank_trace(1, [(31, 40), (49, 60)]))
    assert members(scopes) == [([(0, 1), (1, 0)], MATCHED_BY[2]), ([(0, 2), (1, 1)], MATCHED_BY[2])]


def test_what_is_alike_in_order_but_apart_in_time_is_left_out_with_a_sentence(tmp_path: Path) -> None:
    scopes = scopes_of(tmp_path, rank_trace(0, [(10, 20)]), rank_trace(1, [(2_000, 2_010)]))
    matched = matched_collectives(scopes)
    assert not len(matched[0].found)
    assert matching_notes(scopes, matched)[0].startswith("2 unmatched communications are left out")
    near = scopes_of(tmp_path, rank_trace(0, [(10, 20)]), rank_trace(1, [(1_019, 1_030)]))
    assert len(matched_collectives(near)[0].found) == 1


def test_numbers_match_where_order_would_not(tmp_path: Path) -> None:
    group = {"Collective_name": "allreduce", "Process_Group_Name": "0", "Process_Group_Ranks": "[0, 1]"}
    scopes = scopes_of(
        tmp_path,
        rank_trace(0, [(10, 20), (30, 40), (50, 60)], Seq=[4, 5, 6], **group),
        rank_trace(1, [(11, 20), (31, 40)], Seq=[4, 5], **group),
    )
    assert members(scopes) == [([(0, 0), (1, 0)], MATCHED_BY[1]), ([(0, 1), (1, 1)], MATCHED_BY[1])]
    scopes = scopes_of(
        tmp_path,
        rank_trace(0, [(10, 20), (30, 40)], Comms_Id=[77, 88], Seq=[1, 2], **group),
        rank_trace(1, [(11, 20), (31, 40)], Comms_Id=[66, 77], Seq=[1, 2], **group),
    )
    assert members(scopes) == [([(0, 0), (1, 1)], MATCHED_BY[0])]


def test_groups_are_matched_apart_and_kernels_without_arguments_are_of_their_streams_group(tmp_path: Path) -> None:
    def pair(rank: int, ranks: str, start: float) -> TraceBuilder:
        named = {"Collective name": "allreduce", "Process Group Name": "1", "Process Group Ranks": ranks}
        trace = TraceBuilder(distributedInfo={"rank": rank, "world_size": 4})
        trace.kernel(KERNEL, start - 20, start - 10, 7, stream=9)
        trace.kernel(KERNEL, start, start + 10, 8, stream=9, **named)
        return trace

    traces = (pair(0, "[0, 1]", 30), pair(1, "[0, 1]", 31), pair(2, "[2, 3]", 32), pair(3, "[2, 3]", 33))
    scopes = scopes_of(tmp_path, *traces)
    assert [ranks for ranks, _ in members(scopes)] == [
        [(0, 0), (1, 0)], [(2, 0), (3, 0)], [(0, 1), (1, 1)], [(2, 1), (3, 1)],
    ]  # fmt: skip
    assert collectives(matched_collectives(scopes))["group"].tolist() == ["1 [0, 1]", "1 [2, 3]"] * 2
    assert [ranks for ranks, _ in members(scopes[:3])] == [[(0, 0), (1, 0)], [(0, 1), (1, 1)]]


def test_arguments_on_the_operator_do_as_well(tmp_path: Path) -> None:
    def with_operator(rank: int, starts: list[float], numbers: list[int]) -> TraceBuilder:
        trace = TraceBuilder(distributedInfo={"rank": rank, "world_size": 2})
        for at, (start, number) in enumerate(zip(starts, numbers, strict=True)):
            said = {"Collective name": "allreduce", "Process Group Ranks": "[0, 1]", "Seq": number}
            trace.op("record_param_comms", 10 * at, 10 * at + 9, **said)
            trace.op("nccl:all_reduce", 10 * at + 1, 10 * at + 8)
            trace.launch(KERNEL, (10 * at + 2, 10 * at + 3), (start, start + 9), at + 1)
        return trace

    scopes = scopes_of(tmp_path, with_operator(0, [100, 200], [5, 6]), with_operator(1, [100, 200], [4, 5]))
    assert members(scopes) == [([(0, 0), (1, 1)], MATCHED_BY[1])]


def test_a_clock_that_is_off_is_seen_by_numbers_and_taken_into_account(tmp_path: Path) -> None:
    group = {"Collective_name": "allreduce", "Process_Group_Name": "0", "Process_Group_Ranks": "[0, 1]"}
    later = [(5_000_011, 5_000_020), (5_000_035, 5_000_040), (5_000_053, 5_000_060)]
    scopes = scopes_of(
        tmp_path,
        rank_trace(0, [(10, 20), (30, 40), (50, 60)], Seq=[1, 2, 3], **group),
        rank_trace(1, later, Seq=[1, 2, 3], **group),
    )
    matched = matched_collectives(scopes)
    assert matched[0].found.offsets == {1: 5_000_000_000}
    assert collective_members(matched)["wait_ns"].tolist() == [1_000, 0, 5_000, 0, 3_000, 0]
    assert "rank 1: clock offset +5,000.000 ms" in " ".join(matching_notes(scopes, matched))


def test_a_collective_that_fits_no_clocks_is_named(tmp_path: Path) -> None:
    """Of twenty with equal numbers one lies a second away on one rank: no clocks explain that beside the others."""
    group = {"Collective_name": "allreduce", "Process_Group_Name": "0", "Process_Group_Ranks": "[0, 1]"}
    times = [(100 * at, 100 * at + 10) for at in range(20)]
    numbers = list(range(20))
    right = rank_trace(0, times, Seq=numbers, **group)
    forged = rank_trace(1, times, Seq=[*numbers[:18], 19, 18], **group)
    scopes = scopes_of(tmp_path, right, forged)
    matched = matched_collectives(scopes)
    named = [text for text in matching_notes(scopes, matched) if "contradicts the clocks" in text]
    assert 1 <= len(matched[0].found.rejected) == len(named) <= 2
    assert "rank 0 event" in named[0]
    assert "rank 1 event" in named[0]
    agreeing = matched_collectives(scopes_of(tmp_path, right, rank_trace(1, times, Seq=numbers, **group)))
    assert not agreeing[0].found.rejected


def test_sends_and_receives_are_no_collectives(tmp_path: Path) -> None:
    send = {"name": "ncclDevKernel_SendRecv(x)", "Process_Group_Ranks": "[0, 1]"}
    scopes = scopes_of(
        tmp_path,
        rank_trace(0, [(10, 20)], Collective_name="send", **send),
        rank_trace(1, [(11, 20)], Collective_name="recv", **send),
    )
    matched = matched_collectives(scopes)
    assert not len(matched[0].found)
    assert matching_notes(scopes, matched)[0].startswith("2 sends, receives and rooted collectives record no peer")


def test_one_rank_of_many_is_a_sentence(tmp_path: Path) -> None:
    scopes = scopes_of(tmp_path, rank_trace(3, [(10, 20)], world=8))
    for module in (collectives_module, stragglers_module):
        found = module.answer(scopes)
        assert not len(found.main)
        assert len(found.main.columns) > 5
        assert found.notes == ["only one rank of 8 is given; give the traces of all ranks (a folder) to compare them"]
        assert not module.figure(found).data
    alone = scopes_of(tmp_path, rank_trace(0, [(10, 20)], world=1))
    assert stragglers_module.answer(alone).notes == [
        "the job has a single rank; there is no other rank to compare it with"
    ]
    assert hta_potential_stragglers(alone, profiler_steps=None, num_candidates=2) == []
    silent = scopes_of(tmp_path, rank_trace(0, [(1, 2)], name="gemm"), rank_trace(1, [(1, 2)], name="gemm"))
    assert stragglers_module.answer(silent).notes == [
        "no communication found on any rank: neither communication kernels nor Gloo events"
    ]


def with_steps(rank: int, runs: Runs) -> TraceBuilder:
    trace = TraceBuilder(distributedInfo={"rank": rank, "world_size": 2})
    for at, (start, end) in enumerate(runs):
        trace.annotation(f"ProfilerStep#{at + 3}", 10 * at, 10 * at + 9)
        trace.launch(KERNEL, (10 * at + 1, 10 * at + 2), (start, end), at + 1)
    return trace


def test_steps_choose_collectives_by_their_launch_on_the_last_rank(tmp_path: Path) -> None:
    traces = with_steps(0, [(10, 30), (45, 50), (70, 80)]), with_steps(1, [(20, 30), (41, 50), (71, 80)])
    scopes = scopes_of(tmp_path, *traces)
    assert hta_profiler_steps(scopes) == [3, 4, 5]
    assert hta_profiler_steps(hta_scopes({scope.rank: scope.graph for scope in scopes})) == [3, 4]
    assert [hta_potential_stragglers(scopes, [number], num_candidates=2) for number in (3, 4, 5)] == [[1], [0], [1]]
    assert hta_potential_stragglers(scopes, [3, 4], num_candidates=2) == [1, 0]
    with pytest.raises(QueryError, match="the steps are: 3, 4, 5"):
        hta_potential_stragglers(scopes, [9], num_candidates=2)
    stepwise = [item for scope in scopes for item in per_step(scope.rank, scope.graph)]
    found = stragglers_module.answer(stepwise)
    worst = found.main.groupby("scope", sort=False)["rank"].first()
    assert worst.to_dict() == {"ProfilerStep#3": 1, "ProfilerStep#4": 0, "ProfilerStep#5": 1}
    drawn = stragglers_module.figure(found).data
    assert sum(sum(bar.y) for bar in drawn) == pytest.approx(found.main["wait_caused_ns"].sum() / 1e6)


def test_commands_read_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank, runs in enumerate(([(10, 31)], [(25, 30)])):
        rank_trace(rank, runs).write(tmp_path / f"rank{rank}.json")
    assert main(["collectives", str(tmp_path), "--json", str(tmp_path / "out.jsn")]) == 0
    document = json.loads((tmp_path / "out.jsn").read_text())
    assert document["schema"] == "hta-graph/collectives/1"
    assert [row["wait_ns"] for row in document["tables"]["members"]] == [15_000, 0]
    (tmp_path / "out.jsn").unlink()
    assert main(["stragglers", str(tmp_path)]) == 0
    assert "Clocks" in capsys.readouterr().out


@pytest.mark.shared
@pytest.mark.parametrize("name", ["dlrm_8xv100", "nanogpt_ddp_8xh100"])
def test_the_exact_recomputation_is_met(name: str) -> None:
    golden = json.loads((SHARED / "golden" / name / "independent_stragglers.json").read_text())
    scopes = [whole(rank, graph) for rank, graph in graphs(name).items()]
    matched = matched_collectives(scopes)
    assert len(matched[0].found) == golden["matched"]
    frame = stragglers(matched)
    caused = {str(row.rank): row.wait_caused_ns for row in frame.itertuples() if row.times_last}
    last = {str(row.rank): row.times_last for row in frame.itertuples() if row.times_last}
    assert caused == golden["wait_caused_ns_by_rank"]
    assert last == golden["times_last_by_rank"]
    kernels = collective_members(matched)
    assert (kernels["wait_ns"] + kernels["transfer_ns"] == kernels["duration_ns"]).all()
    assert kernels["wait_ns"].sum() == frame["wait_caused_ns"].sum()
    worst = {"dlrm_8xv100": [7, 5], "nanogpt_ddp_8xh100": [1, 0]}[name]
    assert hta_potential_stragglers(scopes, profiler_steps=None, num_candidates=2) == worst
    assert hta_potential_stragglers(hta_scopes(graphs(name)), profiler_steps=None, num_candidates=2) == worst


@pytest.mark.slow
@pytest.mark.shared
def test_every_collective_of_a_pair_is_matched_by_group() -> None:
    scopes = [whole(rank, graph) for rank, graph in graphs("megatron_tp2_v100").items()]
    frame = collectives(matched_collectives(scopes))
    assert len(frame) == 13
    assert set(frame["group"]) == {"13 [0, 1]"}
    assert set(frame["last_rank"]) == {0}


@pytest.mark.shared
@pytest.mark.parametrize(("name", "steps"), [("dlrm_8xv100", [10]), ("nanogpt_ddp_8xh100", [10, 11, 12])])
def test_steps_of_the_gpu_do_not_count(name: str, steps: list[int]) -> None:
    assert hta_profiler_steps(hta_scopes(graphs(name))) == steps


def test_a_median_and_95_percent_tell_of_single_waits(tmp_path: Path) -> None:
    early = [at * at % 29 for at in range(23)]
    first = [(at * 100 + 50 - wait, at * 100 + 90) for at, wait in enumerate(early)]
    second = [(at * 100 + 50 - wait // 2, at * 100 + 90) for at, wait in enumerate(early)]
    third = [(at * 100 + 50, at * 100 + 90) for at in range(23)]
    ranks = (rank_trace(rank, runs, world=3) for rank, runs in enumerate((first, second, third)))
    matched = matched_collectives(scopes_of(tmp_path, *ranks))
    kernels = collective_members(matched)
    for row in waits_by_rank(kernels).itertuples():
        waits = kernels.loc[kernels["rank"] == row.rank, "wait_ns"]
        assert (row.median_wait_ns, row.p95_wait_ns) == (percentile(waits, 50), percentile(waits, 95))
    for row in collectives(matched).itertuples():
        others = kernels[(kernels["number"] == row.number) & ~kernels["is_last"].astype(bool)]
        assert row.median_wait_ns == percentile(others["wait_ns"], 50)


def test_it_concludes_how_much_is_waiting_and_for_whom(tmp_path: Path) -> None:
    # Rank 1 starts 10 µs late, then 20 µs late; both transfers take 10 µs: 30 of 70 µs are waiting.
    args = {"In_msg_nelems": 4, "dtype": "Float"}
    first = rank_trace(0, [(10, 30), (40, 70)], Collective_name="allreduce", Process_Group_Name="0", Seq=[1, 2], **args)
    late = rank_trace(1, [(20, 30), (60, 70)], Collective_name="allreduce", Process_Group_Name="0", Seq=[1, 2], **args)
    found = collectives_module.answer(scopes_of(tmp_path, first, late))
    waits = "43% of the time in collectives is waiting for the last rank (30.0 µs of 70.0 µs, all ranks)"
    unknown = "no rank is named: most of the waiting has no recorded cause"
    assert found.conclusion == [unknown, f"{waits}; rank 1 causes 100% of it, arriving last in 2 of 2 collectives"]
    assert collectives_module.answer(scopes_of(tmp_path, first)).conclusion == []


@pytest.mark.parametrize(("late", "said"), [({1}, "rank 1 delays the others by "), ({0, 1}, "rank ")])
def test_its_first_sentence_is_the_verdict_of_the_job(tmp_path: Path, late: set[int], said: str) -> None:
    faults = [Fault(rank, step, "forward", 3_000_000) for rank in late for step in range(6)]
    job = simulate_job(ddp(JobShape(ranks=3, steps=6, layers=2, backend="gloo", faults=faults)))
    recorded = record_job(job, Recording(), tmp_path)
    both = [
        module.answer([whole(rank, hg.build_graph(hg.read_trace(path))) for rank, path in enumerate(recorded.paths)])
        for module in (collectives_module, stragglers_module)
    ]
    assert both[0].headline[0] == both[1].headline[0]
    assert both[0].headline[0].startswith(said)
    assert both[0].headline[0].count("rank ") == len(late) == both[0].headline[0].count("by 3.0")


def test_of_unequal_parts_the_busiest_rank_sets_the_bus_rate(tmp_path: Path) -> None:
    runs: Runs = [(10, 110)]
    group = {"Process_Group_Ranks": "[0, 1]", "Process_Group_Name": "0", "Group_size": 2, "dtype": "Float"}
    own = (
        {"In_split_size": "[1, 9]", "Out_split_size": "[1, 3]", "In_msg_nelems": 1_000, "Out_msg_nelems": 400},
        {"In_split_size": "[3, 7]", "Out_split_size": "[9, 7]", "In_msg_nelems": 1_000, "Out_msg_nelems": 1_600},
    )
    traces = [rank_trace(rank, runs, Collective_name="all_to_allv", Seq=1, **group, **own[rank]) for rank in (0, 1)]
    (row,) = collectives(matched_collectives(scopes_of(tmp_path, *traces))).to_dict("records")
    # Rank 0 sends 900 elements and receives 300, rank 1 the reverse; what stays on a rank crosses no link.
    assert row["bus_gbps"] == pytest.approx(900 * 4 / 100_000)
    assert row["imbalance"] == 1


def test_without_recorded_parts_the_formula_of_equal_ones_counts(tmp_path: Path) -> None:
    size = {"In_msg_nelems": 1_000, "Out_msg_nelems": 1_000, "dtype": "Float", "Group_size": 2, "Seq": 1}
    traces = [rank_trace(rank, [(10, 110)], Collective_name="all_to_all", **size) for rank in (0, 1)]
    (row,) = collectives(matched_collectives(scopes_of(tmp_path, *traces))).to_dict("records")
    assert row["bus_gbps"] == pytest.approx(1_000 * 4 / 100_000 / 2)
    assert pd.isna(row["imbalance"])


def test_no_more_than_all_of_the_time_in_collectives_is_waiting(tmp_path: Path) -> None:
    """On the CPU a row may begin long after its rank came: the time in a collective counts from then on."""
    traces = [GlooRank(rank, [0, 1]) for rank in range(2)]
    for trace, called in zip(traces, (10, 900), strict=True):
        trace.called("all_reduce", called, called + 2)
        trace.worked("all_reduce", 910, 920)
    found = collectives_module.answer(scopes_of(tmp_path, *traces))
    assert found.conclusion[-1].startswith("96% of the time in collectives is waiting")


def test_collectives_of_a_group_that_nothing_tells_are_counted(tmp_path: Path) -> None:
    traces = [GlooRank(rank, [0, 1, 2], [rank, 2] if rank < 2 else [0, 2]) for rank in range(2)]
    for trace in traces:
        trace.called("all_reduce", 10, 12)
        trace.worked("all_reduce", 13, 20)
    scopes = scopes_of(tmp_path, *traces)
    notes = matching_notes(scopes, matched_collectives(scopes))
    assert notes[0].startswith("2 collectives left out: the traces do not record the process group")
