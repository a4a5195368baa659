"""Graphs of trace files as cache entries: found by what the file holds, checked before they are believed."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cached_property
from hashlib import blake2b
from json import dumps
from pathlib import Path
from typing import Any

import numpy as np

from hta_graph.arrays import Columns, column_types
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.graph_record import AttachedTables, Column, graph_of_record, graph_record
from hta_graph.graph.timeline import Nesting
from hta_graph.graph_cache.cache_folder import CacheFolder
from hta_graph.graph_cache.entry_file import Entry
from hta_graph.graph_cache.stored_content import DIGEST_BYTES, FileVersion, StoredContent, is_unchanged, stored_content
from hta_graph.model import EdgeKind, EventKind, Rule
from hta_graph.storage.location import Location, is_remote, name_with_secrets
from hta_graph.trace.rank_files import FoundFile, assign_ranks, choose_ranks

CACHE_FORMAT = 1
"""Is counted up where graphs, or how they are kept, change; every version of the package has entries of its own."""
FEW_EVENTS = 2_000
"""Graphs of fewer events are not kept: reading the trace takes no longer."""
WORTH_A_NOTE = 16 << 20
"""Hashes of larger files (bytes) are noted, so that an unchanged one need not be read for its hash."""

IN_HEADER = "rank_in_header"
NOT_WHAT_WAS_WRITTEN = (ValueError, TypeError, KeyError, AttributeError, StopIteration, OverflowError)
"""What reading a record raises that is another one than was written."""

MOST_NS = (1 << 62) + (1 << 53)
"""No event of a trace is further from 1970: reading drops those beyond 2^62 ns, and lengths beyond 30 days."""

IndexRange = tuple[np.ndarray[Any, Any], int, int]
"""A column, the least number it may hold, and the first one that is too large."""


class GraphCache:
    """What is kept of trace files; nothing is of URLs and pipes.

    Args:
        folder: where it is kept.
    """

    def __init__(self, folder: CacheFolder) -> None:
        self.folder = folder
        self._contents: dict[Location, StoredContent | None] = {}
        self._watched: dict[Location, FileVersion] = {}

    # -- entries of any kind -------------------------------------------------------------------------------------------

    def find(self, path: Location, kind: str, asked: Any) -> Entry | None:
        """Return what is kept of a file: of a kind, as it was asked for."""
        name = self._name(path, kind, asked)
        return self.folder.read(name, str(path)) if name else None

    def has(self, path: Location, kind: str, asked: Any) -> bool:
        """Return whether something of a kind is kept of a file that has been read."""
        return self._is_as_read(path) and self.folder.has(self._name(path, kind, asked))

    def keep(self, path: Location, kind: str, asked: Any, entry: Entry) -> None:
        """Keep something of a file that has been read."""
        content = self._contents.get(path) if self._is_as_read(path) else None
        if content is None or not isinstance(path, Path):
            return
        name = self._name(path, kind, asked)
        record = {"kind": kind, "content": content.digest, "file": _shown_name(path), **entry.record}
        self.folder.write(name, Entry(record, entry.columns))

    def discard(self, path: Location, kind: str, asked: Any) -> None:
        """Take away an entry whose numbers refer to nothing."""
        self.folder.discard(self._name(path, kind, asked), str(path))

    def look_at(self, path: Location) -> bool:
        """Hash a file unless that was done; return whether anything can be kept of it."""
        if path not in self._contents:
            self._contents[path] = None if is_remote(path) else self._content_of(path)
        return self._contents[path] is not None

    def digest(self, path: Location) -> str | None:
        """Return the hash of what a file holds; None of one of which nothing can be kept."""
        content = self._contents[path] if self.look_at(path) else None
        return None if content is None else content.digest

    def watch(self, path: Location) -> None:
        """Hash a file, before it is read; where any change of it would show that can wait until it has been read."""
        if path in self._contents or not isinstance(path, Path):
            return
        with suppress(OSError, ValueError):
            version = FileVersion.of(path.stat())
            if version.is_settled:
                self._watched[path] = version
                return
        self.look_at(path)

    def _is_as_read(self, path: Location) -> bool:
        """Return whether a file that has been read still holds what was read: only of that something is kept."""
        # What was first looked at when it had been read may be anything.
        was_seen = path in self._contents or path in self._watched
        content = self._contents[path] if was_seen and self.look_at(path) else None
        return isinstance(path, Path) and content is not None and is_unchanged(path, content)

    def _content_of(self, path: Path) -> StoredContent | None:
        content = stored_content(path, self._noted_digest)
        if content is not None and content.version != self._watched.get(path, content.version):
            return None
        if content is not None and content.is_settled and content.version.size >= WORTH_A_NOTE:
            self._note(path, content)
        return content

    def _noted_digest(self, version: FileVersion) -> str | None:
        if version.size < WORTH_A_NOTE:
            return None
        entry = self.folder.read(version.name, "the note of a file's hash")
        return None if entry is None or entry.record.get("version") != asdict(version) else entry.record["content"]

    def _note(self, path: Path, content: StoredContent) -> None:
        name, version = content.version.name, asdict(content.version)
        if not self.folder.has(name):
            record = {"kind": "hash", "content": content.digest, "file": _shown_name(path), "version": version}
            self.folder.write(name, Entry(record))

    def _name(self, path: Location, kind: str, asked: Any) -> str:
        """Return the name of an entry; an empty one for a file of which nothing can be kept."""
        content = self._contents[path] if self.look_at(path) else None
        if content is None:
            return ""
        said = dumps([self._version, content.digest, kind, asked], sort_keys=True)
        return blake2b(said.encode(), digest_size=DIGEST_BYTES).hexdigest()

    @cached_property
    def _version(self) -> list[Any]:
        return [CACHE_FORMAT, sys.byteorder, *product_version()]

    # -- graphs --------------------------------------------------------------------------------------------------------

    def graph(
        self, path: Location, rank: int | None, step_patterns: Sequence[str], *, salvage: bool
    ) -> DependencyGraph | None:
        """Return the graph of a file, where it is kept, with the rank and the patterns of steps that it has now."""
        entry = self.find(path, "graph", salvage)
        return None if entry is None else self._graph_of(entry, path, rank, step_patterns, salvage=salvage)

    def only_graph(
        self, path: Location, ranks: Collection[int] | None, step_patterns: Sequence[str], *, salvage: bool
    ) -> DependencyGraph | None:
        """Return the graph of the only file, whose rank its header, its name or nothing says, where it is kept.

        Raises:
            TraceError: its rank is none of ``ranks``.
        """
        entry = self.find(path, "graph", salvage)
        if entry is None or IN_HEADER not in entry.record:
            return None
        (file,) = choose_ranks(assign_ranks([FoundFile(path, entry.record[IN_HEADER])]), ranks)
        return self._graph_of(entry, path, file.rank, step_patterns, salvage=salvage)

    def _graph_of(
        self, entry: Entry, path: Location, rank: int | None, step_patterns: Sequence[str], *, salvage: bool
    ) -> DependencyGraph | None:
        try:
            return decode_cached_graph(entry, question_values(path, rank, step_patterns))
        except NOT_WHAT_WAS_WRITTEN:
            self.discard(path, "graph", salvage)
            return None

    def has_graph(self, path: Location, *, salvage: bool) -> bool:
        """Return whether the graph of a file that has been read is kept."""
        return self.has(path, "graph", salvage)

    def keep_graph(self, graph: DependencyGraph, said: Mapping[str, int | None], *, salvage: bool) -> None:
        """Keep the graph of a file with one recording.

        ``said`` has the rank that its header says (``IN_HEADER``), where that is known.
        """
        if len(graph.event_table) >= FEW_EVENTS and (said or not self.has_graph(graph.path, salvage=salvage)):
            entry = encode_cached_graph(graph)
            self.keep(graph.path, "graph", salvage, Entry({**entry.record, **said}, entry.columns))


def _shown_name(path: Path) -> str:
    """Return the name by which a person recognizes a file, for lists."""
    return "/".join(path.absolute().parts[-2:])


def product_version() -> list[str]:
    """Return what changes with the program: its version, and of a checkout what its sources are."""
    package = sys.modules["hta_graph"]
    return [package.__version__, *sources_version(Path(str(package.__file__)).parent)]


def sources_version(package: Path) -> list[str]:
    """Return what changes with the files of a package that is not installed: their sizes and times."""
    if "site-packages" in package.parts:
        return []
    found, folders = list[str](), [str(package)]
    while folders:
        with os.scandir(folders.pop()) as inside:
            for item in inside:
                if item.is_dir(follow_symlinks=False):
                    folders.append(item.path)
                elif item.name.endswith((".py", ".json")):
                    status = item.stat()
                    found.append(f"{item.path} {status.st_size} {status.st_mtime_ns}")
    return [blake2b("\n".join(sorted(found)).encode(), digest_size=DIGEST_BYTES).hexdigest()]


def encode_cached_graph(graph: DependencyGraph) -> Entry:
    """Return the entry of a graph, and of the order and the nesting of its points."""
    record, columns = content_record(graph, {})
    timeline, calls = graph.timeline, graph.timeline.calls
    columns += [timeline.order, calls.points, calls.owner, calls.parent, calls.first]
    return Entry({"graph": record, "violations": calls.violations}, tuple(columns))


def content_record(graph: DependencyGraph, attached: AttachedTables) -> tuple[dict[str, Any], list[Column]]:
    """Return what a graph is as JSON, and its columns, without what :func:`question_values` adds again.

    What is kept names neither file nor rank: the same trace may lie elsewhere tomorrow.
    """
    record, columns = graph_record(graph, attached)
    for key in question_values(graph.path, graph.rank, ()):
        del record["trace"]["values"][key]
    return record, columns


def question_values(path: Location, rank: int | None, step_patterns: Sequence[str]) -> dict[str, Any]:
    """Return what of a trace is not the file's own."""
    return {"path": name_with_secrets(path), "rank": rank, "step_patterns": list(step_patterns)}


