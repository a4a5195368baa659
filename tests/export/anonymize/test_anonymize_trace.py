"""A stripped trace has the graph of its original, and the job of stripped ranks that of the ranks."""

from __future__ import annotations

import gzip
import json
import shutil
import tempfile
from pathlib import Path

import pytest

import hta_graph as hg
from hta_graph.base.errors import HtaGraphError, OutputError, TraceError
from hta_graph.export.anonymize.anonymize_trace import TraceAnonymizer
from hta_graph.export.anonymize.keep_options import KEEP_OPTIONS
from tests.support import samples
from tests.support.compare_graphs import MARKS, differences
from tests.support.deep_tests import deep, for_all
from tests.support.foreign_traces import old_profilers_array
from tests.support.random_jobs import random_ranks
from tests.support.random_rows import RANDOM_ROWS, RandomRows
from tests.support.shared_traces import SHARED, shared_traces
from tests.support.trace_builder import TraceBuilder
from tests.support.two_rank_job import small_job
from tests.trace_fuzz import as_bytes, make_case

pytestmark = pytest.mark.sampled(2)

QUICK = {"sync_alexnet_a100", "sync_simple_add", "cpu_only_gloo"}
"""Small recorded traces that the quick run looks at."""
SAMPLES = sorted(samples.SAMPLES.rglob("*.json.gz"))


def stripped(path: Path, folder: Path, **options: object) -> Path:
    """Strip one file."""
    target = folder / "stripped.json"
    TraceAnonymizer(**options).write(hg.read_trace(path), target)  # type: ignore[arg-type]
    return target


def check_same(path: Path, folder: Path, **options: object) -> None:
    one, other = (hg.build_graph(hg.read_trace(file)) for file in (path, stripped(path, folder, **options)))
    assert list(differences(one, other)) == []


@pytest.mark.sampled(6)
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_a_bundled_trace_keeps_its_graph(path: Path, tmp_path: Path) -> None:
    check_same(path, tmp_path)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("keep", [*KEEP_OPTIONS, *map(tuple, [list(KEEP_OPTIONS)])])
def test_whatever_is_kept_the_graph_is_the_same(keep: object, tmp_path: Path) -> None:
    path = small_job(tmp_path)[0]
    check_same(path, tmp_path, keep=(keep,) if isinstance(keep, str) else keep)


@for_all(RANDOM_ROWS, examples=200)
def test_a_soup_of_rows_keeps_its_graph(soup: RandomRows) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "trace.json"
        path.write_bytes(as_bytes(soup.document(base_ns=1_700_000_000_000_000_000)))
        check_same(path, Path(name))


