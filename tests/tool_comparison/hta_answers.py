"""How HTA is asked: its functions, in a process of the interpreter that has it."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

from tests.tool_comparison import hta_process
from tests.tool_comparison.question import CANNOT_TELL, Answer, Asked, Posed, Question

HTA_ASKED: frozenset[Asked] = frozenset(
    {"late_rank", "late_rank_cause", "bound", "serving_gap", "new_length", "slower", "slower_at_all", "gpu_idle"}
)
HOST_CLASSES = frozenset({"cpu_bound", "cpu_gap", "data_loading"})


class HtaProcess:
    """A process that answers questions one after the other."""

    def __init__(self, python: str) -> None:
        self._process = subprocess.Popen(
            [python, hta_process.__file__], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        )  # fmt: skip

    def ask(self, question: Question, posed: Posed) -> Answer:
        """Put a question to it; a class of causes counts as the cause, since HTA names no more."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        asked = {"asked": question.asked, "inputs": [str(path) for path in posed.inputs], "given": posed.given}
        process.stdin.write(json.dumps(asked, default=str) + "\n")
        process.stdin.flush()
        found: dict[str, Any] = json.loads(process.stdout.readline())
        return class_answer(posed, found["value"], found.get("error", ""))


def class_answer(posed: Posed, value: Any, words: str = "") -> Answer:
    """Take a class for the cause that it is right about; one class of the host stands for all of these."""
    if not isinstance(value, dict):
        return Answer(value, words=words)
    bound = value["bound"]
    if bound == "cpu_bound" and posed.truth.classes & HOST_CLASSES:
        bound = min(posed.truth.classes & HOST_CLASSES)
    if bound is CANNOT_TELL or bound not in posed.truth.classes:
        return Answer(bound, bound, words)
    return Answer(posed.truth.answers, bound, words)
