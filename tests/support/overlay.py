"""A trace with a path on top, as the bytes that are written."""

from __future__ import annotations

from hta_graph.export.perfetto.path_overlay import ARROW_LIMIT, _start_overlay
from hta_graph.paths.critical_path import CriticalPath


def overlay_bytes(path: CriticalPath, *, arrows: int = ARROW_LIMIT) -> bytes:
    return b"".join(_start_overlay(path, arrows)[0])
