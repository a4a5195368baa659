"""Make the host execution trace that belongs to a Kineto trace where none was recorded: its operators, no tensors.

``pair`` also gives the Kineto trace what the public linker needs: record-function ids and a profiler step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson

from hta_graph.trace.decompress import read_bytes

SCHEMA = "1.1.0-chakra.0.0.4"
PROCESS, THREAD = "[pytorch|profiler|execution_trace|process]", "[pytorch|profiler|execution_trace|thread]"
NONE: dict[str, list[Any]] = {"values": [], "shapes": [], "types": []}

Row = dict[str, Any]


def pair(kineto: Path, host_out: Path, device_out: Path) -> None:
    """Write a made host trace and the Kineto trace that it links with, both uncompressed."""
    document = orjson.loads(read_bytes(kineto).data)
    rows = document["traceEvents"]
    operators = [row for row in rows if row.get("cat") == "cpu_op" and row.get("ph") == "X"]
    for number, row in enumerate(operators, start=1):
        row["args"]["Record function id"] = number
    if not any(row.get("name", "").startswith("ProfilerStep#") for row in rows):
        rows.append(_step(operators))
    nodes = list(_nodes(operators))
    start = min(row["ts"] for row in operators)
    header = {"schema": SCHEMA, "pid": operators[0]["pid"], "time": "", "start_ts": int(start), "finish_ts": int(start)}
    host_out.write_bytes(orjson.dumps({**header, "nodes": nodes}))
    device_out.write_bytes(orjson.dumps(document))


def _step(operators: list[Row]) -> Row:
    start = min(row["ts"] for row in operators)
    end = max(row["ts"] + row["dur"] for row in operators)
    thread = {key: operators[0][key] for key in ("pid", "tid")}
    return {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", **thread, "ts": start, "dur": end - start}


def _nodes(operators: list[Row]) -> Iterator[Row]:
    """Yield the process, its threads, and their operators nested by time, numbered in order of start."""
    threads = sorted({row["tid"] for row in operators}, key=str)
    yield _node(1, PROCESS, 1, 0, 0)
    for number, _ in enumerate(threads, start=1):
        yield _node(1 + number, THREAD, 1, 0, number)
    ordered = sorted(operators, key=lambda row: (row["ts"], -row["dur"]))
    identity = {id(row): 2 + len(threads) + at for at, row in enumerate(ordered)}
    for number, thread in enumerate(threads, start=1):
        own = [row for row in ordered if row["tid"] == thread]
        for row, around in zip(own, _parents(own), strict=True):
            parent = 1 + number if around is None else identity[id(around)]
            yield _node(identity[id(row)], row["name"], parent, row["args"]["Record function id"], number)


def _parents(ordered: Iterable[Row]) -> Iterator[Row | None]:
    open_rows: list[Row] = []
    for row in ordered:
        while open_rows and open_rows[-1]["ts"] + open_rows[-1]["dur"] < row["ts"] + row["dur"]:
            open_rows.pop()
        yield open_rows[-1] if open_rows else None
        open_rows.append(row)


def _node(number: int, name: str, parent: int, record_function: int, thread: int) -> Row:
    values = {"rf_id": record_function, "fw_parent": 0, "seq_id": -1, "scope": 0, "tid": thread, "fw_tid": 0}
    attributes = [
        {"name": key, "type": "int64" if key == "seq_id" else "uint64", "value": value} for key, value in values.items()
    ]
    attributes.append({"name": "op_schema", "type": "string", "value": ""})
    return {"id": number, "name": name, "ctrl_deps": parent, "inputs": NONE, "outputs": NONE, "attrs": attributes}
