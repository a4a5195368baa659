"""The protobuf classes of ``.et`` files, made from a serialized descriptor: no compiler, any protobuf from 4 on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hta_graph.base.protobuf import DecodeError, load_schema, message_class

__all__ = ["COLLECTIVES", "NODE_TYPES", "DecodeError", "GlobalMetadata", "Node"]

DESCRIPTOR = Path(__file__).with_name("et_def.binpb")
"""The schema as a serialized ``FileDescriptorProto``; ``python -m tests.generate`` makes it of ``et_def.proto``."""


def _enum_numbers(enum: str) -> dict[str, int]:
    return {name: value.number for name, value in _FILE.enum_types_by_name[enum].values_by_name.items()}


_FILE = load_schema(DESCRIPTOR)

Node: Any = message_class(_FILE, "Node")
"""One node of a trace."""

GlobalMetadata: Any = message_class(_FILE, "GlobalMetadata")
"""The first message of a file."""

NODE_TYPES = _enum_numbers("NodeType")
"""Name → number of each type of node."""

COLLECTIVES = _enum_numbers("CollectiveCommType")
"""Name → number of each collective."""
