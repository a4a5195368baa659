"""A handler for ``torch.profiler``: each cycle of each rank becomes a file, and a recording says what it shows.

A cycle has a folder, in which no two ranks and no two runs meet; the report is asked in a process of its own beside the
training.
"""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, Protocol

from analyses.display.stderr import write_lines
from hta_graph.errors import HtaGraphError, OutputError, UsageError
from hta_graph.multi_rank.workers.worker_processes import can_start_processes
from hta_graph.storage.atomic_write import write_file
from hta_graph.storage.compress import gzipped
from hta_graph.storage.location import is_remote, resolve_location
from hta_graph.text.sanitize import one_line

CHUNK_BYTES = 1 << 20
"""So many bytes are compressed at once; while they are, other threads of the process run."""
FASTEST = 1
"""Level of compression: training waits for it. The profiler's own is 9, which takes longer than all the rest."""


class Recorder(Protocol):
    """What a handler needs of ``torch.profiler.profile``."""

    def export_chrome_trace(self, path: str) -> Any:
        """Write the recording as Chrome's JSON."""


@dataclass(frozen=True)
class Rank:
    """Which of how many ranks a process is."""

    number: int
    world_size: int


def this_rank() -> Rank:
    """Return what ``torch.distributed`` says of this process, else what ``torchrun`` has told it, else rank 0 of 1."""
    # Asked only where the program has imported it: nothing is imported into training for this.
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return Rank(distributed.get_rank(), distributed.get_world_size())
    told = [os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE")]
    if all(re.fullmatch(r"\d{1,9}", text) for text in told):
        return Rank(int(told[0]), int(told[1]))
    return Rank(0, 1)


def cycle_folder(directory: Path, step: int, name: str, since: float) -> Path:
    """Return the folder of the cycle that ends at a step: all ranks of a run come to the same one without asking.

    One that holds a file of this name, or anything older than ``since`` (seconds since 1970), is another run's: files
    of two runs in one folder would be read as one job.
    """
    for number in count(1):
        folder = directory / (f"step-{step}" if number == 1 else f"step-{step}-{number}")
        if not _is_taken(folder, name, since):
            break
    return folder


def _is_taken(folder: Path, name: str, since: float) -> bool:
    if not folder.is_dir():
        return False
    return (folder / name).exists() or any(_changed(path) < since for path in folder.iterdir())


def _changed(path: Path) -> float:
    with suppress(FileNotFoundError):  # another rank has just given it its name
        return path.stat().st_mtime
    return float("inf")


def write_recording(recorder: Recorder, target: Path, *, use_gzip: bool) -> None:
    """Write what was recorded, whole or not at all.

    Raises:
        OutputError: the file cannot be written.
    """
    # In a folder of its own, for the profiler leaves files of other names where it fails.
    with TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.", suffix=".part") as part:
        recorded = Path(part) / "trace.json"
        recorder.export_chrome_trace(str(recorded))
        if use_gzip:
            write_file(target, gzipped(_chunks(recorded), FASTEST))
        else:
            recorded.replace(target)


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(CHUNK_BYTES):
            yield piece


PROGRAM = (
    "import json, os, sys; sys.path[:] = json.loads(sys.argv.pop(1)); os.nice(10); "
    "from analyses.cli.main import run; run()"
)
"""The command line with this process' search path, behind the training where both want a processor."""

TIMEOUT_S = 600
"""How long an analysis may take before it is given up."""
SENTENCES = 3
"""So many sentences of the verdict are told: what bounds it, its largest item, what is unknown."""


@dataclass(frozen=True)
class Verdict:
    """What a recording shows, a sentence each, and what would save most, if anything would."""

    sentences: list[str]
    advice: str | None


def run_report(trace: Path, page: Path | None) -> Verdict:
    """Ask about a recording and write its page, if one is named.

    Raises:
        HtaGraphError: there is no answer; the line says why.
    """
    if not can_start_processes():
        raise HtaGraphError(f"{trace}: no process can be started here", f"run hta-graph critical-path {trace}")
    wanted = ["--json", "-", *(["-o", str(page)] if page else [])]
    try:
        done = subprocess.run(  # noqa: S603 - this interpreter and our own words
            [sys.executable, "-c", PROGRAM, json.dumps(sys.path), "report", str(trace), *wanted],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise HtaGraphError(f"{trace}: took longer than {TIMEOUT_S} s; analyse it elsewhere") from None
    if done.returncode:
        told = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise HtaGraphError(told[-1].removeprefix("hta-graph: ") if told else f"{trace}: ended with {done.returncode}")
    return _verdict_of(json.loads(done.stdout)["verdict"])


def _verdict_of(findings: list[dict[str, Any]]) -> Verdict:
    advised = next((at for at, found in enumerate(findings) if found["saves_at_most_ns"]), None)
    sentences = [found["text"] for found in findings[:advised][:SENTENCES]]
    return Verdict(sentences, None if advised is None else findings[advised]["text"])


logger = logging.getLogger(__name__)


def trace_handler(
    directory: str | Path,
    *,
    report: bool = False,
    analyse: bool | None = None,
    worker_name: str | None = None,
    use_gzip: bool = True,
) -> TraceHandler:
    """Make what ``torch.profiler.profile(on_trace_ready=…)`` calls when a cycle has been recorded.

    Args:
        directory: where recordings go; each cycle has a folder there, ``step-N``, which is a job to read.
        report: also write the report, a page beside the recording.
        analyse: whether to say what a recording shows; by default rank 0 does, and the others only write.
        worker_name: what stands behind the rank in the files' names.
        use_gzip: compress the files.

    Raises:
        OutputError: the folder cannot be made.
        UsageError: the folder is not on this machine, or a name is none of a file.

    >>> trace_handler("/proc/version/traces")
    Traceback (most recent call last):
        ...
    hta_graph.errors.OutputError: /proc/version/traces: cannot be made: Not a directory; name another folder
    """
    place = resolve_location(directory)
    if is_remote(place):
        raise UsageError(f"{directory}: recordings are written to this machine; name a folder here")
    if worker_name is not None and (not worker_name or set(worker_name) & set("/\0")):
        raise UsageError(f"worker_name={worker_name!r}: it becomes part of a file's name; leave / out")
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{directory}: cannot be made: {error.strerror or error}", "name another folder") from None
    # The program may change its working folder before the first cycle is over.
    ending = (f".{worker_name}" if worker_name else "") + (".json.gz" if use_gzip else ".json")
    return TraceHandler(place.absolute(), report, analyse, ending)


@dataclass(eq=False)
class TraceHandler:
    """Write a recording when it is ready, and say what it shows; never an error to the training.

    ``files`` are the recordings that were written. What goes wrong is a warning of the logger
    ``analyses.torch.handler``.
    """

    directory: Path
    report: bool
    analyse: bool | None
    ending: str
    files: list[Path] = field(default_factory=list, init=False)
    _made: float = field(default_factory=time.time, init=False)
    _asking: Thread | None = field(default=None, init=False)

    def __call__(self, profiler: Recorder) -> None:
        """Write what was recorded, then ask about it while training goes on."""
        trace: Path | None = None
        try:
            rank = this_rank()
            trace = self._write(profiler, rank)
            self.files.append(trace)
            if rank.number == 0 if self.analyse is None else self.analyse:
                self._start_asking(trace, rank)
        except Exception as error:  # noqa: BLE001 - whatever a profiler raises, training goes on
            _warn(f"{trace}: is not analysed: {error}" if trace else f"{self.directory}: nothing is written: {error}")

    def wait(self) -> None:
        """Wait until all that was recorded has been asked about; the program's end does so by itself."""
        if self._asking:
            self._asking.join()

    def _write(self, profiler: Recorder, rank: Rank) -> Path:
        name = f"rank-{rank.number}{self.ending}"
        folder = cycle_folder(self.directory, getattr(profiler, "step_num", 0), name, self._made)
        folder.mkdir(parents=True, exist_ok=True)
        write_recording(profiler, folder / name, use_gzip=name.endswith(".gz"))
        return folder / name

    def _start_asking(self, trace: Path, rank: Rank) -> None:
        asking = Thread(target=self._ask, args=(trace, rank, self._asking), name="hta-graph verdict")
        asking.start()
        self._asking = asking

    def _ask(self, trace: Path, rank: Rank, before: Thread | None) -> None:
        if before:  # one at a time: training is to have the machine
            before.join()
        page = trace.with_name(trace.name.removesuffix(".gz").removesuffix(".json") + ".html") if self.report else None
        try:
            lines = _verdict_lines(run_report(trace, page), trace, page, rank)
        except (HtaGraphError, OSError, ValueError) as error:
            _warn(f"a recording is kept, but not analysed: {error}")
            return
        with suppress(OSError, ValueError):  # a standard output that is closed takes nothing
            write_lines(lines, sys.stdout)
            sys.stdout.flush()


def _verdict_lines(verdict: Verdict, trace: Path, page: Path | None, rank: Rank) -> list[str]:
    """Return what is printed of a recording: what it shows, what to try, where it is."""
    return [
        *verdict.sentences,
        *([f"what to try: {verdict.advice}"] if verdict.advice else []),
        f"{trace}: hta-graph critical-path asks it more",
        *([f"{page}: open it in a browser"] if page else []),
        *([f"{trace.parent}: hta-graph stragglers asks all {rank.world_size} ranks"] if rank.world_size > 1 else []),
    ]


def _warn(line: str) -> None:
    logger.warning("%s", one_line(line))
