"""The ``.et`` format: one file of length-prefixed messages, and a workload's folder of one file per rank.

A file is a varint length before each message, metadata first, then nodes to the end of the file. A folder holds a
``PREFIX.<rank>.et`` per rank and ``comm_groups.json``; it is written whole or not at all.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from hta_graph.base.errors import OutputError, Remedy, TraceError
from hta_graph.base.protobuf import read_varint
from hta_graph.base.storage.atomic_write import new_folder
from hta_graph.base.storage.location import Location, resolve_location
from hta_graph.base.storage.output_paths import check_new_folder
from hta_graph.chakra.schema import DecodeError, GlobalMetadata, Node
from hta_graph.trace.decompress import is_gzip
from hta_graph.trace.memory_limit import TextLimit

PEAK_PER_BYTE = 8
"""What a file and its messages take in memory for each byte; a message may have no more than two."""
MAX_CHEAP_MESSAGES = 1_000_000
MIN_MESSAGE_BYTES = 8
"""Bytes: a node has an id, a name and a type."""
MAX_LENGTH_BYTES = 5
"""Bytes of the varint of a 32-bit length."""


@dataclass(frozen=True)
class EtFile:
    """One file's messages, as bytes."""

    path: Location
    messages: list[bytes]

    @property
    def metadata(self) -> dict[str, Any]:
        """What the first message says."""
        return {name: value for name, _, value in attributes(self._decode_message(GlobalMetadata, self.messages[0]))}

    @property
    def has_metadata(self) -> bool:
        """Whether the first message is metadata; readers take it for that, so that a node there is lost."""
        try:
            first = GlobalMetadata.FromString(self.messages[0])
        except DecodeError:
            return False
        # Protobuf takes a node for metadata too; but then some of its fields are unknown ones.
        size: int = first.ByteSize()
        first.DiscardUnknownFields()
        return bool(first.ByteSize() == size)

    def nodes(self) -> Iterator[Any]:
        """Decode one node after the other.

        Raises:
            TraceError: a message is no node.
        """
        for at in range(1, len(self.messages)):
            yield self._decode_message(Node, self.messages[at])

    def _decode_message(self, kind: Any, message: bytes) -> Any:
        try:
            return kind.FromString(message)
        except DecodeError:
            cause = "is not a Chakra execution trace: a message does not match the schema"
            remedy = Remedy("convert() writes one", "hta-graph chakra convert writes one")
            raise TraceError(self.path, cause, remedy) from None


