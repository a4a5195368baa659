"""A scene of lanes as a page holds it: packed columns, which ``timeline_data.js`` reads."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from analyses.display.labels import SHORT
from analyses.display.text_layout import clipped
from hta_graph.base.arrays import distinct, first_of_runs
from hta_graph.base.colours import BOUND_COLOUR, EVENT_COLOUR, PATH_COLOUR
from hta_graph.model import BoundBy, Ids, Ints
from hta_graph.paths.lane_scene import LaneScene
from hta_graph.paths.level_of_detail import BAR_GROUPS, EVENT_WORDS

HEAD_BYTES = 4


def packed_text(head: Mapping[str, Any], columns: Sequence[Ints]) -> str:
    """Return a head and columns of numbers from 0 on as text that needs no escaping.

    Inside the base64 and the zlib stream: the length of the head (4 bytes, little-endian), the head as JSON, and the
    columns one after the other as :func:`varints`. The same input gives the same text.
    """
    # Names from a trace are here only, as base64: no name can end the page's script or begin one.
    text = json.dumps(head, separators=(",", ":")).encode()
    pieces = [len(text).to_bytes(HEAD_BYTES, "little"), text, *map(varints, columns)]
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


COLOUR_OF = {**BOUND_COLOUR, **EVENT_COLOUR, "path": PATH_COLOUR}
NAME_SIZE = 120


def packed_scene(scene: LaneScene, base: int, chosen: int) -> str:
    """Pack a scene; ``timeline_data.js`` reads it."""
    bars, names = scene.bars, scene.names
    first = np.flatnonzero(first_of_runs(bars.series))
    used = distinct(bars.name[bars.name >= 0])
    columns = [bars.track[first], bars.group[first], bars.on_path[first], np.diff(first, append=len(bars))]
    head = {
        "base": str(base),
        "length": max(p.window.end_ns for p in scene.paths) - base,
        "chosen": chosen,
        "windows": [[p.window.start_ns - base, p.window.end_ns - base] for p in scene.paths],
        "lanes": [[clipped(lane.label, NAME_SIZE), lane.depth] for lane in scene.lanes],
        "groups": [[EVENT_WORDS.get(name, SHORT.get(name, name)), COLOUR_OF[name]] for name in BAR_GROUPS],
        "classes": len(BoundBy),
        "names": [clipped(names[code], NAME_SIZE) or "(no name)" for code in used.tolist()],
        "series": [column.tolist() for column in (column.astype(np.int64) for column in columns)],
    }
    name = np.where(bars.name >= 0, np.searchsorted(used, bars.name) + 1, 0)
    return packed_text(head, [*_time_columns(scene, base, first), bars.count - 1, name, _index_steps(bars.index)])


def _time_columns(scene: LaneScene, base: int, first: Ints) -> list[Ints]:
    """Return gaps between the bars of a series, lengths, and how much of a length is empty."""
    bars = scene.bars
    before = np.append(base, bars.end[:-1])
    before[first] = base
    return [zigzag(bars.start - before), bars.end - bars.start, bars.end - bars.start - bars.busy]


def _index_steps(index: Ints) -> Ints:
    """Return by how much each event's number differs from the one before."""
    return zigzag(np.diff(index, prepend=0))
