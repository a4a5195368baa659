"""How nsys-ai is asked: its commands, about the same programs in the export that Nsight Systems would have written.

A trace of Kineto is rewritten as such an export, without what an export cannot hold. nsys-ai reads one rank; it has no
command that compares ranks, replays a change, or says what memory or FLOP/s are.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import hta_graph as hg
from hta_graph.base.errors import HtaGraphError
from tests.support.kineto_as_nsys import can_be_exported, write_as_nsys
from tests.tool_comparison.hta_answers import class_answer
from tests.tool_comparison.question import CANNOT_TELL, NOT_ASKED, NOTHING, Answer, Asked, Posed, Question

CLASSES: Mapping[str, frozenset[str]] = {
    "gpu-compute-bound": frozenset({"gpu_compute_bound"}),
    "comm-bound": frozenset({"gpu_communication_bound"}),
    "cpu-bound": frozenset({"cpu_bound", "cpu_gap", "data_loading", "host"}),
}
"""What each of its classes may mean."""
SHARES = {"gpu-compute-bound": "gpu_compute", "comm-bound": "comm", "cpu-bound": "cpu"}
"""What its classes are shares of; where it says that they are mixed, the largest one counts."""
NSYS_AI_ASKED: frozenset[Asked] = frozenset({"bound", "serving_gap", "slower", "slower_at_all", "gpu_idle", "trouble"})
SERIOUS = ("critical", "high", "warning")
TIMEOUT_S = 120


class NsysAi:
    """Runs a command for each question; ``python`` is the interpreter of the environment that has it."""

    def __init__(self, python: str) -> None:
        self._program = str(Path(python).with_name("nsys-ai"))

    def ask(self, question: Question, posed: Posed) -> Answer:
        """Put a question to it."""
        asking: Mapping[Asked, Callable[[Posed, list[Path]], Answer]] = {
            "bound": self._bound,
            "serving_gap": self._bound,
            "slower": self._slower,
            "slower_at_all": self._slower,
            "gpu_idle": self._gpu_idle,
            "trouble": self._trouble,
        }
        try:
            traces = [hg.read_trace(path) for path in posed.inputs]
        except HtaGraphError as error:
            return Answer(CANNOT_TELL, words=f"no export of this trace: {error}")
        if not all(can_be_exported(trace) for trace in traces) and question.asked not in ("gpu_idle", "slower_at_all"):
            return Answer(NOT_ASKED, words="not a trace of CUDA")
        folder = posed.inputs[0].parent
        exports = [write_as_nsys(trace, folder / f"{at}.sqlite") for at, trace in enumerate(traces)]
        return asking[question.asked](posed, exports)

    def _run(self, *arguments: object) -> tuple[int, Any]:
        done = subprocess.run(
            [self._program, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=TIMEOUT_S,
            env={**os.environ, "NO_COLOR": "1"},
        )  # fmt: skip
        try:
            return done.returncode, json.loads(done.stdout)
        except json.JSONDecodeError:
            return done.returncode, None

    def _bound(self, posed: Posed, exports: list[Path]) -> Answer:
        """Take the class of its critical path; low confidence counts all the same."""
        _, found = self._run("skill", "run", "critical_path", exports[0], "--format", "json")
        row = found[0] if isinstance(found, list) and found else {}
        said = row.get("bound_class")
        if said == "mixed":
            parts = {name: row["breakdown"][f"{share}_share"] for name, share in SHARES.items()}
            said = max(parts, key=lambda name: parts[name])
        if said is None or said not in CLASSES:
            return Answer(CANNOT_TELL if said in (None, "unknown") else said, words=json.dumps(found)[:300])
        fits = CLASSES[said] & posed.truth.classes
        return class_answer(posed, {"bound": min(fits) if fits else said}, json.dumps(found)[:300])

    def _slower(self, posed: Posed, exports: list[Path]) -> Answer:
        """Take the verdict of its gate at the same limit; an inconclusive one is an abstention."""
        limit = posed.given.get("limit", "1%").rstrip("%")
        status, found = self._run("diff", *exports, "--no-ai", "--gate", limit, "--format", "json")
        verdict = _verdict(found)
        if "inconclusive" in verdict or not isinstance(found, dict):
            return Answer(CANNOT_TELL, words=verdict)
        return Answer(status == 1, words=verdict)

    def _gpu_idle(self, posed: Posed, exports: list[Path]) -> Answer:
        del posed
        _, found = self._run("skill", "run", "overlap_breakdown", exports[0], "--format", "json")
        row = found[0] if isinstance(found, list) and found else {}
        idle = row.get("idle_ms")
        return Answer(CANNOT_TELL if idle is None else idle, words=json.dumps(found)[:300])

    def _trouble(self, posed: Posed, exports: list[Path]) -> Answer:
        """Take its first serious finding."""
        del posed
        session = exports[0].with_suffix(".session")
        _, found = self._run("diagnose", exports[0], "--session", session, "--format", "json")
        if not isinstance(found, dict):
            return Answer(CANNOT_TELL)
        serious = [one["label"] for one in found.get("findings", []) if one.get("severity") in SERIOUS]
        return Answer(serious[0] if serious else NOTHING, words="; ".join(serious)[:300])


def _verdict(found: Any) -> str:
    """Return the verdict of a comparison, wherever it stands in it."""
    if isinstance(found, dict):
        for key, value in found.items():
            if key in ("verdict", "status") and isinstance(value, str):
                return value
            inner = _verdict(value) if isinstance(value, dict) else ""
            if inner:
                return inner
    return ""
