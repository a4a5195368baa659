"""Files and folders → the graphs of all ranks: who reads what, when, and in which order the results come."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, Self, cast
from weakref import finalize

from hta_graph.build import tell_faults
from hta_graph.errors import HtaGraphError, TraceError
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.log import tell
from hta_graph.multi_rank.memory import graph_bytes, memory_share, peak_bytes, processor_count
from hta_graph.multi_rank.rank_request import RankQuestion, graph_of_file, rank_graph
from hta_graph.multi_rank.read_engine import GraphOrError, Reading, ReadingEngine
from hta_graph.multi_rank.summary.summarize import SkeletonQuestion
from hta_graph.storage.file_lists import given_places
from hta_graph.storage.location import Location
from hta_graph.storage.together import in_order
from hta_graph.trace.header import text_size
from hta_graph.trace.memory_limit import allowed_memory, out_of_memory
from hta_graph.trace.rank_files import RankFile, choose_ranks, expand
from hta_graph.trace.read import Say, find_ranks, read_only, tell_repairs

__all__ = ["AskedOf", "Progress", "Readers", "Report", "read_files", "read_graphs"]

AskedOf = Callable[[RankFile], RankQuestion]
"""What is asked of each file."""
Progress = Callable[[int, int], None]
"""Is called with how many files are done, and of how many."""
Report = Callable[[HtaGraphError], None]
"""Is called with the error of a file that is left out."""

WORTH_PROCESSES = 32 << 20
"""How much text beyond the largest file's (bytes) makes starting processes faster than reading it here."""

WORTH_A_FILE = 256 << 10
"""Reading a file takes as long as so much text (bytes), however little it holds."""


def read_graphs(
    inputs: str | Location | Sequence[str | Location],
    *,
    ranks: Collection[int] | None = None,
    jobs: int | None = None,
    memory: int | None = None,
    salvage: bool = False,
    members: bool = False,
    skeleton: SkeletonQuestion | None = None,
    cache: Path | None = None,
    report: Report | None = None,
    say: Say = tell,
    progress: Progress = lambda *_: None,
    cluster: str | None = None,
) -> Iterator[DependencyGraph]:
    """Build the graph of each rank behind files or folders, lowest rank first, in parallel processes where that pays.

    ``{graph.trace.rank: graph for graph in read_graphs("folder")}`` holds all ranks; where one is looked at after the
    other, no more are in memory than ``memory`` allows.

    Args:
        inputs: a file, a folder of rank files, or several of either.
        ranks: read only these ranks.
        jobs: how many processes may read at once; by default one for each processor. With 1, this process reads.
        memory: how many bytes reading may take; by default a share of what is available. A file that needs more is read
            alone, and is an error if that does not fit either.
        salvage: read the whole events of files that break off.
        members: also read what each rank did together with others, so that ``read_members`` need not open its file
            again: the text is at hand, and this too is done in parallel.
        skeleton: of several files give graphs of few rows, which answer this as whole ones do
            (``hta_graph.multi_rank.summary``).
        cache: a folder where skeletons are kept, and taken from where the file is the same.
        report: is called with the error of each file that cannot be read, which is left out then; without it the error
            is raised. If no file can be read an error is raised in any case.
        say: is called with a line about the files that are skipped, and one about those numbered by order; by default
            these are warnings of the logger ``hta_graph``, as what of a file was dropped is in any case.
        progress: is called with how many files are done, and of how many.
        cluster: where Dask reads several files instead of processes of this machine: ``local``, which starts workers
            here (``jobs`` of them), or the address of a scheduler, ``tcp://host:port``, whose workers see the files
            under the same names. ``memory`` is what each file may take there.

    Raises:
        HtaGraphError: a file is broken, two claim one rank, or one of ``ranks`` is not there.
    """
    listed = given_places(inputs)
    paths = expand(listed)
    asked = RankQuestion(salvage, members or skeleton is not None, skeleton, cache=cache)
    if len(paths) == 1:
        yield _told(_read_alone(paths[0], ranks, memory, replace(asked, skeleton=None)))
        return
    with allowed_memory(memory):
        files = choose_ranks(find_ranks(listed, salvage=salvage, say=say), ranks)
    readers = Readers(jobs, memory, cluster, say)
    with closing(read_files(files, lambda _: asked, readers, progress)) as found:
        yield from _graphs_or_reports(found, report if len(files) > 1 else None, ", ".join(map(str, listed)))


