"""A finding: what a rule says of a path, on which evidence, and what it would save at most."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from analyses.advice.facts import PathFacts

__all__ = ["AdviceRule", "Confidence", "PathFinding"]

Confidence = Literal["high", "medium", "low"]
"""High: the trace records it. Medium: it rests on inference, or on time that a recording itself lengthens or that may
include waiting for others. Low: another reading of the same trace is as likely."""


@dataclass(frozen=True)
class PathFinding:
    """What a rule says: a text for people, and its evidence as JSON has it (times in ns).

    ``saves_at_most_ns`` is ``None`` where nothing is to be saved: of the verdict, and of how to record. ``saves_ns`` is
    what replay predicts; ``None`` where no change of the graph stands for the remedy, or replay was not asked; then
    ``takes_longer`` may name what a rank takes longer for than the others, and of which class.
    """

    text: str
    evidence: Mapping[str, Any]
    confidence: Confidence = "high"
    saves_at_most_ns: int | None = None
    rule: str = ""
    saves_ns: int | None = None
    takes_longer: tuple[str | None, str] | None = None

    def as_record(self) -> dict[str, Any]:
        """Return the finding as JSON lists it."""
        return {
            "rule": self.rule,
            "text": self.text,
            "evidence": dict(self.evidence),
            "saves_at_most_ns": self.saves_at_most_ns,
            "saves_ns": self.saves_ns,
            "confidence": self.confidence,
        }


@dataclass(frozen=True)
class AdviceRule:
    """A rule: its name in answers, and what finds it."""

    name: str
    find: Callable[[PathFacts], PathFinding | None]

    def __call__(self, facts: PathFacts) -> PathFinding | None:
        """Look at a path; ``None`` where there is nothing to say, or nothing sure."""
        found = self.find(facts)
        return found and replace(found, rule=self.name)
