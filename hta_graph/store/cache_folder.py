"""The folder of the cache: private, bounded, and shared by any number of processes; safe to delete at any time.

Whatever is wrong with it, a question is answered from the trace; a line reports it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

from hta_graph.base.errors import OutputError
from hta_graph.base.storage.location import is_remote, resolve_location
from hta_graph.store.entry_file import MAGIC, DamagedEntryError, Entry, entry_pieces, read_entry, read_head

ENVIRONMENT_VARIABLE = "HTA_GRAPH_CACHE"
OFF = "off"
"""The value of the environment variable that turns the cache off."""
MOST_BYTES = 4 * 10**9
"""What the folder may take; what was not used for the longest time goes first."""
BYTES_BETWEEN_TRIMS = 64 << 20
"""So much is written before the folder is measured again."""
HEAD_BYTES = 1 << 16
"""The beginning of an entry in which its head is looked for before more of it is read."""
ENTRY_NAME = re.compile(r"[0-9a-f]{40}\.hta-graph")
UNFINISHED_NAME = re.compile(r"\.[0-9a-f]{40}\.hta-graph\.[0-9a-f]{16}\.part")
ABANDONED_S = 3_600
"""An unfinished entry that is older (s) is left by a killed process."""
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True)
class EntryFile:
    """An entry's file: its size (bytes), when it was last used (s since 1970), and what its head says."""

    path: Path
    size: int
    used_s: float

    def record(self) -> dict[str, Any]:
        """Return the record in the entry's head; empty where it cannot be read."""
        with suppress(OSError, DamagedEntryError, KeyError), self.path.open("rb") as file:
            begin = file.read(HEAD_BYTES)
            with suppress(DamagedEntryError):
                return dict(read_head(begin)["record"])
            return dict(read_head(begin + file.read())["record"])
        return {}


def default_cache_folder() -> Path | None:
    """Return the user's cache folder for graphs; None where it is turned off, or where the user has none."""
    named = os.environ.get(ENVIRONMENT_VARIABLE)
    if named is not None:
        return None if named in ("", OFF) else Path(named).absolute()
    from platformdirs import user_cache_path  # late: who names a folder needs none

    found = user_cache_path("hta-graph", appauthor=False)
    return found if found.is_absolute() else None


