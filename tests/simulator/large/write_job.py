"""Files of a large job: some ranks of one role and device at a time, in as many processes as there are processors."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.simulator.dialect import BASE_NS
from tests.simulator.large.communication_text import Said
from tests.simulator.large.event_programs import clock_offset
from tests.simulator.large.job_times import JobTimes
from tests.simulator.large.random_lengths import Ints
from tests.simulator.large.scripts import LargeJob, LargeShape, large_job, meets_of
from tests.simulator.large.templates import Template, point_times, template_of
from tests.simulator.large.vector_ranks import VectorRanks
from tests.simulator.ranks.scripts import DEVICES

AT_ONCE = 64
"""How many ranks' times are in memory together."""


@dataclass(frozen=True)
class Piece:
    """Ranks of one role and device, and when their communications end (communication × rank)."""

    shape: LargeShape
    role: int
    ranks: Ints
    ends: Ints


def truth_path(folder: Path) -> Path:
    """Return where the truth of a folder stands: beside it, since all files inside are traces.

    >>> truth_path(Path("/jobs/small")).name
    'small.truth.json'
    """
    return folder.with_name(f"{folder.name}.truth.json")


def read_truth(folder: Path) -> dict[str, Any]:
    """Return what truly happened in the job of a folder."""
    return json.loads(truth_path(folder).read_text(encoding="utf-8"))


def write_large_job(job: LargeJob, times: JobTimes, folder: Path, *, processes: int | None = None) -> None:
    """Write a file per rank, and the truth beside the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    truth_path(folder).write_text(json.dumps(_truth(job, times)), encoding="utf-8")
    pieces = list(_pieces(job, times))
    count = min(processes or os.cpu_count() or 1, len(pieces))
    if count == 1 or job.shape.ranks <= DEVICES:
        for piece in pieces:
            write_piece(piece, folder)
        return
    with ProcessPoolExecutor(count) as pool:
        for _ in pool.map(write_piece, pieces, [folder] * len(pieces)):
            pass


def _pieces(job: LargeJob, times: JobTimes) -> Iterator[Piece]:
    for role, (ranks, ends) in enumerate(zip(job.mesh.roles, times.ends, strict=True)):
        for device in range(DEVICES):
            (own,) = np.nonzero(ranks % DEVICES == device)
            for first in range(0, len(own), AT_ONCE):
                part = own[first : first + AT_ONCE]
                yield Piece(job.shape, role, ranks[part], ends[:, part])


def write_piece(piece: Piece, folder: Path) -> None:
    """Write the files of some ranks."""
    job, said = _known_job(piece.shape)
    program = job.programs[piece.role]
    template = _known_template(piece.shape, piece.role, int(piece.ranks[0]) % DEVICES)
    times = point_times(_played(VectorRanks(piece.ranks), program, piece.ends))
    meets = meets_of(program)
    for at, rank in enumerate(piece.ranks.tolist()):
        rows = template.filled(times[at], clock_offset(job, rank), said.texts(meets, rank))
        text = _document(job, said.header(rank), rank, rows)
        # No time of writing in the file: the same job is the same bytes.
        packed = gzip.compress(text.encode(), compresslevel=1, mtime=0)
        (folder / f"rank_{rank}.json.gz").write_bytes(packed)


def _played(ranks: VectorRanks, program: Any, ends: Ints) -> VectorRanks:
    """Run some of a role's ranks again, whose communications' ends are known."""
    running = ranks.run(program)
    next(running, None)
    for end in ends[:-1]:
        running.send(end)
    for _ in _last(running, ends[-1]):
        raise ValueError("more communications than ends")
    return ranks


def _last(running: Any, end: Ints) -> Iterator[object]:
    try:
        yield running.send(end)
    except StopIteration:
        return


@lru_cache(maxsize=1)
def _known_job(shape: LargeShape) -> tuple[LargeJob, Said]:
    job = large_job(shape)
    return job, Said(job)


@lru_cache(maxsize=1)
def _known_template(shape: LargeShape, role: int, device: int) -> Template:
    job, _ = _known_job(shape)
    return template_of(
        job.programs[role], next(rank for rank in job.mesh.roles[role].tolist() if rank % DEVICES == device)
    )


def _document(job: LargeJob, distributed: str, rank: int, rows: str) -> str:
    device = {"id": 0, "name": "Simulated", "totalGlobalMem": 85_000_000_000, "numSms": 108}
    head = json.dumps({"schemaVersion": 1, "deviceProperties": [device]})[1:-1]
    host = f"node{rank // job.shape.ranks_per_host}"
    return (
        f'{{{head}, "distributedInfo": {distributed}, "host_name": "{host}", "displayTimeUnit": "ms", '
        f'"baseTimeNanoseconds": {BASE_NS},\n"traceEvents": [\n{rows}\n], "traceName": "trace.json"}}'
    )


def _truth(job: LargeJob, times: JobTimes) -> dict[str, Any]:
    shape = job.shape
    return {
        "shape": asdict(shape),
        "injected": asdict(job.injected),
        "clock_offset_ns": [clock_offset(job, rank) for rank in range(shape.ranks)] if shape.clock_spread_ns else None,
        "waits_ns": times.waits(shape.ranks).tolist(),
        "collectives": list(_last_ranks(times)),
    }


def _last_ranks(times: JobTimes) -> Iterable[dict[str, Any]]:
    """Yield an entry per communication of an axis: of each group the name, who came last, how long all waited."""
    for one in times.met:
        group = one.axis.number[one.rank]
        order = np.lexsort((one.rank, -one.start, group))
        numbers, first = np.unique(group[order], return_index=True)
        waited = np.zeros(len(one.axis.rows), np.int64)
        np.add.at(waited, group, one.wait)
        yield {
            "kind": one.kind,
            "number": one.number,
            "groups": (numbers + one.axis.first_name).tolist(),
            "last": one.rank[order][first].tolist(),
            "waited_ns": waited[numbers].tolist(),
        }
