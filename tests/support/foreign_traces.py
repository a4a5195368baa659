"""Small inputs that are not one rank's Kineto trace: jobs, ranks merged into one file, and other programs' files."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from tests.simulator.ranks import JobShape, Recording, ddp, experts, fsdp, pipeline, record_job, rooted, simulate_job
from tests.support.made_files import WRITTEN_BY_OTHERS
from tests.support.merged_ranks import TOLD_APART, joined_by_time, with_own_process

SCENARIOS = (ddp, fsdp, pipeline, rooted, experts)
SOUND_JOBS = 15
"""The number of different small jobs."""
MERGERS = (*TOLD_APART, joined_by_time)
OLD_DEVICES = ("CUDA", "CUDA", "XPU")


@cache
def sound_ranks(number: int) -> tuple[bytes, ...]:
    """Return the files of a small simulated job."""
    backend = "gloo" if number % 2 else "nccl"
    shape = JobShape(ranks=2 + number % 3, steps=2, layers=2, seed=number, backend=backend)
    job = simulate_job(SCENARIOS[number % len(SCENARIOS)](shape))
    with tempfile.TemporaryDirectory() as folder:
        recorded = record_job(job, Recording(ids=number % 3 == 0), Path(folder))
        return tuple(path.read_bytes() for path in recorded.paths)


def merged_job(number: int) -> bytes:
    """Return the ranks of a small job, merged into one file."""
    documents = [with_own_process(json.loads(raw), rank) for rank, raw in enumerate(sound_ranks(number))]
    return json.dumps(MERGERS[number % len(MERGERS)](documents)).encode()


def old_profilers_array(number: int) -> bytes:
    """Return what the profiler before Kineto wrote of a few nested operators: the array, its kernels and arrows."""
    rng, now, rows = random.Random(number), 10.0, list[dict[str, Any]]()
    device = rng.choice(OLD_DEVICES)
    cpu = {"ph": "X", "pid": "CPU functions", "tid": rng.choice((1, "1")), "args": {}}
    gpu = {"ph": "X", "pid": f"{device} functions", "tid": 0, "args": {}}
    flow = {"cat": f"cpu_to_{device.lower()}", "args": {}}
    end = now
    for key in range(12):
        rows += [cpu | {"name": "linear", "ts": now, "dur": 60.5}, cpu | {"name": "mm", "ts": now + 10, "dur": 30.0}]
        start = max(end, now + 20)
        rows += [
            flow | {"name": "mm", "ph": "s", "ts": now + 10, "tid": cpu["tid"], "pid": cpu["pid"], "id": key},
            flow | {"name": "gemm", "ph": "f", "ts": start, "tid": 0, "pid": gpu["pid"], "id": key},
            gpu | {"name": "gemm", "ts": start, "dur": float(rng.randrange(5, 120))},
        ]
        end, now = start + rows[-1]["dur"], now + 70
    return json.dumps(rows).encode()


FOREIGN: dict[str, Callable[[], bytes]] = {
    **{f"merged by {merger.__name__}": partial(merged_job, number) for number, merger in enumerate(MERGERS)},
    **{f"old array {number}": partial(old_profilers_array, number) for number in range(3)},
    **{name: partial(bytes, raw) for name, (raw, _) in WRITTEN_BY_OTHERS.items()},
}
"""Merged jobs, arrays of the profiler before Kineto, and other programs' Chrome traces: how each is made."""


@cache
def foreign_traces() -> tuple[tuple[str, bytes], ...]:
    """Return all of them with their names."""
    return tuple((name, make()) for name, make in FOREIGN.items())
