"""Skeletons kept in a folder, so that the second question costs seconds: safe to delete, never trusted blindly.

An entry is a Parquet file whose name is made of what the trace's file holds, what was asked of it, and this version. It
has a row per column of the skeleton (name, type, bytes) and the rest as JSON in its metadata.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO
from pathlib import Path
from typing import Any

from hta_graph.errors import MissingExtraError
from hta_graph.graph import DependencyGraph
from hta_graph.job.graph_bytes import graph_pieces, read_graph
from hta_graph.job.skeleton_ranges import numbers_name_something
from hta_graph.places.named_places import full_name
from hta_graph.trace.rank_files import RankFile

__all__ = ["SkeletonCache", "import_parquet"]

FORMAT = 4
"""Is counted up where skeletons, or how they are kept, change."""
PIECE = 1 << 22
KEY_BYTES = 20


def import_parquet() -> Any:
    """Import what reads and writes Parquet.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import pyarrow.parquet as found
    except ImportError:
        raise MissingExtraError("keeping skeletons", "parquet") from None
    return found


class SkeletonCache:
    """Where the skeleton of one file is kept, as it was asked for."""

    def __init__(self, folder: Path, file: RankFile, asked: dict[str, Any]) -> None:
        self._file = file
        self._parquet = import_parquet()
        key = blake2b(digest_size=KEY_BYTES)
        for text in (str(FORMAT), _version(), str(file.rank), json.dumps(asked | {"cache": None}, sort_keys=True)):
            key.update(text.encode() + b"\0")
        for piece in _content(file):
            key.update(piece)
        name = key.hexdigest()
        self._entry = folder / name[:2] / f"{name}.parquet"

    def known(self) -> DependencyGraph | None:
        """Return the skeleton that is kept; None where none is, or none that holds what it says."""
        if not self._entry.is_file():
            return None
        # Whatever is wrong with an entry: the trace tells all that it could.
        with suppress(Exception):
            return self._read()
        return None

    def _read(self) -> DependencyGraph:
        with self._entry.open("rb") as file:
            table = self._parquet.read_table(file)
        head = json.loads(table.schema.metadata[b"hta-graph"])
        columns = b"".join(table.column("bytes").to_pylist())
        if self._digest(head["head"], columns) != head["digest"]:
            raise ValueError("an entry is not what was written")
        head["head"]["trace"]["values"]["path"] = full_name(self._file.path)
        found = read_graph(head["head"], BytesIO(columns))
        if not numbers_name_something(found):
            raise ValueError("an entry names what is not there")
        return found

    def _digest(self, head: dict[str, Any], columns: bytes) -> str:
        # The name is part of it: an entry in another's place tells of another rank.
        return blake2b(self._entry.name.encode() + json.dumps(head).encode() + columns).hexdigest()

    def keep(self, graph: DependencyGraph) -> DependencyGraph:
        """Keep a skeleton, and return it; where it cannot be written nothing is kept."""
        with suppress(OSError):
            self._write(graph)
        return graph

    def _write(self, graph: DependencyGraph) -> None:
        import pyarrow

        # What is kept names no file: the same trace may lie elsewhere tomorrow.
        unnamed = _with_path(graph, Path("trace"))
        first, *columns = graph_pieces(unnamed)
        head, pieces = json.loads(bytes(first)), [bytes(column) for column in columns]
        digest = self._digest(head, b"".join(pieces))
        table = pyarrow.table({"bytes": pyarrow.array(pieces, pyarrow.binary())})
        said = json.dumps({"head": head, "digest": digest}).encode()
        self._entry.parent.mkdir(parents=True, exist_ok=True)
        part = self._entry.with_name(f".{self._entry.name}.{secrets.token_hex(8)}.part")
        try:
            # Opened here, for Parquet's own way takes no names that are no UTF-8.
            with part.open("wb") as file:
                self._parquet.write_table(table.replace_schema_metadata({"hta-graph": said}), file, compression="zstd")
            part.replace(self._entry)
        finally:
            part.unlink(missing_ok=True)


@cache
def _version() -> str:
    # A copy that nobody installed has no version: FORMAT is counted up in any case.
    with suppress(PackageNotFoundError):
        return version("hta-graph")
    return ""


def _content(file: RankFile) -> Iterator[bytes]:
    with file.path.open("rb") as content:
        while piece := content.read(PIECE):
            yield piece


def _with_path(graph: DependencyGraph, path: Path) -> DependencyGraph:
    trace = replace(graph.trace, path=path)
    notes = {key: count for key, count in graph.diagnostics.items() if key not in graph.trace.diagnostics}
    renamed = DependencyGraph(trace, graph.timeline, graph.edge_table, notes, graph.wait_calls)
    renamed.answers.update(graph.answers)
    return renamed
