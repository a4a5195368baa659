"""Answers about a graph that never changes are computed once and kept with it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, Protocol, TypeVar, cast
from weakref import ref

Known = TypeVar("Known")
Key = TypeVar("Key", bound=Hashable)


class _HasMemo(Protocol):
    """Keeps the answers that it has given, by question."""

    answers: dict[Callable[..., Any], Any]


Subject = TypeVar("Subject", bound=_HasMemo)
Held = TypeVar("Held")


def memoized(question: Callable[[Subject], Known]) -> Callable[[Subject], Known]:
    """Let a question be answered the first time it is asked; the answer is kept with what it is about."""

    @wraps(question)
    def ask(subject: Subject) -> Known:
        if question not in subject.answers:
            subject.answers[question] = question(subject)
        answer: Known = subject.answers[question]
        return answer

    return ask


def memoized_each(question: Callable[[Subject, Key], Known]) -> Callable[[Subject, Key], Known]:
    """Let a question about a part of a subject be answered once for each part."""

    @wraps(question)
    def ask(subject: Subject, key: Key) -> Known:
        known: dict[Key, Known] = subject.answers.setdefault(question, {})
        if key not in known:
            known[key] = question(subject, key)
        return known[key]

    return ask


def held_elsewhere(subject: Held) -> Callable[[], Held]:
    """Return what gives a subject as long as others hold it: an answer that is kept with it would keep it alive."""
    return cast("Callable[[], Held]", ref(subject))
