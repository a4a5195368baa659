"""What a trace says about its communication kernels: on themselves, on the operators around their launch, in names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.timeline import nearest_around
from hta_graph.model import Bools, EventKind, Ids
from hta_graph.multi_rank.matching.rank_members import COLLECTIVE_ARGUMENTS, SIZE_ARGUMENTS
from hta_graph.trace.event_args import EventArgs, Objects, read_event_args
from hta_graph.trace.profiler_names import PROCESS_GROUP_CALL

__all__ = ["KernelArguments", "read_kernel_arguments"]

KERNEL_ARGUMENTS = (*COLLECTIVE_ARGUMENTS, *SIZE_ARGUMENTS, "Src Rank", "Dst Rank")
OPERATOR_ARGUMENTS = (*KERNEL_ARGUMENTS, "Rank", "Global rank start", "Global rank stride")
CONCRETE_INPUTS = "Concrete Inputs"
INTEGER_ARGUMENTS = {
    "Seq", "Comms Id", "Group size", "In msg nelems", "Out msg nelems", "Src Rank", "Dst Rank", "Rank",
    "Global rank start", "Global rank stride",
}  # fmt: skip
DIGITS = re.compile(r"\d{1,20}")


@dataclass(frozen=True)
class KernelArguments:
    """Per kernel: recorded arguments by key, the process group's call that launched it ("": none) and its inputs.

    ``distributed`` is the header's part about the job.
    """

    arguments: dict[str, list[Any]]
    call: list[str]
    inputs: list[Any]
    distributed: Mapping[str, Any]


def read_kernel_arguments(graph: DependencyGraph, kernels: Ids, calls: Ids) -> KernelArguments:
    """Read what is recorded on kernels, else on the operators around the calls that launched them.

    Raises:
        TraceError: the file, which is read once more where something is recorded, is gone or has changed.
    """
    collective = graph.event_table.collective
    itself = np.where(collective[kernels], kernels, -1)
    # The arguments stand on record_param_comms, which may be around the operator that launched the kernel.
    operator = _nearest_enclosing(graph, calls, collective)
    is_call = np.array([name in PROCESS_GROUP_CALL for name in graph.names] or [False])[graph.event_table.name]
    call = _nearest_enclosing(graph, calls, is_call & (graph.event_table.kind == EventKind.CPU_OP))
    names = [graph.name_of(row) if row >= 0 else "" for row in call.tolist()]
    names_other = np.array([bool(name) and PROCESS_GROUP_CALL[name].other is not None for name in names], np.bool_)
    asked = [itself, operator, np.where(names_other, call, -1)]
    if all((rows < 0).all() for rows in asked):
        return KernelArguments(
            {key: [None] * len(kernels) for key in OPERATOR_ARGUMENTS}, names, [None] * len(kernels), {}
        )
    details = _read_event_arguments(graph, asked)
    arguments = {
        key: [
            _valid_argument(key, own if own is not None else around)
            for own, around in zip(*details.columns[key][:2], strict=True)
        ]
        for key in OPERATOR_ARGUMENTS
    }
    return KernelArguments(arguments, names, details.columns[CONCRETE_INPUTS][2], details.distributed)


def _valid_argument(key: str, value: Any) -> Any:
    """Return a recorded argument if it is of its kind, text or a number that fits its column; else None."""
    if key not in INTEGER_ARGUMENTS:
        return value if isinstance(value, (str, list)) else None
    number = int(value) if isinstance(value, str) and DIGITS.fullmatch(value) else value
    is_number = isinstance(number, int) and not isinstance(number, bool)
    return number if is_number and -1 <= number < (1 << 64 if key == "Comms Id" else 1 << 62) else None


def _nearest_enclosing(graph: DependencyGraph, calls: Ids, wanted: Bools) -> Ids:
    """Return the innermost operator around each call (-1: no call) that is wanted; -1 where there is none."""
    around = graph.operator_around
    return nearest_around(around, np.where(calls >= 0, around[calls], -1), wanted)


@dataclass(frozen=True)
class _EventArguments:
    """Values by key, one list for each list of rows that was asked for."""

    columns: dict[str, list[list[Any]]]
    distributed: Mapping[str, Any]


def _read_event_arguments(graph: DependencyGraph, asked: list[Ids]) -> _EventArguments:
    """Read all arguments in one pass over the file."""
    every = np.concatenate(asked)
    known = every >= 0
    details: EventArgs = read_event_args(graph.trace, (*OPERATOR_ARGUMENTS, CONCRETE_INPUTS), every[known])

    def split(values: Objects) -> list[list[Any]]:
        column = np.full(len(every), None, object)
        column[known] = values
        return [part.tolist() for part in np.split(column, len(asked))]

    return _EventArguments({key: split(values) for key, values in details.arguments.items()}, details.distributed)
