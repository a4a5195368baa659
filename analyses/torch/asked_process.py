"""The question that a handler asks of a recording, in a process of its own beside the training."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hta_graph.errors import HtaGraphError
from hta_graph.multi_rank.workers.own_process import can_start_processes

__all__ = ["Verdict", "run_report"]

PROGRAM = (
    "import json, os, sys; sys.path[:] = json.loads(sys.argv.pop(1)); os.nice(10); "
    "from analyses.cli.main import run; run()"
)
"""The command line with this process' search path, behind the training where both want a processor."""

TIMEOUT_S = 600
"""How long an analysis may take before it is given up."""
SENTENCES = 3
"""So many sentences of the verdict are told: what bounds it, its largest item, what is unknown."""


@dataclass(frozen=True)
class Verdict:
    """What a recording shows, a sentence each, and what would save most, if anything would."""

    sentences: list[str]
    advice: str | None


def run_report(trace: Path, page: Path | None) -> Verdict:
    """Ask about a recording and write its page, if one is named.

    Raises:
        HtaGraphError: there is no answer; the line says why.
    """
    if not can_start_processes():
        raise HtaGraphError(f"{trace}: no process can be started here", f"run hta-graph critical-path {trace}")
    wanted = ["--json", "-", *(["-o", str(page)] if page else [])]
    try:
        done = subprocess.run(  # noqa: S603 - this interpreter and our own words
            [sys.executable, "-c", PROGRAM, json.dumps(sys.path), "report", str(trace), *wanted],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise HtaGraphError(f"{trace}: took longer than {TIMEOUT_S} s; analyse it elsewhere") from None
    if done.returncode:
        told = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise HtaGraphError(told[-1].removeprefix("hta-graph: ") if told else f"{trace}: ended with {done.returncode}")
    return _verdict_of(json.loads(done.stdout)["verdict"])


def _verdict_of(findings: list[dict[str, Any]]) -> Verdict:
    advised = next((at for at, found in enumerate(findings) if found["saves_at_most_ns"]), None)
    sentences = [found["text"] for found in findings[:advised][:SENTENCES]]
    return Verdict(sentences, None if advised is None else findings[advised]["text"])
