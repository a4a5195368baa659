"""Questions, true answers, and grades.

A question has an identity, a kind, a text, a recipe as text, and a function that writes its traces into a folder and
returns them with the truth. The truth is never the product's: it is what was injected, or what a second run shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

Kind = Literal["rank", "cause", "gain", "regression", "healthy", "unknown"]
KINDS: tuple[Kind, ...] = ("rank", "cause", "gain", "regression", "healthy", "unknown")
Asked = Literal[
    "late_rank", "any_late_rank", "late_rank_cause", "bound", "serving_gap", "new_length", "slower", "slower_at_all",
    "trouble", "graph_operator", "gpu_idle", "peak_memory", "flops",
]  # fmt: skip
"""What a question is about; a tool has one way to answer each of these, whichever kind it is part of."""
Grade = Literal["right", "wrong", "abstained", "not asked"]

NOTHING: Final = "nothing"
"""The answer that nothing is wrong."""
CANNOT_TELL: Final = None
"""The answer that the traces do not show it."""
NOT_ASKED: Final = "not asked"
"""What stands for an answer where a tool has no way to be asked."""


@dataclass(frozen=True)
class Truth:
    """What is right: one of some answers, or a number up to a tolerance, or that nothing is wrong or can be known.

    ``classes`` are what a tool may say that names no cause but only a class of causes.
    """

    answers: frozenset[Any] = frozenset()
    classes: frozenset[str] = frozenset()
    number: float | None = None
    tolerance: float = 0.0
    known: bool = True
    all_of_them: bool = False
    """Whether every answer of several has to be right, not one."""

    def as_record(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        if not self.known:
            return {"cannot_be_known": True}
        if self.number is not None:
            return {"number": self.number, "tolerance": self.tolerance}
        return {"answers": sorted(map(str, self.answers)), "classes": sorted(self.classes)}


UNKNOWN: Final = Truth(known=False)
HEALTHY: Final = Truth(frozenset({NOTHING}))


@dataclass(frozen=True)
class Posed:
    """The traces of a question, its truth, and what else a tool needs to be asked it."""

    inputs: tuple[Path, ...]
    truth: Truth
    given: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Question:
    """A question and how to make its traces."""

    id: str
    kind: Kind
    asked: Asked
    text: str
    recipe: str
    pose: Callable[[Path], Posed] = field(repr=False)
    source: Literal["simulated", "recorded", "shared"] = "simulated"


@dataclass(frozen=True)
class Answer:
    """What a tool answers: a rank, a length, yes or no, the cause that it names first; and its class, and its words.

    ``withheld`` is what it computes, but says that it cannot be trusted.
    """

    value: Any
    bound: str | None = None
    words: str = ""
    withheld: Any = None


def grade(truth: Truth, answer: Answer) -> Grade:
    """Hold an answer against the truth; to abstain is right where nothing can be known.

    >>> grade(Truth(frozenset({2})), Answer(2)), grade(UNKNOWN, Answer(2)), grade(UNKNOWN, Answer(CANNOT_TELL))
    ('right', 'wrong', 'right')
    >>> grade(Truth(number=10.0, tolerance=0.5), Answer(9.6)), grade(HEALTHY, Answer(CANNOT_TELL))
    ('right', 'abstained')
    """
    if answer.value == NOT_ASKED:
        return "not asked"
    if answer.value is CANNOT_TELL:
        return "abstained" if truth.known else "right"
    if not truth.known:
        return "wrong"
    if truth.number is not None:
        return "right" if abs(float(answer.value) - truth.number) <= truth.tolerance else "wrong"
    values = answer.value if isinstance(answer.value, frozenset) else frozenset({answer.value})
    fits = values <= truth.answers if truth.all_of_them else bool(values & truth.answers)
    return "right" if fits else "wrong"
