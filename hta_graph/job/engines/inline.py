"""An executor that runs each task in this process, when it is submitted."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

__all__ = ["InlineExecutor"]


class InlineExecutor(Executor):
    """No other process and no thread: whoever submits one task after the other has one answer in memory at a time."""

    workers = 1
    at_once = 1

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call a function now; an interrupt ends the call and is not kept as its result."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - it is the future's
            future.set_exception(error)
        return future
