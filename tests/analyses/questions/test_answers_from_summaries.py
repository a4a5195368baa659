"""Answers about many ranks: the worst and what is typical, hosts, process groups, and when everybody waits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import hta_graph as hg
from analyses.declare.answer import Answer, answer_lines
from analyses.declare.scope import Scope, whole
from analyses.display.dataframe_text import worst_and_typical
from analyses.display.text_layout import TextTable
from analyses.questions import collectives as collectives_module
from analyses.questions import stragglers as stragglers_module
from analyses.questions.stragglers import ROWS, _causes_on_screen, _headline, waiting_over_time
from analyses.report import sections as report_sections
from analyses.report.sections import job_section
from analyses.source.matched_collectives import matched_collectives, matching_notes
from tests.support.job_verdicts import FIRM, nobody_named
from tests.support.trace_builder import TraceBuilder

KERNEL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
MANY = 40
Group = tuple[str, str, list[int]]


def rank_scope(folder: Path, rank: int, starts: list[float], groups: list[Group], **header: Any) -> Scope:
    """Write a rank that takes part in one collective of each group, which all end 10 µs after they could begin."""
    listed = [{"pg_name": name, "pg_desc": kind, "ranks": ranks} for name, kind, ranks in groups]
    world = {"rank": rank, "world_size": MANY, "pg_config": listed}
    trace = TraceBuilder(distributedInfo=world, **header)
    for at, (start, (name, _, ranks)) in enumerate(zip(starts, groups, strict=True)):
        trace.call("cudaLaunchKernel", at, at + 0.5, at + 1)
        said = {"Process Group Name": name, "Process Group Ranks": str(ranks), "Collective name": "allreduce"}
        end = 110 + 100 * at
        trace.kernel(KERNEL, start, end, at + 1, stream=9 + at, **said, **{"Group size": len(ranks)})
    graph = hg.build_graph(hg.read_trace(trace.write(folder / f"rank{rank}.json")))
    return whole(rank, graph)


def four_ranks(folder: Path, hosts: list[str | None]) -> list[Scope]:
    """Make ranks that meet in pairs, and then all of them; rank 3 is the last to come to both."""
    scopes = []
    for rank, host in enumerate(hosts):
        pair = [0, 1] if rank < 2 else [2, 3]
        groups = [(str(1 + rank // 2), "tp", pair), ("0", "default_pg", [0, 1, 2, 3])]
        said = {} if host is None else {"host_name": host}
        starts = [(90.0, 95.0, 20.0, 100.0)[rank], (150.0, 160.0, 170.0, 200.0)[rank]]
        scopes.append(rank_scope(folder, rank, starts, groups, **said))
    return scopes


def many_scopes(folder: Path, hosts: int = 0) -> list[Scope]:
    """Make ranks that all wait for rank 7, those of higher number longer; on some hosts in turn if there are any."""
    group: Group = ("0", "default_pg", list(range(MANY)))
    said = [{"host_name": f"node{rank % hosts}"} if hosts else {} for rank in range(MANY)]
    starts = [100.0 if rank == 7 else 50.0 - rank for rank in range(MANY)]
    return [rank_scope(folder, rank, [starts[rank]], [group], **said[rank]) for rank in range(MANY)]


def test_hosts_add_up_their_ranks(tmp_path: Path) -> None:
    scopes = four_ranks(tmp_path, ["a", "a", "b", "b"])
    tables, found = stragglers_module.answer(scopes).tables, matched_collectives(scopes)[0].found
    hosts, on_b = tables["hosts"], tables["stragglers"]["rank"] > 1
    assert hosts[["host", "scope", "ranks", "worst_rank", "times_last"]].to_numpy().tolist() == [
        ["b", "whole trace", 2, 3, 2],
        ["a", "whole trace", 2, 1, 1],
    ]
    for name in ("wait_caused_ns", "wait_caused_share"):
        assert hosts[name].tolist() == [tables["stragglers"][name][rows].sum() for rows in (on_b, ~on_b)]
    charged = tables["causes"].set_index("rank")["caused_ns"]
    assert hosts["caused_ns"].tolist() == [charged[charged.index > 1].sum(), charged[charged.index < 2].sum()]
    assert hosts["wait_ns"].tolist() == [found.wait[found.rank > 1].sum(), found.wait[found.rank < 2].sum()]
    assert hosts["wait_ns"].sum() == hosts["wait_caused_ns"].sum() == found.wait.sum() > 0


@pytest.mark.sampled(3)
@pytest.mark.parametrize("hosts", [["a", "a", "a", "a"], ["a", "a", "b", None], [None] * 4])
def test_one_host_or_one_that_is_not_told_makes_no_table(tmp_path: Path, hosts: list[str | None]) -> None:
    answer = stragglers_module.answer(four_ranks(tmp_path, hosts))
    assert len(answer.tables["hosts"]) == 0
    assert "host" not in answer.conclusion[0]


def test_groups_and_what_they_are_for(tmp_path: Path) -> None:
    tables = collectives_module.answer(four_ranks(tmp_path, [None] * 4)).tables
    assert tables["groups"].drop(columns="scope").to_numpy().tolist() == [
        ["0 [0, 1, 2, 3]", "default_pg", 4, 1, 120_000, 50_000, 10_000, 3, 120_000],
        ["2 [2, 3]", "tp", 2, 1, 80_000, 80_000, 10_000, 3, 80_000],
        ["1 [0, 1]", "tp", 2, 1, 5_000, 5_000, 15_000, 1, 5_000],
    ]
    assert tables["group_kinds"].drop(columns="scope").to_numpy().tolist() == [
        ["default_pg", 4, 1, 1, 120_000, 50_000, 10_000, "0 [0, 1, 2, 3]", 3, 120_000],
        ["tp", 2, 2, 2, 85_000, 80_000, 25_000, "2 [2, 3]", 3, 80_000],
    ]


def causes_of(caused: dict[int, int]) -> pd.DataFrame:
    """Make a table of causes."""
    return pd.DataFrame({
        "rank": pd.array(list(caused), "Int64"), "name": "mm", "call_path": "", "bound_by": "gpu_compute_bound",
        "caused_ns": list(caused.values()), "propagated_ns": 0,
    })  # fmt: skip


def test_the_first_sentence_names_the_host_where_that_is_sure() -> None:
    hosts = {0: "a", 1: "a", 2: "b", 3: "b"}
    causes = causes_of({2: 9, 0: 1})
    ((of_host, _), _), ((of_rank, _), _) = (_headline(causes, FIRM, "", known) for known in (hosts, {}))
    assert of_host.startswith("rank 2 on host b delays the others by ")
    assert of_rank.startswith("rank 2 delays the others by ")
    (both, most), notes = _headline(causes_of({2: 4, 3: 3, 0: 3}), nobody_named(share_of_waiting=0.4), "", hosts)
    assert both.startswith("no rank alone delays the others: ")
    assert most == "Rank 2 causes the most, 40% of the waiting with a known cause."
    assert both.endswith("; 70% is caused on host b")
    assert str(notes[0]).startswith("Largest single cause: mm (GPU compute) on rank 2, 40% of the waiting.")
    assert "host" not in _headline(causes_of({2: 2, 3: 3, 0: 3, 1: 2}), nobody_named(), "", hosts)[0][0]


@pytest.mark.slow
def test_a_terminal_lists_the_worst_of_many_ranks_and_files_all(tmp_path: Path) -> None:
    answer = stragglers_module.answer(many_scopes(tmp_path))
    assert len(answer.tables["stragglers"]) == MANY
    lines = answer_lines(answer)
    (table,) = (line for line in lines if isinstance(line, TextTable) and "times last" in line.header)
    assert [row[0] for row in table.rows] == ["7", *map(str, [0, 1, 2, 3, 4, 5, 6, 8, 9]), "median", "p95"]
    assert f"  … {MANY - 10} more ranks with --all" in lines


def test_few_ranks_are_all_listed() -> None:
    frame = pd.DataFrame({"rank": range(32), "scope": "whole trace", "wait_caused_ns": range(32)})
    lines = answer_lines(Answer({"stragglers": frame}, worst_by={"stragglers": "wait_caused_ns"}))
    assert [len(line.rows) for line in lines if isinstance(line, TextTable)] == [32]


def test_each_step_has_its_worst_ranks() -> None:
    frame = pd.DataFrame(
        {"rank": [*range(40)] * 2, "scope": ["a"] * 40 + ["b"] * 40, "ns": [*range(40), *range(80, 40, -1)]}
    )
    shown, hidden = worst_and_typical(frame, "ns")
    assert shown["rank"].tolist() == [39, 38, 37, 36, 35, "median", "p95", 0, 1, 2, 3, 4, "median", "p95"]
    assert hidden == 30


@pytest.mark.slow
def test_of_many_clocks_those_furthest_off_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scopes = many_scopes(tmp_path)
    matched = matched_collectives(scopes)
    offsets = {rank: rank * 1000 - 500 for rank in range(1, MANY)}
    monkeypatch.setattr(type(matched[0].found), "offsets", property(lambda _: offsets))
    notes = [text for text in matching_notes(scopes, matched) if "clock" in text]
    assert len(notes) == 11
    assert notes[0].startswith("rank 30: clock offset +0.029")
    assert notes[-1] == "29 more ranks: clock offsets of at most 0.029 ms; the job's `clocks` lists all"


@pytest.mark.slow
def test_waiting_over_time_adds_up(tmp_path: Path) -> None:
    matched = matched_collectives(many_scopes(tmp_path))
    waiting = waiting_over_time(matched)
    assert list(waiting.index) == [f"rank {rank}" for rank in range(MANY)]
    assert waiting.shape[1] == 200
    assert waiting.to_numpy().max() == 1
    width = waiting.columns[1] - waiting.columns[0]
    assert waiting.to_numpy().sum() * width * 1e6 == pytest.approx(matched[0].found.wait.sum(), rel=0.01)
    assert waiting.loc["rank 7"].sum() == 0


@pytest.mark.slow
def test_very_many_ranks_share_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matched = matched_collectives(many_scopes(tmp_path))
    monkeypatch.setattr("analyses.questions.stragglers.ROWS", 12)
    waiting = waiting_over_time(matched)
    assert list(waiting.index)[:2] + list(waiting.index)[-1:] == ["ranks 0 to 3", "ranks 4 to 7", "ranks 36 to 39"]
    assert np.all(waiting.to_numpy() <= 1)
    assert waiting.loc["ranks 4 to 7"].max() == 0.75
    assert ROWS == 512


@pytest.mark.slow
def test_the_figure_of_many_ranks_is_a_map_and_bars(tmp_path: Path) -> None:
    answer = stragglers_module.answer(many_scopes(tmp_path))
    made = stragglers_module.figure(answer)
    assert made.layout.title.text == "When each of 40 ranks waits for others"
    assert [trace.type for trace in made.data][:2] == ["heatmap", "bar"]
    assert np.array(made.data[0].z).shape == (MANY, 200)
    few = stragglers_module.figure(stragglers_module.answer(four_ranks(tmp_path, [None] * 4)))
    assert {trace.type for trace in few.data} == {"bar"}


def test_waiting_of_nobody_is_an_empty_map() -> None:
    assert waiting_over_time([]).empty


@pytest.mark.slow
@pytest.mark.parametrize(("hosts", "tables"), [(0, 3), (4, 4), (12, 4)])
def test_a_report_lists_the_ranks_and_hosts_with_most_of_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hosts: int, tables: int
) -> None:
    job = hg.build_job([scope.graph for scope in many_scopes(tmp_path, hosts)])
    path = hg.critical_path(job, hg.whole())
    section = job_section(path)
    assert len(section.tables) == tables
    ranks = section.tables[1]
    on_path = {rank: ns for rank, ns in path.by_rank_ns.items() if ns}
    assert dict(zip(ranks.frame["rank"], ranks.frame["time_ns"], strict=True)) == on_path
    assert ranks.frame["rank"].iloc[0] == 7
    assert len(ranks.bars) == len(on_path) == 2
    assert not ranks.note
    assert ("host" in ranks.frame) == bool(hosts)
    if hosts:
        by_host = section.tables[2]
        assert by_host.frame.iloc[0][["host", "ranks"]].tolist() == [
            f"node{7 % hosts}",
            len(range(7 % hosts, MANY, hosts)),
        ]
        assert by_host.frame["time_ns"].sum() == path.length_ns
    monkeypatch.setattr(report_sections, "MOST_RANKS", 1)
    most = job_section(path).tables[1]
    assert most.frame["rank"].tolist() == [7]
    assert most.note == "1 further rank, with less of the path, is not listed."


def test_causes_of_one_name_are_told_apart_and_what_repeats_is_left_out() -> None:
    causes = pd.concat([causes_of({2: 9}), causes_of({2: 1})], ignore_index=True)
    causes = causes.assign(call_path=["step / forward", "step / backward"], scope="all", direct_ns=causes["caused_ns"])
    shown = _causes_on_screen(causes)
    assert list(shown["name"]) == ["mm in forward", "mm in backward"]
    assert not {"direct_ns", "propagated_ns"} & set(shown)
    assert "direct_ns" in _causes_on_screen(causes.assign(propagated_ns=1))
