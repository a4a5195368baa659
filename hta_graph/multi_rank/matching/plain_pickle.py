"""The plain data in a pickle: numbers, text, lists, dictionaries. Nothing in it is run, imported or called.

PyTorch's C++ code writes flight recorder dumps with a few opcodes of protocol 2. Python's own reader executes what a
pickle names; this one knows only the opcodes of plain data, and refuses a pickle that has any other.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from typing import Any

MOST_OPCODES = 20_000_000
"""A dump of 20,000 collectives has about a million."""

MARK = object()
NEW: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False, "MARK": lambda: MARK,
    "EMPTY_LIST": list, "EMPTY_TUPLE": list, "EMPTY_DICT": dict,
}  # fmt: skip
VALUES = frozenset({
    "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8",
})  # fmt: skip
PUTS = frozenset({"BINPUT", "LONG_BINPUT"})
GETS = frozenset({"BINGET", "LONG_BINGET"})
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class NotPlainError(Exception):
    """A pickle holds something else than plain data."""


def read_plain_pickle(raw: bytes) -> Any:
    """Return what a pickle holds; its tuples are lists. What it names twice is one object: walk it once.

    >>> import pickle
    >>> read_plain_pickle(pickle.dumps({"a": [1, 2.5, None, ("x", True)]}, 2))
    {'a': [1, 2.5, None, ['x', True]]}

    Raises:
        NotPlainError: it holds something else than plain data, or is damaged.
    """
    try:
        return _Machine().run(raw)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, UnicodeDecodeError) as error:
        raise NotPlainError(f"is damaged ({type(error).__name__})") from None


class _Machine:
    """The stack and the memory of a pickle's opcodes."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._memory: dict[int, Any] = {}

    def run(self, raw: bytes) -> Any:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(raw)):
            if opcode.name == "STOP":
                (found,) = self._stack
                return found
            if count > MOST_OPCODES:
                break
            self._step(opcode.name, argument)
        raise NotPlainError("is too long")

    def _step(self, name: str, argument: Any) -> None:
        stack = self._stack
        if name in VALUES:
            stack.append(argument)
        elif name in NEW:
            stack.append(NEW[name]())
        elif name in PUTS:
            self._memory[argument] = stack[-1]
        elif name == "MEMOIZE":
            self._memory[len(self._memory)] = stack[-1]
        elif name in GETS:
            stack.append(self._memory[argument])
        elif name in TUPLES:
            size = TUPLES[name]
            stack[-size:] = [stack[-size:]]
        elif not self._collect(name) and name not in ("PROTO", "FRAME"):
            raise NotPlainError(f"holds more than plain data ({name})")

    def _collect(self, name: str) -> bool:
        """Put values that were laid down into the list, tuple or dictionary below them."""
        stack = self._stack
        if name in ("APPEND", "SETITEM"):
            taken = [stack.pop() for _ in range(1 if name == "APPEND" else 2)][::-1]
        elif name in ("APPENDS", "SETITEMS", "TUPLE"):
            taken = self._above_mark()
        else:
            return False
        if name == "TUPLE":
            stack.append(taken)
        elif name.startswith("APPEND"):
            stack[-1].extend(taken)
        elif all(isinstance(key, str) for key in taken[::2]):
            stack[-1].update(zip(taken[::2], taken[1::2], strict=True))
        else:
            # Numbers can be chosen so that their hashes are equal, which makes a dictionary slow; those of text cannot.
            raise NotPlainError("has a dictionary whose keys are not text")
        return True

    def _above_mark(self) -> list[Any]:
        at = len(self._stack) - 1
        while self._stack[at] is not MARK:
            at -= 1
        taken = self._stack[at + 1 :]
        del self._stack[at:]
        return taken
