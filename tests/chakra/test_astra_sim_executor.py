"""ASTRA-sim itself runs what is written: every node is issued and called back, and the end is the measured one."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest

import hta_graph as hg
from hta_graph.base.errors import TraceError
from hta_graph.chakra.astra_sim_executor import DELAY
from hta_graph.chakra.et_files import read_folder
from hta_graph.chakra.scale import scale_workload
from tests.astra_sweep.recorded_sets import device_traces, sets_in
from tests.astra_sweep.simulated_set import CASES, MeasuredSet, convert_somehow, measured
from tests.support.astra_sim import BACK_ENDS, Settings, needs_astra_sim, programs_in, run_astra_sim, with_second_rank
from tests.support.deep_tests import deep
from tests.support.make_samples import FOLDER, SAMPLE
from tests.support.rank_builder import RankBuilder, converted
from tests.support.shared_traces import SHARED, is_large_trace

pytestmark = pytest.mark.shared

PROFILES = ("full", "gpu")
REPLAY, NETWORK = CASES[0], next(case for case in CASES if case.label == "net ×1")
LEFT_TO_SWEEPS = (
    "sam_eager_a100", "ddp_v100", "nanogpt_ab_hook", "oldest_format_array", "ns_resolution_v100", "nanogpt_ddp_8xh100",
    "owlv2_pystack_h100", "rccl_ddp_mi300x",
)  # fmt: skip
"""Sets that take up to a minute each and are like others: ``tests.astra_sweep`` runs them."""
FOUND = sorted({files[0].parent for root in ("traces", "traces_more") for _, files in sets_in([SHARED / root])})
SETS = [folder for folder in FOUND if folder.name not in LEFT_TO_SWEEPS]
ROOM_OF_A_LOG = 200_000
"""So many nodes fit ASTRA-sim's log, even with long names."""
ROUNDING_NS = 5_000
"""In recordings of less than a millisecond whole microseconds show."""


@pytest.fixture(autouse=True)
def _astra_sim() -> None:
    needs_astra_sim()


def ranks_of(path: Path) -> dict[int, hg.DependencyGraph]:
    """Read a trace or a folder of them."""
    files = device_traces(path) if path.is_dir() else [path]
    return {graph.trace.rank or 0: graph for graph in hg.read_graphs(files, jobs=1)}


def name_of(path: Path) -> str:
    return path.name if path.is_file() else path.relative_to(path.parents[1]).as_posix()


def check_runs(found: MeasuredSet) -> None:
    """Let each node run once on each rank in every case, and recorded communication end when it did."""
    assert found.refusal == ""
    assert max(own.largest_difference_ns for own in found.written.values()) <= 1_000
    for (_, label), run in found.runs.items():
        assert run.words == ""
        if run.is_lost:
            assert sum(found.nodes.values()) > ROOM_OF_A_LOG
        else:
            assert [rank.is_complete for rank in run.ranks] == [True] * len(found.nodes)
        assert run.end_ns is not None
        if label == REPLAY.label:
            # A simulated GPU runs one kernel at a time, and a simulated CPU one operator.
            more = max(sum(own.side_by_side_ns) for own in found.written.values())
            last = max(rank.measured_ns or 0 for rank in found.simulated)
            assert 0.99 * last - ROUNDING_NS <= run.end_ns <= 1.01 * last + ROUNDING_NS + more


SAMPLES = (SAMPLE, FOLDER / "slower_trace.json.gz", FOLDER / "four_ranks")


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("sample", [SAMPLES[0], *map(deep, SAMPLES[1:])], ids=lambda path: path.name)
def test_samples_run(tmp_path: Path, sample: Path, profile: str) -> None:
    check_runs(measured("sample", ranks_of(sample), profile, tmp_path, [REPLAY, NETWORK]))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    "folder", [path if path.name == "sync_event_cpu" else deep(path) for path in SETS], ids=name_of
)
def test_shared_sets_run(tmp_path: Path, folder: Path, profile: str) -> None:
    cases = [REPLAY] if is_large_trace(folder) else [REPLAY, NETWORK]
    found = measured(folder.name, ranks_of(folder), profile, tmp_path, cases)
    if "holds no GPU activity" in found.refusal and profile == "gpu":
        return
    check_runs(found)


# -- what the documentation says of ASTRA-sim -------------------------------------------------------------------------

NAMES = [
    "gemm<float, 4>, node->type=5",
    "two\nlines",
    "a, node->name=delay",
    "sys[0] finished, 5 cycles",
    "ä\r\n",
    DELAY,
]


def small_job(tmp_path: Path, ranks: int = 2, names: Sequence[str] = ("gemm",)) -> Path:
    """Write a job of a few kernels and an all-reduce on each rank."""
    traces = [RankBuilder(rank, ranks) for rank in range(ranks)]
    for trace in traces:
        trace.op("aten::mm", 0, 10)
        for at, name in enumerate(names):
            trace.launch(name, (2 + at, 2.5 + at), (20 + 20 * at, 40 + 20 * at), at + 1)
        trace.collective(8, (300, 330), 90, nelems=1_000_000)
        trace.launch("gemm", (400, 402), (402, 442), 91)
    converted(tmp_path, *traces)
    return tmp_path / "work"


