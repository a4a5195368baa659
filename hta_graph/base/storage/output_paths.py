"""Where outputs may go: never over an input, never two to one place; checked before any work is done."""

from __future__ import annotations

import os
import re
import stat
import tempfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import combinations
from pathlib import Path
from unicodedata import normalize

from hta_graph.base.errors import LocationError, OutputError, UsageError
from hta_graph.base.storage.location import Location, RemotePath, is_remote, resolve_location
from hta_graph.base.storage.remote_files import RemoteError, check_bucket

BASELINE = re.compile(rb'\A\s*\{\s*"schema"\s*:\s*"hta-graph/baseline/')
FILE_KINDS = {
    "JSON answer of hta-graph": re.compile(rb'\A\s*\{\s*"schema"\s*:\s*"hta-graph/(?!baseline/)'),
    "baseline of hta-graph": BASELINE,
    "text": re.compile(rb"\A(?!\s*[{\[]|SQLite format)"),
}
"""What outputs may replace, and how it begins; what begins as a trace is no text."""
HEAD_BYTES = 256
GZIP_MAGIC = b"\x1f\x8b"
MOST_LINKS = 40
"""How many links one path may lead through, as on Linux."""

Identity = tuple[int, int] | str
"""What a file is, whatever it is called: on the network its URL, without what differs only in writing."""


def resolve_links(path: Path) -> Path:
    """Return where a path leads through symbolic links, whether something is there or not.

    A link to an open file of a process, as ``/dev/stdout`` is one, is itself the place.

    Raises:
        OutputError: links lead in a circle, or this is not a valid file name.
    """
    if "\0" in str(path):
        raise OutputError(f"{str(path)!r}: this is not a valid file name; give another one")
    place = path.absolute()
    for _ in range(MOST_LINKS):
        if not place.is_symlink() or _is_open_file(place):
            return place
        place = place.parent / place.readlink()
    raise OutputError(f"{path}: its symbolic links form a loop; name another file")


def _is_open_file(place: Path) -> bool:
    folder = Path(os.path.realpath(place.parent))
    return folder.name == "fd" and folder.parts[1:2] == ("proc",)


def is_written_directly(place: Path) -> bool:
    """Return whether a place is a device, a pipe or an open file, which nothing can take the place of."""
    return _is_open_file(place) or (place.exists() and not place.is_file())


def check_output(target: str | Location, inputs: Iterable[Location]) -> None:
    """Refuse an output that is one of the inputs, before any work is done.

    Raises:
        OutputError: the output is an input or a folder, is write-protected, or its folder does not exist.
    """
    check_outputs([target], inputs)


def check_outputs(
    files: Sequence[str | Location], inputs: Iterable[Location], folders: Sequence[Location] = ()
) -> None:
    """Refuse outputs that cannot be written, are inputs or hold inputs, or are one and the same.

    Args:
        files: the files that will be written; ``-`` is standard output.
        inputs: every file that is read; none of them is changed.
        folders: the folders that will be written anew, with all that they hold.

    Raises:
        OutputError: one of them cannot be, as its line says.
        UsageError: two of them go to one place.
    """
    paths = list(inputs)
    known = {_identity(path) for path in paths} - {None}
    for target in files:
        with _one_line(target):
            _check_file(target, known)
    for folder in folders:
        check_new_folder(folder, paths)
    for one, other in combinations([*files, *folders], 2):
        with _one_line(other):
            _check_distinct(one, other)
    for folder in folders:
        _check_outside(folder, [target for target in (*files, *folders) if target is not folder])


def check_replaced(target: str, kind: str) -> None:
    """Refuse to replace a local file of another kind (:data:`FILE_KINDS`); an empty one is no loss.

    Raises:
        OutputError: it is of another kind.
    """
    place = resolve_location(target)
    if target == "-" or is_remote(place) or not place.is_file() or not place.stat().st_size:
        return
    if is_written_directly(resolve_links(place)):
        return  # what a process has open is written to, not replaced
    if not begins_as(place, FILE_KINDS[kind]):
        raise OutputError(f"{target}: is no {kind}, and is not replaced; name another file, or remove this one")