def graph_of_content(
    record: dict[str, Any], columns: Iterator[Column], values: Mapping[str, Any], attached: AttachedTables
) -> DependencyGraph:
    """Undo :func:`content_record`: put a graph together that is not checked yet."""
    record["trace"]["values"].update(values)
    return graph_of_record(record, lambda *_: next(columns), attached)


def decode_cached_graph(entry: Entry, values: Mapping[str, Any]) -> DependencyGraph:
    """Return the graph of an entry, with :func:`question_values`.

    Raises:
        ValueError: its numbers refer to what is not there.
        KeyError, TypeError, StopIteration: it is another record.
    """
    columns = iter(entry.columns)
    graph = graph_of_content(entry.record["graph"], columns, values, {})
    timeline = graph.timeline
    order, points, owner, parent, first = columns
    timeline.set_known(order, Nesting(points, owner, parent, first, entry.record["violations"], timeline.times))
    check_indices(graph_tables(graph), (*graph_indices(graph), *_timeline_indices(graph)))
    return graph


def check_indices(tables: Iterable[Columns], indices: Iterable[IndexRange]) -> None:
    """Refuse columns of a table that differ in length, and numbers that refer to nothing.

    Raises:
        ValueError: there are some.
    """
    for table in tables:
        if len({len(getattr(table, name)) for name in column_types(type(table))}) > 1:
            raise ValueError("the columns of a table differ in length")
    for column, least, past in indices:
        if len(column) and not least <= column.min() <= column.max() < past:
            raise ValueError("a number refers to nothing")


