"""A process that reads trace files for another one: paths come in as lines, graphs go out as columns."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

from hta_graph.errors import HtaGraphError, TooLargeError, TraceError
from hta_graph.job.graph_bytes import graph_pieces
from hta_graph.job.rank_graph import rank_graph
from hta_graph.job.remedies import SHOW_WHERE
from hta_graph.places.named_places import named_place
from hta_graph.trace.allowance import allowed_memory, available_memory, limited_data, out_of_memory
from hta_graph.trace.read import read_trace

__all__ = ["serve"]

SLACK = 1.25
"""What a file may take at most of what it is given: memory is not used to the last byte."""
BESIDE = 128 << 20
"""What a process may reserve (bytes) beside what it reads."""
FIRST_VICTIM = "500"
"""Let the system, where it runs out of memory, end this process before the one that waits for it."""


def serve() -> None:
    """Answer each line of standard input until there are no more; never outlive the process that asks."""
    gc.disable()
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(FIRST_VICTIM, encoding="ascii")
    asked: SimpleQueue[dict[str, Any]] = SimpleQueue()
    Thread(target=_pass_on_questions, args=[asked], daemon=True).start()
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what others print must not get among the columns
    with suppress(BrokenPipeError):
        while True:
            out.writelines(_answer_pieces(**asked.get()))
            out.flush()
    os._exit(0)


def _pass_on_questions(asked: SimpleQueue[dict[str, Any]]) -> None:
    """Pass on what is asked, and leave at once when the asking process is gone."""
    # A thread of its own reads what is asked, so that the end of the asking process is seen also while a file is read.
    for line in sys.stdin:
        asked.put(json.loads(line))
    os._exit(0)


def _answer_pieces(
    path: str, rank: int, *, memory: int | None, salvage: bool, members: bool
) -> Iterable[bytes | memoryview]:
    most = available_memory() if memory is None else int(SLACK * memory) + BESIDE
    try:
        with allowed_memory(memory), limited_data(most):
            graph = rank_graph(lambda: replace(read_trace(path, salvage=salvage), rank=rank), members=members)
            return list(graph_pieces(graph))
    except HtaGraphError as error:
        return [_error_line(error)]
    except MemoryError:
        pass  # what it holds is let go first
    except Exception as error:  # noqa: BLE001 - a defect here must not leave the asking process without an answer
        return [
            _error_line(
                TraceError(named_place(path), f"reading it failed, {type(error).__name__}: {error}", SHOW_WHERE)
            )
        ]
    with allowed_memory(memory):
        return [_error_line(out_of_memory(named_place(path)))]


def _error_line(error: HtaGraphError) -> bytes:
    told = {"error": [str(error), error.on_command_line], "is_too_large": isinstance(error, TooLargeError)}
    return json.dumps(told).encode() + b"\n"
