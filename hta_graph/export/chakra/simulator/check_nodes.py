"""The linter's rules for nodes by themselves and for what they wait for."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hta_graph.export.chakra.files.schema import NODE_TYPES
from hta_graph.export.chakra.simulator.check_communication import Breach
from hta_graph.export.chakra.simulator.dependency_order import circle_text, cycle_in
from hta_graph.export.chakra.simulator.et_program import COMMUNICATION_TYPES, EtProgram

__all__ = ["dependency_breaches", "node_breaches"]


def node_breaches(program: EtProgram) -> Iterator[Breach]:
    """Yield the nodes whose ids, types or sides ASTRA-sim stumbles over."""
    for at in np.flatnonzero(program.ids[1:] == program.ids[:-1]).tolist():
        yield at, "duplicate-id", "two nodes have this id"
    runs = {NODE_TYPES["COMP_NODE"], *COMMUNICATION_TYPES}
    labels = {number: label for label, number in NODE_TYPES.items()}
    for at, kind in enumerate(program.types):
        if kind not in runs:
            yield at, "node-type", f"its type is {labels.get(kind, kind)}"
    for at, found in enumerate(program.cpu_kinds):
        if found != "bool_val":
            yield at, "attribute-type", f"is_cpu_op is a {found or 'thing without a value'}"


def dependency_breaches(program: EtProgram) -> Iterator[Breach]:
    """Yield the nodes that can never run for what they wait for."""
    unknown = ~program.is_known
    for absent, at in zip(program.awaited[unknown].tolist(), program.waiting[unknown].tolist(), strict=True):
        yield at, "absent-dependency", f"it waits for id {absent}"
    # A node that waits for itself is a circle of its own and has its own rule.
    source, target = program.pairs
    itself = source == target
    for at in source[itself].tolist():
        yield at, "self-dependency", "it waits for itself"
    circle = cycle_in(source[~itself], target[~itself], len(program))
    if circle:
        through = circle_text([f"{program.ids[at]} ({program.names[at][:40]})" for at in circle])
        yield circle[0], "cycle", f"it waits for itself, through others: {through}"
