"""A saved graph is loaded as it was; it is written whole or not at all, and damage of any kind is one clear error."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
import pytest

import analyses
import hta_graph as hg
from hta_graph.base.errors import OutputError, TraceError
from hta_graph.store.entry_file import HEAD_AT, MAGIC, NUMBER_BYTES, Entry, entry_pieces, read_entry
from hta_graph.store.record import check_indices
from hta_graph.store.save import NAME, SAVE_AGAIN
from tests.support.command_line import folder_contents, one_error, two_steps
from tests.support.deep_tests import deep
from tests.support.random_jobs import random_job
from tests.support.shared_traces import SHARED, shared_traces
from tests.support.trace_builder import TraceBuilder
from tests.support.two_rank_job import small_job

pytestmark = pytest.mark.sampled(2)

SAMPLE = Path(analyses.__file__).parent / "sample" / "sample_trace.json.gz"


def rich_graph() -> TraceBuilder:
    """Steps, synchronisation rows, flows, a collective, odd names and dropped rows."""
    trace = two_steps()
    collective: dict[str, Any] = {"Collective name": "allreduce"}
    trace.kernel("ncclDevKernel_AllReduce", 160, 170, 0, stream=8, **collective)
    trace.call("cudaStreamWaitEvent", 121, 122, 9)
    trace.sync_row("Stream Wait Event", 160, 160, 9, stream=8, wait_on_stream=7, record=4)
    trace.row(ph="s", cat="fwdbwd", name="fwdbwd", id=1, pid=100, tid=1, ts=10)
    trace.row(ph="f", cat="fwdbwd", name="fwdbwd", id=1, pid=100, tid=1, ts=110)
    trace.op("né\n\x00 \U0001f600", 180, 185, **{"Sequence number": 3})
    trace.op("", 0, 1)
    return trace


@pytest.fixture
def graph(tmp_path: Path) -> hg.DependencyGraph:
    return rich_graph().graph(tmp_path)


@pytest.fixture
def job(tmp_path: Path) -> hg.JobGraph:
    return random_job(tmp_path, 7)


def assert_equal(loaded: hg.DependencyGraph, saved: hg.DependencyGraph) -> None:
    pd.testing.assert_frame_equal(loaded.events, saved.events)
    pd.testing.assert_frame_equal(loaded.edges, saved.edges)
    assert loaded.diagnostics == saved.diagnostics
    assert list(loaded.diagnostics) == list(saved.diagnostics)
    assert (loaded.trace.rank, loaded.trace.world_size) == (saved.trace.rank, saved.trace.world_size)
    assert (loaded.trace.gpu_names, loaded.trace.path) == (saved.trace.gpu_names, saved.trace.path)
    assert loaded.trace.settings == saved.trace.settings
    assert loaded.trace.steps() == saved.trace.steps()
    assert loaded.edge_counts() == saved.edge_counts()
    pd.testing.assert_frame_equal(*(pd.DataFrame(vars(graph.wait_calls)) for graph in (loaded, saved)))


def test_a_loaded_graph_equals_the_saved_one(graph: hg.DependencyGraph, tmp_path: Path) -> None:
    hg.save_graph(graph, tmp_path / "g")
    assert (tmp_path / "g").is_file()
    assert graph.diagnostics["rows_dropped_no_name"] == 1
    assert_equal(hg.load_graph(tmp_path / "g"), graph)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("window", [None, hg.whole(), hg.step(2), hg.annotation("block"), hg.between(20_000, 165_000)])
def test_a_loaded_graph_has_the_same_critical_path(graph: hg.DependencyGraph, tmp_path: Path, window: Any) -> None:
    hg.save_graph(graph, tmp_path / "g")
    loaded, saved = (hg.critical_path(item, window) for item in (hg.load_graph(tmp_path / "g"), graph))
    pd.testing.assert_frame_equal(loaded.segments, saved.segments)
    assert loaded.by_bound_ns == saved.by_bound_ns
    loaded.self_check()


def test_an_empty_graph_can_be_saved(tmp_path: Path) -> None:
    graph = TraceBuilder().graph(tmp_path)
    hg.save_graph(graph, tmp_path / "g")
    assert_equal(hg.load_graph(tmp_path / "g"), graph)


def test_a_filtered_graph_can_be_saved(graph: hg.DependencyGraph, tmp_path: Path) -> None:
    part = graph.filter(kind=["kernel", "runtime"])
    hg.save_graph(part, tmp_path / "g")
    assert_equal(hg.load_graph(tmp_path / "g"), part)


def test_a_loaded_graph_can_be_saved_and_filtered(graph: hg.DependencyGraph, tmp_path: Path) -> None:
    hg.save_graph(graph, tmp_path / "g")
    loaded = hg.load_graph(tmp_path / "g")
    hg.save_graph(loaded, tmp_path / "g")
    assert_equal(hg.load_graph(tmp_path / "g"), graph)
    assert_equal(loaded.filter(kind="kernel"), graph.filter(kind="kernel"))


def test_a_surrogate_in_a_name_survives(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("a\ud800b", 0, 1)
    graph = trace.graph(tmp_path)
    hg.save_graph(graph, tmp_path / "g")
    assert hg.load_graph(tmp_path / "g").trace.names == graph.trace.names


@pytest.mark.shared
def test_real_graphs_survive(tmp_path: Path) -> None:
    path = next(path for path in shared_traces() if path.parent.name == "sync_alexnet_a100")
    graph = hg.build_graph(hg.read_trace(path))
    hg.save_graph(graph, tmp_path / "g")
    assert_equal(hg.load_graph(tmp_path / "g"), graph)


# -- jobs --------------------------------------------------------------------------------------------------------------


def assert_equal_jobs(loaded: hg.DependencyGraph, saved: hg.JobGraph) -> None:
    assert isinstance(loaded, hg.JobGraph)
    for name in ("events", "edges", "ranks", "clocks", "collectives", "rendezvous"):
        pd.testing.assert_frame_equal(getattr(loaded, name), getattr(saved, name))
    assert loaded.doubtful_edges.tolist() == saved.doubtful_edges.tolist()
    assert (loaded.diagnostics, loaded.lanes.labels) == (saved.diagnostics, saved.lanes.labels)
    assert loaded.lanes.is_communication.tolist() == saved.lanes.is_communication.tolist()
    for rank in saved.ranks["rank"]:
        pd.testing.assert_frame_equal(loaded.graph(rank).events, saved.graph(rank).events)
        pd.testing.assert_frame_equal(loaded.graph(rank).edges, saved.graph(rank).edges)
    paths = [hg.critical_path(graph, hg.whole()) for graph in (loaded, saved)]
    pd.testing.assert_frame_equal(paths[0].segments, paths[1].segments)
    assert paths[0].by_rank_ns == paths[1].by_rank_ns


def test_a_loaded_job_equals_the_saved_one(job: hg.JobGraph, tmp_path: Path) -> None:
    hg.save_graph(job, tmp_path / "g")
    assert_equal_jobs(hg.load_graph(tmp_path / "g"), job)
    hg.save_graph(hg.load_graph(tmp_path / "g"), tmp_path / "g")
    assert_equal_jobs(hg.load_graph(tmp_path / "g"), job)


@pytest.mark.slow
def test_a_job_of_gpus_and_a_part_of_it_survive(tmp_path: Path) -> None:
    job = hg.read_job(small_job(tmp_path))
    hg.save_graph(job, tmp_path / "g")
    assert_equal_jobs(hg.load_graph(tmp_path / "g"), job)
    part = job.filter(kind=["kernel", "runtime"])
    assert isinstance(part, hg.JobGraph)
    hg.save_graph(part, tmp_path / "g")
    assert_equal_jobs(hg.load_graph(tmp_path / "g"), part)


@pytest.mark.shared
@pytest.mark.parametrize(
    "folder", ["gloo/ddp_4r_slowfwd_1_skew", deep("gloo/pipeline_2r_slowfwd_1"), deep("traces/dlrm_8xv100")]
)
@pytest.mark.slow
def test_recorded_jobs_survive(tmp_path: Path, folder: str) -> None:
    job = hg.read_job(SHARED / folder)
    hg.save_graph(job, tmp_path / "g")
    assert_equal_jobs(hg.load_graph(tmp_path / "g"), job)


# -- written whole or not at all ---------------------------------------------------------------------------------------


def test_an_earlier_graph_is_replaced_whole(graph: hg.DependencyGraph, tmp_path: Path) -> None:
    hg.save_graph(graph, tmp_path / "g")
    hg.save_graph(graph.filter(kind="kernel"), tmp_path / "g")
    assert len(hg.load_graph(tmp_path / "g").events) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g", "trace.json"]


def test_a_loaded_graph_stays_as_it_is_when_its_file_is_replaced(graph: hg.DependencyGraph, tmp_path: Path) -> None:
    hg.save_graph(graph, tmp_path / "g")
    loaded = hg.load_graph(tmp_path / "g")
    hg.save_graph(graph.filter(kind="kernel"), tmp_path / "g")
    assert_equal(loaded, graph)


def test_a_failure_leaves_the_earlier_graph_and_nothing_else(
    graph: hg.DependencyGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hg.save_graph(graph, tmp_path / "g")
    before = folder_contents(tmp_path)

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OutputError, match="No space left on device"):
        hg.save_graph(graph.filter(kind="kernel"), tmp_path / "g")
    monkeypatch.undo()
    assert folder_contents(tmp_path) == before


@pytest.mark.parametrize(
    ("target", "message"), [("trace.json", "is an input"), ("absent/g", "does not exist"), ("", "is a folder")]
)
def test_a_place_where_it_cannot_be_is_refused(
    graph: hg.DependencyGraph, tmp_path: Path, target: str, message: str
) -> None:
    before = folder_contents(tmp_path)
    with pytest.raises(OutputError, match=message):
        hg.save_graph(graph, tmp_path / target)
    assert folder_contents(tmp_path) == before


# -- files that are no graphs ------------------------------------------------------------------------------------------


def refused(path: Path) -> str:
    """Return the one line by which a file is refused."""
    with pytest.raises(TraceError) as caught:
        hg.load_graph(path)
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith(f"{path}: ")
    return line


def test_each_damaged_byte_and_each_length_is_one_clear_error(graph: hg.DependencyGraph, tmp_path: Path) -> None:
    path = tmp_path / "g"
    hg.save_graph(graph, path)
    sound, rng = path.read_bytes(), random.Random(1)
    for at in rng.sample([at for at, byte in enumerate(sound) if byte], 100):
        path.write_bytes(sound[:at] + bytes([sound[at] ^ 1 << rng.randrange(8)]) + sound[at + 1 :])
        assert refused(path).endswith(SAVE_AGAIN)
    for size in (0, 1, *rng.sample(range(len(sound)), 20)):
        path.write_bytes(sound[:size])
        assert refused(path).endswith(SAVE_AGAIN)
    path.write_bytes(sound + b"\0")
    assert refused(path).endswith(SAVE_AGAIN)


def rewrite(path: Path, change: Callable[[dict[str, Any], list[Any]], object]) -> None:
    """Change the record and the columns of a saved graph, whose checksums then fit again."""
    entry = read_entry(NAME, path.read_bytes())
    record, columns = json.loads(json.dumps(entry.record)), list(entry.columns)
    change(record, columns)
    path.write_bytes(b"".join(map(bytes, entry_pieces(NAME, Entry(record, tuple(columns))))))


def place_of(record: dict[str, Any], name: str) -> int:
    """Return which column of the first table is called so."""
    return list(record["graph"]["trace"]["tables"]["events"]["columns"]).index(name)


def with_edges(record: dict[str, Any], columns: list[Any], name: str, values: Any) -> None:
    """Set one column of the edges, which stand behind the columns of the trace."""

    def count(table: dict[str, Any]) -> int:
        return len(table["columns"]) + sum(map(count, table["tables"].values()))

    at = count(record["graph"]["trace"]) + record["graph"]["edges"]["columns"].index(name)
    columns[at] = np.full_like(columns[at], values) if np.isscalar(values) else values(columns[at])


FORGED: dict[str, Callable[[dict[str, Any], list[Any]], object]] = {
    "no graph": lambda record, _: record.pop("graph"),
    "a graph of text": lambda record, _: record.update(graph="x"),
    "no format": lambda record, _: record.pop("format"),
    "another format": lambda record, _: record.update(format=99),
    "no names": lambda record, _: record["graph"]["trace"]["values"].pop("names"),
    "names a number": lambda record, _: record["graph"]["trace"]["values"].update(names=7),
    "names of numbers": lambda record, _: record["graph"]["trace"]["values"].update(names=[7]),
    "too few names": lambda record, _: record["graph"]["trace"]["values"].update(names=["x"]),
    "half a character": lambda record, _: record["graph"]["trace"]["values"]["names"].append("\ud800"),
    "a path of numbers": lambda record, _: record["graph"]["trace"]["values"].update(path=7),
    "a rank of text": lambda record, _: record["graph"]["trace"]["values"].update(rank="x"),
    "counts of text": lambda record, _: record["graph"]["trace"]["values"].update(diagnostics={"x": "y"}),
    "clocks that are none": lambda record, _: record["graph"]["trace"]["values"].update(gpu_clock=[{"device": 0}]),
    "an unknown field": lambda record, _: record["graph"]["edges"]["columns"].remove("kind"),
    "a column too few": lambda _, columns: columns.pop(),
    "a column of other numbers": lambda _, columns: columns.__setitem__(0, columns[0].astype(np.int64)),
    "a shorter column": lambda _, columns: columns.__setitem__(0, columns[0][:-1]),
    "an unknown lane": lambda record, columns: columns[place_of(record, "lane")].__iadd__(99),
    "a column of lanes without signs": lambda record, columns: columns.__setitem__(
        place_of(record, "collective") + 2, np.uint64(columns[place_of(record, "collective") + 2])
    ),
    "a count of building is missing": lambda record, _: record["graph"]["notes"].pop("edges_clamped"),
    "a count of reading is missing": lambda record, _: record["graph"]["trace"]["values"]["diagnostics"].pop(
        "launches_by_external_id"
    ),
    "edges from nowhere": lambda record, columns: with_edges(record, columns, "source", -5),
    "edges beyond the end": lambda record, columns: with_edges(record, columns, "target", 10_000),
    "an unknown kind of edges": lambda record, columns: with_edges(record, columns, "kind", 99),
    "an unknown rule": lambda record, columns: with_edges(record, columns, "rule", 99),
    "edges of a kind that cannot be there": lambda record, columns: with_edges(
        record, columns, "kind", int(hg.EdgeKind.LAUNCH)
    ),
    "edges that close a cycle": lambda record, columns: with_edges(
        record, columns, "target", lambda column: np.roll(column, 1)
    ),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", FORGED)
def test_a_file_of_another_record_is_one_clear_error(graph: hg.DependencyGraph, tmp_path: Path, case: str) -> None:
    hg.save_graph(graph, tmp_path / "g")

    def change(record: dict[str, Any], columns: list[Any]) -> None:
        columns[:] = [column.copy() for column in columns]
        FORGED[case](record, columns)

    rewrite(tmp_path / "g", change)
    assert refused(tmp_path / "g").endswith(SAVE_AGAIN)


FORGED_JOBS: dict[str, Callable[[dict[str, Any]], object]] = {
    "a rank is missing": lambda job: job["alone"].pop(),
    "ranks of text": lambda job: job.update(ranks="x"),
    "a rank twice": lambda job: job["ranks"].__setitem__(1, job["ranks"][0]),
    "no members": lambda job: job.pop("members"),
    "a rank that is no graph": lambda job: job["alone"].__setitem__(0, {}),
    "a count of a rank is missing": lambda job: job["alone"][1]["notes"].pop("edges_clamped"),
}


@pytest.mark.parametrize("case", FORGED_JOBS)
def test_a_job_of_another_record_is_one_clear_error(job: hg.JobGraph, tmp_path: Path, case: str) -> None:
    hg.save_graph(job, tmp_path / "g")
    rewrite(tmp_path / "g", lambda record, _: FORGED_JOBS[case](record["job"]))
    assert refused(tmp_path / "g").endswith(SAVE_AGAIN)


@pytest.mark.parametrize("kind", ["i1", "<i4", ">i4"])
def test_numbers_below_nothing_are_refused_in_every_type(kind: str) -> None:
    check_indices((), [(np.array([0, 100], kind), 0, 300)])
    for wrong in (-128, -1):
        with pytest.raises(ValueError, match="refers to nothing"):
            check_indices((), [(np.array([0, wrong], kind), 0, 300)])


@pytest.mark.parametrize("name", ["arrival", "wait", "transfer"])
@pytest.mark.parametrize("change", [-1, 1 << 63])
def test_waits_and_transfers_of_a_job_are_those_of_its_rows(
    job: hg.JobGraph, tmp_path: Path, name: str, change: int
) -> None:
    hg.save_graph(job, tmp_path / "g")

    def forge(_: dict[str, Any], columns: list[Any]) -> None:
        (at,) = [at for at, column in enumerate(columns) if np.array_equal(column, getattr(job.members, name))]
        columns[at] = (columns[at].view(np.uint64) + np.uint64(change % (1 << 64))).view(np.int64)

    rewrite(tmp_path / "g", forge)
    assert refused(tmp_path / "g").endswith(SAVE_AGAIN)


def test_the_graph_of_a_job_is_none_of_a_rank(job: hg.JobGraph, tmp_path: Path) -> None:
    """Its rows are in another order: saved as that of a rank it could not be loaded."""
    hg.save_graph(job, tmp_path / "g")
    rewrite(tmp_path / "g", lambda record, _: record.pop("job"))
    assert "columns of nothing" in refused(tmp_path / "g")


def test_a_head_that_nests_deeply_is_one_clear_error(tmp_path: Path) -> None:
    head = b"[" * 100_000
    numbers = len(head).to_bytes(NUMBER_BYTES, "little") + crc32(head).to_bytes(NUMBER_BYTES, "little")
    (tmp_path / "g").write_bytes(MAGIC + numbers + head)
    assert len(MAGIC + numbers) == HEAD_AT
    assert refused(tmp_path / "g").endswith(SAVE_AGAIN)


def test_what_is_no_saved_graph_is_one_clear_error(graph: hg.DependencyGraph, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert refused(tmp_path / "folder").endswith("is no file")
    assert refused(tmp_path / "absent").endswith("is missing")
    os.mkfifo(tmp_path / "pipe")
    assert refused(tmp_path / "pipe").endswith("is no file")
    assert "is not a saved graph" in refused(tmp_path / "trace.json")
    (tmp_path / "g").write_bytes(b"".join(map(bytes, entry_pieces("0" * 40, Entry({})))))
    assert "it is another entry" in refused(tmp_path / "g")


def test_a_folder_of_parquet_tables_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "graph.json").write_text("{}")
    assert refused(tmp_path / "g") == (
        f"{tmp_path / 'g'}: is a folder of Parquet tables, as earlier versions saved graphs; "
        "build the graph from its trace and save it again"
    )


def test_a_saved_graph_is_no_trace(
    capsys: pytest.CaptureFixture[str], graph: hg.DependencyGraph, tmp_path: Path
) -> None:
    hg.save_graph(graph, tmp_path / "g")
    one_error(capsys, tmp_path, "info", tmp_path / "g")


def test_a_field_of_a_later_version_has_its_default(graph: hg.DependencyGraph, tmp_path: Path) -> None:
    """What is added to a trace later is absent in the files of today."""
    hg.save_graph(graph, tmp_path / "g")
    rewrite(tmp_path / "g", lambda record, _: record["graph"]["trace"]["values"].pop("is_excerpt"))
    assert_equal(hg.load_graph(tmp_path / "g"), graph)


def test_no_secret_of_an_address_is_saved_and_the_path_of_a_file_is_never_opened(
    graph: hg.DependencyGraph, tmp_path: Path
) -> None:
    hg.save_graph(graph, tmp_path / "g")
    rewrite(tmp_path / "g", lambda record, _: record["graph"]["trace"]["values"].update(path="s3://bucket/x.json"))
    loaded = hg.load_graph(tmp_path / "g")
    assert str(loaded.path) == "s3://bucket/x.json"
    with pytest.raises(OSError, match="only named in a saved graph"):
        loaded.path.open("rb")
