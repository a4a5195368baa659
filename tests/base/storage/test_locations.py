"""Local names stay what they are; URLs are paths of the network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import hta_graph as hg
from hta_graph.base.storage.location import expand_file_lists, is_remote, name_with_secrets, resolve_location
from hta_graph.trace.rank_files import expand_inputs
from tests.support.two_rank_job import small_job


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_local_names_are_plain_paths() -> None:
    for name in ("t.json", "/a/b", "./s3://bucket/key", "s3:/bucket", "a b?c", "C:\\x", "@x", "-", ""):
        assert type(resolve_location(name)) is type(Path(name))
        assert resolve_location(name) == Path(name)
    assert (
        resolve_location("file:///a/b%20c.json")
        == resolve_location("FILE://localhost/a/b%20c.json")
        == Path("/a/b c.json")
    )


@pytest.mark.slow
def test_a_local_file_needs_no_network(tmp_path: Path) -> None:
    path = small_job(tmp_path)[0]
    code = f"import sys, hta_graph as hg; hg.read_trace({str(path)!r}); sys.exit('fsspec' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_local_files_that_look_like_urls_patterns_and_lists(here: Path) -> None:
    (here / "s3:").mkdir()
    job = [path.read_bytes() for path in small_job(here)]
    for name in ("s3:/rank0.json", "@list", "rank[0].json", "a*.json"):
        (here / name).write_bytes(job[0])
    for name in ("./s3://rank0.json", "./@list", "rank[0].json", "a*.json"):
        assert hg.read_trace(name).rank == 0
        assert [trace.rank for trace in hg.read_traces(name)] == [0]
    assert [path.name for path in expand_inputs([Path("rank?.json")])] == ["rank0.json", "rank1.json"]
    assert [path.name for path in expand_inputs([here / "rank[01].json"])] == ["rank0.json", "rank1.json"]


def test_a_list_of_local_files(here: Path) -> None:
    (here / "job").mkdir()
    small_job(here / "job")
    (here / "job" / "list").write_bytes(b"\xef\xbb\xbf# both\r\nrank1.json\r\n  rank0.json  \r\n")
    assert expand_file_lists("@job/list") == [Path("job/rank1.json"), Path("job/rank0.json")]
    assert [trace.rank for trace in hg.read_traces("@job/list")] == [0, 1]
    (here / "all").write_text(f"job/rank?.json\n{(here / 'job' / 'rank0.json').as_uri()}\n")
    assert len(expand_inputs(expand_file_lists("@all"))) == 3


def test_a_url_has_the_shape_of_a_path() -> None:
    path = resolve_location("S3A://bucket/run/x.y/rank0.json.gz")
    assert str(path) == f"{path}" == name_with_secrets(path) == "s3://bucket/run/x.y/rank0.json.gz"
    assert (path.name, path.stem, path.suffix) == ("rank0.json.gz", "rank0.json", ".gz")
    assert path.parts == ("s3://bucket", "run", "x.y", "rank0.json.gz")
    assert [str(folder) for folder in path.parents] == ["s3://bucket/run/x.y", "s3://bucket/run", "s3://bucket"]
    assert path.parent / path.name == path == resolve_location(name_with_secrets(path)) == path.with_name(path.name)
    assert path.absolute() is path.resolve() is path.expanduser() is path
    assert is_remote(path)
    assert path != Path("s3:/bucket/run/x.y/rank0.json.gz")
    assert Path("s3:/bucket/run/x.y/rank0.json.gz") != path
    assert len({path, resolve_location(str(path)), Path(str(path))}) == 2
    assert sorted([path, Path("a"), path.parent]) == [Path("a"), path.parent, path]
    for wrong in (open, Path, lambda path: path.unlink(), lambda path: path.mkdir(), lambda path: path.open("w")):
        with pytest.raises((TypeError, AttributeError)):
            wrong(path)


def test_secrets_are_in_the_name_for_other_processes_alone() -> None:
    path = resolve_location("https://me:pw@host/a/rank0.json?sig=1")
    assert (str(path), repr(path)) == ("https://host/a/rank0.json?…", "RemotePath('https://host/a/rank0.json?…')")
    assert name_with_secrets(path) == "https://me:pw@host/a/rank0.json?sig=1"
    assert (path.name, str(path.parent)) == ("rank0.json", "https://host/a")


def test_memory_is_a_place_too() -> None:
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    text = b'{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":1}]}'
    for rank in range(3):
        store.pipe_file(f"/places/rank{rank}.json", text)
    found = list(hg.read_traces("memory://places"))
    assert [str(trace.path) for trace in found] == [f"memory://places/rank{rank}.json" for rank in range(3)]
    assert [trace.rank for trace in hg.read_traces("memory://places/rank[12].json")] == [1, 2]
    store.rm("/places", recursive=True)
