"""The protobuf classes of ``.et`` files, made from ``et_def.proto`` at import: no compiler, any protobuf from 4 on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hta_graph.base.errors import HtaGraphError

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from google.protobuf import message as protobuf_message
except ImportError:
    raise HtaGraphError(".et files need protobuf; install it with: pip install 'protobuf>=4.25'") from None


PROTO = Path(__file__).with_name("et_def.proto")
FILE_NAME = "hta_graph/et_def.proto"

_COMMENT = re.compile(r"//.*")
_BLOCK = re.compile(r"(message|enum)\s+(\w+)\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_ONEOF = re.compile(r"oneof\s+(\w+)\s*\{([^{}]*)\}")
_FIELD = re.compile(r"(repeated\s+)?(\w+)\s+(\w+)\s*=\s*(\d+)\s*;")
_MEMBER = re.compile(r"(\w+)\s*=\s*(\d+)\s*;")
_PACKAGE = re.compile(r"package\s+(\w+)\s*;")

_Field = descriptor_pb2.FieldDescriptorProto


def _file_descriptor(text: str) -> Any:
    """Read the part of the protobuf language that the schema uses: flat messages, enums, one ``oneof``."""
    text = _COMMENT.sub("", text)
    package = _PACKAGE.search(text)
    file = descriptor_pb2.FileDescriptorProto(name=FILE_NAME, syntax="proto3")
    file.package = package[1] if package else ""
    blocks = _BLOCK.findall(text)
    enums = {name for kind, name, _ in blocks if kind == "enum"}
    for kind, name, body in blocks:
        if kind == "enum":
            enum = file.enum_type.add(name=name)
            for member, number in _MEMBER.findall(body):
                enum.value.add(name=member, number=int(number))
        else:
            file.message_type.add(name=name).MergeFrom(_message_descriptor(body, file.package, enums))
    return file


def _message_descriptor(body: str, package: str, enums: set[str]) -> Any:
    message = descriptor_pb2.DescriptorProto()
    # The fields of a ``oneof`` are fields of the message that name their group: the schema has one, so its place is 0.
    for group, members in _ONEOF.findall(body):
        message.oneof_decl.add(name=group)
        for field in _field_descriptors(members, package, enums):
            field.oneof_index = 0
            message.field.append(field)
    message.field.extend(_field_descriptors(_ONEOF.sub("", body), package, enums))
    return message


def _field_descriptors(body: str, package: str, enums: set[str]) -> Iterator[Any]:
    for repeated, kind, name, number in _FIELD.findall(body):
        label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
        field = _Field(name=name, number=int(number), label=label)
        if scalar := getattr(_Field, f"TYPE_{kind.upper()}", None):
            field.type = scalar
        else:
            field.type = _Field.TYPE_ENUM if kind in enums else _Field.TYPE_MESSAGE
            field.type_name = f".{package}.{kind}"
        yield field


def _enum_numbers(enum: str) -> dict[str, int]:
    return {name: value.number for name, value in _FILE.enum_types_by_name[enum].values_by_name.items()}


# A pool of its own: Chakra's own module may register the same names in the default one, in the same process.
_POOL = descriptor_pool.DescriptorPool()
_POOL.AddSerializedFile(_file_descriptor(PROTO.read_text(encoding="utf-8")).SerializeToString())
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
