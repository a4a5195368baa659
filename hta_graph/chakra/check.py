"""The linter: every rule by which ASTRA-sim aborts on a folder of ``.et`` files, stalls in silence, or errs.

    result = check(read_folder("workload"))
    result.findings, result.execution

ASTRA-sim ends with exit status 0 even after a stall, so that a run proves little. The rules were found by running it
and by reading it (master 518bd51 of 2026-03-25, branch chakra_main_paper 77e78a2).
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hta_graph.base.storage.location import is_remote
from hta_graph.chakra.astra_sim_executor import (
    COLLECTIVE,
    COMMUNICATION_TYPES,
    COMPUTATION,
    MIN_ALL_GATHER_BYTES,
    SEND,
    SUPPORTED_COMMUNICATION,
    EtAttribute,
    EtProgram,
    Execution,
    Message,
    execute,
    rank_programs,
)
from hta_graph.chakra.et_files import GROUPS_FILE, EtFolder
from hta_graph.chakra.schema import COLLECTIVES, NODE_TYPES
from hta_graph.chakra.topological_order import cycle_text, find_cycle

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
    """Return whether ASTRA-sim takes a text for a group: a whole number from 1 to 2^31 - 1.

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


MAX_NODE_NS = 2**53
"""The longest single node that ASTRA-sim was seen to end (ns, 104 days); one of 2^54 ns it never ended."""

MAX_RUN_NS = 2**63
"""So long (ns) all ranks may take together, if none waits while another one works: times are kept in 64 bits."""


def node_violations(program: EtProgram) -> Iterator[Violation]:
    """Yield the nodes whose ids, types or sides ASTRA-sim stumbles over."""
    for at in np.flatnonzero(program.ids[1:] == program.ids[:-1]).tolist():
        yield at, "duplicate-id", "two nodes have this id"
    runs = {COMPUTATION, *COMMUNICATION_TYPES}
    labels = {number: label for label, number in NODE_TYPES.items()}
    for at, kind in enumerate(program.types):
        if kind not in runs:
            yield at, "node-type", f"its type is {labels.get(kind, kind)}"
    for at, found in enumerate(program.cpu_kinds):
        if found != "bool_val":
            yield at, "attribute-type", f"is_cpu_op is a {found or 'thing without a value'}"


def duration_violations(program: EtProgram, longest_rank: int) -> Iterator[Violation]:
    """Yield the nodes that last too long, and the one with which a rank lasts longer than ``longest_rank`` (ns)."""
    total, transfers = 0, program.transfers()
    for at, micros in enumerate(program.micros):
        length = max(1000 * micros, transfers.get(at, 0))
        if length > MAX_NODE_NS:
            yield at, "duration", f"it lasts {length:,} ns"
        elif total <= longest_rank < total + length:
            yield at, "duration", f"the nodes up to its id take {total + length:,} ns"
        total += length


def dependency_violations(program: EtProgram) -> Iterator[Violation]:
    """Yield the nodes that can never run for what they wait for."""
    unknown = ~program.is_known
    for absent, at in zip(program.dependency_ids[unknown].tolist(), program.dependents[unknown].tolist(), strict=True):
        yield at, "absent-dependency", f"it waits for id {absent}"
    # A node that waits for itself is a circle of its own and has its own rule.
    source, target = program.pairs
    itself = source == target
    for at in source[itself].tolist():
        yield at, "self-dependency", "it waits for itself"
    circle = find_cycle(source[~itself], target[~itself], len(program))
    if circle:
        through = cycle_text([f"{program.ids[at]} ({program.names[at][:40]})" for at in circle])
        yield circle[0], "cycle", f"it waits for itself through other nodes: {through}"


def stall_lines(
    programs: Mapping[int, EtProgram], execution: Execution, groups: Mapping[str, Sequence[int]]
) -> Iterator[tuple[int, int, str]]:
    """Yield (rank, place, why) of the nodes at which ranks are stuck; none if all nodes have ended."""
    for (group, number), places in sorted(execution.pending_collectives.items()):
        here = {rank for rank, _ in places}
        absent = [rank for rank in groups[group] if rank not in here]
        others = ", ".join(f"rank {rank}, which {_stalled_at(programs[rank], execution, rank)}" for rank in absent[:3])
        more = f" and {len(absent) - 3} more" if len(absent) > 3 else ""
        for rank, at in places:
            name = programs[rank].names[at][:60]
            yield rank, at, f"{name} waits in collective {number} of group {group} for {others}{more}"
    for (source, _, tag), places in sorted(execution.pending_receives.items()):
        for rank, at in places:
            name = programs[rank].names[at][:60]
            where = _stalled_at(programs[source], execution, source)
            yield rank, at, f"{name} waits for the message with tag {tag} from rank {source}, which {where}"


