"""Outputs are written whole or not at all: to a temporary neighbour, then renamed."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

from hta_graph.errors import OutputError

__all__ = ["check_output", "printable", "to_json", "write_file"]


def to_json(document: Any) -> bytes:
    """Encode a document; NumPy arrays and scalars become lists and numbers."""
    return orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE)


def printable(path: Path) -> str:
    """Return a path as text that can be encoded; file names need not be UTF-8."""
    return os.fsencode(path).decode("utf-8", "replace")


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


def write_file(target: str | Path, content: bytes) -> None:
    """Write a file, or to standard output for ``-``.

    Raises:
        OutputError: the file cannot be written; an earlier one is left as it was.
    """
    if str(target) == "-":
        _write_standard_output(content)
        return
    path = Path(target)
    check_output(path, [])
    if path.exists() and not path.is_file():
        _write_special(path, content)
        return
    _replace(path, content)


def _write_standard_output(content: bytes) -> None:
    try:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"standard output: cannot be written: {error.strerror or error}") from None


def _replace(path: Path, content: bytes) -> None:
    temporary: str | None = None
    try:
        handle, temporary = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name[:100]}.", suffix=".part")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(temporary).chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        Path(temporary).replace(path)
        temporary = None
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        if temporary:
            Path(temporary).unlink(missing_ok=True)


def _write_special(path: Path, content: bytes) -> None:
    """Write to a device or pipe, which cannot be replaced by renaming."""
    try:
        with path.open("wb") as file:
            file.write(content)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
