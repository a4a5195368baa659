"""Location: where a file is, as a local path or a URL with the same interface over the network.

Code that reads and writes files need not know which of the two it is: :data:`Location` covers both. A URL is
no ``pathlib.Path``, so that nothing of the standard library takes it for the name of some local file. Names that
users or saved graphs give are resolved to locations; many remote files are queried in parallel.
A list of them is a file named ``@FILE``, one a line.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from contextvars import copy_context
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias, TypeVar
from urllib.parse import unquote, urlsplit

from hta_graph.base.errors import HtaGraphError, LocationError
from hta_graph.base.storage.open_local import open_local
from hta_graph.base.storage.remote_files import (
    HTTP,
    RemoteError,
    RemoteFacts,
    Url,
    facts_of,
    glob_files,
    list_folder,
    open_listed,
    open_remote,
    parse_url,
)

if TYPE_CHECKING:
    from typing_extensions import TypeIs


class RemotePath:
    """A file or folder on the network; ``str()`` of it may be shown, ``address`` opens it.

    It has the part of ``pathlib.Path``'s interface that locations need, and nothing else.

    >>> from hta_graph.base.storage.remote_files import parse_url
    >>> path = RemotePath(parse_url("s3://bucket/run/rank0.json.gz"))
    >>> str(path), path.name, path.suffix, str(path.parent / "x")
    ('s3://bucket/run/rank0.json.gz', 'rank0.json.gz', '.gz', 's3://bucket/run/x')
    """

    __slots__ = ("_facts", "address")

    def __init__(self, address: Url, facts: RemoteFacts | None = None) -> None:
        self.address = address
        self._facts = facts

    def __reduce__(self) -> Any:
        return RemotePath, (self.address, self._facts)

    def __str__(self) -> str:
        return self.address.shown

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemotePath) and self.address == other.address

    def __hash__(self) -> int:
        return hash(self.address)

    # Files of both kinds are sorted by their names; of a local path Python asks the other side.
    def __lt__(self, other: Location) -> bool:
        return str(self) < str(other)

    def __gt__(self, other: Location) -> bool:
        return str(self) > str(other)

    def __truediv__(self, name: str | Location) -> RemotePath:
        return type(self)(self.address.child(str(name)))

    @property
    def name(self) -> str:
        """The last part of its name."""
        return self.address.name

    @property
    def suffix(self) -> str:
        """The name's last ending, with its dot."""
        dot = self.name.rfind(".")
        return self.name[dot:] if 0 < dot < len(self.name) - 1 else ""

    @property
    def stem(self) -> str:
        """The name without its last ending."""
        return self.name[: len(self.name) - len(self.suffix)]

    @property
    def parent(self) -> RemotePath:
        """The folder in which it is."""
        return type(self)(self.address.parent)

    @property
    def parents(self) -> tuple[RemotePath, ...]:
        """The folders in which it is, the nearest first."""
        found = [self.parent]
        while found[-1] != found[-1].parent:
            found.append(found[-1].parent)
        return tuple(found)

    @property
    def parts(self) -> tuple[str, ...]:
        """Its server or bucket, and each name below."""
        first, *rest = self.address.key.strip("/").split("/")
        return (f"{self.address.scheme}://{first}", *rest)

    def with_name(self, name: str) -> RemotePath:
        """Return what has another name in the same folder."""
        return self.parent / name

    def is_absolute(self) -> bool:
        """Return true: a URL is always absolute."""
        return True

    def absolute(self) -> RemotePath:
        """Return itself."""
        return self

    def resolve(self) -> RemotePath:
        """Return itself: there are no links."""
        return self

    def expanduser(self) -> RemotePath:
        """Return itself."""
        return self

    def facts(self) -> RemoteFacts:
        """Return what is known of it, and ask only if nothing is.

        Raises:
            FileNotFoundError: there is no such file.
            RemoteError: it cannot be asked.
        """
        if self._facts is None:
            if self.address.key.endswith("/") and self.address.scheme not in HTTP:
                list_folder(self.address)  # what ends so is a folder, if it is at all
                self._facts = RemoteFacts(None, is_folder=True, version="")
            else:
                self._facts = facts_of(self.address)
        return self._facts

    @property
    def version(self) -> str:
        """What changes when its contents do; nothing where that cannot be asked."""
        try:
            return self.facts().version
        except (OSError, HtaGraphError):
            return ""

    def stat(self) -> os.stat_result:
        """Return its size and kind; nothing else of it is known."""
        facts = self.facts()
        kind = stat.S_IFDIR if facts.is_folder else stat.S_IFREG
        return os.stat_result((kind | 0o666, 0, 0, 1, 0, 0, facts.size or 0, 0, 0, 0))

    def exists(self) -> bool:
        """Return whether anything is there."""
        try:
            self.facts()
        except FileNotFoundError:
            return False
        return True

    def is_file(self) -> bool:
        """Return whether it is a file."""
        return self.exists() and not self.facts().is_folder

    def is_dir(self) -> bool:
        """Return whether it is a folder; of a web server there are none."""
        return self.address.scheme not in HTTP and self.exists() and self.facts().is_folder

    def iterdir(self) -> Iterator[RemotePath]:
        """Yield what a folder holds; one request lists all of it.

        Raises:
            NotADirectoryError: it is a file.
        """
        if self.address.scheme in HTTP or not self.facts().is_folder:
            raise NotADirectoryError(20, "is not a folder", str(self))
        for address, facts in list_folder(self.address):
            yield RemotePath(address, facts)

    def glob(self, pattern: str) -> Iterator[RemotePath]:
        """Yield what fits a pattern below it."""
        if self.address.scheme not in HTTP:
            for address, facts in glob_files(self.address.child(pattern)):
                yield RemotePath(address, facts)

    def open(self, mode: Literal["rb"]) -> BufferedReader:
        """Open it for reading bytes."""
        if mode != "rb":  # whatever a type checker would have said
            raise TypeError(f"{self}: can only be opened in binary read mode")
        return open_remote(self.address, self._facts)

    def peek(self) -> BufferedReader:
        """Open it to look at its beginning or end, without asking once more what it is."""
        return open_listed(self.address, self._facts)

    def read_bytes(self) -> bytes:
        """Read all of it."""
        with self.open("rb") as file:
            return file.read()

    def read_text(self, encoding: str = "utf-8") -> str:
        """Read all of it as text."""
        return self.read_bytes().decode(encoding)


