"""Tasks run by worker processes of this machine; each is owned by a thread that waits for its answers.

A process whose standard input is closed ends by itself, so that none is left behind however the asking process ends.
Signals reach the main thread alone, which waits for futures: an interrupt at any moment ends in
:meth:`WorkerPool.shutdown`, which kills the processes, and with them the threads' waiting.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import asdict
from errno import ECANCELED
from io import BufferedReader
from queue import SimpleQueue
from threading import Lock, Semaphore, Thread
from typing import Any, BinaryIO, Self, TypeVar, cast

from hta_graph.base.errors import HtaGraphError, TooLargeError, TraceError
from hta_graph.multi_rank.workers.tasks import READ_FEWER_HINT, READ_HERE_HINT, Task, decode_error
from hta_graph.trace.memory_limit import out_of_memory_error

PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from hta_graph.multi_rank.workers.worker_main import serve; serve()"
"""A fresh interpreter with this one's search path, which does not run the user's script or notebook again."""

GRACE_S = 10
"""How long a process that has closed its pipe may take to end."""

Made = TypeVar("Made")
DecodeStream = Callable[[int, BufferedReader], Made]
"""Takes a number of bytes of an answer from a stream; raises ``EOFError`` where it ends early."""


def can_start_processes() -> bool:
    """Return whether there is an interpreter to start (a program frozen into one file has none) and to wait for."""
    return os.name == "posix" and bool(sys.executable) and not getattr(sys, "frozen", False)


class WorkerExitedError(Exception):
    """A process ended before its answer did; ``error`` reports it for the task."""

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
        cause = f"the process that read it was killed (signal {-status}), possibly for lack of memory"
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


ATTEMPTS = 2
"""How often a task is tried whose process ends early."""
UNLIMITED_WORKERS = 1 << 30

PendingTask = tuple["Future[Any]", Context, Task, DecodeStream[Any]]


class WorkerPool:
    """Processes that are started as they are needed, up to a limit; they run tasks of this package only."""

    def __init__(self, workers: int = UNLIMITED_WORKERS) -> None:
        self._workers = workers
        self._asked: SimpleQueue[PendingTask | None] = SimpleQueue()
        self._idle = Semaphore(0)
        self._threads: list[Thread] = []
        self._processes: set[WorkerProcess] = set()
        self._lock = Lock()
        self._is_over = self._is_killed = False

    def submit(self, task: Task, take: DecodeStream[Any]) -> Future[Any]:
        """Let a process run a task; ``take`` makes something of its answer as that arrives. An error is a result.

        Raises:
            RuntimeError: the processes have ended.
        """
        if self._is_over:
            raise RuntimeError("these processes have ended")
        future: Future[Any] = Future()
        self._asked.put((future, copy_context(), task, take))
        if not self._idle.acquire(blocking=False) and len(self._threads) < self._workers:
            thread = Thread(target=self._own_a_process, daemon=True)
            self._threads.append(thread)
            thread.start()
        return future

    def shutdown(self, *, cancel_futures: bool = False) -> None:
        """End the processes when what was asked is done; with ``cancel_futures`` at once, whatever they do."""
        if cancel_futures:
            with self._lock:
                self._is_killed = True
                for process in self._processes:
                    process.kill()
        self._is_over = True
        for _ in self._threads:
            self._asked.put(None)
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown(cancel_futures=True)

    def _own_a_process(self) -> None:
        """Do one task after the other, in a process of this thread's own."""
        process: WorkerProcess | None = None
        while question := self._asked.get():
            process = self._answer(question, process)
            del question  # what was answered is no longer this thread's to keep
            self._idle.release()
        self._let_go(process)

    def _answer(self, question: PendingTask, process: WorkerProcess | None) -> WorkerProcess | None:
        """Answer one question; return the process if it can go on."""
        future, context, task, take = question
        if self._is_killed:
            future.cancel()
        if not future.set_running_or_notify_cancel():
            return process
        try:
            found, process = context.run(self._run, process, task, take)
            future.set_result(found)
        except BaseException as error:  # noqa: BLE001 - whoever waits must not wait for ever
            future.set_exception(error)
            self._let_go(process)
            return None
        return process

    def _run(
        self, process: WorkerProcess | None, task: Task, take: DecodeStream[Any]
    ) -> tuple[Any, WorkerProcess | None]:
        """Run a task, once more if its process ends early; return what came, and the process if it can go on."""
        found: Any = None
        for _ in range(ATTEMPTS):
            try:
                process = process or self._new_process()
            except OSError as error:
                cause = f"no process can be started to read it: {error.strerror or error}"
                return TraceError(task.subject, cause, READ_HERE_HINT), None
            try:
                found = process.ask(task, take)
                break
            except WorkerExitedError as ended:
                found = ended.error
                self._let_go(process)
                process = None
        if process and not process.is_sound:
            self._let_go(process)
            process = None
        return found, process

    def _new_process(self) -> WorkerProcess:
        """Start a process, unless all are to end.

        Raises:
            OSError: none can be started.
        """
        with self._lock:
            if self._is_killed:
                raise OSError(ECANCELED, "all of them are to end")
            process = WorkerProcess()
            self._processes.add(process)
            return process

    def _let_go(self, process: WorkerProcess | None) -> None:
        """End a process, if there is one."""
        if process:
            with self._lock:
                self._processes.discard(process)
            process.end()
