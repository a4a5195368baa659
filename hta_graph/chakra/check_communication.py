"""The linter's rules for communication: what a node must say, and what ranks must agree on."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from hta_graph.chakra.astra_sim import Message
from hta_graph.chakra.et_program import COLLECTIVE, SEND, EtAttribute, EtProgram
from hta_graph.chakra.schema import COLLECTIVES
from hta_graph.chakra.simulated import MIN_ALL_GATHER_BYTES, SUPPORTED_COMMUNICATION

__all__ = ["Violation", "collective_mismatches", "communication_violations", "is_group_key", "message_mismatches"]

WHOLE_NUMBERS = {f"{kind}_val" for kind in (
    "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32", "sfixed64"
)}  # fmt: skip

GROUP_KEY = re.compile(r"[0-9]{1,10}")

MAX_COMM_BYTES = 2**53
"""Bytes; ASTRA-sim was seen to end collectives of 2^59 (within 2^53 ns at 1 byte a ns), and none of 2^60."""

MAX_TAG = 2**31 - 1
"""ASTRA-sim keeps 32 bits of a tag, so that larger ones meet wrong partners."""

TYPE_NAMES = {number: name for name, number in COLLECTIVES.items()}

Violation = tuple[int, str, str]
"""The place of a node in its rank, the rule it breaks, and how."""

Attributes = Mapping[str, EtAttribute]


def is_group_key(key: object) -> bool:
    """Tell whether ASTRA-sim takes a text for a group: a whole number from 1 to 2^31 - 1.

    >>> [is_group_key(key) for key in ("1", "2147483647", "0", "2147483648", "default_pg", "9" * 5_000)]
    [True, True, False, False, False, False]
    """
    return isinstance(key, str) and GROUP_KEY.fullmatch(key) is not None and 1 <= int(key) < 2**31


def communication_violations(
    program: EtProgram, groups: Mapping[str, Sequence[int]], ranks: Mapping[int, EtProgram]
) -> Iterator[Violation]:
    """Yield what one rank's communications lack or say wrongly."""
    for at, known in program.communication.items():
        if program.on_cpu[at]:
            yield at, "communication-on-cpu", "is_cpu_op is true"
        size = _whole_number(known, "comm_size", MAX_COMM_BYTES)
        if size is None:
            yield at, "comm-size", _attribute_text(known, "comm_size")
        if "involved_dim" in known and known["involved_dim"].kind != "bool_list":
            yield at, "involved-dim", _attribute_text(known, "involved_dim")
        if "comm_priority" in known and known["comm_priority"].kind not in WHOLE_NUMBERS:
            yield at, "attribute-type", _attribute_text(known, "comm_priority")
        if program.types[at] == COLLECTIVE:
            kind = _collective_type(known)
            if kind not in SUPPORTED_COMMUNICATION:
                yield at, "comm-type", kind or _attribute_text(known, "comm_type")
            if kind == "ALL_GATHER" and size is not None and size < MIN_ALL_GATHER_BYTES:
                yield at, "comm-size", f"an all-gather of {size} bytes"
        else:
            yield from _message_violations(program, at, known, ranks)
        if program.types[at] == COLLECTIVE or "pg_name" in known:
            yield from _group_violations(program.rank, at, known, groups)


def _group_violations(
    rank: int, at: int, known: Attributes, groups: Mapping[str, Sequence[int]]
) -> Iterator[Violation]:
    group = known["pg_name"].value if "pg_name" in known else ""
    if not is_group_key(group):
        yield at, "group", _attribute_text(known, "pg_name")
    elif group not in groups:
        yield at, "group", f"group {group} is not listed"
    elif rank not in groups[group] and _collective_type(known) != "BROADCAST":
        # A broadcast is replayed by each rank for itself, whosever group it names.
        yield at, "group", f"rank {rank} is not in group {group}"


