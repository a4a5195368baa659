"""Ranks merged into one file are the ranks that were merged, or one line; ids are never joined across them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hta_graph as hg
from hta_graph.base.errors import TraceError
from tests.simulator.ranks import (
    Clock,
    JobShape,
    Recording,
    ddp,
    experts,
    pipeline,
    record_job,
    simulate_job,
    tensor_parallel,
)
from tests.support.cli_parsers import parsers_by_command, positionals_of
from tests.support.command_line import command_json, one_error, run_command
from tests.support.deep_tests import deep
from tests.support.merged_ranks import (
    TOLD_APART,
    Document,
    joined,
    joined_by_time,
    labelled,
    offset,
    on_device_zero,
    read_document,
    with_own_process,
    write_merged,
)
from tests.support.overlay import overlay_bytes
from tests.support.shared_traces import SHARED
from tests.support.two_rank_job import small_job

PROGRAMS = {"ddp": ddp, "experts": experts, "pipeline": pipeline, "tensor_parallel": tensor_parallel}


def simulated(
    folder: Path,
    program: str,
    *,
    ranks: int = 4,
    seed: int = 0,
    backend: Any = "nccl",
    one_device: bool = False,
    clocks: dict[int, Clock] | None = None,
) -> list[Document]:
    """Simulate a job, and return what each rank recorded; each rank has a process of its own."""
    shape = JobShape(ranks=ranks, steps=2, layers=2, seed=seed, backend=backend)
    folder.mkdir(exist_ok=True)
    recorded = record_job(simulate_job(PROGRAMS[program](shape)), Recording(ids=True, clocks=clocks or {}), folder)
    found = []
    for rank, path in enumerate(recorded.paths):
        document = with_own_process(read_document(path), rank)
        document = on_device_zero(document) if one_device else document
        path.write_bytes(json.dumps(document).encode())
        found.append(document)
    return found


def columns_of(trace: hg.Trace) -> list[Any]:
    """Return what of a rank's events a merger leaves as it was, in an order that does not depend on labels."""
    events = trace.events
    names = np.array(trace.names)[events.name]
    order = np.lexsort((names, events.correlation, events.end, events.start, events.kind))
    columns = (events.kind, events.start, events.end, events.correlation, events.external_id, names)
    return [column[order].tolist() for column in columns] + [len(trace.flows), len(trace.lanes.labels)]


def same_ranks(folder: Path, merged: Path) -> list[int]:
    """Compare the ranks of a file with those of the files of which it was made; return them."""
    apart, together = list(hg.read_traces(folder)), list(hg.read_traces(merged, say=lambda _: None))
    assert [trace.rank for trace in together] == [trace.rank for trace in apart]
    for one, other in zip(apart, together, strict=True):
        assert columns_of(one) == columns_of(other), one.rank
    return [trace.rank or 0 for trace in together]


@pytest.mark.sampled(23)
@pytest.mark.parametrize("merge", TOLD_APART, ids=lambda merge: merge.__name__)
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("seed", [0, deep(1), deep(2)])
@pytest.mark.parametrize("one_device", [False, True])
def test_merged_ranks_are_the_ranks_that_were_merged(
    tmp_path: Path, merge: Any, program: str, seed: int, one_device: bool
) -> None:
    documents = simulated(tmp_path / "ranks", program, seed=seed, one_device=one_device)
    merged = write_merged(documents, merge, tmp_path / "merged.json")
    assert same_ranks(tmp_path / "ranks", merged) == [0, 1, 2, 3]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("merge", TOLD_APART, ids=lambda merge: merge.__name__)
def test_merged_ranks_of_cpus_alone(tmp_path: Path, merge: Any) -> None:
    documents = simulated(tmp_path / "ranks", "ddp", backend="gloo")
    assert same_ranks(tmp_path / "ranks", write_merged(documents, merge, tmp_path / "merged.json")) == [0, 1, 2, 3]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("program", PROGRAMS)
def test_what_cannot_be_told_apart_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, program: str) -> None:
    """Rows sorted by time, and GPUs of one number: nothing says which rank's a kernel is."""
    documents = simulated(tmp_path / "ranks", program, one_device=True)
    merged = write_merged(documents, joined_by_time, tmp_path / "merged.json")
    line = one_error(capsys, tmp_path, "critical-path", merged)
    assert "holds recordings of 4 processes (4000, 4037, 4074, 4111) that cannot be distinguished on the GPU" in line
    assert line.endswith("; pass the files that were merged\n")


