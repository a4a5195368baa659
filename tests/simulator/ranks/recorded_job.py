"""A job as its profilers recorded it: clocks that differ, windows that differ, ranks and rows that are lost."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.simulator.dialect import Dialect
from tests.simulator.ranks.arguments import header_entry
from tests.simulator.ranks.communication_statements import JobProgram
from tests.simulator.ranks.engine import JobRun
from tests.simulator.ranks.true_path import path_stretches
from tests.simulator.run import Run
from tests.simulator.writer import Row, to_bytes, write

IDS = ("Seq", "Comms Id")


@dataclass(frozen=True)
class Clock:
    """How far a rank's clock is ahead at the job's start, by how many millionths it is fast, and its GPU's on top."""

    offset_ns: int = 0
    drift_ppm: float = 0.0
    gpu_offset_ns: int = 0

    def shown(self, true_ns: int, *, on_gpu: bool = False) -> int:
        """Return what the clock shows at a true time, as the time since the job's start."""
        return true_ns + round(true_ns * self.drift_ppm / 1e6) + self.offset_ns + (self.gpu_offset_ns if on_gpu else 0)


@dataclass(frozen=True)
class Recording:
    """How a job is recorded. Windows are true times; what begins before or ends after is not in the file.

    window     |-----------------------------|
    call    |==|                                 lost
    kernel         |====|                        without its call: an orphan, which says nothing of itself
    """

    ids: bool = False
    clocks: dict[int, Clock] = field(default_factory=dict)
    windows: dict[int, tuple[int, int]] = field(default_factory=dict)
    missing: frozenset[int] = frozenset()
    loss: float = 0.0
    """The share of communication kernels (or, on the CPU, of rows of work) that got lost."""
    hosts: int = 1
    seed: int = 0


@dataclass(frozen=True)
class TrueMember:
    """A rank's part in a rendezvous, in true time; `event_index` is None where the file lacks its row."""

    rank: int
    event_index: int | None
    arrival_ns: int
    start_ns: int
    end_ns: int
    wait_ns: int
    awaited: frozenset[int]
    is_buffered: bool
    is_silent: bool = False
    """Whether its row does not say with whom it was, since the operator that did is not in the file."""

    @property
    def transfer_ns(self) -> int:
        """Return the time since its arrival that it did not wait."""
        return self.end_ns - self.arrival_ns - self.wait_ns


@dataclass(frozen=True)
class TrueDelay:
    """What was injected where, in true time; without a row it lies between the rows of its thread."""

    rank: int
    event_index: int | None
    name: str | None
    start_ns: int
    end_ns: int


class PathPiece(NamedTuple):
    """A part of the true path: its row (None: in none, or not in the file), true times, what binds its end."""

    rank: int
    event_index: int | None
    start_ns: int
    end_ns: int
    binds: str


@dataclass(frozen=True)
class RecordedJob:
    """The files of a job beside what truly happened."""

    job: JobRun
    recording: Recording
    folder: Path
    index_of: dict[int, dict[int, int]]
    """Per written rank: uid → position in `traceEvents`."""

    @property
    def paths(self) -> list[Path]:
        """The files, by rank."""
        return [self.folder / f"rank{rank}.json" for rank in self.index_of]

    def index(self, rank: int, uid: int | None) -> int | None:
        """Return where a row stands in its rank's file (None: it is not there)."""
        return None if uid is None else self.index_of.get(rank, {}).get(uid)

    def clock(self, rank: int) -> Clock:
        """Return a rank's clock."""
        return self.recording.clocks.get(rank, Clock())

    def rendezvous(self) -> list[tuple[str, list[TrueMember]]]:
        """Return kind and members of each rendezvous, those that got lost too."""
        return [
            (
                one.kind,
                [
                    TrueMember(
                        rank,
                        self.index(rank, own.row.uid),
                        own.arrival_ns,
                        own.row.start_ns,
                        own.row.end_ns,
                        one.true_wait(own),
                        own.awaited,
                        own.meet.buffered,
                        own.row.speaker is not None and self.index(rank, own.row.speaker) is None,
                    )
                    for rank, own in sorted(one.members.items())
                ],
            )
            for one in self.job.rendezvous
        ]

    def delays(self) -> list[TrueDelay]:
        """Return what was injected."""
        return [
            TrueDelay(
                own.rank,
                self.index(own.rank, own.row.uid if own.row else None),
                own.row.name if own.row else None,
                own.start_ns,
                own.end_ns,
            )
            for own in self.job.delays
        ]


def true_path(recorded: RecordedJob) -> list[PathPiece]:
    """Return the job's path: the chain of last-finishing constraints over the ranks, from its last end back."""
    return [
        PathPiece(own.rank, recorded.index(own.rank, own.uid), own.start_ns, own.end_ns, own.binds)
        for own in path_stretches(recorded.job)
    ]


def record_job(job: JobRun, recording: Recording, folder: Path) -> RecordedJob:
    """Write the files of all ranks that are not missing."""
    folder.mkdir(parents=True, exist_ok=True)
    written = {rank: run for rank, run in job.runs.items() if rank not in recording.missing}
    index_of = {rank: _write_rank(job.program, rank, run, recording, folder) for rank, run in written.items()}
    return RecordedJob(job, recording, folder, index_of)


def _write_rank(program: JobProgram, rank: int, run: Run, recording: Recording, folder: Path) -> dict[int, int]:
    clock = recording.clocks.get(rank, Clock())
    dialect = Dialect(offset_ns=clock.offset_ns, drift_ppm=clock.drift_ppm, clock_error_ns=clock.gpu_offset_ns)
    written = write(run, dialect, frozenset(_lost_rows(run, rank, recording)))
    document = written.document | {
        "distributedInfo": _distributed(program, rank),
        "host_name": f"node{rank * recording.hosts // len(program.ranks)}",
    }
    if not recording.ids:
        _forget_ids(document["traceEvents"])
    (folder / f"rank{rank}.json").write_bytes(to_bytes(document))
    return written.index_of


def _lost_rows(run: Run, rank: int, recording: Recording) -> Iterator[int]:
    rng = random.Random(f"{recording.seed} {rank}")
    begin, end = recording.windows.get(rank, (0, 1 << 62))
    for event in run.events:
        is_work = event.said is not None and event.kind in ("kernel", "annotation")
        if event.start_ns < begin or event.end_ns > end or (is_work and rng.random() < recording.loss):
            yield event.uid


def _distributed(program: JobProgram, rank: int) -> dict[str, Any]:
    own = [group for group in program.groups if rank in group.ranks]
    backend = "cpu:gloo,cuda:gloo" if program.backend == "gloo" else "cuda:nccl"
    return {
        "backend": program.backend,
        "rank": rank,
        "world_size": len(program.ranks),
        "pg_count": len(program.groups),
        "pg_config": [header_entry(group) | {"backend_config": backend} for group in own],
    }


def _forget_ids(rows: list[Row]) -> None:
    for row in rows:
        for key in IDS:
            row.get("args", {}).pop(key, None)
