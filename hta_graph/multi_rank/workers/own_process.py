"""One process of this machine that runs tasks, seen from the process that asks it.

A process whose standard input is closed ends by itself, so that none is left behind however the asking process ends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from io import BufferedReader
from typing import Any, BinaryIO, TypeVar, cast

from hta_graph.errors import HtaGraphError, TooLargeError, TraceError
from hta_graph.multi_rank.workers.remedies import READ_FEWER_HINT, READ_HERE_HINT
from hta_graph.multi_rank.workers.tasks import Task, decode_error
from hta_graph.trace.memory_limit import out_of_memory_error

__all__ = ["WorkerExitedError", "WorkerProcess", "DecodeStream", "can_start_processes"]

PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from hta_graph.multi_rank.workers.worker_main import serve; serve()"
"""A fresh interpreter with this one's search path, which does not run the user's script or notebook again."""

GRACE_S = 10
"""How long a process that has closed its pipe may take to end."""

Made = TypeVar("Made")
DecodeStream = Callable[[int, BufferedReader], Made]
"""Takes so many bytes of an answer from a stream; raises ``EOFError`` where it ends early."""


def can_start_processes() -> bool:
    """Tell whether there is an interpreter to start (a program frozen into one file has none) and to wait for."""
    return os.name == "posix" and bool(sys.executable) and not getattr(sys, "frozen", False)


class WorkerExitedError(Exception):
    """A process ended before its answer did; ``error`` says so of the task."""

    def __init__(self, error: HtaGraphError) -> None:
        super().__init__(str(error))
        self.error = error


class WorkerProcess:
    """One process; it is asked one thing at a time."""

    def __init__(self) -> None:
        self.is_sound = True
        """Whether it can be asked more."""
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", PROGRAM, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # an interrupt from the terminal is the asking process's to handle
        )
        self._asked = cast("BinaryIO", self._process.stdin)
        self._answers = cast("BufferedReader", self._process.stdout)

    def ask(self, task: Task, take: DecodeStream[Made]) -> Made | HtaGraphError:
        """Let it run a task and wait for the answer.

        Raises:
            WorkerExitedError: it ended instead.
        """
        with suppress(OSError):  # if it has ended, reading its answer tells
            self._asked.write(json.dumps(asdict(task)).encode() + b"\n")
            self._asked.flush()
        try:
            return self._answer(take)
        except (OSError, EOFError):
            self.is_sound = False
            raise WorkerExitedError(self._why_it_ended(task)) from None
        except MemoryError:
            self.is_sound = False
        return out_of_memory_error(task.subject)

    def _answer(self, take: DecodeStream[Made]) -> Made | HtaGraphError:
        """Wait for the answer to what was asked.

        Raises:
            EOFError: it ends early.
        """
        head = _read_line(self._answers)
        if error := decode_error(head):
            # One that ran out of memory may have little left for another task.
            self.is_sound = not isinstance(error, TooLargeError)
            return error
        return take(head["size"], self._answers)

    def _why_it_ended(self, task: Task) -> TraceError:
        """Return what happened, as the error of the file that it read."""
        try:
            status = self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self.end()
            status = self._process.returncode
        if status >= 0:
            return TraceError(task.subject, f"the process that read it ended early (status {status})", READ_HERE_HINT)
        cause = f"the process that read it was killed (signal {-status}), perhaps for lack of memory"
        return TooLargeError(task.subject, cause, READ_FEWER_HINT)

    def kill(self) -> None:
        """End it now, whatever it does; who waits for its answer learns that it ended."""
        self._process.kill()

    def end(self) -> None:
        """End it now and leave nothing of it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._asked, self._answers):
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
