"""What NCCL notes of its calls: communicator, size, peer or root, as arguments of the kernels that these launch.

NCCL attaches them to ranges of its own domain, in a layout that the file describes (``NVTX_PAYLOAD_SCHEMAS``). An
export has them with ``nsys export --include-blobs true`` or ``--include-json true``.

    ncclGroupStart  ncclSend  ncclRecv  [ncclGroupEnd  cudaLaunchKernel]      both calls belong to the next kernel
"""

from __future__ import annotations

import re
import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from hta_graph.trace.nsys.database import Database
from hta_graph.trace.nsys.sources import CALLS, KERNELS, RANGES, THREAD_BITS

CODES = {1: "b", 2: "B", 3: "h", 4: "H", 5: "i", 6: "I", 7: "q", 8: "Q", 9: "q", 10: "Q", 11: "b", 12: "B", 13: "h",
         14: "H", 15: "i", 16: "I", 17: "q", 18: "Q", 22: "Q"}  # fmt: skip
"""How values are stored, by ``nvtxPayloadEntryType`` of NVTX's extended payloads; others are left out."""
COMMUNICATOR, SIZE, RANKS, RANK = "NCCL communicator ID", "Message size [bytes]", "No. of ranks", "Rank"
PEER, ROOT = "Peer rank", "Root"
NAME_OF_CALL = {
    "ncclAllReduce": "allreduce", "ncclAllGather": "_allgather_base", "ncclReduceScatter": "_reduce_scatter_base",
    "ncclBroadcast": "broadcast", "ncclBcast": "broadcast", "ncclReduce": "reduce", "ncclGather": "gather",
    "ncclScatter": "scatter", "ncclAlltoAll": "all_to_all", "ncclSend": "send", "ncclRecv": "recv",
}  # fmt: skip
MESSAGES = frozenset({"send", "recv"})
HEXADECIMAL = re.compile(r"(?:0x)?(?:[0-9a-fA-F]{2})+")
NEEDED = {
    RANGES: ("globalTid", "start", "domainId", "text", "textId"), CALLS: ("globalTid", "end", "correlationId"),
    KERNELS: ("globalPid", "correlationId", "demangledName"), "StringIds": ("id", "value"),
}  # fmt: skip
LAUNCHES = (
    'SELECT CAST(c.globalTid AS INTEGER), CAST(c."end" AS INTEGER), CAST(c.correlationId AS INTEGER) '
    "FROM CUPTI_ACTIVITY_KIND_RUNTIME c JOIN CUPTI_ACTIVITY_KIND_KERNEL k "
    "ON k.correlationId = c.correlationId AND k.globalPid >> 24 = c.globalTid >> 24 "
    "JOIN StringIds s ON s.id = k.demangledName WHERE s.value LIKE '%nccl%' AND c.\"end\" NOTNULL"
)
"""The calls that launched NCCL's kernels: thread, end, correlation."""

Key = tuple[int, int]
"""A process and a correlation."""
Arguments = dict[str, Any]


@dataclass(frozen=True)
class _Schema:
    size: int
    entries: tuple[tuple[str, int, str], ...]

    def decode(self, body: bytes) -> dict[str, int]:
        return {
            name: struct.unpack_from(f"<{code}", body, offset)[0]
            for name, offset, code in self.entries
            if offset + struct.calcsize(code) <= len(body)
        }


@dataclass(frozen=True)
class _Call:
    """A call of NCCL's with its payload."""

    process: int
    name: str
    values: Mapping[str, int]


def collective_arguments(database: Database, rank_of: Mapping[int, int | None]) -> dict[Key, Arguments]:
    """Return the arguments of the kernels of NCCL's calls, by process and correlation; none where none are recorded.

    Args:
        database: the export.
        rank_of: the rank of each process.
    """
    if not all(database.has(table, *columns) for table, columns in NEEDED.items()):
        return {}
    calls = _calls_by_thread(database)
    if not calls:
        return {}
    groups = _groups([call for own in calls.values() for _, call in own], rank_of)
    found: dict[Key, Arguments] = {}
    for thread, launches in _launches_by_thread(database).items():
        ends = np.array([end for end, _ in launches], np.int64)
        own: dict[int, list[_Call]] = defaultdict(list)
        for start, call in calls.get(thread, []):
            at = int(np.searchsorted(ends, start))
            if call.name in NAME_OF_CALL and at < len(launches):
                own[at].append(call)
        for at, listed in own.items():
            found[thread >> THREAD_BITS, launches[at][1]] = _arguments_of(listed, groups)
    return found


def _launches_by_thread(database: Database) -> dict[int, list[tuple[int, int]]]:
    """Return the calls that launched NCCL's kernels, by thread in order of time: end and correlation."""
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    rows = database.rows(LAUNCHES)
    for thread, end, correlation in sorted(set(rows)):
        found[thread].append((end, correlation))
    return found


