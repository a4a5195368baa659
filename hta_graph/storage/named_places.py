"""Names that somebody gave, as paths: local files as ever, URLs as paths of the network."""

from __future__ import annotations

from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from hta_graph.errors import PlaceError
from hta_graph.storage.location import Location, NamedOnlyPath, RemotePath
from hta_graph.storage.urls import read_address

if TYPE_CHECKING:  # of Python 3.13
    from typing_extensions import TypeIs

__all__ = ["full_name", "is_remote", "named_place", "noted_place", "open_to_peek"]


def named_place(name: str | Location) -> Location:
    """Return the path that somebody named; what is a path already stays one.

    >>> named_place("run/rank0.json"), named_place("file:///tmp/a%20b.json")
    (PosixPath('run/rank0.json'), PosixPath('/tmp/a b.json'))
    >>> str(named_place("s3://bucket/run/rank0.json"))
    's3://bucket/run/rank0.json'

    Raises:
        PlaceError: it is a URL of no file.
    """
    if isinstance(name, (Path, RemotePath)):
        return name
    if "://" not in name:
        return Path(name)
    if address := read_address(name):
        return RemotePath(address)
    if name[:1] in "./" or not name.lower().startswith(("file://", "local://")):
        return Path(name)
    parts = urlsplit(name)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise PlaceError(f"{name}: names no file of this machine", "write file:///FOLDER/FILE")
    return Path(unquote(name.partition("://")[2].removeprefix("localhost")))


def noted_place(text: str) -> Location:
    """Return the path that a saved graph notes: of a URL one that can only be shown.

    >>> str(noted_place("s3://bucket/rank0.json"))
    's3://bucket/rank0.json'
    """
    try:
        address = read_address(text)
    except PlaceError:
        return Path(text)
    return NamedOnlyPath(address) if address else Path(text)


def is_remote(path: str | Location) -> TypeIs[RemotePath]:
    """Tell whether a path leads to the network."""
    return isinstance(path, RemotePath)


def open_to_peek(path: Location) -> BufferedReader:
    """Open a file of which only a little will be read."""
    return path.peek() if isinstance(path, RemotePath) else path.open("rb")


def full_name(path: str | Location) -> str:
    """Return the name by which another process finds the same file; of a URL with what is never shown."""
    return path.address.text if isinstance(path, RemotePath) else str(path)
