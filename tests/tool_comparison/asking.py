"""All questions, put to a tool, and the scores by kind."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from tests.tool_comparison import gains, jobs, pairs, programs, recorded, unknown
from tests.tool_comparison.question import KINDS, NOT_ASKED, UNKNOWN, Answer, Asked, Grade, Kind, Posed, Question, grade


@dataclass(frozen=True)
class Tool:
    """How a tool is asked, and what it can be asked; the traces of other questions are not made."""

    ask: Callable[[Question, Posed], Answer]
    asked: frozenset[Asked] = frozenset(get_args(Asked))


COLUMNS: tuple[Grade, ...] = ("right", "wrong", "abstained", "not asked")


def all_questions(seed: int, *, shared: bool = True) -> list[Question]:
    """Return all questions by their first seed, sorted by kind."""
    found = [one for module in (jobs, programs, gains, pairs, unknown, recorded) for one in module.questions(seed)]
    kept = [one for one in found if shared or one.source != "shared"]
    return sorted(kept, key=lambda one: KINDS.index(one.kind))


@dataclass(frozen=True)
class Graded:
    """A question that was asked, its truth, the answer, and the grade.

    ``withheld`` is the grade of what a tool computes, but says that it cannot be trusted.
    """

    question: Question
    posed: Posed
    answer: Answer
    grade: Grade
    withheld: Grade | None
    seconds: float

    def as_record(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        question, value = self.question, self.answer.value
        return {
            "id": question.id,
            "kind": question.kind,
            "question": question.text,
            "recipe": question.recipe,
            "drawn": self.posed.given.get("recipe"),
            "change": self.posed.given.get("change"),
            "limit": self.posed.given.get("limit"),
            "inputs": [path.name for path in self.posed.inputs],
            "source": question.source,
            "truth": self.posed.truth.as_record(),
            "answer": sorted(map(str, value)) if isinstance(value, frozenset) else value,
            "class": self.answer.bound,
            "words": self.answer.words[:400],
            "grade": self.grade,
            "withheld": self.withheld,
            "seconds": round(self.seconds, 3),
        }


def put(question: Question, tool: Tool) -> Graded:
    """Make the traces of a question, ask a tool, and grade its answer."""
    if question.asked not in tool.asked:
        return Graded(question, Posed((), UNKNOWN), Answer(NOT_ASKED), "not asked", None, 0.0)
    with tempfile.TemporaryDirectory() as folder:
        posed = question.pose(Path(folder))
        started = time.process_time()
        answer = tool.ask(question, posed)
        seconds = time.process_time() - started
    withheld = None if answer.withheld is None else grade(posed.truth, replace(answer, value=answer.withheld))
    return Graded(question, posed, answer, grade(posed.truth, answer), withheld, seconds)


def put_all(questions: Iterable[Question], tool: Tool) -> Iterator[Graded]:
    """Ask a tool questions one by one."""
    return (put(question, tool) for question in questions)


def scores(graded: Iterable[Graded]) -> dict[Kind, Counter[str]]:
    """Count the grades of each kind of question, and the doubts of what would have been right or wrong."""
    found: dict[Kind, Counter[str]] = {kind: Counter() for kind in KINDS}
    for one in graded:
        own = found[one.question.kind]
        own["asked"] += 1
        own[one.grade] += 1
        if one.grade == "abstained" and one.withheld:
            own[f"withheld {one.withheld}"] += 1
    return {kind: own for kind, own in found.items() if own}


def table(found: dict[Kind, Counter[str]]) -> list[str]:
    """Print the scores as a table."""
    lines = ["| kind | questions | right | wrong | abstained | cannot be asked |", "|---|---|---|---|---|---|"]
    total: Counter[str] = Counter()
    for own in found.values():
        total.update(own)
    for name, own in [*found.items(), ("all", total)]:
        cells = [str(own[column]) for column in COLUMNS]
        if own["withheld wrong"]:
            cells[2] += f" ({own['withheld wrong']} of them rightly)"
        lines.append(f"| {name} | {own['asked']} | {' | '.join(cells)} |")
    return lines


def failures(graded: Sequence[Graded]) -> Iterator[str]:
    """Yield a line for each answer that is not right."""
    for one in graded:
        if one.grade not in ("right", "not asked"):
            drawn = one.posed.given.get("recipe") or one.question.recipe
            value = sorted(map(str, one.answer.value)) if isinstance(one.answer.value, frozenset) else one.answer.value
            yield f"{one.grade}: {one.question.id} ({drawn}): {one.posed.truth.as_record()}, answered {value}"