def test_names_of_any_kind_come_back(tmp_path: Path) -> None:
    work = small_job(tmp_path, names=NAMES)
    found = run_astra_sim(work, tmp_path / "log").statistics(programs_in(work))
    assert found.notes == []
    assert all(rank.is_complete for rank in found.ranks)
    # The workload knows a kernel that is called as delays are; by the log alone it is taken for one.
    assert {rank.gpu_ns for rank in found.ranks} == {20_000 * len(NAMES) + 40_000}


def test_a_log_that_is_there_is_continued(tmp_path: Path) -> None:
    work = small_job(tmp_path)
    first = run_astra_sim(work, tmp_path / "log")
    run_astra_sim(work, tmp_path / "again")
    log = tmp_path / "log" / "log.log"
    log.write_text(log.read_text() + (tmp_path / "again" / "log.log").read_text())
    with pytest.raises(TraceError, match="more than one run"):
        first.statistics()


@pytest.mark.parametrize("factor", [Fraction(1, 2), deep(Fraction(2))])
def test_a_scaled_gpu_takes_so_many_times_as_long(tmp_path: Path, factor: Fraction) -> None:
    work = small_job(tmp_path)
    scale_workload(read_folder(work), tmp_path / "scaled", factor, Fraction(1))
    before, after = (
        run_astra_sim(folder, tmp_path / f"log_{folder.name}").statistics(programs_in(folder)).ranks
        for folder in (work, tmp_path / "scaled")
    )
    assert [rank.gpu_ns for rank in after] == [(rank.gpu_ns or 0) * factor for rank in before]
    assert [rank.communication_ns for rank in after] == [rank.communication_ns for rank in before]


@pytest.mark.slow
def test_its_own_option_scales_nothing(tmp_path: Path) -> None:
    work = small_job(tmp_path)
    runs = [
        run_astra_sim(work, tmp_path / "log", more=more).statistics(programs_in(work)).ranks
        for more in ((), ("--compute-scale=2",), ("--comm-scale=2",))
    ]
    assert runs[0] == runs[1] == runs[2]


ABORTS = ("aware", "Ring", 2)


@pytest.mark.parametrize(
    ("back_end", "topology", "npus"),
    [
        case if case == ABORTS else deep(*case)
        for case in product(BACK_ENDS, ("Ring", "FullyConnected", "Switch"), (2, 4, 8))
    ],
)
def test_topologies_take_so_many_ranks(tmp_path: Path, back_end: str, topology: str, npus: int) -> None:
    work = small_job(tmp_path, npus)
    run = run_astra_sim(work, tmp_path / "log", Settings(back_end, topology=topology))
    if (back_end, topology, npus) == ABORTS:
        assert "Assertion `!connected(id)' failed" in run.words
        return
    assert all(rank.is_complete for rank in run.statistics(programs_in(work)).ranks)


@pytest.mark.slow
def test_ranks_wait_for_each_other_unless_they_replay(tmp_path: Path) -> None:
    ranks = ranks_of(FOLDER / "four_ranks")
    work = tmp_path / "work"
    convert_somehow(ranks, "full", work)
    ends = {
        replay: [rank.end_ns or 0 for rank in run_astra_sim(work, tmp_path / "log", setting).statistics().ranks]
        for replay, setting in ((True, Settings(replay_only=True)), (False, Settings()))
    }
    assert max(ends[False]) < 1.05 * min(ends[False])
    assert len(ends[True]) == len(ranks)


@pytest.mark.parametrize("name", [deep("sam_eager_a100")])
def test_a_large_log_says_that_it_lost_its_beginning(tmp_path: Path, name: str) -> None:
    work = tmp_path / "work"
    convert_somehow(ranks_of(SHARED / "traces" / name), "full", work)
    with_second_rank(work)
    found = run_astra_sim(work, tmp_path / "log").statistics(programs_in(work))
    assert found.is_lost
    assert all(rank.end_ns and rank.gpu_ns is None for rank in found.ranks)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", [deep("nanogpt_ddp_8xh100"), deep("dlrm_8xv100")])
def test_statistics_are_those_of_overlap(tmp_path: Path, name: str, profile: str) -> None:
    found = measured(name, ranks_of(SHARED / "traces" / name), profile, tmp_path, [REPLAY])
    for rank in found.runs["unaware", REPLAY.label].ranks:
        own = found.recorded[rank.rank]
        assert rank.gpu_ns == pytest.approx(own.gpu_ns, rel=0.01)
        assert rank.communication_ns == pytest.approx(own.communication_ns, rel=0.05)
        assert rank.exposed_communication_ns == pytest.approx(own.exposed_ns, rel=0.05)
        # A collective may begin up to a delay that is not written (10 µs) apart from the kernels beside it.
        assert rank.overlap_ns == pytest.approx(own.overlap_ns, rel=0.05, abs=100 * 10_000)
