"""The serialized descriptors of the protobuf schemas, made of their texts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2

from hta_graph.chakra import schema as chakra
from hta_graph.trace.pftrace import schema as perfetto

SCHEMAS: tuple[Path, ...] = (chakra.DESCRIPTOR, perfetto.DESCRIPTOR)
"""Descriptors as they are shipped; the text stands next to each."""

_COMMENT = re.compile(r"//.*")
_BLOCK = re.compile(r"(message|enum)\s+(\w+)\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_ONEOF = re.compile(r"oneof\s+(\w+)\s*\{([^{}]*)\}")
_FIELD = re.compile(r"(repeated\s+)?(\w+)\s+(\w+)\s*=\s*(\d+)\s*;")
_MEMBER = re.compile(r"(\w+)\s*=\s*(\d+)\s*;")
_PACKAGE = re.compile(r"package\s+(\w+)\s*;")

_Field = descriptor_pb2.FieldDescriptorProto


def descriptor_bytes(descriptor: Path) -> bytes:
    """Return a descriptor as it is shipped."""
    source = descriptor.with_suffix(".proto")
    named = _file_descriptor(source.read_text(encoding="utf-8"), f"hta_graph/{source.name}")
    return bytes(named.SerializeToString())


def _file_descriptor(text: str, name: str) -> Any:
    """Read the part of the protobuf language that the schemas use: flat messages, enums, one ``oneof`` each."""
    text = _COMMENT.sub("", text)
    package = _PACKAGE.search(text)
    file = descriptor_pb2.FileDescriptorProto(name=name, syntax="proto3")
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
