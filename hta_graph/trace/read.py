"""Files → traces: one file, or a folder of rank files read one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from hta_graph.errors import NotATraceError, TraceError
from hta_graph.trace.assemble import assemble
from hta_graph.trace.decode import Decoded, with_fallback
from hta_graph.trace.ranks import RankFile, assign_ranks, expand, header_count
from hta_graph.trace.rows import Header
from hta_graph.trace.source import read_bytes
from hta_graph.trace.table import Trace

__all__ = ["find_ranks", "read_trace", "read_traces"]

Say = Callable[[str], None]


def read_trace(path: str | Path, *, salvage: bool = False) -> Trace:
    """Read one Kineto trace: ``.json``, ``.json.gz`` or zstd, whatever the dialect.

    Args:
        path: the file.
        salvage: read the whole events of a file that breaks off.

    Raises:
        TraceError: the file cannot be read or is not a trace; one line names the place, the cause and the remedy.
    """
    path = Path(path)
    return with_fallback(path, read_bytes(path), lambda decoded: assemble(path, decoded), salvage=salvage)


def _header(decoded: Decoded) -> Header:
    for _ in decoded.parts:
        pass
    return decoded.header


def find_ranks(inputs: Sequence[str | Path], *, salvage: bool = False, say: Say = lambda _: None) -> list[RankFile]:
    """Find the rank files behind inputs (files or folders), lowest rank first.

    Files in a folder that hold no trace rows are skipped, and ``say`` gets a line about each.

    Raises:
        TraceError: no trace among the inputs, a broken one, or two that claim one rank.
    """
    found: list[tuple[Path, int | None]] = []
    paths = expand([Path(item) for item in inputs])
    for path in paths:
        try:
            header = with_fallback(path, read_bytes(path), _header, salvage=salvage)
            found.append((path, header_count(header, "rank")))
        except NotATraceError as error:
            if len(paths) == 1:
                raise
            say(f"skipped {error}")
    if not found:
        raise TraceError(", ".join(map(str, inputs)), "no trace among these files")
    ranks = assign_ranks(found)
    for file in ranks:
        if file.source == "order" and len(ranks) > 1:
            say(f"{file.path}: neither the header nor the name tells its rank; taken as rank {file.rank} by order")
    return ranks


def read_traces(
    inputs: str | Path | Sequence[str | Path],
    *,
    rank: int | None = None,
    salvage: bool = False,
    say: Say = lambda _: None,
) -> Iterator[Trace]:
    """Read the traces behind files or folders one at a time, lowest rank first.

    Args:
        inputs: a file, a folder of rank files, or several of either.
        rank: read only this rank.
        salvage: read the whole events of files that break off.
        say: is called with a line about each file that is skipped or numbered by order.

    Raises:
        TraceError: a file is broken, two claim one rank, or ``rank`` is not there.
    """
    listed = [inputs] if isinstance(inputs, (str, Path)) else list(inputs)
    if expand([Path(item) for item in listed]) == [Path(item) for item in listed[:1]]:
        trace = read_trace(listed[0], salvage=salvage)
        files = assign_ranks([(trace.path, trace.rank)])
        _check_rank(files, rank)
        yield replace(trace, rank=files[0].rank)
        return
    files = find_ranks(listed, salvage=salvage, say=say)
    _check_rank(files, rank)
    for file in files:
        if rank in (None, file.rank):
            yield replace(read_trace(file.path, salvage=salvage), rank=file.rank)


def _check_rank(files: list[RankFile], rank: int | None) -> None:
    if rank is not None and rank not in [file.rank for file in files]:
        known = ", ".join(str(file.rank) for file in files[:32])
        raise TraceError(files[0].path, f"rank {rank} is not there", f"there are: {known}")
