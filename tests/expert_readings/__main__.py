"""What sixty recordings show, read by somebody who had not seen any output, beside what the judgement leads with.

``python -m tests.expert_readings`` prints a line per recording and the counts: *right* where the class, the rank or the
first finding is one that the reading names, *silent* where no judgement is made, *differs* otherwise, *wrong* where the
reading calls that wrong. ``readings.json`` has the readings with their numbers; ``not_blind`` marks those whose folder
states a truth. Steps: the iteration of the median step. The recordings are in ``../shared``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import hta_graph as hg
from analyses.advice.facts import PathFacts
from analyses.judgement.findings import WindowFinding, judgement
from analyses.judgement.verdict import replayed_verdict
from hta_graph.base.errors import HtaGraphError
from tests.support.shared_traces import SHARED

READINGS = Path(__file__).with_name("readings.json")
WORDS: Mapping[str, str] = {
    **dict.fromkeys(("host_work", "cpu_bound", "cpu_gap", "gpu_kernel_launch_overhead"), "host"),
    **dict.fromkeys(("gpu_communication_bound", "gloo_communication"), "communication"),
    "sync_overhead": "waits (sync)",
    "gpu_compute_bound": "gpu compute",
    "gpu_memory_bound": "copies",
    "data_loading": "data loading",
    "start_up_recorded": "start-up",
    "unexplained": "unexplained",
    "gpu_kernel_kernel_overhead": "kernel gaps",
}
"""What readings call the causes of a judgement."""
OF_RULES: Mapping[str, str] = {
    "data_loading_exposed": "data loading",
    "exposed_communication": "communication",
    **dict.fromkeys(("launch_bound", "host_pauses", "python_bound", "compilation", "code_loading"), "host"),
    **dict.fromkeys(("values_read", "waits_of_all_kinds", "explicit_synchronisation"), "waits (sync)"),
    "far_from_limit": "gpu compute",
}
"""The same of the rules behind first findings."""


def said_of(path: Path) -> tuple[str, list[str]] | None:
    """Return what a judgement says of a recording: its headline, and what that is about; None where it says nothing."""
    try:
        graph = hg.read_job(path) if path.is_dir() else hg.build_graph(hg.read_trace(path))
        facts = PathFacts.of(hg.critical_path(graph))
        found, findings = replayed_verdict(facts), judgement(facts)
    except HtaGraphError:
        return None
    first, bound = found[0], next(one for one in found if one.rule == "bound_by")
    leads = next((one for one in findings if one.saves_ns), None)
    if first.rule == "held_up_by_rank":
        rank = first.evidence["rank"]
        return first.text, [_about(leads) if rank is None else f"rank {rank}"]
    about = WORDS.get(bound.evidence.get("cause", bound.evidence["bound_by"]), "")
    unknown = ["unexplained"] if "unknown" in bound.text or "does not start" in bound.text else []
    polled = ["gpu compute"] if "bound by GPU work" in bound.text else []
    return bound.text, [one for one in (about, _about(leads), *unknown, *polled) if one]


def _about(leads: WindowFinding | None) -> str:
    if leads is None:
        return ""
    name = leads.id.partition(":")[2]
    return f"rank {name}" if leads.kind == "rank" else OF_RULES.get(name, WORDS.get(name, ""))


def outcome(reading: Mapping[str, Any], about: Sequence[str]) -> str:
    """Compare what a judgement is about with a reading."""
    right = {reading["bound_by"], *reading["also_right"]}
    if right & {*about} or ("balanced" in right and not any(one.startswith("rank") for one in about)):
        return "right"
    wrong = [text.lower() for text in reading["wrong_would_be"]]
    return "wrong" if any(one in text for one in about for text in wrong) else "differs"


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table, or say that the recordings are absent."""
    parser = argparse.ArgumentParser(description="Sixty readings beside the judgement.")
    parser.add_argument("--blind", action="store_true", help="only recordings whose folder states no truth")
    options = parser.parse_args(argv)
    if not SHARED.is_dir():
        sys.stdout.write("../shared is absent\n")
        return 1
    counts = Counter[str]()
    for reading in json.loads(READINGS.read_text(encoding="utf-8")):
        if options.blind and reading["not_blind"]:
            continue
        said = said_of(SHARED / reading["input"])
        became = "silent" if said is None else outcome(reading, said[1])
        counts[became] += 1
        text = said[0] if said else "not read"
        sys.stdout.write(f"{became:8} {reading['input']}: {reading['bound_by']} | {text[:160]}\n")
    sys.stdout.write(", ".join(f"{became} {count}" for became, count in counts.most_common()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
