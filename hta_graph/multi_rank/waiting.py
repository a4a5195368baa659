"""Waiting for tasks so that an interrupt is heard."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any

__all__ = ["wait_for_any"]

SIGNAL_POLL_S = 0.1


def wait_for_any(futures: Collection[Future[Any]]) -> set[Future[Any]]:
    """Wait until at least one future is done, and return those that are."""
    # A signal that arrives just before a wait without end begins is heard only when that ends.
    while True:
        done = wait(futures, SIGNAL_POLL_S, FIRST_COMPLETED).done
        if done:
            return done
