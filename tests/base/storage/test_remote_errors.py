"""What goes wrong on the network is one line: the file, the cause, the remedy, and nothing secret."""

from __future__ import annotations

import gzip
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

import hta_graph as hg
from hta_graph.base.errors import HtaGraphError, LocationError, MissingExtraError, TooLargeError, TraceError
from hta_graph.base.storage import remote_files
from hta_graph.base.storage.location import resolve_location
from hta_graph.base.storage.remote_files import parse_url
from hta_graph.trace.header import peek_header
from hta_graph.trace.memory_limit import limit_memory
from tests.support.command_line import run_command
from tests.support.local_servers import Bucket, Web, begin_anew
from tests.support.trace_builder import TraceBuilder

TRACE = b'{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":1}]}'


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_files, "PAUSES_S", (0.0, 0.0))


def error_of(capsys: pytest.CaptureFixture[str], url: str) -> str:
    """Ask about a file that cannot be read, and return the line without the program and the file."""
    status, out, err = run_command(capsys, "info", url)
    assert (status, out) == (1, "")
    assert err.count("\n") == 1, err
    start = f"hta-graph: {url.partition('?')[0]}"
    assert err.startswith(start), err
    return err.removeprefix(start).removeprefix("?…").removeprefix(": ").rstrip()


