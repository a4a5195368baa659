"""What is read of a rank's file, and the one seam behind which: here, in worker processes, on Dask; its memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from hta_graph.base.arrays import Columns, column_types
from hta_graph.base.errors import HtaGraphError, TooLargeError
from hta_graph.base.memory import available_memory
from hta_graph.base.storage.location import Location, parallel_map
from hta_graph.build.from_trace import build_without_log
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.trace.decompress import cached_text
from hta_graph.trace.header import text_size
from hta_graph.trace.memory_limit import PEAK_OF_A_PROCESS, PEAK_PER_TEXT
from hta_graph.trace.rank_files import RankFile
from hta_graph.trace.read import read_rank
from hta_graph.trace.table import Trace

if TYPE_CHECKING:
    from concurrent.futures import Future

    from hta_graph.multi_rank.summary.critical_paths import ExcerptRequest
    from hta_graph.multi_rank.summary.summarize import SummaryRequest
    from hta_graph.multi_rank.what_if.rank_replay import ReplayRequest


@dataclass(frozen=True)
class RankRequest:
    """What is read of a rank's file: its whole graph, a summary of it, an excerpt, or what its job's replay needs.

    ``salvage``: the complete events of a truncated file are read. ``communications``: what the rank did with others
    is read too, while the text is at hand. ``step_patterns`` are regular expressions of annotations that are steps.
    ``ignore_records``: dependencies are inferred, whatever recorders say of them.
    """

    salvage: bool = False
    communications: bool = False
    summary: SummaryRequest | None = None
    excerpt: ExcerptRequest | None = None
    replay: ReplayRequest | None = None
    step_patterns: tuple[str, ...] = ()
    ignore_records: bool = False

    def as_record(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "salvage": self.salvage,
            "communications": self.communications,
            "summary": self.summary and asdict(self.summary),
            "excerpt": self.excerpt and self.excerpt.as_record(),
            "replay": self.replay and self.replay.as_record(),
            "step_patterns": list(self.step_patterns),
            "ignore_records": self.ignore_records,
        }

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> RankRequest:
        """Undo :meth:`as_record`."""
        from hta_graph.multi_rank.summary.critical_paths import ExcerptRequest  # late, as below
        from hta_graph.multi_rank.summary.summarize import SummaryRequest

        few, more = record["summary"], record["excerpt"]
        replay = None
        if record["replay"]:
            from hta_graph.multi_rank.what_if.rank_replay import ReplayRequest

            replay = ReplayRequest.of_record(record["replay"])
        return cls(
            record["salvage"],
            record["communications"],
            few and SummaryRequest.of_record(few),
            more and ExcerptRequest.of_record(more),
            replay,
            tuple(record["step_patterns"]),
            record["ignore_records"],
        )

    def of_trace(self, trace: Trace) -> Trace:
        """Return a trace as requested: with further names of steps, or without the records of waits."""
        trace = trace.without_records() if self.ignore_records else trace
        return replace(trace, step_patterns=self.step_patterns)


def read_rank_graph(file: RankFile, asked: RankRequest) -> DependencyGraph:
    """Build the graph of a rank's file, or the requested part of it.

    Raises:
        HtaGraphError: the file cannot be read.
    """
    return build_rank_graph(lambda: read_rank(file, salvage=asked.salvage), asked)


def build_rank_graph(read: Callable[[], Trace], asked: RankRequest) -> DependencyGraph:
    """Build the graph of what is read, or the requested part of it.

    Raises:
        HtaGraphError: the file cannot be read.
    """
    if not (asked.communications or asked.summary or asked.excerpt or asked.replay):
        return build_without_log(asked.of_trace(read()))
    from hta_graph.multi_rank.matching.read_communications import read_communications  # late: one rank needs none

    with cached_text():
        graph = build_without_log(asked.of_trace(read()))
        graph = graph.with_attached(read_communications(graph))
        if asked.summary:
            from hta_graph.multi_rank.summary.summarize import summarize_rank

            return summarize_rank(graph, asked.summary)
        if asked.replay:
            from hta_graph.multi_rank.what_if.rank_replay import answer_replay_request

            return answer_replay_request(graph, asked.replay)
        if asked.excerpt:
            from hta_graph.multi_rank.summary.critical_paths import make_path_excerpt

            return make_path_excerpt(graph, asked.excerpt)
        return graph


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
