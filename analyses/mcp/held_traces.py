"""Graphs that stay in memory between questions, up to a number of bytes: the least recently used one goes first."""

from __future__ import annotations

import gc
import sys
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, TypeVar

import numpy as np

from analyses.cli.rank_inputs import cache_folder
from analyses.cli.window_args import WindowArgs
from analyses.display.sentence_format import counted
from analyses.display.stderr import say
from analyses.mcp.answers import Rows
from hta_graph.base.errors import HtaGraphError, TraceError, UsageError
from hta_graph.base.memory import keep_freed_memory
from hta_graph.base.storage.location import Location
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Ints
from hta_graph.multi_rank.build_job import build_job
from hta_graph.multi_rank.job_source import JobSource
from hta_graph.store.cache_folder import CacheFolder
from hta_graph.store.trace_cache import GraphCache
from hta_graph.trace.event_args import row_offsets
from hta_graph.trace.rank_files import expand_inputs

Answered = TypeVar("Answered")
MOST_ANSWERS = 32
"""Answers that stay with a trace."""


@dataclass
class HeldTrace:
    """A trace or a job as it was read, with its graphs, answers and where rows are in its files.

    Each is made when asked for: a further page of an answer costs nothing.
    """

    inputs: JobSource
    left_out: Sequence[HtaGraphError] = ()
    offsets: dict[Path, Ints] = field(default_factory=dict)
    answers: dict[Any, Any] = field(default_factory=dict)
    _summary_jobs: dict[Any, DependencyGraph] = field(default_factory=dict)

    def once(self, question: Hashable, answer: Callable[[], Answered]) -> Answered:
        """Return an answer, computed the first time; only the last ones are kept."""
        if question not in self.answers:
            if len(self.answers) >= MOST_ANSWERS:
                del self.answers[next(iter(self.answers))]
            self.answers[question] = answer()
        found: Answered = self.answers[question]
        return found

    def check_not_many(self) -> None:
        """Refuse a question that needs all events of all ranks where these are held as summaries.

        Raises:
            UsageError: they are.
        """
        if count := self.inputs.many_ranks:
            raise UsageError(f"{count} ranks are too many for this question; pass rank=N")

    @cached_property
    def ranks(self) -> dict[int, DependencyGraph]:
        """The graphs of all ranks, as analyses read them.

        Raises:
            UsageError: there are too many to hold.
        """
        self.check_not_many()
        return self.inputs.graphs_by_rank(communications=self.inputs.names_job)

    @cached_property
    def _graph(self) -> DependencyGraph:
        graphs = list(self.ranks.values())
        return graphs[0] if len(graphs) == 1 else build_job(graphs)

    def graph(self, window: WindowArgs) -> DependencyGraph:
        """Return the graph of the rank or the job; of many ranks what a window needs."""
        if not self.inputs.many_ranks:
            return self._graph
        needed = window.summary_with_causes(self.inputs.many_ranks)
        if needed not in self._summary_jobs:
            self._summary_jobs[needed] = self.inputs.job_or_graph(lambda _: needed)
        return self._summary_jobs[needed]

    def ranks_with_causes(self, window: WindowArgs) -> dict[int, DependencyGraph]:
        """Return the graphs of all ranks; of many ranks summaries with the causes of waits."""
        return self.inputs.graphs_by_rank(few=window.summary_with_causes) if self.inputs.many_ranks else self.ranks

    def is_only_rank(self, rank: int | None) -> bool:
        """Return whether the trace has been read and holds this rank alone."""
        return "ranks" in vars(self) and list(self.ranks) == [rank]

    def graph_of_rank(self, rank: int | None) -> DependencyGraph | None:
        """Return the graph of a rank as its file has it, if it is held; without a number the only one."""
        if self.inputs.many_ranks:
            return None
        return next(iter(self.ranks.values())) if rank is None or len(self.ranks) == 1 else self.ranks.get(rank)

    @property
    def lowest_rank(self) -> DependencyGraph:
        """The graph of the lowest rank."""
        return self.ranks[min(self.ranks)] if not self.inputs.many_ranks else self.inputs.one_graph()

    def one_of_job(self, files: Mapping[int, Location], rank: int) -> DependencyGraph:
        """Return the graph of a rank of a job, else of its lowest one; ``files`` are those of its ranks."""
        number = rank if rank in files else min(files)
        return self.inputs.graph_of(files[number]) if self.inputs.many_ranks else self.ranks[number]

    def byte_offsets(self, graph: DependencyGraph, indices: Iterable[int | None]) -> list[int | None]:
        """Return where rows of a rank's file begin in its text (bytes), None where that is unknown."""
        path = Path(str(graph.path))
        if path not in self.offsets:
            try:
                self.offsets[path] = row_offsets(graph.trace)
            except TraceError:  # it has been removed since
                self.offsets[path] = np.empty(0, np.int64)
        known = self.offsets[path]
        return [None if at is None or not 0 <= at < len(known) else int(known[at]) for at in indices]

    def longest_events(self, graph: DependencyGraph, names: Iterable[Any], span: tuple[int, int]) -> list[int | None]:
        """Return the longest event of each name that starts within a span (ns), by its event_index."""
        events, codes = graph.event_table, {name: code for code, name in enumerate(graph.names)}
        inside = np.flatnonzero((events.start >= span[0]) & (events.start < span[1]))
        of_name, length = events.name[inside], (events.end - events.start)[inside]
        found: list[int | None] = []
        for name in names:
            rows = np.flatnonzero(of_name == codes[name]) if name in codes else inside[:0]
            found.append(int(events.index[inside[rows[np.argmax(length[rows])]]]) if len(rows) else None)
        return found

    def with_event_offsets(self, rows: Rows, index: str) -> Rows:
        """Add to rows the byte offset of the event that a column names."""
        ranks = rows.columns.get("rank") or [None] * len(rows)
        found: list[int | None] = [None] * len(rows)
        for rank in dict.fromkeys(ranks):
            graph = self.graph_of_rank(rank)
            if graph is not None:
                here = [at for at, of in enumerate(ranks) if of == rank]
                offsets = self.byte_offsets(graph, [_number(rows.columns[index][at]) for at in here])
                for at, offset in zip(here, offsets, strict=True):
                    found[at] = offset
        return Rows({**rows.columns, "byte_offset": found})


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