@pytest.mark.slow
def test_no_credentials(capsys: pytest.CaptureFixture[str], bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert error_of(capsys, f"{bucket.url}/t.json").startswith("cannot be read: no credentials found; set AWS_PROFILE")


def test_no_such_key_and_bucket(capsys: pytest.CaptureFixture[str], bucket: Bucket) -> None:
    assert error_of(capsys, f"{bucket.url}/none.json") == "no such file"
    assert error_of(capsys, f"{bucket.url}/none/") == "no such file"
    assert error_of(capsys, f"{bucket.url}/none/*.json") == "no file matches this pattern"
    assert error_of(capsys, "s3://there-is-none/t.json").startswith("cannot be read: the bucket does not exist; ")


@pytest.mark.slow
def test_access_denied(capsys: pytest.CaptureFixture[str], bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    url = bucket.put("t.json", TRACE)

    class DeniedError(PermissionError):
        pass

    def refuse(*_: Any, **__: Any) -> Any:
        raise DeniedError(13, f"Access Denied for {url}")

    monkeypatch.setattr(remote_files.file_system("s3"), "info", refuse)
    assert error_of(capsys, url).startswith("cannot be read: access is denied; set AWS_PROFILE")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("code", "status", "says"),
    [
        ("AccessDenied", 403, "access is denied; set AWS_PROFILE"),
        ("InvalidAccessKeyId", 403, r"the credentials were rejected \(InvalidAccessKeyId\); set AWS_PROFILE"),
        ("ExpiredToken", 400, r"the credentials were rejected \(ExpiredToken\); set AWS_PROFILE"),
        ("NoSuchBucket", 404, "the bucket does not exist"),
        ("PermanentRedirect", 301, "is in another region; set AWS_DEFAULT_REGION"),
        ("PreconditionFailed", 412, "has changed since it was first read"),
        ("SlowDown", 503, "the server answered with HTTP 503; try again later"),
    ],
)
def test_what_a_store_answers(code: str, status: int, says: str) -> None:
    errors = pytest.importorskip("botocore.exceptions")
    translate = pytest.importorskip("s3fs.errors").translate_boto_error
    address = parse_url("s3://bucket/t.json")
    assert address is not None
    answer = {"Error": {"Code": code, "Message": "?X-Amz-Signature=1"}, "ResponseMetadata": {"HTTPStatusCode": status}}

    def refuse() -> None:
        error = errors.ClientError(answer, "GetObject")
        raise translate(error) from error

    with pytest.raises(remote_files.RemoteError, match=says):
        remote_files.with_retries(address, refuse)


def test_an_endpoint_that_is_not_there(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("s3fs")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    begin_anew()
    said = error_of(capsys, "s3://bucket/t.json")
    assert said == "cannot be read: the server cannot be reached; check the network and AWS_ENDPOINT_URL"
    said = error_of(capsys, f"http://127.0.0.1:{port}/t.json")
    assert said == "cannot be read: the server cannot be reached; check the server name and the network"


@pytest.mark.slow
def test_a_certificate_that_nobody_knows(
    capsys: pytest.CaptureFixture[str], tls_web: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert error_of(capsys, f"{tls_web}/t.json").startswith("cannot be read: the server's certificate was rejected; ")
    pytest.importorskip("s3fs")
    monkeypatch.setenv("AWS_ENDPOINT_URL", tls_web)
    begin_anew()
    said = error_of(capsys, "s3://bucket/t.json")
    assert said.startswith("cannot be read: the server's certificate was rejected; check the URL, or set AWS_CA")


def test_statuses_of_a_web_server(capsys: pytest.CaptureFixture[str], web: Web) -> None:
    assert error_of(capsys, f"{web.url}/none.json") == "no such file"
    web.status = {"t.json": 403, "u.json": 401, "v.json": 503, "w.json": 410, "x.json": 418}
    query = "?X-Amz-Signature=5ec2e7"
    for name in ("t.json", "u.json"):
        assert error_of(capsys, f"{web.url}/{name}{query}").startswith("cannot be read: access is denied; ")
    assert error_of(capsys, f"{web.url}/v.json{query}") == (
        "cannot be read: the server answered with HTTP 503; try again later"
    )
    tries = sum(path.startswith("/v.json") and method == "GET" for method, path, _ in web.asked)
    assert 1 < tries <= 3  # a busy machine may give up on one before it is heard
    assert error_of(capsys, f"{web.url}/w.json") == "no such file"
    assert "HTTP 418" in error_of(capsys, f"{web.url}/x.json")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("ftp://host/t.json", "ftp://host/t.json: this kind of URL is not supported; use one of s3://, gs://, "),
        ("simplecache::s3://b/t.json", "simplecache::s3:/b/t.json: no such file"),
        ("s3://", "s3://: names no bucket"),
        ("s3://me:pw@bucket/t.json", "s3://bucket/t.json: credentials in this kind of URL are ignored"),
        ("https:///t.json", "https:///t.json: names no server"),
        ("file://host/t.json", "file://host/t.json: does not name a file on this machine"),
    ],
)
def test_urls_of_no_file(capsys: pytest.CaptureFixture[str], url: str, says: str) -> None:
    status, _, err = run_command(capsys, "info", url)
    assert status == 1
    assert err.startswith(f"hta-graph: {says}")
    assert "pw" not in err


def test_a_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for scheme in ("gs", "s3"):
        with monkeypatch.context() as without:
            without.setitem(sys.modules, "gcsfs" if scheme == "gs" else "fsspec", None)
            with pytest.raises(MissingExtraError, match=rf"{scheme}:// URL needs .* install 'hta-graph\[{scheme}\]'"):
                hg.read_trace(f"{scheme}://bucket/t.json")


@pytest.mark.slow
def test_secrets_are_sent_and_never_shown(capsys: pytest.CaptureFixture[str], web: Web, tmp_path: Path) -> None:
    web.files["rank0.json"] = TRACE
    url = web.url.replace("http://", "http://me:pw5ec2e7@") + "/rank0.json?X-Amz-Signature=5ec2e7"
    shown = f"{web.url}/rank0.json?…"
    for command in ("info", "critical-path", "graph"):
        status, out, err = run_command(capsys, command, url, "--json", "-")
        assert status == 0, err
        assert shown in out
        assert "5ec2e7" not in out + err
    assert run_command(capsys, "report", url, "-o", tmp_path / "r.html")[0] == 0
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "5ec2e7" not in page
    assert "rank0.json" in page
    web.files["rank0.json"] = b"[nothing"
    assert "5ec2e7" not in "".join(run_command(capsys, "info", url)[1:])
    assert any("5ec2e7" in path for _, path, _ in web.asked)
    assert any(headers.get("Authorization", "").startswith("Basic") for headers in web.headers)


def test_a_body_that_breaks_off_is_asked_for_again(web: Web) -> None:
    web.files["rank0.json"] = TRACE
    web.break_off = 2
    assert len(hg.read_trace(f"{web.url}/rank0.json").events) == 1
    web.break_off = 100
    with pytest.raises(TraceError, match="the transfer was interrupted; try again"):
        hg.read_trace(f"{web.url}/rank0.json")


def test_a_server_that_sends_only_whole_files(web: Web) -> None:
    web.ranges = False
    web.files["rank0.json.gz"] = gzip.compress(TRACE)
    assert len(hg.read_trace(f"{web.url}/rank0.json.gz").events) == 1
    web.break_off = 100
    with pytest.raises(TraceError, match="the transfer was interrupted"):
        hg.read_trace(f"{web.url}/rank0.json.gz")


@pytest.mark.slow
def test_parts_of_a_file_on_a_web_server(web: Web) -> None:
    trace = TraceBuilder()
    trace.op("aten::add", 0, 10)
    event = b'{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":1},'
    text = b'{"distributedInfo":{"rank":7},"traceEvents":[' + event * 80_000 + event[:-1] + b"]}"
    web.files["t.json"] = text
    place = resolve_location(f"{web.url}/t.json")
    header = peek_header(place)
    assert header is not None
    assert header.distributed == {"rank": 7}
    assert sum(size for *_, size in web.asked) <= 1 << 18
    assert hg.read_trace(place).rank == 7


@pytest.mark.slow
def test_what_changes_in_between_is_an_error(bucket: Bucket, web: Web) -> None:
    web.files["t.json"] = TRACE
    for url, change in (
        (bucket.put("t.json", TRACE), lambda: bucket.put("t.json", TRACE + b" ")),
        (f"{web.url}/t.json", lambda: web.files.update({"t.json": TRACE + b" "})),
    ):
        place = resolve_location(url)
        place.stat()
        change()
        with pytest.raises(TraceError, match="has changed since it was first read"):
            hg.read_trace(place)


@pytest.mark.slow
def test_an_object_that_changes_while_it_is_read(bucket: Bucket) -> None:
    place = resolve_location(bucket.put("t.json", b" " * (1 << 20)))
    with place.open("rb") as file:
        assert len(file.read(100)) == 100
        bucket.put("t.json", b"." * (1 << 20))
        with pytest.raises(OSError, match="has changed since"):
            file.read()


@pytest.mark.slow
def test_what_is_too_long_is_not_sent_for(bucket: Bucket) -> None:
    event = b'{"ph":"X","cat":"cpu_op","name":"a%d","pid":1,"tid":1,"ts":1,"dur":1},'
    rows = b"".join(event % at for at in range(1_500_000))
    text = b'{"traceEvents":[' + rows[:-1] + b"]}"
    for name, data in {"t.json": text, "t.json.gz": gzip.compress(text, 1)}.items():
        url = bucket.put(name, data)
        bucket.asked.clear()
        with limit_memory(100 << 20), pytest.raises(TooLargeError, match="too much for the 100 MiB"):
            hg.read_trace(url)
        assert sum(size for *_, size in bucket.asked) < 1 << 20


@pytest.mark.slow
def test_errors_of_a_list_name_its_line(tmp_path: Path, bucket: Bucket) -> None:
    path = tmp_path / "list.txt"
    for text, says in {
        "# nothing\n": "lists no file",
        "a.json\n\n@b.txt\n": "line 3: names another list",
        "s3://me:pw@b/t\n": "line 1: s3://b/t: credentials in this kind of URL are ignored",
    }.items():
        path.write_text(text, encoding="utf-8")
        with pytest.raises(LocationError, match=says):
            list(hg.read_traces(f"@{path}"))
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(LocationError, match="is not a list of files"):
        list(hg.read_traces(f"@{path}"))
    with pytest.raises(LocationError, match=r"none: the list of files does not exist; to name a file, write \./@none"):
        list(hg.read_traces("@none"))
    for at, line in enumerate((b"/etc/passwd", b"file:///etc/passwd")):
        with pytest.raises(LocationError, match="line 1: names a file on this machine"):
            list(hg.read_traces(f"@{bucket.put(f'list{at}.txt', line)}"))


@pytest.mark.slow
def test_errors_of_many_files_are_told_and_the_rest_is_read(capsys: pytest.CaptureFixture[str], bucket: Bucket) -> None:
    bucket.put("run/rank0.json", TRACE)
    bucket.put("run/rank1.json", b"")
    status, out, err = run_command(capsys, "info", f"{bucket.url}/run")
    assert status == 1
    assert "1 events" in out
    assert f"{bucket.url}/run/rank1.json: is empty" in err


def test_errors_are_errors_of_this_package() -> None:
    with pytest.raises(HtaGraphError):
        resolve_location("nothing://of/the/kind")
