"""A handler for ``torch.profiler``: writes a file for each cycle of each rank, and prints what bounds the step.

Each cycle has its own folder, in which files of two ranks or two runs never collide; the report is made in a separate
process while training continues.
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
from hta_graph.base.errors import HtaGraphError, OutputError, UsageError
from hta_graph.base.storage.atomic_write import write_file
from hta_graph.base.storage.compress import gzipped
from hta_graph.base.storage.location import is_remote, resolve_location
from hta_graph.base.text.sanitize import one_line
from hta_graph.multi_rank.workers.worker_processes import can_start_processes

CHUNK_BYTES = 1 << 20
"""How many bytes are compressed at once; meanwhile, other threads of the process run."""
FASTEST = 1
"""Level of compression: training waits for it. The profiler's own is 9, which takes longer than all the rest."""


class Recorder(Protocol):
    """The part of ``torch.profiler.profile`` that a handler uses."""

    def export_chrome_trace(self, path: str) -> Any:
        """Write the trace in Chrome's JSON format."""


@dataclass(frozen=True)
class Rank:
    """The rank of a process, and the number of ranks."""

    number: int
    world_size: int


def this_rank() -> Rank:
    """Return the rank of this process by ``torch.distributed``, else by ``torchrun``'s variables, else rank 0 of 1."""
    # Used only if the program has imported it: nothing is imported into training for this.
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return Rank(distributed.get_rank(), distributed.get_world_size())
    variables = [os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE")]
    if all(re.fullmatch(r"\d{1,9}", text) for text in variables):
        return Rank(int(variables[0]), int(variables[1]))
    return Rank(0, 1)


def cycle_folder(directory: Path, step: int, name: str, since: float) -> Path:
    """Return the folder of the cycle that ends at a step: the same one for all ranks, without communication.

    A folder that has a file of this name, or anything older than ``since`` (seconds since 1970), belongs to another
    run: files of two runs in one folder would be read as one job.
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
    """Write the trace, completely or not at all.

    Raises:
        OutputError: the file cannot be written.
    """
    # In a folder of its own, because the profiler leaves files of other names where it fails.
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
"""The command line with this process' search path, at a lower priority than training."""

TIMEOUT_S = 600
"""The time limit of an analysis."""
NOTHING_SUGGESTED = "nothing_suggested"
"""The rule that says why there is no advice."""
SENTENCES = 3
"""How many sentences of the verdict are printed: what bounds the step, the largest item, what is unexplained."""


@dataclass(frozen=True)
class Verdict:
    """The verdict on a trace, one sentence each, and the advice that would save most, or why there is none."""

    sentences: list[str]
    advice: str | None


def run_report(trace: Path, page: Path | None) -> Verdict:
    """Analyze a trace and write its report, if a page is given.

    Raises:
        HtaGraphError: the analysis failed.
    """
    if not can_start_processes():
        raise HtaGraphError("cannot start a process here", f"run hta-graph critical-path {trace}")
    wanted = ["--json", "-", *(["-o", str(page)] if page else [])]
    try:
        done = subprocess.run(  # noqa: S603 - this interpreter and our own words
            [sys.executable, "-c", PROGRAM, json.dumps(sys.path), "report", str(trace), *wanted],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise HtaGraphError(f"took longer than {TIMEOUT_S} s", f"run hta-graph report {trace} later") from None
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise HtaGraphError(lines[-1].removeprefix("hta-graph: ") if lines else f"exit status {done.returncode}")
    return _verdict_of(json.loads(done.stdout)["verdict"])


def _verdict_of(findings: list[dict[str, Any]]) -> Verdict:
    advised = next(
        (at for at, found in enumerate(findings) if found["saves_at_most_ns"] or found["rule"] == NOTHING_SUGGESTED),
        None,
    )
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
    """Return a handler for ``torch.profiler.profile(on_trace_ready=…)``.

    Args:
        directory: where traces are written; each cycle gets a folder ``step-N`` there, which can be read as a job.
        report: also write the report, an HTML page next to the trace.
        analyse: whether to analyze the trace and print the verdict; by default only rank 0 does.
        worker_name: a suffix of the rank in file names.
        use_gzip: compress the files.

    Raises:
        OutputError: the folder cannot be created.
        UsageError: the folder is not on this machine, or ``worker_name`` is not valid in a file name.

    >>> trace_handler("/proc/version/traces")
    Traceback (most recent call last):
        ...
    hta_graph.base.errors.OutputError: /proc/version/traces: cannot be created: Not a directory; choose another folder
    """
    place = resolve_location(directory)
    if is_remote(place):
        raise UsageError(f"{directory}: traces can only be written to this machine; choose a local folder")
    if worker_name is not None and (not worker_name or set(worker_name) & set("/\0")):
        raise UsageError(f"worker_name={worker_name!r}: not valid in a file name; use a name without /")
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"{directory}: cannot be created: {error.strerror or error}", "choose another folder"
        ) from None
    # The program can change its working directory before the first cycle is over.
    ending = (f".{worker_name}" if worker_name else "") + (".json.gz" if use_gzip else ".json")
    return TraceHandler(place.absolute(), report, analyse, ending)


@dataclass(eq=False)
class TraceHandler:
    """Write a trace when it is ready, and print its verdict; errors never reach the training code.

    ``files`` are the traces that were written. Failures are warnings of the logger ``analyses.torch.handler``.
    """

    directory: Path
    report: bool
    analyse: bool | None
    ending: str
    files: list[Path] = field(default_factory=list, init=False)
    _made: float = field(default_factory=time.time, init=False)
    _asking: Thread | None = field(default=None, init=False)

    def __call__(self, profiler: Recorder) -> None:
        """Write the trace, then analyze it while training continues."""
        trace: Path | None = None
        try:
            rank = this_rank()
            trace = self._write(profiler, rank)
            self.files.append(trace)
            if rank.number == 0 if self.analyse is None else self.analyse:
                self._start_asking(trace, rank)
        except Exception as error:  # noqa: BLE001 - whatever a profiler raises, training continues
            _warn(_not_analyzed(trace, error) if trace else f"{self.directory}: trace not written: {error}")

    def wait(self) -> None:
        """Wait until all traces are analyzed; the end of the program waits too."""
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
        if before:  # one at a time, to leave the machine to training
            before.join()
        page = trace.with_name(trace.name.removesuffix(".gz").removesuffix(".json") + ".html") if self.report else None
        try:
            lines = _verdict_lines(run_report(trace, page), trace, page, rank)
        except (HtaGraphError, OSError, ValueError) as error:
            _warn(_not_analyzed(trace, error))
            return
        with suppress(OSError, ValueError):  # standard output can be closed
            write_lines(lines, sys.stdout)
            sys.stdout.flush()


def _not_analyzed(trace: Path, error: object) -> str:
    """Report a trace that was written only."""
    return f"{trace}: written, but not analyzed: {str(error).removeprefix(f'{trace}: ')}"


def _verdict_lines(verdict: Verdict, trace: Path, page: Path | None, rank: Rank) -> list[str]:
    """Return the printed lines: the verdict, the first advice, and the commands that show more."""
    first, *others = verdict.sentences or [""]
    return [
        *([f"rank {rank.number}, {first}" if rank.world_size > 1 else first] if first else []),
        *others,
        *([f"Try this: {verdict.advice}"] if verdict.advice else []),
        f"Details: hta-graph critical-path {trace}",
        *([f"{page}: open it in a browser"] if page else []),
        *([f"All {rank.world_size:,} ranks: hta-graph stragglers {trace.parent}"] if rank.world_size > 1 else []),
    ]


def _warn(line: str) -> None:
    logger.warning("%s", one_line(line))
