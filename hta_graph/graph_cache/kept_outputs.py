"""What a command wrote about files, kept as it was written: asked again, it is only read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hta_graph.base.errors import HtaGraphError
from hta_graph.base.storage.location import Location, expand_file_lists, is_remote
from hta_graph.graph_cache.entry_file import Entry
from hta_graph.graph_cache.trace_cache import GraphCache
from hta_graph.trace.rank_files import expand_inputs, possible_dumps

MOST_OUTPUT_BYTES = 64 << 20
"""Longer outputs are not kept."""
MOST_FILES = 64
"""More files are not hashed before they are read."""


@dataclass(frozen=True)
class KeptOutputs:
    """Where outputs about the files of some inputs are kept, for as long as these are the same files."""

    cache: GraphCache
    inputs: Sequence[str]
    files: Sequence[Location]
    digests: Sequence[str]

    @classmethod
    def about(cls, cache: GraphCache, inputs: Sequence[str]) -> KeptOutputs | None:
        """Return where they are kept; None where nothing can be kept of a file, or one cannot be found."""
        files = _files_of(inputs)
        if len(files) > MOST_FILES:
            return None
        digests = [digest for path in files if (digest := cache.digest(path)) is not None]
        return cls(cache, inputs, files, digests) if files and len(digests) == len(files) else None

    def find(self, question: Any) -> Entry | None:
        """Return what a question was answered, if that is known: a text, and a record of what was said meanwhile."""
        return self.cache.find(self.files[0], "output", [*self._asked, question])

    def while_written(self, question: Any, pieces: Iterable[bytes], record: dict[str, Any]) -> Iterator[bytes]:
        """Yield the pieces of an answer, and keep it with a record when all are written."""
        kept, size = bytearray(), 0
        for piece in pieces:
            size += len(piece)
            if size <= MOST_OUTPUT_BYTES:
                kept += piece
            yield piece
        # What was read meanwhile must be what was looked at before.
        is_same = self.files == _files_of(self.inputs) and all(map(self.cache.is_as_read, self.files))
        if is_same and size <= MOST_OUTPUT_BYTES:
            self.cache.keep(self.files[0], "output", [*self._asked, question], Entry(record, text=kept))

    @property
    def _asked(self) -> list[Any]:
        return [list(map(str, self.files)), list(self.digests)]


def _files_of(inputs: Sequence[str]) -> list[Location]:
    """Return all files that an answer may rest on: traces, and what may be dumps next to them; without them none."""
    try:
        given = expand_file_lists(inputs)
        if any(map(is_remote, given)):
            return []
        beside = [path for one in given for found in possible_dumps(one) for path in found]
        return list(dict.fromkeys([*expand_inputs(given), *beside]))
    except (HtaGraphError, OSError, ValueError):  # who reads them tells what is wrong
        return []
