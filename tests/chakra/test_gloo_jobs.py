"""Recorded jobs that talk by Gloo become workloads that last as long, and that ASTRA-sim runs to the end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import hta_graph as hg
from hta_graph.base.errors import TraceError
from hta_graph.chakra.convert import Conversion, convert
from hta_graph.chakra.convert_options import ConvertOptions
from hta_graph.chakra.et_files import read_folder
from hta_graph.chakra.rank_workload import RankInput
from tests.support.astra_sim import BACK_ENDS, Settings, needs_astra_sim, programs_in, run_astra_sim
from tests.support.deep_tests import deep
from tests.support.gloo_builder import MAIN, GlooRank
from tests.support.rank_builder import nodes
from tests.support.shared_traces import SHARED

OWN = Path(__file__).parents[1] / "multi_rank" / "recorded"
QUICK = ("groups_2r_slowfwd_1",)
SETS = [
    path.name if path.name in QUICK else deep(path.name) for path in sorted((SHARED / "gloo").glob("*_*r_*"))
]  # fmt: skip
AT_ONCE = 0.015
"""Two collectives at once, of which each is last on another rank, take a simulated rank that does one after the other
so much longer; elsewhere 0.3%."""


def converted_job(name: str, target: Path, unknown: str = "as-recorded", where: Path = SHARED / "gloo") -> Conversion:
    """Convert all ranks of a recorded job."""
    graphs = hg.read_graphs(sorted((where / name).glob("rank*.json.gz")), jobs=1)
    return convert([RankInput(graph.rank or 0, graph) for graph in graphs], target, ConvertOptions(unknown=unknown))


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_a_job_on_cpus_lasts_as_long_as_it_did(tmp_path: Path, name: str) -> None:
    conversion = converted_job(name, tmp_path / "work")
    most = AT_ONCE if name.startswith("ddp_4r") else 0.003
    for rank in conversion.ranks:
        assert abs(rank.simulated_ns - rank.measured_ns) <= most * rank.measured_ns
    assert not any("show as CPU time" in note for note in conversion.notes)


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_astra_sim_runs_it_to_the_end(tmp_path: Path, name: str) -> None:
    needs_astra_sim()
    converted_job(name, tmp_path / "work")
    for back_end in BACK_ENDS:
        run = run_astra_sim(tmp_path / "work", tmp_path / "log", Settings(back_end))
        assert all(rank.is_complete for rank in run.statistics(programs_in(tmp_path / "work")).ranks)


def test_a_rank_of_nothing_but_a_collective_without_a_partner_is_refused(tmp_path: Path) -> None:
    """Its row has no call and lies on the thread of all other work, which counts as a worker of Gloo then."""
    ranks = GlooRank(0, [0, 1]), GlooRank(1, [0, 1])
    ranks[0].op("aten::mul", 0, 10, tid=MAIN)
    ranks[1].worked("barrier", 0, 10, tid=MAIN)
    paths = [rank.write(tmp_path / f"rank{at}.json") for at, rank in enumerate(ranks)]
    inputs = [RankInput(graph.rank or 0, graph) for graph in hg.read_graphs(paths, jobs=1)]
    with pytest.raises(TraceError, match=r"rank1\.json: holds nothing to simulate but communication without a partner"):
        convert(inputs, tmp_path / "work", ConvertOptions(unknown="as-compute"))


def groups_met(name: str) -> dict[int, Counter[tuple[int, ...]]]:
    """Return for each rank how many collectives it had with which ranks, as the job has them."""
    members = hg.read_job(sorted((OWN / name).glob("rank*.json.gz"))).collectives
    members = members[members["number"].notna() & ~members["is_message"]]
    met = members.groupby("number")["rank"].agg(lambda ranks: tuple(sorted(ranks)))
    found = members.assign(met=members["number"].map(met)).groupby("rank")["met"]
    return {rank: Counter(own.tolist()) for rank, own in found}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pairs_once", "levels_since"])
def test_collectives_carry_the_groups_that_only_all_ranks_together_show(tmp_path: Path, name: str) -> None:
    """Two kinds of pairs; the group of all ranks is listed first in each file, and never called."""
    conversion = converted_job(name, tmp_path / "work", "error", OWN)
    assert not any("unknown size or group" in note for note in conversion.notes)
    folder = read_folder(tmp_path / "work")
    assert folder.groups is not None
    met = groups_met(name)
    pairs = {(0, 1), (2, 3), (0, 2), (1, 3)}
    assert set().union(*met.values()) == pairs
    for rank, own in met.items():
        listed = [
            folder.groups[node.values["pg_name"]] for node in nodes(folder, rank) if node.type == "COMM_COLL_NODE"
        ]
        assert Counter(tuple(ranks) for ranks in listed if len(ranks) > 1) == own
        assert {ranks for ranks in own if rank in ranks} == {ranks for ranks in pairs if rank in ranks}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pairs_once", "levels_since"])
def test_astra_sim_runs_collectives_of_pairs_to_the_end(tmp_path: Path, name: str) -> None:
    needs_astra_sim()
    converted_job(name, tmp_path / "work", "error", OWN)
    for back_end in BACK_ENDS:
        run = run_astra_sim(tmp_path / "work", tmp_path / "log", Settings(back_end))
        assert all(rank.is_complete for rank in run.statistics(programs_in(tmp_path / "work")).ranks)


@pytest.mark.shared
@pytest.mark.parametrize("name", [deep("groups_4r_base_1"), deep("fsdp_4r_base_1")])
def test_without_the_wish_the_unknown_is_time_of_threads(tmp_path: Path, name: str) -> None:
    conversion = converted_job(name, tmp_path / "work", "error")
    for rank in conversion.ranks:
        assert abs(rank.simulated_ns - rank.measured_ns) <= 0.01 * rank.measured_ns
