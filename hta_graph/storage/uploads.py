"""Writing to the network: a file whole or not at all; a folder file by file, what readers begin with last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

from hta_graph.storage.file_systems import clear_cache, file_system
from hta_graph.storage.remote_errors import with_retries
from hta_graph.storage.urls import Url

__all__ = ["upload_file", "upload_folder"]

ONE_REQUEST_BYTES = 8 << 20
"""What is shorter (bytes) is sent in one request."""
GIVING_UP_S = 5


def upload_file(address: Url, pieces: Iterable[bytes], note: Callable[[Callable[[], None] | None], None]) -> None:
    """Write a file; before it is whole nobody sees anything of it.

    Args:
        address: where it goes.
        pieces: its contents.
        note: is told how what is half written is taken away, and ``None`` when there is nothing any more.

    Raises:
        RemoteError: it cannot be written.
    """
    waiting = iter(pieces)
    begin, is_all = _first_bytes(waiting)
    if is_all:
        with_retries(address, lambda: file_system(address.scheme).pipe_file(address.text, begin))
    else:
        with _open_upload(address, note) as file:
            with_retries(address, lambda: file.write(begin))
            for piece in waiting:
                _send_piece(address, file, piece)
            with_retries(address, file.close)
            with_retries(address, file.commit)
    clear_cache()


def _send_piece(address: Url, file: Any, piece: bytes) -> None:
    with_retries(address, lambda: file.write(piece))


def _first_bytes(pieces: Iterator[bytes]) -> tuple[bytes, bool]:
    """Collect what may be sent at once, and tell whether that is all."""
    found = bytearray()
    for piece in pieces:
        found += piece
        if len(found) > ONE_REQUEST_BYTES:
            return bytes(found), False
    return bytes(found), True


@contextmanager
def _open_upload(address: Url, note: Callable[[Callable[[], None] | None], None]) -> Iterator[Any]:
    """Give an open file, of which nothing is left if the block does not end well."""
    file = with_retries(
        address,
        lambda: file_system(address.scheme).open(address.text, "wb", block_size=ONE_REQUEST_BYTES, autocommit=False),
    )
    note(lambda: _discard(file))
    try:
        yield file
    except BaseException:
        _discard(file)
        raise
    finally:
        note(None)


def _discard(file: Any) -> None:
    """Take away what is half written; not at any price, for a program may be ending."""

    def discard() -> None:
        with suppress(Exception):
            file.discard()

    taking = Thread(target=discard, daemon=True)
    taking.start()
    taking.join(GIVING_UP_S)
    file.closed = True  # else the file would be sent after all when nobody needs it any more


def upload_folder(new: Path, address: Url, last: Callable[[str], bool]) -> None:
    """Let a folder on the network be what a local one is.

    What readers begin with goes first and comes last: whoever looks in between finds no such folder, never half of one.

    Args:
        new: the local folder.
        address: where it goes.
        last: tells of a name in it whether readers begin with it.

    Raises:
        RemoteError: it cannot be written; what is there then has no beginning, so that nobody takes it for whole.
    """
    store = file_system(address.scheme)
    found = (path.relative_to(new).as_posix() for path in new.rglob("*") if path.is_file())
    names = sorted(found, key=lambda name: (last(name), name))
    there = _names_in(address)
    _remove_remote(store, address, sorted(filter(last, there)))
    for name in names:
        if not last(name):
            _upload(store, new / name, address.child(name))
    _remove_remote(store, address, sorted({name for name in there if not last(name)} - set(names)))
    for name in reversed(list(filter(last, names))):
        _upload(store, new / name, address.child(name))
    clear_cache()


def _upload(store: Any, path: Path, target: Url) -> None:
    with path.open("rb") as file:
        upload_file(target, iter(lambda: file.read(ONE_REQUEST_BYTES), b""), lambda _: None)


def _names_in(address: Url) -> set[str]:
    """List the files of a folder and of those in it."""
    prefix = address.text.rstrip("/") + "/"
    key = prefix.partition("://")[2]
    found = with_retries(address, lambda: file_system(address.scheme).find(prefix))
    return {str(name).lstrip("/").removeprefix(key) for name in found}


def _remove_remote(store: Any, address: Url, names: Iterable[str]) -> None:
    if listed := [address.child(name).text for name in names]:
        with_retries(address, lambda: store.rm(listed))
