"""Repeat a trace in time to make a large one: ``python -m tests.benchmarks.repeat_trace TRACE TIMES OUT``.

Times, correlations, ids and step numbers go on from one repetition to the next, as in a longer recording.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from hta_graph.trace.decompress import read_bytes

IDS = ("correlation", "External id", "external id", "Ev Idx", "wait_on_cuda_event_record_corr_id")
STEP = re.compile(r"ProfilerStep#(\d+)")


def shifted(row: dict[str, Any], at: int, length: float, ids: int, steps: int) -> dict[str, Any]:
    """Move a row to repetition ``at``."""
    row = dict(row, ts=row["ts"] + at * length)
    if "id" in row:
        row["id"] = row["id"] + at * ids
    if step := STEP.fullmatch(row.get("name", "")):
        row["name"] = f"ProfilerStep#{int(step[1]) + at * steps}"
    if isinstance(args := row.get("args"), dict):
        row["args"] = {key: value + at * ids if key in IDS and value > 0 else value for key, value in args.items()}
    return row


def repeated(document: dict[str, Any], times: int) -> Iterator[bytes]:
    """Yield the text of the repeated trace."""
    rows = document.pop("traceEvents")
    timed = [row for row in rows if row.get("ph") in ("X", "s", "f", "i") and row.get("cat") != "Trace"]
    start = min(row["ts"] for row in timed)
    length = max(row["ts"] + row.get("dur", 0) for row in timed) - start + 1_000
    numbers = [row["args"].get(key, 0) for row in timed if isinstance(row.get("args"), dict) for key in IDS]
    ids = int(max(number for number in numbers if isinstance(number, int))) + 1
    steps = len({row["name"] for row in timed if STEP.fullmatch(row.get("name", ""))})
    head = orjson.dumps({**document, "traceEvents": [row for row in rows if row.get("ph") == "M"]})
    yield head[:-2]
    for at in range(times):
        yield b"".join(b",\n" + orjson.dumps(shifted(row, at, length, ids, steps)) for row in timed)
    yield b"]}"


def main() -> None:
    """Write the repeated trace, uncompressed."""
    parser = argparse.ArgumentParser(description="Repeat a trace in time.")
    parser.add_argument("trace", type=Path)
    parser.add_argument("times", type=int)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    document = orjson.loads(read_bytes(options.trace).data)
    with options.out.open("wb") as file:
        for text in repeated(document, options.times):
            file.write(text)


if __name__ == "__main__":
    main()
