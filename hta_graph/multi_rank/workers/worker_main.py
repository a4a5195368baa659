"""What a worker process runs: tasks come in as lines, answers go out as bytes."""

from __future__ import annotations

import gc
import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import BinaryIO

from hta_graph.base.memory import available_memory
from hta_graph.multi_rank.workers.tasks import Task, encode_answer
from hta_graph.trace.memory_limit import limited_data

MEMORY_FACTOR = 1.25
"""What a task may take at most of what it is given: memory is not used to the last byte."""
EXTRA_BYTES = 128 << 20
"""What a process can reserve (bytes) in addition to what it reads."""
OOM_SCORE = "500"
"""Let the system, where it runs out of memory, end this process before the one that waits for it."""


def serve() -> None:
    """Answer each line of standard input until there are no more."""
    asked, out = begin_worker()
    with suppress(BrokenPipeError):
        while True:
            task = Task(**json.loads(asked.get()))
            out.writelines(encode_answer(task, limited_data(_memory_limit_of(task))))
            out.flush()
    os._exit(0)


def begin_worker() -> tuple[SimpleQueue[str], BinaryIO]:
    """Return the lines that this process is asked, and where answers go; it never outlives the process that asks."""
    gc.disable()
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(OOM_SCORE, encoding="ascii")
    asked: SimpleQueue[str] = SimpleQueue()
    Thread(target=_forward_lines, args=[asked], daemon=True).start()
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what others print must not get among the answers
    return asked, out


def _forward_lines(asked: SimpleQueue[str]) -> None:
    """Pass lines on, and leave at once when the asking process is gone."""
    # A thread of its own reads what is asked, so that the end of the asking process is seen also while a task runs.
    for line in sys.stdin:
        asked.put(line)
    os._exit(0)


def _memory_limit_of(task: Task) -> int:
    """Return how many bytes more than it holds already this process may take for a task."""
    return available_memory() if task.memory is None else int(MEMORY_FACTOR * task.memory) + EXTRA_BYTES
