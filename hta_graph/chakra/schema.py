"""The protobuf classes of ``.et`` files, made from a serialized descriptor: no compiler, any protobuf from 4 on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hta_graph.base.errors import HtaGraphError

try:
    from google.protobuf import descriptor_pool, message_factory
    from google.protobuf import message as protobuf_message
except ImportError:
    raise HtaGraphError(".et files need protobuf; install it with: pip install 'protobuf>=4.25'") from None


DESCRIPTOR = Path(__file__).with_name("et_def.binpb")
"""The schema as a serialized ``FileDescriptorProto``; ``python -m tests.generate`` makes it of ``et_def.proto``."""
FILE_NAME = "hta_graph/et_def.proto"


def _enum_numbers(enum: str) -> dict[str, int]:
    return {name: value.number for name, value in _FILE.enum_types_by_name[enum].values_by_name.items()}


# A pool of its own: Chakra's own module may register the same names in the default one, in the same process.
_POOL = descriptor_pool.DescriptorPool()
_POOL.AddSerializedFile(DESCRIPTOR.read_bytes())
_FILE = _POOL.FindFileByName(FILE_NAME)

DecodeError: Any = protobuf_message.DecodeError
"""What is raised for bytes that are no message."""

Node: Any = message_factory.GetMessageClass(_FILE.message_types_by_name["Node"])
"""One node of a trace."""

GlobalMetadata: Any = message_factory.GetMessageClass(_FILE.message_types_by_name["GlobalMetadata"])
"""The first message of a file."""

NODE_TYPES = _enum_numbers("NodeType")
"""Name → number of each type of node."""

COLLECTIVES = _enum_numbers("CollectiveCommType")
"""Name → number of each collective."""
