"""The shared real traces beside the checkout: where they are, and which of them are quick to read."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import hta_graph as hg

SHARED = Path(os.environ.get("HTA_GRAPH_SHARED", Path(__file__).parents[3] / "shared"))
QUICK_BYTES = 200_000
"""Compressed traces up to this size are read and questioned in tenths of a second."""


def shared_traces() -> list[Path]:
    """Return the shared real traces; empty where the folder is absent."""
    files = sorted((SHARED / "traces").rglob("*.json.gz")) if SHARED.is_dir() else []
    return [path for path in files if not path.name.startswith("host_et")]


@cache
def compressed_bytes(path: Path) -> int:
    """Return the size of a trace, or of all that are in a folder; 0 where there is none."""
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*.gz"))


def is_large_trace(value: object) -> bool:
    """Say whether a test's parameter is the path of a large trace, or names a folder of the shared ones that is large.

    >>> is_large_trace(7), is_large_trace(("no trace", "none either")), is_large_trace(Path("absent.json.gz"))
    (False, False, False)
    """
    if isinstance(value, tuple):
        return any(map(is_large_trace, value))
    if isinstance(value, str) and value:
        value = SHARED / "traces" / value.split("/")[0]
    return isinstance(value, Path) and compressed_bytes(value) > QUICK_BYTES


@cache
def is_further_rank(value: object) -> bool:
    """Say whether a test's parameter is the path of a shared trace before which another rank of its job stands."""
    return isinstance(value, Path) and any(path.parent == value.parent for path in _ahead_of(value))


def _ahead_of(path: Path) -> list[Path]:
    traces = shared_traces()
    return traces[: traces.index(path)] if path in traces else []


def graph_of_file(path: Path) -> hg.DependencyGraph:
    """Build a shared trace's graph; that of a small one once for all tests, since nobody can change it."""
    return hg.build_graph(hg.read_trace(path)) if is_large_trace(path) else _graph_of_small_file(path)


@cache
def _graph_of_small_file(path: Path) -> hg.DependencyGraph:
    return hg.build_graph(hg.read_trace(path))
