"""Read the graphs of all ranks from files and folders: in which processes, when, and in which order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Self, cast
from weakref import finalize

from hta_graph.base.errors import HtaGraphError, TraceError
from hta_graph.base.progress import mute_stages
from hta_graph.base.storage.location import Location, parallel_map
from hta_graph.build.from_trace import log_clock_faults
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.multi_rank.rank_cache import cached_file, cached_ranks, keep_file, keep_rank
from hta_graph.multi_rank.read_engine import (
    GraphOrError,
    RankReading,
    RankRequest,
    ReadEngine,
    build_rank_graph,
    graph_bytes,
    memory_share,
    peak_bytes,
    processor_count,
    read_rank_graph,
)
from hta_graph.multi_rank.read_options import Progress, ReadOptions, Report
from hta_graph.store.trace_cache import GraphCache
from hta_graph.trace.decompress import cached_text
from hta_graph.trace.header import text_size
from hta_graph.trace.memory_limit import limit_memory, out_of_memory_error
from hta_graph.trace.rank_files import RankFile, choose_ranks, expand_inputs
from hta_graph.trace.read import find_ranks, log_repairs, number_recordings, read_recordings
from hta_graph.trace.readers import is_database
from hta_graph.trace.table import Trace

if TYPE_CHECKING:
    from hta_graph.attribution.captures import NamedCaptures

RequestOf = Callable[[RankFile], RankRequest]
"""What is read of each file."""

MIN_PARALLEL_TEXT = 40 << 20
"""How much text (bytes) others have to read meanwhile for processes to be faster: two take as long for 64 MB as one
does, and twice its processor time."""

FILE_OVERHEAD_TEXT = 256 << 10
"""Reading any file takes at least as long as this much text (bytes)."""

REST_SHARE = 1 / 3
"""What reading only a rank's communications takes of reading its graph."""


def read_inputs(
    inputs: Sequence[Location],
    asked: RankRequest,
    options: ReadOptions,
    ranks: Collection[int] | None = None,
    captures: Sequence[str | Location] = (),
) -> Iterator[DependencyGraph]:
    """Read the ranks in files or folders, lowest rank first; all or some, as :func:`hta_graph.read_graphs` does.

    Raises:
        HtaGraphError: a file is broken and there is no one to report it to, one of ``captures`` is none, two files
            claim one rank, or one of ``ranks`` is not there.
    """
    named = _named_captures(captures, salvage=options.salvage)
    paths = expand_inputs(inputs)
    if len(paths) == 1:
        for graph in _read_alone(paths[0], ranks, options, replace(asked, summary=None)):
            yield _with_names(_with_warnings(graph), named, (), salvage=options.salvage)
        return
    with limit_memory(options.memory):
        files = find_ranks(inputs, salvage=options.salvage, say=options.say)
    if len(files) == 1 and not files[0].error and asked.summary is None and options.cluster is None:
        # Several ranks may have been merged into it.
        for graph in _read_alone(files[0].path, ranks, options, asked):
            yield _with_names(_with_warnings(graph), named, files[0].captures, salvage=options.salvage)
        return
    beside_rank = {file.rank: file.captures for file in files}
    files = choose_ranks(files, ranks)
    report = options.report if len(files) > 1 else None
    with closing(read_files(files, lambda _: asked, options, "reading traces")) as found:
        for graph in _graphs_or_reports(found, report, ", ".join(map(str, inputs))):
            yield _with_names(graph, named, beside_rank.get(graph.rank or 0, ()), salvage=options.salvage)


def _named_captures(inputs: Sequence[str | Location], *, salvage: bool) -> NamedCaptures | None:
    if not inputs:
        return None
    from hta_graph.attribution.captures import find_captures

    return find_captures(inputs, salvage=salvage)


def _with_names(
    graph: DependencyGraph, named: NamedCaptures | None, beside: Sequence[Location], *, salvage: bool
) -> DependencyGraph:
    """Return a rank's graph whose replayed kernels have names, where it replays any or has captures."""
    if not (named or beside or graph.event_flags.graph_launch_call.any()):
        return graph
    from hta_graph.attribution.captures import NamedCaptures, with_names_of_replays  # late: few ranks replay graphs

    return with_names_of_replays(graph, named or NamedCaptures({}, {}), beside, salvage=salvage)


def _with_warnings(graph: DependencyGraph) -> DependencyGraph:
    """Log what was dropped of a rank's file, and what its clocks contradict."""
    log_repairs(graph.trace)
    log_clock_faults(graph)
    return graph


def read_files(
    files: Sequence[RankFile], asked: RequestOf, options: ReadOptions, doing: str = ""
) -> Generator[GraphOrError, None, None]:
    """Yield what was asked of each file, or its error, in the files' order; ``doing`` is said of the progress."""
    with options.progress(doing) as progress:
        if options.cache is None:
            yield from _read_uncached(files, asked, options, progress)
        else:
            yield from _read_with_cache(options.cache, files, asked, options, progress)