def _open_file(place: Path | str) -> int | None:
    """Open a regular file; None where there is none. A pipe would keep its reader waiting, a link lead elsewhere."""
    try:
        handle = os.open(place, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    return None


def _begins_as_entry(place: str) -> bool:
    """Return whether a file begins as entries do, or is still empty."""
    if (handle := _open_file(place)) is None:
        return False
    with os.fdopen(handle, "rb") as file:
        return file.read(len(MAGIC)) in (MAGIC, b"")


def local_folder(name: str | Path) -> Path:
    """Return the folder that a user names for the cache.

    Raises:
        OutputError: it is not one of this machine.
    """
    folder = resolve_location(name)
    if is_remote(folder):
        raise OutputError(f"{name}: not a local folder; name one for the cache")
    return folder


class CacheFolder:
    """The entries of a folder, by name.

    Args:
        path: the folder; it is made when something is written.
        say: is called with a line about what is wrong, once for each cause.
        most_bytes: what it may take.
    """

    def __init__(self, path: Path, say: Callable[[str], None], most_bytes: int = MOST_BYTES) -> None:
        self.path = path
        self.most_bytes = most_bytes
        self._say = say
        self._said: set[str] = set()
        self._takes_nothing = False
        self._since_trim = BYTES_BETWEEN_TRIMS

    def read(self, name: str, of: str) -> Entry | None:
        """Return an entry; None where there is none, or none that holds what was written.

        ``of`` is what a line about a damaged one names.
        """
        place = self._place(name)
        if self._is_refused():
            return None
        if (handle := _open_file(place)) is None:
            return None
        try:
            entry = read_entry(name, mmap(handle, 0, access=ACCESS_READ))
        except (DamagedEntryError, ValueError, KeyError, TypeError, OverflowError, RecursionError, OSError):
            self.discard(name, of)
            return None
        finally:
            os.close(handle)
        with suppress(OSError):
            os.utime(place)
        return entry

    def discard(self, name: str, of: str) -> None:
        """Take a damaged entry away, and say that the trace is read instead."""
        self._say_once(f"{of}: its entry in the cache is damaged; reading the trace instead")
        with suppress(OSError):
            self._place(name).unlink()

    def has(self, name: str) -> bool:
        """Return whether there is an entry, whatever it holds."""
        return os.path.isfile(self._place(name))  # noqa: PTH113 - of a name that is too long, too

    def write(self, name: str, entry: Entry) -> None:
        """Write an entry, whole or not at all; where that is impossible a line reports it."""
        from hta_graph.base.errors import HtaGraphError
        from hta_graph.base.storage.atomic_write import write_file  # late: a cached question writes nothing

        place = self._place(name)
        if self._takes_nothing or self._is_refused():
            return
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._is_refused():  # another process may have made it meanwhile
                return
            if place.is_symlink():
                place.unlink()
            elif place.exists() and not place.is_file():
                self._takes_nothing = True
                self._say_without_cache(f"{place.name} is no file; remove it")
                return
            write_file(place, entry_pieces(name, entry), mode=0o600)
            with suppress(FileNotFoundError):  # cleared at this moment
                self._since_trim += place.stat().st_size
        except OSError as error:
            self._takes_nothing = True
            self._say_without_cache(f"cannot be written: {error.strerror or error}")
        except HtaGraphError as error:
            self._takes_nothing = True
            self._say_without_cache(str(error).removeprefix(f"{place}: "))
        if self._since_trim >= BYTES_BETWEEN_TRIMS:
            self._since_trim = 0
            self.trim()

    def entries(self) -> list[EntryFile]:
        """List the entries, the one first that was not used for the longest time."""
        found = [
            EntryFile(Path(item.path), status.st_size, status.st_mtime) for item, status in self._files(ENTRY_NAME)
        ]
        return sorted(found, key=lambda entry: (entry.used_s, entry.path.name))

    def trim(self) -> None:
        """Remove what was not used for the longest time, as long as the folder takes more than it may."""
        entries = self.entries()
        size = sum(entry.size for entry in entries)
        for entry in entries:
            if size <= self.most_bytes:
                break
            with suppress(OSError):
                entry.path.unlink()
            size -= entry.size
        self._remove_unfinished()

    def clear(self) -> tuple[int, int]:
        """Remove all files that are entries; return how many there were and their size (bytes).

        Raises:
            OSError: one cannot be removed.
        """
        count = size = 0
        for entry in self.entries():
            with suppress(FileNotFoundError):  # another process was faster
                entry.path.unlink()
                count, size = count + 1, size + entry.size
        self._remove_unfinished()
        return count, size

    def _remove_unfinished(self) -> None:
        """Remove what killed programs left."""
        from time import time

        for item, status in self._files(UNFINISHED_NAME):
            if time() - status.st_mtime > ABANDONED_S:
                with suppress(OSError):
                    Path(item.path).unlink()

    def _files(self, named: re.Pattern[str]) -> Iterator[tuple[os.DirEntry[str], os.stat_result]]:
        """Yield the files of some name that begin as entries do: what others put there stays."""
        with suppress(OSError), os.scandir(self.path) as found:
            for item in found:
                with suppress(OSError):
                    status = item.stat(follow_symlinks=False)
                    if named.fullmatch(item.name) and stat.S_ISREG(status.st_mode) and _begins_as_entry(item.path):
                        yield item, status

    def _place(self, name: str) -> Path:
        return self.path / f"{name}.hta-graph"

    def _is_refused(self) -> bool:
        """Return whether others may have written what lies in the folder."""
        if os.name != "posix":
            return False
        try:
            found = self.path.stat()
        except OSError:
            return False
        if found.st_uid != os.geteuid():
            self._say_without_cache("belongs to another user")
            return True
        if found.st_mode & OTHERS_WRITE:
            self._say_without_cache("can be written by other users; chmod go-w makes it usable")
            return True
        return False

    def _say_without_cache(self, cause: str) -> None:
        self._say_once(f"cache folder {self.path}: {cause}; continuing without it")

    def _say_once(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            self._say(line)
