"""A worker's task, as JSON values, and what it answers, as bytes: the same on every engine.

A task names a function of this package, so that a message to a worker can run nothing else. An answer is a
line of JSON, then the bytes that the function made; of one that failed the line holds the error, and nothing follows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from hta_graph.base.errors import HtaGraphError, QueryError, Remedy, TooLargeError, TraceError
from hta_graph.base.storage.location import Location, resolve_location
from hta_graph.trace.memory_limit import limit_memory, out_of_memory_error

READ_HERE_HINT = Remedy("pass jobs=1 to read without other processes", "use --jobs 1 to read without other processes")
READ_FEWER_HINT = Remedy(
    "read fewer files at once with jobs or memory", "read fewer files at once with --jobs or --memory"
)
SHOW_WHERE_HINT = Remedy("pass jobs=1 to see where", "use --jobs 1 to see where")


Chunk = bytes | bytearray | memoryview
"""Bytes of an answer, as they lie in memory."""

FUNCTION = re.compile(r"(hta_graph(?:\.[a-z]\w*)+):([a-z]\w*)")
ERROR_KINDS: dict[str, type[HtaGraphError]] = {
    kind.__name__: kind for kind in (TooLargeError, TraceError, QueryError, HtaGraphError)
}
"""What an error can be on the other side, the narrowest kind first."""


@dataclass(frozen=True)
class Task:
    """One thing to do for one rank.

    Args:
        function: which function of this package does it, such as ``hta_graph.multi_rank.rank_task:file_pieces``; it
            returns bytes, or pieces of them one after the other.
        arguments: what it is given by name, as JSON values; ``path`` is the file that errors name.
        memory: how much memory (bytes) it can take, where a limit was given.
    """

    function: str
    arguments: dict[str, Any]
    memory: int | None = None

    @property
    def subject(self) -> Location:
        """The file that it is about, as errors name it: no secrets of an address are in that."""
        return resolve_location(self.arguments.get("path", self.function))


def run_task(task: Task) -> bytes:
    """Do a task, and return the answer or the error as bytes, which :func:`decode_answer` understands."""
    return b"".join(encode_answer(task))


def encode_answer(task: Task, limit: AbstractContextManager[None] | None = None) -> list[Chunk]:
    """Do a task, and return the answer's bytes, as they lie in memory; ``limit`` is in force meanwhile."""
    try:
        function = _function_of(task)  # what it imports is none of what the task may take
        with limit_memory(task.memory), limit or nullcontext():
            made: Chunk | Iterable[Chunk] = function(**task.arguments)
            pieces = [made] if isinstance(made, Chunk) else list(made)
            return [encode_head(sum(memoryview(piece).nbytes for piece in pieces)), *pieces]
    except HtaGraphError as error:
        return [encode_error(error)]
    except MemoryError:
        pass  # what it holds is let go first
    except Exception as error:  # noqa: BLE001 - a defect here must not leave the asking process without an answer
        cause = f"reading it failed, {type(error).__name__}: {error}"
        return [encode_error(TraceError(task.subject, cause, SHOW_WHERE_HINT))]
    with limit_memory(task.memory):
        return [encode_error(out_of_memory_error(task.subject))]


def _function_of(task: Task) -> Callable[..., Any]:
    """Find the function that a task names.

    Raises:
        QueryError: it is none of this package.
    """
    named = FUNCTION.fullmatch(task.function)
    if not named:
        raise QueryError(f"{task.function!r} is not a function of hta_graph")
    try:
        function = getattr(import_module(named[1]), named[2], None)
    except ModuleNotFoundError:
        function = None
    if not callable(function):
        raise QueryError(f"there is no function {task.function} in this version of hta-graph")
    found: Callable[..., Any] = function
    return found


def encode_head(size: int) -> bytes:
    """Return the line before an answer of ``size`` bytes."""
    return json.dumps({"size": size}).encode() + b"\n"


def encode_error(error: HtaGraphError) -> bytes:
    """Return an error as the whole of an answer."""
    kind = next(name for name, kind in ERROR_KINDS.items() if isinstance(error, kind))
    return json.dumps({"error": [str(error), error.on_command_line], "kind": kind}).encode() + b"\n"


def decode_error(head: dict[str, Any]) -> HtaGraphError | None:
    """Make an error of the texts in an answer's first line; None if it holds none."""
    return _rebuilt_error(head["kind"], *head["error"]) if "error" in head else None


def error_with_path(error: HtaGraphError, before: str, now: str) -> HtaGraphError:
    """Return an error whose text calls a file otherwise."""
    texts = (text.replace(before, now) for text in (str(error), error.on_command_line))
    return _rebuilt_error(type(error).__name__, *texts)


def _rebuilt_error(kind: str, message: str, on_command_line: str) -> HtaGraphError:
    """Make an error of whole texts, which name the file already."""
    error = ERROR_KINDS[kind].__new__(ERROR_KINDS[kind])
    Exception.__init__(error, message)
    error.on_command_line = on_command_line
    return error


def decode_answer(answer: bytes) -> bytes | HtaGraphError:
    """Return what a task made, or why it made nothing.

    >>> decode_answer(run_task(Task("hta_graph.multi_rank.rank_task:no_such", {})))
    QueryError('there is no function hta_graph.multi_rank.rank_task:no_such in this version of hta-graph')
    """
    begin = answer.index(b"\n") + 1
    return decode_error(json.loads(answer[:begin])) or answer[begin:]
