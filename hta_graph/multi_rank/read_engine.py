"""The one seam behind which rank files are read (here, worker processes, Dask), and how much memory that takes."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from hta_graph.base.arrays import Columns, column_types
from hta_graph.base.errors import HtaGraphError, TooLargeError
from hta_graph.base.memory import available_memory
from hta_graph.base.storage.location import Location, parallel_map
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.multi_rank.rank_request import RankRequest
from hta_graph.trace.header import text_size
from hta_graph.trace.memory_limit import PEAK_OF_A_PROCESS, PEAK_PER_TEXT
from hta_graph.trace.rank_files import RankFile

if TYPE_CHECKING:
    from concurrent.futures import Future

SIGNAL_POLL_S = 0.1


def wait_for_any(futures: Collection[Future[Any]]) -> set[Future[Any]]:
    """Wait until at least one future is done, and return those that are."""
    from concurrent.futures import FIRST_COMPLETED, wait  # late: one file needs none, and they load much

    # A signal that arrives just before a wait without end begins is heard only when that ends.
    while True:
        done = wait(futures, SIGNAL_POLL_S, FIRST_COMPLETED).done
        if done:
            return done


MARGIN = 1.25
"""A text may be longer than it is likely to be: one that takes still more is read a second time, alone."""
SHARE = 0.6
"""How much of the memory that is available may be used, if nothing else is said."""


def peak_bytes(*paths: Location) -> int:
    """Estimate how much memory a process takes at most that reads files, builds their graphs and holds them all."""
    return PEAK_OF_A_PROCESS + int(MARGIN * PEAK_PER_TEXT * sum(parallel_map(text_size, paths)))


def processor_count() -> int:
    """Return how many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def memory_share() -> int:
    """Return how many bytes may be used: a share of what the machine has left, or of the container's limit."""
    return int(SHARE * available_memory())


def graph_bytes(graph: DependencyGraph) -> int:
    """Return how many bytes a graph's columns take."""
    trace = graph.trace
    tables: list[Any] = [getattr(trace, f.name) for f in fields(trace)] + [graph.edge_table, graph.wait_calls]
    columns = [getattr(table, name) for table in tables for name in _column_names(table)]
    return sum(column.nbytes for column in columns if isinstance(column, np.ndarray))


def _column_names(table: Any) -> Iterable[str]:
    # What was taken of a table gets its columns when they are asked for.
    return column_types(type(table)) if isinstance(table, Columns) else getattr(table, "__dict__", {})


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
