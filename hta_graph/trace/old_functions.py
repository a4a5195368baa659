"""Traces of PyTorch's profiler before Kineto (``torch.autograd.profiler``), which writes them still without it.

A bare list of rows without a category: operators in the process ``CPU functions`` by thread, kernels in ``CUDA
functions`` by device, and arrows ``cpu_to_cuda`` from operators to the kernels that they launched. There are no calls,
streams or copies: an operator stands for the call, all work of a device for one stream. Source: export_chrome_trace in
torch/autograd/profiler.py (1.4) and profiler_util.py.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hta_graph.base.arrays import freeze
from hta_graph.model import Codes, EventKind, Ids, Ints
from hta_graph.trace.table import EventTable

OLD_PROCESS = re.compile(r"(?P<kind>[A-Z]\w{1,20}) functions")
"""The process of such rows: of the CPU or, for example, CUDA."""
OLD_ARROW = re.compile(r"cpu_to_\w{1,20}")
"""The category of arrows from operators to what they launched on a device."""

LaunchArrow = tuple[Any, int, str, bool]
"""An arrow's id, time (ns), name, and whether it starts there."""


def old_kinds(rows: Sequence[Any], places: Ints, kind: Codes) -> None:
    """Set the kinds of the rows at some places, which have no category, where their process says what they are."""
    for at in places.tolist():
        pid = rows[at].pid
        match = OLD_PROCESS.fullmatch(pid) if isinstance(pid, str) else None
        if match:
            kind[at] = EventKind.CPU_OP if match["kind"] == "CPU" else EventKind.KERNEL


def with_old_launches(events: EventTable, names: Sequence[str], arrows: Sequence[LaunchArrow]) -> EventTable:
    """Give operators and the kernels that they launched a common correlation, as the arrows say."""
    ends: dict[Any, list[LaunchArrow | None]] = defaultdict(lambda: [None, None])
    for arrow in arrows:
        ends[arrow[0]][0 if arrow[3] else 1] = arrow
    operators = _rows_by_place(events, names, EventKind.CPU_OP)
    kernels = _rows_by_place(events, names, EventKind.KERNEL)
    correlation = events.correlation.copy()
    for start, end in ends.values():
        operator = operators.get(start[1:3], -1) if start else -1
        kernel = kernels.get(end[1:3], -1) if end else -1
        if operator >= 0 and kernel >= 0:
            # One operator may launch several kernels.
            correlation[operator] = correlation[kernel] = operator + 1
    return replace(events, correlation=freeze(correlation))


def _rows_by_place(events: EventTable, names: Sequence[str], kind: EventKind) -> dict[tuple[int, str], int]:
    """Return the row that starts at each time (ns) under each name."""
    rows: Ids = np.flatnonzero(events.kind == kind).astype(np.int32)
    starts, own = events.start[rows].tolist(), events.name[rows].tolist()
    return {(start, names[name]): row for start, name, row in zip(starts, own, rows.tolist(), strict=True)}
