"""Descriptions of table columns: type, meaning, unit, and when a value is null.

A description is a JSON Schema, as the documents of answers need it. Columns of several analyses are described here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hta_graph.model import BoundBy, GapCause

Column = dict[str, Any]
"""A JSON Schema of the values in a column."""


def integer(meaning: str, *, null: bool = False) -> Column:
    """Describe an integer."""
    return _described("integer", meaning, null=null)


def ns(meaning: str, *, null: bool = False) -> Column:
    """Describe a time in integer nanoseconds."""
    return integer(f"{meaning} (ns)", null=null)


def byte_count(meaning: str, *, null: bool = False) -> Column:
    """Describe a number of bytes."""
    return integer(f"{meaning} (bytes)", null=null)


def share(meaning: str, *, null: bool = False) -> Column:
    """Describe a fraction of one."""
    return number(f"{meaning} (a fraction of one)", null=null)


def rate(meaning: str, *, null: bool = False) -> Column:
    """Describe a rate in 10^9 bytes per second."""
    return number(f"{meaning} (GB/s, 10^9 bytes per second)", null=null)


def number(meaning: str, *, null: bool = False) -> Column:
    """Describe a number that need not be an integer."""
    return _described("number", meaning, null=null)


def text(meaning: str, *, null: bool = False) -> Column:
    """Describe a text."""
    return _described("string", meaning, null=null)


def boolean(meaning: str) -> Column:
    """Describe what is true or false."""
    return _described("boolean", meaning)


def one_of(labels: Iterable[str], meaning: str, *, null: bool = False) -> Column:
    """Describe a value from a list."""
    return {**text(meaning, null=null), "enum": [*labels, *([None] if null else [])]}


def bound_by(meaning: str, *, null: bool = False) -> Column:
    """Describe a class of time on a critical path."""
    return one_of([kind.label for kind in BoundBy], meaning, null=null)


def list_of(of: Column, meaning: str) -> Column:
    """Describe a list."""
    return {"type": "array", "description": meaning, "items": of}


def _described(kind: str, meaning: str, *, null: bool = False) -> Column:
    return {"type": [kind, "null"] if null else kind, "description": meaning}


GAP_CAUSES = [cause.label for cause in GapCause]
GROUP_KIND = text("Purpose of the groups, such as tp; null if the traces do not describe it.", null=True)
PATH_OF_CALLS = "Enclosing operators and frames, outermost first, joined with slashes"

SHARED: Mapping[str, Column] = {
    # -- where
    "rank": integer("Rank of the row."),
    "scope": text("Window of the row, as in scopes."),
    "stream": text("Stream, as stream DEVICE:CONTEXT:STREAM."),
    "event_index": integer("Index of the event in traceEvents."),
    # -- names
    "name": text("Name; null if there is none.", null=True),
    "operator": text("Operator; null if none is open.", null=True),
    "kernel": text("Name of the kernel."),
    "kernel_sequence": text("Names of the kernels in order of their start, joined with arrows."),
    "call": text("Runtime call; null if not in the file.", null=True),
    "annotation": text("Name of the annotation; null if there is none.", null=True),
    "call_path": text(f"{PATH_OF_CALLS}; null if unknown.", null=True),
    "bound_by": bound_by("Class of the time."),
    # -- event indices
    "call_index": integer("Event index of the runtime call; null if not in the file.", null=True),
    # -- the GPU's time
    "window_ns": ns("Length of the window"),
    "exposed_communication_ns": ns("Time with communication but no computation running"),
    "exposed_memory_ns": ns("Time with only copies or memsets running"),
    "idle_ns": ns("Time with nothing running"),
    "time_ns": ns("Time"),
    # -- statistics
    "count": integer("Number of occurrences."),
    "sum_ns": ns("Total duration"),
    "min_ns": ns("Shortest duration"),
    "max_ns": ns("Longest duration"),
    "mean_ns": ns("Mean duration, rounded"),
    # -- overlap
    "collective": text("Recorded name of the collective; null if not recorded.", null=True),
    "group": text("Process group; null if not recorded.", null=True),
    "dtype": text("Type of the elements; null if not recorded.", null=True),
    "start_ns": ns("Start time, absolute"),
    "duration_ns": ns("Total duration"),
    # -- launches and queues
    "launches": integer("Number of launched activities."),
    "calls": integer("Number of calls."),
    "cpu_ns": ns("Total CPU time"),
    "gpu_ns": ns("Total GPU time"),
    # -- owners
    "activities": integer("Number of GPU activities."),
    "gpu_self_ns": ns("Self GPU time: the activities whose innermost owner it is"),
    # -- memory
    "first_bytes": byte_count("Total before the first event"),
    "last_bytes": byte_count("Total after the last event"),
    # -- ranks
    "bus_gbps": rate("Bus bandwidth as nccl-tests define it; null if not recorded", null=True),
    "times_last": integer("Number of collectives in which the rank came last."),
    "wait_caused_ns": ns("Waiting of other ranks in collectives in which the rank came last"),
    "groups": integer("Number of groups."),
    "worst_group": text("Group whose ranks wait longest."),
    "worst_rank": integer("Rank that causes the most waiting; null if no rank waits.", null=True),
    "host": text("Host; null if not recorded.", null=True),
    # -- two runs
    "control_ns": ns("Median of the control"),
    "test_ns": ns("Median of the test"),
    "diff_ns": ns("Test minus control"),
    "noise_ns": ns("Largest difference that noise explains"),
    "control_calls": integer("Number of calls in the control."),
    "test_calls": integer("Number of calls in the test."),
}
"""Column → its meaning in every table that does not declare its own."""
