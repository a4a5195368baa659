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


def load_schema(descriptor: Path, name: str) -> Any:
    """Return the file descriptor that a serialized ``FileDescriptorProto`` holds under a name.

    ``python -m tests.generate`` makes it of the ``.proto`` that stands next to it.
    """
    # A pool of its own: another module may register the same names in the default one, in the same process.
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(descriptor.read_bytes())
    return pool.FindFileByName(name)


def message_class(schema: Any, name: str) -> Any:
    """Return the class of a message of a schema."""
    return message_factory.GetMessageClass(schema.message_types_by_name[name])
