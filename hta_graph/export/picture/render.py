"""Pictures → files: the text for ``dot``, or what ``dot`` makes of it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import graphviz

from hta_graph.errors import MissingProgramError, OutputError, UsageError
from hta_graph.export.files import write_file
from hta_graph.export.picture.drawing import Picture

__all__ = ["check_picture", "write_picture"]

FORMATS = {".dot": "dot", ".gv": "dot", ".svg": "svg", ".png": "png"}
"""What a picture can be written as, by the file's suffix."""


def check_picture(target: str | Path) -> None:
    """Refuse a file that no picture can be written to, before any work is done.

    Raises:
        UsageError: the suffix is unknown.
        MissingProgramError: the format needs ``dot``, which is not installed.
    """
    if _format(target) != "dot" and shutil.which("dot") is None:
        raise MissingProgramError


def write_picture(picture: Picture, target: str | Path) -> None:
    """Write a picture in the format that the file's suffix names; ``-`` prints the text for ``dot``.

    Raises:
        UsageError: the suffix is unknown.
        MissingProgramError: the format needs ``dot``, which is not installed.
        OutputError: the file cannot be written, or ``dot`` failed.
    """
    check_picture(target)
    write_file(target, _rendered(picture.source, _format(target), target))


def _format(target: str | Path) -> str:
    if str(target) == "-":
        return "dot"
    suffix = Path(target).suffix.lower()
    if suffix not in FORMATS:
        raise UsageError(f"{target}: a picture's name ends in {', '.join(FORMATS)}")
    return FORMATS[suffix]


def _rendered(source: str, form: str, target: str | Path) -> bytes:
    if form == "dot":
        return source.encode()
    try:
        rendered: bytes = graphviz.pipe("dot", form, source.encode(), quiet=True)
    except graphviz.ExecutableNotFound:
        raise MissingProgramError from None
    except subprocess.CalledProcessError as error:
        said = bytes(error.stderr or b"").decode(errors="replace")
        raise OutputError(f"{target}: dot failed: {said or error.returncode}") from None
    return rendered
