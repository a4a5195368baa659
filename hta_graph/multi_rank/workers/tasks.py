"""What is asked of an engine, as JSON values, and what it answers, as bytes: the same on every engine.

A task names a function of this package, so that nothing else can be run by whoever writes to a worker. An answer is a
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

from hta_graph.errors import HtaGraphError, QueryError, TooLargeError, TraceError
from hta_graph.multi_rank.workers.remedies import SHOW_WHERE
from hta_graph.storage.location import Location
from hta_graph.storage.named_places import named_place
from hta_graph.trace.memory_limit import allowed_memory, out_of_memory

__all__ = [
    "Piece",
    "Task",
    "answer_head",
    "answer_pieces",
    "decoded_answer",
    "error_of",
    "error_piece",
    "renamed_error",
    "run_task",
]

Piece = bytes | bytearray | memoryview
"""Bytes of an answer, as they lie in memory."""

FUNCTION = re.compile(r"(hta_graph(?:\.[a-z]\w*)+):([a-z]\w*)")
KINDS: dict[str, type[HtaGraphError]] = {
    kind.__name__: kind for kind in (TooLargeError, TraceError, QueryError, HtaGraphError)
}
"""What an error can be on the other side, the narrowest kind first."""


@dataclass(frozen=True)
class Task:
    """One thing to do for one rank.

    Args:
        function: which function of this package does it, such as ``hta_graph.multi_rank.rank_task:file_pieces``; it returns
            bytes, or pieces of them one after the other.
        arguments: what it is given by name, as JSON values; ``path`` is the file that errors name.
        memory: how much memory (bytes) it may take, where somebody said so.
    """

    function: str
    arguments: dict[str, Any]
    memory: int | None = None

    @property
    def subject(self) -> Location:
        """The file that it is about, as errors name it: no secrets of an address are in that."""
        return named_place(self.arguments.get("path", self.function))


def run_task(task: Task) -> bytes:
    """Do what is asked, and return the answer or the error as bytes, which :func:`decoded_answer` understands."""
    return b"".join(answer_pieces(task))


def answer_pieces(task: Task, limit: AbstractContextManager[None] | None = None) -> list[Piece]:
    """Do what is asked, and return the answer's bytes, as they lie in memory; ``limit`` is in force meanwhile."""
    try:
        with allowed_memory(task.memory), limit or nullcontext():
            made: Piece | Iterable[Piece] = _function_of(task)(**task.arguments)
            pieces = [made] if isinstance(made, Piece) else list(made)
            return [answer_head(sum(memoryview(piece).nbytes for piece in pieces)), *pieces]
    except HtaGraphError as error:
        return [error_piece(error)]
    except MemoryError:
        pass  # what it holds is let go first
    except Exception as error:  # noqa: BLE001 - a defect here must not leave the asking process without an answer
        cause = f"reading it failed, {type(error).__name__}: {error}"
        return [error_piece(TraceError(task.subject, cause, SHOW_WHERE))]
    with allowed_memory(task.memory):
        return [error_piece(out_of_memory(task.subject))]


def _function_of(task: Task) -> Callable[..., Any]:
    """Find the function that a task names.

    Raises:
        QueryError: it is none of this package.
    """
    named = FUNCTION.fullmatch(task.function)
    if not named:
        raise QueryError(f"{task.function!r} names no function of hta_graph")
    try:
        function = getattr(import_module(named[1]), named[2], None)
    except ModuleNotFoundError:
        function = None
    if not callable(function):
        raise QueryError(f"there is no function {task.function} in this version of hta-graph")
    found: Callable[..., Any] = function
    return found


def answer_head(size: int) -> bytes:
    """Return the line before so many bytes of an answer."""
    return json.dumps({"size": size}).encode() + b"\n"


def error_piece(error: HtaGraphError) -> bytes:
    """Return an error as the whole of an answer."""
    kind = next(name for name, kind in KINDS.items() if isinstance(error, kind))
    return json.dumps({"error": [str(error), error.on_command_line], "kind": kind}).encode() + b"\n"


def error_of(head: dict[str, Any]) -> HtaGraphError | None:
    """Make an error of the texts in an answer's first line; None if it holds none."""
    return _error_again(head["kind"], *head["error"]) if "error" in head else None


def renamed_error(error: HtaGraphError, before: str, now: str) -> HtaGraphError:
    """Return an error whose text calls a file otherwise."""
    texts = (text.replace(before, now) for text in (str(error), error.on_command_line))
    return _error_again(type(error).__name__, *texts)


def _error_again(kind: str, message: str, on_command_line: str) -> HtaGraphError:
    """Make an error of whole texts, which name the file already."""
    error = KINDS[kind].__new__(KINDS[kind])
    Exception.__init__(error, message)
    error.on_command_line = on_command_line
    return error


def decoded_answer(answer: bytes) -> bytes | HtaGraphError:
    """Return what a task made, or why it made nothing.

    >>> decoded_answer(run_task(Task("hta_graph.multi_rank.rank_task:no_such", {})))
    QueryError('there is no function hta_graph.multi_rank.rank_task:no_such in this version of hta-graph')
    """
    begin = answer.index(b"\n") + 1
    return error_of(json.loads(answer[:begin])) or answer[begin:]
