"""URLs of files: parsed, distinguished from local names, and shown without secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import urlsplit

from hta_graph.base.errors import LocationError

URL_PATTERN = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
HTTP = ("http", "https")
OTHER_NAMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
KNOWN = ("s3", "gs", *HTTP, "memory")
LOCAL = ("file", "local")
USER = re.compile(r"(?<=://)[^/?#@\s]+@")
QUERY = re.compile(r"(://[^\s?'\"<>]*)\?[^\s'\"<>)]+")


@dataclass(frozen=True)
class Url:
    """A file or folder on the network: ``key`` is its bucket or server, and its name there.

    ``query`` and ``user`` may be secret: they are sent, and never shown.
    """

    scheme: str
    key: str
    query: str = ""
    user: str = ""

    @cached_property
    def text(self) -> str:
        """All of it, for who opens it."""
        return f"{self.scheme}://{self.user}{self.key}{self.query}"

    @cached_property
    def shown(self) -> str:
        """What people may see of it."""
        return f"{self.scheme}://{self.key}{'?…' if self.query else ''}"

    @property
    def identity(self) -> str:
        """What it is, however it is written: two that differ in this are two files."""
        return f"{self.scheme}://{self.key.rstrip('/')}"

    @property
    def name(self) -> str:
        """The last part of its name; that of a bucket or server is its own."""
        return self.key.rstrip("/").rpartition("/")[2]

    @property
    def is_bucket(self) -> bool:
        """Whether nothing but the bucket or server is named."""
        return "/" not in self.key.strip("/")

    @property
    def parent(self) -> Url:
        """The folder in which it is; a bucket's is itself."""
        inside = self.key.rstrip("/")
        return self if self.is_bucket else Url(self.scheme, inside.rpartition("/")[0], user=self.user)

    def child(self, name: str) -> Url:
        """Return what has this name in it."""
        return Url(self.scheme, f"{self.key.rstrip('/')}/{name.lstrip('/')}", user=self.user)


def parse_url(text: str) -> Url | None:
    """Read a URL; ``None`` is a name of a local file, also of one whose name has a URL in it.

    >>> parse_url("s3a://bucket/run/rank0.json.gz").shown
    's3://bucket/run/rank0.json.gz'
    >>> parse_url("https://me:secret@host/rank0.json?X-Amz-Signature=1").shown
    'https://host/rank0.json?…'
    >>> parse_url("./s3://bucket/key"), parse_url("file:///tmp/t.json")
    (None, None)

    Raises:
        LocationError: nothing is read from such URLs, or it names no file.
    """
    match = URL_PATTERN.fullmatch(text)
    if not match or match[1].lower() in LOCAL:
        return None
    scheme = OTHER_NAMES.get(match[1].lower(), match[1].lower())
    shown = without_secrets(text)
    if scheme not in KNOWN:
        kinds = ", ".join(f"{kind}://" for kind in (*KNOWN[:-1], "file"))
        remedy = f"use one of {kinds}; to name a local file, write ./{shown}"
        raise LocationError(f"{shown}: this kind of URL is not supported", remedy)
    return _http_url(scheme, text) if scheme in HTTP else _store_url(scheme, match[2], shown)


def _http_url(scheme: str, text: str) -> Url:
    try:
        parts = urlsplit(text)
        user, at, host = parts.netloc.rpartition("@")
    except ValueError:
        host = ""
    if not host:
        raise LocationError(f"{without_secrets(text)}: names no server", f"write {scheme}://SERVER/FILE")
    return Url(scheme, host + parts.path, f"?{parts.query}" if parts.query else "", user + at)


def _store_url(scheme: str, key: str, shown: str) -> Url:
    # Stores take no password in a URL: it would be sent as a bucket's name.
    if "@" in key.partition("/")[0]:
        raise LocationError(
            f"{shown}: credentials in this kind of URL are ignored", "set them in the environment or a file"
        )
    if scheme == "memory":
        key = key.lstrip("/")
    if not key.strip("/") or key.startswith("/"):
        raise LocationError(f"{shown}: names no bucket", f"write {scheme}://BUCKET/NAME")
    return Url(scheme, key)


def without_secrets(text: str) -> str:
    """Hide passwords and queries of the URLs in a text.

    >>> without_secrets("GET https://me:pw@host/a?X-Amz-Signature=12 failed")
    'GET https://host/a?… failed'
    """
    return QUERY.sub(r"\1?…", USER.sub("", text))