def _message_violations(
    program: EtProgram, at: int, known: Attributes, ranks: Mapping[int, EtProgram]
) -> Iterator[Violation]:
    own, other = ("comm_src", "comm_dst") if program.types[at] == SEND else ("comm_dst", "comm_src")
    missing = [name for name in (own, other, "comm_tag") if _whole_number(known, name, MAX_TAG) is None]
    if missing:
        yield at, "message", _attribute_text(known, missing[0])
    elif known[own].value != program.rank:
        yield at, "message", f"{own} is {known[own].value} in the file of rank {program.rank}"
    elif known[other].value not in ranks or known[other].value == program.rank:
        yield at, "message", f"{other} is {known[other].value}"


def _collective_type(known: Attributes) -> str:
    """Name a collective by its type; "" where it has none that is known."""
    number = _whole_number(known, "comm_type")
    return "" if number is None else TYPE_NAMES.get(number, "")


def _whole_number(known: Attributes, name: str, largest: int = 2**64) -> int | None:
    found = known.get(name)
    return found.value if found and found.kind in WHOLE_NUMBERS and 0 <= found.value <= largest else None


def _attribute_text(known: Attributes, name: str) -> str:
    if name not in known:
        return f"{name} is absent"
    return f"{name} is {str(known[name].value)[:60]!r} ({known[name].kind or 'no value'})"


def collective_mismatches(
    programs: Mapping[int, EtProgram], groups: Mapping[str, Sequence[int]]
) -> Iterator[tuple[int, Violation]]:
    """Yield, per group and rank, the first collective that differs from the first member's of the same number."""
    listed: dict[str, dict[int, list[int]]] = {key: {rank: [] for rank in ranks} for key, ranks in groups.items()}
    for rank, program in programs.items():
        for at, known in program.communication.items():
            members = listed[known["pg_name"].value] if program.types[at] == COLLECTIVE else {}
            if rank in members:
                members[rank].append(at)
    for key, members in listed.items():
        first = min(members, default=0)
        for rank in sorted(members):
            if breach := _first_mismatch(key, programs[first], members[first], programs[rank], members[rank]):
                yield rank, breach


def _first_mismatch(key: str, one: EtProgram, ours: list[int], other: EtProgram, theirs: list[int]) -> Violation | None:
    rule = "collectives-differ"
    # The n-th collective of one rank meets the n-th of the other: only the first difference says what went wrong.
    for number, (a, b) in enumerate(zip(ours, theirs, strict=False)):
        if (left := _collective_text(one, a)) != (right := _collective_text(other, b)):
            return b, rule, f"number {number} of group {key} is {right} on rank {other.rank}, {left} on rank {one.rank}"
    if len(ours) == len(theirs):
        return None
    what = f"group {key} has {len(theirs)} collectives on rank {other.rank}, {len(ours)} on rank {one.rank}"
    return theirs[-1] if theirs else -1, rule, what


def _collective_text(program: EtProgram, at: int) -> str:
    known = program.communication[at]
    return f"{TYPE_NAMES[known['comm_type'].value]} of {known['comm_size'].value:,} bytes"


def message_mismatches(programs: Mapping[int, EtProgram]) -> Iterator[tuple[int, Violation]]:
    """Yield the sends without a receive of the same size, and the receives without a send."""
    ends: dict[Message, dict[bool, list[tuple[int, int]]]] = defaultdict(lambda: {True: [], False: []})
    for rank, program in programs.items():
        for at in program.communication:
            if program.types[at] != COLLECTIVE:
                ends[program.message(at)][program.types[at] == SEND].append((rank, at))
    for (source, target, tag), sides in ends.items():
        name = f"the message from rank {source} to {target} with tag {tag}"
        sizes = [
            [programs[rank].communication[at]["comm_size"].value for rank, at in sides[end]] for end in (True, False)
        ]
        if sizes[0] != sizes[1]:
            rank, at = (sides[True] or sides[False])[0]
            yield (
                rank,
                (at, "message-without-partner", f"{name} is sent as {sizes[0]} and received as {sizes[1]} bytes"),
            )
