"""The one seam behind which rank files are read: by this process, by processes of this machine, by Dask's workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol, Self

from hta_graph.errors import HtaGraphError, TooLargeError
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.multi_rank.rank_request import RankQuestion
from hta_graph.multi_rank.waiting import wait_for_one
from hta_graph.trace.rank_files import RankFile

__all__ = ["GraphOrError", "Reading", "ReadingEngine", "take_answers"]

GraphOrError = DependencyGraph | HtaGraphError


@dataclass
class Reading:
    """A file that is read; its graph, or why there is none, once that is known."""

    file: RankFile
    answer: GraphOrError | None = None
    future: Future[Any] | None = None
    """What an engine gives its answer by."""
    memory: int | None = None
    """How much it may take (bytes), if that is less than a file that is read alone may."""

    @property
    def deserves_more(self) -> bool:
        """Whether the file needs more than it was given, and can be given more when it is read alone."""
        return self.memory is not None and isinstance(self.answer, TooLargeError)


class ReadingEngine(Protocol):
    """Reads files; whatever still runs ends with the ``with`` block."""

    def read(self, file: RankFile, asked: RankQuestion, *, memory: int | None) -> Reading:
        """Begin to read a file, with so much memory (bytes)."""

    def wait(self, readings: Iterable[Reading]) -> None:
        """Wait until at least one file is read, and note the answers."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def take_answers(readings: Iterable[Reading]) -> Iterator[tuple[Reading, Any]]:
    """Wait until at least one future is done, and yield each file that was read with what came."""
    running = {reading.future: reading for reading in readings if reading.future}
    for future in wait_for_one(running):
        reading = running[future]
        reading.future = None
        yield reading, future.result()
