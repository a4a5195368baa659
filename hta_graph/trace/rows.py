"""The rows of a trace as the decoder makes them: only the fields that decide something."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Generic, TypeVar

import msgspec

__all__ = [
    "EVENT_ROWS",
    "Args",
    "Document",
    "Header",
    "Number",
    "Row",
    "RowShape",
    "header_of_object",
    "number_or_text",
]

Number = int | float | str | None
AnyRow = TypeVar("AnyRow")


class Args(msgspec.Struct, gc=False):
    """The arguments that decide edges, and what a copy moved; all others stay in the file."""

    correlation: Number = -1
    stream: Number = None
    device: Number = None
    context: Number = None
    external_id: Number = msgspec.field(default=-1, name="External id")
    old_external_id: Number = msgspec.field(default=-1, name="external id")
    sequence: Number = msgspec.field(default=-1, name="Sequence number")
    forward_thread: Number = msgspec.field(default=-1, name="Fwd thread id")
    wait_on_stream: Number = -1
    record_correlation: Number = msgspec.field(default=-1, name="wait_on_cuda_event_record_corr_id")
    collective: Number = msgspec.field(default=None, name="Collective name")
    bytes: Any = None
    bandwidth: Any = msgspec.field(default=None, name="memory bandwidth (GB/s)")


class Row(msgspec.Struct, gc=False):
    """One element of ``traceEvents``."""

    ph: str | None = None
    cat: str | None = None
    name: str | None = None
    pid: Number = None
    tid: Number = None
    ts: Number = None
    dur: Number = None
    args: Args | None = None
    id: Number = None


@dataclass(frozen=True)
class Header:
    """What the file says about itself; any field may be absent or of any type."""

    base: Any = None
    distributed: Any = None
    devices: Any = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Versions and the profiler's options, by their keys in the file; only those that it has."""


class Document(msgspec.Struct, Generic[AnyRow]):
    """A trace: its rows and the header's fields that matter."""

    rows: list[AnyRow] = msgspec.field(name="traceEvents")
    base: Any = msgspec.field(default=None, name="baseTimeNanoseconds")
    distributed: Any = msgspec.field(default=None, name="distributedInfo")
    devices: Any = msgspec.field(default=None, name="deviceProperties")
    schema_version: Any = msgspec.field(default=None, name="schemaVersion")
    record_shapes: Any = None
    with_stack: Any = None
    with_flops: Any = None
    with_modules: Any = None
    profile_memory: Any = None
    cuda_runtime_version: Any = None
    cuda_driver_version: Any = None
    cupti_version: Any = None
    hip_runtime_version: Any = None
    hip_driver_version: Any = None
    host_name: Any = None

    @property
    def header(self) -> Header:
        """The header's fields apart."""
        return header_of_object({key: getattr(self, name) for key, name in _HEADER_FIELDS.items()})


_HEADER_FIELDS = {item.encode_name: item.name for item in msgspec.structs.fields(Document)[1:]}


def header_of_object(document: Mapping[str, Any]) -> Header:
    """Pick the header's fields from the keys of a document."""
    base, distributed, devices, *settings = ((key, document.get(key)) for key in _HEADER_FIELDS)
    said = {key: value for key, value in settings if value is not None}
    return Header(base[1], distributed[1], devices[1], said)


@dataclass(frozen=True)
class RowShape(Generic[AnyRow]):
    """What is read of each row: the decoder's type, and how a tolerant parser's object becomes one."""

    type: type[AnyRow]
    from_object: Callable[[dict[str, Any]], AnyRow]

    @property
    def document(self) -> Any:
        """The decoder's type of a whole document."""
        return Document[self.type]  # type: ignore[name-defined]

    @property
    def listed(self) -> Any:
        """The decoder's type of a list of rows."""
        return list[self.type]  # type: ignore[name-defined]


def number_or_text(value: object) -> Any:
    """Keep numbers and text; a value of another type counts as absent."""
    return value if isinstance(value, (int, float, Decimal, str)) and not isinstance(value, bool) else None


_ARG_KEYS = [(item.name, item.encode_name) for item in msgspec.structs.fields(Args)]


def _tolerant_row(row: dict[str, Any]) -> Row:
    args = row.get("args")
    values = {name: number_or_text(row[name]) for name in ("pid", "tid", "ts", "dur", "id") if name in row}
    texts = {name: number_or_text(row[name]) for name in ("ph", "cat", "name") if isinstance(row.get(name), str)}
    if not isinstance(args, dict):
        return Row(**texts, **values)
    found = Args(**{name: number_or_text(args.get(key)) for name, key in _ARG_KEYS})
    return Row(args=found, **texts, **values)


EVENT_ROWS = RowShape(Row, _tolerant_row)
"""What decides the graph."""
