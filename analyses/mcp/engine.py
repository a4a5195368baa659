"""A process that answers questions one after the other, with the traces that it has read; it may be killed at any time.

Questions come in as lines of JSON, answers go out likewise; before an answer, lines say which stage of it runs.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO

from analyses.display.stderr import say
from analyses.mcp.answers import refusal, refusal_of
from analyses.mcp.held_traces import HeldTraces
from analyses.mcp.questions import ANSWERS, Question
from analyses.mcp.served_files import ServedFiles
from hta_graph.base.errors import DefectError, HtaGraphError
from hta_graph.base.memory import NO_LIMIT
from hta_graph.base.progress import listen_to_stages
from hta_graph.multi_rank.workers.worker_main import begin_worker
from hta_graph.trace.memory_limit import limited_data, within_memory

PROGRESS_S = 0.2
"""The least time between two lines about stages."""


class Answerer:
    """Answers questions, and reports which stage runs."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._traces = HeldTraces(0)
        self._next = 0.0

    def write(self, **line: Any) -> None:
        """Write a line."""
        self._out.write(json.dumps(line).encode() + b"\n")
        self._out.flush()

    def begin(self, stage: str, *, is_inner: bool) -> None:
        """Report that a stage begins."""
        if (now := monotonic()) >= self._next:
            self._next = now + PROGRESS_S
            self.write(stage=stage)

    def advance(self, done: int, total: int) -> None:
        """Report no more than stages."""

    def clear(self) -> None:
        """Nothing is shown."""

    def answer(self, tool: str, arguments: dict[str, Any], keep: int, memory: int, **served: Any) -> None:
        """Answer a question; what cannot be answered is an answer too."""
        files = ServedFiles(Path(served["root"]), served["output"] and Path(served["output"]), set(served["written"]))
        question = Question(files, self._traces, arguments)
        self._traces.limit = keep
        with listen_to_stages(self), within_memory(memory or None), limited_data(memory or NO_LIMIT):
            self.begin(tool, is_inner=False)
            try:
                text, is_error = ANSWERS[tool](question).text(question.page), False
            except Exception as error:  # noqa: BLE001 - a defect of one answer must not end the session
                text, is_error = _refused(error, tool, files), True
            self._traces.keep_within_limit(question.used)
        self.write(text=text, is_error=is_error, held=self._traces.size)


def _refused(error: Exception, tool: str, files: ServedFiles) -> str:
    """Return why there is no answer."""
    if isinstance(error, MemoryError):
        return refusal(
            "The question needs more memory than it may take.",
            "Record fewer steps, or start the server with a larger --memory on a machine that has it.",
        )
    if not isinstance(error, HtaGraphError):
        say(f"hta-graph: {tool}: {type(error).__name__}: {error}")
        error = DefectError(f"{tool} failed")
    return refusal_of(error, f"{files.root}/")


def serve() -> None:
    """Answer until the server is gone."""
    asked, out = begin_worker()
    engine = Answerer(out)
    with suppress(BrokenPipeError):
        engine.write(stage="ready")
        while True:
            engine.answer(**json.loads(asked.get()))
