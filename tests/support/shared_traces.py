"""The shared real traces beside the checkout: where they are, and which of them are quick to read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(os.environ.get("HTA_GRAPH_SHARED", Path(__file__).parents[3] / "shared"))
QUICK_BYTES = 100_000
"""A compressed trace up to this size is read and questioned in tenths of a second."""


def shared_traces() -> list[Path]:
    """Return the shared real traces; empty where the folder is absent."""
    files = sorted((SHARED / "traces").rglob("*.json.gz")) if SHARED.is_dir() else []
    return [path for path in files if not path.name.startswith("host_et")]


def is_quick(path: Path) -> bool:
    """Say whether a trace, or all of a folder's together, are small enough for the quick run."""
    files = [path] if path.is_file() else list(path.rglob("*.gz"))
    return sum(file.stat().st_size for file in files) <= QUICK_BYTES


def by_size(traces: Iterable[Any], path_of: Any = lambda item: item) -> Iterator[Any]:
    """Yield the values of a parameter, those that stand for a large trace marked ``slow``."""
    for item in traces:
        yield item if is_quick(path_of(item)) else pytest.param(item, marks=pytest.mark.slow)


def folders_by_size(names: Iterable[str]) -> list[Any]:
    """Return the names of folders of traces as the values of a parameter, those of large traces marked ``slow``."""
    return list(by_size(names, (SHARED / "traces").joinpath))
