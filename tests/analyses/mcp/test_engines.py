"""Engines are killed where a question is cancelled, takes too long or too much, and others answer meanwhile."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analyses.mcp.served_files import ServedFiles
from tests.support.mcp_session import HAS_CLIENT, WITHOUT_CLIENT, sample_folder

pytestmark = pytest.mark.skipif(not HAS_CLIENT, reason=WITHOUT_CLIENT)
PROGRAM = """
import json, os, sys, time
open(sys.argv[-1] + f"/{os.getpid()}", "w").close()
print(json.dumps({"stage": "ready"}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps({"stage": "begins"}), flush=True)
    if asked["arguments"]["trace"] == "stuck":
        time.sleep(600)
    if asked["arguments"]["trace"] == "kills":
        os.kill(os.getpid(), 9)
    said = {"pid": os.getpid(), "keep": asked["keep"], "written": asked["written"]}
    print(json.dumps({"text": json.dumps(said), "is_error": False, "held": 7}), flush=True)
"""
"""What stands in for an engine: it is stuck, is killed, or tells what it was asked, and holds 7 bytes."""


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file for each engine that was started."""
    monkeypatch.setattr("analyses.mcp.engines.PROGRAM", PROGRAM)
    folder = tmp_path / "started"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])  # an engine gets it as its last word
    return folder


def with_engines(act: Callable[[Callable[..., Awaitable[Any]]], Awaitable[Any]], seconds: int = 60) -> Any:
    """Do something with a function that asks engines, and return its result."""
    import anyio

    from analyses.mcp.engines import Engines, Limits
    from analyses.mcp.tools import TOOLS

    tools = {tool.name: tool for tool in TOOLS}
    engines = Engines(ServedFiles(Path("/"), Path("/")), Limits(seconds, 0, 100))

    async def report(*_: Any) -> None:
        pass

    async def ask(trace: str, tool: str = "open", **more: Any) -> dict[str, Any]:
        text, _ = await engines.ask(tools[tool], {"trace": trace, **more}, report)
        found: dict[str, Any] = json.loads(text)
        return found

    async def run() -> Any:
        try:
            return await act(ask)
        finally:
            await engines.close()

    return anyio.run(run)


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.mark.slow
def test_what_takes_too_long_is_refused_and_its_engine_killed(started: Path) -> None:
    async def act(ask: Any) -> Any:
        return await ask("stuck"), await ask("t")

    refused, answered = with_engines(act, seconds=1)
    assert refused["cannot_answer"] is True
    assert refused["reason"] == "The question takes more than 1 s."
    assert "--seconds" in refused["what_to_record"]
    assert [int(one.name) for one in started.iterdir() if int(one.name) != answered["pid"]]
    assert not any(is_alive(int(one.name)) for one in started.iterdir())


def test_a_question_is_answered_while_another_one_is_stuck_and_that_one_can_be_cancelled(started: Path) -> None:
    import anyio

    async def act(ask: Any) -> Any:
        async with anyio.create_task_group() as group:
            group.start_soon(ask, "stuck")
            while not list(started.iterdir()):
                await anyio.sleep(0.01)
            answered = await ask("t")
            group.cancel_scope.cancel()
        return answered, [is_alive(int(one.name)) for one in started.iterdir()]

    answered, alive = with_engines(act)
    assert answered["keep"] == 100
    assert sorted(alive) == [False, True]


@pytest.mark.parametrize("pause_s", [0, 0.5])
def test_cancelled_questions_that_no_engine_has_begun_cost_none(
    started: Path, monkeypatch: pytest.MonkeyPatch, pause_s: float
) -> None:
    """Also where the engine says that it is ready before the question is there, and cancelled."""
    import anyio

    from analyses.mcp.engines import MOST_ENGINES, Engine

    plain = Engine.start

    async def start(root: str) -> Engine:
        with anyio.CancelScope(shield=True):
            engine = await plain(root)
            await anyio.sleep(pause_s)
            return engine

    monkeypatch.setattr(Engine, "start", start)

    async def act(ask: Any) -> Any:
        async with anyio.create_task_group() as group:
            for _ in range(300):
                group.start_soon(ask, "stuck")
            await anyio.sleep(0)
            group.cancel_scope.cancel()
        return await ask("t")

    assert with_engines(act)["pid"]
    assert len(list(started.iterdir())) <= MOST_ENGINES


