"""Summaries kept in a folder, so that the second question costs seconds: safe to delete, never trusted blindly.

An entry is a Parquet file whose name is made of what the trace's file holds, what was asked of it, and this version. It
has a row per column of the summary (name, type, bytes) and the rest as JSON in its metadata. All its indices (rows,
points, lanes, names) are checked before it is believed.
"""

from __future__ import annotations

import json
import secrets
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from hta_graph.errors import MissingExtraError
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.rank_summary import RankSummary
from hta_graph.model import EdgeKind, EventKind, Rule
from hta_graph.multi_rank.matching.communications import RankCommunications
from hta_graph.multi_rank.rank_activity import RankActivity
from hta_graph.multi_rank.wire_format import decode_graph, encode_graph
from hta_graph.storage.location import is_remote, name_with_secrets
from hta_graph.trace.rank_files import RankFile

IndexRange = tuple[np.ndarray[Any, Any], int, int]
"""A column, the least number it may hold, and the first one that is too large."""


def are_indices_valid(graph: DependencyGraph) -> bool:
    """Return whether every number in a summary refers to something that is there."""
    return all(
        not len(column) or least <= column.min() <= column.max() < past for column, least, past in _all_indices(graph)
    )


def _all_indices(graph: DependencyGraph) -> Iterator[IndexRange]:
    yield from _graph_indices(graph)
    answers, members, activity = (
        graph.attached(RankSummary),
        graph.attached(RankCommunications),
        graph.attached(RankActivity),
    )
    if answers is not None:
        yield answers.rows, 0, answers.size
    if members is not None:
        yield members.row, -1, len(graph.event_table)
        yield members.call, -1, len(graph.event_table)
        if activity is not None:
            yield from _of_activity(activity, len(members))


def _graph_indices(graph: DependencyGraph) -> Iterator[IndexRange]:
    events, edges, size = graph.event_table, graph.edge_table, len(graph.event_table)
    yield events.name, 0, len(graph.names)
    yield events.lane, 0, len(graph.lanes.labels)
    yield events.kind, 0, max(EventKind) + 1
    yield edges.kind, 0, max(EdgeKind) + 1
    yield edges.rule, 0, max(Rule) + 1
    for column in (edges.source, edges.target):
        yield column, 0, 2 * size


def _of_activity(activity: RankActivity, members: int) -> Iterator[IndexRange]:
    yield activity.walks.member, 0, max(members, 1)
    yield activity.walks.before, -1, len(activity.walks)
    yield activity.queued, -1, len(activity.queued)
    yield activity.done.walk, 0, len(activity.walks) + len(activity.queued)
    for column in (activity.transfer, activity.done.activity):
        yield column, 0, len(activity.name)


CACHE_FORMAT = 8
"""Is counted up where summaries, or how they are kept, change."""
MAX_MISSES = 8
"""If none of this many files has a cached summary, the others hardly have."""
CHUNK_BYTES = 1 << 22
KEY_BYTES = 20