def _stalled_at(program: EtProgram, execution: Execution, rank: int) -> str:
    """Return where a rank is stuck: at a started, unfinished node, else at the first node that never started."""
    started, ended = execution.start[rank], execution.end[rank]
    stuck = [at for at in execution.stalled[rank] if started[at] >= 0] or execution.stalled[rank]
    if not stuck:
        return f"has finished all its {len(ended):,} nodes"
    return f"is stuck at node {program.ids[stuck[0]]} ({program.names[stuck[0]][:40]})"


CONVERT_AGAIN = "convert the traces again"

RULES: dict[str, tuple[str, str]] = {
    "not-writable": ("ASTRA-sim opens the file for writing and fails", "chmod u+w"),
    "ranks": ("ASTRA-sim reads ranks 0 to n - 1", "renumber the files"),
    "no-nodes": ("the rank has no nodes", CONVERT_AGAIN),
    "no-metadata": ("readers skip a file's first message, so the node is lost", "put a GlobalMetadata message first"),
    "duplicate-id": ("if two nodes share an id, the last one silently wins", "give every node its own id"),
    "node-type": ("ASTRA-sim aborts on it", f"use COMP_NODE or a COMM node; groups go into {GROUPS_FILE}"),
    "duration": ("ASTRA-sim silently never finishes the node", "use µs; at most 2^53 ns a node, 2^63 ns in all"),
    "absent-dependency": ("ASTRA-sim throws on a dependency on an unknown id", "drop it, or add the node"),
    "self-dependency": ("the node silently never runs", "drop the dependency"),
    "cycle": ("nodes that wait for each other silently never run", "drop one of the dependencies"),
    "attribute-type": ("readers throw on it or read it as 0", "set is_cpu_op as bool_val, comm_priority as an integer"),
    "communication-on-cpu": ("ASTRA-sim throws on a communication on the CPU", "set is_cpu_op to false"),
    "comm-type": (
        "ASTRA-sim aborts without a supported one", f"set an integer, one of {', '.join(SUPPORTED_COMMUNICATION[:-2])}",
    ),
    "comm-size": (
        "ASTRA-sim aborts without it, or never ends the node", "set the input size: 0 (all-gather: 4) to 2^53 bytes",
    ),
    "group": (
        "ASTRA-sim aborts, or uses all ranks", f"set pg_name to a number below 2^31 (text) listed in {GROUPS_FILE}",
    ),
    "groups-file": (
        "ASTRA-sim ignores or rejects it", 'use keys from "1" and ranks that have files; avoid "empty" in the path',
    ),
    "message": ("ASTRA-sim aborts without both ends and a tag", "set comm_src, comm_dst and a comm_tag up to 2^31 - 1"),
    "involved-dim": ("ASTRA-sim exits on another type", "use a bool_list with one entry per dimension, or omit it"),
    "collectives-differ": ("the ranks of the group silently wait for each other forever", CONVERT_AGAIN),
    "message-without-partner": ("one end silently waits forever", CONVERT_AGAIN),
    "stall": ("the ranks silently wait for each other forever", "issue all collectives in the same order on all ranks"),
}  # fmt: skip
"""Rule → what happens, and the remedy."""


@dataclass(frozen=True)
class Finding:
    """One thing that ASTRA-sim would stumble over: where, against which rule, and what it is."""

    file: str
    node: int | None
    rule: str
    what: str

    def __str__(self) -> str:
        happens, remedy = RULES[self.rule]
        place = self.file if self.node is None else f"{self.file}: node {self.node}"
        # Names of files and nodes may hold ends of lines.
        return " ".join(f"{place}: {self.rule}: {self.what}; {happens}; {remedy}".split())


