"""Outputs are written whole or not at all: to a temporary neighbour, then renamed; on the network likewise.

What is unfinished is called ``.NAME.<16 digits>.part``, so that what a killed program leaves is not mistaken for an
output; :func:`remove_unfinished` takes it away where a program ends without unwinding. A folder is uploaded file by
file, what readers begin with last.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, TypeAlias

from hta_graph.base.errors import OutputError
from hta_graph.base.progress import clear_stage
from hta_graph.base.storage.location import Location, RemotePath, is_remote, resolve_location
from hta_graph.base.storage.output_paths import check_output, is_written_directly, resolve_links
from hta_graph.base.storage.remote_files import Url, clear_cache, file_system, with_retries
from hta_graph.base.text.sanitize import sanitize_lines

ONE_REQUEST_BYTES = 8 << 20
"""What is shorter (bytes) is sent in one request."""
GIVING_UP_S = 5

Piece: TypeAlias = bytes | memoryview


def upload_file(address: Url, pieces: Iterable[Piece], note: Callable[[Callable[[], None] | None], None]) -> None:
    """Write a file atomically: nothing of it is visible before it is complete.

    Args:
        address: where it goes.
        pieces: its contents.
        note: receives the function that removes the unfinished file, and ``None`` when there is none left.

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


def _send_piece(address: Url, file: Any, piece: Piece) -> None:
    with_retries(address, lambda: file.write(piece))


def _first_bytes(pieces: Iterator[Piece]) -> tuple[bytes, bool]:
    """Collect what can be sent at once; return it and whether it is everything."""
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
    note(lambda: _discard(address, file))
    try:
        yield file
    except BaseException:
        _discard(address, file)
        raise
    finally:
        note(None)


def _discard(address: Url, file: Any) -> None:
    """Take away what is half written; not at any price, for a program may be ending.

    A part that is still on its way can make a server refuse: it is asked again.
    """

    def discard() -> None:
        with suppress(Exception):
            with_retries(address, file.discard)

    taking = Thread(target=discard, daemon=True)
    taking.start()
    taking.join(GIVING_UP_S)
    file.closed = True  # else the file would be sent after all when nobody needs it any more


def upload_folder(new: Path, address: Url, last: Callable[[str], bool]) -> None:
    """Let a folder on the network be what a local one is.

    What readers begin with goes first and comes last: in between, readers find no folder rather than half of one.

    Args:
        new: the local folder.
        address: where it goes.
        last: returns whether readers begin with a name in it.

    Raises:
        RemoteError: it cannot be written; what is there then has no beginning, so that it is not mistaken for complete.
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


_unfinished: dict[Location, Callable[[], None]] = {}
"""What is being written, and how it is taken away."""

AT_THE_WORKING_FOLDER, EXCHANGE = -100, 2
"""Linux' AT_FDCWD and RENAME_EXCHANGE."""

TRIES = 100
"""How often a folder is put in its place while others put theirs there."""


def write_file(target: str | Location, content: bytes | Iterable[Piece], mode: int | None = None) -> None:
    """Write a file from one or many pieces, or to standard output for ``-``.

    ``mode`` is that of the file; by default that of an earlier one there, or what is usual.

    Raises:
        OutputError: the file cannot be written; an earlier one is left as it was.
    """
    pieces = [content] if isinstance(content, bytes) else content
    if str(target) == "-":
        _write_standard_output(pieces)
        return
    path = resolve_location(target)
    check_output(path, [])
    if is_remote(path):
        _send(path, pieces)
        return
    place = resolve_links(path)
    if not is_written_directly(place):
        _write_and_replace(path, place, pieces, mode)
    elif _is_standard_output(place):
        _write_standard_output(pieces)
    else:
        _write_directly(path, place, pieces)


def _send(path: RemotePath, pieces: Iterable[Piece]) -> None:
    def note(remove: Callable[[], None] | None) -> None:
        _unfinished.pop(path, None)
        if remove:
            _unfinished[path] = remove

    try:
        upload_file(path.address, pieces, note)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None


def _is_standard_output(place: Path) -> bool:
    """Return whether a place is the open file that answers are printed to: one position in it must serve both."""
    try:
        return place.is_symlink() and os.path.samestat(place.stat(), os.fstat(1))
    except OSError:
        return False


def _write_standard_output(pieces: Iterable[Piece]) -> None:
    # A terminal would obey what a file or a pipe gets as it is.
    clear_stage()
    # Text that is printed may be collected for a file at the same time.
    out = getattr(sys.stdout, "beneath", sys.stdout)
    shown = [sanitize_lines(b"".join(pieces).decode("utf-8", "replace")).encode()] if out.isatty() else pieces
    try:
        out.buffer.writelines(shown)
        out.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"standard output: cannot be written: {error.strerror or error}") from None


