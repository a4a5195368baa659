"""Questions about many files: those on the network are waited for together, since each is little but waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from contextvars import copy_context
from typing import TypeVar

from hta_graph.errors import HtaGraphError
from hta_graph.storage.location import Location
from hta_graph.storage.named_places import is_remote

__all__ = ["prefetch_stats", "parallel_map"]

T = TypeVar("T")

PARALLEL_REQUESTS = 16
"""So many files are asked about at the same time."""


def parallel_map(ask: Callable[[Location], T], paths: Sequence[Location]) -> Iterator[T]:
    """Yield the answer for each path, in their order."""
    if sum(map(is_remote, paths)) < 2:
        yield from map(ask, paths)
        return
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(PARALLEL_REQUESTS)
    try:
        # What is asked knows what memory is allowed where it is asked.
        yield from pool.map(lambda path, context: context.run(ask, path), paths, [copy_context() for _ in paths])
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def prefetch_stats(paths: Sequence[Location]) -> None:
    """Ask what each path of the network is, so that the answers are at hand."""

    def ask(path: Location) -> None:
        # Who needs the answer is told what is wrong with it.
        with suppress(OSError, HtaGraphError):
            path.is_dir()

    for _ in parallel_map(ask, [path for path in paths if is_remote(path)]):
        pass
