"""Rank files merged into one, in the ways of the tools that people use for that."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Document = dict[str, Any]


def read_document(path: Path) -> Document:
    """Read a rank's file."""
    raw = path.read_bytes()
    found: Document = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
    return found


def with_own_process(document: Document, rank: int, pid: int | None = None) -> Document:
    """Give a rank the process id that its system would: CPU rows have it, GPU rows have their device."""
    own = 4_000 + 37 * rank if pid is None else pid
    rows = [row if _is_device(row) else row | {"pid": own} for row in document["traceEvents"]]
    return document | {"traceEvents": rows}


def on_device_zero(document: Document) -> Document:
    """Let a rank see one GPU only, as with CUDA_VISIBLE_DEVICES: on each rank it is device 0."""
    rows = [
        row | {"pid": 0} | ({"args": row["args"] | {"device": 0}} if "device" in row.get("args", {}) else {})
        if _is_device(row)
        else row
        for row in document["traceEvents"]
    ]
    return document | {"traceEvents": rows}


def _is_device(row: Row) -> bool:
    """Return whether a row's process is a device: of GPU rows, their arrows' ends, and their processes' names."""
    labels = row.get("args", {}).get("labels", "")
    on_gpu = "stream" in row.get("args", {}) and "device" in row.get("args", {})
    return on_gpu or (row.get("ph") == "f" and row.get("cat") == "ac2g") or str(labels).startswith("GPU")


def _merged(documents: Sequence[Document], process: Callable[[int, Any], Any], *, by_time: bool = False) -> Document:
    rows = [
        row | ({"pid": process(rank, row["pid"])} if "pid" in row else {})
        for rank, document in enumerate(documents)
        for row in document["traceEvents"]
    ]
    if by_time:
        rows.sort(key=lambda row: float(row.get("ts", 0)))
    # Keys of the header are those of the first file that has them.
    header = {key: value for document in reversed(documents) for key, value in document.items()}
    return header | {"traceEvents": rows}


def labelled(documents: Sequence[Document]) -> Document:
    """Merge as SGLang does: a label in front of each process id, one rank behind the other."""
    return _merged(documents, lambda rank, pid: f"[TP{rank:02d}] {pid}")


def labelled_by_time(documents: Sequence[Document]) -> Document:
    """Merge as SGLang does, and sort by time."""
    return _merged(documents, lambda rank, pid: f"[TP{rank:02d}-EP{rank:02d}] {pid}", by_time=True)


def named_ranks(documents: Sequence[Document]) -> Document:
    """Merge with the rank's name behind the process id, highest rank first."""
    found = _merged(documents, lambda rank, pid: f"{pid} (rank {rank})")
    return found | {"traceEvents": found["traceEvents"][::-1]}


def offset(documents: Sequence[Document]) -> Document:
    """Merge by adding a million times the rank to process ids."""
    return _merged(documents, lambda rank, pid: rank * 1_000_000 + pid if isinstance(pid, int) else pid)


def offset_by_time(documents: Sequence[Document]) -> Document:
    """Merge by offsets larger than any process id, and sort by time."""
    return _merged(documents, lambda rank, pid: rank * 10**8 + pid if isinstance(pid, int) else pid, by_time=True)


def joined(documents: Sequence[Document]) -> Document:
    """Put the rows of one file behind those of another, as they are."""
    return _merged(documents, lambda _, pid: pid)


def joined_by_time(documents: Sequence[Document]) -> Document:
    """Put the rows of all files into one, sorted by time, with nothing that tells GPUs of one number apart."""
    return _merged(documents, lambda _, pid: pid, by_time=True)


TOLD_APART = (labelled, labelled_by_time, named_ranks, offset, offset_by_time, joined)


def write_merged(documents: Sequence[Document], merge: Callable[[Sequence[Document]], Document], path: Path) -> Path:
    """Merge rank files into one."""
    path.write_bytes(json.dumps(merge(documents)).encode())
    return path
