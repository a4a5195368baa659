"""Bytes → Trace: the only room that knows JSON.

The way of a file: ``unpacking`` and ``source`` (its bytes, no more than ``allowance`` lets), ``reader`` with ``parts``
and ``tolerant`` (rows), ``collect`` with ``clock`` and ``printed_times`` (columns), ``assemble`` with ``lanes`` and
``order`` (the trace, a ``table``); ``read`` goes it. ``peek`` and ``rank_files`` find the files of a job; ``details``
and ``profiler_ranges`` take a second look for what does not decide the graph. ``vocabulary`` holds every name and
category that decides something.
"""

from hta_graph.trace.rank_files import RankFile
from hta_graph.trace.read import find_ranks, read_trace, read_traces
from hta_graph.trace.table import EventTable, Flows, LaneTable, Step, SyncTable, Trace

__all__ = [
    "EventTable",
    "Flows",
    "LaneTable",
    "RankFile",
    "Step",
    "SyncTable",
    "Trace",
    "find_ranks",
    "read_trace",
    "read_traces",
]
