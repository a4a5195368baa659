"""A second look into the file: arguments of events that do not decide the graph, read when someone asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from typing import Any

import msgspec
import numpy as np

from hta_graph.errors import TraceError
from hta_graph.model import Bools, Ids, Ints
from hta_graph.trace.decode import Decoded, with_fallback
from hta_graph.trace.rows import RowShape
from hta_graph.trace.source import read_bytes
from hta_graph.trace.table import Trace, freeze

__all__ = ["Details", "Objects", "read_details"]

Objects = np.ndarray[Any, np.dtype[np.object_]]


@dataclass(frozen=True)
class Details:
    """Arguments by key, one entry per event asked for, ``None`` where absent; and the header's ``distributedInfo``."""

    arguments: dict[str, Objects]
    distributed: dict[str, Any]

    def __getitem__(self, key: str) -> Objects:
        return self.arguments[key]


def read_details(trace: Trace, keys: Sequence[str], events: Ids | Ints | Bools | None = None) -> Details:
    """Read arguments of events from the trace's file once more.

    Args:
        trace: the trace; its file must still be there, unchanged.
        keys: names of arguments as in the file, such as ``"Input Dims"``.
        events: canonical rows (or a mask of them); all if not given.

    Returns:
        values as JSON has them: numbers, text, lists, objects.

    Raises:
        TraceError: the file is gone or has changed.
    """
    rows = with_fallback(
        trace.path, read_bytes(trace.path), _all, salvage=trace.salvaged is not None, shape=_shape_of(keys)
    )
    index = trace.events.index if events is None else trace.events.index[events]
    if len(index) and int(index.max()) >= len(rows[0]):
        raise TraceError(trace.path, "has changed since it was read", "read it again")
    chosen = [rows[0][at] for at in index.tolist()]
    columns = {key: _objects([getattr(args, f"a{at}") for args in chosen]) for at, key in enumerate(keys)}
    return Details(columns, rows[1] if isinstance(rows[1], dict) else {})


def _all(decoded: Decoded) -> tuple[list[Any], Any]:
    """Take the arguments of all rows, and the header."""
    args = list(chain.from_iterable([row.args or _NONE for row in part.rows] for part in decoded.parts))
    return args, decoded.header.distributed


class _NoArguments:
    """Stands for the arguments of a row that has none."""

    def __getattr__(self, name: str) -> None:
        return None


_NONE = _NoArguments()


def _shape_of(keys: Sequence[str]) -> RowShape[Any]:
    """Make the decoder's types for rows of which only some arguments are wanted."""
    names = {f"a{at}": key for at, key in enumerate(keys)}
    arguments = msgspec.defstruct("Arguments", [(name, Any, None) for name in names], rename=names, gc=False)
    row = msgspec.defstruct("DetailRow", [("args", arguments | None, None)], gc=False)

    def from_object(found: dict[str, Any]) -> Any:
        args = found.get("args")
        if not isinstance(args, dict):
            return row()
        return row(arguments(**{name: _as_json(args.get(key)) for name, key in names.items()}))

    return RowShape(row, from_object)


def _as_json(value: Any) -> Any:
    """Undo what the tolerant parser does to keep times exact."""
    return float(value) if isinstance(value, Decimal) else value


def _objects(values: list[Any]) -> Objects:
    column = np.empty(len(values), object)
    column[:] = values
    return freeze(column)
