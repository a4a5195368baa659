"""What is read of ranks, kept in the cache of graphs: whole graphs, what ranks did with others, and summaries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hta_graph.base.errors import HtaGraphError
from hta_graph.base.storage.location import Location
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.multi_rank.read_engine import RankRequest
from hta_graph.store.entry_file import Column, Entry
from hta_graph.store.record import (
    NOT_WHAT_WAS_WRITTEN,
    IndexRange,
    check_acyclic,
    check_indices,
    decode_graph,
    describe_table,
    encode_graph,
    question_values,
    read_table,
)
from hta_graph.store.trace_cache import IN_HEADER, GraphCache
from hta_graph.trace.rank_files import RankFile

if TYPE_CHECKING:
    from hta_graph.multi_rank.matching.communications import RankCommunications
    from hta_graph.multi_rank.rank_activity import RankActivity

MAX_MISSES = 8
"""If nothing is kept of this many files, hardly anything is of the others."""


def cached_ranks(
    cache: GraphCache,
    files: Sequence[RankFile],
    asked: Callable[[RankFile], RankRequest],
    threads: int,
    *,
    reads_rest: Callable[[], bool],
) -> dict[int, DependencyGraph]:
    """Return the cached answers to requests, by rank; few or none where few are cached.

    Args:
        cache: where it is kept.
        files: the ranks' files.
        asked: returns the request about each.
        threads: how many files are looked at at once.
        reads_rest: whether to read what ranks did with others, asked where no more than that is missing.
    """
    from concurrent.futures import ThreadPoolExecutor  # late: one file needs none

    found, alone, missed = dict[int, DependencyGraph](), dict[int, DependencyGraph](), list[int]()

    def look_up(file: RankFile) -> None:
        if file.error:
            return
        if len(missed) >= MAX_MISSES:
            cache.watch(file.path)
            return
        with suppress(OSError, MemoryError):  # who reads the file tells what is wrong
            request = asked(file)
            known = _cached_rank(cache, file, request)
            complete = known and _with_cached_communications(cache, known, request)
            if complete is not None:
                found[file.rank] = complete
            elif known is not None:
                alone[file.rank] = known
        if file.rank not in found and file.rank not in alone:
            missed.append(file.rank)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(look_up, files))
    for file in files if alone and reads_rest() else ():
        known = alone.pop(file.rank, None)  # a graph is let go once it is complete
        complete = known and _with_read_communications(cache, known, asked(file))
        if complete is not None:
            found[file.rank] = complete
    return found


def _cached_rank(cache: GraphCache, file: RankFile, asked: RankRequest) -> DependencyGraph | None:
    """Return what is cached of a file, but for what it did with others; None where nothing sound is."""
    if not _is_kept(file, asked):
        return None
    if asked.summary:
        return _cached_summary(cache, file, asked)
    return cache.graph(file.path, file.rank, asked.step_patterns, salvage=asked.salvage)


def keep_rank(cache: GraphCache, file: RankFile, asked: RankRequest, graph: DependencyGraph) -> None:
    """Keep what was read of a file."""
    if not _is_kept(file, asked):
        return
    if asked.summary:
        from hta_graph.multi_rank.wire_format import ATTACHED_TABLES  # late: whole graphs have none of these tables

        entry = encode_graph(graph, ATTACHED_TABLES, is_named=False)
        cache.keep(file.path, "summary", _summary_question(file, asked), entry)
        return
    cache.keep_graph(graph, {}, salvage=asked.salvage)
    _keep_communications(cache, graph, asked)


def cached_file(
    cache: GraphCache, path: Location, ranks: Collection[int] | None, asked: RankRequest
) -> DependencyGraph | None:
    """Return the cached answer to a request about the only file; what it did with others is read where that is not.

    Raises:
        TraceError: its rank is none of ``ranks``.
    """
    graph = cache.only_graph(path, ranks, asked.step_patterns, salvage=asked.salvage)
    if graph is None:
        return None
    return _with_cached_communications(cache, graph, asked) or _with_read_communications(cache, graph, asked)


def keep_file(cache: GraphCache, graph: DependencyGraph, asked: RankRequest, in_header: int | None) -> None:
    """Keep what was read of the only file."""
    cache.keep_graph(graph, {IN_HEADER: in_header}, salvage=asked.salvage)
    _keep_communications(cache, graph, asked)


def _with_cached_communications(
    cache: GraphCache, graph: DependencyGraph, asked: RankRequest
) -> DependencyGraph | None:
    """Return a graph with what its rank did with others, where that was asked for; None where it is not cached."""
    if not asked.communications or asked.summary:
        return graph
    members = _cached_communications(cache, graph, asked)
    return None if members is None else graph.with_attached(members)


def _with_read_communications(cache: GraphCache, graph: DependencyGraph, asked: RankRequest) -> DependencyGraph | None:
    """Return the same, read from the file: a third of what reading the graph, too, takes; None where it cannot be."""
    from hta_graph.multi_rank.matching.read_communications import read_communications  # late, as above

    with suppress(HtaGraphError, MemoryError):  # who reads all of the file tells what is wrong
        found = graph.with_attached(read_communications(graph))
        _keep_communications(cache, found, asked)
        return found
    return None


def _keep_communications(cache: GraphCache, graph: DependencyGraph, asked: RankRequest) -> None:
    if not asked.communications:
        return
    from hta_graph.multi_rank.matching.communications import RankCommunications  # late: one rank alone has none

    members = graph.attached(RankCommunications)
    if members is not None and cache.has_graph(graph.path, salvage=asked.salvage):
        columns: list[Column] = []
        described = describe_table(members, columns)
        question = [asked.salvage, graph.rank]
        cache.keep(graph.path, "communications", question, Entry({"members": described}, tuple(columns)))


def _is_kept(file: RankFile, asked: RankRequest) -> bool:
    """Return whether something of the kind is kept: of several recordings in a file only summaries are."""
    return not (asked.excerpt or asked.replay or (file.process and not asked.summary))


def _summary_question(file: RankFile, asked: RankRequest) -> list[Any]:
    return [file.rank, file.process, asked.as_record()]


def _cached_summary(cache: GraphCache, file: RankFile, asked: RankRequest) -> DependencyGraph | None:
    question = _summary_question(file, asked)
    entry = cache.find(file.path, "summary", question)
    if entry is None:
        return None
    from hta_graph.multi_rank.wire_format import ATTACHED_TABLES  # late, as above

    try:
        graph = decode_graph(entry, ATTACHED_TABLES, question_values(file.path, file.rank, asked.step_patterns))
        check_indices((), _summary_indices(graph))
        check_acyclic(graph)
    except NOT_WHAT_WAS_WRITTEN:
        cache.discard(file.path, "summary", question)
        return None
    return graph


def _cached_communications(cache: GraphCache, graph: DependencyGraph, asked: RankRequest) -> RankCommunications | None:
    question = [asked.salvage, graph.rank]
    entry = cache.find(graph.path, "communications", question)
    if entry is None:
        return None
    from hta_graph.multi_rank.matching.communications import RankCommunications  # late, as above

    try:
        members: RankCommunications = read_table(RankCommunications, entry.record["members"], iter(entry.columns))
        check_indices((), _member_indices(members, graph))
    except NOT_WHAT_WAS_WRITTEN:
        cache.discard(graph.path, "communications", question)
        return None
    return members


def _member_indices(members: RankCommunications, graph: DependencyGraph) -> Iterator[IndexRange]:
    yield members.row, -1, len(graph.event_table)
    yield members.call, -1, len(graph.event_table)


def _summary_indices(graph: DependencyGraph) -> Iterator[IndexRange]:
    from hta_graph.graph.rank_summary import RankSummary  # late, as above
    from hta_graph.multi_rank.matching.communications import RankCommunications
    from hta_graph.multi_rank.rank_activity import RankActivity
    from hta_graph.paths.unrecorded_work import KnownUnrecordedWork

    answers, members, activity, lost = (
        graph.attached(RankSummary),
        graph.attached(RankCommunications),
        graph.attached(RankActivity),
        graph.attached(KnownUnrecordedWork),
    )
    if answers is not None:
        yield answers.rows, 0, answers.size
    if lost is not None:
        yield lost.work.call, 0, len(lost.calls)
    if members is not None:
        yield from _member_indices(members, graph)
        if activity is not None:
            yield from _of_activity(activity, len(members))


def _of_activity(activity: RankActivity, members: int) -> Iterator[IndexRange]:
    yield activity.walks.member, 0, max(members, 1)
    yield activity.walks.before, -1, len(activity.walks)
    yield activity.queued, -1, len(activity.queued)
    yield activity.done.walk, 0, len(activity.walks) + len(activity.queued)
    for column in (activity.transfer, activity.done.activity):
        yield column, 0, len(activity.name)
