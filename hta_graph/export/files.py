"""Outputs are written whole or not at all: to a temporary neighbour, then renamed."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hta_graph.errors import OutputError
from hta_graph.printable import printable_lines

__all__ = ["check_output", "new_folder", "write_file"]


def check_output(target: str | Path, inputs: Iterable[Path]) -> None:
    """Refuse an output that is one of the inputs, before any work is done.

    Raises:
        OutputError: the output is an input or a folder, or its folder does not exist.
    """
    if str(target) == "-":
        return
    path = Path(target)
    try:
        if path.is_dir():
            raise OutputError(f"{path}: is a folder; name a file")
        if not path.absolute().parent.is_dir():
            raise OutputError(f"{path}: its folder does not exist; make it first")
        if path.exists() and any(item.exists() and item.samefile(path) for item in inputs):
            raise OutputError(f"{path}: is an input, which is never overwritten; name another file")
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None


def write_file(target: str | Path, content: bytes | Iterable[bytes]) -> None:
    """Write a file from one or many pieces, or to standard output for ``-``.

    Raises:
        OutputError: the file cannot be written; an earlier one is left as it was.
    """
    pieces = [content] if isinstance(content, bytes) else content
    if str(target) == "-":
        _write_standard_output(pieces)
        return
    path = Path(target)
    check_output(path, [])
    if path.exists() and not path.is_file():
        _write_special(path, pieces)
        return
    _write_and_replace(path, pieces)


def _write_standard_output(pieces: Iterable[bytes]) -> None:
    # A terminal would obey what a file or a pipe gets as it is.
    shown = [printable_lines(b"".join(pieces).decode("utf-8", "replace")).encode()] if sys.stdout.isatty() else pieces
    try:
        sys.stdout.buffer.writelines(shown)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"standard output: cannot be written: {error.strerror or error}") from None


def _write_and_replace(path: Path, pieces: Iterable[bytes]) -> None:
    temporary: str | None = None
    try:
        # Beside the target, so that the last step is a rename within one file system: whole or not at all.
        handle, temporary = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name[:100]}.", suffix=".part")
        with os.fdopen(handle, "wb") as file:
            file.writelines(pieces)
        Path(temporary).chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_current_umask())
        Path(temporary).replace(path)
        temporary = None
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        if temporary:
            Path(temporary).unlink(missing_ok=True)


def _write_special(path: Path, pieces: Iterable[bytes]) -> None:
    """Write to a device or pipe, which cannot be replaced by renaming."""
    try:
        with path.open("wb") as file:
            file.writelines(pieces)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None


def _current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Give an empty folder to fill, of the target's name; it takes the target's place when the block ends well.

    Raises:
        OutputError: it cannot be written; what stood there is left as it was.
    """
    try:
        # Where the target is a link, the folder that it leads to is replaced.
        place = target.resolve()
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name[:100]}.") as scratch:
            new = Path(scratch, "new", place.name)
            new.mkdir(parents=True)
            yield new
            _swap_folders(new, place, Path(scratch, "old"))
    except OSError as error:
        raise OutputError(f"{target}: cannot be written: {error.strerror or error}") from None


def _swap_folders(new: Path, target: Path, old: Path) -> None:
    # A folder cannot be replaced in one step: between two renames on one disk the earlier one has another name, and
    # comes back if the second fails. At no moment is there half a folder.
    if target.exists():
        target.rename(old)
    try:
        new.rename(target)
    except BaseException:
        if old.exists():
            old.rename(target)
        raise