def _read_with_cache(
    cache: GraphCache, files: Sequence[RankFile], asked: RequestOf, options: ReadOptions, progress: Progress
) -> Generator[GraphOrError, None, None]:
    """Yield the same, and keep what was read."""
    # Reading what is kept takes less than asking others for it does; so does reading the rest where that is little.
    with limit_memory(options.memory), mute_stages():
        kept = cached_ranks(
            cache,
            files,
            asked,
            options.jobs or processor_count(),
            reads_rest=lambda: _process_count(files, options.jobs, REST_SHARE) == 1,
        )
    rest = [file for file in files if file.rank not in kept]
    with closing(
        _read_uncached(rest, asked, options, lambda done, _: progress(len(files) - len(rest) + done, len(files)))
    ) as answers:
        for file in files:
            if file.rank in kept:
                yield kept.pop(file.rank)
                continue
            answer = next(answers)
            if isinstance(answer, DependencyGraph):
                keep_rank(cache, file, asked(file), answer)
            yield answer
        next(answers, None)  # it tells the end of its progress


def _read_uncached(
    files: Sequence[RankFile], asked: RequestOf, options: ReadOptions, progress: Progress
) -> Generator[GraphOrError, None, None]:
    """Yield what was read of each file, or its error, wherever it is read."""
    if not files:
        progress(0, 0)
    elif options.cluster is not None:
        from hta_graph.multi_rank.worker_readers import DaskReader

        cluster = DaskReader(files, options.cluster, options.jobs, options.memory, options.say)
        yield from _read_in_order(files, asked, cluster, _CountLimit(cluster.at_once, options.memory), progress)
    elif (processes := _process_count(files, options.jobs)) > 1:
        from hta_graph.multi_rank.worker_readers import ProcessReader

        memory = memory_share() if options.memory is None else options.memory
        yield from _read_in_order(
            files, asked, ProcessReader(), _MemoryLimit(processes, options.memory, memory), progress
        )
    else:
        yield from _read_in_order(
            files, asked, _InlineEngine(is_muted=len(files) > 1), _CountLimit(1, options.memory), progress
        )


def _read_alone(
    path: Location, ranks: Collection[int] | None, options: ReadOptions, asked: RankRequest
) -> list[DependencyGraph]:
    """Read the only file: the graph of its rank, or of all ranks that were merged into it.

    Raises:
        HtaGraphError: it cannot be read, or not with so much memory.
    """
    cache = options.cache
    with limit_memory(options.memory):
        try:
            with cached_text() if asked.communications else nullcontext():
                if cache is not None and (known := cached_file(cache, path, ranks, asked)):
                    return [known]
                recorded, ranks_by = read_recordings(path, ranks, salvage=asked.salvage)
                in_header = [trace.rank for trace in recorded]
                traces = number_recordings(path, recorded, ranks_by, ranks, options.say)
                del recorded
                graphs = [build_rank_graph(partial(_take, traces), asked) for _ in range(len(traces))]
                # Of a file with several ranks only some may have been read.
                if cache is not None and len(in_header) == 1 and (ranks is None or not is_database(path)):
                    keep_file(cache, graphs[0], asked, in_header[0])
                return graphs
        except MemoryError:
            pass  # what was read is let go first
        raise out_of_memory_error(path)


def _take(traces: list[Trace]) -> Trace:
    """Let go of the first of some traces."""
    return traces.pop(0)