def test_processes_of_one_number_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """In containers each rank's process has the same id."""
    documents = [with_own_process(document, 0, pid=71) for document in simulated(tmp_path / "ranks", "ddp")]
    merged = write_merged(documents, joined, tmp_path / "merged.json")
    assert "holds several recordings of one process id" in one_error(capsys, tmp_path, "info", merged)


def test_one_recording_of_several_processes_is_one(tmp_path: Path) -> None:
    """Threads of the driver may stand under another process: they have calls, and no operators."""
    (document,) = simulated(tmp_path / "ranks", "ddp", ranks=1)
    calls = [row for row in document["traceEvents"] if row.get("cat") == "cuda_runtime"]
    for row in calls[::3]:
        row["pid"] = 17
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps(document))
    assert len(list(hg.read_traces(path))) == 1


def test_two_processes_without_an_id_in_common_are_not_divided(tmp_path: Path) -> None:
    row = {"ph": "X", "cat": "cpu_op", "name": "a", "tid": 1, "dur": 1}
    rows = [row | {"pid": 1 + n % 2, "ts": n, "args": {"External id": n}} for n in range(1, 9)]
    path = tmp_path / "t.json"
    path.write_text(json.dumps(rows))
    assert len(hg.read_trace(path).events) == 8


def with_idle_python_thread(document: Document, cat: str = "python_function") -> Document:
    """Add the frames of a thread that only waits, at process 0 as PyTorch does."""
    first = min(float(row["ts"]) for row in document["traceEvents"] if row.get("ph") == "X")
    row = {"ph": "X", "cat": cat, "pid": 0, "tid": 0, "dur": 450.0}
    names = ("threading.py(1032): _bootstrap", "tqdm/_monitor.py(60): run", "threading.py(655): wait")
    frames = [row | {"name": name, "ts": first + n, "args": {"Python id": n}} for n, name in enumerate(names)]
    return document | {"traceEvents": document["traceEvents"] + frames}


@pytest.mark.parametrize("cat", ["python_function", "cpu_op"])
def test_an_idle_thread_at_the_process_of_a_gpu_is_no_rank(tmp_path: Path, cat: str) -> None:
    """The rows of the GPU repeat the ids of the calls that launched them; those of the thread do not."""
    (document,) = simulated(tmp_path / "ranks", "ddp", ranks=1)
    document = with_idle_python_thread(on_device_zero(document), cat)
    path = write_merged([document], joined, tmp_path / "rank0.json")
    assert len(list(hg.read_traces(path))) == 1


@pytest.mark.sampled(3)
@pytest.mark.parametrize("merge", TOLD_APART, ids=lambda merge: merge.__name__)
def test_merged_ranks_with_idle_threads_are_several(tmp_path: Path, merge: Any) -> None:
    folder = tmp_path / "ranks"
    documents = [with_idle_python_thread(document) for document in simulated(folder, "ddp")]
    merged = write_merged(documents, merge, tmp_path / "merged.json")
    assert [trace.rank for trace in hg.read_traces(merged, say=lambda _: None)] == [0, 1, 2, 3]


@pytest.mark.shared
@pytest.mark.parametrize(
    ("file", "ranks"),
    [
        ("one_rank/background_thread_pid0.json", 1),
        ("one_rank/background_thread_pid5.json", 1),
        ("reported/merged_two_ranks.json.gz", 2),
    ],
)
def test_shared_files_of_one_and_of_two_ranks(file: str, ranks: int) -> None:
    assert len(list(hg.read_traces(SHARED / file, say=lambda _: None))) == ranks


# -- what commands say ------------------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("merge", [labelled, offset])
def test_a_merged_file_is_a_job(capsys: pytest.CaptureFixture[str], tmp_path: Path, merge: Any) -> None:
    (tmp_path / "ranks").mkdir()
    documents = [with_own_process(read_document(path), rank) for rank, path in enumerate(small_job(tmp_path / "ranks"))]
    merged = write_merged(documents, merge, tmp_path / "merged.json")
    status, _, err = run_command(capsys, "critical-path", merged)
    assert (status, err) == (0, f"{merged}: holds the recordings of 2 ranks; read as ranks 0, 1\n")
    for command in ("critical-path", "stragglers", "collectives"):
        apart = command_json(capsys, command, tmp_path / "ranks")
        together = command_json(capsys, command, merged)
        for found in (apart, together):
            drop_places(found)
        assert together == apart, command


