"""What is written to a bucket is there whole or not at all, and never in the place of an input."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from hta_graph.base.errors import OutputError, UsageError
from hta_graph.base.storage import atomic_write, remote_files
from hta_graph.base.storage.atomic_write import new_folder, write_file
from hta_graph.base.storage.location import resolve_location
from hta_graph.base.storage.output_paths import check_outputs
from tests.support.command_line import run_command
from tests.support.deep_tests import deep
from tests.support.interrupted_output import InterruptedOutputError, interrupted
from tests.support.local_servers import Bucket
from tests.support.two_rank_job import small_job

TRACE = b'{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":1}]}'


@pytest.mark.parametrize("size", [0, deep(1 << 20), deep(30 << 20)])
def test_whole_or_not_at_all(bucket: Bucket, size: int) -> None:
    url = bucket.put("out.bin", b"earlier")
    with pytest.raises(InterruptedOutputError):
        write_file(url, interrupted(size))
    assert bucket.get("out.bin") == b"earlier"
    assert bucket.uploads() == []
    write_file(url, (b"." * (1 << 20) for _ in range(size >> 20)))
    assert bucket.get("out.bin") == b"." * size


@pytest.mark.slow
def test_an_upload_that_the_server_refuses(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    import s3fs

    plain = s3fs.S3File._call_s3
    sent = 0

    def refuse(self: s3fs.S3File, method: str, *rest: object, **settings: object) -> object:
        nonlocal sent
        sent += method == "upload_part"
        if method == "upload_part" and sent == 3:
            raise PermissionError(13, "Access Denied")
        return plain(self, method, *rest, **settings)

    monkeypatch.setattr(s3fs.S3File, "_call_s3", refuse)
    with pytest.raises(OutputError, match=r"out\.bin: cannot be written: access is denied"):
        write_file(f"{bucket.url}/out.bin", (b"." * (1 << 20) for _ in range(40)))
    assert bucket.keys() == []
    assert bucket.uploads() == []


def test_a_server_that_fails_while_a_part_is_on_its_way(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    from moto.s3.models import FakeMultipart

    asked: list[FakeMultipart] = []

    def fail_once(self: FakeMultipart) -> None:
        asked.append(self)
        if len(asked) == 1:
            raise RuntimeError("dictionary changed size during iteration")

    monkeypatch.setattr(FakeMultipart, "dispose", fail_once)
    with pytest.raises(InterruptedOutputError):
        write_file(f"{bucket.url}/out.bin", interrupted(30 << 20))
    assert bucket.uploads() == []
    assert len(asked) == 2


@pytest.mark.slow
def test_inputs_are_never_overwritten(capsys: pytest.CaptureFixture[str], bucket: Bucket, tmp_path: Path) -> None:
    url = bucket.put("run/rank0.json", TRACE)
    for target in (url, url.replace("s3://", "s3a://"), url.replace("s3://", "S3://")):
        status, _, err = run_command(capsys, "info", f"{bucket.url}/run", "--json", target)
        assert (status, err) == (
            1,
            f"hta-graph: {url}: is an input, and inputs are never overwritten; name another file\n",
        )
    pytest.importorskip("pyarrow")
    status, _, err = run_command(capsys, "graph", url, "--parquet", f"{bucket.url}/run")
    assert (status, "an input, and inputs are never overwritten" in err) == (1, True)
    path = small_job(tmp_path)[0]
    status, _, err = run_command(capsys, "info", path, "--json", path.as_uri())
    assert (status, err) == (
        1,
        f"hta-graph: {path}: is an input, and inputs are never overwritten; name another file\n",
    )
    assert bucket.get("run/rank0.json") == TRACE


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("https://host/out.json", "https://host/out.json: web servers are read-only"),
        deep("s3://there-is-none/out.json", "cannot be written: the bucket does not exist"),
        ("{bucket}/run", "is a folder; name a file"),
        deep("{bucket}/run/", "is a folder; name a file"),
        deep("{bucket}", "is a folder; name a file"),
        ("ftp://host/x", "this kind of URL is not supported"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is_read(
    capsys: pytest.CaptureFixture[str], bucket: Bucket, target: str, says: str
) -> None:
    bucket.put("run/rank0.json", TRACE)
    bucket.asked.clear()
    target = target.format(bucket=bucket.url)
    status, _, err = run_command(capsys, "info", f"{bucket.url}/run", "--json", target)
    assert status == 1
    assert err.count("\n") == 1
    assert says in err
    assert not any(path.endswith("rank0.json?") for _, path, _ in bucket.asked)


@pytest.mark.slow
def test_two_outputs_of_one_place(bucket: Bucket) -> None:
    url = f"{bucket.url}/out.json"
    with pytest.raises(UsageError, match="two outputs have this name"):
        check_outputs([url, url.replace("s3:", "s3a:")], [])
    with pytest.raises(UsageError, match="which is replaced"):
        check_outputs([f"{bucket.url}/new/x.json"], [], [resolve_location(f"{bucket.url}/new")])
    check_outputs([url, f"{bucket.url}/other.json", "-"], [], [resolve_location(f"{bucket.url}/out")])


@pytest.mark.slow
def test_a_folder_has_no_beginning_before_it_is_whole(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    target = resolve_location(f"{bucket.url}/f")
    for names in (["b", "head", "z", "in/b"], ["a", "head", "in/b"]):
        bucket.asked.clear()
        fill(target, names)
        written = [path.partition("/f/")[2].rstrip("?") for method, path, _ in bucket.asked if method == "PUT"]
        assert written == [*sorted(set(names) - {"head"}), "head"]
        assert bucket.keys("f/") == sorted(f"f/{name}" for name in names)
    before = atomic_write._upload

    def fail(store: object, path: Path, address: atomic_write.Url) -> None:
        if path.name == "c":
            raise OSError(5, "broken")
        before(store, path, address)

    monkeypatch.setattr(atomic_write, "_upload", fail)
    with pytest.raises(OutputError, match="broken"):
        fill(target, ["b", "c", "head"])
    assert "f/head" not in bucket.keys("f/")


def refuse() -> None:
    raise OutputError("no more")


def fill(target: Path, names: Iterable[str], check: Callable[[], None] = lambda: None) -> None:
    with new_folder(target, check, ["head"]) as new:
        for name in names:
            (new / name).parent.mkdir(exist_ok=True)
            (new / name).write_text(name)


@pytest.mark.slow
def test_a_folder_that_is_not_finished_here_changes_nothing_there(bucket: Bucket) -> None:
    bucket.put("f/head", b"earlier")
    with pytest.raises(OutputError, match="no more"):
        fill(resolve_location(f"{bucket.url}/f"), ["head"], refuse)
    assert bucket.get("f/head") == b"earlier"


@pytest.mark.slow
def test_a_program_that_is_interrupted_leaves_nothing(bucket: Bucket) -> None:
    code = f"""
import sys
from analyses.cli.main import install_signal_handlers
from hta_graph.base.storage.atomic_write import write_file
install_signal_handlers()
def pieces():
    for at in range(1_000_000):
        if at == 20:
            print("half", flush=True)
        yield b"." * (1 << 20)
write_file({bucket.url!r} + "/out.bin", pieces())
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=dict(os.environ)) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"half\n"
        assert bucket.uploads()
        program.send_signal(signal.SIGINT)
        assert program.wait(20) == 130
    assert bucket.uploads() == []
    assert bucket.keys() == []


@pytest.mark.slow
def test_who_may_write_and_not_look(
    capsys: pytest.CaptureFixture[str], bucket: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Access Denied")

    monkeypatch.setattr(remote_files.file_system("s3"), "info", refuse)
    path = small_job(tmp_path)[0]
    assert run_command(capsys, "info", path, "--json", f"{bucket.url}/out.json")[0] == 0
    assert bucket.keys() == ["out.json"]
