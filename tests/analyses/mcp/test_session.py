"""The server as a program, asked by the official client over standard input and output."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from subprocess import PIPE
from typing import Any

import pytest

from analyses.mcp.answers import MOST_TOKENS, tokens_at_most
from analyses.mcp.tools import TOOLS
from tests.support.deep_tests import deep
from tests.support.mcp_session import HAS_CLIENT, WITHOUT_CLIENT, call_all, in_session, sample_folder, server_command
from tests.support.trace_builder import TraceBuilder

pytestmark = pytest.mark.skipif(not HAS_CLIENT, reason=WITHOUT_CLIENT)
TRACE = {"trace": "sample_trace.json.gz"}
PICTURE = f"path.{'svg' if which('dot') else 'dot'}"
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("open", {}),
    ("open", TRACE),
    ("overview", TRACE),
    ("critical_path", {**TRACE, "step": 2, "order": "time", "limit": 5}),
    ("what_if", {**TRACE, "changes": ["scale kernel:gemm=0.5"]}),
    ("stragglers", {"trace": "four_ranks"}),
    ("diff", {"before": "sample_trace.json.gz", "after": "slower_trace.json.gz"}),
    ("roofline", TRACE),
    ("idle_causes", TRACE),
    ("kernels", {**TRACE, "table": "kernels"}),
    ("sync_dependencies", TRACE),
    ("explain_event", {**TRACE, "event_index": 181}),
    ("render_picture", {**TRACE, "picture": "path", "name": PICTURE}),
]
ASKED_ELSEWHERE = (
    "overview", "diff", "stragglers", "kernels", "explain_event", "what_if", "roofline", "sync_dependencies",
)  # fmt: skip
"""Tools that quick tests ask in this process."""


def text_of(result: Any) -> str:
    (content,) = result.content
    assert content.type == "text"
    return content.text


@pytest.mark.parametrize(
    "calls", [[call for call in CALLS if call[0] not in ASKED_ELSEWHERE], deep(CALLS)], ids=["quick", "deep"]
)
def test_one_session_answers_all_tools_and_reads_the_resources(
    tmp_path: Path, calls: list[tuple[str, dict[str, Any]]]
) -> None:
    root, output, log = sample_folder(tmp_path), tmp_path / "pictures", tmp_path / "log.txt"

    async def act(client: Any) -> tuple[Any, ...]:
        tools = (await client.list_tools()).tools
        answers = await call_all(client, calls)
        resources = (await client.list_resources()).resources
        texts = [(await client.read_resource(str(one.uri))).contents[0].text for one in resources[:2]]
        wrong = await call_all(client, [("kernels", {**TRACE, "limit": "x"}), ("open", {"trace": "../x"})])
        return tools, answers, resources, texts, wrong

    tools, answers, resources, texts, wrong = in_session(root, act, "--output", str(output), errors=log)
    assert [tool.name for tool in tools] == [tool.name for tool in TOOLS]
    assert len(tools) <= 12
    for tool in tools:
        assert tool.annotations.read_only_hint is (tool.name != "render_picture")
        assert all("description" in schema for schema in tool.input_schema["properties"].values())
    assert {name for name, _ in CALLS} == {tool.name for tool in tools}
    for (name, _), result in zip(calls, answers, strict=True):
        text = text_of(result)
        assert not result.is_error, (name, text)
        assert tokens_at_most(text) <= MOST_TOKENS
        assert next(iter(json.loads(text))) == "verdict", name
    assert [path.name for path in output.iterdir()] == [PICTURE]
    assert resources[0].uri == "hta-graph://guide"
    assert "Cannot answer" in texts[0]
    assert json.loads(texts[1])["$schema"]
    for result in wrong:
        assert result.is_error
        assert list(json.loads(text_of(result))) == ["cannot_answer", "reason", "what_to_record", "names"]
    assert "Traceback" not in log.read_text()


@contextmanager
def raw_server(root: Path) -> Iterator[subprocess.Popen[str]]:
    """Start the server and greet it; what it is asked need not be sound."""
    hello = {
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}},
    }  # fmt: skip
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    command, environment = server_command(root)
    with subprocess.Popen(command, env=environment, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True) as server:
        write_lines(server, json.dumps(hello), json.dumps(ready))
        yield server


def write_lines(server: subprocess.Popen[str], *lines: str) -> None:
    assert server.stdin
    server.stdin.write("\n".join(lines) + "\n")
    server.stdin.flush()


def answers_until(server: subprocess.Popen[str], *wanted: int) -> dict[int, dict[str, Any]]:
    """Return answers by id, when some of them have all come."""
    assert server.stdout
    found: dict[int, dict[str, Any]] = {}
    while not found.keys() >= set(wanted):
        answered = json.loads(server.stdout.readline())
        found |= {answered["id"]: answered} if answered.get("id") is not None else {}
    return found


def said_at_end(server: subprocess.Popen[str], within_s: float) -> tuple[int, str]:
    """Return the exit status and standard error of a server that ends within some seconds of an idle machine."""
    assert server.stderr
    status = server.wait(within_s * max(os.getloadavg()[0], 1))
    return status, server.stderr.read()


def answers_to_lines(root: Path, *lines: str) -> dict[int, dict[str, Any]]:
    """Return what the server answers to lines by id; they need not be JSON."""
    with raw_server(root) as server:
        write_lines(server, *lines)
        found = answers_until(server, *(json.loads(line)["id"] for line in lines if line.startswith('{"jsonrpc"')))
        assert server.poll() is None
        assert server.stdin
        server.stdin.close()
        status, said = said_at_end(server, 5)
        assert status == 0
        assert "Traceback" not in said
    return found


def call(number: int, name: str, **arguments: Any) -> str:
    params = {"name": name, "arguments": arguments}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})


@pytest.mark.slow
def test_the_session_survives_what_is_no_json_unknown_tools_and_huge_arguments(tmp_path: Path) -> None:
    root = sample_folder(tmp_path)
    by_id = answers_to_lines(
        root,
        "{ this is no JSON",
        '{"jsonrpc": "2.0", "id": 1, "method": "no/such"}',
        call(2, "format_disk"),
        call(3, "open", trace="x" * 5_000_000),
        call(4, "open", trace="sample_trace.json.gz", colour="red"),
        call(5, "critical_path", trace="sample_trace.json.gz", step=10**30),
        "[" * 100_000,
        call(6, "open", trace="sample_trace.json.gz"),
    )
    assert "error" in by_id[1]
    assert "no tool 'format_disk'" in by_id[2]["result"]["content"][0]["text"]
    for number in (2, 3, 4, 5):
        text = by_id[number]["result"]["content"][0]["text"]
        assert by_id[number]["result"]["isError"]
        assert len(text) < 1_000
        assert json.loads(text)["cannot_answer"] is True
    assert not by_id[6]["result"].get("isError", False)


@pytest.mark.slow
def test_a_cancelled_question_ends_and_the_next_one_is_answered(tmp_path: Path) -> None:
    import anyio

    root = sample_folder(tmp_path)

    async def act(client: Any) -> str:
        with anyio.move_on_after(0.01):
            await client.call_tool("overview", {"trace": "four_ranks"})
        return text_of(await client.call_tool("overview", TRACE))

    assert "bound by GPU compute" in in_session(root, act)


@pytest.mark.slow
def test_questions_at_the_same_time_are_all_answered_as_one_after_the_other(tmp_path: Path) -> None:
    import anyio

    root, progress = sample_folder(tmp_path), list[str]()
    calls = [one for one in CALLS if one[0] != "render_picture"]

    async def report(_: float, __: float | None, message: str | None) -> None:
        progress.append(str(message))

    async def act(client: Any) -> tuple[list[str], list[str]]:
        found = [""] * len(calls)

        async def ask(at: int) -> None:
            name, arguments = calls[at]
            found[at] = text_of(await client.call_tool(name, arguments, progress_callback=report))

        async with anyio.create_task_group() as group:
            for at in range(len(calls)):
                group.start_soon(ask, at)
        return found, [text_of(result) for result in await call_all(client, calls)]

    together, alone = in_session(root, act)
    # How much is in memory differs.
    of_server = re.compile(r'"server":"[^"]*"')
    assert [of_server.sub("", text) for text in together] == [of_server.sub("", text) for text in alone]
    assert len(progress) >= len(calls)


ENDLESS = "a" * 24 + "b" + "a" * 10_000 + "b"
"""A name on which ``(a+)+$`` is stopped after 5 s of processor time."""


def endless_folder(folder: Path) -> Path:
    """Return the sample traces and one with that name."""
    root, trace = sample_folder(folder), TraceBuilder()
    trace.op(ENDLESS, 0, 40)
    trace.launch("gemm", (10, 20), (30, 150), 5)
    trace.write(root / "long_name.json")
    return root


def endless(number: int) -> str:
    return call(number, "what_if", trace="long_name.json", changes=["scale (a+)+$=0.5"])


@pytest.mark.slow
def test_neither_a_pipe_nor_a_pattern_of_names_keeps_the_server(tmp_path: Path) -> None:
    root = sample_folder(tmp_path)
    os.mkfifo(root / "pipe.json")
    (root / "/".join("abcdefgh" * 2)).mkdir(parents=True)
    by_id = answers_to_lines(
        root,
        call(1, "open", trace="pipe.json"),
        call(2, "open", trace="**/" * 8 + "*.json"),
        call(3, "open", **TRACE),
    )
    texts = [by_id[number]["result"]["content"][0]["text"] for number in (1, 2, 3)]
    assert "neither a file nor a folder" in texts[0]
    assert "patterns are not served" in texts[1]
    assert "verdict" in texts[2]


@pytest.mark.slow
def test_300_cancelled_calls_leave_room_for_the_next_one(tmp_path: Path) -> None:
    root, cancelled = endless_folder(tmp_path), {"jsonrpc": "2.0", "method": "notifications/cancelled"}
    with raw_server(root) as server:
        write_lines(server, *map(endless, range(1, 301)))
        write_lines(server, *(json.dumps({**cancelled, "params": {"requestId": at}}) for at in range(1, 301)))
        write_lines(server, call(301, "open", **TRACE))
        assert "verdict" in str(answers_until(server, 301)[301])
        assert server.stdin
        server.stdin.close()
        assert said_at_end(server, 2)[0] == 0


@pytest.mark.slow
def test_it_ends_quietly_when_the_client_asks_no_more_or_reads_no_more(tmp_path: Path) -> None:
    root = endless_folder(tmp_path)
    for stream in ("stdin", "stdout"):
        with raw_server(root) as server:
            answers_until(server, 0)
            write_lines(server, endless(1))
            time.sleep(2)
            getattr(server, stream).close()
            if stream == "stdout":
                write_lines(server, '{"jsonrpc": "2.0", "id": 2, "method": "ping"}')
            status, said = said_at_end(server, 2)
            assert status in (0, 1)
            assert "Traceback" not in said


@pytest.mark.slow
@pytest.mark.parametrize("later_s", [0, 0.05, 0.1, 0.2])
def test_it_ends_quietly_when_the_client_is_gone_before_the_first_answer(tmp_path: Path, later_s: float) -> None:
    with raw_server(tmp_path) as server:
        assert server.stdin
        assert server.stdout
        assert server.stderr
        server.stdout.close()
        assert "serving" in server.stderr.readline()
        time.sleep(later_s)
        server.stdin.close()
        status, said = said_at_end(server, 10)
    assert status in (0, 1)
    assert "Traceback" not in said


@pytest.mark.slow
def test_it_ends_also_where_the_client_has_read_nothing(tmp_path: Path) -> None:
    listing = {"jsonrpc": "2.0", "method": "tools/list"}
    with raw_server(tmp_path) as server:
        write_lines(server, *(json.dumps({**listing, "id": at}) for at in range(1, 60)))  # more than a pipe holds
        assert server.stdin
        assert server.stderr
        assert "serving" in server.stderr.readline()
        time.sleep(2)
        server.stdin.close()
        assert said_at_end(server, 2)[0] == 0


@pytest.mark.slow
def test_a_pattern_without_end_is_an_error_and_the_next_question_is_answered_meanwhile(tmp_path: Path) -> None:
    import anyio

    root, said = endless_folder(tmp_path), list[tuple[str, str]]()

    async def act(client: Any) -> float:
        async def ask(name: str, arguments: dict[str, Any]) -> None:
            said.append((name, text_of(await client.call_tool(name, arguments))))

        for opened in ({"trace": "long_name.json"}, TRACE):
            await client.call_tool("open", opened)
        began = time.monotonic()
        async with anyio.create_task_group() as group:
            group.start_soon(ask, "what_if", {"trace": "long_name.json", "changes": ["scale (a+)+$=0.5"]})
            await anyio.sleep(1)
            group.start_soon(ask, "open", TRACE)
        return time.monotonic() - began

    took = in_session(root, act)
    assert [name for name, _ in said] == ["open", "what_if"], (took, said)
    assert "takes too long: stopped after 5 s" in said[1][1]
    # The limit is of processor time: a busy machine takes longer.
    assert took < 8 * max(os.getloadavg()[0] / (os.cpu_count() or 1), 1)
