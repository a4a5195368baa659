"""What graphviz' program ``dot`` makes of a picture's text."""

from __future__ import annotations

import subprocess
from pathlib import Path

import graphviz

from hta_graph.errors import MissingProgramError, OutputError

__all__ = ["run_dot"]


def run_dot(source: str, form: str, target: str | Path) -> bytes:
    """Render a text as ``svg`` or ``png``; ``target`` is what an error names.

    Raises:
        MissingProgramError: ``dot`` is not installed.
        OutputError: it failed.
    """
    try:
        picture: bytes = graphviz.pipe("dot", form, source.encode(), quiet=True)
    except graphviz.ExecutableNotFound:
        raise MissingProgramError from None
    except subprocess.CalledProcessError as error:
        output = bytes(error.stderr or b"").decode(errors="replace")
        raise OutputError(f"{target}: dot failed: {output or error.returncode}") from None
    return picture
