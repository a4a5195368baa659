"""The server: the tools and resources as the Model Context Protocol offers them, over standard input and output.

One question is answered at a time, in a thread of its own, so that the protocol continues meanwhile: progress,
cancellation, further questions. A question that is cancelled ends at its next stage.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from threading import Event, Lock
from time import monotonic
from typing import Any

import anyio
import mcp.types as types
from anyio import from_thread, to_thread
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from analyses.display.stderr import say
from analyses.mcp.answers import as_json, cannot_answer, cannot_answer_error
from analyses.mcp.held_traces import HeldTraces
from analyses.mcp.served_files import ServedFiles
from analyses.mcp.tools import TOOLS, Question, Tool, wrong_arguments
from analyses.messages import mcp as messages
from analyses.schemas import schema_names, schema_text
from hta_graph import __version__
from hta_graph.base.errors import DefectError, HtaGraphError
from hta_graph.base.progress import listen_to_stages

GUIDE, SCHEMAS = "hta-graph://guide", "hta-graph://schema/"
PROGRESS_S = 0.2
"""The least time between two notifications."""


class CancelledError(Exception):
    """The client no longer wants the answer."""


class ProgressNotifications:
    """Reports to the client which stage runs; where the client has cancelled, a stage does not begin."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self.cancelled = Event()
        self._next = 0.0
        self._stages = 0

    def begin(self, stage: str, *, is_inner: bool) -> None:
        """Report that a stage begins."""
        if self.cancelled.is_set():
            raise CancelledError
        self._stages += not is_inner
        self._report(stage)

    def advance(self, done: int, total: int) -> None:
        """End the question where it is cancelled."""
        if self.cancelled.is_set():
            raise CancelledError

    def clear(self) -> None:
        """Nothing is shown."""

    def _report(self, stage: str) -> None:
        if (now := monotonic()) >= self._next:
            self._next = now + PROGRESS_S
            with suppress(RuntimeError):  # the connection is closing
                from_thread.run(self._session.report_progress, float(self._stages), None, stage)


class TraceServer:
    """Answers calls of tools and reads of resources."""

    def __init__(self, files: ServedFiles, memory: int) -> None:
        self._files = files
        self._traces = HeldTraces(memory)
        self._lock = Lock()
        self._tools = {tool.name: tool for tool in TOOLS}

    async def list_tools(self, _: Any, __: Any) -> types.ListToolsResult:
        """Return all tools."""
        return types.ListToolsResult(tools=[_tool(tool) for tool in TOOLS])

    async def call_tool(self, context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Answer a call; what cannot be answered is an answer too."""
        tool = self._tools.get(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, messages.no_tool(params.name[:100], list(self._tools)))
        progress = ProgressNotifications(context.session)
        try:
            text, is_error = await to_thread.run_sync(
                self._answer, tool, params.arguments or {}, progress, abandon_on_cancel=True
            )
        except anyio.get_cancelled_exc_class():
            progress.cancelled.set()
            raise
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=is_error)

    def _answer(self, tool: Tool, arguments: dict[str, Any], progress: ProgressNotifications) -> tuple[str, bool]:
        """Return the text of an answer, and whether it is an error."""
        if wrong := wrong_arguments(tool, arguments):
            return as_json(wrong), True
        with self._lock, listen_to_stages(progress):
            question = Question(self._files, self._traces, arguments)
            try:
                progress.begin(tool.name, is_inner=False)
                return tool.answer(question).text(question.page), False
            except HtaGraphError as error:
                return as_json(cannot_answer_error(error, f"{self._files.root}/")), True
            except MemoryError:
                return as_json(cannot_answer(messages.NO_MEMORY, messages.LESS_MEMORY)), True
            except CancelledError:
                return as_json(cannot_answer(messages.CANCELLED, messages.NO_REMEDY)), True
            except Exception as error:  # noqa: BLE001 - a defect of one answer must not end the session
                say(f"hta-graph: {tool.name}: {type(error).__name__}: {error}")
                return as_json(cannot_answer_error(DefectError(messages.failed(tool.name)), "")), True
            finally:
                self._traces.keep_within_limit(question.used)

    async def list_resources(self, _: Any, __: Any) -> types.ListResourcesResult:
        """Return the guide and the schemas."""
        guide = types.Resource(uri=GUIDE, name="guide", title=messages.GUIDE_TITLE, mime_type="text/markdown")
        schemas = [
            types.Resource(uri=f"{SCHEMAS}{name}", name=f"schema-{name}", mime_type="application/schema+json")
            for name in schema_names()
        ]
        return types.ListResourcesResult(resources=[guide, *schemas])

    async def read_resource(self, _: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        """Return the guide or a schema."""
        uri = str(params.uri)
        kind, text = "text/markdown", messages.GUIDE
        if uri != GUIDE:
            name = uri.removeprefix(SCHEMAS)
            if name not in schema_names():
                raise MCPError(types.INVALID_PARAMS, messages.no_resource(uri[:100]))
            kind, text = "application/schema+json", schema_text(name)
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, mime_type=kind, text=text)])


def _tool(tool: Tool) -> types.Tool:
    hints = types.ToolAnnotations(
        read_only_hint=not tool.writes, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.shown_schema,
        annotations=hints,
    )


def serve(files: ServedFiles, memory: int) -> None:
    """Answer until the client closes standard input."""
    own = TraceServer(files, memory)
    server = Server(
        "hta-graph",
        version=__version__,
        instructions=messages.INSTRUCTIONS,
        on_list_tools=own.list_tools,
        on_call_tool=own.call_tool,
        on_list_resources=own.list_resources,
        on_read_resource=own.read_resource,
    )

    async def run() -> None:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    say(messages.serving(memory))
    anyio.run(run)
    sys.stdout.flush()
