"""Which rank is this file? From the header, else the file's name, else its place in the order, said so."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hta_graph.errors import TraceError
from hta_graph.trace.rows import Header
from hta_graph.trace.vocabulary import RANK_IN_FILE_NAME

__all__ = ["RankFile", "assign_ranks", "expand", "header_count"]


@dataclass(frozen=True)
class RankFile:
    """A trace file, its rank, and where the rank comes from: ``header``, ``file name`` or ``order``."""

    path: Path
    rank: int
    source: str


def header_count(header: Header, key: str) -> int | None:
    """Return a key of ``distributedInfo`` such as ``rank`` if it is a number."""
    info: Any = header.distributed
    value = info.get(key) if isinstance(info, dict) else None
    if isinstance(value, str) and re.fullmatch(r"\d{1,9}", value):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else None


def name_rank(path: Path) -> int | None:
    """Read a rank from a file's name.

    >>> name_rank(Path("node-3-rank-07-x.json.gz")), name_rank(Path("trace.json"))
    (7, None)
    """
    match = RANK_IN_FILE_NAME.search(path.name)
    digits = match and (match[1] or match[2])
    return int(digits) if digits and len(digits) < 10 else None


def expand(paths: Sequence[Path]) -> list[Path]:
    """Replace each folder by the trace files in it, in order of name.

    Raises:
        TraceError: a folder holds no ``.json``, ``.gz`` or ``.zst`` file.
    """
    found: list[Path] = []
    for path in paths:
        try:
            inside = sorted(p for p in path.iterdir() if p.is_file() and p.suffix in (".json", ".gz", ".zst"))
        except NotADirectoryError:
            inside = [path]
        except FileNotFoundError:
            raise TraceError(path, "no such file") from None
        except OSError as error:
            raise TraceError(path, f"cannot be read: {error.strerror or error}") from None
        if not inside:
            raise TraceError(path, "this folder holds no .json, .json.gz or .json.zst file")
        found += inside
    return list(dict.fromkeys(found))


def assign_ranks(files: Iterable[tuple[Path, int | None]]) -> list[RankFile]:
    """Give each (path, rank in the header) its rank, lowest first.

    Raises:
        TraceError: two files claim one rank.
    """
    known: list[RankFile] = []
    unknown: list[Path] = []
    for path, in_header in files:
        in_name = name_rank(path)
        if in_header is not None:
            known.append(RankFile(path, in_header, "header"))
        elif in_name is not None:
            known.append(RankFile(path, in_name, "file name"))
        else:
            unknown.append(path)
    taken = {file.rank: file.path for file in reversed(known)}
    for file in known:
        if taken[file.rank] != file.path:
            raise TraceError(
                file.path, f"claims rank {file.rank}, as {taken[file.rank]} does", "give one file per rank"
            )
    free = (rank for rank in range(len(taken) + len(unknown)) if rank not in taken)
    known += [RankFile(path, rank, "order") for path, rank in zip(unknown, free, strict=False)]
    return sorted(known, key=lambda file: file.rank)
