"""An S3 server and a web server of this machine, and folders of traces on them."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

import pytest

from tests.support.local_servers import Bucket, CountingApp, Web, begin_anew, handler_of

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "an-id",
    "AWS_SECRET_ACCESS_KEY": "a-secret",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/nowhere",
    "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
    "AWS_MAX_ATTEMPTS": "1",
}


@pytest.fixture(autouse=True)
def _known_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    begin_anew()
    yield
    begin_anew()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[tuple[str, CountingApp]]:
    """Start an S3 server that only this machine reaches."""
    pytest.importorskip("s3fs")
    pytest.importorskip("moto.server")
    from moto.moto_server import threaded_moto_server

    counting = CountingApp(None)
    plain = threaded_moto_server.make_server

    def counted(host: str, port: int, app: Any, *rest: Any, **settings: Any) -> Any:
        counting.app = app
        return plain(host, port, counting, *rest, **settings)

    started = threaded_moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    threaded_moto_server.make_server = counted
    try:
        started.start()
    finally:
        threaded_moto_server.make_server = plain
    host, port = started.get_host_and_port()
    yield f"http://{host}:{port}", counting
    started.stop()


@pytest.fixture
def bucket(s3_server: tuple[str, CountingApp], monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """Make a new bucket."""
    import boto3

    endpoint, app = s3_server
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
    name = f"b-{uuid4().hex}"
    client.create_bucket(Bucket=name)
    app.asked.clear()
    return Bucket(f"s3://{name}", client, app.asked)


@pytest.fixture
def web() -> Iterator[Web]:
    """Start a web server that only this machine reaches."""
    pytest.importorskip("aiohttp")
    made = Web()
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(made))
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield made
    server.shutdown()
    server.server_close()


@pytest.fixture
def tls_web(tmp_path: Path) -> Iterator[str]:
    """Start a web server whose certificate nobody knows, and return its URL."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1", "-days", "1",
         "-keyout", str(key), "-out", str(certificate)],
        check=False, capture_output=True,
    )  # fmt: skip
    if made.returncode:
        pytest.skip("openssl makes no certificate")
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(Web()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"https://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
