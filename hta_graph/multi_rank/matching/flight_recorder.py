"""Dumps of PyTorch's flight recorder: which number each collective has in its group. Times in them are no arrivals.

One dump per rank. Its entries have a process group, a number within that (``collective_seq_id``), a name such as
``nccl:all_reduce``, sizes, and the time (Unix, ns) at which the call was made. Source: FlightRecorder.hpp in
torch/csrc/distributed/c10d.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from hta_graph.base.errors import TraceError
from hta_graph.base.storage.location import Location, expand_file_lists
from hta_graph.model import Bools, Ints
from hta_graph.multi_rank.matching.communications import count_elements
from hta_graph.multi_rank.matching.plain_pickle import NotPlainError, read_plain_pickle
from hta_graph.trace.decompress import read_any_format, read_bytes, text_head
from hta_graph.trace.memory_limit import out_of_memory_error
from hta_graph.trace.rank_files import RANK_IN_FILE_NAME, possible_dumps

PEAK_PER_BYTE = 24
"""What a dump's entries may take in memory for each byte of its text: an empty one is two bytes."""
HEAD_BYTES = 1 << 16
DUMP_MARKER = b'"collective_seq_id"'
PICKLE_MAGIC = b"\x80"
PEAK_PER_PICKLED_BYTE = 128
"""What a pickle's entries may take for each of its bytes: an empty dictionary is one and takes 73, an entry that is
named again is two."""
JSON_REMEDY = (
    "write JSON with torch._C._distributed_c10d._dump_fr_trace_json() (before PyTorch 2.8: _dump_nccl_trace_json())"
)


class _Entry(msgspec.Struct, gc=False):
    process_group: Any = None
    collective_seq_id: Any = None
    profiling_name: Any = ""
    input_sizes: Any = None
    time_created_ns: Any = None
    is_p2p: Any = False


class _Dump(msgspec.Struct):
    entries: list[_Entry]


@dataclass(frozen=True)
class FlightRecord:
    """A rank's collectives in the order of their calls: group, number in it, kind, elements (-1: none), time (ns)."""

    group: list[str]
    sequence: Ints
    kind: list[str]
    elements: Ints
    time: Ints

    def of_group(self, name: str) -> Bools:
        """Mark those of one group."""
        return np.array([own == name for own in self.group], np.bool_)


def find_flight_dumps(inputs: Iterable[str | Location]) -> list[Location]:
    """List the dumps next to traces: in a folder ``flight`` there, or among the files of a folder that is given."""
    found: list[Location] = []
    for given in expand_file_lists(inputs):
        beside, inside = possible_dumps(given)
        found += beside or [path for path in inside if _is_dump(path)]
    # A folder may be named in several ways.
    return list({path.resolve(): path for path in found}.values())


def _is_dump(path: Location) -> bool:
    """Look at the beginning of a file: a trace has no sequence numbers under that name."""
    head = text_head(path, HEAD_BYTES)
    return DUMP_MARKER.strip(b'"') in head if head.startswith(PICKLE_MAGIC) else DUMP_MARKER in head


def read_flight_dumps(paths: Sequence[Location]) -> dict[int, FlightRecord]:
    """Read dumps: per rank, taken from the file name, its collectives.

    Raises:
        TraceError: a file is no dump, or a pickle of more than plain data; its name has no rank, or two are of one.
    """
    found: dict[int, FlightRecord] = {}
    for path in paths:
        rank = _rank_of(path)
        if rank in found:
            raise TraceError(path, f"is a second flight recorder dump of rank {rank}", "give one per rank")
        with suppress(MemoryError):
            found[rank] = _record_of(path)
        # Said here and not there, so that what was read is let go first.
        if rank not in found:
            raise out_of_memory_error(path)
    return found


def _rank_of(path: Location) -> int:
    named = RANK_IN_FILE_NAME.search(path.name) or re.fullmatch(r"fr_trace_(\d{1,9})()", path.name)
    if named is None:
        raise TraceError(path, "the file name contains no rank", "name the dumps rank0.json, rank1.json and so on")
    return int(named[1] or named[2])


def _record_of(path: Location) -> FlightRecord:
    entries = _pickled_entries(path) if text_head(path, 1) == PICKLE_MAGIC else _entries_of(path)
    known = [entry for entry in entries if _is_collective(entry)]
    return FlightRecord(
        [str(entry.process_group[0]) for entry in known],
        np.array([entry.collective_seq_id for entry in known], np.int64),
        _each_once([entry.profiling_name for entry in known], lambda name: name.partition(":")[2]),
        np.array(_each_once([entry.input_sizes for entry in known], count_elements), np.int64),
        np.array([entry.time_created_ns for entry in known], np.int64),
    )


def _each_once(objects: Sequence[Any], function: Callable[[Any], Any]) -> list[Any]:
    """Apply a function to each object, once to one that occurs again: a short pickle may name a long one very often."""
    distinct = {id(item): item for item in objects}
    found = {key: function(item) for key, item in distinct.items()}
    return [found[id(item)] for item in objects]


def _entries_of(path: Location) -> list[_Entry]:
    data = read_bytes(path, per_byte=PEAK_PER_BYTE).data
    try:
        return msgspec.json.decode(data, type=_Dump).entries
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise TraceError(path, "is not a flight recorder dump", JSON_REMEDY) from None


def _pickled_entries(path: Location) -> list[_Entry]:
    """Read a pickle's plain data; nothing in it is run."""
    data = read_any_format(path, per_byte=PEAK_PER_PICKLED_BYTE).data
    try:
        return msgspec.convert(read_plain_pickle(data), type=_Dump).entries
    except NotPlainError as error:
        raise TraceError(path, f"is a pickle that {error}", JSON_REMEDY) from None
    except (msgspec.ValidationError, RecursionError):
        raise TraceError(path, "is not a flight recorder dump", JSON_REMEDY) from None


def _is_collective(entry: _Entry) -> bool:
    numbers = (entry.collective_seq_id, entry.time_created_ns)
    return (
        not entry.is_p2p
        and isinstance(entry.process_group, list)
        and bool(entry.process_group)
        and isinstance(entry.process_group[0], (str, int))
        and isinstance(entry.profiling_name, str)
        and all(isinstance(number, int) and 0 <= number < 1 << 62 for number in numbers)
    )