def _process_count(files: Iterable[RankFile], jobs: int | None, share: float = 1.0) -> int:
    """Return how many processes to use to read a share of files; 1 where starting them takes longer than it saves."""
    # Processes are for several files: one is read without loading what starts them.
    from hta_graph.multi_rank.workers.worker_processes import can_start_processes

    sizes = sorted(parallel_map(text_size, [file.path for file in files if not file.error]))
    # A process costs half a second of imports, and its graph has to come back through a pipe.
    if len(sizes) < 2 or not can_start_processes():
        return 1
    every = sum(sizes) + FILE_OVERHEAD_TEXT * len(sizes)
    if jobs is None and share * (every - max(sizes[-1], every // processor_count())) < MIN_PARALLEL_TEXT:
        return 1
    return min(jobs or processor_count(), len(sizes))


def _graphs_or_reports(
    answers: Iterable[GraphOrError], report: Report | None, inputs: str
) -> Iterator[DependencyGraph]:
    """Pass the graphs on and report the errors.

    Raises:
        HtaGraphError: there is no function to report to, or nothing but errors.
    """
    is_any = False
    for answer in answers:
        if isinstance(answer, DependencyGraph):
            is_any = True
            yield _with_warnings(answer)
        elif report:
            report(answer)
        else:
            raise answer
    if not is_any:
        raise TraceError(inputs, "none of these files is a readable trace")


class _InlineEngine:
    """Files that this process reads, one after the other; with ``is_muted`` the stages of each are not reported."""

    def __init__(self, *, is_muted: bool) -> None:
        self._is_muted = is_muted

    def read(self, file: RankFile, asked: RankRequest, *, memory: int | None) -> RankReading:
        """Read a file, with so much memory (bytes)."""
        with mute_stages() if self._is_muted else nullcontext():
            return RankReading(file, _read_or_error(file, memory, asked))

    def wait(self, readings: Iterable[RankReading]) -> None:
        """Nothing is waited for: what was begun is done."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def _read_or_error(file: RankFile, memory: int | None, asked: RankRequest) -> GraphOrError:
    with limit_memory(memory):
        try:
            return read_rank_graph(file, asked)
        except HtaGraphError as error:
            return error.to_keep()
        except MemoryError:
            pass  # what was read is let go first
        return out_of_memory_error(file.path)


@dataclass
class _CountLimit:
    """A fixed number of files are read or wait for their turn; each may take the same."""

    most: int
    limit: int | None
    """How much (bytes) a file may take that is read alone, if a limit was given."""

    def has_room(self, _: RankFile, readings: Collection[RankReading]) -> bool:
        """Return whether one more file can be read; one always can."""
        return sum(not reading.file.error for reading in readings) < self.most

    def share(self, _: RankFile) -> int | None:
        """Return how much (bytes) a file may take next to others, if that is less than alone."""
        return None

    def give(self, answer: GraphOrError) -> GraphOrError:
        """Note that a graph is handed out."""
        return answer


@dataclass
class _MemoryLimit(_CountLimit):
    """A limit of processes and memory: of readers, graphs that wait for their turn, graphs handed out."""

    memory: int
    _needed: dict[Location, int] = field(default_factory=dict)
    _given: int = 0

    def give(self, answer: GraphOrError) -> GraphOrError:
        """Note that a graph is handed out; it counts for as long as it is in use."""
        if isinstance(answer, DependencyGraph):
            size = graph_bytes(answer)
            self._given += size
            finalize(answer, self._take_back, size).atexit = False
        return answer

    def _take_back(self, size: int) -> None:
        self._given -= size

    def share(self, file: RankFile) -> int | None:
        """Return how much a file may take that is likely to take less than all."""
        needed = self._needed_for(file)
        return needed if needed < self.memory else None

    def _needed_for(self, file: RankFile) -> int:
        """Return what reading a file is likely to take at most."""
        if file.path not in self._needed:
            self._needed[file.path] = peak_bytes(file.path)
        return self._needed[file.path]

    def has_room(self, file: RankFile, readings: Collection[RankReading]) -> bool:
        """Return whether one more file can be read; one always can."""
        if sum(reading.answer is None for reading in readings) >= self.most:
            return False
        used = self._given + sum(map(self._taken, readings))
        return not readings or used + self._needed_for(file) <= self.memory

    def _taken(self, reading: RankReading) -> int:
        """Return what a process takes that reads, or the graph that it made."""
        if reading.answer is None:
            return self._needed_for(reading.file)
        return graph_bytes(reading.answer) if isinstance(reading.answer, DependencyGraph) else 0


def _read_in_order(
    files: Sequence[RankFile], asked: RequestOf, engine: ReadEngine, room: _CountLimit, progress: Progress
) -> Generator[GraphOrError, None, None]:
    """Read files, as many at once as there is room for; the answers come in the files' order."""
    waiting = deque(files)
    readings: deque[RankReading] = deque()
    with engine:
        while waiting or readings:
            busy = sum(reading.answer is None for reading in readings)
            progress(len(files) - len(waiting) - busy, len(files))
            again = next((at for at, reading in enumerate(readings) if reading.needs_more_memory), None)
            if again is not None and not busy:
                readings[again] = engine.read(readings[again].file, asked(readings[again].file), memory=room.limit)
            elif again is None and waiting and room.has_room(waiting[0], readings):
                readings.append(_start_reading(waiting.popleft(), asked, engine, room))
            elif readings[0].answer is not None and not readings[0].needs_more_memory:
                # Answers come in any order; the oldest question's is given first, later ones wait in memory.
                yield room.give(cast("GraphOrError", readings.popleft().answer))
            else:
                engine.wait(readings)
    progress(len(files), len(files))


def _start_reading(file: RankFile, asked: RequestOf, engine: ReadEngine, room: _CountLimit) -> RankReading:
    """Begin to read a file, while others are read with no more memory than it is likely to take."""
    if file.error:
        return RankReading(file, file.error)
    share = room.share(file)
    if share is None:
        return engine.read(file, asked(file), memory=room.limit)
    return replace(engine.read(file, asked(file), memory=share), memory=share)
