"""Writing to the network: a file whole or not at all; a folder file by file, what readers begin with last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

from hta_graph.storage.file_systems import file_system, forget
from hta_graph.storage.remote_errors import asked
from hta_graph.storage.urls import Address

__all__ = ["upload_file", "upload_folder"]

AT_ONCE = 8 << 20
"""What is shorter (bytes) is sent in one request."""
GIVING_UP_S = 5


def upload_file(address: Address, pieces: Iterable[bytes], note: Callable[[Callable[[], None] | None], None]) -> None:
    """Write a file; before it is whole nobody sees anything of it.

    Args:
        address: where it goes.
        pieces: its contents.
        note: is told how what is half written is taken away, and ``None`` when there is nothing any more.

    Raises:
        RemoteError: it cannot be written.
    """
    waiting = iter(pieces)
    begin, is_all = _begin_of(waiting)
    if is_all:
        asked(address, lambda: file_system(address.scheme).pipe_file(address.text, begin))
    else:
        with _unfinished(address, note) as file:
            asked(address, lambda: file.write(begin))
            for piece in waiting:
                _write(address, file, piece)
            asked(address, file.close)
            asked(address, file.commit)
    forget()


def _write(address: Address, file: Any, piece: bytes) -> None:
    asked(address, lambda: file.write(piece))


def _begin_of(pieces: Iterator[bytes]) -> tuple[bytes, bool]:
    """Collect what may be sent at once, and tell whether that is all."""
    found = bytearray()
    for piece in pieces:
        found += piece
        if len(found) > AT_ONCE:
            return bytes(found), False
    return bytes(found), True


@contextmanager
def _unfinished(address: Address, note: Callable[[Callable[[], None] | None], None]) -> Iterator[Any]:
    """Give an open file, of which nothing is left if the block does not end well."""
    file = asked(
        address,
        lambda: file_system(address.scheme).open(address.text, "wb", block_size=AT_ONCE, autocommit=False),
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


def upload_folder(new: Path, address: Address, last: Callable[[str], bool]) -> None:
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
    _remove(store, address, sorted(filter(last, there)))
    for name in names:
        if not last(name):
            _upload(store, new / name, address.child(name))
    _remove(store, address, sorted({name for name in there if not last(name)} - set(names)))
    for name in reversed(list(filter(last, names))):
        _upload(store, new / name, address.child(name))
    forget()


def _upload(store: Any, path: Path, target: Address) -> None:
    with path.open("rb") as file:
        upload_file(target, iter(lambda: file.read(AT_ONCE), b""), lambda _: None)


def _names_in(address: Address) -> set[str]:
    """List the files of a folder and of those in it."""
    prefix = address.text.rstrip("/") + "/"
    key = prefix.partition("://")[2]
    found = asked(address, lambda: file_system(address.scheme).find(prefix))
    return {str(name).lstrip("/").removeprefix(key) for name in found}


def _remove(store: Any, address: Address, names: Iterable[str]) -> None:
    if listed := [address.child(name).text for name in names]:
        asked(address, lambda: store.rm(listed))
