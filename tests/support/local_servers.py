"""Servers of this machine: a bucket and a web server, and what was asked of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from hta_graph.base.storage import remote_files


def begin_anew() -> None:
    """Forget who serves what, and what is known of it."""
    remote_files.clear_cache()
    remote_files.file_system.cache_clear()
    from fsspec import AbstractFileSystem

    def kinds(kind: type[AbstractFileSystem]) -> Iterator[type[AbstractFileSystem]]:
        yield kind
        for lower in kind.__subclasses__():
            yield from kinds(lower)

    for kind in kinds(AbstractFileSystem):
        kind.clear_instance_cache()


@dataclass
class Bucket:
    """A bucket, and what was asked of its server."""

    url: str
    client: Any
    asked: list[tuple[str, str, int]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The bucket's name."""
        return self.url.removeprefix("s3://")

    def put(self, key: str, data: bytes) -> str:
        """Put an object there and return its URL."""
        self.client.put_object(Bucket=self.name, Key=key, Body=data)
        return f"{self.url}/{key}"

    def put_folder(self, folder: Path, prefix: str) -> str:
        """Put a folder's files there and return its URL."""
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.put(f"{prefix}/{path.relative_to(folder).as_posix()}", path.read_bytes())
        return f"{self.url}/{prefix}"

    def get(self, key: str) -> bytes:
        """Return an object's contents."""
        found: bytes = self.client.get_object(Bucket=self.name, Key=key)["Body"].read()
        return found

    def keys(self, prefix: str = "") -> list[str]:
        """List the objects, also many."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
        return [item["Key"] for page in pages for item in page.get("Contents", [])]

    def uploads(self) -> list[Any]:
        """List what is half written."""
        found: list[Any] = self.client.list_multipart_uploads(Bucket=self.name).get("Uploads", [])
        return found


class CountingApp:
    """A WSGI application that notes what is asked and how many bytes are answered."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.asked: list[tuple[str, str, int]] = []

    def __call__(self, environ: dict[str, Any], start: Any) -> Any:
        length = 0

        def noted(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            nonlocal length
            length = int(dict(headers).get("Content-Length", dict(headers).get("content-length", 0)))
            return start(status, headers, *rest)

        found = self.app(environ, noted)
        method = str(environ["REQUEST_METHOD"])
        query = str(environ.get("QUERY_STRING", ""))
        self.asked.append((method, f"{environ['PATH_INFO']}?{query}", 0 if method == "HEAD" else length))
        return found


@dataclass
class Web:
    """A web server: what it has, how it behaves, and what was asked of it."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True
    status: dict[str, int] = field(default_factory=dict)
    break_off: int = 0
    """How many answers break off in the middle, from now on."""
    asked: list[tuple[str, str, int]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)


def handler_of(web: Web) -> type[BaseHTTPRequestHandler]:
    """Return what answers for a web server."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

        def do_HEAD(self) -> None:
            self.answer(body=False)

        def do_GET(self) -> None:
            self.answer(body=True)

        def answer(self, *, body: bool) -> None:
            name = self.path.partition("?")[0].lstrip("/")
            web.headers.append(dict(self.headers))
            status = web.status.get(name, 200 if name in web.files else 404)
            data = web.files.get(name, b"") if status == 200 else b""
            wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", "")) if web.ranges else None
            self.send_response(206 if wanted and status == 200 else status)
            if wanted and status == 200:
                self.send_header("Content-Range", f"bytes {wanted[1]}-{wanted[2]}/{len(data)}")
                data = data[int(wanted[1]) : int(wanted[2]) + 1]
            if web.ranges:
                self.send_header("Accept-Ranges", "bytes")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            web.asked.append((self.command, self.path, len(data) if body else 0))
            if not body:
                return
            if web.break_off and len(data) > 1:
                web.break_off -= 1
                self.wfile.write(data[: len(data) // 2])
                self.close_connection = True
                return
            self.wfile.write(data)

    return Handler
