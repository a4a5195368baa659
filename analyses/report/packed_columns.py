"""Columns of numbers as text inside a page: counted in as few bytes as they need, deflated, as base64."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hta_graph.model import Ids, Ints

__all__ = ["packed_text", "varints", "zigzag"]

HEAD_BYTES = 4


def packed_text(head: Mapping[str, Any], columns: Sequence[Ints]) -> str:
    """Return a head and columns of numbers from 0 on as text that needs no escaping.

    Inside the base64 and the zlib stream: the length of the head (4 bytes, little-endian), the head as JSON, and the
    columns one after the other as :func:`varints`. The same input gives the same text.
    """
    # Names from a trace stand in here only, as base64: no name can end the page's script or begin one.
    said = json.dumps(head, separators=(",", ":")).encode()
    pieces = [len(said).to_bytes(HEAD_BYTES, "little"), said, *map(varints, columns)]
    return base64.b64encode(zlib.compress(b"".join(pieces), 9)).decode()


def varints(values: Ids | Ints) -> bytes:
    r"""Write each number in groups of 7 bits, the lowest first; the upper bit says that more follow (LEB128).

    >>> varints(np.array([5, 300]))
    b'\x05\xac\x02'
    """
    rest = values.astype(np.uint64)
    size = np.ones(len(rest), np.int64)
    for groups in range(1, 10):
        size += rest >= 1 << 7 * groups
    first = np.cumsum(size) - size
    written = np.zeros(int(size.sum()), np.uint8)
    # All numbers write their first group, then all that have a second one, and so on.
    for group in range(int(size.max(initial=0))):
        has = size > group
        more = (size[has] > group + 1) * np.uint64(128)
        written[first[has] + group] = (rest[has] >> np.uint64(7 * group)) % 128 | more
    return written.tobytes()


def zigzag(values: Ints) -> Ints:
    """Map numbers to numbers from 0 on, near 0 to small ones.

    >>> zigzag(np.array([0, -1, 1, -2])).tolist()
    [0, 1, 2, 3]
    """
    return np.where(values < 0, -2 * values - 1, 2 * values)
