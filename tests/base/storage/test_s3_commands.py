"""Commands on traces in a bucket answer as they do on the same files here."""

from __future__ import annotations

import gzip
from pathlib import Path

import pandas as pd
import pytest

import hta_graph as hg
from tests.support.command_line import run_command
from tests.support.deep_tests import deep
from tests.support.large_jobs import asked_with, generated_job
from tests.support.local_servers import Bucket
from tests.support.samples import SAMPLES
from tests.support.two_rank_job import small_job

FOUR = SAMPLES / "four_ranks"


@pytest.mark.parametrize("command", ["info", deep("critical-path")])
@pytest.mark.parametrize("named", ["folder", *map(deep, ["folder/", "pattern", "files", "list", "list there"])])
def test_answers_are_those_of_local_files(
    capsys: pytest.CaptureFixture[str], bucket: Bucket, tmp_path: Path, command: str, named: str
) -> None:
    url = bucket.put_folder(FOUR, "run")
    (tmp_path / "list.txt").write_text(f"# a job\n\n{url}/rank_1.json.gz\n{url}/rank_[023].json.gz\n", encoding="utf-8")
    inputs = {
        "folder": [url],
        "folder/": [f"{url}/"],
        "pattern": [f"{url}/rank_?.json.*"],
        "files": [f"{url}/rank_{rank}.json.gz" for rank in range(4)],
        "list": [f"@{tmp_path / 'list.txt'}"],
        "list there": [f"@{bucket.put('list.txt', b'run/rank_*.json.gz')}"],
    }
    here = run_command(capsys, command, FOUR, "--json", "-")
    there = run_command(capsys, command, *inputs[named], "--json", "-", "--jobs", "1")
    assert here[0] == there[0] == 0
    assert there[1].replace(url, str(FOUR)) == here[1]
    assert "s3:/b" not in there[1] + there[2]


@pytest.mark.slow
def test_other_processes_read_the_bucket_too(capsys: pytest.CaptureFixture[str], bucket: Bucket) -> None:
    url = bucket.put_folder(FOUR, "run")
    here = run_command(capsys, "info", FOUR, "--json", "-")
    there = run_command(capsys, "info", url, "--json", "-", "--jobs", "2")
    assert there[1].replace(url, str(FOUR)) == here[1]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["stragglers", "collectives", "critical-path"])
def test_a_job_of_which_few_rows_are_held_is_read_there(
    capsys: pytest.CaptureFixture[str], bucket: Bucket, tmp_path: Path, command: str
) -> None:
    job = generated_job(tmp_path / "job", clock_spread_ns=300_000)
    url = bucket.put_folder(job, "run")
    here = asked_with(capsys, "always", job, command)
    kept = ["--cache", tmp_path / "kept"]
    for words in (["--jobs", "1"], ["--jobs", "2"], [*kept, "--jobs", "1"], [*kept, "--jobs", "1"]):
        status, out, err = asked_with(capsys, "always", url, command, *words)
        assert (status, out.replace(url, str(job)), err.replace(url, str(job))) == here, words


