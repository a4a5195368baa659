"""How this tool is asked: its own command line, with ``--json``, or its exit status."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from analyses.cli.main import main
from tests.tool_comparison.question import CANNOT_TELL, NOTHING, Answer, Asked, Posed, Question

LIMIT = "1%"
"""A run that is slower by more than this is a regression."""
NOTABLE = 0.02
"""Advice that saves less than this share of the window accuses nothing."""
ALIKE = 0.95
"""Advice that saves this share of the largest saving counts like it."""


def run(*arguments: object) -> tuple[int, str]:
    """Run a command in this process; return its exit status and what it prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            status = main([str(item) for item in arguments])
        except SystemExit as stop:
            status = int(stop.code or 0)
    return status, printed.getvalue()


def run_json(*arguments: object) -> tuple[int, dict[str, Any], str]:
    """Run a command; return its exit status, its answer, empty where there is none, and what it prints."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "answer.json"
        status, printed = run(*arguments, "--json", out)
        found = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    return status, found, printed


def ask(question: Question, posed: Posed) -> Answer:
    """Put a question to this tool."""
    return ASKING[question.asked](posed)


def _ranks(posed: Posed) -> tuple[object, ...]:
    return (*posed.inputs, "--jobs", 1)


def _any_late_rank(posed: Posed) -> Answer:
    """Take the rank of the job's verdict; all that take turns, where some do. If no rank is named, nothing is wrong.

    A trace of one rank has no verdict.
    """
    status, found, printed = run_json("stragglers", *_ranks(posed))
    verdict = found.get("job_verdict")
    if status or verdict is None:
        return Answer(CANNOT_TELL, words=printed)
    if verdict["firmness"] == "none":
        return Answer(NOTHING, words=json.dumps(verdict))
    return Answer(frozenset(verdict["ranks"]), words=json.dumps(verdict))


def _late_rank(posed: Posed) -> Answer:
    """Take the same; no rank is an abstention where the question is which one."""
    found = _any_late_rank(posed)
    return Answer(CANNOT_TELL, words=found.words) if found.value == NOTHING else found


def _late_rank_cause(posed: Posed) -> Answer:
    status, found, printed = run_json("stragglers", *_ranks(posed))
    verdict = found.get("job_verdict") or {}
    cause = verdict.get("cause")
    if status or verdict.get("firmness") in ("none", None) or cause is None or cause["name"] is None:
        return Answer(CANNOT_TELL, words=printed if status else json.dumps(verdict))
    named = frozenset({cause["name"], *(cause["call_path"] or "").split(" > ")})
    return Answer(named, cause["bound_by"], json.dumps(verdict))


def _bound(posed: Posed) -> Answer:
    """Take the advice that saves most, all of it where it saves alike, and the largest item on the path."""
    status, found, printed = run_json("critical-path", *_ranks(posed), *posed.given.get("window", ()))
    findings = found.get("verdict", [])
    leading = next((one for one in findings if one["rule"] == "bound_by"), None)
    if status or leading is None:
        return Answer(CANNOT_TELL, words=printed)
    bound = leading["evidence"]["bound_by"]
    words = " | ".join(one["text"] for one in findings)
    if bound == "unexplained":
        return Answer(CANNOT_TELL, bound, words)
    largest = next((one["evidence"]["name"] for one in findings if one["rule"] == "largest_item"), None)
    advised = {one["rule"]: _saving(one) for one in findings if one["rule"] != "bound_by" and _saving(one)}
    most = {rule for rule, saved in advised.items() if saved >= ALIKE * max(advised.values())}
    return Answer(frozenset({largest, *most} - {None}), bound, words)


def _saving(finding: Mapping[str, Any]) -> int:
    return int(finding["saves_ns"] or finding["saves_at_most_ns"] or 0)


def _serving_gap(posed: Posed) -> Answer:
    """Take the cause of most idle time between steps, of the rank that is idle longest."""
    status, found, printed = run_json("serving", *_ranks(posed))
    gaps = found.get("tables", {}).get("step_gaps", [])
    if status or not gaps:
        return Answer(CANNOT_TELL, words=printed)
    by_rank: dict[int, dict[str, int]] = {}
    for row in gaps:
        own = by_rank.setdefault(row["rank"], {})
        own[row["cause"]] = own.get(row["cause"], 0) + row["idle_ns"]
    causes = max(by_rank.values(), key=lambda own: sum(own.values()))
    first = max(causes, key=lambda cause: causes[cause])
    return Answer(CANNOT_TELL if first == "unrecorded" else first, "host", found["conclusion"])


def _new_length(posed: Posed) -> Answer:
    status, found, printed = run_json("what-if", *_ranks(posed), *posed.given["change"])
    if status or not found:
        return Answer(CANNOT_TELL, words=printed)
    predicted = found["predicted_ns"]
    if not found.get("reliable", True):
        return Answer(CANNOT_TELL, words=str(found.get("reason")), withheld=predicted)
    return Answer(predicted, words=f"{predicted} ns")


def _slower(posed: Posed) -> Answer:
    """Take the exit status of the gate: 0 is no regression, 1 is one, 3 is that the runs cannot be compared."""
    return _gate(posed)[0]


def _slower_at_all(posed: Posed) -> Answer:
    """Take the same, unless noise is said to hide the limit."""
    answer, printed = _gate(posed)
    return replace(answer, value=CANNOT_TELL) if "Noise hides a change" in printed else answer


def _gate(posed: Posed) -> tuple[Answer, str]:
    status, printed = run("gate", *posed.inputs, "--fail-above", posed.given.get("limit", LIMIT))
    return Answer({0: False, 1: True}.get(status, CANNOT_TELL), words=printed[:300]), printed


def _gpu_idle(posed: Posed) -> Answer:
    _, found, printed = run_json("temporal-breakdown", *_ranks(posed))
    rows = found.get("tables", {}).get("temporal_breakdown", [])
    return Answer(rows[0]["idle_share"] if rows else CANNOT_TELL, words=printed)


def _graph_operator(posed: Posed) -> Answer:
    """See whether all kernels of graphs are among those that belong to no operator; else take all operators named."""
    kernels = sum(_count_rows(path, posed.given["kernels"]) for path in posed.inputs)
    _, found, printed = run_json("attribution", *_ranks(posed))
    rows = found.get("tables", {}).get("gpu_time_by_operator", [])
    unknown = sum(row["activities"] for row in rows if row["name"] == "(unknown)")
    return Answer(CANNOT_TELL if unknown >= kernels else frozenset(row["name"] for row in rows), words=printed)


def _count_rows(path: Path, names: Sequence[str]) -> int:
    return sum(row.get("name") in names for row in json.loads(path.read_bytes())["traceEvents"])


def _peak_memory(posed: Posed) -> Answer:
    _, found, printed = run_json("memory-timeline", *_ranks(posed))
    rows = [row for own in found.get("tables", {}).values() for row in own]
    return Answer(rows[0] if rows else CANNOT_TELL, words=printed)


def _flops(posed: Posed) -> Answer:
    _, found, printed = run_json("roofline", *_ranks(posed))
    reached = [row["achieved_tflops"] for row in found.get("tables", {}).get("roofline", [])]
    return Answer(max((one for one in reached if one is not None), default=CANNOT_TELL), words=printed)


def _trouble(posed: Posed) -> Answer:
    """Look for anything that the verdict or the advice promises to save at least 2% of the window by."""
    status, found, printed = run_json("critical-path", *_ranks(posed))
    if status:
        return Answer(CANNOT_TELL, words=printed)
    window = found["window"].get("gpu_ns") or found["window"]["end_ns"] - found["window"]["start_ns"]
    for one in found["verdict"]:
        if one["rule"] != "bound_by" and _saving(one) >= NOTABLE * window:
            return Answer(one["rule"], words=one["text"])
    return Answer(NOTHING, words=found["verdict"][0]["text"])


ASKING: Mapping[Asked, Callable[[Posed], Answer]] = {
    "late_rank": _late_rank,
    "any_late_rank": _any_late_rank,
    "late_rank_cause": _late_rank_cause,
    "bound": _bound,
    "serving_gap": _serving_gap,
    "new_length": _new_length,
    "slower": _slower,
    "slower_at_all": _slower_at_all,
    "gpu_idle": _gpu_idle,
    "graph_operator": _graph_operator,
    "peak_memory": _peak_memory,
    "flops": _flops,
    "trouble": _trouble,
}
