"""What an output is made of, breaking off on the way."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["InterruptedOutputError", "interrupted"]


class InterruptedOutputError(Exception):
    pass


def interrupted(size: int) -> Iterator[bytes]:
    for _ in range(size >> 20):
        yield b"." * (1 << 20)
    raise InterruptedOutputError
