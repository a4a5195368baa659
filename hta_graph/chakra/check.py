"""The linter: every rule by which ASTRA-sim aborts on a folder of ``.et`` files, stalls in silence, or errs.

    result = check(read_folder("workload"))
    result.findings, result.execution

ASTRA-sim ends with exit status 0 even after a stall, so that a run proves little. The rules were found by running it
and by reading it (master 518bd51 of 2026-03-25, branch chakra_main_paper 77e78a2).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hta_graph.chakra.astra_sim import Execution, execute
from hta_graph.chakra.check_communication import (
    collective_mismatches,
    communication_violations,
    is_group_key,
    message_mismatches,
)
from hta_graph.chakra.check_nodes import (
    MAX_RUN_NS,
    dependency_violations,
    duration_violations,
    node_violations,
)
from hta_graph.chakra.et_files import GROUPS_FILE, EtFolder
from hta_graph.chakra.et_program import EtProgram, rank_programs
from hta_graph.chakra.simulated import SUPPORTED_COMMUNICATION
from hta_graph.chakra.stalls import stall_lines
from hta_graph.storage.named_places import is_remote

__all__ = ["RULES", "CheckResult", "Finding", "check", "check_document"]

CONVERT_AGAIN = "convert the traces again"

RULES: dict[str, tuple[str, str]] = {
    "not-writable": ("ASTRA-sim opens the file for writing and fails", "chmod u+w"),
    "ranks": ("ASTRA-sim reads ranks 0 to n - 1", "renumber the files"),
    "no-nodes": ("the rank has nothing to do", CONVERT_AGAIN),
    "no-metadata": ("readers skip the first message of a file: the node is lost", "put a GlobalMetadata message first"),
    "duplicate-id": ("of two nodes with one id the last wins, in silence", "give every node its own id"),
    "node-type": ("ASTRA-sim aborts on it", f"use COMP_NODE or a COMM node; groups go into {GROUPS_FILE}"),
    "duration": ("ASTRA-sim never ends the node, in silence", "in µs, a node up to 2^53 ns, all ranks up to 2^63 ns"),
    "absent-dependency": ("ASTRA-sim throws on a dependency on an id that no node has", "drop it, or add the node"),
    "self-dependency": ("the node never runs, in silence", "drop the dependency"),
    "cycle": ("nodes that wait for each other never run, in silence", "drop one of the dependencies"),
    "attribute-type": ("readers throw on it or take it for 0", "is_cpu_op: bool_val; comm_priority: an integer"),
    "communication-on-cpu": ("ASTRA-sim throws on a communication on the CPU", "set is_cpu_op to false"),
    "comm-type": (
        "ASTRA-sim aborts without a supported one", f"an integer, one of {', '.join(SUPPORTED_COMMUNICATION[:-2])}",
    ),
    "comm-size": ("ASTRA-sim aborts without it, or never ends the node", "its input: 0 (all-gather: 4) to 2^53 bytes"),
    "group": ("ASTRA-sim aborts, or takes all ranks", f"pg_name: text of a number below 2^31 in {GROUPS_FILE}"),
    "groups-file": ("ASTRA-sim ignores or refuses it", 'keys from "1"; ranks that have files; no "empty" in the path'),
    "message": ("ASTRA-sim aborts without both ends and a tag", "comm_src, comm_dst: ranks; comm_tag: 0 to 2^31 - 1"),
    "involved-dim": ("ASTRA-sim exits on another type", "bool_list, one entry per dimension, or leave it out"),
    "collectives-differ": ("the ranks of the group wait for each other for ever, in silence", CONVERT_AGAIN),
    "message-without-partner": ("one end waits for ever, in silence", CONVERT_AGAIN),
    "stall": ("the ranks wait for each other for ever, in silence", "issue all collectives in one order on all ranks"),
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
        notes.append("one rank: ASTRA-sim refuses fewer than two; copy the file under the next rank's name")
    if any(any(program.on_cpu) for program in programs.values()):
        notes.append("with CPU nodes ASTRA-sim master writes no statistics per type; its finish times are right")
    return notes


def _file_findings(folder: EtFolder, programs: Mapping[int, EtProgram]) -> Iterator[Finding]:
    if sorted(programs) != list(range(len(programs))):
        yield Finding(folder.prefix, None, "ranks", f"there are files for {', '.join(map(str, sorted(programs)))}")
    for program in programs.values():
        path = program.file.path
        if not is_remote(path) and not os.access(path, os.W_OK):
            yield Finding(path.name, None, "not-writable", "no write permission")
        if not program.file.has_metadata:
            yield Finding(path.name, None, "no-metadata", "the first message is no metadata")
        if not len(program):
            yield Finding(path.name, None, "no-nodes", "there is no node")


def _groups_file_findings(folder: EtFolder, programs: Mapping[int, EtProgram]) -> Iterator[Finding]:
    if folder.groups is None and any(
        "pg_name" in known for p in programs.values() for known in p.communication.values()
    ):
        yield Finding(GROUPS_FILE, None, "groups-file", "there is no such file, and nodes name groups")
    if folder.groups and "empty" in str(folder.path):
        yield Finding(GROUPS_FILE, None, "groups-file", f'its path, {folder.path}, contains "empty"')
    for key, ranks in (folder.groups or {}).items():
        absent = [rank for rank in ranks if rank not in programs]
        if not is_group_key(key):
            yield Finding(GROUPS_FILE, None, "groups-file", f"{key[:40]!r} is no key of a group")
        if absent:
            yield Finding(GROUPS_FILE, None, "groups-file", f"rank {absent[0]} of group {key[:40]} has no file")
        if len(set(ranks)) < len(ranks):
            yield Finding(GROUPS_FILE, None, "groups-file", f"group {key[:40]} names a rank twice")
