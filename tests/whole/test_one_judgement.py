"""One window has one judgement: every command that judges says the same of it, in its document and in its sentences."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import run_command
from tests.support.deep_tests import deep
from tests.support.shared_traces import SHARED, compressed_bytes, shared_traces

ALONE = ("critical-path", "what-if", "idle-time", "roofline", "serving")
OF_JOBS = ("stragglers",)
AMOUNT = re.compile(r"(?:at most )?[\d.,]+ (?:ns|µs|ms|s) \(<?>?\d+%")
SAYS_MORE = ("savings unknown", "savings are unknown", "one-time start-up", "the prediction is unknown")
"""Where a window is not to be predicted, or should be recorded later, that comes first, and the finding after it."""

Asks = Callable[..., tuple[int, str, str]]


def inputs() -> list[Path]:
    """Return the shared recordings: traces one by one, jobs as folders; empty where the folder is absent."""
    if not SHARED.is_dir():
        return []
    files = [
        *shared_traces(),
        *(path for name in ("traces_more", "one_rank", "serving", "clock_and_graph") for path in _traces_in(name)),
    ]
    jobs = [path for name in ("gloo", "gloo_more", "gloo_shapes") for path in sorted((SHARED / name).glob("*/"))]
    return [path for path in (*files, *jobs) if compressed_bytes(path) < 40_000_000]


def _traces_in(name: str) -> list[Path]:
    found = sorted((SHARED / name).rglob("*.json*"))
    return [path for path in found if "truth" not in path.name and "host_et" not in path.name]


def contradictions(ask: Asks, path: Path, folder: Path) -> Iterator[str]:
    """Yield what the commands say differently about the default window of an input."""
    page, verdicts = folder / "page.html", folder / "report.json"
    commands = {name: (name, path, "--json", "-") for name in (*ALONE, *OF_JOBS * path.is_dir())}
    judged: dict[str, list[dict[str, Any]]] = {}
    for name, words in commands.items():
        status, out, _ = ask(*words)
        if status == 0 and "judgement" in (document := json.loads(out)):
            judged[name] = document["judgement"]
    if ask("report", path, "--output", page, "--json", verdicts)[0] == 0:
        judged["report"] = json.loads(verdicts.read_text(encoding="utf-8"))["judgement"]
    every = judged.pop("critical-path", None)
    if every is None:
        yield from (f"{name} judges a window that critical-path does not" for name, found in judged.items() if found)
        return
    yield from (
        f"{name} lists {found[:2]}, critical-path {every[:2]}" for name, found in judged.items() if found != every
    )
    yield from _in_sentences(ask, path, next((one for one in every if one["saves_ns"]), None))


def _in_sentences(ask: Asks, path: Path, first: dict[str, Any] | None) -> Iterator[str]:
    said = {name: ask(name, path)[1] for name in ("critical-path", "what-if")}
    lines = said["what-if"].splitlines()
    if first is None or any(text in said["critical-path"].split("\n\n")[0] for text in SAYS_MORE):
        return
    amount = AMOUNT.search(first["text"])
    if not lines or first["text"].partition(": ")[2] not in lines[0]:
        yield f"what-if is led by {lines[:1]}, the judgement by {first['text']}"
    if amount and amount[0] not in said["critical-path"].partition("what to try")[0]:
        yield f"critical-path does not say {amount[0]} of {first['id']} before its advice"


QUICK = ("ddp_v100", "tp_fault", "ring_base")


@pytest.mark.shared
@pytest.mark.parametrize(
    "path", [path if path.name in QUICK or path.parent.name in QUICK else deep(path) for path in inputs()],
    ids=lambda path: f"{path.parent.name}-{path.name}" if isinstance(path, Path) else None,
)  # fmt: skip
def test_every_command_says_the_same_of_a_window(
    capsys: pytest.CaptureFixture[str], path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTA_GRAPH_CACHE", str(tmp_path / "cache"))
    assert [*contradictions(lambda *words: run_command(capsys, *words), path, tmp_path)] == []


def test_a_contradiction_is_noticed(tmp_path: Path) -> None:
    finding = {"id": "cause:x", "saves_ns": 5_000_000, "text": "cause: x, 5.00 ms (5%) without it, high confidence"}

    def ask(name: str, *words: object) -> tuple[int, str, str]:
        other = {**finding, "saves_ns": 4_000_000} if name == "serving" else finding
        if "--json" not in words:
            return 0, "step 1: largest cause: y, 4.00 ms (4%)\n", ""
        if name == "report":
            (tmp_path / "report.json").write_text(json.dumps({"judgement": []}))
        return 0, json.dumps({"judgement": [other]}), ""

    found = [*contradictions(ask, tmp_path / "trace.json", tmp_path)]
    assert [text.split(" ")[0] for text in found] == ["serving", "report", "what-if", "critical-path"]