def _told(graph: DependencyGraph) -> DependencyGraph:
    """Say what of a rank's file was dropped, and what its clocks contradict."""
    tell_repairs(graph.trace)
    tell_faults(graph)
    return graph


@dataclass(frozen=True)
class Readers:
    """Who reads files: so many processes, with so much memory (bytes), here or on a cluster (:func:`read_graphs`).

    ``say`` is called with a line about the cluster.
    """

    jobs: int | None = None
    memory: int | None = None
    cluster: str | None = None
    say: Say = lambda _: None


def read_files(
    files: Sequence[RankFile], asked: AskedOf, readers: Readers, progress: Progress = lambda *_: None
) -> Generator[GraphOrError, None, None]:
    """Yield what was asked of each file, or its error, in the files' order."""
    kept = _kept_skeletons(files, asked, readers)
    rest = [file for file in files if file.rank not in kept]
    with closing(_read(rest, asked, readers, lambda done, _: progress(len(kept) + done, len(files)))) as answers:
        for file in files:
            yield kept[file.rank] if file.rank in kept else next(answers)
        next(answers, None)  # it tells the end of its progress


def _kept_skeletons(files: Sequence[RankFile], asked: AskedOf, readers: Readers) -> dict[int, DependencyGraph]:
    """Return the summaries that are kept: reading them takes less than asking others for them does."""
    first = asked(files[0]) if files else RankQuestion()
    if first.cache is None or first.skeleton is None:
        return {}
    from hta_graph.multi_rank.summary.summary_cache import kept_skeletons  # needs what reads Parquet

    return kept_skeletons(first.cache, files, first.as_record(), readers.jobs or processor_count())


def _read(
    files: Sequence[RankFile], asked: AskedOf, readers: Readers, progress: Progress
) -> Generator[GraphOrError, None, None]:
    """Yield what was asked of each file, or its error, whoever reads them."""
    if not files:
        progress(0, 0)
    elif readers.cluster is not None:
        from hta_graph.multi_rank.worker_readers import ClusterPool

        cluster = ClusterPool(files, readers.cluster, readers.jobs, readers.memory, readers.say)
        yield from _in_order(files, asked, cluster, _AtOnce(cluster.at_once, readers.memory), progress)
    elif (processes := _worthwhile_processes(files, readers.jobs)) > 1:
        from hta_graph.multi_rank.pool import Pool

        memory = memory_share() if readers.memory is None else readers.memory
        yield from _in_order(files, asked, Pool(), _Memory(processes, memory, readers.memory), progress)
    else:
        yield from _in_order(files, asked, _Inline(), _AtOnce(1, readers.memory), progress)


def _read_alone(
    path: Location, ranks: Collection[int] | None, memory: int | None, asked: RankQuestion
) -> DependencyGraph:
    """Read the only file.

    Raises:
        HtaGraphError: it cannot be read, or not with so much memory.
    """
    with allowed_memory(memory):
        try:
            return rank_graph(lambda: read_only(path, ranks, salvage=asked.salvage), asked)
        except MemoryError:
            pass  # what was read is let go first
        raise out_of_memory(path)


def _worthwhile_processes(files: Iterable[RankFile], jobs: int | None) -> int:
    """Return how many processes to use; 1 where starting them would take longer than it saves."""
    # Processes are for several files: one is read without loading what starts them.
    from hta_graph.multi_rank.workers.own_process import can_start_processes

    sizes = sorted(in_order(text_size, [file.path for file in files if not file.error]))
    # A process costs half a second of imports, and its graph has to come back through a pipe.
    if len(sizes) < 2 or not can_start_processes():
        return 1
    if jobs is None and sum(sizes[:-1]) + WORTH_A_FILE * len(sizes) < WORTH_PROCESSES:
        return 1
    return min(jobs or processor_count(), len(sizes))


def _graphs_or_reports(
    answers: Iterable[GraphOrError], report: Report | None, inputs: str
) -> Iterator[DependencyGraph]:
    """Pass the graphs on and report the errors.

    Raises:
        HtaGraphError: there is nobody to report to, or nothing but errors.
    """
    is_any = False
    for answer in answers:
        if isinstance(answer, DependencyGraph):
            is_any = True
            yield _told(answer)
        elif report:
            report(answer)
        else:
            raise answer
    if not is_any:
        raise TraceError(inputs, "no sound trace among these files")