def import_parquet() -> Any:
    """Import what reads and writes Parquet.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import pyarrow.parquet as found
    except ImportError:
        raise MissingExtraError("the cache of rank summaries", "parquet") from None
    return found


class SummaryCache:
    """Where the summary of one file is kept, as it was asked for."""

    def __init__(self, folder: Path, file: RankFile, asked: dict[str, Any]) -> None:
        self._file = file
        self._parquet = import_parquet()
        key = blake2b(digest_size=KEY_BYTES)
        for text in (
            str(CACHE_FORMAT),
            _version(),
            f"{file.rank} {file.process}",
            json.dumps(asked | {"cache": None}, sort_keys=True),
        ):
            key.update(text.encode() + b"\0")
        for piece in _file_chunks(file):
            key.update(piece)
        name = key.hexdigest()
        self._entry = folder / name[:2] / f"{name}.parquet"

    def known(self) -> DependencyGraph | None:
        """Return the summary that is kept; None where none is, or none that holds what it says."""
        if not self._entry.is_file():
            return None
        # Whatever is wrong with an entry: the trace tells all that it could.
        with suppress(Exception):
            return self._read()
        return None

    def _read(self) -> DependencyGraph:
        with self._entry.open("rb") as file:
            # Not as a data set: what that takes to open is more than what there is to read.
            table = self._parquet.ParquetFile(file).read(use_threads=False)
        said, digest = (table.schema.metadata[key] for key in (b"hta-graph", b"digest"))
        columns = b"".join(table.column("bytes").to_pylist())
        if self._digest(said, columns) != digest:
            raise ValueError("an entry is not what was written")
        head = json.loads(said)
        head["trace"]["values"]["path"] = name_with_secrets(self._file.path)
        found = decode_graph(head, BytesIO(columns))
        if not are_indices_valid(found):
            raise ValueError("an entry names what is not there")
        return found

    def _digest(self, said: bytes, columns: bytes) -> bytes:
        # The name is part of it: an entry in another's place tells of another rank.
        return blake2b(self._entry.name.encode() + said + columns).hexdigest().encode()

    def keep(self, graph: DependencyGraph) -> DependencyGraph:
        """Keep a summary, and return it; where it cannot be written nothing is kept."""
        with suppress(OSError):
            self._write(graph)
        return graph

    def _write(self, graph: DependencyGraph) -> None:
        import pyarrow

        # What is kept names no file: the same trace may lie elsewhere tomorrow.
        unnamed = _with_path(graph, Path("trace"))
        said, *pieces = map(bytes, encode_graph(unnamed))
        table = pyarrow.table({"bytes": pyarrow.array(pieces, pyarrow.binary())})
        labelled = {"hta-graph": said, "digest": self._digest(said, b"".join(pieces))}
        self._entry.parent.mkdir(parents=True, exist_ok=True)
        part = self._entry.with_name(f".{self._entry.name}.{secrets.token_hex(8)}.part")
        try:
            # Opened here, for Parquet's own way takes no names that are no UTF-8.
            with part.open("wb") as file:
                self._parquet.write_table(table.replace_schema_metadata(labelled), file, compression="zstd")
            part.replace(self._entry)
        finally:
            part.unlink(missing_ok=True)


def cached_summaries(
    folder: Path, files: Sequence[RankFile], asked: Mapping[str, Any], threads: int
) -> dict[int, DependencyGraph]:
    """Return the summaries of files of this machine that are kept, by rank; few or none where few are.

    Args:
        folder: where they are kept.
        files: the ranks' files.
        asked: what is read of each, as JSON.
        threads: how many files are read at once.
    """
    found, missed = dict[int, DependencyGraph](), list[int]()

    def look_up(file: RankFile) -> None:
        if file.error or is_remote(file.path) or len(missed) >= MAX_MISSES:
            return
        known = None
        with suppress(OSError, MemoryError):  # who reads the file tells what is wrong
            known = SummaryCache(folder, file, dict(asked)).known()
        if known is None:
            missed.append(file.rank)
        else:
            found[file.rank] = known

    with ThreadPoolExecutor(threads) as pool:
        deque(pool.map(look_up, files), maxlen=0)
    return found


def _version() -> str:
    # The package imports this room, so this room does not import the package.
    version: str = sys.modules["hta_graph"].__version__
    return version


def _file_chunks(file: RankFile) -> Iterator[bytes]:
    with file.path.open("rb") as content:
        while piece := content.read(CHUNK_BYTES):
            yield piece


def _with_path(graph: DependencyGraph, path: Path) -> DependencyGraph:
    trace = replace(graph.trace, path=path)
    notes = {key: count for key, count in graph.diagnostics.items() if key not in graph.trace.diagnostics}
    return DependencyGraph(trace, graph.timeline, graph.edge_table, notes, graph.wait_calls, graph.attached_tables)
