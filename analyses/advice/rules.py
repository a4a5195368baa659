"""All rules, in the order in which they are asked: the verdict first, then advice.

What findings claim to save is held against what the rows of the priced window allow at most:
saves_ns <= saves_at_most_ns <= bound_ns, of the window that savings are of: a step's iteration. What cannot save a
notable share of it is not advised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from analyses.advice.facts import PathFacts
from analyses.advice.gpu_rules import COMMUNICATION, KERNELS, TINY_KERNELS
from analyses.advice.host_rules import IDLE_BETWEEN_STEPS, LAUNCHING, PYTHON_BOUND, UPLOADS, WAITS
from analyses.advice.job_rules import CLOCKS_UNSURE, HELD_UP_BY_RANK, RANKS_MATCHED, SLOW_RANKS
from analyses.advice.recording_rules import RECORDING
from analyses.advice.rule import PathFinding, Rule
from analyses.advice.runtime_rules import PROCESS
from analyses.advice.verdict_rules import (
    BOUND_BY,
    CLOCK_FAULT,
    GPU_BUSY_MEANWHILE,
    HOST_MAY_POLL,
    LARGEST_ITEM,
    UNEXPLAINED,
)
from hta_graph.paths.critical_path import has_partial_rows
from hta_graph.trace.event_args import forget_inputs

VERDICT_RULES = (
    HELD_UP_BY_RANK, BOUND_BY, LARGEST_ITEM, UNEXPLAINED, RANKS_MATCHED, CLOCKS_UNSURE, CLOCK_FAULT, HOST_MAY_POLL,
    GPU_BUSY_MEANWHILE,
)  # fmt: skip
"""What every answer opens with; docs/reading/advice.md says when each speaks."""

ADVICE_RULES = (
    *SLOW_RANKS, *LAUNCHING, *PROCESS, *WAITS, *COMMUNICATION, *UPLOADS, TINY_KERNELS, IDLE_BETWEEN_STEPS, *KERNELS,
    PYTHON_BOUND, *RECORDING,
)  # fmt: skip
"""What an expert would advise; docs/reading/advice.md has thresholds, reasons and what each saves at most."""

RULES: Mapping[str, Rule] = {rule.name: rule for rule in (*VERDICT_RULES, *ADVICE_RULES)}


def verdict_of(facts: PathFacts) -> list[PathFinding]:
    """Say what a path shows: its class, its largest item, what is not known, what is doubtful."""
    return _findings_of(VERDICT_RULES, facts)


def advice_of(facts: PathFacts) -> list[PathFinding]:
    """Say what could be done, what saves most first; advice about the recording comes last.

    What rows show to save no notable share of an iteration is left out.
    """
    found = _findings_of(ADVICE_RULES, facts)
    forget_inputs()  # replay, which comes next, takes more memory
    return sorted(found, key=lambda finding: -(finding.saves_at_most_ns or 0))


def _findings_of(rules: tuple[Rule, ...], facts: PathFacts) -> list[PathFinding]:
    return within_bounds(facts, (finding for rule in rules if (finding := rule(facts))))


def within_bounds(facts: PathFacts, findings: Iterable[PathFinding], *, of_job: bool = False) -> list[PathFinding]:
    """Give each finding its bound, and leave out those that cannot save a notable share of what savings are of.

    Bounds take all rows, which a job of rank summaries does not hold: so that it answers as a job of whole graphs, only
    what is replayed has bounds ``of_job``.
    """
    if has_partial_rows(facts.graph) or facts.graph.is_job != of_job:
        return list(findings)
    return [found for finding in findings if (found := _within_bound(facts, finding)) is not None]


def _within_bound(facts: PathFacts, finding: PathFinding) -> PathFinding | None:
    bound = RULES[finding.rule].bound
    if bound is None:
        return finding
    bound_ns = bound(facts, finding.evidence)
    if finding.saves_at_most_ns is None:
        return replace(finding, bound_ns=bound_ns)
    if not facts.is_worth(bound_ns):
        return None
    return replace(finding, bound_ns=bound_ns, saves_at_most_ns=min(finding.saves_at_most_ns, bound_ns))
