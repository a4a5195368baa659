"""The vocabulary: kinds of events and edges, evidence, classes of time, and array types.

Times are int64 nanoseconds, absolute. A *point* is the start (``2 * event``) or the end (``2 * event + 1``) of one.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CLOCK_FAULT_LIMIT_NS",
    "CPU_KINDS",
    "GPU_KINDS",
    "WALKABLE",
    "BoundBy",
    "EdgeKind",
    "EventKind",
    "Evidence",
    "Rule",
    "kind_mask",
]

Ints = NDArray[np.int64]
"""int64 columns: times, correlation and external ids."""
Ids = NDArray[np.int32]
"""int32 columns: event and point numbers, name and lane codes; -1 is none."""
Codes = NDArray[np.int8]
"""int8 columns: enum members."""
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
"""float64 columns: rates; NaN where absent. Times are never floats."""

CLOCK_FAULT_LIMIT_NS = 1_000_000
"""How far GPU and CPU clocks may disagree before an edge is left out: 1 ms (real traces reach 0.1 ms)."""


class _Named(IntEnum):
    @property
    def label(self) -> str:
        """The name in output: lower case."""
        return self.name.lower()


class EventKind(_Named):
    """What a row of the trace stands for; only the first five have points."""

    CPU_OP = 0
    RUNTIME = 1
    KERNEL = 2
    MEMCPY = 3
    MEMSET = 4
    ANNOTATION = 5
    PYTHON_FUNCTION = 6
    OVERHEAD = 7
    SYNC_RECORD = 8
    GPU_ANNOTATION = 9
    MEMORY = 10
    OTHER = 11


class EdgeKind(_Named):
    """Why the target point could not have happened before the source point."""

    THREAD_ORDER = 0
    EXECUTION = 1
    LAUNCH = 2
    STREAM_ORDER = 3
    GRAPH_ORDER = 4
    EVENT_WAIT = 5
    STREAM_SYNC = 6
    DEVICE_SYNC = 7
    EVENT_SYNC = 8
    BLOCKING_COPY = 9
    THREAD_HANDOFF = 10
    FORWARD_BACKWARD = 11
    RUNTIME_LOCK = 12
    QUEUE_FULL = 13


class Evidence(_Named):
    """Whether the trace says so or a rule deduced it."""

    RECORDED = 0
    INFERRED = 1


class Rule(_Named):
    """The named rule that produced an edge; ``RECORDED`` is the trace itself."""

    RECORDED = 0
    COPY_DIRECTION_AND_TIMING = 1
    """A copy whose direction and host kind block, and whose call returned after it."""
    GRAPH_IN_LAUNCHING_STREAM = 2
    """A graph launch is one piece of work of the stream that its thread launches on."""
    STREAM_BY_TIMING = 3
    """Of the streams in question the one whose work ended just before what waited for it went on."""
    ONLY_OTHER_STREAM = 4
    """The only stream that could be meant."""
    STREAM_OF_LAST_LAUNCH = 5
    """The stream that the thread launched on last."""
    EVERY_STREAM = 6
    """A device synchronisation waits for every stream."""
    SILENCE_OF_LAUNCHING_THREAD = 7
    """The autograd thread works while the launching thread does nothing."""
    RETURNED_TOGETHER = 8
    """A call took far longer than usual and returned right after another one that holds the same lock."""
    SLOT_FREED = 9
    """A launch took far longer than usual with the queue full and returned when the stream went on."""


class BoundBy(_Named):
    """The class of a stretch of the critical path."""

    CPU_BOUND = 0
    DATA_LOADING = 1
    GPU_COMPUTE_BOUND = 2
    GPU_COMMUNICATION_BOUND = 3
    GPU_MEMORY_BOUND = 4
    GPU_KERNEL_KERNEL_OVERHEAD = 5
    GPU_KERNEL_LAUNCH_OVERHEAD = 6
    CPU_GAP = 7
    SYNC_OVERHEAD = 8
    UNEXPLAINED = 9


CPU_KINDS = (EventKind.CPU_OP, EventKind.RUNTIME)
GPU_KINDS = (EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET)
WALKABLE = CPU_KINDS + GPU_KINDS


def kind_mask(kind: Codes, members: tuple[EventKind, ...]) -> Bools:
    """Mark the rows whose kind is one of ``members``.

    >>> kind_mask(np.array([0, 2, 5], np.int8), GPU_KINDS)
    array([False,  True, False])
    """
    table = np.zeros(len(EventKind), np.bool_)
    table[list(members)] = True
    return table[kind]
