"""Who serves the files of a URL: the packages that know how, asked as little as possible."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from logging import NullHandler, getLogger
from time import monotonic
from typing import Any, TypeVar

from hta_graph.errors import MissingExtraError
from hta_graph.storage.remote_errors import RemoteError, check_writable, with_retries
from hta_graph.storage.urls import HTTP, Url

__all__ = [
    "RemoteFacts",
    "check_bucket",
    "facts_in",
    "facts_of",
    "file_system",
    "clear_cache",
    "list_folder",
    "glob_files",
]

T = TypeVar("T")

EXTRAS = {"s3": "s3", "gs": "gs", "http": "http", "https": "http", "memory": "http"}
CONNECT_S, SILENCE_S = 20, 60
"""How long a web server may take to answer at all, and between two pieces."""
FRESH_S = 5
"""For how long what a folder holds is not asked again: a command looks at its inputs several times."""

_cache: dict[tuple[str, str], tuple[float, Any]] = {}


@dataclass(frozen=True)
class RemoteFacts:
    """What is known of a file or folder: its size if that is told, and what changes when its contents do."""

    size: int | None
    is_folder: bool
    version: str
    in_parts: bool = True
    """Whether parts of it can be asked for."""


@lru_cache(maxsize=8)
def file_system(scheme: str) -> Any:
    """Return what reads and writes URLs of this kind.

    Raises:
        MissingExtraError: the package for them is not installed.
    """
    # What a package has to say besides its errors is for programs that set up logging, not for the terminal.
    getLogger("gcsfs").addHandler(NullHandler())
    try:
        from fsspec import filesystem

        return filesystem(scheme, use_listings_cache=False, **_settings(scheme))
    except ImportError:
        raise MissingExtraError(f"a {scheme}:// URL", EXTRAS[scheme]) from None


def _settings(scheme: str) -> dict[str, Any]:
    if scheme not in HTTP:
        return {}
    from aiohttp import ClientTimeout

    # A whole file may take as long as it likes. What is packed is unpacked here, where its size is watched.
    waits = ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENCE_S)
    client = {"timeout": waits, "trust_env": True, "auto_decompress": False}
    return {"headers": {"Accept-Encoding": "identity"}, "client_kwargs": client}


def facts_of(address: Url, *, fresh: bool = False) -> RemoteFacts:
    """Ask what is there.

    Raises:
        FileNotFoundError: nothing is.
        RemoteError: it cannot be asked.
    """
    if fresh:
        _cache.pop(("facts", address.text), None)
    return _cached("facts", address, lambda: facts_in(_info(address)))


def _info(address: Url) -> dict[str, Any]:
    found: dict[str, Any] = file_system(address.scheme).info(_store_name(address))
    return found


def _store_name(address: Url) -> str:
    """Return what a file system calls it; a folder's name ends in no slash."""
    return address.text if address.scheme in HTTP else address.text.rstrip("/")


def facts_in(info: dict[str, Any]) -> RemoteFacts:
    """Return what is known from what a file system tells of a file."""
    size = info.get("size")
    told = [info.get(key) for key in ("ETag", "etag", "generation", "Last-Modified")]
    is_file = info.get("type") != "directory"
    is_partial = bool(info.get("partial", True)) and isinstance(size, int)
    return RemoteFacts(size if isinstance(size, int) else None, not is_file, f"{size} {told}", is_partial)


def list_folder(address: Url) -> list[tuple[Url, RemoteFacts]]:
    """List what a folder holds, by name, with what the listing tells of each.

    Raises:
        FileNotFoundError: there is no such folder.
        RemoteError: it cannot be asked.
    """
    # Web servers list nothing: what looks like a list on a page of theirs may lead anywhere.
    if address.scheme in HTTP:
        return []
    return _cached("listed", address, lambda: _list_folder(address))


def _list_folder(address: Url) -> list[tuple[Url, RemoteFacts]]:
    entries = file_system(address.scheme).ls(_store_name(address), detail=True)
    found = {address.child(str(entry["name"]).rstrip("/").rpartition("/")[2]): facts_in(entry) for entry in entries}
    # Some stores keep an empty object of the folder's own name.
    own = address.child("")
    kept = [(child, facts) for child, facts in found.items() if child != own and child.name]
    return sorted(kept, key=lambda item: item[0].name)


def glob_files(address: Url) -> list[tuple[Url, RemoteFacts]]:
    """List the files whose names fit a pattern, with ``*``, ``?`` and ``[…]`` between slashes.

    Raises:
        RemoteError: it cannot be asked.
    """
    found = [(Url(address.scheme, address.key.split("/", 1)[0], user=address.user), None)]
    parts = address.key.rstrip("/").split("/")[1:]
    for at, part in enumerate(parts):
        if not any(mark in part for mark in "*?["):
            found = [(folder.child(part), None) for folder, _ in found]
            continue
        inside = [item for folder, _ in found for item in _list_or_nothing(folder)]
        fitting = [(child, facts) for child, facts in inside if fnmatch.fnmatchcase(child.name, part)]
        found = [item for item in fitting if at == len(parts) - 1 or item[1].is_folder]  # type: ignore[misc]
    return [(child, facts or facts_of(child)) for child, facts in found]


def _list_or_nothing(address: Url) -> list[tuple[Url, RemoteFacts]]:
    try:
        return list_folder(address)
    except FileNotFoundError:
        return []


def check_bucket(address: Url) -> None:
    """Refuse what cannot be written, as far as one can see without writing.

    Raises:
        LocationError: it is on a web server.
        RemoteError: there is no such bucket, or no way to it.
    """
    check_writable(address)
    if address.scheme == "memory":
        return
    bucket = Url(address.scheme, address.key.split("/", 1)[0])
    try:
        with_retries(bucket, lambda: file_system(bucket.scheme).info(bucket.text))
    except FileNotFoundError:
        raise RemoteError(bucket, "there is no such bucket", "make it first") from None
    except RemoteError as error:
        # Who may write need not be allowed to look.
        if "access is denied" not in str(error.strerror):
            raise


def _cached(what: str, address: Url, ask: Callable[[], T]) -> T:
    """Ask once in a while."""
    key = (what, address.text)
    known = _cache.get(key)
    if known and monotonic() - known[0] < FRESH_S:
        answer: T = known[1]
        return answer
    answer = with_retries(address, ask)
    _cache[key] = (monotonic(), answer)
    return answer


def clear_cache() -> None:
    """Ask everything anew: something has been written."""
    _cache.clear()
