"""A handler for ``torch.profiler``: each cycle of each rank becomes a file, and a recording says what it shows."""

from __future__ import annotations

import logging
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

from analyses.display.plain import write_lines
from analyses.torch.asked_process import Verdict, run_report
from analyses.torch.rank_file import Rank, Recorder, cycle_folder, this_rank, write_recording
from hta_graph.errors import HtaGraphError, OutputError, UsageError
from hta_graph.storage.named_places import is_remote, resolve_location
from hta_graph.text.sanitize import one_line

__all__ = ["TraceHandler", "trace_handler"]

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