class _Inline:
    """Files that this process reads, one after the other."""

    def read(self, file: RankFile, asked: RankQuestion, *, memory: int | None) -> Reading:
        """Read a file, with so much memory (bytes)."""
        return Reading(file, _read_or_error(file, memory, asked))

    def wait(self, readings: Iterable[Reading]) -> None:
        """Nothing is waited for: what was begun is done."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def _read_or_error(file: RankFile, memory: int | None, asked: RankQuestion) -> GraphOrError:
    with allowed_memory(memory):
        try:
            return graph_of_file(file, asked)
        except HtaGraphError as error:
            return error
        except MemoryError:
            pass  # what was read is let go first
        return out_of_memory(file.path)


class _Room(Protocol):
    """Tells how much may be read at once."""

    @property
    def limit(self) -> int | None:
        """How much (bytes) a file may take that is read alone, if somebody said so."""

    def has_room(self, file: RankFile, readings: Collection[Reading]) -> bool:
        """Tell whether one more file may be read; one always may."""

    def share(self, file: RankFile) -> int | None:
        """Return how much (bytes) a file may take beside others, if that is less than alone."""

    def give(self, answer: GraphOrError) -> GraphOrError:
        """Note that a graph is handed out."""


@dataclass(frozen=True)
class _AtOnce:
    """So many files are read, or wait for their turn; each may take the same."""

    most: int
    limit: int | None

    def has_room(self, _: RankFile, readings: Collection[Reading]) -> bool:
        return sum(not reading.file.error for reading in readings) < self.most

    def share(self, _: RankFile) -> int | None:
        return None

    def give(self, answer: GraphOrError) -> GraphOrError:
        return answer


class _Memory:
    """So many processes, and memory: what those take that read, graphs that wait for their turn, graphs handed out."""

    def __init__(self, processes: int, memory: int, limit: int | None) -> None:
        self.limit = limit
        self._processes, self._memory = processes, memory
        self._needed: dict[Location, int] = {}
        self._given = 0

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
        return needed if needed < self._memory else None

    def _needed_for(self, file: RankFile) -> int:
        """Return what reading a file is likely to take at most."""
        if file.path not in self._needed:
            self._needed[file.path] = peak_bytes(file.path)
        return self._needed[file.path]

    def has_room(self, file: RankFile, readings: Collection[Reading]) -> bool:
        """Tell whether one more file may be read; one always may."""
        if sum(reading.answer is None for reading in readings) >= self._processes:
            return False
        used = self._given + sum(map(self._taken, readings))
        return not readings or used + self._needed_for(file) <= self._memory

    def _taken(self, reading: Reading) -> int:
        """Return what a process takes that reads, or the graph that it made."""
        if reading.answer is None:
            return self._needed_for(reading.file)
        return graph_bytes(reading.answer) if isinstance(reading.answer, DependencyGraph) else 0


def _in_order(
    files: Sequence[RankFile], asked: AskedOf, engine: ReadingEngine, room: _Room, progress: Progress
) -> Generator[GraphOrError, None, None]:
    """Read files, as many at once as there is room for; the answers come in the files' order."""
    waiting = deque(files)
    readings: deque[Reading] = deque()
    with engine:
        while waiting or readings:
            busy = sum(reading.answer is None for reading in readings)
            progress(len(files) - len(waiting) - busy, len(files))
            again = next((at for at, reading in enumerate(readings) if reading.deserves_more), None)
            if again is not None and not busy:
                readings[again] = engine.read(readings[again].file, asked(readings[again].file), memory=room.limit)
            elif again is None and waiting and room.has_room(waiting[0], readings):
                readings.append(_begun(waiting.popleft(), asked, engine, room))
            elif readings[0].answer is not None and not readings[0].deserves_more:
                # Answers come in any order; the oldest question's is given first, later ones wait in memory.
                yield room.give(cast("GraphOrError", readings.popleft().answer))
            else:
                engine.wait(readings)
    progress(len(files), len(files))


def _begun(file: RankFile, asked: AskedOf, engine: ReadingEngine, room: _Room) -> Reading:
    """Begin to read a file, beside others with no more memory than it is likely to take."""
    if file.error:
        return Reading(file, file.error)
    share = room.share(file)
    if share is None:
        return engine.read(file, asked(file), memory=room.limit)
    return replace(engine.read(file, asked(file), memory=share), memory=share)
