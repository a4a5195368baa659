"""The rows of a trace as the decoder makes them: only the fields that decide something."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

__all__ = ["HEADER_KEYS", "Args", "Document", "Header", "Number", "Row"]

Number = int | float | str | None


class Args(msgspec.Struct, gc=False):
    """The arguments that decide edges; all others stay in the file."""

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


class Document(msgspec.Struct):
    """A trace: its rows and the header's fields that matter."""

    rows: list[Row] = msgspec.field(name="traceEvents")
    base: Any = msgspec.field(default=None, name="baseTimeNanoseconds")
    distributed: Any = msgspec.field(default=None, name="distributedInfo")
    devices: Any = msgspec.field(default=None, name="deviceProperties")

    @property
    def header(self) -> Header:
        """The header's fields apart."""
        return Header(self.base, self.distributed, self.devices)


HEADER_KEYS = tuple(f.encode_name for f in msgspec.structs.fields(Document))[1:]
