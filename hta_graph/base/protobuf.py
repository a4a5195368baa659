"""Protobuf classes made from a serialized descriptor: no compiler, any protobuf from 4 on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hta_graph.base.errors import HtaGraphError

try:
    from google.protobuf import descriptor_pool, message_factory
    from google.protobuf import message as protobuf_message
except ImportError:
    raise HtaGraphError(".et and .pftrace files need protobuf; install it with: pip install 'protobuf>=4.25'") from None

DecodeError: Any = protobuf_message.DecodeError
"""What is raised for bytes that are no message."""


def load_schema(descriptor: Path) -> Any:
    """Return the file descriptor that a serialized ``FileDescriptorProto`` holds.

    ``python -m tests.generate`` makes it of the ``.proto`` that stands next to it.
    """
    # A pool of its own: another module may register the same names in the default one, in the same process.
    return descriptor_pool.DescriptorPool().AddSerializedFile(descriptor.read_bytes())


def message_class(schema: Any, name: str) -> Any:
    """Return the class of a message of a schema."""
    return message_factory.GetMessageClass(schema.message_types_by_name[name])


def read_varint(data: bytes | bytearray, at: int, longest: int) -> tuple[int, int] | None:
    """Return the number that stands at a byte, and where it ends; None if that is beyond the data or the longest one.

    >>> read_varint(bytes([172, 2, 7]), 0, 5)
    (300, 2)
    """
    number = 0
    # Seven bits a byte, the lowest first; the highest bit says that another byte follows.
    for place, byte in enumerate(data[at : at + longest]):
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number, at + place + 1
    return None
