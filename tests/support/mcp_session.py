"""The server for agents asked from a test: its tools in this process, or the program by the official client."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import analyses
from analyses.mcp.held_traces import HeldTraces
from analyses.mcp.questions import ANSWERS, Question
from analyses.mcp.served_files import ServedFiles

HAS_CLIENT = find_spec("mcp") is not None
WITHOUT_CLIENT = "the package mcp is not installed: pip install 'hta-graph[mcp]'"
SAMPLES = Path(analyses.__file__).parent / "sample"
MEMORY = 1 << 30


def sample_folder(folder: Path) -> Path:
    """Return a folder with the sample traces, and only them."""
    root = folder / "traces"
    shutil.copytree(SAMPLES, root, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    return root


def question(root: Path, arguments: Mapping[str, Any], output: Path | None = None) -> Question:
    """Return a call of a tool in this process."""
    return Question(ServedFiles(root.resolve(), output), HeldTraces(MEMORY), arguments)


def answer_text(root: Path, tool: str, arguments: Mapping[str, Any], output: Path | None = None) -> str:
    """Return the text that a tool answers in this process."""
    asked = question(root, arguments, output)
    return ANSWERS[tool](asked).text(asked.page)


def answer(root: Path, tool: str, arguments: Mapping[str, Any], output: Path | None = None) -> dict[str, Any]:
    """Return what a tool answers in this process."""
    found: dict[str, Any] = json.loads(answer_text(root, tool, arguments, output))
    return found


def rows_of(answered: Mapping[str, Any], table: str) -> list[dict[str, Any]]:
    """Return the rows of a table of an answer as records."""
    found = answered["tables"][table]
    same = found.get("in_all_rows", {})
    return [{**same, **dict(zip(found["columns"], row, strict=True))} for row in found["rows"]]


def server_command(root: Path, *more: str) -> tuple[list[str], dict[str, str]]:
    """Return the words that start the server, and its environment."""
    code = Path(analyses.__file__).parents[1]
    path = os.pathsep.join([str(code), *filter(None, [os.environ.get("PYTHONPATH")])])
    return [sys.executable, "-m", "hta_graph", "mcp", "--root", str(root), *more], {**os.environ, "PYTHONPATH": path}


def in_session(root: Path, act: Callable[[Any], Awaitable[Any]], *more: str, errors: Path | None = None) -> Any:
    """Start the server, do something with the official client, and return its result."""
    import anyio
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    (command, *words), environment = server_command(root, *more)
    parameters = StdioServerParameters(command=command, args=words, env=environment)

    async def run() -> Any:
        with Path(errors or os.devnull).open("w") as log:
            async with Client(stdio_client(parameters, errlog=log)) as client:
                return await act(client)

    return anyio.run(run)


async def call_all(client: Any, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Any]:
    """Call tools one after the other; return the results."""
    return [await client.call_tool(name, dict(arguments)) for name, arguments in calls]
