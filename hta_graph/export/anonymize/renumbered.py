"""Other numbers for processes, threads, arrows and addresses, that keep their order and which of them are the same."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from hta_graph.export.anonymize.pseudonyms import Pseudonyms
from hta_graph.trace.table import LaneTable

__all__ = ["IdMap"]

FIRST_NEW_ID = 1000
"""Above the numbers of devices, which stand in the same place for a viewer."""

WHOLE_NUMBER = re.compile(r"\d{1,18}")
STREAM_NAME = re.compile(r"(?:stream )?-?\d{1,18}")


class IdMap:
    """The numbers of one rank: what they are, in the order of their coming or of their size.

    Args:
        lanes: of its trace; the threads that have events keep their order, and neighbours stay neighbours.
        names: gives texts that stand for numbers other names.
    """

    def __init__(self, lanes: LaneTable, names: Pseudonyms) -> None:
        self._names = names
        threads = (label for label, is_stream in zip(lanes.labels, lanes.is_stream, strict=True) if not is_stream)
        parts = [label.removeprefix("thread ").split(":", 1) for label in threads]
        self._processes = {part[0] for part in parts}
        self._devices = set(lanes.device[lanes.is_stream].tolist())
        self._number = _ids_in_order(int(text) for part in parts for text in part if WHOLE_NUMBER.fullmatch(text))
        self._arrows: dict[Any, int] = {}
        self._addresses: dict[Any, int] = {}

    def thread(self, value: Any) -> Any:
        """Return another number for a process or a thread."""
        if value is None or value == "":
            return value
        if isinstance(value, int) and -FIRST_NEW_ID < value <= 0:
            return value
        if not WHOLE_NUMBER.fullmatch(text := str(value).removesuffix(".0")):
            return self._names.text("thread", text)
        number = int(text)
        if number not in self._number:
            self._number[number] = max(self._number.values(), default=FIRST_NEW_ID) + 2
        return self._number[number]

    def place(self, process: Any, thread: Any) -> tuple[Any, Any]:
        """Return where a row stands that may be on a thread or on a stream."""
        change = self.stream if self.is_on_device(process) else self.thread
        return change(process), change(thread)

    def is_on_device(self, process: Any) -> bool:
        """Tell whether a process is a device and not the program."""
        return process in self._devices and str(process) not in self._processes

    def stream(self, value: Any) -> Any:
        """Return a part of a stream's name: numbers as they are, of devices and streams everybody has the same."""
        if value is None or value == "" or (isinstance(value, float) and value.is_integer()):
            return value
        if isinstance(value, (int, str)) and STREAM_NAME.fullmatch(str(value).strip()):
            return value
        return self._names.text("lane", str(value))

    def arrow(self, value: Any) -> int:
        """Return another number for an arrow."""
        return self._arrows.setdefault(value, len(self._arrows) + 1)

    def address(self, value: Any) -> int:
        """Return another number for an address, 4 KB apart."""
        return self._addresses.setdefault(value, 4096 * (len(self._addresses) + 1))


def _ids_in_order(numbers: Iterable[int]) -> dict[int, int]:
    """Number numbers anew in their order; only those that follow each other still do: Gloo's workers are told so.

    >>> _ids_in_order([70312, 70313, 4, 70320])
    {4: 1000, 70312: 1002, 70313: 1003, 70320: 1005}
    """
    found: dict[int, int] = {}
    before = new = None
    for number in sorted({number for number in numbers if number > 0}):
        new = FIRST_NEW_ID if new is None or before is None else new + (1 if number == before + 1 else 2)
        found[number] = new
        before = number
    return found
