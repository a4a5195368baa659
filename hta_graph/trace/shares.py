"""A large file read in shares, each by a process of its own: every n-th part, as columns that are joined again.

Every process decompresses the file, which is a seventh of reading it, and cuts it at the same places; of the parts it
decodes its own. What a share cannot hold as the whole would, such as damage, is an error: the file is then read as a
whole.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import chain, pairwise
from typing import Any

import numpy as np

from hta_graph.base.arrays import memory_of
from hta_graph.base.errors import TraceError
from hta_graph.base.storage.location import Location, resolve_location
from hta_graph.model import Ids
from hta_graph.trace.columnize import collect_columns, join_groups
from hta_graph.trace.decompress import FileBytes, open_text
from hta_graph.trace.json_reader import ROWS_BY_PHASE, FileFacts, Header, RowReader, has_plain_header
from hta_graph.trace.memory_limit import paused_gc
from hta_graph.trace.recorded import Arrow, Bracket, Collected, FileColumns, Numbering

Share = tuple[dict[str, Any], FileColumns]
"""What is known of a share, as JSON values, and its columns; ``index`` counts the rows of its own parts."""


def share_pieces(path: str, share: int, of: int) -> Iterator[bytes | memoryview]:
    """Read a share of a file; yield a line of JSON, and each column as it lies in memory.

    Raises:
        TraceError: the file cannot be read in shares, or at all.
    """
    record, columns = read_share(resolve_location(path), share, of)
    yield json.dumps(record).encode() + b"\n"
    for column in columns.values():
        yield memory_of(column)


def read_share(path: Location, share: int, of: int) -> Share:
    """Read one of several shares of a file.

    Raises:
        TraceError: the file cannot be read in shares, or at all.
    """
    with paused_gc(), open_text(path, has_plain_header) as content:
        if isinstance(content, FileBytes):
            raise TraceError(path, "is not decompressed while it is read: every share would hold all of it")
        reader = RowReader(path, content, ROWS_BY_PHASE, share=(share, of))
        collected = collect_columns(reader)
        facts = reader.facts
    # What has one value in all rows is not sent.
    columns = {name: column for name, column in collected.columns.items() if column.strides[0] or not len(column)}
    record = {
        "number of parts": reader.parts,
        "parts": collected.parts,
        "columns": [(name, column.dtype.str, len(column)) for name, column in columns.items()],
        "names": list(collected.names),
        "threads": list(collected.threads),
        "streams": list(collected.streams),
        "brackets": [asdict(bracket) for bracket in collected.brackets],
        "arrows": [asdict(arrow) for arrow in collected.arrows],
        "old_launches": collected.old_launches,
        "counts": collected.counts,
        "header": asdict(facts.header),
        "non_objects": facts.non_objects,
        "tolerant": facts.tolerant,
    }
    return record, columns


def join_shares(path: Location, shares: Sequence[Share]) -> tuple[Collected, FileFacts]:
    """Join all shares of a file to what reading it as a whole gives.

    Raises:
        TraceError: the file changed while it was read.
    """
    records = [record for record, _ in shares]
    count = len(shares)
    parts = records[0]["number of parts"]
    own = [range(share, parts, count) for share in range(count)]
    if any(len(record["parts"]) != len(places) for record, places in zip(records, own, strict=True)):
        raise TraceError(path, "changed while it was read", "read it again")
    rows = np.zeros(parts, np.int64)
    for record, places in zip(records, own, strict=True):
        rows[places] = [part[0] for part in record["parts"]]
    first = np.cumsum(rows) - rows
    collected = Collected({}, counts=sum((Counter(record["counts"]) for record in records), Counter()))
    groups, brackets = list[FileColumns](), list[Bracket]()
    for (record, columns), places in zip(shares, own, strict=True):
        # Where each of its rows stands in the file.
        place = np.repeat(first[places] - (np.cumsum(rows[places]) - rows[places]), rows[places])
        place = (place + np.arange(len(place))).astype(np.int32)
        columns["index"] = place[columns["index"]]
        columns["name"] = _renumbered(columns["name"], record["names"], collected.names)
        for name, known in (("thread", collected.threads), ("stream", collected.streams)):
            if name in columns:
                columns[name] = _renumbered(columns[name], map(tuple, record[f"{name}s"]), known)
        groups.append(columns)
        found = [Bracket(**{**bracket, "thread": tuple(bracket["thread"])}) for bracket in record["brackets"]]
        brackets += [replace(bracket, index=int(place[bracket.index])) for bracket in found]
    collected.columns = join_groups(groups)
    collected.brackets = sorted(brackets, key=lambda bracket: bracket.index)
    arrows = _in_turn(records, "arrows", 1, parts)
    collected.arrows = [Arrow(**{**arrow, "thread": tuple(arrow["thread"])}) for arrow in arrows]
    collected.old_launches = list(map(tuple, _in_turn(records, "old_launches", 2, parts)))
    header = Header(**records[(parts - 1) % count]["header"])
    non_objects = sum(record["non_objects"] for record in records)
    return collected, FileFacts(header, non_objects, any(record["tolerant"] for record in records), None)


def _renumbered(codes: Ids, keys: Any, known: Numbering) -> Ids:
    """Number keys as they are known; -1 stays."""
    number = np.array([*(known[key] for key in keys), -1], np.int32)
    return number[codes]


def _in_turn(records: Sequence[dict[str, Any]], key: str, field: int, parts: int) -> list[Any]:
    """Return what each part added to a list, in the order of the parts."""
    pieces = []
    for record in records:
        ends = [0, *(part[field] for part in record["parts"])]
        pieces.append([record[key][first:past] for first, past in pairwise(ends)])
    return list(chain.from_iterable(pieces[part % len(records)][part // len(records)] for part in range(parts)))