def _calls_by_thread(database: Database) -> dict[int, list[tuple[int, _Call]]]:
    """Return NCCL's calls with payloads, by thread in order of time."""
    columns = [name for name in ("binaryData", "jsonText") if database.has(RANGES, name)]
    if not columns:
        return {}
    some = " OR ".join(f"{name} IS NOT NULL" for name in columns)
    name = "COALESCE(text, (SELECT value FROM StringIds WHERE id = NVTX_EVENTS.textId))"
    query = f"SELECT globalTid, start, domainId, {name}, {', '.join(columns)} FROM {RANGES} WHERE {some}"  # noqa: S608
    schemas = _schemas(database)
    found: dict[int, list[tuple[int, _Call]]] = defaultdict(list)
    for chunk in database.chunks(query):
        for thread, start, domain, name, *payloads in chunk:
            values = next(filter(None, (_values(schemas.get(domain, {}), payload) for payload in payloads)), None)
            if values and COMMUNICATOR in values and isinstance(thread, int):
                found[thread].append((start, _Call(thread >> THREAD_BITS, str(name), values)))
    for own in found.values():
        own.sort(key=lambda item: item[0])
    return found


def _schemas(database: Database) -> dict[int, dict[int, _Schema]]:
    """Return how payloads are laid out, by domain and number."""
    table, entries = "NVTX_PAYLOAD_SCHEMAS", "NVTX_PAYLOAD_SCHEMA_ENTRIES"
    fields: dict[Key, dict[int, tuple[str, int, str]]] = defaultdict(dict)
    numbers = ("domainId", "schemaId", "idx", "offset", "type")
    names = [name for _, name in database.pairs(entries, "idx", "name")]
    for (domain, number, place, offset, kind), name in zip(database.integers(entries, *numbers), names, strict=False):
        if kind in CODES:
            fields[domain, number][place] = (name, max(offset, 0), CODES[kind])
    found: dict[int, dict[int, _Schema]] = defaultdict(dict)
    for domain, number, size in database.integers(table, "domainId", "schemaId", "payloadSize"):
        found[domain][number] = _Schema(size, tuple(fields[domain, number].values()))
    return found


def _values(schemas: Mapping[int, _Schema], payload: object) -> Mapping[str, int] | None:
    """Decode a payload: JSON, or the bytes of a schema behind a header that names it."""
    if isinstance(payload, str) and HEXADECIMAL.fullmatch(payload):
        payload = bytes.fromhex(payload.removeprefix("0x"))
    if isinstance(payload, str):
        try:
            found = msgspec.json.decode(payload)
            return {key: value for key, value in found.items() if isinstance(value, int)}
        except (msgspec.DecodeError, AttributeError):
            return None
    if not isinstance(payload, bytes):
        return None
    for number, schema in schemas.items():
        head = payload[: len(payload) - schema.size]
        words = struct.unpack(f"<{len(head) // 4}I", head[: len(head) // 4 * 4])
        if len(payload) >= schema.size > 0 and number in words:
            return schema.decode(payload[len(head) :])
    return None


def _groups(calls: Iterable[_Call], rank_of: Mapping[int, int | None]) -> dict[int, tuple[int, list[int]]]:
    """Return the number of ranks of each communicator, and its ranks in order ([]: not all are known)."""
    sizes: dict[int, int] = {}
    members: dict[int, dict[int, int]] = defaultdict(dict)
    for call in calls:
        if RANKS in call.values:
            sizes[call.values[COMMUNICATOR]] = call.values[RANKS]
            rank = rank_of.get(call.process)
            if rank is not None and RANK in call.values:
                members[call.values[COMMUNICATOR]][call.values[RANK]] = rank
    return {
        number: (size, [rank for _, rank in sorted(members[number].items())] if len(members[number]) == size else [])
        for number, size in sizes.items()
    }


def _arguments_of(calls: list[_Call], groups: Mapping[int, tuple[int, list[int]]]) -> Arguments:
    """Return the arguments of the kernel that some calls launched together, as Kineto writes them."""
    number = calls[0].values[COMMUNICATOR]
    size, ranks = groups.get(number, (None, []))
    names = {NAME_OF_CALL[call.name] for call in calls}
    found: Arguments = {"Comms Id": number % (1 << 64), "dtype": "Byte"}
    if size is not None:
        found["Group size"] = size
    if ranks:
        found |= {"Process Group Name": f"{number:#x}", "Process Group Ranks": str(ranks)}
    sent = sum(call.values.get(SIZE, 0) for call in calls if NAME_OF_CALL[call.name] != "recv")
    received = sum(call.values.get(SIZE, 0) for call in calls if NAME_OF_CALL[call.name] != "send")
    if names == MESSAGES:
        # Everyone sends to and receives from everyone: PyTorch's all-to-all is such a group of messages.
        return {**found, "Collective name": "all_to_all", "In msg nelems": sent, "Out msg nelems": received}
    name = min(names)
    parts = size or 1
    found["Collective name"] = name
    found["In msg nelems"] = sent * parts if name == "_reduce_scatter_base" else sent
    found["Out msg nelems"] = received * parts if name == "_allgather_base" else received
    values = calls[0].values
    if name in MESSAGES and len(calls) == 1 and PEER in values:
        peer = ranks[values[PEER]] if values[PEER] < len(ranks) else values[PEER]
        found["Dst Rank" if name == "send" else "Src Rank"] = peer
    if ROOT in values:
        found["Rank"] = values[ROOT]
    return found