def length_prefixed(messages: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces of a file: each message after its length."""
    for message in messages:
        yield varint(len(message))
        yield message


def read_et(path: str | Location) -> EtFile:
    """Read one ``.et`` file.

    Raises:
        TraceError: it cannot be read, is compressed, truncated, or holds something else.
        TooLargeError: it is longer than there is memory for.
    """
    path = resolve_location(path)
    # A pipe would keep the reader waiting.
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise TraceError(path, "is no file", "convert the traces again")
    try:
        TextLimit(path, per_byte=PEAK_PER_BYTE).check(path.stat().st_size)
        raw = path.read_bytes()
    except OSError as error:
        raise TraceError(path, f"cannot be read: {error.strerror or error}") from None
    if is_gzip(raw):
        raise TraceError(path, "is compressed, and ASTRA-sim cannot read it", "decompress it")
    if not raw:
        raise TraceError(path, "is empty", "convert the traces again")
    return EtFile(path, list(_split_messages(path, raw)))


def skip_message(file: BinaryIO) -> None:
    """Go behind the first message of an open file."""
    length, begin = _read_length(Path(file.name), file.read(MAX_LENGTH_BYTES), 0)
    file.seek(begin + length)


def attributes(message: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield each attribute's name, the type of its value (such as ``int64_val``; "" where it has none), the value."""
    for attribute in message.attr:
        kind = attribute.WhichOneof("value") or ""
        yield attribute.name, kind, getattr(attribute, kind) if kind else None


def varint(number: int) -> bytes:
    """Write a number in base 128, lowest digits first.

    >>> list(varint(300))
    [172, 2]
    """
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


def _split_messages(path: Location, raw: bytes) -> Iterator[bytes]:
    at = count = 0
    while at < len(raw):
        if count > MAX_CHEAP_MESSAGES and MIN_MESSAGE_BYTES * count > at:
            raise TraceError(path, f"is not a Chakra execution trace: {count:,} messages in the first {at:,} bytes")
        length, begin = _read_length(path, raw, at)
        if begin + length > len(raw):
            raise TraceError(path, f"is truncated in the message at byte {at:,}", "write it again")
        yield raw[begin : begin + length]
        at = begin + length
        count += 1


def _read_length(path: Location, raw: bytes, at: int) -> tuple[int, int]:
    """Return the length that stands at a byte, and where its message begins."""
    if found := read_varint(raw, at, MAX_LENGTH_BYTES):
        return found
    is_short = at + MAX_LENGTH_BYTES > len(raw)
    cause = "is truncated in a length" if is_short else "is not a Chakra execution trace: no message length"
    raise TraceError(path, f"{cause} at byte {at:,}", "write it again" if is_short else "")


GROUPS_FILE = "comm_groups.json"
"""Group → ranks, as ASTRA-sim reads it with ``--comm-group-configuration``."""

NAMES_FILE = "group_names.json"
"""What groups and ranks stand for, for people."""

ET_NAME = re.compile(r"(?P<prefix>.+)\.(?P<rank>0|[1-9][0-9]{0,8})\.et")


@dataclass(frozen=True)
class EtFolder:
    """All ranks of a workload, and the ranks of each group; ``groups`` is ``None`` where there is no such file."""

    path: Location
    prefix: str
    files: dict[int, EtFile]
    groups: dict[str, list[int]] | None


def read_folder(folder: str | Location) -> EtFolder:
    """Read a folder of ``PREFIX.<rank>.et`` files and its ``comm_groups.json``.

    Raises:
        TraceError: there are none, they have several prefixes, or one cannot be read.
    """
    folder = resolve_location(folder)
    if not folder.is_dir():
        raise TraceError(
            folder, "is not a folder" if folder.exists() else "no such folder", "name a folder of .et files"
        )
    files: list[Location] = sorted(folder.glob("*.et"))
    named = {path: ET_NAME.fullmatch(path.name) for path in files}
    if not named:
        raise TraceError(
            folder, "holds no .et file", Remedy("convert() writes them", "hta-graph chakra convert writes them")
        )
    for path, match in named.items():
        if not match:
            raise TraceError(path, "is not named PREFIX.<rank>.et, as ASTRA-sim expects", "rename it")
    prefixes = sorted({match["prefix"] for match in named.values() if match})
    if len(prefixes) > 1:
        raise TraceError(folder, f"holds files of {', '.join(prefixes[:5])}", "keep one workload in a folder")
    by_rank = sorted((int(match["rank"]), path) for path, match in named.items() if match)
    return EtFolder(
        folder, prefixes[0], {rank: read_et(path) for rank, path in by_rank}, _read_groups(folder / GROUPS_FILE)
    )


def _read_groups(path: Location) -> dict[str, list[int]] | None:
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise TraceError(path, "is no file", "write it again")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TraceError(path, f"cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise TraceError(path, f"cannot be read, it is not JSON: {error}", "write it again") from None
    if not isinstance(found, dict) or not all(_is_rank_list(ranks) for ranks in found.values()):
        raise TraceError(path, 'is not an object of rank lists, such as {"1": [0, 1]}')
    return found


def _is_rank_list(value: object) -> bool:
    # A bool is an int to Python and no rank to ASTRA-sim.
    return isinstance(value, list) and all(isinstance(rank, int) and not isinstance(rank, bool) for rank in value)


def check_prefix(prefix: str) -> None:
    """Refuse what cannot begin the files' names; a "/" would lead out of the folder.

    Raises:
        OutputError: it is empty, would hide the files, or holds a character that a file's name cannot.
    """
    is_name = ET_NAME.fullmatch(f"{prefix}.0.et") and prefix.isprintable() and not {"/", "\\"} & set(prefix)
    if not is_name or prefix.startswith("."):
        raise OutputError(f"the prefix {prefix!r} cannot start a file name; use one such as 'trace'")


def check_target(target: Location, *, force: bool) -> None:
    """Refuse a folder that cannot be written, before any work is done; with ``force`` an earlier one is replaced.

    Raises:
        OutputError: it exists and holds something, its parent does not exist, or ASTRA-sim would ignore its groups.
    """
    check_new_folder(target)
    if "empty" in str(target):
        raise OutputError(f'{target}: ASTRA-sim ignores groups in a path that contains "empty"; name another folder')
    try:
        inside = [item.name for item in target.iterdir()] if target.is_dir() else []
    except OSError as error:
        raise OutputError(f"{target}: cannot be written: {error.strerror or error}") from None
    foreign = [name for name in inside if name not in (GROUPS_FILE, NAMES_FILE) and not ET_NAME.fullmatch(name)]
    if foreign:
        raise OutputError(f"{target}: holds other files, such as {foreign[0]}; name a new folder")
    if inside and not force:
        raise OutputError(
            f"{target}: already exists", Remedy("pass force=True to replace it", "use --force to replace it")
        )


def write_folder(
    target: Location,
    files: Mapping[str, Iterable[bytes]],
    copies: Mapping[str, tuple[str, bytes]],
    examine: Callable[[EtFolder], None],
    *,
    force: bool,
) -> None:
    """Write files into a new folder next to the target, check it, and move it to the target.

    Args:
        target: the folder; :func:`check_target` has let it pass.
        files: name → pieces.
        copies: name → name of the file that it equals, and the metadata that it has instead of that one's.
        examine: checks the new folder, under the target's name; raises to reject it.
        force: an earlier workload there is replaced.

    Raises:
        OutputError: it cannot be written; what stood there is left as it was.
    """
    with new_folder(target, lambda: check_target(target, force=force), [".0.et"]) as new:
        for name, pieces in files.items():
            with (new / name).open("wb") as file:
                file.writelines(pieces)
        for name, (original, metadata) in copies.items():
            with (new / original).open("rb") as source, (new / name).open("wb") as file:
                file.writelines(length_prefixed([metadata]))
                skip_message(source)
                shutil.copyfileobj(source, file)
        # Checks look at names too, and what they say has to hold for the target.
        examine(replace(read_folder(new), path=target))
