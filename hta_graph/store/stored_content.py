"""What a file holds, as a hash of its stored bytes: by this, and never by its name or times, entries are found."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from hta_graph.base.storage.open_local import open_local

DIGEST_BYTES = 20
PIECE = 1 << 20
OTHER_PARTS = ("-wal", "-journal")
"""What is appended to the name of a database for the file that has rows of it, too."""
SETTLED_NS = 10 * 10**9
"""A file that was changed so long ago would get other times by a change now: clocks of file systems are coarse."""


@dataclass(frozen=True)
class FileVersion:
    """What changes when a file is replaced or written to."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, found: os.stat_result) -> FileVersion:
        """Return the version that a file's status shows."""
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    @property
    def is_settled(self) -> bool:
        """Whether the file is old enough for a change after now to show."""
        # Only POSIX's ctime cannot be set by programs.
        age_ns = time.time_ns() - max(self.mtime_ns, self.ctime_ns)
        return os.name == "posix" and age_ns > SETTLED_NS

    @property
    def name(self) -> str:
        """A name for what is known of this version."""
        numbers = (self.device, self.inode, self.size, self.mtime_ns, self.ctime_ns)
        return blake2b(repr(numbers).encode(), digest_size=DIGEST_BYTES).hexdigest()


@dataclass(frozen=True)
class StoredContent:
    """The hash of a file's bytes, the version in which it has them, and whether a later change would show."""

    digest: str
    version: FileVersion
    is_settled: bool


def stored_content(path: Path, known: Callable[[FileVersion], str | None] = lambda _: None) -> StoredContent | None:
    """Return what a file holds; None of what is no regular file, cannot be read, or is being written.

    A database whose rows are partly in another file is being written.

    ``known`` returns the noted hash of a settled version, if there is one: then the file is not read.
    """
    with suppress(OSError, ValueError):  # a name with a null character is a ValueError
        # Of a pipe nothing may be taken.
        if not stat.S_ISREG(path.stat().st_mode) or any(Path(f"{path}{ending}").exists() for ending in OTHER_PARTS):
            return None
        with open_local(path) as file:
            version = FileVersion.of(os.fstat(file.fileno()))
            is_settled = version.is_settled
            if is_settled and (digest := known(version)):
                return StoredContent(digest, version, is_settled)
            found = blake2b(digest_size=DIGEST_BYTES)
            while piece := file.read(PIECE):
                found.update(piece)
            if FileVersion.of(os.fstat(file.fileno())) == version:
                return StoredContent(found.hexdigest(), version, is_settled)
    return None


def is_unchanged(path: Path, before: StoredContent) -> bool:
    """Return whether a file still holds what it held before it was read: what was read then is of that content."""
    with suppress(OSError):
        if FileVersion.of(path.stat()) != before.version:
            return False
        if before.is_settled:
            return True
        # Two changes shortly after each other may leave the same times.
        now = stored_content(path)
        return now is not None and (now.digest, now.version) == (before.digest, before.version)
    return False