def begins_as(path: Path, pattern: re.Pattern[bytes]) -> bool:
    """Return whether the text of a file, which may be compressed with gzip, begins with a pattern."""
    try:
        with path.open("rb") as file:
            begin = file.read(HEAD_BYTES)
        if begin.startswith(GZIP_MAGIC):
            begin = zlib.decompressobj(wbits=31).decompress(begin, HEAD_BYTES)
    except (OSError, zlib.error):
        return False
    return pattern.match(begin) is not None


@contextmanager
def _one_line(target: str | Location) -> Iterator[None]:
    """Let what the system says about a target be an error of it.

    Raises:
        OutputError: the system says something.
    """
    try:
        yield
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise OutputError(f"{target}: cannot be written: {cause}") from None


def _check_file(target: str | Location, inputs: Collection[Identity | None]) -> None:
    if str(target) == "-":
        return
    path = resolve_location(target)
    if is_remote(path):
        _check_remote_file(path, inputs)
        return
    place = resolve_links(path)
    if place.is_dir():
        raise OutputError(f"{path}: is a folder; name a file")
    if not place.parent.is_dir():
        raise OutputError(f"{path}: its folder does not exist; create it first")
    if _identity(place) in inputs:
        raise OutputError(f"{path}: is an input, and inputs are never overwritten; name another file")
    if place.is_block_device():
        raise OutputError(f"{path}: is a device; name a file")
    if not _is_open_file(place) and place.exists() and not os.access(place, os.W_OK):
        raise OutputError(f"{path}: is write-protected; name another file, or allow writing (chmod u+w)")
    if not is_written_directly(place) and not os.access(place.parent, os.W_OK | os.X_OK):
        raise OutputError(f"{path}: its folder is write-protected; name another folder")


def _check_remote_file(path: RemotePath, inputs: Collection[Identity | None]) -> None:
    _check_store(path)
    if path.address.key.endswith("/") or path.address.is_bucket or _is_known_folder(path):
        raise OutputError(f"{path}: is a folder; name a file")
    if _identity(path) in inputs:
        raise OutputError(f"{path}: is an input, and inputs are never overwritten; name another file")


def _is_known_folder(path: RemotePath) -> bool:
    # Who may write need not be allowed to look; that there is a way to the bucket is known by now.
    with suppress(RemoteError):
        return path.is_dir()
    return False


def _check_store(path: RemotePath) -> None:
    try:
        check_bucket(path.address)
    except LocationError as error:
        raise OutputError(str(error)) from None


def _check_remote_folder(target: RemotePath, inputs: Iterable[Location]) -> None:
    _check_store(target)
    if target.address.is_bucket:
        raise OutputError(f"{target}: cannot be replaced by a new folder; name a folder inside it")
    if target.is_file():
        raise OutputError(f"{target}: is a file; name a folder")
    for path in inputs:
        if is_remote(path) and _is_below(path, target):
            raise OutputError(
                f"{target}: holds {path}, an input, and inputs are never overwritten; name another folder"
            )


def _is_below(path: RemotePath, folder: RemotePath) -> bool:
    return path.address.identity.startswith(f"{folder.address.identity}/")


def check_new_folder(target: Location, inputs: Iterable[Location] = ()) -> None:
    """Refuse a folder that cannot be written anew, before any work is done.

    Raises:
        OutputError: it is a file or holds an input, is write-protected, or its parent does not exist.
    """
    with _one_line(target):
        if is_remote(target):
            _check_remote_folder(target, inputs)
            return
        if target.name in ("", ".."):
            raise OutputError(f"{target}: cannot be replaced by a new folder; name a folder inside it")
        place = resolve_links(target)
        if place.exists() and not place.is_dir():
            raise OutputError(f"{target}: is a file; name a folder")
        if not place.parent.is_dir():
            raise OutputError(f"{target}: its parent folder does not exist; create it first")
        _check_holds_no_input(target, inputs)
        if not all(os.access(item, os.W_OK | os.X_OK) for item in (place.parent, place) if item.exists()):
            raise OutputError(f"{target}: is write-protected; name another folder")
        if place.is_mount():
            raise OutputError(f"{target}: is a mount point; name a folder inside it")