def _write_and_replace(path: Path, place: Path, pieces: Iterable[Piece], mode: int | None) -> None:
    try:
        # Beside the target, so that the last step is a rename within one file system: whole or not at all.
        with _neighbour(place, lambda part: part.unlink(missing_ok=True)) as part:
            if mode is None and place.exists():
                mode = place.stat().st_mode & 0o777
            handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else mode)
            with os.fdopen(handle, "wb") as file:
                file.writelines(pieces)
            if mode is not None:
                part.chmod(mode)
            part.replace(place)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None


def _write_directly(path: Path, place: Path, pieces: Iterable[Piece]) -> None:
    """Write to a device or pipe, which cannot be replaced by renaming, or behind what an open file holds."""
    try:
        with place.open("ab" if place.is_symlink() else "wb") as file:
            file.writelines(pieces)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None


@contextmanager
def _neighbour(place: Path, remove: Callable[[Path], None]) -> Iterator[Path]:
    """Provide a temporary name next to a path; it is removed at the end."""
    part = place.with_name(f".{place.name[:100]}.{os.urandom(8).hex()}.part")
    # Noted before it is there: an interrupt can come between any two steps.
    _unfinished[part] = lambda: remove(part)
    try:
        yield part
    finally:
        remove(part)
        del _unfinished[part]


def remove_unfinished() -> None:
    """Take away what is half written, for a program that ends now."""
    for remove in list(_unfinished.values()):
        with suppress(OSError):
            remove()


@contextmanager
def new_folder(target: Location, check: Callable[[], None], last: Collection[str] = ()) -> Iterator[Path]:
    """Give an empty folder to fill, of the target's name; it takes the target's place when the block ends well.

    On the network it does so file by file, so that readers find the first file only when all others are there.

    Args:
        target: the folder.
        last: what readers begin with: names, or endings of names.
        check: refuses what stands in the target's place; called again at the end, since work may have taken minutes.

    Raises:
        OutputError: it cannot be written; what stood there is left as it was.
    """
    if is_remote(target):
        with _sent_folder(target, check, last) as new:
            yield new
        return
    try:
        # Where the target is a link, the folder that it leads to is replaced.
        place = resolve_links(target)
        with _neighbour(place, lambda part: _remove_scratch(part, place)) as part:
            part.mkdir(0o700)
            new = part / "new" / place.name
            new.mkdir(parents=True)
            yield new
            check()
            if place.exists():
                new.chmod(place.stat().st_mode & 0o777)
            _put_in_place(new, place, part)
    except OSError as error:
        raise OutputError(f"{target}: cannot be written: {error.strerror or error}") from None
    if part.exists():
        raise OutputError(f"{target}: is written, but the previous version cannot be removed; remove {part}")


@contextmanager
def _sent_folder(target: RemotePath, look_again: Callable[[], None], last: Collection[str]) -> Iterator[Path]:
    try:
        with TemporaryDirectory(prefix="hta-graph-") as folder:
            scratch = Path(folder)
            _unfinished[scratch] = lambda: shutil.rmtree(scratch, ignore_errors=True)
            try:
                new = scratch / target.name
                new.mkdir()
                yield new
                look_again()
                upload_folder(new, target.address, lambda name: "/" not in name and name.endswith(tuple(last)))
            finally:
                del _unfinished[scratch]
    except OSError as error:
        raise OutputError(f"{target}: cannot be written: {error.strerror or error}") from None


def _remove_scratch(part: Path, place: Path) -> None:
    # What was moved away for something that did not come goes back.
    for old in sorted(part.glob("old*")):
        if not place.exists():
            old.rename(place)
    shutil.rmtree(part, ignore_errors=True)


def _put_in_place(new: Path, place: Path, part: Path) -> None:
    """Let a folder take a place, where others may put theirs at the same time: at no moment is there half a folder."""
    for number in range(TRIES):
        try:
            new.rename(place)  # where nothing stands, or an empty folder
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        else:
            return
        if _exchange(new, place):
            return
        # Where the system cannot exchange two folders, the earlier one has another name between two renames.
        with suppress(FileNotFoundError):
            place.rename(part / f"old{number:02}")
    raise OSError(errno.EBUSY, "other processes keep writing there")


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step; return whether the system can."""
    try:
        rename = ctypes.CDLL(None).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    paths = os.fsencode(one), os.fsencode(other)
    return bool(rename(AT_THE_WORKING_FOLDER, paths[0], AT_THE_WORKING_FOLDER, paths[1], EXCHANGE) == 0)
