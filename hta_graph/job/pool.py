"""Processes that read trace files, seen from the process that asks them.

There are no threads here, so that an interrupt at any moment ends in :meth:`Pool.__exit__`. A process whose standard
input is closed ends by itself, so that none is left behind however the asking process ends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from typing import Any, BinaryIO, Self, cast

from hta_graph.errors import HtaGraphError, TooLargeError, TraceError
from hta_graph.graph import DependencyGraph
from hta_graph.job.graph_bytes import read_graph
from hta_graph.job.remedies import READ_FEWER, READ_HERE
from hta_graph.places.named_places import full_name
from hta_graph.trace.allowance import out_of_memory
from hta_graph.trace.rank_files import RankFile

__all__ = ["GraphOrError", "Pool", "Reading", "can_start_processes"]

GraphOrError = DependencyGraph | HtaGraphError

PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from hta_graph.job.worker import serve; serve()"
"""A fresh interpreter with this one's search path, which does not run the user's script or notebook again."""

GRACE_S = 10
"""How long a process that has closed its pipe may take to end."""


def can_start_processes() -> bool:
    """Tell whether there is an interpreter to start (a program frozen into one file has none) and to wait for."""
    return os.name == "posix" and bool(sys.executable) and not getattr(sys, "frozen", False)


@dataclass
class Reading:
    """A file that a process reads; its graph, or why there is none, once that is known."""

    file: RankFile
    answer: GraphOrError | None = None
    process: Process | None = None
    memory: int | None = None
    """How much it may take (bytes), if that is less than a file that is read alone may."""

    @property
    def deserves_more(self) -> bool:
        """Whether the file needs more than it was given, and can be given more when it is read alone."""
        return self.memory is not None and isinstance(self.answer, TooLargeError)


class Pool:
    """Processes that are started as they are needed and end with the ``with`` block."""

    def __init__(self) -> None:
        self._all: list[Process] = []
        self._idle: list[Process] = []

    def read(self, file: RankFile, *, memory: int | None, salvage: bool, members: bool) -> Reading:
        """Let a process read a file, and its communications too if they are wanted, with so much memory (bytes)."""
        if not self._idle:
            try:
                self._all.append(Process())
            except OSError as error:
                cause = f"no process can be started to read it: {error.strerror or error}"
                return Reading(file, TraceError(file.path, cause, READ_HERE))
            self._idle.append(self._all[-1])
        process = self._idle.pop()
        process.ask(file, memory=memory, salvage=salvage, members=members)
        return Reading(file, process=process)

    def wait(self, readings: Iterable[Reading]) -> None:
        """Wait until at least one process answers, and take its answer."""
        # An answer begins to arrive when the graph is whole, so reading the rest of it does not wait for work.
        with DefaultSelector() as selector:
            for reading in readings:
                if reading.process:
                    selector.register(reading.process.answers, EVENT_READ, reading)
            for key, _ in selector.select():
                self._take_answer(key.data)

    def _take_answer(self, reading: Reading) -> None:
        process = cast("Process", reading.process)
        reading.answer, reading.process = process.answer(reading.file), None
        # One that ended or broke off in the middle of an answer is asked nothing more.
        if process.is_sound:
            self._idle.append(process)
        else:
            process.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._all:
            process.end()


class Process:
    """One process that reads; it is asked one thing at a time."""

    def __init__(self) -> None:
        self.is_sound = True
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", PROGRAM, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # an interrupt from the terminal is the asking process's to handle
        )
        self._asked = cast("BinaryIO", self._process.stdin)
        self.answers = cast("BufferedReader", self._process.stdout)

    def ask(self, file: RankFile, *, memory: int | None, salvage: bool, members: bool) -> None:
        """Let it read a file."""
        asked = {
            "path": full_name(file.path), "rank": file.rank, "memory": memory, "salvage": salvage, "members": members
        }  # fmt: skip
        with suppress(OSError):  # if it has ended, reading its answer tells
            self._asked.write(json.dumps(asked).encode() + b"\n")
            self._asked.flush()

    def answer(self, file: RankFile) -> GraphOrError:
        """Take the answer to the last question."""
        try:
            head = _read_line(self.answers)
            if "error" not in head:
                return read_graph(head, self.answers)
            # One that ran out of memory may have little left for another file.
            self.is_sound = not head["is_too_large"]
            return _error_again(file.path, *head["error"], is_too_large=head["is_too_large"])
        except (OSError, EOFError):
            self.is_sound = False
            return self._why_it_ended(file.path)
        except MemoryError:
            self.is_sound = False
        return out_of_memory(file.path)

    def _why_it_ended(self, path: Path) -> TraceError:
        """Return what happened, as the error of the file that it read."""
        try:
            status = self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self.end()
            status = self._process.returncode
        if status >= 0:
            return TraceError(path, f"the process that read it ended early (status {status})", READ_HERE)
        cause = f"the process that read it was killed (signal {-status}), perhaps for lack of memory"
        return TooLargeError(path, cause, READ_FEWER)

    def end(self) -> None:
        """End it now, whatever it does."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._asked, self.answers):
            with suppress(OSError):
                pipe.close()


def _read_line(answers: BufferedReader) -> dict[str, Any]:
    """Read a line of JSON.

    Raises:
        EOFError: the stream ends early.
    """
    line = answers.readline()
    if not line.endswith(b"\n"):
        raise EOFError("the answer ends early")
    found: dict[str, Any] = json.loads(line)
    return found


def _error_again(path: Path, message: str, on_command_line: str, *, is_too_large: bool) -> TraceError:
    """Make an error of its texts in another process, which name the file already."""
    kind = TooLargeError if is_too_large else TraceError
    error = kind(path, message.removeprefix(" ".join(f"{path}: ".split()) + " "))
    error.on_command_line = on_command_line
    return error
