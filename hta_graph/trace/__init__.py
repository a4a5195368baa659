"""Bytes → Trace: the only room that knows JSON.

The way: ``source`` (bytes), ``parts``, ``tolerant`` and ``decode`` (rows), ``collect`` (columns of rows), ``clock``
(exact times), ``lanes``, ``order``, ``assemble`` (the trace), ``details`` (arguments that are asked for later),
``peek``, ``ranks`` and ``read`` (files and folders). ``vocabulary`` holds every name and category that decides
something.
"""

from hta_graph.trace.ranks import RankFile
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
