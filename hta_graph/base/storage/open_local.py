"""Local files are opened to be read; a process that serves a folder to others opens nothing outside of it.

Between a look at a path and its opening, others can put a link in its place. So a process with :data:`ONLY_BELOW` in
its environment, and each one that it starts, walks to a file folder by folder without following links, and reads the
regular file that it arrives at, whatever the name leads to later.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from errno import EACCES, EINVAL
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from sqlite3 import Connection

ONLY_BELOW = "HTA_GRAPH_ONLY_BELOW"
"""The environment variable that names the one folder whose files are opened, without links in its name."""


def open_local(path: Path) -> BufferedReader:
    """Open a file to read it.

    Raises:
        OSError: it cannot be opened, or is not a regular file of the one folder that is served.
    """
    return open(path, "rb", opener=_open_below if ONLY_BELOW in os.environ else None)


def _open_below(path: str, _: int) -> int:
    root = os.environ[ONLY_BELOW]
    try:
        *folders, name = Path(os.path.realpath(path)).relative_to(root).parts
    except ValueError:
        raise PermissionError(EACCES, "it leads out of the served folder") from None
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for folder in folders:
            inner = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = inner
        # Without waiting: a pipe may stand there by now.
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(EINVAL, "it is not a regular file")
    return file


def open_database(path: Path) -> Connection:
    """Open an SQLite database to read it.

    Raises:
        OSError: as :func:`open_local`.
        sqlite3.Error: it cannot be opened.
    """
    import sqlite3  # late: few inputs are databases

    name = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
    if ONLY_BELOW not in os.environ:
        return sqlite3.connect(name, uri=True)
    with open_local(path) as file:
        # SQLite opens by name, and what it opens gets the lowest free number: that must be the same file.
        number = os.dup(file.fileno())
        os.close(number)
        database = sqlite3.connect(name, uri=True)
        with suppress(OSError):
            if os.path.samestat(os.fstat(number), os.fstat(file.fileno())):
                return database
        database.close()
        raise PermissionError(EACCES, "it has been replaced")
