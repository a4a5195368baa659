"""Questions about something that never changes, answered once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, TypeVar

__all__ = ["known_answer", "remember", "remembered"]

Known = TypeVar("Known")


class _Remembers(Protocol):
    """Keeps the answers that it has given, by question."""

    answers: dict[Callable[[Any], Any], Any]


Subject = TypeVar("Subject", bound=_Remembers)


def remembered(question: Callable[[Subject], Known]) -> Callable[[Subject], Known]:
    """Let a question be answered the first time it is asked; the answer is kept with what it is about."""

    @wraps(question)
    def ask(subject: Subject) -> Known:
        if question not in subject.answers:
            subject.answers[question] = question(subject)
        answer: Known = subject.answers[question]
        return answer

    return ask


def known_answer(question: Callable[[Subject], Known], subject: Subject) -> Known | None:
    """Return the answer to a remembered question if it has been asked before."""
    return subject.answers.get(question.__wrapped__)  # type: ignore[attr-defined]


def remember(question: Callable[[Any], object], subject: _Remembers, answer: object) -> None:
    """Give the answer to a remembered question, so that it need not be found again."""
    subject.answers[question.__wrapped__] = answer  # type: ignore[attr-defined]