class UntrustedPath(RemotePath):
    """A URL found in a saved file: it is shown, and never opened."""

    __slots__ = ()

    def __reduce__(self) -> Any:
        return UntrustedPath, (self.address,)

    def facts(self) -> NoReturn:
        """Refuse to ask.

        Raises:
            RemoteError: always.
        """
        raise RemoteError(self.address, "is only named in a saved graph", "pass the file itself")

    def iterdir(self) -> NoReturn:
        """Refuse to list it.

        Raises:
            RemoteError: always.
        """
        self.facts()

    def glob(self, pattern: str) -> NoReturn:
        """Refuse to look for anything in it.

        Raises:
            RemoteError: always.
        """
        self.facts()

    def open(self, mode: Literal["rb"]) -> NoReturn:
        """Refuse to open it.

        Raises:
            RemoteError: always.
        """
        self.facts()


Location: TypeAlias = Path | RemotePath
"""A file or folder, here or on the network: what has a name and a parent, and can be opened, listed and measured."""


def resolve_location(name: str | Location) -> Location:
    """Return the location a name refers to; a path is returned as it is.

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
        raise LocationError(f"{name}: does not name a file on this machine", "write file:///FOLDER/FILE")
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
    """Return whether a path leads to the network."""
    return isinstance(path, RemotePath)


def open_to_peek(path: Location) -> BufferedReader:
    """Open a file of which only a little will be read."""
    return path.peek() if isinstance(path, RemotePath) else open_local(path)


def name_with_secrets(path: str | Location) -> str:
    """Return the name by which another process finds the same file; of a URL with what is never shown."""
    return path.address.text if isinstance(path, RemotePath) else str(path)


T = TypeVar("T")

PARALLEL_REQUESTS = 16
"""Remote files that are queried at the same time."""


def parallel_map(ask: Callable[[Location], T], paths: Sequence[Location]) -> Iterator[T]:
    """Yield the answer for each path, in their order."""
    if sum(map(is_remote, paths)) < 2:
        yield from map(ask, paths)
        return
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(PARALLEL_REQUESTS)
    try:
        # What is asked knows what memory is allowed where it is asked.
        yield from pool.map(lambda path, context: context.run(ask, path), paths, [copy_context() for _ in paths])
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def prefetch_stats(paths: Sequence[Location]) -> None:
    """Ask what each path of the network is, so that the answers are at hand."""

    def ask(path: Location) -> None:
        # Who needs the answer is told what is wrong with it.
        with suppress(OSError, HtaGraphError):
            path.is_dir()

    for _ in parallel_map(ask, [path for path in paths if is_remote(path)]):
        pass


FILE_LIST_PREFIX = "@"
LONGEST_LIST = 64 << 20


def expand_file_lists(inputs: str | Location | Iterable[str | Location]) -> list[Location]:
    """Return the places that inputs name; ``@FILE`` is a list with one path or URL a line, ``#`` begins a comment.

    Paths in a list are relative to its place. A file whose name begins so is ``./@FILE``.

    Raises:
        LocationError: a list cannot be read, or a line of it names no place.
    """
    listed = [inputs] if isinstance(inputs, (str, Path, RemotePath)) else inputs
    found: list[Location] = []
    for item in listed:
        if isinstance(item, str) and item.startswith(FILE_LIST_PREFIX):
            found += _listed_locations(resolve_location(item.removeprefix(FILE_LIST_PREFIX)))
        else:
            found.append(resolve_location(item))
    return found


def _listed_locations(manifest: Location) -> list[Location]:
    found = []
    for number, line in enumerate(_text_of(manifest).splitlines(), start=1):
        name = line.strip()
        if name and not name.startswith("#"):
            found.append(_listed_location(manifest, number, name))
    if not found:
        raise LocationError(f"{manifest}: lists no files", "write one path or URL per line")
    return found


def _text_of(manifest: Location) -> str:
    try:
        if manifest.stat().st_size > LONGEST_LIST:
            raise LocationError(f"{manifest}: is too long for a list of files", "write one path or URL per line")
        return manifest.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise LocationError(
            f"{manifest}: the list of files does not exist", f"to name a file, write ./@{manifest.name}"
        ) from None
    except OSError as error:
        raise LocationError(f"{manifest}: the list cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise LocationError(
            f"{manifest}: is not a list of files: it is not text", "write one path or URL per line"
        ) from None


def _listed_location(manifest: Location, number: int, name: str) -> Location:
    """Return what a line names.

    Raises:
        LocationError: it names another list, or a local file from a remote list.
    """
    if "\0" in name or name.startswith(FILE_LIST_PREFIX):
        cause = "names another list" if name.startswith(FILE_LIST_PREFIX) else "this is not a valid file name"
        raise LocationError(f"{manifest}: line {number}: {cause}", "write one path or URL per line")
    try:
        place = resolve_location(name)
    except LocationError as error:
        raise LocationError(f"{manifest}: line {number}: {error}") from None
    if is_remote(place):
        return place
    # Who puts a list on the network does not choose files of this machine.
    if is_remote(manifest) and (place.is_absolute() or "://" in name):
        raise LocationError(
            f"{manifest}: line {number}: names a file on this machine", "a remote list can only name remote files"
        )
    return manifest.parent / (name if is_remote(manifest) else place)
