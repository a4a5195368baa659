"""Names that somebody gave, as paths: local files as ever, URLs as paths of the network."""

from __future__ import annotations

from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from hta_graph.errors import LocationError
from hta_graph.storage.location import Location, RemotePath, UntrustedPath
from hta_graph.storage.urls import parse_url

if TYPE_CHECKING:  # of Python 3.13
    from typing_extensions import TypeIs

__all__ = ["name_with_secrets", "is_remote", "resolve_location", "untrusted_location", "open_to_peek"]


def resolve_location(name: str | Location) -> Location:
    """Return the path that somebody named; what is a path already stays one.

    >>> resolve_location("run/rank0.json"), resolve_location("file:///tmp/a%20b.json")
    (PosixPath('run/rank0.json'), PosixPath('/tmp/a b.json'))
    >>> str(resolve_location("s3://bucket/run/rank0.json"))
    's3://bucket/run/rank0.json'

    Raises:
        LocationError: it is a URL of no file.
    """
    if isinstance(name, (Path, RemotePath)):
        return name
    if "://" not in name:
        return Path(name)
    if address := parse_url(name):
        return RemotePath(address)
    if name[:1] in "./" or not name.lower().startswith(("file://", "local://")):
        return Path(name)
    parts = urlsplit(name)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise LocationError(f"{name}: names no file of this machine", "write file:///FOLDER/FILE")
    return Path(unquote(name.partition("://")[2].removeprefix("localhost")))


def untrusted_location(text: str) -> Location:
    """Return the path that a saved graph notes: of a URL one that can only be shown.

    >>> str(untrusted_location("s3://bucket/rank0.json"))
    's3://bucket/rank0.json'
    """
    try:
        address = parse_url(text)
    except LocationError:
        return Path(text)
    return UntrustedPath(address) if address else Path(text)


def is_remote(path: str | Location) -> TypeIs[RemotePath]:
    """Tell whether a path leads to the network."""
    return isinstance(path, RemotePath)


def open_to_peek(path: Location) -> BufferedReader:
    """Open a file of which only a little will be read."""
    return path.peek() if isinstance(path, RemotePath) else path.open("rb")


def name_with_secrets(path: str | Location) -> str:
    """Return the name by which another process finds the same file; of a URL with what is never shown."""
    return path.address.text if isinstance(path, RemotePath) else str(path)