ASKED: dict[str, tuple[str, ...]] = {
    "chakra convert": ("--output", "work"),
    "counters": ("--output", "."),
    "graph": ("--json", "graph.json"),
    "kernel-sequences": ("--operator", "aten::mm"),
    "render": ("--path", "--output", "path.dot"),
    "report": ("--output", "report.html"),
    "strip": ("--output", "shared"),
    "timeline": ("--output", "timeline.html"),
    "what-if": ("--remove", "class:gpu_compute_bound"),
}
OF_ONE_RANK = {"counters": ("--output", "counters.json"), "strip": ("--output", "shared.json")}
ON_TRACES = sorted(
    " ".join(words)
    for words in parsers_by_command()
    if {"inputs", "control"} & {action.dest for action in positionals_of(words)}
)


@pytest.mark.sampled(23)
@pytest.mark.parametrize("command", ON_TRACES)
def test_each_command_answers_of_all_merged_ranks_or_of_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """No command refuses a merged file."""
    (tmp_path / "ranks").mkdir()
    documents = [with_own_process(read_document(path), rank) for rank, path in enumerate(small_job(tmp_path / "ranks"))]
    merged = write_merged(documents, labelled, tmp_path / "merged.json")
    monkeypatch.chdir(tmp_path)
    words = command.split()
    other = [merged] if command == "diff" else []
    status, _, err = run_command(capsys, *words, merged, *other, *ASKED.get(command, ()))
    assert (status, err.count("holds the recordings of 2 ranks; read as ranks 0, 1")) == (0, 1), err
    if command == "chakra convert":  # a workload is of all ranks
        return
    for rank in (0, 1):
        options = [*OF_ONE_RANK.get(command, ASKED.get(command, ())), "--rank", rank]
        status, _, err = run_command(capsys, *words, merged, *other, *options)
        assert (status, "recordings" in err) == (0, False), err


def drop_places(found: Any) -> None:
    """Drop what names a file, a place in it or a process."""
    items = found.values() if isinstance(found, dict) else found
    if isinstance(found, dict):
        for key in [key for key in found if key in PLACES or key.endswith("_index")]:
            del found[key]
    for item in items:
        if isinstance(item, (dict, list)):
            drop_places(item)


PLACES = ("file", "path", "source", "lane", "thread", "files")


def test_one_rank_of_a_merged_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    documents = simulated(tmp_path / "ranks", "ddp")
    merged = write_merged(documents, labelled, tmp_path / "merged.json")
    assert command_json(capsys, "critical-path", merged, "--rank", 2)["rank"] == 2
    assert "rank 9 not found; available: 0, 1, 2, 3" in one_error(capsys, tmp_path, "info", merged, "--rank", 9)


def test_an_overlay_shows_one_rank_of_a_merged_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    merged = write_merged(simulated(tmp_path / "ranks", "ddp"), labelled, tmp_path / "merged.json")
    target = tmp_path / "overlay.json"
    assert run_command(capsys, "critical-path", merged, "--overlay", target, "--rank", 1)[0] == 0
    rows = json.loads(target.read_bytes())["traceEvents"]
    assert rows[: len(read_document(merged)["traceEvents"])] == read_document(merged)["traceEvents"]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("merge", TOLD_APART, ids=lambda merge: merge.__name__)
@pytest.mark.parametrize("clocks", [{}, {1: Clock(offset_ns=7_000_000), 3: Clock(offset_ns=-3_000_000)}])
def test_an_overlay_shows_all_ranks_of_a_merged_file(tmp_path: Path, merge: Any, clocks: dict[int, Clock]) -> None:
    """Rows are moved into job time as those of the ranks' own files are, and the path is the same."""
    documents = simulated(tmp_path / "ranks", "ddp", clocks=clocks)
    merged = write_merged(documents, merge, tmp_path / "merged.json")
    path = hg.critical_path(hg.read_job(merged, say=lambda _: None), hg.step(1))
    apart = hg.critical_path(hg.read_job(tmp_path / "ranks"), hg.step(1))
    before, after = read_document(merged)["traceEvents"], json.loads(overlay_bytes(path))["traceEvents"]
    kept = after[: len(before)]
    assert [without_times(row) for row in kept] == [without_times(row) for row in before]
    assert (kept == before) == (not clocks)
    of_ranks = json.loads(overlay_bytes(apart))["traceEvents"]
    names = ("cat", "name", "ts", "dur", "tid")
    shown = [
        sorted(repr([row.get(key) for key in names]) for row in rows if row.get("cat") in ("cpu_op", "kernel"))
        for rows in (kept, of_ranks)
    ]
    assert shown[0] == shown[1]
    # A path's rows differ in the ids of processes and lanes alone.
    drawn = [
        [(row["ph"], row["ts"], row.get("name")) for row in rows if row.get("cat") == "critical_path"]
        for rows in (after, of_ranks)
    ]
    assert drawn[0] == drawn[1] != []