def test_an_engine_that_is_killed_is_one_refusal(started: Path) -> None:
    async def act(ask: Any) -> Any:
        return await ask("kills"), await ask("t")

    refused, answered = with_engines(act)
    assert "killed" in refused["reason"]
    assert answered["pid"]


def test_a_question_goes_to_the_engine_that_knows_its_trace_and_all_share_what_is_kept(started: Path) -> None:
    import anyio

    async def act(ask: Any) -> Any:
        async with anyio.create_task_group() as group:
            group.start_soon(ask, "a")
            group.start_soon(ask, "b")
        return [await ask(trace) for trace in ("a", "b", "a", "b")]

    first, second, again, other = with_engines(act)
    assert first["pid"] == again["pid"] != second["pid"] == other["pid"]
    assert {one["keep"] for one in (first, second, again, other)} == {100 - 7}


def test_every_engine_knows_which_pictures_the_server_wrote(started: Path) -> None:
    async def act(ask: Any) -> Any:
        await ask("t", "render_picture", name="p.svg")
        return await ask("t")

    assert with_engines(act)["written"] == ["p.svg"]


def answered_in_process(root: Path, memory: int) -> list[dict[str, Any]]:
    from analyses.mcp.engine import Answerer

    out = io.BytesIO()
    Answerer(out).answer("open", {}, 0, memory, root=str(root), output=None, written=[])
    return [json.loads(line) for line in out.getvalue().splitlines()]


@contextmanager
def asked_for(answer: Callable[[Any], Any]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("analyses.mcp.engine.ANSWERS", {"open": answer})
        yield


def test_a_question_that_needs_more_memory_than_it_may_take_is_refused(tmp_path: Path) -> None:
    with asked_for(lambda _: np.ones(1 << 26)):
        *_, refused = answered_in_process(tmp_path, 128 << 20)
    assert refused["is_error"]
    assert "--memory" in json.loads(refused["text"])["what_to_record"]


def test_a_defect_of_one_answer_is_a_refusal_without_its_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: Any) -> None:
        raise ValueError("of the secret")

    with asked_for(fail):
        *_, refused = answered_in_process(tmp_path, 0)
    assert refused["is_error"]
    assert "secret" not in refused["text"]
    assert "ValueError: of the secret" in capsys.readouterr().err


@pytest.mark.slow
def test_an_engine_opens_nothing_outside_of_the_folder_that_it_serves(tmp_path: Path) -> None:
    import anyio

    from analyses.mcp.engines import Engine

    root = sample_folder(tmp_path)
    (tmp_path / "outside").mkdir()
    (root / "sample_trace.json.gz").rename(tmp_path / "outside" / "t.json.gz")
    question = {
        "tool": "open", "arguments": {"trace": "outside/t.json.gz"}, "keep": 0, "memory": 0,
        "root": str(tmp_path), "output": None, "written": [],
    }  # fmt: skip

    async def report(*_: Any) -> None:
        pass

    async def act() -> tuple[str, bool]:
        engine = await Engine.start(str(root))
        try:
            return await engine.ask(question, report)
        finally:
            await engine.kill()

    text, is_error = anyio.run(act)
    assert is_error
    assert "leads out of the served folder" in text


@pytest.mark.slow
def test_an_engine_ends_with_the_server_also_while_it_answers(tmp_path: Path) -> None:
    import anyio

    from analyses.mcp.engines import Engine

    async def act() -> int:
        engine = await Engine.start(str(tmp_path))
        await engine._line()
        assert engine.process.stdin
        await engine.process.stdin.aclose()
        with anyio.fail_after(30):
            return int(await engine.process.wait())

    assert anyio.run(act) == 0
