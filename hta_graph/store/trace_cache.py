"""What is kept of trace files: entries of the cache's folder, found by what a file holds, and the graphs among them.

What a file holds is a hash of its stored bytes: by this, and never by its name or times, entries are found. Answers
about graphs that take long and are small, such as a window's verdict, lie next to them.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import blake2b
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hta_graph.base.storage.location import Location, is_remote
from hta_graph.base.storage.open_local import open_local
from hta_graph.store.cache_folder import CacheFolder
from hta_graph.store.entry_file import Entry
from hta_graph.trace.memory_limit import memory_for_one_file
from hta_graph.trace.rank_files import EXPORT_ENDINGS, FoundFile, assign_ranks, choose_ranks

if TYPE_CHECKING:
    from hta_graph.graph.dependency_graph import DependencyGraph
    from hta_graph.trace.table import EventTable

DIGEST_BYTES = 20
PIECE = 1 << 20
OTHER_PARTS = ("-wal", "-journal")
"""What is appended to the name of a database for the file that has rows of it, too."""
SETTLED_NS = 10 * 10**9
"""A file that was changed so long ago would get other times by a change now: clocks of file systems are coarse."""


@dataclass(frozen=True)
class FileVersion:
    """What changes when a file is replaced or written to."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, found: os.stat_result) -> FileVersion:
        """Return the version that a file's status shows."""
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    @property
    def is_settled(self) -> bool:
        """Whether the file is old enough for a change after now to show."""
        # Only POSIX's ctime cannot be set by programs.
        age_ns = time.time_ns() - max(self.mtime_ns, self.ctime_ns)
        return os.name == "posix" and age_ns > SETTLED_NS

    @property
    def name(self) -> str:
        """A name for what is known of this version."""
        numbers = (self.device, self.inode, self.size, self.mtime_ns, self.ctime_ns)
        return blake2b(repr(numbers).encode(), digest_size=DIGEST_BYTES).hexdigest()


@dataclass(frozen=True)
class StoredContent:
    """The hash of a file's bytes, the version in which it has them, and whether a later change would show."""

    digest: str
    version: FileVersion
    is_settled: bool


def stored_content(path: Path, known: Callable[[FileVersion], str | None] = lambda _: None) -> StoredContent | None:
    """Return what a file holds; None of what is no regular file, cannot be read, or is being written.

    A database whose rows are partly in another file is being written.

    ``known`` returns the noted hash of a settled version, if there is one: then the file is not read.
    """
    with suppress(OSError, ValueError):  # a name with a null character is a ValueError
        # Of a pipe nothing may be taken.
        if not stat.S_ISREG(path.stat().st_mode) or any(Path(f"{path}{ending}").exists() for ending in OTHER_PARTS):
            return None
        with open_local(path) as file:
            version = FileVersion.of(os.fstat(file.fileno()))
            is_settled = version.is_settled
            if is_settled and (digest := known(version)):
                return StoredContent(digest, version, is_settled)
            if version.size > memory_for_one_file() and not path.name.endswith(EXPORT_ENDINGS):
                return None  # reading will refuse it, and hashing takes as long
            found = blake2b(digest_size=DIGEST_BYTES)
            while piece := file.read(PIECE):
                found.update(piece)
            if FileVersion.of(os.fstat(file.fileno())) == version:
                return StoredContent(found.hexdigest(), version, is_settled)
    return None


def is_unchanged(path: Path, before: StoredContent) -> bool:
    """Return whether a file still holds what it held before it was read: what was read then is of that content."""
    with suppress(OSError):
        if FileVersion.of(path.stat()) != before.version:
            return False
        if before.is_settled:
            return True
        # Two changes shortly after each other may leave the same times.
        now = stored_content(path)
        return now is not None and (now.digest, now.version) == (before.digest, before.version)
    return False


CACHE_FORMAT = 5
"""Is counted up where graphs, or how they are kept, change; every version of the package has entries of its own."""
FEW_EVENTS = 2_000
"""Graphs of fewer events are not kept: reading the trace takes no longer."""
WORTH_A_NOTE = 1 << 20
"""Hashes of larger files (bytes) are noted, so that an unchanged one need not be read for its hash."""

IN_HEADER = "rank_in_header"


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
        return self.is_as_read(path) and self.folder.has(self._name(path, kind, asked))

    def keep(self, path: Location, kind: str, asked: Any, entry: Entry) -> None:
        """Keep something of a file that has been read."""
        content = self._contents.get(path) if self.is_as_read(path) else None
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

    def is_as_read(self, path: Location) -> bool:
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
        from hta_graph.store.record import NOT_WHAT_WAS_WRITTEN, check_acyclic, decode_graph, question_values

        try:
            graph = decode_graph(entry, values=question_values(path, rank, step_patterns))
            check_acyclic(graph)
        except NOT_WHAT_WAS_WRITTEN:
            self.discard(path, "graph", salvage)
            return None
        return graph

    def has_graph(self, path: Location, *, salvage: bool) -> bool:
        """Return whether the graph of a file that has been read is kept."""
        return self.has(path, "graph", salvage)

    def keep_graph(self, graph: DependencyGraph, said: Mapping[str, int | None], *, salvage: bool) -> None:
        """Keep the graph of a file with one recording.

        ``said`` has the rank that its header says (``IN_HEADER``), where that is known.
        """
        if len(graph.event_table) >= FEW_EVENTS and (said or not self.has_graph(graph.path, salvage=salvage)):
            from hta_graph.store.record import encode_graph

            entry = encode_graph(graph, is_ordered=True, is_named=False)
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


IsSound = Callable[[Any], bool]
"""Returns whether an answer has the shape that its reader expects."""


@dataclass(frozen=True, eq=False)
class KeptAnswers:
    """Where answers about a graph are kept; attached to the graph of a whole file, as it was read.

    ``events`` are the graph's: an answer about a part of it is another one.
    """

    cache: GraphCache
    events: EventTable
    salvage: bool

    def is_about(self, graph: DependencyGraph) -> bool:
        """Return whether a graph is as it was read.

        What else is attached, such as the recording of a capture or what other ranks did, may change an answer.
        """
        return graph.event_table is self.events and all(table is self for table in graph.attached_tables)

    def has(self, graph: DependencyGraph) -> bool:
        """Return whether the graph is kept, and its file still holds what was read."""
        return self.cache.has_graph(graph.path, salvage=self.salvage)

    def asked_of(self, graph: DependencyGraph) -> list[Any]:
        """Return what distinguishes questions about graphs of one content."""
        trace = graph.trace
        return [self.salvage, str(trace.path), trace.rank, list(trace.step_patterns)]


def with_kept_answers(graph: DependencyGraph, cache: GraphCache, *, salvage: bool) -> DependencyGraph:
    """Return a graph whose answers are kept; the graph itself where it is not in the cache as it was read."""
    if not cache.has_graph(graph.path, salvage=salvage):
        return graph
    return graph.with_attached(KeptAnswers(cache, graph.event_table, salvage))


def kept_answer(graph: DependencyGraph, question: Any, compute: Callable[[], Any], is_sound: IsSound) -> Any:
    """Return the answer to a question about a graph, both as JSON has them; where answers are kept it may be known."""
    known = graph.attached(KeptAnswers)
    if known is None or not known.is_about(graph):
        return compute()
    asked = [*known.asked_of(graph), question]
    entry = known.cache.find(graph.path, "answer", asked)
    if entry is not None and is_sound(entry.record.get("answer")):
        return entry.record["answer"]
    found = compute()
    if known.has(graph):
        known.cache.keep(graph.path, "answer", asked, Entry({"answer": found}))
    return found
