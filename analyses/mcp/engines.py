"""The engines: processes that answer questions, each killed where its question is cancelled or takes too long.

A question that others wait behind is never in the server's own process: that one only passes lines on.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self, cast

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from anyio.lowlevel import checkpoint_if_cancelled
from anyio.streams.buffered import BufferedByteReceiveStream

from analyses.mcp.answers import refusal
from analyses.mcp.served_files import ServedFiles
from analyses.mcp.tools import Tool
from hta_graph.base.storage.open_local import ONLY_BELOW

MOST_ENGINES = 4
"""How many questions are answered at the same time; an engine is started where none is free."""
LONGEST_LINE = 1 << 24
GRACE_S = 2
"""How long a killed process may take to be gone."""
PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from analyses.mcp.engine import serve; serve()"
"""A fresh interpreter with this one's search path."""

Report = Callable[[float, float | None, str], Awaitable[None]]
"""Reports to the client which stage of its question runs."""


@dataclass(frozen=True)
class Limits:
    """What questions may take: seconds and bytes (0: what is free) of each, and the bytes kept between all of them."""

    seconds: int
    memory: int
    keep: int


@dataclass(eq=False)
class Engine:
    """A process that answers one question at a time."""

    process: Process
    lines: BufferedByteReceiveStream
    trace: Any = None
    """What its last question was about."""
    held: int = 0
    """How much memory (bytes) its traces take."""
    is_taken: bool = False
    is_ready: bool = False
    is_asked: bool = False
    """Whether it owes an answer: where no one waits for that any more, it is killed."""

    @classmethod
    async def start(cls, root: str) -> Self:
        """Start a process, which opens nothing outside of a folder."""
        words = [sys.executable, "-c", PROGRAM, *sys.path]
        with anyio.CancelScope(shield=True):  # what is started is also noted
            process = await anyio.open_process(
                words, stderr=None, env={**os.environ, ONLY_BELOW: root}, start_new_session=True
            )
        return cls(process, BufferedByteReceiveStream(cast("ByteReceiveStream", process.stdout)))

    async def ask(self, question: Mapping[str, Any], report: Report) -> tuple[str, bool]:
        """Return the text of an answer, and whether it is a refusal."""
        if not self.is_ready:
            await self._line()
            self.is_ready = True
        # A line that is there already is read without a pause, in which a question could be cancelled.
        await checkpoint_if_cancelled()
        self.is_asked = True
        await cast("ByteSendStream", self.process.stdin).send(json.dumps(question).encode() + b"\n")
        stages = 0
        while "stage" in (line := await self._line()):
            stages += 1
            await report(stages, None, line["stage"])
        self.is_asked, self.held = False, line["held"]
        return line["text"], line["is_error"]

    async def _line(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(await self.lines.receive_until(b"\n", LONGEST_LINE))
        return found

    async def kill(self) -> None:
        """End it whatever it does; the processes that it started end with its pipes."""
        with suppress(ProcessLookupError):
            self.process.kill()
        with anyio.move_on_after(GRACE_S, shield=True):
            await self.process.aclose()


@dataclass
class Engines:
    """All engines of a server; each question goes to a free one, the one that knows its trace if that is free."""

    files: ServedFiles
    limits: Limits
    _engines: list[Engine] = field(default_factory=list)
    _room: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(MOST_ENGINES))

    async def ask(self, tool: Tool, arguments: Mapping[str, Any], report: Report) -> tuple[str, bool]:
        """Return the text of an answer, and whether it is a refusal."""
        async with self._room:
            engine = await self._free_engine(arguments.get("trace"))
            try:
                with anyio.fail_after(self.limits.seconds):
                    text, is_error = await engine.ask(self._question(engine, tool, arguments), report)
            except TimeoutError:
                said = f"The question takes more than {self.limits.seconds} s.", "Start the server with more --seconds."
                return refusal(*said), True
            except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
                engine.is_asked = True
                return refusal("The process that answered was killed, possibly for lack of memory."), True
            finally:
                engine.is_taken = False
                if engine.is_asked:
                    self._engines.remove(engine)
                    await engine.kill()
        if tool.writes and not is_error:
            self.files.written.add(arguments["name"])
        return text, is_error

    async def _free_engine(self, trace: Any) -> Engine:
        free = [engine for engine in self._engines if not engine.is_taken]
        if not free:
            free = [await Engine.start(str(self.files.root))]
            self._engines += free
        engine = max(free, key=lambda one: one.trace == trace)
        engine.is_taken, engine.trace = True, trace
        return engine

    def _question(self, engine: Engine, tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
        others = sum(one.held for one in self._engines if one is not engine)
        return {
            "tool": tool.name,
            "arguments": arguments,
            "root": str(self.files.root),
            "output": self.files.output and str(self.files.output),
            "written": sorted(self.files.written),
            "keep": self.limits.keep - others,
            "memory": self.limits.memory,
        }

    async def close(self) -> None:
        """End all engines."""
        for engine in self._engines:
            await engine.kill()
