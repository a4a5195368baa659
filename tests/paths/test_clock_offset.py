"""A GPU clock that is not the host's: found, said, taken off the times, and never seen where it is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hta_graph as hg
from analyses.display.console import text_of
from analyses.judgement.verdict import verdict
from analyses.questions.critical_path import PathText, path_lines
from analyses.questions.info import info_document, info_lines
from hta_graph.paths.time_accounting import explained_lags
from tests.simulator import Dialect, random_program, simulate, write
from tests.simulator.program import Gap, Launch, Op, Program, Stream, SyncStream
from tests.support.deep_tests import deep
from tests.support.shared_traces import SHARED, graph_of_file, shared_traces
from tests.support.trace_builder import TraceBuilder
from tests.unexplained_reason_accuracy import graph_of

S = Stream(7)
BOUND_BY_LAUNCHES = Program.of(
    *(Op("aten::add", (Gap(20_000), Launch(S, 4_000))),) * 40, Launch(S, 40_000), SyncStream(S)
)


def behind(graph: hg.DependencyGraph) -> int:
    return graph.diagnostics["gpu_clock_behind_ns"]


def offset_by(ns: int, program: Program = BOUND_BY_LAUNCHES) -> hg.DependencyGraph:
    return graph_of(write(simulate(program), Dialect(clock_error_ns=-ns)).document)


def offset(graph: hg.DependencyGraph) -> int:
    return graph.gpu_clock[0]["pieces"][0]["offset_ns"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("ns", [24_000, 100_000, 600_000, -24_000, -100_000, -600_000])
def test_an_offset_is_found_within_the_latencies(ns: int) -> None:
    assert offset(offset_by(ns)) == pytest.approx(-ns, abs=8_000)
    assert behind(offset_by(ns)) == max(-offset(offset_by(ns)), 0)


def test_clocks_that_agree_are_left_alone() -> None:
    assert offset(offset_by(0)) == 0 == behind(offset_by(0))


def test_it_is_said_and_taken_off_the_times() -> None:
    graph, true = offset_by(24_000), offset_by(0)
    path = hg.critical_path(graph, hg.whole())
    for lines in (info_lines(info_document(graph)), path_lines(PathText.of(path)), verdict({0: path})):
        assert "behind the host clock" in text_of(lines)
    assert "behind" not in text_of(path_lines(PathText.of(hg.critical_path(true, hg.whole()))))
    moved = graph.event_table.start - graph.trace.file_times.start
    assert set(moved[graph.is_gpu]) == {-offset(graph)}
    assert not moved[~graph.is_gpu].any()


def test_of_a_job_the_largest_offset_is_told(tmp_path: Path) -> None:
    for rank, ns in enumerate((24_000, 100_000, 0)):
        document = write(simulate(BOUND_BY_LAUNCHES), Dialect(clock_error_ns=-ns)).document
        (tmp_path / f"rank{rank}.json").write_text(json.dumps({**document, "distributedInfo": {"rank": rank}}))
    assert behind(hg.read_job(tmp_path)) == behind(offset_by(100_000))


def test_lags_are_explained_as_if_clocks_agreed() -> None:
    graph, true = (explained_lags(offset_by(ns))[0] for ns in (100_000, 0))
    assert graph.tolist() == true.tolist()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", [*range(5), *map(deep, range(5, 12))])
def test_no_alarm_on_programs_of_one_clock_and_none_above_the_truth(seed: int) -> None:
    program = random_program(seed, "pytorch", 300)
    assert behind(offset_by(0, program)) == 0
    assert behind(offset_by(80_000, program)) <= 80_000


@pytest.mark.sampled(6)
@pytest.mark.shared
@pytest.mark.parametrize("file", shared_traces(), ids=lambda path: path.parent.name)
def test_no_alarm_on_real_recordings(file: Path) -> None:
    assert behind(graph_of_file(file)) == 0


@pytest.mark.shared
@pytest.mark.parametrize(("rank", "found"), [(0, 0), (1, 36_500)])
def test_the_one_real_offset_is_found(rank: int, found: int) -> None:
    file = SHARED / f"traces_more/torchrec_2rank_v100/rank{rank}.json.gz"
    if not file.exists():
        pytest.skip("the recording is not there")
    assert behind(graph_of_file(file)) == found


def test_where_no_clock_fits_a_wait_without_a_source_is_a_clock_fault(tmp_path: Path) -> None:
    """Of the copies every other one ends 20 µs after its call returned; the last call waits on one of two streams."""
    trace = TraceBuilder()
    for at in range(40):
        begin = 1_000 * at
        trace.call("cudaMemcpyAsync", begin, begin + 200, at + 1)
        late = 20 * (at % 2)
        trace.copy("Memcpy DtoH (Device -> Pageable)", begin + 3 + late, begin + 198 + late, at + 1)
    for number, stream in ((100, 8), (101, 9)):
        trace.launch("gemm", (50_000, 50_005), (50_010, 52_060), number, stream=stream)
    trace.call("cudaEventSynchronize", 50_020, 52_000, 103)
    trace.op("aten::add", 52_100, 52_300)
    graph = trace.graph(tmp_path)
    (clock,) = graph.gpu_clock
    assert (clock["how"], clock["noise_ns"] > 0) == ("noisy", True)
    path = hg.critical_path(graph, hg.whole())
    assert path.by_reason_ns["clock_fault"] > 1_900_000
