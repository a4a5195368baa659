"""Calls are checked before an engine sees them: arguments that are wrong are named, in the shape of all refusals."""

from __future__ import annotations

import json
from io import BytesIO, TextIOWrapper
from pathlib import Path
from threading import Timer
from threading import enumerate as threads
from typing import Any

import pytest

from tests.support.mcp_session import HAS_CLIENT, WITHOUT_CLIENT
from tests.text_attacks.command_lines import ask_in_process

pytestmark = pytest.mark.skipif(not HAS_CLIENT, reason=WITHOUT_CLIENT)


def called(name: str, given: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Return what a call is answered, and what reached the engines."""
    import anyio

    from analyses.mcp.engines import Engines, Limits
    from analyses.mcp.served_files import ServedFiles
    from analyses.mcp.server import TraceServer

    reached = []

    class NoEngines(Engines):
        async def ask(self, tool: Any, arguments: Any, report: Any) -> tuple[str, bool]:
            reached.append((tool.name, arguments))
            return "{}", False

    server = TraceServer(NoEngines(ServedFiles(Path("/"), None), Limits(1, 0, 0)))

    async def call() -> Any:
        return await server.call_tool(name, given)

    result = anyio.run(call)
    assert result.is_error is not bool(reached)
    return json.loads(result.content[0].text), reached


def test_a_call_reaches_an_engine_with_what_was_given_and_nothing_else() -> None:
    given = {"trace": "t", "changes": ["scale gemm=0.5"], "step": 3, "whole": False}
    assert called("what_if", given)[1] == [("what_if", given)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({}, "trace"), ({"trace": 7}, "trace"), ({"trace": "t", "step": "one"}, "step"),
        ({"trace": "t", "rank": -1}, "rank"), ({"trace": "t", "limit": 0}, "limit"),
        ({"trace": "t", "limit": float("nan")}, "limit"), ({"trace": "t", "whole": "maybe"}, "whole"),
        ({"trace": "x" * 10_000}, "trace"), ({"trace": "t", "table": None}, "table"),
        ({"trace": "t", "colour\x1b[2J" + "x" * 9_999: 1}, "colour"),
    ],
)  # fmt: skip
def test_arguments_that_are_not_valid_are_named(given: dict[str, Any], word: str) -> None:
    wrong, reached = called("kernels", given)
    assert not reached
    assert list(wrong) == ["cannot_answer", "reason", "what_to_record", "names"]
    assert word in wrong["reason"]
    assert wrong["reason"].isprintable()
    assert len(json.dumps(wrong)) < 600


def test_a_tool_that_is_none_is_named_short_and_clean() -> None:
    wrong, reached = called("\x1b[31m" + "x" * 9_999, {})
    assert not reached
    assert "no tool" in wrong["reason"]
    assert len(wrong["reason"]) < 400


def test_a_server_that_has_ended_ends_no_other_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO()))
    assert ask_in_process(["mcp"]).status == 0
    for one in threads():
        if isinstance(one, Timer):
            one.join(0.2)
            assert one.finished.is_set()