@pytest.mark.parametrize("number", range(4))
def test_an_array_of_the_profiler_before_kineto_keeps_its_graph(number: int, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(old_profilers_array(number))
    check_same(tmp_path / "a.json", tmp_path)
    assert len(hg.build_graph(hg.read_trace(tmp_path / "stripped.json")).edges_of(hg.EdgeKind.LAUNCH)) == 12


@pytest.mark.sampled(12)
@pytest.mark.parametrize("number", [*range(10), 170, 635, *(deep(at) for at in range(10, 60))])
def test_a_damaged_trace_that_is_read_keeps_its_graph(number: int, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(make_case(5, number).raw)
    try:
        hg.read_trace(path)
    except HtaGraphError:
        return
    check_same(path, tmp_path)


@pytest.mark.sampled(2)
@pytest.mark.shared
@pytest.mark.parametrize(
    "path",
    [path if path.parent.name in QUICK else deep(path) for path in shared_traces()],
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_a_recorded_trace_keeps_its_graph(path: Path, tmp_path: Path) -> None:
    check_same(path, tmp_path)


def test_the_comparison_sees_what_differs(tmp_path: Path) -> None:
    path = small_job(tmp_path)[0]
    graph, other = hg.build_graph(hg.read_trace(path)), hg.build_graph(hg.read_trace(small_job(tmp_path)[1]))
    assert list(differences(graph, graph)) == []
    assert "critical path: segments" in list(differences(graph, other))
    assert len(MARKS) > 10


def strip_all(paths: list[Path], folder: Path) -> list[Path]:
    """Strip the ranks of a job together."""
    found = TraceAnonymizer()
    targets = [folder / f"rank_{at}.json" for at in range(len(paths))]
    for path, target in zip(paths, targets, strict=True):
        found.write(hg.read_trace(path), target)
    return targets


WHAT_IS_SAID = ["number", "rank", "event_index", "name", "wait_ns", "transfer_ns", "is_last", "is_message"]


def check_same_job(paths: list[Path], folder: Path) -> None:
    one, other = hg.read_job(paths), hg.read_job(strip_all(paths, folder))
    mine, yours = one.collectives, other.collectives
    assert len(mine)
    assert mine[WHAT_IS_SAID].equals(yours[WHAT_IS_SAID])
    assert (mine.arrival_ns - yours.arrival_ns).nunique() == 1
    assert one.clocks.drop(columns=["host"]).equals(other.clocks.drop(columns=["host"]))
    assert hg.critical_path(one).by_bound().equals(hg.critical_path(other).by_bound())
    kept = ["kind", "evidence", "source_rank", "source_index", "target_rank", "target_index", "lag_ns"]
    assert one.edges[kept].equals(other.edges[kept])


def test_ranks_stripped_together_meet_as_before(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    check_same_job(small_job(tmp_path), tmp_path / "out")


@pytest.mark.parametrize("seed", [0, 1, *map(deep, range(2, 6))])
def test_ranks_of_gloo_meet_as_before(seed: int, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    paths = [rank.write(tmp_path / f"rank{at}.json") for at, rank in enumerate(random_ranks(seed))]
    check_same_job(paths, tmp_path / "out")


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize(
    "job",
    [
        "gloo/pipeline_2r_base_1",
        deep("gloo/groups_4r_slowa2a_1_skew"),
        deep("gloo/fsdp_2r_slowfwd_1"),
        deep("traces/megatron_tp2_v100"),
    ],
)
def test_recorded_ranks_meet_as_before(job: str, tmp_path: Path) -> None:
    """Dumps of the flight recorder, which are not stripped, stand beside some: both sides are read without."""
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    found = sorted(path for path in (SHARED / job).glob("*rank*.json.gz") if "host" not in path.name)
    paths = [Path(shutil.copy(path, tmp_path / "in")) for path in found]
    check_same_job(paths, tmp_path / "out")


def test_the_same_bytes_for_the_same_trace(tmp_path: Path) -> None:
    path = small_job(tmp_path)[0]
    assert stripped(path, tmp_path).read_bytes() == stripped(path, tmp_path).read_bytes()


def test_stripping_again_changes_nothing_but_what_is_numbered(tmp_path: Path) -> None:
    once = stripped(SAMPLES[0], tmp_path).rename(tmp_path / "once.json")
    assert stripped(once, tmp_path).read_bytes() == once.read_bytes()


def test_times_begin_at_one_origin_and_the_date_is_gone(tmp_path: Path) -> None:
    trace = TraceBuilder(baseTimeNanoseconds=1_700_000_000_000_000_000)
    trace.op("aten::mm", 5, 9)
    document = json.loads(stripped(trace.write(tmp_path / "a.json"), tmp_path).read_bytes())
    assert "baseTimeNanoseconds" not in document
    assert [(row["ts"], row["dur"]) for row in document["traceEvents"]] == [(86_400_000_000, 4)]


def test_times_stay_on_request(tmp_path: Path) -> None:
    trace = TraceBuilder(baseTimeNanoseconds=1_700_000_000_000_000_000)
    trace.op("aten::mm", 5, 9)
    again = hg.read_trace(stripped(trace.write(tmp_path / "a.json"), tmp_path, keep_times=True))
    assert again.events.start.tolist() == [1_700_000_000_000_005_000]


def test_a_file_is_packed_as_its_name_says(tmp_path: Path) -> None:
    trace = hg.read_trace(SAMPLES[0])
    texts = set()
    for name in ("a.json", "a.json.gz", "a.json.zst"):
        TraceAnonymizer().write(trace, tmp_path / name)
        texts.add(len(hg.read_trace(tmp_path / name).events))
    assert texts == {len(trace.events)}
    assert gzip.decompress((tmp_path / "a.json.gz").read_bytes()) == (tmp_path / "a.json").read_bytes()


def test_the_trace_itself_is_never_written_over(tmp_path: Path) -> None:
    path = small_job(tmp_path)[0]
    with pytest.raises(OutputError, match="is an input"):
        TraceAnonymizer().write(hg.read_trace(path), path)


def test_a_file_that_has_changed_meanwhile_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    path = small_job(tmp_path)[0]
    trace = hg.read_trace(path)
    path.write_text('{"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 1}]}')
    with pytest.raises(TraceError, match="has changed"):
        TraceAnonymizer().write(trace, tmp_path / "out.json")
    assert not (tmp_path / "out.json").exists()


def test_a_salvaged_trace_is_written_whole(tmp_path: Path) -> None:
    path = small_job(tmp_path)[0]
    path.write_bytes(path.read_bytes()[:-300])
    trace = hg.read_trace(path, salvage=True)
    TraceAnonymizer().write(trace, tmp_path / "out.json")
    assert len(hg.read_trace(tmp_path / "out.json").events) == len(trace.events)


def test_begin_and_end_rows_and_times_as_text_keep_their_place(tmp_path: Path) -> None:
    rows = [
        {"ph": "B", "name": "outer", "cat": "user_annotation", "pid": "p", "tid": 1, "ts": "1.5"},
        {"ph": "X", "name": "aten::mm", "cat": "cpu_op", "pid": "p", "tid": "1", "ts": "2", "dur": "1"},
        {"ph": "E", "pid": "p", "tid": 1, "ts": "4.25"},
        {"ph": "X", "name": "odd", "cat": "cpu_op", "pid": "p", "tid": 1, "ts": float("nan"), "dur": 1},
    ]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"traceEvents": rows}))
    check_same(path, tmp_path)
