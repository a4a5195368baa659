"""The one seam behind which rank files are read: by this process, by processes of this machine, by Dask's workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol, Self

from hta_graph.errors import HtaGraphError, TooLargeError
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.multi_rank.rank_request import RankRequest
from hta_graph.multi_rank.waiting import wait_for_any
from hta_graph.trace.rank_files import RankFile

__all__ = ["GraphOrError", "RankReading", "ReadEngine", "take_finished"]

GraphOrError = DependencyGraph | HtaGraphError


@dataclass
class RankReading:
    """A file that is read; its graph, or why there is none, once that is known."""

    file: RankFile
    answer: GraphOrError | None = None
    future: Future[Any] | None = None
    """What an engine gives its answer by."""
    memory: int | None = None
    """How much it may take (bytes), if that is less than a file that is read alone may."""

    @property
    def needs_more_memory(self) -> bool:
        """Whether the file needs more than it was given, and can be given more when it is read alone."""
        return self.memory is not None and isinstance(self.answer, TooLargeError)


class ReadEngine(Protocol):
    """Reads files; whatever still runs ends with the ``with`` block."""

    def read(self, file: RankFile, asked: RankRequest, *, memory: int | None) -> RankReading:
        """Begin to read a file, with so much memory (bytes)."""

    def wait(self, readings: Iterable[RankReading]) -> None:
        """Wait until at least one file is read, and note the answers."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def take_finished(readings: Iterable[RankReading]) -> Iterator[tuple[RankReading, Any]]:
    """Wait until at least one future is done, and yield each file that was read with what came."""
    running = {reading.future: reading for reading in readings if reading.future}
    for future in wait_for_any(running):
        reading = running[future]
        reading.future = None
        yield reading, future.result()