def graph_tables(graph: DependencyGraph) -> tuple[Columns, ...]:
    """Return the tables of a graph."""
    trace = graph.trace
    return (trace.events, trace.syncs, trace.copies, trace.flows, graph.edge_table, graph.wait_calls)


def graph_indices(graph: DependencyGraph) -> Iterator[IndexRange]:
    """Yield every column of a graph that refers to other rows, with what it may hold."""
    events, edges, size, lanes = graph.event_table, graph.edge_table, len(graph.event_table), len(graph.lanes.labels)
    yield events.name, 0, len(graph.names)
    yield events.lane, 0, lanes
    for times in (events.start, events.end):
        yield times, -MOST_NS, MOST_NS
    yield events.kind, 0, max(EventKind) + 1
    yield edges.kind, 0, max(EdgeKind) + 1
    yield edges.rule, 0, max(Rule) + 1
    for column in (edges.source, edges.target):
        yield column, 0, 2 * size
    for table in (graph.trace.syncs, graph.trace.copies):
        yield table.event, 0, size
    for column in (graph.trace.flows.start_lane, graph.trace.flows.end_lane):
        yield column, -1, lanes
    for column in (graph.wait_calls.source, graph.wait_calls.target, graph.wait_calls.call):
        yield column, -1, size


def _timeline_indices(graph: DependencyGraph) -> Iterator[IndexRange]:
    timeline, size = graph.timeline, len(graph.event_table)
    calls = timeline.calls
    lengths = (len(calls.owner), len(calls.parent), len(calls.first))
    if lengths != (len(calls.points), size, len(graph.lanes.labels) + 1):
        raise ValueError("a nesting has other lengths than its trace")
    for column in (timeline.order, calls.points):
        yield column, 0, 2 * size
    for column in (calls.owner, calls.parent):
        yield column, -1, size
    yield calls.first, 0, len(calls.points) + 1
