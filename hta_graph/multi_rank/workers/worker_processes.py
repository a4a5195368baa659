"""Tasks run by processes of this machine; each is owned by a thread that waits for its answers.

Signals reach the main thread alone, which waits for futures: an interrupt at any moment ends in
:meth:`WorkerPool.shutdown`, which kills the processes, and with them the threads' waiting.
"""

from __future__ import annotations

from concurrent.futures import Future
from contextvars import Context, copy_context
from errno import ECANCELED
from queue import SimpleQueue
from threading import Lock, Semaphore, Thread
from typing import Any, Self

from hta_graph.errors import TraceError
from hta_graph.multi_rank.workers.own_process import DecodeStream, WorkerExitedError, WorkerProcess
from hta_graph.multi_rank.workers.remedies import READ_HERE_HINT
from hta_graph.multi_rank.workers.tasks import Task

__all__ = ["WorkerPool"]

ATTEMPTS = 2
"""How often a task is tried whose process ends early."""
UNLIMITED_WORKERS = 1 << 30

PendingTask = tuple["Future[Any]", Context, Task, DecodeStream[Any]]


class WorkerPool:
    """Processes that are started as they are needed, at most so many; they run tasks of this package only."""

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
        """Answer what is asked, one thing after the other, in a process of this thread's own."""
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