@pytest.mark.slow
def test_a_header_of_a_large_object_costs_little(bucket: Bucket) -> None:
    from hta_graph.base.storage.location import resolve_location
    from hta_graph.trace.header import peek_header, text_size

    event = b'{"ph":"X","cat":"cpu_op","name":"aten::add","pid":1,"tid":1,"ts":1,"dur":1},'
    text = b'{"distributedInfo":{"rank":3},"traceEvents":[' + event * (30 * 2**20 // len(event)) + event[:-1] + b"]}"
    for name, data in {"rank3.json": text, "packed.json.gz": gzip.compress(text, 1) + bytes(2**21)}.items():
        place = resolve_location(bucket.put(name, data))
        bucket.asked.clear()
        header = peek_header(place)
        assert header is not None
        assert header.distributed == {"rank": 3}
        assert text_size(place) > len(text) // 2
        assert sum(size for *_, size in bucket.asked) < 2 << 20
        assert len(bucket.asked) <= 7


@pytest.mark.slow
def test_a_folder_of_many_is_listed_once(bucket: Bucket) -> None:
    from hta_graph.base.storage.location import expand_file_lists
    from hta_graph.trace.rank_files import expand_inputs

    for at in range(40):
        bucket.put(f"many/rank{at}.json", b"{}")
    bucket.asked.clear()
    found = expand_inputs(expand_file_lists(f"{bucket.url}/many/"))
    assert [path.name for path in found] == sorted(f"rank{at}.json" for at in range(40))
    assert {path.stat().st_size for path in found} == {2}
    expand_inputs(expand_file_lists(f"{bucket.url}/many/"))
    assert len(bucket.asked) == 1


@pytest.mark.slow
def test_ranks_have_the_order_of_local_files(bucket: Bucket, tmp_path: Path) -> None:
    from hta_graph.trace.read import find_ranks

    names = [*(path.name for path in small_job(tmp_path)), *(f"other{at}.json" for at in range(9))]
    for name in names[2:]:
        (tmp_path / name).write_bytes(b'{"traceEvents":[{"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":1}]}')
    (tmp_path / "host.json").write_bytes(b'{"schema":"1.0","nodes":[]}')
    url = bucket.put_folder(tmp_path, "run")
    said: list[str] = []
    here, there = find_ranks([tmp_path], say=said.append), find_ranks([url], say=said.append)
    assert [(file.path.name, file.rank, file.source) for file in here] == [
        (file.path.name, file.rank, file.source) for file in there
    ]
    assert [line.replace(url, str(tmp_path)) for line in said[2:]] == said[:2]


@pytest.mark.slow
def test_what_is_written_is_what_is_written_here(
    capsys: pytest.CaptureFixture[str], bucket: Bucket, tmp_path: Path
) -> None:
    (tmp_path / "job").mkdir()
    small_job(tmp_path / "job")
    calls = {
        "critical-path": ["--json", "p.json", "--overlay", "o.json.gz", "--dot", "p.dot"],
        "report": ["-o", "r.html", "--overlay", "ro.json"],
        "timeline": ["-o", "t.html"],
        "idle-time": ["--csv", "i.csv", "--json", "i.json"],
        "sync-deps": ["--csv", "s.csv"],
        "render": ["--path", "-o", "x.dot"],
    }
    for command, options in calls.items():
        for place in (str(tmp_path), f"{bucket.url}/out"):
            named = [item if item.startswith("-") else f"{place}/{item}" for item in options]
            status, _, err = run_command(capsys, command, tmp_path / "job", *named)
            assert status == 0, err
            assert "s3:/b" not in err
    names = sorted(path.name for path in tmp_path.iterdir() if path.is_file())
    assert sorted(key.removeprefix("out/") for key in bucket.keys("out/")) == names
    for name in names:
        assert bucket.get(f"out/{name}") == (tmp_path / name).read_bytes(), name
    assert bucket.uploads() == []


@pytest.mark.slow
def test_graphs_and_workloads_go_there_and_come_back(
    capsys: pytest.CaptureFixture[str], bucket: Bucket, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow")
    paths = small_job(tmp_path)
    saved = f"{bucket.url}/saved"
    for _ in range(2):  # an earlier one is replaced
        assert run_command(capsys, "graph", *paths, "--parquet", saved)[0] == 0
    assert len(pd.read_parquet(_here(bucket, "saved", tmp_path) / "events.parquet"))
    job = hg.read_job(paths)
    hg.save_graph(job, f"{saved}.hta-graph")
    assert hg.load_graph(f"{saved}.hta-graph").events.equals(job.events)
    workload = f"{bucket.url}/workload"
    assert run_command(capsys, "chakra", "convert", *paths, "--output", workload)[0] == 0
    status, out, _ = run_command(capsys, "chakra", "check", workload)
    assert (status, out.partition(":")[0]) == (0, "s3")
    status, _, err = run_command(capsys, "chakra", "convert", *paths, "--output", workload)
    assert (status, err) == (1, f"hta-graph: {workload}: already exists; use --force to replace it\n")
    assert run_command(capsys, "chakra", "convert", *paths, "--output", workload, "--force")[0] == 0


def _here(bucket: Bucket, prefix: str, folder: Path) -> Path:
    for key in bucket.keys(f"{prefix}/"):
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bucket.get(key))
    return folder / prefix


@pytest.mark.slow
def test_a_saved_graph_names_its_trace_and_nothing_opens_it(bucket: Bucket, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    url = bucket.put_folder(SAMPLES / "four_ranks", "run")
    hg.save_graph(hg.build_graph(hg.read_trace(f"{url}/rank_0.json.gz")), tmp_path / "saved")
    loaded = hg.load_graph(tmp_path / "saved")
    assert str(loaded.path) == f"{url}/rank_0.json.gz"
    bucket.asked.clear()
    with pytest.raises(OSError, match="only named in a saved graph"):
        loaded.path.open("rb")
    assert bucket.asked == []


@pytest.mark.slow
def test_what_has_the_shape_of_hta_reads_a_bucket(bucket: Bucket) -> None:
    from analyses.hta.trace_analysis import TraceAnalysis

    url = bucket.put_folder(FOUR, "run")
    here, there = TraceAnalysis(trace_dir=str(FOUR)), TraceAnalysis(trace_dir=url)
    assert there.get_temporal_breakdown(visualize=False).equals(here.get_temporal_breakdown(visualize=False))
    named = TraceAnalysis(trace_files={rank: f"{url}/rank_{rank}.json.gz" for rank in range(2)})
    assert len(named.get_temporal_breakdown(visualize=False)) == 2