def without_times(row: dict[str, Any]) -> dict[str, Any]:
    """Return what of a row stays as it is in job time."""
    return {key: value for key, value in row.items() if key not in ("ts", "dur")}


def test_a_merged_file_beside_others_is_left_out(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    documents = simulated(tmp_path / "ranks", "ddp")
    write_merged(documents, labelled, tmp_path / "ranks" / "merged.json")
    status, out, err = run_command(capsys, "info", tmp_path / "ranks", "--json", "-")
    assert [rank["rank"] for rank in json.loads(out)["ranks"]] == [0, 1, 2, 3]
    merged = tmp_path / "ranks" / "merged.json"
    assert (status, err) == (0, f"skipped {merged}: the ranks merged into it have files of their own\n")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("command", ["critical-path", "strip"])
def test_a_merged_file_beside_what_is_no_trace_is_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    merged = write_merged(simulated(tmp_path / "ranks", "ddp"), offset, folder / "merged.json")
    (folder / "notes.json").write_text('{"notes": []}')
    status, _, err = run_command(capsys, command, folder, "--output", tmp_path / "out")
    assert (status, err.splitlines()[:2]) == (
        0,
        [
            f"skipped 1 file that is not a trace: {folder / 'notes.json'}",
            f"{merged}: holds the recordings of 4 ranks; read as ranks 0 to 3",
        ],
    )
    assert [trace.rank for trace in hg.read_traces(folder, say=lambda _: None)] == [0, 1, 2, 3]


def test_a_merged_file_beside_other_ranks_is_to_be_read_alone(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    documents = simulated(tmp_path / "ranks", "ddp")
    write_merged(documents[:2], offset, tmp_path / "first.json")
    (tmp_path / "rank3.json").write_bytes(json.dumps(documents[3]).encode())
    status, _, err = run_command(capsys, "info", tmp_path)
    assert status == 1
    assert "first.json: holds the recordings of 2 ranks, merged into one file; pass this file alone\n" in err


def test_the_library_reads_all_ranks_or_says_so(tmp_path: Path) -> None:
    documents = simulated(tmp_path / "ranks", "ddp")
    merged = write_merged(documents, labelled, tmp_path / "merged.json")
    with pytest.raises(TraceError, match=r"holds the recordings of 4 ranks.*read_graphs\(\) or read_job\(\)"):
        hg.read_trace(merged)
    lines: list[str] = []
    assert [graph.rank for graph in hg.read_graphs(merged, say=lines.append)] == [0, 1, 2, 3]
    assert lines == [f"{merged}: holds the recordings of 4 ranks; read as ranks 0 to 3"]
    job = hg.read_job(merged, say=lines.append)
    assert list(job.ranks["rank"]) == [0, 1, 2, 3]
    few = hg.read_job(merged, say=lines.append, summaries=True)
    assert hg.critical_path(few, hg.step(1)).summary().equals(hg.critical_path(job, hg.step(1)).summary())


@pytest.mark.sampled(12)
@pytest.mark.parametrize("merge", TOLD_APART, ids=lambda merge: merge.__name__)
@pytest.mark.parametrize("one_device", [False, True])
def test_merged_ranks_are_anonymized_each_in_a_file_of_its_own(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, merge: Any, one_device: bool
) -> None:
    documents = simulated(tmp_path / "ranks", "experts", one_device=one_device)
    merged = write_merged(documents, merge, tmp_path / "merged.json")
    status, _, err = run_command(capsys, "strip", merged, "-o", tmp_path / "shared")
    assert (status, err) == (0, f"{merged}: holds the recordings of 4 ranks; read as ranks 0 to 3\n")
    assert run_command(capsys, "strip", tmp_path / "ranks", "-o", tmp_path / "apart")[0] == 0
    whole = {trace.rank: trace for trace in hg.read_traces(merged, say=lambda _: None)}
    alike = zip(hg.read_traces(tmp_path / "apart"), hg.read_traces(tmp_path / "shared"), strict=True)
    for at, (apart, shared) in enumerate(alike):
        assert (apart.rank, shared.rank) == (at, at)
        assert columns_of(shared) == columns_of(apart)
        assert hg.build_graph(shared).edges[EDGE].equals(hg.build_graph(whole[at]).edges[EDGE])
        # Each row keeps its place, and no other rank's is there.
        assert sorted(shared.events.index) == sorted(whole[at].events.index)
        rows = json.loads(gzip.decompress(shared.path.read_bytes()))["traceEvents"]
        own = [row for row in rows if row]
        assert len(own) <= len(documents[at]["traceEvents"]) < len(rows)


EDGE = ["source_index", "target_index", "kind"]


def test_one_rank_of_a_merged_file_is_anonymized(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    merged = write_merged(simulated(tmp_path / "ranks", "ddp"), labelled, tmp_path / "merged.json")
    target = tmp_path / "shared.json"
    assert run_command(capsys, "strip", merged, "--rank", 2, "-o", target)[0] == 0
    assert hg.read_trace(target).rank == 2
    assert "TP0" not in target.read_text()
    assert "rank 9 not found; available: 0, 1, 2, 3" in one_error(
        capsys, tmp_path, "strip", merged, "--rank", 9, "-o", tmp_path / "s.json"
    )
    status, _, err = run_command(capsys, "strip", merged, "-o", tmp_path / "s.json")
    assert status == 2
    assert err.endswith("s.json: cannot hold 4 ranks; name a new folder, or one rank with --rank\n")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("merge", TOLD_APART, ids=lambda merge: merge.__name__)
def test_arrows_of_merged_ranks_are_never_joined(tmp_path: Path, merge: Any) -> None:
    """Ranks that are recorded alike: of a launch, only the arrow says which call made it, and ids are the same."""
    launches = {}
    documents = []
    for rank in range(3):
        rows = []
        for at in range(6):
            call, kernel = 100 * at + 7 * rank, 100 * at + 7 * rank + 20 + 5 * rank
            host = {"pid": 4_000 + 37 * rank, "tid": 11}
            rows += [
                {"ph": "X", "cat": "cpu_op", "name": "aten::mm", **host, "ts": call - 1, "dur": 6,
                 "args": {"External id": at + 1}},
                {"ph": "X", "cat": "cuda_runtime", "name": f"cudaLaunchKernel{at}", **host, "ts": call, "dur": 4,
                 "args": {"correlation": at + 1}},
                {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": kernel, "dur": 9,
                 "args": {"device": 0, "stream": 7}},
                {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": at + 1, **host, "ts": call},
                {"ph": "f", "bp": "e", "cat": "ac2g", "name": "ac2g", "id": at + 1, "pid": 0, "tid": 7, "ts": kernel},
            ]  # fmt: skip
        documents.append({"traceEvents": rows})
        path = tmp_path / f"rank{rank}.json"
        path.write_text(json.dumps(documents[-1]))
        launches[rank] = launches_of(hg.read_trace(path))
        assert len(launches[rank]) == 6
    merged = write_merged(documents, merge, tmp_path / "merged.json")
    assert {trace.rank: launches_of(trace) for trace in hg.read_traces(merged, say=lambda _: None)} == launches


def launches_of(trace: hg.Trace) -> list[tuple[int, int]]:
    """Return when each launch call and what it launched begin."""
    edges = hg.build_graph(trace).edges.query("kind == 'launch'")
    start = dict(zip(trace.events.index.tolist(), trace.events.start.tolist(), strict=True))
    return [(start[one], start[two]) for one, two in edges[["source_index", "target_index"]].to_numpy().tolist()]


# -- files that several ranks wrote at once ---------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [2, 3])
def test_pieces_of_several_ranks_files_are_no_rank(
    ranks: int, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """All ranks export to one path (TensorRT-LLM PR 9022): blocks of their files stand in it in turn."""
    files = [json.dumps(document, indent=1).encode() for document in simulated(tmp_path / "job", "ddp", ranks=ranks)]
    block = 4096
    mixed = b"".join(files[at // block % ranks][at : at + block] for at in range(0, min(map(len, files)), block))
    path = tmp_path / "trace.json"
    path.write_bytes(mixed)
    status, out, err = run_command(capsys, "info", path, "--salvage", "--json", "-")
    assert status == 0, err
    found = json.loads(out)["ranks"]
    assert [rank["rank"] for rank in found] == list(range(ranks))
    assert f"pieces of {ranks} ranks' files are mixed in it" in err
    hosts = {str(row["pid"]) for raw in files for row in json.loads(raw)["traceEvents"] if row.get("cat") == "cpu_op"}
    for rank in hg.read_traces(path, salvage=True):
        threads = [label.split()[1] for label in rank.lanes.labels if label.startswith("thread")]
        assert len(hosts & {thread.split(":")[0] for thread in threads}) == 1


def test_a_damaged_file_of_one_rank_stays_one(tmp_path: Path) -> None:
    (document, *_) = simulated(tmp_path / "job", "ddp", ranks=2)
    raw = json.dumps(document, indent=1).encode()
    path = tmp_path / "trace.json"
    path.write_bytes(raw[:8192] + raw[12_288 : len(raw) // 2])
    (trace,) = hg.read_traces(path, salvage=True)
    assert "mixed" not in (trace.salvaged or "")