def check_empty_folder(target: Location, inputs: Iterable[Location] = ()) -> None:
    """Reject a folder that is not empty: a new one would replace it.

    Raises:
        OutputError: it holds files, or cannot be written anew.
    """
    check_new_folder(target, inputs)
    if target.is_dir() and any(target.iterdir()):
        raise OutputError(f"{target}: holds files; name a new folder")


def _check_holds_no_input(target: Path, inputs: Iterable[Location]) -> None:
    if (there := _identity(target)) is None:
        return
    outside: set[Path] = set()
    for path in inputs:
        if is_remote(path):
            continue
        # By the name that was given and by where it leads: with the folder either would be gone.
        named = path.absolute()
        folders = {named.parent, Path(os.path.realpath(path if path.is_symlink() else path.parent / "x")).parent}
        for folder in folders - outside:
            if path.exists() and there in map(_identity, (folder, *folder.parents)):
                raise OutputError(
                    f"{target}: holds {path}, an input, and inputs are never overwritten; name another folder"
                )
        outside |= folders


def _check_distinct(one: str | Location, other: str | Location) -> None:
    if _is_same_file(one, other):
        raise UsageError(f"{other}: two outputs have this name; name another file for one of them")


def _check_outside(folder: Location, others: Iterable[str | Location]) -> None:
    """Refuse what would be written into a folder that is written anew."""
    for other in others:
        if str(other) != "-" and _lies_in(resolve_location(other), folder):
            raise UsageError(f"{other}: lies in {folder}, which is replaced; name a place outside it")


def _lies_in(other: Location, folder: Location) -> bool:
    if is_remote(other) or is_remote(folder):
        return is_remote(other) and is_remote(folder) and _is_below(other, folder)
    return Path(os.path.realpath(folder)) in Path(os.path.realpath(other)).parents


def _is_same_file(one: str | Location, other: str | Location) -> bool:
    """Return whether two targets are one file; whatever goes to the null device is nowhere."""
    if str(one) == str(other):
        return str(one) != os.devnull
    if "-" in (str(one), str(other)):
        named = resolve_location(one if str(other) == "-" else other)
        return not is_remote(named) and _identity(resolve_links(named)) in {_identity_of_stdout()} - {None}
    mine, yours = resolve_location(one), resolve_location(other)
    if is_remote(mine) or is_remote(yours):
        return is_remote(mine) and is_remote(yours) and _identity(mine) == _identity(yours)
    mine, yours = resolve_links(mine), resolve_links(yours)
    if there := _identity(mine):
        return there == _identity(yours)
    if yours.exists() or _identity(mine.parent) != _identity(yours.parent):
        return False
    return mine.name == yours.name or _is_same_name(mine.name, yours.name, mine.parent)


def _identity(path: Location) -> Identity | None:
    """Return what makes a file the same under all its names; None if there is nothing."""
    if is_remote(path):
        return path.address.identity
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino)


def _identity_of_stdout() -> Identity | None:
    try:
        found = os.fstat(1)
    except OSError:
        return None
    return None if stat.S_ISCHR(found.st_mode) else (found.st_dev, found.st_ino)


def _is_same_name(one: str, other: str, folder: Path) -> bool:
    """Return whether two names are one file in a folder that ignores case or how letters are composed, by trying."""
    if normalize("NFKC", one).casefold() != normalize("NFKC", other).casefold():
        return False
    with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{one}.", suffix=".part") as tried:
        rest = Path(tried.name).name.removeprefix(f".{one}.")
        return (folder / f".{other}.{rest}").exists()
