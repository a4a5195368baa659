"""Report the running stage of a long computation to a program that shows it; without one, nothing happens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

Item = TypeVar("Item")


class StageListener(Protocol):
    """A program's display of the running stage."""

    def begin(self, stage: str, *, is_inner: bool) -> None:
        """Show that a stage begins; an inner one is part of another and can be too short to be worth it."""

    def advance(self, done: int, total: int) -> None:
        """Show how much of the stage is done, in any unit."""

    def clear(self) -> None:
        """Remove what is shown, because other text follows."""


_LISTENERS: list[StageListener] = []
"""The listeners that are called now: at most one."""
_RUNNING: list[str] = []
"""The stage that runs, where a listener exists, and those inside it."""


@contextmanager
def listen_to_stages(listener: StageListener) -> Iterator[None]:
    """Report stages to a listener within this block."""
    before = _LISTENERS[:]
    _LISTENERS[:] = [listener]
    _RUNNING.clear()
    try:
        yield
    finally:
        listener.clear()
        _LISTENERS[:] = before


@contextmanager
def mute_stages() -> Iterator[None]:
    """Report no stages within this block: they are parts of something that has its own progress."""
    before = _LISTENERS[:]
    _LISTENERS.clear()
    try:
        yield
    finally:
        _LISTENERS[:] = before


def begin_stage(stage: str) -> None:
    """Report that a stage begins, such as "building the graph"; those within an inner stage bear its name."""
    for listener in _LISTENERS:
        is_inner = len(_RUNNING) > 1
        if not is_inner:
            _RUNNING[:] = [stage]
        listener.begin(_RUNNING[-1], is_inner=is_inner)


@contextmanager
def inner_stage(stage: str) -> Iterator[None]:
    """Report what happens within this block as one part of the stage that runs, which continues afterwards."""
    is_inner = bool(_LISTENERS and _RUNNING)
    if is_inner:
        _RUNNING.append(stage)
    try:
        yield
    finally:
        if is_inner:
            _RUNNING.pop()
            begin_stage(_RUNNING[-1])


def advance_stage(done: int, total: int) -> None:
    """Report how much of the running stage is done, in any unit."""
    for listener in _LISTENERS:
        listener.advance(done, total)


def tracked(items: Iterable[Item], total: int | None = None) -> Iterator[Item]:
    """Yield what the running stage works on one by one, and report how many are done; ``total``: how many there are."""
    if total is None:
        items = list(items)
        total = len(items)
    for done, item in enumerate(items, 1):
        yield item
        advance_stage(done, total)


def clear_stage() -> None:
    """Remove what is shown of the running stage before other text is printed."""
    for listener in _LISTENERS:
        listener.clear()
