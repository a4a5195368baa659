"""The linter's rules for nodes by themselves and for what they wait for."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hta_graph.chakra.check_communication import Violation
from hta_graph.chakra.et_program import COMMUNICATION_TYPES, COMPUTATION, EtProgram
from hta_graph.chakra.schema import NODE_TYPES
from hta_graph.chakra.topological_order import cycle_text, find_cycle

__all__ = ["MAX_NODE_NS", "MAX_RUN_NS", "dependency_violations", "duration_violations", "node_violations"]

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
            yield at, "duration", f"with it the nodes up to its id last {total + length:,} ns"
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
        yield circle[0], "cycle", f"it waits for itself, through others: {through}"
