"""Which reader reads a file that is no Kineto trace: chosen by what the file holds, never by its name.

A reader is a function from a file to the columns of its ranks. The same rows as Kineto would write them are what
arguments are looked up in and what is written with an overlay. A new format is a row here and one of its own in
:data:`hta_graph.trace.formats.FORMATS`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from hta_graph.base.errors import TraceError
from hta_graph.base.storage.location import Location, is_remote, open_to_peek
from hta_graph.model import Ids
from hta_graph.trace.formats import HEAD_BYTES, NSIGHT_EXPORT, SQLITE, Format, format_of
from hta_graph.trace.recorded import Recorded

if TYPE_CHECKING:
    from hta_graph.trace.nsys.columns import RankOfProcess


AnyRow = TypeVar("AnyRow")


class ReadColumns(Protocol):
    """Reads the columns of each rank of a file."""

    def __call__(
        self, path: Location, ranks: Collection[int] | None = None, process: str | None = None, *, salvage: bool = False
    ) -> Iterator[Recorded]:
        """Yield them, lowest first, or those of some ranks or one process; of a damaged file what can be recovered."""
        ...


class ReadRows(Protocol):
    """Reads the rows at some places (ascending) of a file as Kineto has them, and the header."""

    def __call__(
        self, path: Location, wanted: Ids, make: Callable[[dict[str, Any]], AnyRow], *, salvage: bool = False
    ) -> tuple[dict[int, AnyRow], dict[str, Any]]:
        """Return what is made of each; of a damaged file as columns were recovered, if asked."""
        ...


@dataclass(frozen=True)
class Reader:
    """How files of one format are read.

    Attributes:
        columns: the columns of each rank, lowest first.
        ranks: the rank and the number of ranks, where these are known, and of several processes which one.
        rows: the rows at some places (ascending) as Kineto has them, and the header.
        text: all rows as a Kineto trace, in pieces.
    """

    columns: ReadColumns
    ranks: Callable[[Location], list[RankOfProcess]]
    rows: ReadRows
    text: Callable[[Location], Iterator[bytes]]


def _nsys_reader() -> Reader:
    from hta_graph.trace.nsys.columns import read_columns, read_ranks
    from hta_graph.trace.nsys.rows import kineto_text, read_rows

    return Reader(read_columns, read_ranks, read_rows, kineto_text)


READERS: Mapping[str, Callable[[], Reader]] = {NSIGHT_EXPORT.name: _nsys_reader}
"""By the names of their formats; a format's room is imported when the first file of it is read."""


def reader_of(path: Location) -> Reader | None:
    """Return the reader of a file; None for what is read as JSON, or cannot be opened.

    Raises:
        TraceError: it is a database of which none is known.
    """
    return database_reader(path, _begin_of(path)) if is_database(path) else None


def is_database(path: Location) -> bool:
    """Return whether a file of this machine begins as a database."""
    return SQLITE.match(_begin_of(path)) is not None


def _begin_of(path: Location) -> bytes:
    try:
        # Of a stream the beginning could not be read again.
        if is_remote(path) or not path.is_file():
            return b""
        with open_to_peek(path) as file:
            return file.read(HEAD_BYTES)
    except (OSError, ValueError):  # a name with a null character is a ValueError
        return b""


def database_reader(path: Location, begin: bytes) -> Reader:
    """Return the reader of a database that begins so.

    Raises:
        TraceError: none is known.
    """
    if is_remote(path) or not path.is_file():
        raise TraceError(path, "is an SQLite database, which needs a local file", "copy it to one")
    known: Format | None = format_of(path, begin)
    if known is None or known.name not in READERS:
        raise (known or NSIGHT_EXPORT).refusal(path)
    return READERS[known.name]()