@dataclass(frozen=True)
class CheckResult:
    """What was found, what else to know, the ranks, and how they ran (``None`` where something speaks against it)."""

    findings: list[Finding]
    notes: list[str]
    programs: dict[int, EtProgram]
    execution: Execution | None


def check(folder: EtFolder) -> CheckResult:
    """Look at every file by itself, at all ranks together, and run them if nothing speaks against it."""
    programs = rank_programs(folder)
    groups = folder.groups or {}
    findings = [*_file_findings(folder, programs), *_groups_file_findings(folder, programs)]
    for program in programs.values():
        findings += [_finding_at(program, *breach) for breach in node_violations(program)]
        share = MAX_RUN_NS // len(programs)
        findings += [_finding_at(program, *breach) for breach in duration_violations(program, share)]
        findings += [_finding_at(program, *breach) for breach in dependency_violations(program)]
        findings += [_finding_at(program, *breach) for breach in communication_violations(program, groups, programs)]
    # Ranks are compared, and then run, only where each is sound by itself: one broken node would show as many.
    if not findings:
        differences = [*collective_mismatches(programs, groups), *message_mismatches(programs)]
        findings = [_finding_at(programs[rank], *breach) for rank, breach in differences]
    if findings:
        return CheckResult(findings, _general_notes(programs), programs, None)
    execution = execute({rank: program.program() for rank, program in programs.items()}, groups)
    stalls = [
        _finding_at(programs[rank], at, "stall", why) for rank, at, why in stall_lines(programs, execution, groups)
    ]
    return CheckResult(stalls, _general_notes(programs), programs, execution)


def check_document(result: CheckResult) -> dict[str, Any]:
    """Return the result as a document of schema ``hta-graph/chakra-check/1``."""
    findings = [
        {"file": found.file, "node": found.node, "rule": found.rule, "what": found.what,
         "happens": RULES[found.rule][0], "remedy": RULES[found.rule][1]}
        for found in result.findings
    ]  # fmt: skip
    return {"schema": "hta-graph/chakra-check/1", "findings": findings, "notes": result.notes}


def _finding_at(program: EtProgram, at: int, rule: str, what: str) -> Finding:
    return Finding(program.file.path.name, int(program.ids[at]) if at >= 0 else None, rule, what)


def _general_notes(programs: Mapping[int, EtProgram]) -> list[str]:
    notes = []
    if len(programs) == 1:
        notes.append("only one rank, and ASTRA-sim needs at least two; copy the file under the next rank's name")
    if any(any(program.on_cpu) for program in programs.values()):
        notes.append("with CPU nodes, ASTRA-sim (master) writes no statistics per type; its finish times are correct")
    return notes


def _file_findings(folder: EtFolder, programs: Mapping[int, EtProgram]) -> Iterator[Finding]:
    if sorted(programs) != list(range(len(programs))):
        yield Finding(folder.prefix, None, "ranks", f"files exist for {', '.join(map(str, sorted(programs)))}")
    for program in programs.values():
        path = program.file.path
        if not is_remote(path) and not os.access(path, os.W_OK):
            yield Finding(path.name, None, "not-writable", "no write permission")
        if not program.file.has_metadata:
            yield Finding(path.name, None, "no-metadata", "the first message is not metadata")
        if not len(program):
            yield Finding(path.name, None, "no-nodes", "there is no node")


def _groups_file_findings(folder: EtFolder, programs: Mapping[int, EtProgram]) -> Iterator[Finding]:
    if folder.groups is None and any(
        "pg_name" in known for p in programs.values() for known in p.communication.values()
    ):
        yield Finding(GROUPS_FILE, None, "groups-file", "the file is missing, but nodes name groups")
    if folder.groups and "empty" in str(folder.path):
        yield Finding(GROUPS_FILE, None, "groups-file", f'its path, {folder.path}, contains "empty"')
    for key, ranks in (folder.groups or {}).items():
        absent = [rank for rank in ranks if rank not in programs]
        if not is_group_key(key):
            yield Finding(GROUPS_FILE, None, "groups-file", f"{key[:40]!r} is not a group key")
        if absent:
            yield Finding(GROUPS_FILE, None, "groups-file", f"rank {absent[0]} of group {key[:40]} has no file")
        if len(set(ranks)) < len(ranks):
            yield Finding(GROUPS_FILE, None, "groups-file", f"group {key[:40]} names a rank twice")