@dataclass
class HeldTraces:
    """The traces in memory by what was asked for, the least recently used one first."""

    limit: int
    folder: CacheFolder | None = field(default_factory=cache_folder)
    """Where graphs are kept beyond this process."""
    _held: OrderedDict[Any, HeldTrace] = field(default_factory=OrderedDict)
    _sizes: dict[Any, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        keep_freed_memory()

    def get(self, place: Path, rank: int | None) -> HeldTrace:
        """Return a trace, read anew if its files have changed since.

        Raises:
            HtaGraphError: it cannot be read.
        """
        files = tuple(_identity(path) for path in expand_inputs([place]))
        whole = self._held.get((place, None, files))
        if whole is not None and whole.is_only_rank(rank):
            rank = None
        key = (place, rank, files)
        for old in [one for one in self._held if one[:2] == key[:2] and one != key]:
            self._drop(old)
        if key not in self._held:
            self._held[key] = self._trace(place, rank)
        self._held.move_to_end(key)
        return self._held[key]

    def _trace(self, place: Path, rank: int | None) -> HeldTrace:
        left_out: list[HtaGraphError] = []
        # What a cache knows of files holds for as long as they do not change: each trace has its own.
        cache = None if self.folder is None else GraphCache(self.folder)
        ranks = None if rank is None else [rank]
        source = JobSource(inputs=[place], ranks=ranks, cache=cache, report=left_out.append, say=say)
        return HeldTrace(source, left_out)

    def keep_within_limit(self, used: Collection[HeldTrace] = ()) -> None:
        """Measure what a question left behind, and drop traces until the others fit."""
        for key, held in self._held.items():
            if any(held is one for one in used) or key not in self._sizes:
                self._sizes[key] = size_in_memory(held)
        while len(self._held) > 1 and self.size > self.limit:
            self._drop(next(iter(self._held)))
        if self.size > self.limit:
            for held in self._held.values():
                held.answers.clear()

    def _drop(self, key: Any) -> None:
        self._held.pop(key)
        self._sizes.pop(key, None)

    @property
    def size(self) -> int:
        """How many bytes the traces take."""
        return sum(self._sizes.values())

    def __len__(self) -> int:
        return len(self._held)

    @property
    def summary(self) -> str:
        """What is in memory, and what is dropped first."""
        used, allowed = round(self.size / 2**20), round(self.limit / 2**20)
        return (
            f"{counted(len(self._held), 'trace')} in memory, {used:,} of {allowed:,} MiB; the least recently used one "
            "is dropped"
        )


def _identity(path: Location) -> tuple[str, int, int]:
    stat = path.stat()
    return str(path), stat.st_mtime_ns, stat.st_size


LONG = 1_000
TEXT_BYTES = 100
"""What an entry of a long list takes: these are names."""


def size_in_memory(what: object) -> int:
    """Return about how many bytes an object takes with all that it refers to.

    >>> size_in_memory([np.zeros(1_000), {"a": np.zeros(1_000)}]) // 1_000
    16
    """
    size, seen, left = 0, set[int](), [what]
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, (type, ModuleType, FunctionType, str, int, float)):
            continue
        seen.add(id(one))
        if isinstance(one, np.ndarray):
            size += one.nbytes if one.base is None else 0
            left += [] if one.base is None else [one.base]
        elif isinstance(one, (list, tuple, dict, set)) and len(one) > LONG:
            size += len(one) * TEXT_BYTES
        else:
            size += sys.getsizeof(one)
            left += gc.get_referents(one)
    return size
